"""Frames for notebooks: their dtypes with and without rows, what they hold, and that every file gives them back."""

import csv
import io
import json
import os
import re
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from examples import examples
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from log_builder import make_runs, with_record, write_set
from places import ROOT, TESTS
from report_builder import write_run_set

from reports import frames
from reports.page.content import ReportContent
from reports.page.report import render_report
from reports.results.logs import gather
from reports.tables.columns import FrameColumn
from reports.tables.documents import document_from, json_text
from reports.tables.frames import RUN_COLUMNS, evaluations_frame, frame_csv, make_frame, runs_frame, sets_frame
from reports.tables.records import EvaluationLists, ReportDocument, RunMember, SetMember
from reports.tables.reference import FRAMES
from rules.benchmarks.loader import load_benchmark
from rules.errors import InputError

REPORTS = ROOT / "reports"
TINY = load_benchmark("dlrm_tiny")
SETS = TESTS / "data" / "sets"
DTYPES: dict[str, dict[str, str]] = {
    "sets": {
        "string": "configuration benchmark division system rcp_outcome no_score_reason definition_sha256 "
        "dataset_sha256 organization round",
        "category": "status outcome",
        "Int64": "benchmark_version num_errors num_warnings num_runs num_runs_required num_converged num_unfinished "
        "global_batch_size num_runs_dropped",
        "float64": "score_s olympic_mean_s low_s high_s confidence coverage rcp_factor epochs_to_converge epochs_cv "
        "throughput_samples_per_s throughput_cv quality_target final_quality learning_rate peak_rss_bytes "
        "peak_device_bytes"
        " convergence_share speed_share overhead_share smallest_time_apart smallest_time_in_turns "
        "smallest_time_in_turns_low smallest_time_in_turns_high smallest_throughput_apart "
        "smallest_throughput_in_turns smallest_throughput_in_turns_low smallest_throughput_in_turns_high",
    },
    "runs": {
        "string": "configuration benchmark division run status reason log_sha256 path organization platform",
        "category": "counted",
        "Int64": "benchmark_version attempt seed started_ms samples_to_converge num_evaluations global_batch_size "
        "train_samples eval_samples",
        "float64": "time_to_train_s train_s eval_s overhead_s init_s epochs_to_converge throughput_samples_per_s "
        "final_quality quality_target learning_rate peak_rss_bytes peak_device_bytes energy_j "
        "samples_to_converge_smoothed",
    },
    "evaluations": {
        "string": "configuration run path",
        "Int64": "evaluation samples_count",
        "float64": "epoch_num elapsed_s quality",
    },
    "findings": {
        "string": "configuration code title message path found expected remedy citation",
        "category": "severity",
        "Int64": "line_num",
    },
    "measurements": {
        "string": "configuration kind benchmark system quantity unit path",
        "category": "scale direction",
        "Int64": "process seed",
        "float64": "value energy_j",
        "datetime64[ms, UTC]": "created_utc",
    },
}


def dtypes_of(data: frames.Frames) -> dict[str, dict[str, str]]:
    return {
        name: {str(column): str(dtype) for column, dtype in getattr(data, name).dtypes.items()} for name in DTYPES
    }


def test_every_column_has_its_dtype_with_rows_and_without(tmp_path: Path) -> None:
    expected = {
        frame: {column: dtype for dtype, columns in by_dtype.items() for column in columns.split()}
        for frame, by_dtype in DTYPES.items()
    }
    full = frames.read(SETS, write_run_set(tmp_path / "set"))
    assert all(len(getattr(full, name)) > 0 for name in DTYPES)
    assert dtypes_of(full) == expected
    empty = tmp_path / "empty.json"
    empty.write_text(json_text(ReportDocument(configurations=())), encoding="utf-8")
    nothing = frames.read(empty)
    assert all(len(getattr(nothing, name)) == 0 for name in FRAMES)
    assert dtypes_of(nothing) == expected
    for name, columns in ((name, FRAMES[name][1]) for name in DTYPES):
        assert list(getattr(full, name).columns) == [column.name for column in columns]
        for column in columns:
            if column.dtype == "category":
                assert tuple(getattr(nothing, name)[column.name].cat.categories) == column.values


def test_frames_hold_what_the_sets_hold(tmp_path: Path) -> None:
    runs = make_runs(TINY)
    runs[1] = with_record(runs[1], "opt_adagrad_epsilon", value=1e-3)
    write_run_set(tmp_path / "a", runs=runs)
    write_set(tmp_path / "b", TINY, make_runs(TINY, start_ms=1_700_000_000_000))
    data = frames.read(str(tmp_path))
    a, b = gather([tmp_path], second_opinion=False)
    means = data.runs.dropna(subset="time_to_train_s").groupby("configuration")["time_to_train_s"].mean()
    for one in (a, b):
        times = [run.log.time_to_train_s for run in one.runs if run.log.time_to_train_s is not None]
        assert means[one.label] == pytest.approx(sum(times) / len(times))
    dropped = data.runs[data.runs["counted"] == "dropped"].groupby("configuration").size()
    assert dropped.to_dict() == {one.label: sum(run.is_dropped for run in one.runs) for one in (a, b)}
    last = data.evaluations.groupby(["configuration", "run"])["quality"].last()
    assert last["a", "3"] == a.runs[3].log.final_quality
    found = data.findings[data.findings["configuration"] == "a"]
    assert list(found["code"]) == [finding.code for finding in a.verdict.findings]
    (finding,) = found[found["code"] == "HP101"].to_dict("records")
    assert (finding["severity"], finding["found"], finding["expected"]) == ("error", "0.001", "1e-08")
    assert finding["path"].endswith("result_1.txt") and finding["line_num"] > 1
    assert list(data.sets["num_errors"]) == [a.verdict.count("error"), b.verdict.count("error")]
    assert data.runs["peak_rss_bytes"].isna().sum() == 5, "b has no records"
    assert data.problems == ()


def test_every_kind_of_measurement_has_its_rows() -> None:
    folder = SETS / "throughput_sweep"
    data = frames.read(folder)
    assert len(data.runs) == len(data.sets) == 0
    assert data.measurements.groupby("kind").size().to_dict() == {"profile": 2, "throughput": 10}
    first = folder / "01-global_batch_size-128" / "extra"
    record = json.loads((first / "throughput.json").read_text(encoding="utf-8"))
    asked = json.loads((first / "run_set.json").read_text(encoding="utf-8"))
    rows = data.measurements[data.measurements["path"] == str(first / "throughput.json")]
    assert list(rows["value"]) == [process["samples_per_s"] for process in record["processes"]]
    assert list(rows["seed"]) == asked["seeds"]
    assert set(rows["created_utc"]) == {pd.Timestamp(asked["created_utc"]).as_unit("ms")}
    assert set(zip(rows["quantity"], rows["unit"], rows["direction"], strict=True)) == {
        ("Throughput", "samples/s", "higher")
    }


def test_labels_tell_measurements_of_equal_names_apart_in_all_frames(tmp_path: Path) -> None:
    """Two sweeps of one axis call their sets alike, and so may a result set be called."""
    first, second = (Path(shutil.copytree(SETS / "throughput_sweep", tmp_path / name)) for name in ("a", "b"))
    (tmp_path / "alias").symlink_to(second)
    folders = {
        "01-global_batch_size-128": "global_batch_size=128",
        "02-global_batch_size-256": "global_batch_size=256",
    }
    names = tuple(folders.values())
    data = frames.read(first, second, tmp_path / "alias")
    rows = data.measurements[data.measurements["kind"] == "throughput"]
    groups = rows.groupby(["configuration", "quantity", "unit"])["value"].describe()
    assert dict(zip(groups.index.get_level_values(0), groups["count"], strict=True)) == {
        f"{sweep}/{name}": 5 for sweep in "ab" for name in names
    }
    assert rows.groupby("configuration")["path"].nunique().eq(1).all()
    of_second = data.measurements[data.measurements["path"].str.startswith(str(second))]
    assert set(of_second["configuration"]) == {f"b/{name}" for name in names}, "of every kind"
    run_set = write_run_set(tmp_path / "c" / names[0])
    shutil.copy(first / "01-global_batch_size-128" / "extra" / "profile.json", run_set / "extra")
    data = frames.read(tmp_path / "a", tmp_path / "c")
    assert list(data.sets["configuration"]) == [names[0]]
    labels = {
        Path(path).parents[1]: label
        for path, label in data.measurements.groupby("path")["configuration"].first().items()
    }
    assert labels == {run_set: names[0], **{first / folder: f"a/{name}" for folder, name in folders.items()}}


def test_damaged_files_are_named_and_the_rest_is_read(tmp_path: Path) -> None:
    extra = tmp_path / "set" / "extra"
    extra.mkdir(parents=True)
    source = SETS / "throughput_sweep" / "01-global_batch_size-128" / "extra"
    (extra / "throughput.json").write_bytes((source / "throughput.json").read_bytes())
    (extra / "profile.json").write_text('{"schema_version": 1, "benchmark": 7}', encoding="utf-8")
    (extra / "run_set.json").write_text("{", encoding="utf-8")
    data = frames.read(tmp_path)
    assert len(data.measurements) == 5
    assert data.measurements["benchmark"].isna().all() and data.measurements["created_utc"].isna().all()
    assert [Path(problem.split(": ")[0]).name for problem in data.problems] == ["run_set.json", "profile.json"]


def test_where_there_is_nothing_it_says_what_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no result_\*\.txt"):
        frames.read(tmp_path)
    with pytest.raises(InputError, match="no such file"):
        frames.read(tmp_path / "missing.json")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-11-21T03:00:00.123456+02:00", datetime(2026, 11, 21, 1, 0, 0, 123_000, tzinfo=UTC)),
        ("2026-11-21T03:00:00", None),
        ("0001-01-01T00:00:00+01:00", None),
        ("yesterday", None),
        ("", None),
    ],
)
def test_moments_are_in_utc_and_anything_else_is_missing(
    text: str, expected: datetime | None, tmp_path: Path
) -> None:
    source = SETS / "throughput_sweep" / "01-global_batch_size-128" / "extra"
    extra = tmp_path / "extra"
    extra.mkdir()
    (extra / "throughput.json").write_bytes((source / "throughput.json").read_bytes())
    content = json.loads((source / "run_set.json").read_text(encoding="utf-8"))
    (extra / "run_set.json").write_text(json.dumps({**content, "created_utc": text}), encoding="utf-8")
    moments = frames.read(tmp_path).measurements["created_utc"]
    assert moments.isna().all() if expected is None else set(moments) == {pd.Timestamp(expected)}


@pytest.mark.slow
def test_the_notebook_of_the_readme_runs_without_torch(tmp_path: Path) -> None:
    write_run_set(tmp_path / "results" / "a")
    write_set(tmp_path / "results" / "b", TINY)
    shutil.copytree(SETS / "throughput_sweep", tmp_path / "results" / "measured")
    (code,) = re.findall(
        r"```python\n(from reports import frames\n.*?)```",
        (REPORTS / "README.md").read_text(encoding="utf-8"),
        flags=re.DOTALL,
    )
    code += "\nimport sys\nassert 'torch' not in sys.modules\nassert len(data.runs) == 11\n"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env=dict(os.environ) | {"COLUMNS": "80"},
    )
    assert done.returncode == 0, done.stderr
    assert "..." not in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert re.search(r"^a +5 +\d+\.\d+", done.stdout, flags=re.MULTILINE), done.stdout
    assert len(pd.read_parquet(tmp_path / "runs.parquet")) == 11


def test_every_column_says_what_it_means() -> None:
    for _, columns in FRAMES.values():
        assert [column.name for column in columns if not column.meaning] == []
        suffixes = {"s": "s", "bytes": "bytes", "j": "J", "ms": "ms since 1970, UTC"}
        for column in columns:
            suffix = column.name.rpartition("_")[2]
            if column.name.endswith("_samples_per_s"):
                assert column.unit == "samples/s"
            elif suffix == "s" and column.name.endswith("_per_s"):
                assert column.unit == ("items/s" if column.name == "items_per_s" else "queries/s")
            elif "_" in column.name and suffix in suffixes:
                assert column.unit == suffixes[suffix], column.name


def _values(column: FrameColumn, *, is_quality: bool) -> st.SearchStrategy[Any]:
    high = 1.0 if is_quality else column.high
    low = 0.0 if is_quality else column.low
    found: dict[str, st.SearchStrategy[Any]] = {
        "Int64": st.integers(-(2**63) if low is None else int(low), 2**63 - 1),
        "float64": st.floats(low, high, allow_nan=False, allow_infinity=False),
        "string": st.text(min_size=1),
        "category": st.sampled_from(column.values or ("",)),
    }
    return found[column.dtype]


_CELLS = {column.name: _values(column, is_quality="quality" in column.name) for column in RUN_COLUMNS[1:]}
_REQUIRED = ("run", "path")
_RUNS = st.fixed_dictionaries(
    {name: _CELLS[name] for name in _REQUIRED},
    optional={name: values for name, values in _CELLS.items() if name not in _REQUIRED},
)
_LISTS = st.lists(st.tuples(st.floats(0, 10), st.integers(0, 2**62), st.floats(0, 1e9), st.floats(0, 1)), max_size=3)


@st.composite
def documents(draw: st.DrawFn) -> ReportDocument:
    labels = draw(st.lists(st.text(min_size=1), unique=True, max_size=3))
    sets = []
    for label in labels:
        runs = []
        for index, cells in enumerate(draw(st.lists(_RUNS, max_size=3))):
            columns = list(zip(*draw(_LISTS), strict=True)) or [()] * 4
            lists = dict(zip(("epoch_num", "samples_count", "elapsed_s", "quality"), columns, strict=True))
            runs.append(RunMember(**{**cells, "run": str(index)}, evaluations=EvaluationLists(**lists)))
        sets.append(SetMember(configuration=label, status="own", runs=tuple(runs)))
    return ReportDocument(configurations=tuple(sets))


@pytest.mark.slow
@settings(max_examples=examples(60), deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(document=documents())
def test_what_is_exported_comes_back_from_json_parquet_and_csv(
    document: ReportDocument, tmp_path_factory: pytest.TempPathFactory
) -> None:
    assert document_from(json.loads(json_text(document)), "json") == document
    path = tmp_path_factory.mktemp("parquet") / "frame.parquet"
    for make in (sets_frame, runs_frame, evaluations_frame):
        frame = make(document)
        frame.to_parquet(path)
        # Of a category without rows Parquet keeps no values.
        back = pd.read_parquet(path).astype({} if len(frame) else frame.dtypes.to_dict())
        pd.testing.assert_frame_equal(back, frame, check_exact=True)
        header, *rows = csv.reader(io.StringIO(frame_csv(frame), newline=""))
        assert header == list(frame.columns)
        for row, cells in zip(rows, frame.astype(object).to_numpy().tolist(), strict=True):
            assert [_written(cell, text) for cell, text in zip(cells, row, strict=True)] == row


def _written(cell: Any, text: str) -> str:
    """What a cell must be written as; a number as any text that is the same number."""
    if pd.isna(cell):
        return ""
    if isinstance(cell, str):
        cell = "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in cell)
        return f"'{cell}" if cell[0] in "=+-@" else cell
    return text if type(cell)(text) == cell else f"not {text}"


def test_text_that_is_no_unicode_is_escaped(tmp_path: Path) -> None:
    columns = (FrameColumn(name="path", dtype="string", unit="", meaning="a path"),)
    frame = make_frame(columns, [["caf\udce9"], [None], ["plain"]])
    assert frame["path"].tolist()[::2] == ["caf\\udce9", "plain"]
    frame.to_parquet(tmp_path / "x.parquet")
    assert frame_csv(frame) == 'path\ncaf\\udce9\n""\nplain\n'


def test_an_export_is_read_as_its_directory_is(tmp_path: Path) -> None:
    write_run_set(tmp_path / "set")
    export = tmp_path / "export.json"
    export.write_text(
        render_report(ReportContent(results=gather([tmp_path / "set"])), output_format="json"), encoding="utf-8"
    )
    here, there = frames.read(tmp_path / "set"), frames.read(export)
    for name in ("sets", "runs", "evaluations"):
        pd.testing.assert_frame_equal(getattr(here, name), getattr(there, name), check_exact=True)
    assert (len(there.findings), len(there.measurements)) == (0, 0)
    assert list(frames.read(tmp_path / "set", export).sets["configuration"]) == ["set", "set (2)"]

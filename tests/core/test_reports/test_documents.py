"""Exported JSON comes back as the same tables, whatever it holds is checked, and Parquet holds what they hold."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pandas as pd
import pytest
from log_builder import make_runs, write_set
from mlperf_fixtures import CISCO, NVIDIA, needs_published_results
from report_builder import write_run_set

from harness.cli import main
from reports.comparison.comparison import compare_results, context_of
from reports.comparison.noise import describe_sets
from reports.comparison.sources import one_result, read_results
from reports.page.content import ReportContent
from reports.page.exports import read_documents
from reports.page.report import render_report
from reports.results.logs import gather
from reports.schemas import DOCUMENTS
from reports.tables.documents import (
    document_from,
    is_document,
    join_documents,
    json_text,
    read_document,
)
from reports.tables.frames import evaluations_frame, runs_frame, sets_frame, write_parquet
from reports.tables.rows import document_of
from rules.benchmarks.loader import load_benchmark
from rules.errors import InputError
from rules.records.codec import json_schema

TINY = load_benchmark("dlrm_tiny")
SCHEMA = json_schema(DOCUMENTS["report"])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two configurations; one has an unfinished attempt and a run that did not converge, logs that say little."""
    runs = make_runs(TINY, start_ms=1_700_000_000_000)
    runs[2] = make_runs(TINY, converged=False, num_evals=19)[0]
    write_run_set(tmp_path / "sets" / "a")
    write_run_set(tmp_path / "sets" / "b", runs=runs, interrupted=False)
    (tmp_path / "sets" / "bare").mkdir()
    (tmp_path / "sets" / "bare" / "result_0.txt").write_bytes(b"nothing\n")
    return tmp_path / "sets"


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    root = write_run_set(tmp_path_factory.mktemp("exported") / "a")
    document: dict[str, Any] = json.loads(
        render_report(ReportContent(results=gather([root], second_opinion=False)), output_format="json")
    )
    return document


def export(folder: Path, target: Path) -> Path:
    target.write_text(render_report(ReportContent(results=gather([folder])), output_format="json"), encoding="utf-8")
    return target


def test_json_to_tables_to_json_is_the_same(folder: Path, tmp_path: Path) -> None:
    path = export(folder, tmp_path / "export.json")
    document = read_document(path)
    assert json_text(document) == path.read_text(encoding="utf-8")
    assert document == document_from(json.loads(json_text(document)), "again")


def test_tables_from_json_are_those_of_the_directories(folder: Path, tmp_path: Path) -> None:
    ours, theirs = describe_sets(gather([folder])), read_documents([export(folder, tmp_path / "export.json")])
    assert ours == theirs
    for frame in (sets_frame, runs_frame, evaluations_frame):
        pd.testing.assert_frame_equal(frame(ours), frame(theirs), check_exact=True)
        assert len(frame(ours)) > 0


def test_several_sources_become_one_table_with_labels_of_their_own(folder: Path, tmp_path: Path) -> None:
    path = export(folder, tmp_path / "export.json")
    both = read_documents([folder, path])
    labels = ["a", "b", "bare", "a (2)", "b (2)", "bare (2)"]
    assert list(sets_frame(both)["configuration"]) == labels
    assert list(runs_frame(both)["configuration"].unique()) == labels
    assert [len(one.runs) for one in both.configurations] == [6, 5, 1, 6, 5, 1]
    assert len(join_documents([both, both]).configurations) == 12


@pytest.mark.parametrize("num_removed", [0, 2])
def test_json_is_compared_as_the_directories_are(num_removed: int, folder: Path, tmp_path: Path) -> None:
    """Also where logs were removed and the records of their attempts remain: those are no runs."""
    for log in sorted((folder / "a").rglob("result_*.txt"))[5 - num_removed :]:
        log.unlink()
    a, b, _ = gather([folder])
    (from_folders,) = compare_results(a, [b], context=context_of([a, b]))
    one, other, _ = read_results(export(folder, tmp_path / "export.json"))
    (from_json,) = compare_results(one, [other])
    assert from_json.refusal == from_folders.refusal
    assert (from_json.num_base, from_json.num_base_converged) == (5 - num_removed, 5 - num_removed)
    for here, there in zip(from_json.factors, from_folders.factors, strict=True):
        assert (here.verdict, here.runs_needed, here.num_new) == (there.verdict, there.runs_needed, there.num_new)
        assert here.ratio == pytest.approx(there.ratio, rel=1e-6)
        assert here.interval.high == pytest.approx(there.interval.high, rel=1e-6)  # type: ignore[union-attr]


@needs_published_results
def test_published_rounds_come_back_too(tmp_path: Path) -> None:
    path = tmp_path / "export.json"
    sets = gather([CISCO, NVIDIA], second_opinion=False)
    path.write_text(render_report(ReportContent(results=sets), output_format="json"), encoding="utf-8")
    document = read_document(path)
    assert json_text(document) == path.read_text(encoding="utf-8")
    assert {one.status for one in document.configurations} == {"official"}
    assert len(runs_frame(document)) == 20


def minimal(**changes: Any) -> dict[str, Any]:
    run = {
        "run": "0",
        "path": "x",
        "evaluations": {name: [] for name in ("epoch_num", "samples_count", "elapsed_s", "quality")},
    }
    return {"schema_version": 1, "configurations": [{"configuration": "a", "runs": [run | changes]}]}


@pytest.mark.parametrize(
    ("document", "why"),
    [
        ([], "not a JSON export"),
        ({"a": 1}, "no member 'configurations'"),
        ({"schema_version": 2, "configurations": []}, "schema_version is 2, this version reads 1"),
        ({"schema_version": 1, "configurations": {}}, "configurations: found {}, expected a list"),
        ({"schema_version": 1, "configurations": [1]}, "configurations[0]: found 1, expected an object"),
        (
            {"schema_version": 1, "configurations": [{"runs": []}]},
            "configurations[0].configuration: found nothing, expected a value: the member",
        ),
        (minimal(time_to_train_s="5"), 'runs[0].time_to_train_s: found "5", expected a number or null'),
        (minimal(time_to_train_s=True), "runs[0].time_to_train_s: found true, expected a number or null"),
        (minimal(seed=1.5), "runs[0].seed: found 1.5, expected a whole number or null"),
        (minimal(benchmark=["x"]), 'runs[0].benchmark: found ["x"], expected a string or null'),
        (minimal(colour="red"), 'runs[0].colour: found "red", expected no such member'),
        (minimal(time_to_train_s=10**400), "runs[0].time_to_train_s: found 1000"),
        (minimal(path=None), "runs[0].path: found null, expected a string"),
        (minimal(seed=2**70), f"runs[0].seed: found {2**70}, expected a whole number of at most {2**63 - 1}"),
        (
            minimal(counted="maybe"),
            'runs[0].counted: found "maybe", expected "yes" or "dropped" or "no" or "no score"',
        ),
        (
            {"schema_version": 1, "configurations": minimal()["configurations"] * 2},
            "configurations[1].configuration is given twice",
        ),
        (minimal(evaluations=None), "runs[0].evaluations: found null, expected an object"),
        (minimal(evaluations={"epoch_num": [1]}), "runs[0].evaluations.samples_count: found nothing"),
        (
            minimal(evaluations={"epoch_num": [1], "samples_count": [], "elapsed_s": [], "quality": []}),
            "lists of different lengths",
        ),
    ],
)
def test_a_document_that_is_none_is_refused_at_its_place(document: Any, why: str, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(InputError) as caught:
        read_document(path)
    assert str(path) in str(caught.value)
    assert why in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("place", "value", "expected"),
    [
        ("score_s", -1.0, "configurations[0].score_s: found -1.0, expected a number of at least 0.0"),
        ("confidence", 1.5, "configurations[0].confidence: found 1.5, expected a number of at most 1.0"),
        ("runs/time_to_train_s", -2.5, "runs[0].time_to_train_s: found -2.5, expected a number of at least 0.0"),
        (
            "runs/samples_to_converge",
            -1,
            "runs[0].samples_to_converge: found -1, expected a whole number of at least 0",
        ),
        ("runs/final_quality", 1.2, "runs[0].final_quality: found 1.2, expected a number from 0 to 1"),
        (
            "runs/evaluations/quality",
            [0.5, -0.1],
            "runs[0].evaluations.quality[1]: found -0.1, expected a number from 0 to 1 or null",
        ),
        (
            "runs/evaluations/elapsed_s",
            [-1.0, 1.0],
            "runs[0].evaluations.elapsed_s[0]: found -1.0, expected a number of at least 0.0",
        ),
    ],
)
def test_what_no_run_can_measure_is_refused_by_the_schema_too(
    exported: dict[str, Any], place: str, value: Any, expected: str
) -> None:
    document = json.loads(json.dumps(exported))
    jsonschema.validate(document, SCHEMA)
    *outer, name = place.split("/")
    inner = document["configurations"][0]
    for member in outer:
        inner = inner[member][0] if member == "runs" else inner[member]
    if isinstance(value, list):
        value = [*value, *inner[name][len(value) :]]
    inner[name] = value
    with pytest.raises(InputError) as caught:
        document_from(document, "x.json")
    assert "x.json" in str(caught.value) and expected in str(caught.value)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, SCHEMA)
    # What a benchmark that nobody defines here measures may be anything.
    document["configurations"][0]["status"] = "unknown"
    if "quality" in name:
        assert len(document_from(document, "x.json").configurations[0].runs) == 6
        jsonschema.validate(document, SCHEMA)


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, '{"configurations": NaN}', "\x00", '{"a": Infinity}'])
def test_files_that_are_no_json_are_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match="not readable JSON"):
        read_document(path)
    with pytest.raises(InputError, match="no such file"):
        read_document(tmp_path / "missing.json")


def test_a_folder_named_json_is_a_folder(tmp_path: Path) -> None:
    write_set(tmp_path / "x.json", TINY)
    assert not is_document(tmp_path / "x.json")
    assert one_result(tmp_path / "x.json").num_runs == 5


def test_several_configurations_where_one_is_wanted_are_listed(folder: Path) -> None:
    with pytest.raises(InputError, match=r"holds 3 configurations; give one of them:\n  a\n  b\n  bare"):
        one_result(folder)


def test_parquet_holds_typed_tables(folder: Path, tmp_path: Path) -> None:
    document = document_of(gather([folder]))
    frames = {"configurations": sets_frame, "runs": runs_frame, "evaluations": evaluations_frame}
    paths = write_parquet(document, tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(f"{name}.parquet" for name in frames)
    for path in paths:
        pd.testing.assert_frame_equal(pd.read_parquet(path), frames[path.stem](document), check_exact=True)


@pytest.fixture
def report(capsys: pytest.CaptureFixture[str]) -> Any:
    """Exit code, stdout and stderr of one `report`."""

    def run(*arguments: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as leaving:
            main(["report", *(str(argument) for argument in arguments)])
        out, err = capsys.readouterr()
        assert isinstance(leaving.value.code, int)
        return leaving.value.code, out, err

    return run


def test_report_turns_an_export_into_the_same_export_and_into_parquet(
    folder: Path, tmp_path: Path, report: Any
) -> None:
    path = export(folder, tmp_path / "export.json")
    assert report(path, "--format", "json") == (0, path.read_text(encoding="utf-8"), "")
    assert report(path, "--format", "csv")[1].startswith("configuration,benchmark,")
    code, out, _ = report(path, folder, "--format", "parquet", "-o", tmp_path / "tables")
    assert code == 0
    assert [Path(line).name for line in out.splitlines()] == [
        "configurations.parquet",
        "runs.parquet",
        "evaluations.parquet",
    ]
    assert len(pd.read_parquet(tmp_path / "tables" / "runs.parquet")) == 24


def test_report_says_what_it_cannot_make_of_an_export(folder: Path, tmp_path: Path, report: Any) -> None:
    path = export(folder, tmp_path / "export.json")
    for form in ("html", "md"):
        code, _, err = report(path, "--format", form)
        assert code == 2
        assert "an exported file has no logs" in err
    code, _, err = report(folder, "--format", "parquet")
    assert code == 2
    assert "give --output a directory" in err

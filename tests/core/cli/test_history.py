"""diff and history on the command line: what differs with its source, and past sets whatever their state."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from log_builder import make_runs, write_set
from mlperf_fixtures import CISCO, NVIDIA, needs_published_results
from records_builder import process_content, run_set_content, throughput_content
from report_builder import write_run_set

from reports.page.content import ReportContent
from reports.page.report import render_report
from reports.results.logs import gather
from reports.schemas import DOCUMENTS
from rules.benchmarks.loader import canonical_sha256, load_benchmark
from rules.records.codec import json_schema

TINY = load_benchmark("dlrm_tiny")
CONFIG = {
    "train.global_batch_size": {"value": 512, "source": "definition"},
    "runtime.threads": {"value": 1, "source": "file mine.toml"},
}

CONFIG_DIGEST = canonical_sha256({key: value["value"] for key, value in CONFIG.items()})[:8]


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    """Two run sets that differ in threads, Python and a logged value."""
    one = write_run_set(tmp_path / "one")
    runs = make_runs(TINY, settings={"num_threads": 1, "opt_name": "adagrad"}, start_ms=1_700_000_000_000)
    changes = {"config": CONFIG, "environment": {"python": "3.12.0", "num_cores": 4}}
    return one, write_run_set(tmp_path / "two", runs=runs, changes=changes)


def test_diff_shows_what_differs_with_its_source_and_counts_the_rest(command: Any, pair: tuple[Path, Path]) -> None:
    code, out, err = command("diff", *pair)
    assert (code, err) == (0, "")
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert "runtime.threads 2 [option --threads] 1 [file mine.toml]" in lines
    assert "python 3.11.0 [detected] 3.12.0 [detected]" in lines
    assert any(line.startswith("num_threads 2 [result_0.txt:") for line in lines)
    assert "train.global_batch_size" not in out
    assert any("identical (-v lists them)" in line for line in lines)
    assert "train.global_batch_size" in command("diff", *pair, "-v")[1]


def test_diff_json_holds_to_its_schema_and_has_everything(command: Any, pair: tuple[Path, Path]) -> None:
    code, out, _ = command("diff", *pair, "--format", "json")
    document = json.loads(out)
    jsonschema.validate(document, json_schema(DOCUMENTS["difference"]))
    assert code == 0
    differing = {(row["section"], row["name"]): row for row in document["differing"]}
    assert differing["configuration", "runtime.threads"]["b"] == {"value": "1", "source": "file mine.toml"}
    assert differing["system", "num_cores"]["a"] is None
    assert ("configuration", "train.global_batch_size") not in differing
    assert any(row["name"] == "train.global_batch_size" for row in document["identical"])
    assert not any(row["name"] in ("seed", "eval_accuracy", "run_start") for row in document["identical"])


def test_a_set_does_not_differ_from_itself(command: Any, pair: tuple[Path, Path]) -> None:
    document = json.loads(command("diff", pair[0], pair[0], "--format", "json")[1])
    assert document["differing"] == []
    assert len(document["identical"]) > 30


def test_values_that_vary_between_the_runs_are_said_to(command: Any, tmp_path: Path) -> None:
    runs = make_runs(TINY)
    runs[1] = make_runs(TINY, settings={"opt_base_learning_rate": 0.5})[1]
    write_set(tmp_path / "mixed", TINY, runs)
    write_set(tmp_path / "plain", TINY)
    document = json.loads(command("diff", tmp_path / "plain", tmp_path / "mixed", "--format", "json")[1])
    (row,) = document["differing"]
    assert row["name"] == "opt_base_learning_rate"
    assert row["b"]["value"].startswith("varies: ") and "0.5" in row["b"]["value"]
    assert document["untold"] == [{"side": side, "section": "configuration"} for side in "ab"]
    out = command("diff", tmp_path / "plain", tmp_path / "mixed")[1]
    assert "A says nothing of configuration; not compared." in out


def test_whole_numbers_are_equal_however_they_are_written(command: Any, tmp_path: Path) -> None:
    for name, value in (("one", 1), ("two", 1.0)):
        write_set(tmp_path / name, TINY, make_runs(TINY, settings={"gradient_accumulation_steps": value}))
    document = json.loads(command("diff", tmp_path / "one", tmp_path / "two", "--format", "json")[1])
    assert document["differing"] == []


def test_an_export_is_compared_by_what_it_holds(command: Any, pair: tuple[Path, Path], tmp_path: Path) -> None:
    path = tmp_path / "export.json"
    path.write_text(render_report(ReportContent(results=gather([pair[0]])), output_format="json"), encoding="utf-8")
    document = json.loads(command("diff", path, pair[1], "--format", "json")[1])
    assert {row["section"] for row in document["differing"]} == {"logged"}
    assert {one["section"] for one in document["untold"]} == {"configuration", "software", "system"}


def test_diff_needs_one_configuration_each(command: Any, pair: tuple[Path, Path], tmp_path: Path) -> None:
    code, _, err = command("diff", tmp_path, pair[0])
    assert code == 8
    assert "holds 2 configurations; give one of them:" in err
    assert command("diff", tmp_path / "nowhere", pair[0])[0] == 8
    (tmp_path / "note.txt").write_text("nothing", encoding="utf-8")
    code, _, err = command("diff", tmp_path / "note.txt", pair[0])
    assert code == 8
    assert "note.txt: no MLLOG record says how this was set" in err


def test_diff_names_cannot_move_the_cursor(command: Any, tmp_path: Path) -> None:
    evil = "\x1b[2J\u202e|<b>`"
    changes = {
        "config": {f"a{evil}": {"value": evil, "source": evil}},
        "environment": {f"e{evil}": {evil: evil}},
    }
    one = write_run_set(tmp_path / f"one{evil}", changes=changes)
    write_set(tmp_path / "two", TINY, make_runs(TINY, settings={f"opt_{evil}": evil}))
    for form in ("table", "md", "json"):
        for a, b in ((one, tmp_path / "two"), (one, one)):
            out = command("diff", a, b, "-v", "--format", form)[1]
            assert "\x1b" not in out and "\u202e" not in out, form


def test_one_source_of_a_whole_column_is_above_it(command: Any, tmp_path: Path) -> None:
    for name, cores in (("one", "8"), ("two", "16")):
        write_set(tmp_path / name, TINY)
        fields = {"host_processor_core_count": cores, "cooling": name}
        (tmp_path / name / "systems" / "example.json").write_text(json.dumps(fields), encoding="utf-8")
    out = command("diff", tmp_path / "one", tmp_path / "two")[1]
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert "system A [systems/example.json] B [systems/example.json]" in lines
    assert "host_processor_core_count 8 16" in lines


@needs_published_results
def test_published_systems_differ_in_hardware_and_software(command: Any) -> None:
    document = json.loads(command("diff", NVIDIA, CISCO, "--format", "json")[1])
    jsonschema.validate(document, json_schema(DOCUMENTS["difference"]))
    differing = {(row["section"], row["name"]) for row in document["differing"]}
    assert {("system", "accelerator_model_name"), ("software", "framework"), ("logged", "global_batch_size")} <= (
        differing
    )


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Sets in every state: whole, incomplete, empty, a measurement, one under way, broken JSON, lost record."""
    folder = tmp_path / "results"
    when = "2026-11-{:02d}T03:00:00+00:00".format
    write_run_set(folder / "whole", changes={"created_utc": when(20), "config": CONFIG})
    write_run_set(
        folder / "below" / "part", runs=make_runs(TINY, 2), changes={"created_utc": when(21), "num_runs": 5}
    )
    for name, day in (("empty", 22), ("measured", 23), ("under_way", 24)):
        extra = folder / name / "extra"
        extra.mkdir(parents=True)
        kind = "training" if name == "empty" else "throughput"
        record = run_set_content(created_utc=when(day), kind=kind)
        (extra / "run_set.json").write_text(json.dumps(record), encoding="utf-8")
    processes = [process_content(num_samples=1000, duration_s=0.5 + 0.01 * i) for i in range(5)]
    content = json.dumps(throughput_content(processes))
    (folder / "measured" / "extra" / "throughput.json").write_text(content, encoding="utf-8")
    write_run_set(folder / "bad")
    (folder / "bad" / "extra" / "run_set.json").write_text("{", encoding="utf-8")
    write_set(folder / "lost", TINY)
    return folder


def test_history_lists_every_set_newest_first(command: Any, results: Path) -> None:
    code, out, err = command("history", results, "--format", "json")
    document = json.loads(out)
    jsonschema.validate(document, json_schema(DOCUMENTS["history"]))
    assert (code, err) == (0, "")
    by_name = {Path(one["folder"]).name: one for one in document["run_sets"]}
    assert list(by_name)[:5] == ["under_way", "measured", "empty", "part", "whole"]
    kinds = {name: (one["kind"], one["outcome"]) for name, one in by_name.items()}
    assert kinds == {
        "under_way": ("throughput", None),
        "measured": ("throughput", None),
        "empty": ("training", "incomplete"),
        "part": ("training", "incomplete"),
        "whole": ("training", "valid"),
        "bad": ("broken", None),
        "lost": ("broken", None),
    }
    assert by_name["lost"]["problem"].startswith("extra/run_set.json is missing")
    assert "run_set.json: found" in by_name["bad"]["problem"]
    assert by_name["whole"]["config_digest"] == canonical_sha256({k: v["value"] for k, v in CONFIG.items()})[:8]
    assert by_name["whole"]["score_s"] == pytest.approx(gather([results / "whole"])[0].score.score_s)
    assert (by_name["part"]["num_done"], by_name["part"]["num_runs"]) == (2, 5)
    assert by_name["measured"]["throughput_samples_per_s"] == pytest.approx(1000 / 0.52, rel=1e-3)


def test_history_has_four_forms_and_a_limit(command: Any, results: Path) -> None:
    out = command("history", results, "--limit", "2")[1]
    assert "2 of 7 shown; --limit shows more." in out
    assert "not finished" in out
    assert len(list(csv.DictReader(io.StringIO(command("history", results, "--format", "csv")[1])))) == 7
    assert command("history", results, "--format", "md")[1].count("\n") == 9


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        ("dlrm_tiny-mine-20261121T162315Z", "mine"),
        (f"dlrm_tiny-{CONFIG_DIGEST}-20261121T162315Z", None),
        ("something else", None),
    ],
)
def test_history_shows_the_name_that_was_given(command: Any, tmp_path: Path, folder: str, name: str | None) -> None:
    write_run_set(tmp_path / "set", changes={"name": folder, "config": CONFIG})
    (found,) = json.loads(command("history", tmp_path, "--format", "json")[1])["run_sets"]
    assert (found["name"], found["config_digest"]) == (name, CONFIG_DIGEST)
    shown = command("history", tmp_path)[1]
    head, row = shown.splitlines()[0], next(line for line in shown.splitlines() if CONFIG_DIGEST in line)
    assert row[head.index("config") :].startswith(CONFIG_DIGEST)
    assert row[head.index("name") :].startswith(name or "—")


def test_history_of_nothing(command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert command("history", tmp_path) == (0, "No run sets here.\n", "")
    code, _, err = command("history", tmp_path / "nowhere")
    assert code == 8
    assert "no such directory" in err
    monkeypatch.chdir(tmp_path)
    assert command("history")[0] == 8


def test_history_names_cannot_move_the_cursor(command: Any, tmp_path: Path) -> None:
    evil = "\x1b[2J\u202e|<b>`"
    write_run_set(
        tmp_path / f"set{evil}",
        changes={"benchmark": {"name": evil}, "harness_version": evil, "system": {"name": evil}, "config": {evil: 1}},
    )
    for form in ("table", "md", "csv", "json"):
        out = command("history", tmp_path, "--format", form)[1]
        assert "\x1b" not in out and "\u202e" not in out, form

"""diff on the command line: what differs with its source."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from log_builder import make_runs, write_set
from measured_builder import write_measured
from mlperf_fixtures import CISCO, NVIDIA, needs_published_results
from report_builder import write_run_set

from reports.page.content import ReportContent
from reports.page.report import render_report
from reports.results.logs import gather
from reports.schemas import DOCUMENTS
from rules.benchmarks.loader import load_benchmark
from rules.records.codec import json_schema

TINY = load_benchmark("dlrm_tiny")
CONFIG = {
    "train.global_batch_size": {"value": 512, "source": "definition"},
    "runtime.threads": {"value": 1, "source": "file mine.toml"},
}


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


def test_steps_and_commands_around_runs_differ_too(command: Any, tmp_path: Path) -> None:
    for name, changes in {
        "a": {"options": {"num_steps": 10}, "hooks": {"power-command": "echo 50"}},
        "b": {"options": {"num_steps": 20}},
    }.items():
        write_measured(tmp_path / name, "throughput", [100.0] * 2, **changes)
    code, out, _ = command("diff", tmp_path / "a", tmp_path / "b", "--format", "json")
    differing = {row["name"]: (row["a"], row["b"]) for row in json.loads(out)["differing"]}
    assert code == 0 and (differing["num_steps"][0]["value"], differing["num_steps"][1]["value"]) == ("10", "20")
    assert differing["--power-command"][0]["value"] == "echo 50" and differing["--power-command"][1] is None


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
    assert document["missing"] == [{"side": side, "section": "configuration"} for side in "ab"]
    out = command("diff", tmp_path / "plain", tmp_path / "mixed")[1]
    assert "A has no settings of configuration; not compared." in out


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
    assert {one["section"] for one in document["missing"]} == {"configuration", "software", "system"}


def test_diff_needs_one_configuration_each(command: Any, pair: tuple[Path, Path], tmp_path: Path) -> None:
    code, _, err = command("diff", tmp_path, pair[0])
    assert code == 8
    assert "holds 2 configurations; give one of them:" in err
    assert command("diff", tmp_path / "nowhere", pair[0])[0] == 8
    (tmp_path / "note.txt").write_text("nothing", encoding="utf-8")
    code, _, err = command("diff", tmp_path / "note.txt", pair[0])
    assert code == 8
    assert "note.txt: found no setting in MLLOG records" in err


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

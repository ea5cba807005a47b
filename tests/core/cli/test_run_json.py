"""`run --format json`: stdout holds the result as JSON and nothing else; everything said on the way is on stderr."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner, Result
from made_sets import made_in
from sweep_builder import FastWorkers

from harness.cli import cli
from reports.schemas import DOCUMENTS
from rules.records.codec import json_schema

Run = Callable[..., Result]


@pytest.fixture
def run(workers: FastWorkers, data_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """dlrm_tiny in processes that answer at once, with its progress on stderr."""
    monkeypatch.chdir(tmp_path)

    def invoke(*arguments: str) -> Result:
        words = ["run", "dlrm_tiny", "--data", str(data_root), "--seed", "5", "-o", "out", *arguments]
        return CliRunner().invoke(cli, words)

    return invoke


@pytest.mark.slow
def test_runs_say_verdict_score_interval_and_paths(run: Run, tmp_path: Path, command: Any) -> None:
    done = run("--format", "json")
    found = json.loads(done.stdout)
    jsonschema.Draft202012Validator(json_schema(DOCUMENTS["run"])).validate(found)
    (folder,) = made_in(tmp_path / "out")
    assert Path(found["folder"]).resolve() == folder == (tmp_path / "out" / "latest").resolve()
    assert Path(found["report"]).is_file() and found["kind"] == "training"
    assert "5 runs to AUC" in done.stderr
    (scored,) = json.loads(command("score", folder, "--format", "json")[1])["scores"]
    for name in ("outcome", "score_s", "low_s", "high_s", "num_runs"):
        assert found[name] == scored[name]
    assert [run | {"path": None} for run in found["runs"]] == [run | {"path": None} for run in scored["runs"]]
    assert found["low_s"] <= found["score_s"] <= found["high_s"]


def test_a_set_without_a_score_says_why_and_keeps_its_exit_code(run: Run) -> None:
    done = run("-n", "2", "--format", "json")
    found = json.loads(done.stdout)
    assert (found["outcome"], found["score_s"]) == ("incomplete", None)
    assert "2 of 5 runs" in found["no_score_reason"]
    assert done.exit_code == 0


def test_a_measurement_says_what_every_process_found(run: Run, tmp_path: Path) -> None:
    done = run("--throughput", "20", "--format", "json")
    found = json.loads(done.stdout)
    jsonschema.Draft202012Validator(json_schema(DOCUMENTS["measurement"])).validate(found)
    assert (found["kind"], found["unit"], found["options"]) == ("throughput", "samples/s", {"num_steps": 20})
    assert len(found["values"]) == 5
    assert found["mean"] == pytest.approx(math.exp(sum(map(math.log, found["values"])) / 5))
    assert found["low"] < found["mean"] < found["high"]
    content = json.loads(Path(found["file"]).read_text())
    assert [process["samples_per_s"] for process in content["processes"]] == found["values"]
    assert done.stderr.count("process ") == 5


def test_quality_is_a_mean_of_differences(run: Run) -> None:
    found = json.loads(run("--quality", "1000", "--format", "json").stdout)
    assert (found["quantity"], found["unit"]) == ("AUC", "auc")
    assert found["mean"] == pytest.approx(sum(found["values"]) / 5)


@pytest.mark.slow
def test_a_folder_is_taken_once_though_latest_leads_to_it(run: Run, tmp_path: Path, command: Any) -> None:
    for name in ("base", "new"):
        run("--name", name, "-q")
    paths = sorted((tmp_path / "out").iterdir())
    assert len(paths) == 3
    assert len(json.loads(command("score", *paths, "--format", "json")[1])["scores"]) == 2
    assert command("report", *paths, "--format", "csv", "--no-second-opinion")[1].count("\ndlrm_tiny-") == 10
    base, *others = paths
    assert command("compare", base, *others)[1].split().count("against") == 1


@pytest.mark.slow
def test_what_resume_completes_by_name_is_said_in_the_same_form(run: Run, tmp_path: Path) -> None:
    first = json.loads(run("--name", "base", "-n", "3", "--format", "json").stdout)
    words = ["resume", "latest", "--runs", "5", "--format", "json"]
    done = CliRunner(env={"DLRMBENCH_OUTPUT": "out"}).invoke(cli, words)
    grown = json.loads(done.stdout)
    assert (first["num_runs"], grown["num_runs"]) == (3, 5)
    assert grown["folder"] == first["folder"] and grown["outcome"] == "valid" and grown["score_s"] > 0

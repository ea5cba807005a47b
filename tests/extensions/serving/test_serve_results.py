"""Where served sets go: exports, frames, comparisons, sweeps whose weights are served."""

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pandas as pd
import pytest
from click.testing import CliRunner, Result
from made_sets import made_in
from sweep_builder import FastWorkers
from waiting import needs_two_cpus

from harness.cli import cli
from harness.experiment.request import Request
from harness.extensions.serving import loadgen
from harness.foundation.errors import ExitCode, exit_code_of
from harness.run_sets.names import link_latest
from reports import frames
from reports.schemas import DOCUMENTS
from rules.records.codec import decode, json_schema
from rules.records.run_set import RunSetRecord

Run = Callable[..., Result]


@pytest.fixture
def run(workers: FastWorkers, data_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A verb on dlrm_tiny, in processes that answer at once."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(loadgen, "find_spec", lambda name: object())

    def invoke(verb: str, *arguments: str) -> Result:
        words = [verb, "dlrm_tiny", "--data", str(data_root), "-q", "--seed", "5", "-o", "out", *arguments]
        done = CliRunner().invoke(cli, words)
        assert done.exit_code == 0, (done.output, done.exception)
        return done

    return invoke


def report(*arguments: str) -> str:
    done = CliRunner().invoke(cli, ["report", "out", *arguments])
    assert done.exit_code == 0, (done.output, done.exception)
    return done.stdout


@pytest.mark.slow
def test_exports_hold_what_was_served_and_frames_read_them_back(run: Run, tmp_path: Path) -> None:
    run("serve", "-n", "2", "--colocate", "2")
    rows = list(csv.DictReader(io.StringIO(report("--format", "csv"))))
    assert [(row["process"], row["percentile"], row["num_copies"]) for row in rows] == [
        ("0", "95.0", "2"),
        ("1", "95.0", "2"),
    ]
    Path("served.json").write_text(report("--format", "json"), encoding="utf-8")
    document = json.loads(Path("served.json").read_text(encoding="utf-8"))
    jsonschema.validate(document, json_schema(DOCUMENTS["report"]))
    assert [row["queries_per_s"] for row in document["served"]] == [float(row["queries_per_s"]) for row in rows]
    assert {row["quantity"] for row in document["measurements"]} == {"Serving"} and not document["configurations"]
    report("--format", "parquet", "-o", "tables")
    read, again = frames.read("out"), frames.read("served.json")
    pd.testing.assert_frame_equal(pd.read_parquet("tables/served.parquet"), read.served, check_exact=True)
    for name in ("served", "measurements"):
        pd.testing.assert_frame_equal(getattr(read, name), getattr(again, name))
    assert read.served["target_latency_s"].tolist() == [0.025, 0.025]


@pytest.mark.slow
def test_exports_hold_every_configuration_of_a_served_sweep_beside_runs(run: Run, tmp_path: Path) -> None:
    run("sweep", "--serve", "-n", "1", "--axis", "serve.batch=1,2")
    run("run", "-n", "1")
    document = json.loads(report("--format", "json", "--no-second-opinion"))
    assert len(document["served"]) == 2 and len(document["configurations"]) == 1
    assert len({row["configuration"] for row in document["served"]}) == 2
    assert report("--format", "csv", "--no-second-opinion").startswith("configuration,benchmark,benchmark_version")


def test_two_exports_of_one_name_stay_apart(run: Run, tmp_path: Path) -> None:
    run("serve", "-n", "1")
    Path("served.json").write_text(report("--format", "json"), encoding="utf-8")
    labels = frames.read("served.json", "out").served["configuration"].tolist()
    assert len(set(labels)) == 2 and labels[1] == f"{labels[0]} (2)"


@pytest.mark.parametrize(
    ("arguments", "words"),
    (
        (("--scenario", "offline"), "different scenarios"),
        (("--target-latency", "30ms"), "different latency limits"),
    ),
)
def test_another_question_is_refused_with_2_and_said(run: Run, arguments: tuple[str, ...], words: str) -> None:
    run("serve", "-n", "1", "--name", "one")
    run("serve", "-n", "1", "--name", "two", *arguments)
    one, two = (next(path for path in made_in(Path("out")) if f"-{name}-" in path.name) for name in ("one", "two"))
    done = CliRunner().invoke(cli, ["compare", str(one), str(two)])
    assert done.exception is not None and exit_code_of(done.exception) == ExitCode.USAGE
    assert words in " ".join((done.output + str(done.exception)).split())


@pytest.mark.slow
@needs_two_cpus
def test_a_sweep_keeps_the_weights_of_every_configuration(run: Run, workers: FastWorkers) -> None:
    run("sweep", "--keep-weights", "-n", "1", "--axis", "runtime.threads=1,2")
    assert [launch["keep_weights"] for launch in workers.launches] == [True, True]
    (folder,) = made_in(Path("out"))
    records = [decode(path, RunSetRecord) for path in sorted(folder.glob("*/extra/run_set.json"))]
    assert [isinstance(record, RunSetRecord) and record.keep_weights for record in records] == [True, True]


@pytest.mark.parametrize("kind", [("--throughput", "5"), ("--serve",)])
def test_a_sweep_that_trains_nothing_whole_keeps_no_weights(
    kind: tuple[str, ...], workers: FastWorkers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loadgen, "find_spec", lambda name: object())
    words = ["sweep", "dlrm_tiny", "--keep-weights", *kind, "--axis", "runtime.threads=1,2"]
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == ExitCode.USAGE and "do not train to the end" in done.output


def test_a_command_that_serves_weights_of_latest_is_kept_with_the_set_that_it_was(
    command: Callable[..., tuple[int, str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests: list[Request] = []
    monkeypatch.setattr(
        "harness.extensions.serving.serve.start_and_show", lambda request, **_: requests.append(request)
    )
    (tmp_path / "made" / "newest").mkdir(parents=True)
    link_latest(tmp_path / "made" / "newest")
    monkeypatch.setenv("DLRMBENCH_OUTPUT", str(tmp_path / "made"))
    typed = ["serve", "dlrm_tiny", "--weights", "latest:1@2"]
    monkeypatch.setattr("sys.argv", ["dlrmbench", *typed])
    assert command(*typed)[0] == 0
    (request,) = requests
    assert request.command() == ["dlrmbench", *typed[:3], f"{tmp_path / 'made' / 'newest'}:1@2"]

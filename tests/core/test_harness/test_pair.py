"""`run --beside --python`: two installations measured in turns, each with its own code, on record as such."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from command import Command
from made_sets import made_in
from other_environment import make_bare_environment, make_environment, slow_down
from sweep_builder import FastWorkers, use_fast_workers
from waiting import HANG_S, wait_until

from harness.cli import cli
from harness.run_sets.folder import open_run_set
from harness.system.code import code_sha256
from reports.comparison.pairing import pair_runs
from reports.comparison.sources import read_results
from rules.records.codec import decode
from rules.records.experiment import ExperimentRecord
from rules.records.run import RunRecord


@pytest.fixture(scope="module")
def slower(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment whose dlrmbench is slower; its code has another digest."""
    return make_environment(tmp_path_factory.mktemp("other"), slow_down)


def the_pair(results: Path) -> Path:
    (folder,) = [path for path in made_in(results) if path.name.startswith("beside-")]
    return folder


def start_times(folder: Path) -> list[tuple[str, str]]:
    """Begin of each process of throughput with its side, by time."""
    found = []
    for side in ("base", "new"):
        content = json.loads((folder / side / "extra" / "throughput.json").read_text())
        found += [(process["started_utc"], side) for process in content["processes"]]
    return sorted(found)


@pytest.mark.long
def test_a_slower_installation_is_found_in_turns_and_named_by_its_digest(
    inside: Command, slower: Path, measured_once: Path, data_root: Path, tmp_path: Path
) -> None:
    options = ("--data", data_root, "-o", tmp_path / "results", "-q", "--seed", 3, "--format", "json")
    done = inside("run", "--beside", measured_once, "--python", slower, *options)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    (comparison,) = document["comparisons"]
    assert (comparison["overall_verdict"], comparison["is_paired"]) == ("faster", True)
    changes = {change["name"]: (change["base"], change["new"]) for change in comparison["changes"]}
    folder = the_pair(tmp_path / "results")
    base, new = (open_run_set(folder / side)[1] for side in ("base", "new"))
    assert changes["code"] == (str(base.code_sha256)[:12], str(new.code_sha256)[:12])
    assert changes.keys() <= {"code", "commit", "commit_is_dirty"}
    assert new.code_sha256 == code_sha256() != base.code_sha256
    assert base.seeds == new.seeds and len(base.seeds) == 5
    assert [side for _, side in start_times(folder)] == [
        "base", "new", "new", "base", "base", "new", "new", "base", "base", "new",
    ]  # fmt: skip
    first, second = read_results(folder)
    assert pair_runs(first.samples, second.samples).is_interleaved
    pair = decode(folder / "experiment.json", ExperimentRecord)
    assert isinstance(pair, ExperimentRecord) and (pair.python, pair.base_seed) == (str(slower), 3)


@pytest.mark.slow
def test_a_run_of_another_installation_is_judged_and_scored_by_this_one(
    inside: Command, slower: Path, tmp_path: Path
) -> None:
    """Killed in the first run of the new side, then resumed with its interpreter, given again and unchanged."""
    options = ("--data", tmp_path / "data", "-o", tmp_path / "results", "-q")
    sizes: dict[str, float] = {
        "data.train_samples": 65536,
        "data.eval_samples": 2048,
        "train.global_batch_size": 128,
        "quality.target": 0.55,  # met by the first evaluation
    }
    quick = [word for key, value in sizes.items() for word in ("--set", f"{key}={value}")]
    done = inside("run", "dlrm_tiny", "-n", 1, "--name", "quick", *quick, "--threads", 1, *options)
    assert done.returncode == 0, done.stderr
    words = ["run", "--beside", "latest", "--python", slower, "-n", 1, *options]
    command = [sys.executable, "-m", "harness", *map(str, words)]
    killed = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, start_new_session=True)
    results = tmp_path / "results"
    first = "beside-*/new/extra/run_0/attempt_0/spec.json"
    wait_until(lambda: any(results.glob(first)) or killed.poll() is not None, "the first run of the new side")
    killed.kill()
    killed.communicate(timeout=HANG_S)
    folder = the_pair(results)
    refused = inside("resume", folder, "-q")
    assert refused.returncode == 2 and f"dlrmbench resume {folder} --python {slower}" in refused.stderr
    code = slower.parents[1] / "tree" / "harness" / "foundation" / "status_line.py"
    text = code.read_text()
    code.write_text(text + "# changed\n")
    changed = inside("resume", folder, "--python", slower, "-q")
    code.write_text(text)
    assert changed.returncode == 2 and "Put that code back, or start a new pair" in changed.stderr
    done = inside("resume", folder, "--python", slower, "-q", "--format", "json")
    assert done.returncode == 0, done.stderr
    assert [score["num_converged"] for score in json.loads(done.stdout)["scores"]] == [1, 1]
    codes = {side: run_record(folder / side).code for side in ("base", "new")}
    digests = {side: open_run_set(folder / side)[1].code_sha256 for side in ("base", "new")}
    assert {side: code and code.sha256 for side, code in codes.items()} == digests
    assert len(set(digests.values())) == 2
    for side in ("base", "new"):
        assert inside("check", folder / side, "--no-second-opinion").returncode == 0
        assert (folder / side / "report.html").is_file()


def run_record(folder: Path) -> RunRecord:
    """Of the last attempt at run 0."""
    record = decode(max(folder.glob("extra/run_0/attempt_*")) / "run.json", RunRecord)
    assert isinstance(record, RunRecord)
    return record


def _remove(*names: str) -> Any:
    def change(tree: Path) -> None:
        for name in names:
            (tree / name).unlink()

    return change


def _of_version(name: str, line: str, newer: str) -> Any:
    def change(tree: Path) -> None:
        path = tree / name
        assert line in path.read_text(encoding="utf-8")
        path.write_text(path.read_text(encoding="utf-8").replace(line, newer), encoding="utf-8")

    return change


_ZEROS = 'def canonical_sha256(*_: object) -> str:\n    return "0" * 64\n\n\ndef _other('


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_remove("harness/run_sets/installation.py"), "too old to be driven by this one: it has no"),
        (
            _of_version("harness/measure/job.py", "JOB_VERSION = 1", "JOB_VERSION = 2"),
            "does jobs of version 2, this one understands 1. Install a version there",
        ),
        (
            _of_version("rules/records/codec.py", "VERSION: Final = 1", "VERSION: Final = 2"),
            "writes records of version 2, this one understands 1. Install a version there",
        ),
        (
            _of_version("rules/benchmarks/loader.py", "def canonical_sha256(", _ZEROS),
            "the definition of dlrm_tiny has the digest 000000000000",
        ),
    ],
)
def test_an_installation_of_another_time_is_refused_before_anything_is_made(
    change: Any, message: str, inside: Command, measured_once: Path, data_root: Path, tmp_path: Path
) -> None:
    python = make_environment(tmp_path / "other", change)
    done = inside(
        "run", "--beside", measured_once, "--python", python, "--data", data_root, "-o", tmp_path / "results", "-q"
    )
    assert (done.returncode, message in done.stderr) == (2, True), done.stderr
    assert not (tmp_path / "results").exists()


def test_what_is_no_interpreter_of_a_dlrmbench_is_refused(
    inside: Command, measured_once: Path, data_root: Path, tmp_path: Path
) -> None:
    bare = make_bare_environment(tmp_path / "bare")
    words = ("run", "--beside", measured_once, "--data", data_root, "-q", "--python")
    for python, message in (
        (bare, "has no dlrmbench. Install"),
        (tmp_path / "bare", f"its interpreter is {bare}"),
        (tmp_path / "nowhere", "no such program"),
    ):
        done = inside(*words, python)
        assert (done.returncode, message in done.stderr) == (2, True), done.stderr
    assert not (tmp_path / "results").exists()


@pytest.fixture(scope="module")
def measured_once(tmp_path_factory: pytest.TempPathFactory, data_root: Path) -> Path:
    """A measurement of throughput, whose processes answered at once."""
    results = tmp_path_factory.mktemp("measured")
    words = ["run", "dlrm_tiny", "--throughput", "2", "--threads", "1", "--data", data_root, "-o", results, "-q"]
    with pytest.MonkeyPatch.context() as patch:
        use_fast_workers(patch, FastWorkers())
        done = CliRunner().invoke(cli, [str(word) for word in words])
    assert done.exit_code == 0, done.output
    (folder,) = made_in(results)
    return folder

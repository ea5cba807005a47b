"""What a sweep says before, while and after it runs: its plan, the time left, partial results, the fastest."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from made_sets import made_in
from past_sets import past_sets
from sweep_builder import FastWorkers

from harness.cli import cli
from harness.experiment.loop import estimate_left_s
from harness.planning.plan import TimeEstimate
from reports.comparison.sweep import read_sweep_facts

Sweep = Callable[..., Result]
THREADS = ("--axis", "runtime.threads=1,2", "--throughput", "20")


@pytest.fixture
def sweep(workers: FastWorkers, data_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sweep:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("harness.measure.kinds.refuse_untrainable", lambda workload: None)

    def run(*arguments: str) -> Result:
        words = ["sweep", "dlrm_tiny", "--data", str(data_root), "--seed", "5", "-o", "out", *arguments]
        return CliRunner().invoke(cli, words)

    return run


@pytest.fixture
def _two_seconds_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """A system on which a process takes 1 s to begin and 2 s for every step."""
    monkeypatch.setattr("harness.planning.sweep.measure_start_s", lambda: 1.0)
    monkeypatch.setattr(
        "harness.planning.sweep.estimate_time",
        lambda config, counts, work, data_dir: TimeEstimate(run_s=2.0 * work.num_steps, method="given"),
    )


@pytest.mark.usefixtures("_two_seconds_a_step")
def test_a_dry_run_lists_every_configuration_with_its_time_and_makes_nothing(sweep: Sweep, tmp_path: Path) -> None:
    """20 steps after 10 to warm up take 60 s, and 2 configurations 5 processes each."""
    study = json.loads(sweep(*THREADS, "--dry-run", "--format", "json").stdout)
    assert [row[:2] for row in study["tables"][0]["rows"]] == [["threads=1", 60.0], ["threads=2", 60.0]]
    assert study["findings"] == ["About 10 min in all: 10 processes."]
    rows = sweep(*THREADS, "--dry-run", "--format", "csv").stdout.splitlines()
    assert rows == ["Configuration,Time,From", "threads=1,60.0,given", "threads=2,60.0,given"]
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("_two_seconds_a_step")
def test_a_dry_run_says_that_too_few_runs_give_no_verdict(sweep: Sweep) -> None:
    out = sweep("--axis", "runtime.threads=1,2", "-n", "3", "--dry-run").stdout
    assert "A verdict needs at least 5 runs of each configuration; 3 give none." in out
    assert "if no run meets its target earlier: 6 processes" in out


@pytest.mark.usefixtures("_two_seconds_a_step")
def test_a_dry_run_refuses_what_a_sweep_refuses(sweep: Sweep) -> None:
    done = sweep("--axis", "model.embedding_dim=8,16", "--dry-run")
    assert done.exit_code != 0


@pytest.mark.parametrize(
    ("took_s", "left", "expected_s"),
    [
        ({}, [0, 1], None),
        ({0: [4.0]}, [1, 1, 0], 12.0),
        ({0: [4.0, 6.0], 1: [1.0]}, [1, 0], 6.0),
        ({0: [4.0], 1: [2.0]}, [2], 3.0),
        ({0: [4.0]}, [], 0.0),
    ],
)
def test_what_is_left_takes_as_long_as_the_runs_of_each_configuration_took(
    took_s: Mapping[int, list[float]], left: list[int], expected_s: float | None
) -> None:
    assert estimate_left_s(took_s, left) == expected_s


@pytest.mark.slow
def test_every_run_but_the_first_is_announced_with_the_time_that_is_left(sweep: Sweep) -> None:
    lines = [line for line in sweep(*THREADS).stderr.splitlines() if line.startswith("[")]
    assert [line.split(",")[0] for line in lines[:3]] == ["[1/10] threads=1", "[2/10] threads=2", "[3/10] threads=2"]
    assert [" left" in line for line in lines] == [False] + [True] * 9


@pytest.mark.slow
def test_an_interrupted_sweep_shows_every_process_that_has_measured(
    sweep: Sweep, workers: FastWorkers, tmp_path: Path, command: Any
) -> None:
    """The first has measured in processes 1 and 2, the second in the first alone."""

    def interrupt_the_fourth(spec: Mapping[str, Any]) -> bool:
        if len(workers.launches) == 4:
            raise KeyboardInterrupt
        return False

    workers.fail = interrupt_the_fourth
    assert "resume" in sweep(*THREADS).stderr
    (folder,) = made_in(tmp_path / "out")
    assert [row.num_runs for row in read_sweep_facts(folder).rows] == [1, 2]
    assert sorted((past["num_done"], past["num_runs"]) for past in past_sets(folder)) == [(1, 5), (2, 5)]
    workers.fail = lambda spec: False
    assert CliRunner().invoke(cli, ["resume", str(folder), "-q"]).exit_code == 0
    assert [row.num_runs for row in read_sweep_facts(folder).rows] == [5, 5]
    assert len(workers.launches) == 11


@pytest.mark.slow
def test_the_last_sentence_says_which_is_fastest_as_the_page_does(sweep: Sweep, tmp_path: Path) -> None:
    out = sweep(*THREADS, "--axis", "train.global_batch_size=512,1024").stdout
    closing = " ".join(out[out.index("Fastest:") :].split())
    assert closing.startswith("Fastest: threads=2 global_batch_size=")
    assert "Not shown to differ from the fastest: threads=2 global_batch_size=" in closing
    assert "threads=1" not in closing
    (folder,) = made_in(tmp_path / "out")
    assert "Fastest: threads=2" in (folder / "report.html").read_text()


@pytest.mark.slow
def test_where_all_others_are_slower_it_says_so_and_of_quality_which_is_best(
    sweep: Sweep, workers: FastWorkers, tmp_path: Path
) -> None:
    out = " ".join(sweep(*THREADS).stdout.split())
    document = json.loads(sweep(*THREADS, "--format", "json").stdout)
    assert document["closing"].startswith("Fastest: threads=2 (20.0 k samples/s).")
    assert "Fastest: threads=2 (20.0 k samples/s)." in out and "The other is slower." in out
    workers.auc = lambda spec: 0.75 + spec["tables"]["train"]["opt_base_learning_rate"] / 10
    done = sweep("--axis", "train.opt_base_learning_rate=0.03,0.06", "--quality", "1000")
    assert "Best: opt_base_learning_rate=0.06 (AUC 0.7" in " ".join(done.stdout.split())


@pytest.mark.slow
def test_one_configuration_with_results_has_no_rival(sweep: Sweep, workers: FastWorkers, tmp_path: Path) -> None:
    workers.fail = lambda spec: spec["tables"]["runtime"]["threads"] == 1
    sweep(*THREADS)
    (folder,) = made_in(tmp_path / "out")
    assert read_sweep_facts(folder).closing == ""

"""A set grows: to a number that is asked for, or until its mean is known well enough; the score stays what it was."""

import json
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from places import ROOT
from records_builder import run_set_content
from scripted_workload import ScriptedWorkload
from sweep_builder import FastWorkers, use_fast_workers
from waiting import needs_two_cpus

from harness.api import resume
from harness.cli import cli
from harness.cli.compare import more_runs
from harness.experiment import loop
from harness.foundation.errors import HarnessError
from harness.launch.process import WorkerEnd
from harness.run_sets.folder import open_run_set
from reports.results.resolution import time_step
from reports.statistics.sequential_stopping import stopping_run
from rules.benchmarks.loader import load_benchmark
from rules.judge.sets import judge_set
from rules.logs import keys
from rules.tree.inventory import find_result_sets

Run = Callable[..., Result]


class UnevenWorkers(FastWorkers):
    """Runs whose times differ: those of odd index take `factor` as long as the others."""

    factor = 1.0

    def __call__(self, spec_path: Path, **options: object) -> WorkerEnd:
        end = super().__call__(spec_path, **options)
        log, index = spec_path.parent / "log.txt", json.loads(spec_path.read_text()).get("run_index", 0)
        if log.exists():
            lines = log.read_text().splitlines()
            start_ms = next(_record(line)["time_ms"] for line in lines if _record(line)["key"] == keys.RUN_START)
            took_ms = 1_000_000 * (self.factor if index % 2 else 1.0)
            *before, last = lines
            stop = _record(last) | {"time_ms": int(start_ms + took_ms)}
            log.write_text("\n".join([*before, f":::MLLOG {json.dumps(stop)}"]) + "\n")
        return end


def _record(line: str) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(line.removeprefix(":::MLLOG "))
    return record


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> UnevenWorkers:
    workers = UnevenWorkers()
    use_fast_workers(monkeypatch, workers)
    return workers


@pytest.fixture
def command(workers: UnevenWorkers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)
    return lambda *words: CliRunner().invoke(cli, [str(word) for word in words])


@pytest.fixture
def run(command: Run, data_root: Path) -> Run:
    return lambda *words: command("run", "dlrm_tiny", "--data", data_root, "--seed", 5, "-o", "out", *words)


def the_set(tmp_path: Path) -> Path:
    (folder,) = (path for path in (tmp_path / "out").iterdir() if not path.is_symlink())  # but `latest`
    return folder


def score(command: Run, folder: Path) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(command("score", folder, "--format", "json").output)["scores"][0]
    return record


def dropped(record: dict[str, Any]) -> list[str]:
    """The runs that Olympic scoring drops."""
    return [run["run"] for run in record["runs"] if run["counted"] == "dropped"]


@pytest.mark.slow
def test_a_set_grows_to_the_runs_asked_for_and_keeps_its_score(
    command: Run, run: Run, workers: UnevenWorkers, tmp_path: Path
) -> None:
    workers.factor = 1.1
    assert run("-q").exit_code == 0
    folder = the_set(tmp_path)
    before, seeds = score(command, folder), open_run_set(folder)[1].seeds
    grown = command("resume", folder, "--runs", 8, "-q")
    assert grown.exit_code == 0, grown.output
    assert [spec["run_index"] for spec in workers.launches] == list(range(8))
    record = open_run_set(folder)[1]
    assert record.num_runs == 8 and record.seeds[:5] == seeds and len(set(record.seeds)) == 8
    after = score(command, folder)
    assert (after["score_s"], dropped(after)) == (before["score_s"], dropped(before))
    assert (after["num_runs"], after["outcome"]) == (8, "valid")
    printed = " ".join(grown.output.split())
    assert "Olympic mean of the first 5 runs" in printed and "geometric mean of 8 runs, at least 90 %" in printed
    assert (after["confidence"], after["coverage"]) == (0.9, None)
    assert after["high_s"] - after["low_s"] != before["high_s"] - before["low_s"]
    checked = json.loads(command("check", folder, "--format", "json", "--no-second-opinion").output)
    (finding,) = [part for part in checked["verdicts"][0]["findings"] if part["code"] == "RS102"]
    assert finding["severity"] == "info" and "runs 0 to 4" in finding["message"]
    page = (folder / "report.html").read_text()
    assert "of the first 5 runs" in page and "beyond the 5 runs of the score" in page
    assert command("resume", folder, "--runs", 8, "-q").exit_code == 0
    assert len(workers.launches) == 8
    fewer = command("resume", folder, "--runs", 7)
    assert isinstance(fewer.exception, HarnessError) and "a set does not shrink" in str(fewer.exception)


@pytest.mark.slow
def test_a_set_that_another_command_resumes_does_not_grow(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D6: also not in the moment between that command's growing and its making of runs. The one that is refused has
    no effect."""
    assert run("-q", "-n", 1).exit_code == 0
    folder, tried = the_set(tmp_path), []

    def refuse_changed(*words: Any) -> None:
        with pytest.raises(HarnessError, match="another process is writing this run set"):
            resume(folder, runs=5)

    def perform(*words: Any) -> Any:
        refuse_changed()
        tried.append(open_run_set(folder)[1].num_runs)
        return made(*words)

    made = loop.perform
    monkeypatch.setattr(loop, "refuse_changed", refuse_changed)
    monkeypatch.setattr(loop, "perform", perform)
    resume(folder, runs=3)
    assert tried == [3, 3] and open_run_set(folder)[1].num_runs == 3


@pytest.mark.slow
def test_a_longer_set_without_one_of_its_first_runs_has_no_score(command: Run, run: Run, tmp_path: Path) -> None:
    assert run("-q", "-n", 7).exit_code == 0
    folder = the_set(tmp_path)
    (log,) = folder.glob("results/*/*/result_1.txt")
    log.unlink()
    assert score(command, folder)["no_score_reason"].startswith("run 1 is missing")


@pytest.mark.slow
def test_an_official_benchmark_does_not_grow_beyond_its_runs(command: Run, run: Run, tmp_path: Path) -> None:
    assert run("-q", "-n", 1).exit_code == 0
    folder = the_set(tmp_path)
    definition = ROOT / "rules" / "benchmarks" / "dlrm_dcnv2.toml"
    shutil.copy(definition, folder / "extra" / "definition.toml")
    path = folder / "extra" / "run_set.json"
    content = json.loads(path.read_text())
    digest = load_benchmark(definition).definition_sha256
    content["benchmark"] |= {"name": "dlrm_dcnv2", "status": "official", "definition_sha256": digest}
    path.write_text(json.dumps(content))
    refused = command("resume", folder, "--runs", 11)
    assert "over exactly 10 runs" in str(refused.exception)
    assert json.loads(path.read_text())["num_runs"] == 1


def test_an_official_benchmark_is_not_run_more_often_than_it_is_scored(command: Run, tmp_path: Path) -> None:
    refused = command("run", "dlrm_dcnv2", "-n", 11, "-o", "out")
    assert isinstance(refused.exception, HarnessError) and "over exactly 10 runs" in str(refused.exception)
    planned = command("plan", "dlrm_dcnv2", "-n", 11, "--no-measure")
    assert planned.exit_code == 2 and "The run cannot start" in planned.output
    until = command("run", "dlrm_dcnv2", "--until", "3%", "-o", "out")
    assert "its sets do not grow" in str(until.exception)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@needs_two_cpus
def test_a_measurement_and_a_sweep_grow_too(command: Run, data_root: Path, workers: UnevenWorkers) -> None:
    given = ["dlrm_tiny", "--data", data_root, "--seed", 5, "-q", "-o", "out"]
    assert command("run", *given, "--throughput", 4).exit_code == 0
    folder = the_set(Path())
    assert command("resume", folder, "--runs", 6, "-q").exit_code == 0
    assert len(json.loads((folder / "extra" / "throughput.json").read_text())["processes"]) == 6
    shutil.rmtree("out")
    assert command("sweep", *given, "--axis", "runtime.threads=1,2", "-n", 2).exit_code == 0
    folder = the_set(Path())
    assert command("resume", folder, "-n", 3, "-q").exit_code == 0
    assert json.loads((folder / "experiment.json").read_text())["stages"][0]["repetitions"] == 3
    assert len(list(folder.glob("0*/results/*/*/result_2.txt"))) == 2


@pytest.mark.slow
def test_a_set_grows_until_its_mean_is_known(command: Run, run: Run, workers: UnevenWorkers, tmp_path: Path) -> None:
    workers.factor = 1.05
    done = run("--until", "3%")
    assert done.exit_code == 0, done.output
    folder = the_set(tmp_path)
    record = open_run_set(folder)[1]
    assert record.until is not None
    assert (record.until.width, record.until.min_runs, record.until.max_runs) == (0.03, 5, 30)
    (result_set,) = find_result_sets(folder)
    times_s = [run.time_to_train_s for run in judge_set(result_set).result.runs]
    steps = [time_step(run) for run in judge_set(result_set).result.runs]
    assert stopping_run(np.log([times_s]), np.array([steps]), 0.03, 5)[0] == record.num_runs == len(times_s) > 5
    assert f"run {record.num_runs - 1} is added" in done.output
    grown = f"geometric mean of {record.num_runs} runs grown to 3.0 %, at least 90 %"
    assert grown in " ".join(done.output.split())
    made = score(command, folder)
    mean_s = float(np.exp(np.mean(np.log(times_s))))
    assert made["high_s"] <= 1.03 * mean_s and made["low_s"] < mean_s
    assert made["coverage"] is None and made["grown_to"] == 0.03
    assert "grew until its mean time to train was known" in (folder / "report.html").read_text()
    num_launches = len(workers.launches)
    assert command("resume", folder, "-q").exit_code == 0 and len(workers.launches) == num_launches
    assert made["grown_after"] == record.num_runs
    longer = command("resume", folder, "--runs", record.num_runs + 2, "-q")
    assert f"known to 3.0 % after {record.num_runs}, at least" in " ".join(longer.output.split())
    page = (folder / "report.html").read_text().replace("\xa0", " ")
    assert f"known to 3.0 % after {record.num_runs}." in page and "grew until" not in page
    assert score(command, folder)["grown_after"] == record.num_runs


@pytest.mark.slow
def test_a_set_that_never_becomes_precise_ends_at_its_most_runs(
    command: Run, run: Run, workers: UnevenWorkers, tmp_path: Path
) -> None:
    workers.factor = 3.0
    done = run("--until", "0.01", "--max-runs", 7, "-q")
    assert done.exit_code == 0, done.output
    folder = the_set(tmp_path)
    assert open_run_set(folder)[1].num_runs == 7
    assert "geometric mean of 7 runs, not known to 1.0 %, at least" in " ".join(done.output.split())
    page = (folder / "report.html").read_text().replace("\xa0", " ")
    assert "ended with 7 runs, before its mean time to train was known to 1.0 %" in page and "grew until" not in page
    assert score(command, folder)["grown_after"] is None
    assert run("--seed", 6, "--name", "given", "-q").exit_code == 0
    compared = command("compare", folder, "out/latest")
    assert "ended with 7 runs" in " ".join(compared.output.split()) and "grew until" not in compared.output


@pytest.mark.slow
def test_a_set_that_is_asked_for_runs_ends_there_precise_or_not(
    command: Run, run: Run, workers: UnevenWorkers, tmp_path: Path
) -> None:
    """One that was interrupted while it grew, say."""
    workers.factor, workers.fail = 3.0, lambda spec: spec["run_index"] == 6
    assert run("--until", "0.01", "-q").exit_code != 0
    workers.fail = lambda spec: False
    folder = the_set(tmp_path)
    assert command("resume", folder, "--runs", 8, "-q").exit_code == 0
    assert command("resume", folder, "-q").exit_code == 0
    record = open_run_set(folder)[1]
    assert record.num_runs == 8 and record.until is not None and record.until.max_runs == 8
    assert len(list(folder.glob("results/*/*/result_*.txt"))) == 8


@pytest.mark.slow
def test_a_set_with_a_run_that_did_not_converge_does_not_grow(
    run: Run, workers: UnevenWorkers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No number of further runs makes its mean known."""
    monkeypatch.setattr("sweep_builder.ScriptedWorkload", partial(fail_third, workers))
    done = run("--until", "1%", "-q")
    assert done.exit_code == 0, done.output
    assert open_run_set(the_set(tmp_path))[1].num_runs == 5
    assert "none: a run did not converge" in " ".join(done.output.split())


def fail_third(workers: UnevenWorkers, benchmark: Any, qualities: list[float], **options: Any) -> ScriptedWorkload:
    return ScriptedWorkload(benchmark, [0.5, 0.5] if len(workers.launches) == 3 else qualities, **options)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--max-runs", 9], "--max-runs limits --until"),
        (["--until", "0"], "a fraction above 0"),
        (["--until", "3%", "--throughput", 4], "for runs to the target"),
        (["--until", "lots"], "expected a fraction"),
        (["--until", "3%", "-n", 4], "at least 5 runs"),
        (["--until", "3%", "--max-runs", 4], "begins with 5 runs"),
    ],
)
def test_growth_that_cannot_be_is_refused_before_anything_is_written(
    run: Run, tmp_path: Path, words: list[object], message: str
) -> None:
    done = run(*words)
    assert done.exit_code != 0 and message in f"{done.output} {done.exception}"
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
@needs_two_cpus
def test_compare_names_the_commands_that_add_runs(command: Run, run: Run, data_root: Path, tmp_path: Path) -> None:
    """Of sets that hold fewer than it takes; a folder of anyone's, or an official benchmark's, cannot grow."""
    assert run("-q", "-n", 1).exit_code == 0
    folder = the_set(tmp_path)

    def inconclusive(num_runs: int | None, status: str = "own", *, is_apart: bool = False) -> Any:
        return SimpleNamespace(
            verdict="inconclusive",
            status=status,
            whole=SimpleNamespace(runs_needed=num_runs),
            is_one_after_the_other=is_apart,
        )

    (advice,) = more_runs([folder, tmp_path], [inconclusive(3), inconclusive(2)])
    assert advice == f"dlrmbench resume {folder} --runs 3"
    assert command(*advice.split()[1:], "-q").exit_code == 0
    assert more_runs([folder], [inconclusive(3)]) == []
    assert more_runs([folder], [inconclusive(9, is_apart=True)]) == []  # no number of runs narrows what drift may do
    assert command("run", "--beside", folder, "-q", "-n", 1, "-o", "pairs").exit_code == 0
    pair = next(path for path in (tmp_path / "pairs").iterdir() if not path.is_symlink())
    findings = judge_set(find_result_sets(pair / "base")[0]).verdict.findings
    (few,) = (found for found in findings if found.code == "RS101")
    assert f"'dlrmbench resume {pair} --runs " in few.remedy
    (advice,) = more_runs([pair / "base", pair / "new"], [inconclusive(2)])
    assert advice == f"dlrmbench resume {pair} --runs 2"
    assert command(*advice.split()[1:], "-q").exit_code == 0
    assert [open_run_set(pair / side)[1].num_runs for side in ("base", "new")] == [2, 2]
    sides = "sweep", "dlrm_tiny", "--data", data_root, "-q", "-n", 1, "-o", "swept", "--axis", "runtime.threads=1,2"
    assert command(*sides).exit_code == 0
    sweep = next(path for path in (tmp_path / "swept").iterdir() if not path.is_symlink())
    assert more_runs(sorted(sweep.glob("0*")), [inconclusive(2)]) == [f"dlrmbench resume {sweep} --runs 2"]
    assert more_runs([folder], [inconclusive(None)]) == more_runs([folder], [inconclusive(9, "official")]) == []


def test_the_record_of_growth_is_bounded(tmp_path: Path) -> None:
    from rules.records.codec import DamageError, convert
    from rules.records.run_set import RunSetRecord

    for wrong in ({"width": 0.0}, {"width": 2.0}, {"max_runs": 0}, {"min_runs": 0}):
        until = {"width": 0.03, "min_runs": 5, "max_runs": 30} | wrong
        with pytest.raises(DamageError, match=f"until.{next(iter(wrong))}"):
            convert(run_set_content(until=until), RunSetRecord)

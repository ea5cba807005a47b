"""One run: the order of events, the three ends, and a log that says what happened."""

import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
from scripted_workload import NOT_FINITE, ScriptedWorkload, run_scripted
from waiting import HANG_S

import harness
from harness.measure.run_log import make_schedule
from harness.run_sets.folder import is_finished
from rules.benchmarks.loader import load_benchmark
from rules.logs import keys
from rules.logs.log import RunLog, read_log

TINY = load_benchmark("dlrm_tiny")
TARGET = TINY.quality.target


def run(tmp_path: Path, qualities: list[float], **changes: object) -> tuple[ScriptedWorkload, RunLog]:
    workload = ScriptedWorkload(TINY, qualities)
    run_scripted(tmp_path / "log.txt", workload, **changes)
    return workload, read_log(tmp_path / "log.txt")


def keys_of(log: RunLog) -> list[str]:
    return [line.key for line in log.lines]


def test_a_run_stops_at_the_first_evaluation_that_meets_the_target(tmp_path: Path) -> None:
    workload, log = run(tmp_path, [0.6, TARGET, 0.9])
    assert [line.value for line in log.all(keys.EVAL_ACCURACY)] == [0.6, TARGET]
    stop = log.last(keys.RUN_STOP)
    assert stop is not None
    assert stop.metadata["status"] == "success"
    assert stop.metadata["samples_count"] == 2 * 2 * 1024
    assert stop.metadata["epoch_num"] == pytest.approx(0.1)
    assert workload.num_evals == 2


def test_events_come_in_the_order_of_the_rules(tmp_path: Path) -> None:
    workload, log = run(tmp_path, [TARGET])
    order = keys_of(log)
    assert order[0] == "cache_clear"
    assert order.index("init_start") < order.index("submission_benchmark") < order.index("init_stop")
    assert order.index("global_batch_size") < order.index("init_stop") < order.index("run_start")
    assert order[order.index("run_start") :] == [
        "run_start",
        "block_start",
        "block_stop",
        "tracked_stats",
        "eval_start",
        "eval_accuracy",
        "eval_stop",
        "run_stop",
    ]
    assert workload.events[0] == "build"
    stamps = [line.time_ms for line in log.lines]
    assert stamps == sorted(stamps)


def test_devices_are_synchronised_before_stamps_of_work(tmp_path: Path) -> None:
    workload, _ = run(tmp_path, [TARGET])
    last_train = max(i for i, event in enumerate(workload.events) if event.startswith("train"))
    assert workload.events[last_train + 1] == "synchronize"
    assert workload.events[workload.events.index("evaluate") + 1] == "synchronize"


@pytest.mark.parametrize(
    ("qualities", "reason", "num_evals"),
    [
        ([0.6] * 20, "max_epochs", 20),
        ([0.52, 0.54, 0.9], "not_learning", 2),
        ([0.54, 0.53, 0.9], "not_learning", 2),
        ([0.6, NOT_FINITE], "not_finite", 1),
        ([0.6, math.inf], "not_finite", 1),
    ],
)
def test_a_run_that_does_not_converge_is_a_finished_log_with_its_reason(
    tmp_path: Path, qualities: list[float], reason: str, num_evals: int
) -> None:
    _, log = run(tmp_path, qualities)
    stop = log.last(keys.RUN_STOP)
    assert stop is not None
    assert (stop.metadata["status"], stop.metadata["reason"]) == ("aborted", reason)
    assert len(log.all(keys.EVAL_ACCURACY)) == num_evals
    assert len(log.all(keys.BLOCK_START)) == len(log.all(keys.BLOCK_STOP))
    assert len(log.all(keys.EVAL_START)) == len(log.all(keys.EVAL_STOP))
    assert is_finished(log)


@pytest.mark.parametrize("qualities", [[0.5, 0.56, TARGET], [0.71, 0.51, TARGET], [0.54, 0.56, 0.53, TARGET]])
def test_a_slow_start_or_one_fall_is_no_failure_to_learn(tmp_path: Path, qualities: list[float]) -> None:
    """Evaluations a step apart, on a small dataset of a user, fell to 0.51 in runs that reached their target."""
    _, log = run(tmp_path, qualities)
    stop = log.last(keys.RUN_STOP)
    assert stop is not None and stop.metadata["status"] == "success"


def test_a_timeout_ends_the_run_as_not_converged(tmp_path: Path) -> None:
    _, log = run(tmp_path, [0.6] * 20, timeout_s=0.0)
    stop = log.last(keys.RUN_STOP)
    assert stop is not None and stop.metadata["reason"] == "timeout"
    assert is_finished(log)


def test_an_interrupted_run_is_not_finished(tmp_path: Path) -> None:
    class Interrupted(ScriptedWorkload):
        def evaluate(self) -> float:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_scripted(tmp_path / "log.txt", Interrupted(TINY, [0.6]))
    log = read_log(tmp_path / "log.txt")
    stop = log.last(keys.RUN_STOP)
    assert stop is not None and stop.metadata["reason"] == "interrupted"
    assert not is_finished(log)


def test_log_lines_name_code_of_the_product(tmp_path: Path) -> None:
    _, log = run(tmp_path, [TARGET])
    files = {line.metadata["file"] for line in log.lines if line.key not in ("cache_clear",)}
    assert files == {"harness/measure/training.py"}


LOG_A_LINE = """
import sys
from pathlib import Path
from types import SimpleNamespace

import harness
from harness.measure.run_log import RunLogWriter, TrainingBlock

writer = RunLogWriter(Path(sys.argv[1]), SimpleNamespace(time_ms=lambda: 1))
block = TrainingBlock(num_steps=1, first_sample=0, last_sample=1, train_samples=1, first_epoch_num=0)
exec(compile("writer.throughput(1.0, block)", harness.__file__, "exec"))
writer.close()
"""


def test_log_lines_do_not_name_the_link_that_leads_to_the_product(tmp_path: Path) -> None:
    (tmp_path / "linked").symlink_to(Path(harness.__file__).parents[1])
    log = tmp_path / "log.txt"
    subprocess.run(
        [sys.executable, "-P", "-c", LOG_A_LINE, str(log)],
        env={**os.environ, "PYTHONPATH": str(tmp_path / "linked")},
        check=True,
        timeout=HANG_S,
    )
    assert [line.metadata["file"] for line in read_log(log).lines] == ["harness/__init__.py"]


def test_a_log_is_never_overwritten(tmp_path: Path) -> None:
    run(tmp_path, [TARGET])
    with pytest.raises(FileExistsError):
        run(tmp_path, [TARGET])


@pytest.mark.parametrize(
    ("train_samples", "batch_size"), [(40960, 1024), (983040, 2048), (100, 7), (4195197692, 65536)]
)
def test_the_schedule_is_the_rules_formula(train_samples: int, batch_size: int) -> None:
    schedule = make_schedule(TINY, train_samples, batch_size)
    steps = max(1, train_samples // (batch_size * 20))
    assert {block.num_steps for block in schedule} == {steps}
    assert [block.first_sample for block in schedule] == [i * steps * batch_size for i in range(len(schedule))]
    assert schedule[-1].last_sample <= train_samples
    assert schedule[-1].last_sample + steps * batch_size > train_samples - batch_size
    assert len(schedule) >= min(20, train_samples // batch_size)


def test_official_dcnv2_evaluates_every_3200_iterations_at_65536() -> None:
    benchmark = load_benchmark("dlrm_dcnv2")
    assert benchmark.steps_between_evals(4195197692, 65536) == 3200
    assert benchmark.steps_between_evals(4195197692, 55296) == 3793
    assert len(make_schedule(benchmark, 4195197692, 65536)) == 20

"""A run that is past its --timeout and cannot end by itself: when it is lost, and that nothing of it is left."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from command import Command
from made_sets import made_in
from ranks_builder import needs_torchrec
from waiting import HANG_S, has_ended, needs_two_cpus, wait_until

from harness.launch import deadline
from harness.launch.deadline import SILENT_FOR_S, STOPPED_FOR_S, Deadline, kill_tree
from harness.launch.timekeeper import RUN_START, RUN_STOP

Child = subprocess.Popen[bytes]
FAMILY = """
import subprocess, sys
below = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"], start_new_session=True)
print(below.pid, flush=True)
below.wait()
"""
"""A process with one below it in a session of its own, as a rank of torchrun's is."""
STOPS = """
import os, signal
from pathlib import Path

from reference_models.dlrm.{module} import {base}
from reference_models.spec import Implementation


class Stops({base}):
    def {method}(self, *values, **options):
        Path(f"pid_{{os.getpid()}}").touch()
        os.kill(os.getpid(), signal.SIGSTOP)
        return super().{method}(*values, **options)


LOAD = Implementation(load=Stops, refuse_ranks=lambda train, runtime: None)
"""


@pytest.fixture
def family() -> Iterator[tuple[Child, int]]:
    parent = subprocess.Popen([sys.executable, "-c", FAMILY], stdout=subprocess.PIPE)
    assert parent.stdout is not None
    below = int(parent.stdout.readline())
    yield parent, below
    kill_tree(parent.pid)
    parent.communicate()
    assert has_ended(below)


def test_a_stopped_process_is_ended_past_the_deadline_alone(family: tuple[Child, int]) -> None:
    parent, below = family
    watch = Deadline(parent.pid, 60.0)
    os.kill(below, signal.SIGSTOP)
    assert watch.look(60.0) is None  # whatever it is, it has its time
    watch.take(RUN_START)
    assert watch.look(60.0) is None  # counts from the run's begin
    assert watch.look(STOPPED_FOR_S / 2) is None
    os.kill(below, signal.SIGCONT)
    wait_until(lambda: deadline.find_stopped([below]) is None, "a process that goes on")
    assert watch.look(STOPPED_FOR_S) is None
    os.kill(below, signal.SIGSTOP)
    wait_until(lambda: deadline.find_stopped([below]) == below, "a process that is stopped")
    reason = watch.look(STOPPED_FOR_S)
    assert reason is not None and f"--timeout of 60 s: its process {below} is stopped" in reason


def test_a_silent_run_is_ended_long_after_its_deadline(family: tuple[Child, int]) -> None:
    parent, _ = family
    watch = Deadline(parent.pid, 60.0)
    assert watch.look(10 * SILENT_FOR_S) is None  # building a model may take its time
    watch.take(RUN_START)
    assert watch.look(SILENT_FOR_S) is None  # silent for so long, but not past the deadline
    watch.take("train")
    assert watch.look(SILENT_FOR_S - 1.0) is None
    watch.take("eval")
    assert watch.look(SILENT_FOR_S - 1.0) is None
    reason = watch.look(1.0)
    assert reason is not None and "nothing was heard of it" in reason
    watch.take(RUN_STOP)
    assert watch.look(10 * SILENT_FOR_S) is None


def test_all_processes_of_a_lost_run_are_killed(family: tuple[Child, int], monkeypatch: pytest.MonkeyPatch) -> None:
    parent, below = family
    monkeypatch.setattr(deadline, "_TICK_S", 0.01)
    monkeypatch.setattr(deadline, "STOPPED_FOR_S", 0.01)
    for pid in (below, parent.pid):
        os.kill(pid, signal.SIGSTOP)
    with Deadline(parent.pid, 0.0) as watch:
        parent.wait(HANG_S)
    assert watch.reason is not None and has_ended(below)


def test_nothing_is_watched_where_no_time_is_given(family: tuple[Child, int]) -> None:
    with Deadline(family[0].pid, None) as watch:
        assert not watch.take("train") and watch.take(RUN_START)
    assert watch.reason is None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "base", "method", "more"),
    [
        ("reference", "ReferenceWorkload", "build", ("--threads", 1)),
        ("reference", "ReferenceWorkload", "train", ("--threads", 1)),
        pytest.param("reference", "ReferenceWorkload", "train", (), marks=needs_two_cpus, id="threads_timed"),
        pytest.param("torchrec", "TorchRecWorkload", "train", ("--threads", 1, "--ranks", 2), marks=needs_torchrec),
    ],
)
def test_a_run_whose_processes_are_stopped_ends_by_its_timeout(
    module: str, base: str, method: str, more: tuple[object, ...], data_root: Path, tmp_path: Path, dlrmbench: Command
) -> None:
    """They stop themselves, so there is no moment to hit; of ranks all do, so that no rank is there to notice."""
    data = shutil.copytree(data_root, tmp_path / "data")  # where threads are timed, something is left beside it
    (tmp_path / "stops.py").write_text(STOPS.format(module=module, base=base, method=method))
    done = dlrmbench(
        "run", "dlrm_tiny", "-n", 1, "--timeout", 0.001, "--implementation", "stops.py:LOAD",
        "--data", data, "-o", "out", "-q", *more,
    )  # fmt: skip
    assert done.returncode == 124, done.stderr
    assert "did not end by itself at its --timeout of 0.001 s" in done.stderr and "is stopped" in done.stderr
    pids = [int(path.name.removeprefix("pid_")) for path in tmp_path.glob("**/pid_*")]
    assert len(pids) == (1 if more == ("--threads", 1) else 2) and all(map(has_ended, pids))
    (run_set,) = made_in(tmp_path / "out")
    record = json.loads((run_set / "extra" / "run_0" / "attempt_0" / "run.json").read_text())
    assert (record["status"], record["exit_code"]) == ("interrupted", 124)

"""Repetitions side by side: slots of their own, kept busy until all have ended, and all ended by what ends one."""

import os
import subprocess
import threading
from types import SimpleNamespace
from typing import Any

import pytest
from waiting import wait_until

from harness.experiment.side_by_side import make_side_by_side
from harness.foundation.errors import HarnessError
from harness.launch import slots as slots_module
from harness.launch.slots import Slot, StopWork, make_slots

SIBLINGS = [(0, 4), (1, 5), (2, 6), (3, 7)]


@pytest.fixture
def four_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """A system of four cores of two threads each, of which three may be used at a time."""
    monkeypatch.setattr(slots_module, "list_cores", lambda: SIBLINGS)
    monkeypatch.setattr(slots_module, "read_resources", lambda: SimpleNamespace(num_cores=4))


def two_slots() -> list[Slot]:
    stays: list[Any] = []
    return [Slot(number=number, cpus=(number,), stays=stays) for number in range(2)]


def test_slots_share_whole_cores_and_gpus_and_have_none_in_common(four_cores: None) -> None:
    made = make_slots(2, num_threads=2, gpus=None, num_gpus=1, what="--parallel-trials")
    assert [slot.cpus for slot in made] == [(0, 4, 1, 5), (2, 6, 3, 7)]
    assert [slot.variables for slot in made] == [{}, {}] and made[0].stays is made[1].stays
    made = make_slots(3, num_threads=1, gpus=["3", "MIG-1", "5", "7", "8", "9"], num_gpus=2, what="--parallel-trials")
    assert [slot.cpus for slot in made] == [(0, 4), (1, 5), (2, 6)]
    assert [slot.variables["CUDA_VISIBLE_DEVICES"] for slot in made] == ["3,MIG-1", "5,7", "8,9"]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (
            {"num": 5},
            "5 of 1 thread each takes 5 cores, and this process may use 4. Give 4.",
        ),
        (
            {"num": 2, "num_threads": 3},
            "2 of 3 threads each takes 6 cores, and this process may use 4. Leave it out, or fewer threads each.",
        ),
        (
            {"num": 2, "gpus": ["0"]},
            "2 of 1 GPU each takes 2 GPUs, and this process may use 1. Leave it out.",
        ),
        ({"num": 5, "remedy": "Go on."}, "5 of 1 thread each takes 5 cores, and this process may use 4. Go on."),
    ],
)
def test_more_than_there_is_for_is_refused_in_a_sentence(asked: dict[str, Any], said: str, four_cores: None) -> None:
    usual: dict[str, Any] = {"num_threads": 1, "gpus": None, "num_gpus": 1, "what": "--at"}
    with pytest.raises(HarnessError) as error:
        make_slots(**{**usual, **asked})
    assert (str(error.value), error.value.exit_code) == (f"--at {said}", 2)


def test_a_system_that_pins_no_process_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_setaffinity")
    with pytest.raises(HarnessError, match="pins no process to cores"):
        make_slots(2, num_threads=1, gpus=None, num_gpus=1, what="--parallel-trials")


def test_how_many_ran_beside_is_an_average_over_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = SimpleNamespace(s=0.0)
    monkeypatch.setattr(slots_module, "time", SimpleNamespace(monotonic=lambda: now.s))
    first, second = two_slots()
    with second.stay():
        now.s = 2.0
        with first.stay():
            now.s = 4.0
    now.s = 6.0
    assert first.count_beside(since_s=2.0) == pytest.approx(2 / 4)
    with second.stay():
        now.s = 10.0
        assert first.count_beside(since_s=6.0) == 1.0, "it has not ended yet"
    assert first.count_beside(since_s=10.0) == 0.0


def test_a_slot_is_kept_busy_until_all_have_ended_and_failures_are_told() -> None:
    is_busy, told = threading.Event(), list[tuple[int, str | None]]()

    def fail(slot: Slot) -> None:
        raise HarnessError(f"out of memory in {slot.cpus}")

    def make(slot: Slot) -> None:
        wait_until(is_busy.is_set, "the other slot is kept busy")

    def keep_busy(slot: Slot) -> bool:
        assert slot.number == 0
        is_busy.set()
        return not slot.stop.is_asked

    make_side_by_side(
        {0: fail, 1: make}, two_slots(), keep_busy, lambda number, error: told.append((number, error and str(error)))
    )
    assert told == [(0, "out of memory in (0,)"), (1, None)]


def test_a_slot_without_a_repetition_is_busy_from_the_beginning() -> None:
    is_busy = threading.Event()

    def keep_busy(slot: Slot) -> bool:
        is_busy.set()
        return False

    make_side_by_side(
        {1: lambda slot: wait_until(is_busy.is_set, "busy")}, two_slots(), keep_busy, lambda number, error: None
    )


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_what_ends_one_ends_all(error: type[BaseException]) -> None:
    has_begun, has_stopped = threading.Event(), threading.Event()

    def end(slot: Slot) -> None:
        wait_until(has_begun.is_set, "both have begun")
        raise error

    def make(slot: Slot) -> None:
        has_begun.set()
        wait_until(lambda: slot.stop.is_asked, "it is stopped")
        has_stopped.set()
        raise StopWork

    with pytest.raises(error):
        make_side_by_side({0: end, 1: make}, two_slots(), lambda slot: False, lambda number, error: None)
    assert has_stopped.is_set()


def test_a_process_is_pinned_and_ended_and_none_is_started_after_that() -> None:
    slot = Slot(number=0, cpus=(min(os.sched_getaffinity(0)),))
    process = subprocess.Popen(["sleep", "1000"])
    slot.pin(process.pid)
    assert os.sched_getaffinity(process.pid) == {*slot.cpus}
    with pytest.raises(StopWork), slot.stop.covering(process):
        slot.stop.ask()
    assert process.returncode == -15
    with pytest.raises(StopWork), slot.stop.covering(process):
        raise AssertionError("begun after the stop")


def test_a_cpu_that_is_not_ours_is_an_error_that_names_it() -> None:
    with pytest.raises(HarnessError, match="CPUs 99999: cannot be pinned to"):
        Slot(number=0, cpus=(99999,)).pin(os.getpid())

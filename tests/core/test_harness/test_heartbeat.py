"""Why a rank ends when another is lost, ends with an error or has said why: one reason, the same for all."""

import json
from collections.abc import Callable
from dataclasses import replace

import pytest
from torch._C._distributed_c10d import HashStore
from waiting import HANG_S, wait_until

from harness.foundation.errors import ExitCode, HarnessError, RefusedByAllError
from harness.launch import heartbeat
from harness.launch.heartbeat import Heartbeat
from reference_models.distributed.rendezvous import Rendezvous

BROKEN = RuntimeError("Connection closed by peer [127.0.0.1]:1234")


class MadeTime:
    """A clock that only sleeping moves, by a second; and only once `beats` has gone on, as it would in a second."""

    def __init__(self, beats: Callable[[], int]) -> None:
        self._beats, self._now_s = beats, 0.0

    def monotonic(self) -> float:
        return self._now_s

    def sleep(self, seconds: float) -> None:
        self._now_s += 1.0
        enough = self._beats() + 2  # the first may have read the clock before
        wait_until(lambda: self._beats() >= enough, "two beats")


@pytest.fixture
def rank_0(monkeypatch: pytest.MonkeyPatch) -> Rendezvous:
    """Of a world of two, whose rank 1 never says that it lives."""
    store = HashStore()
    meeting = Rendezvous(rank=0, size=2, host="rank 0", is_host=False, store=store, notes=store)
    monkeypatch.setattr(heartbeat, "time", MadeTime(lambda: int(meeting.read_note("beat/0") or 0)))
    monkeypatch.setattr(heartbeat, "BEAT_S", 0.01)
    monkeypatch.setattr(heartbeat, "_GONE_AFTER_S", HANG_S)
    monkeypatch.setattr(heartbeat, "_SETTLE_S", HANG_S)
    # Whichever of the two is first ends the rank: here the main thread, since the other one ends the process.
    monkeypatch.setattr(Heartbeat, "_watch", lambda self: None)
    return meeting


def end_with(meeting: Rendezvous, error: BaseException) -> tuple[BaseException, list[tuple[str, int]]]:
    """What leaves the block, and what was kept on record."""
    kept: list[tuple[str, int]] = []
    with pytest.raises(BaseException) as left, Heartbeat(meeting) as beating:
        beating.on_end = lambda reason, code: kept.append((reason, code))
        raise error
    return left.value, kept


def test_a_broken_connection_is_reported_as_the_rank_that_is_silent(rank_0: Rendezvous) -> None:
    error, kept = end_with(rank_0, BROKEN)
    assert isinstance(error, HarnessError)
    assert error.exit_code == ExitCode.RESOURCES
    assert str(error).startswith("rank 1 has not been heard of for ")
    assert str(error).endswith("; rank 0 ends.")
    assert [code for _, code in kept] == [ExitCode.RESOURCES]
    assert json.loads(rank_0.read_note("end"))["rank"] == 1


def test_the_first_reason_is_kept(rank_0: Rendezvous) -> None:
    rank_0.note("end", json.dumps({"rank": 1, "reason": "rank 1: disk full", "code": 9}))
    error, kept = end_with(rank_0, BROKEN)
    assert str(error) == "rank 1: disk full; rank 0 ends."
    assert kept == [("rank 1: disk full", 9)]


@pytest.mark.parametrize(
    ("error", "reason", "code"),
    [
        (HarnessError("no room", ExitCode.INPUT), "rank 0: no room", ExitCode.INPUT),
        (KeyError("x"), "rank 0: internal error: KeyError: 'x'", ExitCode.INTERNAL_ERROR),
        (KeyboardInterrupt(), "rank 0 was ended by SIGINT", ExitCode.INTERRUPTED),
        (RuntimeError("[enforce] can't allocate memory"), "rank 0: out of memory", ExitCode.RESOURCES),
    ],
)
def test_a_ranks_own_error_is_left_as_it_is_and_sent_to_the_others(
    rank_0: Rendezvous, error: BaseException, reason: str, code: int
) -> None:
    left, kept = end_with(rank_0, error)
    assert left is error
    assert kept[0][0].startswith(reason)
    assert kept[0][1] == code
    assert json.loads(rank_0.read_note("end"))["code"] == code


def test_what_all_ranks_raise_is_sent_to_none(rank_0: Rendezvous) -> None:
    left, _ = end_with(rank_0, RefusedByAllError("ranks differ", ExitCode.USAGE))
    assert str(left) == "ranks differ"
    assert rank_0.read_note("end") == ""


def test_a_run_that_ends_well_says_nothing(rank_0: Rendezvous) -> None:
    with Heartbeat(rank_0):
        pass
    assert (rank_0.read_note("end"), rank_0.read_note("ended/0")) == ("", "1")


class LateRank:
    """A clock during whose third wait rank 1, which took its time, ends its heartbeat, where it ever does."""

    def __init__(self, meeting: Rendezvous, *, ever: bool) -> None:
        self._meeting, self._ever, self._now_s, self.num_waits = meeting, ever, 0.0, 0

    def monotonic(self) -> float:
        return self._now_s

    def sleep(self, seconds: float) -> None:
        self._now_s += 1.0
        self.num_waits += 1
        if self._ever and self.num_waits == 3:
            self._meeting.note("ended/1", "1")


@pytest.mark.parametrize(("ever", "num_waits"), [(True, 3), (False, heartbeat.LOST_AFTER_S)])
def test_who_serves_the_notes_leaves_last_and_waits_for_a_lost_rank_no_longer(
    rank_0: Rendezvous, monkeypatch: pytest.MonkeyPatch, ever: bool, num_waits: int
) -> None:
    host = replace(rank_0, is_host=True)
    with Heartbeat(host):
        clock = LateRank(host, ever=ever)
        monkeypatch.setattr(heartbeat, "time", clock)
    assert clock.num_waits == num_waits

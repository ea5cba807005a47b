"""Why a rank ends when another is lost, ends with an error or has said why: one reason, the same for all."""

import json

import pytest
from torch._C._distributed_c10d import HashStore

from harness.foundation.errors import ExitCode, HarnessError, RefusedByAllError
from harness.launch import heartbeat
from harness.launch.heartbeat import Heartbeat
from reference_models.distributed.rendezvous import Meeting

BROKEN = RuntimeError("Connection closed by peer [127.0.0.1]:1234")


@pytest.fixture
def rank_0(monkeypatch: pytest.MonkeyPatch) -> Meeting:
    """Of a world of two, whose rank 1 never says that it lives."""
    monkeypatch.setattr(heartbeat, "SILENT_AFTER_S", 0.3)
    monkeypatch.setattr(heartbeat, "BEAT_S", 0.05)
    store = HashStore()
    return Meeting(rank=0, size=2, host="rank 0", is_host=False, store=store, notes=store)


def end_with(meeting: Meeting, error: BaseException) -> tuple[BaseException, list[tuple[str, int]]]:
    """What leaves the block, and what was kept on record."""
    kept: list[tuple[str, int]] = []
    with pytest.raises(BaseException) as left, Heartbeat(meeting) as beating:
        beating.on_end = lambda reason, code: kept.append((reason, code))
        raise error
    return left.value, kept


def test_a_broken_connection_is_told_as_the_rank_that_is_silent(rank_0: Meeting) -> None:
    error, kept = end_with(rank_0, BROKEN)
    assert isinstance(error, HarnessError)
    assert error.exit_code == ExitCode.RESOURCES
    assert str(error).startswith("rank 1 has not been heard of for ")
    assert str(error).endswith("; rank 0 ends.")
    assert [code for _, code in kept] == [ExitCode.RESOURCES]
    assert json.loads(rank_0.read_note("end"))["rank"] == 1


def test_the_first_reason_stands(rank_0: Meeting) -> None:
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
def test_a_ranks_own_error_is_left_as_it_is_and_told_to_the_others(
    rank_0: Meeting, error: BaseException, reason: str, code: int
) -> None:
    left, kept = end_with(rank_0, error)
    assert left is error
    assert kept[0][0].startswith(reason)
    assert kept[0][1] == code
    assert json.loads(rank_0.read_note("end"))["code"] == code


def test_what_all_ranks_raise_is_told_to_none(rank_0: Meeting) -> None:
    left, _ = end_with(rank_0, RefusedByAllError("ranks differ", ExitCode.USAGE))
    assert str(left) == "ranks differ"
    assert rank_0.read_note("end") == ""


def test_a_run_that_ends_well_says_nothing(rank_0: Meeting) -> None:
    with Heartbeat(rank_0):
        pass
    assert rank_0.read_note("end") == ""

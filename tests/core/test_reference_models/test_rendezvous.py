"""How ranks meet: all or none, with a line while they wait and one error that says what to do."""

import re
import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from ranks_builder import reserve_port
from waiting import HANG_S

from reference_models.distributed import rendezvous as meeting
from reference_models.distributed.rendezvous import Rendezvous, rendezvous
from reference_models.process.errors import ConfigError, DeviceError, WorldError


def world(rank: int, **other: str) -> dict[str, str]:
    given = {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}
    return {**given, **other}


class MadeTime:
    """A clock that only sleeping moves, and that by the whole of it."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meeting, "_ANSWERS_WITHIN_S", HANG_S)


def test_ranks_that_have_met_read_each_others_notes_and_agree_on_the_first() -> None:
    with reserve_port() as holder, ThreadPoolExecutor(2) as pool:
        port = str(holder.getsockname()[1])
        first, second = pool.map(lambda rank: rendezvous(world(rank, MASTER_PORT=port), timeout_s=HANG_S), range(2))
    assert (first.rank, second.rank, first.size, first.is_host, second.is_host) == (0, 1, 2, True, False)
    assert second.read_note("a") == ""
    first.note("a", "1")
    assert first.read_note("a") == "1"  # by now whoever serves it has it
    assert second.read_note("a") == "1"
    assert second.first_note("b", "mine") == "mine"
    assert first.first_note("b", "other") == "mine"


def meet(gpus: list[str | None]) -> list[str]:
    """What each rank, computing on that GPU, says when all have met; nothing where all is well."""
    with reserve_port() as holder, ThreadPoolExecutor(len(gpus)) as pool:
        given = {"MASTER_PORT": str(holder.getsockname()[1]), "WORLD_SIZE": str(len(gpus))}

        def come(rank: int) -> Rendezvous | str:
            try:
                return rendezvous(world(rank, **given), timeout_s=HANG_S, gpu=gpus[rank])
            except DeviceError as error:
                return str(error)

        met = list(pool.map(come, range(len(gpus))))  # rank 0 serves the others' notes as long as it is kept
        return [each if isinstance(each, str) else "" for each in met]


def test_two_ranks_on_one_gpu_are_refused_by_all_of_them() -> None:
    """As mpirun starts them, without LOCAL_RANK: NCCL would end in words of its own."""
    said = meet(["a GPU-0", "b GPU-0", "a GPU-0"])
    assert len(set(said)) == 1
    assert re.match(r"ranks 0 and 2 have the same GPU \(a GPU-0\).*Set LOCAL_RANK for each rank", said[0])


@pytest.mark.parametrize("gpus", [["a GPU-0", "b GPU-0"], ["a GPU-0", "a GPU-1"], [None, None]])
def test_ranks_with_a_gpu_each_or_none_meet(gpus: list[str | None]) -> None:
    assert meet(gpus) == ["", ""]


@pytest.mark.parametrize(("rank", "waits_for"), [(0, "1 of 2 ranks at .*: rank 1"), (1, "rank 0 at")])
def test_a_rank_that_does_not_come_is_named(rank: int, waits_for: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meeting, "time", MadeTime())
    lines: list[str] = []
    with (
        reserve_port() as holder,
        pytest.raises(WorldError, match=rf"rank {1 - rank}.*Start all ranks at the same time") as lost,
    ):
        port = str(holder.getsockname()[1])
        rendezvous(world(rank, MASTER_PORT=port), timeout_s=2 * meeting.REPORT_AFTER_S, on_waiting=lines.append)
    assert "\n" not in str(lost.value)
    (line,) = lines
    assert re.search(f"rank {rank}: waiting for {waits_for}", line)


def test_a_port_in_use_is_said_by_rank_0() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(ConfigError, match=f"MASTER_PORT {port} is in use"):
            rendezvous(world(0, MASTER_PORT=str(port)), timeout_s=5)


def test_a_port_where_no_rank_0_answers_is_said_by_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meeting, "_ANSWERS_WITHIN_S", 0.2)
    is_over = threading.Event()
    # As torch's client does with a listener that never answers, but not beyond this test.
    monkeypatch.setattr(meeting, "_open_store", lambda *_, **__: is_over.wait())
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        with pytest.raises(WorldError, match="no rank 0 answers at 127"):
            rendezvous(world(1, MASTER_PORT=str(other.getsockname()[1])), timeout_s=HANG_S)
    is_over.set()


def test_an_address_that_does_not_resolve_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    with pytest.raises(ConfigError, match=r"MASTER_ADDR is 'nowhere', which this machine cannot resolve .*not known"):
        rendezvous(world(0, MASTER_ADDR="nowhere"), num_ranks=2)


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"MASTER_ADDR": ""}, "MASTER_ADDR not set"),
        ({"MASTER_PORT": "x"}, "MASTER_PORT is 'x'"),
        ({"MASTER_PORT": "70000"}, "expected 1 to 65535"),
        ({"RANK": "-1"}, "RANK is '-1'"),
        ({"RANK": "2"}, "RANK is 2 in a world of WORLD_SIZE 2"),
        ({"WORLD_SIZE": "3"}, "2 ranks were asked for, but WORLD_SIZE is 3"),
    ],
)
def test_what_cannot_be_is_refused_before_anyone_is_waited_for(other: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        rendezvous(world(0, **other), num_ranks=2)

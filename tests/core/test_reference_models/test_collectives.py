"""A step's time, split into computing and waiting only where both are known."""

import random
import time
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.distributed as dist
from hypothesis import given
from hypothesis import strategies as st

from reference_models.distributed import traffic
from reference_models.distributed.traffic import (
    Carries,
    CollectiveCounter,
    TrafficTimes,
    computing_s,
    measure_bandwidth,
    split_step,
)

TIMES = st.floats(0.0, 10.0)
ROUNDS = st.lists(st.builds(TrafficTimes, TIMES, TIMES, TIMES), min_size=1, max_size=7)


@given(ROUNDS)
def test_the_parts_make_up_the_step_or_are_not_known(rounds: list[TrafficTimes]) -> None:
    times = split_step(rounds)
    compute_s, waited_s = computing_s(times), times.all_to_all_s + times.all_reduce_s
    if compute_s is None:
        assert waited_s > times.step_s - 1e-12
    else:
        assert compute_s >= 0
        assert abs(compute_s + waited_s - times.step_s) < 1e-9


@given(ROUNDS, st.randoms())
def test_the_order_of_rounds_does_not_matter(rounds: list[TrafficTimes], draw: random.Random) -> None:
    shuffled = draw.sample(rounds, len(rounds))
    assert split_step(shuffled) == split_step(rounds)


@given(st.lists(st.builds(TrafficTimes, TIMES, TIMES, TIMES), min_size=2, max_size=6), st.floats(10.0, 1e6))
def test_one_disturbed_round_decides_nothing(rounds: list[TrafficTimes], disturbed_s: float) -> None:
    times = split_step([*rounds, TrafficTimes(disturbed_s, disturbed_s, disturbed_s)])
    for number, value in enumerate(times):
        assert min(one[number] for one in rounds) <= value <= max(one[number] for one in rounds)


@pytest.fixture
def happened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What happens to a device and a clock that goes on by a second per look."""
    noted: list[str] = []

    def stamp() -> float:
        noted.append("stamp")
        return float(noted.count("stamp"))

    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: noted.append(f"synchronize {device}"))
    monkeypatch.setattr(traffic, "time", SimpleNamespace(perf_counter=stamp, monotonic=time.monotonic))
    return noted


class Reduction:
    """The operator of an all-reduce whose work is queued when it returns, as NCCL's is."""

    namespace, __name__ = "c10d", "allreduce_.default"

    def __init__(self, happened: list[str]) -> None:
        self._happened = happened

    def __call__(self, *args: Any) -> Any:
        self._happened.append("call")
        return args[0], SimpleNamespace(wait=lambda: self._happened.append("wait"))


@pytest.mark.parametrize(("device", "waits"), [("cuda:1", ["synchronize cuda:1"]), ("cpu", [])])
def test_a_collective_call_is_timed_until_the_device_has_done_it(
    device: str, waits: list[str], happened: list[str]
) -> None:
    counter = CollectiveCounter(0, 2, torch.device(device))
    counter.__torch_dispatch__(Reduction(happened), (), ([torch.zeros(8)],))
    assert happened == [*waits, "stamp", "call", "wait", *waits, "stamp"]
    assert (counter.duration_s["all_reduce"], counter.num_bytes[Carries.DENSE]) == (1.0, 32)


def test_a_watched_exchange_of_gradients_is_timed_so_too(happened: list[str]) -> None:
    counter = CollectiveCounter(0, 2, torch.device("cuda", 0))
    assert counter.watch_dense("powersgd", lambda: (happened.append("exchange"), 64)) is None
    assert happened == ["synchronize cuda:0", "stamp", "exchange", "synchronize cuda:0", "stamp"]
    assert (counter.duration_s["all_reduce"], counter.num_bytes[Carries.DENSE]) == (1.0, 64)


@pytest.mark.parametrize(("device", "num_bytes"), [("cuda:0", 1 << 26), ("cpu", 1 << 20)])
def test_the_bandwidth_between_gpus_is_that_of_large_messages(
    device: str, num_bytes: int, happened: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    there = torch.device(device)

    def zeros(*shape: int, **options: Any) -> Any:
        sizes.append(shape[0])
        return SimpleNamespace(device=options["device"])

    monkeypatch.setattr(torch, "zeros", zeros)
    monkeypatch.setattr(dist, "send", lambda message, rank: happened.append("send"))
    monkeypatch.setattr(dist, "recv", lambda message, rank: happened.append("receive"))
    world: Any = SimpleNamespace(
        rank=0, size=2, barrier=lambda: happened.append("barrier"), broadcast=lambda value: value
    )
    bandwidth, sent = measure_bandwidth(world, there) or (0.0, 0)
    assert sizes == [num_bytes]
    assert (bandwidth, sent) == (2 * 2 * num_bytes / 1.0, 4 * num_bytes), "two rounds in a second, after two to begin"
    waits = ["synchronize cuda:0"] if there.type == "cuda" else []
    assert happened[: len(waits) + 4] == ["barrier", *waits, "stamp", "send", "receive"]
    assert happened[-len(waits) - 1 :] == [*waits, "stamp"]

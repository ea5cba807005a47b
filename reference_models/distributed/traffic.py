"""Traffic between ranks: bytes and seconds of a training step's collective calls, by content, and the links'
bandwidth.

Bytes are those that a rank sends to others. They are computed from each call's tensors by the formula of the
collective algorithm. Overhead of TCP or RDMA is not counted.
"""

import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from typing import Any, NamedTuple, TypeVar

import torch
import torch.distributed as dist
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes, _get_current_dispatch_mode

from reference_models.process.world import World

T = TypeVar("T")


class Carries(StrEnum):
    """Content that a collective call between ranks carries, in training or evaluation."""

    INPUT = "input_redistribution"
    """Ids of embedding rows, and how many there are, sent to the ranks that hold the rows."""
    FORWARD = "embedding_forward"
    """Pooled embeddings, or partial sums of embedding rows, sent to the ranks that hold the samples."""
    BACKWARD = "embedding_backward"
    """Gradients of pooled embeddings, sent back to the ranks that hold the embedding rows."""
    DENSE = "dense_reduce"
    """Gradients of the weights that every rank holds (dense layers, replicated tables), averaged over ranks."""
    EVALUATION = "evaluation_gather"
    """Scores and labels of the evaluation split, sent to rank 0."""


FORMULAS: dict[str, str] = {
    "alltoall_base_": "input bytes without the part that stays",
    "alltoall_": "input bytes without the part that stays",
    "allreduce_": "2 (N - 1) / N x tensor bytes (ring)",
    "allreduce_coalesced_": "2 (N - 1) / N x tensor bytes (ring)",
    "reduce_scatter_": "(N - 1) / N x input bytes",
    "_reduce_scatter_base_": "(N - 1) / N x input bytes",
    "allgather_": "(N - 1) x input bytes",
    "_allgather_base_": "(N - 1) x input bytes",
    "gather_": "input bytes, but for rank 0",
    "broadcast_": "tensor bytes to each other rank, from rank 0",
    "powersgd": "2 (N - 1) / N x bytes of P, Q and of the tensors that stay whole (ring)",
}
_WHOLE = (torch.int64, torch.int32)
MESSAGE_BYTES = {"cpu": 1 << 20, "cuda": 1 << 26}
"""Bytes of a message of the bandwidth test, by device type; between GPUs the message is larger, since starting a
transfer takes as long as sending 1 MiB."""
_WANTED_S = 0.3
_FEWEST, _MOST = 2, 50


def sent_bytes(name: str, args: Sequence[Any], rank: int, num_ranks: int) -> int:
    """Return the bytes that `rank` sends in a call of torch.distributed's operator `name` (c10d); 0 for operators
    that send none."""
    if name == "alltoall_base_":
        given, splits = args[1], args[4]
        total = _num_bytes([given])
        kept = splits[rank] * total // max(1, given.shape[0]) if splits else total // num_ranks
        return total - kept
    if name == "alltoall_":
        return _num_bytes(given for index, given in enumerate(args[1]) if index != rank)
    if name in ("allreduce_", "allreduce_coalesced_"):
        return ring_bytes(_num_bytes(args[0]), num_ranks)
    if name in ("reduce_scatter_", "_reduce_scatter_base_"):
        return (num_ranks - 1) * _num_bytes(args[1]) // num_ranks
    if name in ("allgather_", "_allgather_base_"):
        return (num_ranks - 1) * _num_bytes(args[1])
    if name == "gather_":
        return _num_bytes(args[1]) if rank != 0 else 0
    if name == "broadcast_":
        return (num_ranks - 1) * _num_bytes(args[0]) if rank == 0 else 0
    return 0


def ring_bytes(num_bytes: int, num_ranks: int) -> int:
    """Return the bytes that each rank sends in a ring all-reduce of `num_bytes` bytes."""
    return 2 * (num_ranks - 1) * num_bytes // num_ranks


def _num_bytes(tensors: Any) -> int:
    if isinstance(tensors, torch.Tensor):
        return tensors.numel() * tensors.element_size()
    return sum(_num_bytes(tensor) for tensor in tensors) if isinstance(tensors, Iterable) else 0


Traffic = dict[str, Any]
"""Result of `gather_traffic` as plain values: bytes that ranks sent, by content, and measured seconds."""


class CollectiveCounter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Dispatch mode that, while active, adds up bytes and seconds of collective calls, waiting for each call to end.

    NCCL's calls return when they are queued, and waiting for one only orders the device's streams. So the device is
    synchronised before each time stamp. Work queued before a call is therefore not counted as the call's time.

    The content of a call follows from its operator and the type of its tensors. An all-reduce that averages carries
    dense gradients. A gather to one rank carries results of an evaluation. A call with whole numbers carries ids in
    the forward pass, and parts of sparse gradients in the backward pass. The context manager `during` says which pass
    runs.
    """

    def __init__(self, rank: int, num_ranks: int, device: torch.device) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._rank, self._num_ranks, self._device = rank, num_ranks, device
        self._stage = Carries.FORWARD
        self.num_bytes: dict[Carries, int] = defaultdict(int)
        self.duration_s: dict[str, float] = defaultdict(float)
        self.operators: dict[Carries, set[str]] = defaultdict(set)

    @contextmanager
    def during(self, stage: Carries) -> Iterator[None]:
        before, self._stage = self._stage, stage
        try:
            yield
        finally:
            self._stage = before

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func.namespace != "c10d":
            return func(*args, **(kwargs or {}))
        name = func.__name__.partition(".")[0]
        started_s = now_s(self._device)
        result = func(*args, **(kwargs or {}))
        _wait(result)
        duration_s = now_s(self._device) - started_s
        carries = self._carries(name, args)
        self.num_bytes[carries] += sent_bytes(name, args, self._rank, self._num_ranks)
        self.operators[carries].add(name)
        self.duration_s["all_reduce" if carries is Carries.DENSE else "all_to_all"] += duration_s
        return result

    def watch_dense(self, name: str, exchange: Callable[[], "tuple[T, int]"]) -> T:
        """Run an exchange of dense gradients, wait for it, and count the bytes that it all-reduced. `exchange`
        returns its result and these bytes.

        Meanwhile collectives are not counted by a TorchDispatchMode: it would miss those that begin in a thread of
        the process group, and count the others twice.
        """
        started_s = now_s(self._device)
        with _disable_current_modes():
            result, num_bytes = exchange()
        self.duration_s["all_reduce"] += now_s(self._device) - started_s
        self.num_bytes[Carries.DENSE] += ring_bytes(num_bytes, self._num_ranks)
        self.operators[Carries.DENSE].add(name)
        return result

    def _carries(self, name: str, args: Sequence[Any]) -> Carries:
        if name.startswith("allreduce"):
            return Carries.DENSE
        if name in ("gather_", "broadcast_"):
            return Carries.EVALUATION
        is_whole = _first(args[:2]).dtype in _WHOLE
        if self._stage is Carries.FORWARD:
            return Carries.INPUT if is_whole else Carries.FORWARD
        return Carries.DENSE if is_whole else Carries.BACKWARD


def now_s(device: torch.device) -> float:
    """Return the time, in seconds of a monotonic clock, when `device` has finished all its work, which is waited
    for."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


def active_counter() -> CollectiveCounter | None:
    """Return the counter of collective calls that is active in this thread; None if none is active."""
    mode = _get_current_dispatch_mode()
    return mode if isinstance(mode, CollectiveCounter) else None


def _first(args: Any) -> torch.Tensor:
    while not isinstance(args, torch.Tensor):
        args = args[0]
    return args


def _wait(result: Any) -> None:
    """Wait until the collective call that returned `result` has ended: wait for every work object of torch in
    `result`."""
    parts = result if isinstance(result, tuple | list) else (result,)
    for part in parts:
        wait: Callable[[], Any] | None = getattr(part, "wait", None)
        if wait is not None and not isinstance(part, torch.Tensor):
            wait()


class TrafficTimes(NamedTuple):
    """Times of two successive training steps: the seconds of the first, in which calls are not counted, and the
    seconds that a rank waits for each kind of collective call in the second."""

    step_s: float
    all_to_all_s: float
    all_reduce_s: float


def split_step(rounds: Sequence[TrafficTimes]) -> TrafficTimes:
    """Return the medians, over all rounds, of a rank's step time and waiting times, so that one slow step has no
    influence."""
    return TrafficTimes(*(statistics.median(times) for times in zip(*rounds, strict=True)))


def computing_s(times: TrafficTimes) -> float | None:
    """Return the seconds of a training step that are not spent in collective calls, 0 or more.

    The calls are timed without overlap; in the step, calls may overlap with computing. Returns None if the calls take
    longer than the step, since then the difference says nothing about computing.
    """
    left_s = times.step_s - times.all_to_all_s - times.all_reduce_s
    return left_s if left_s >= 0.0 else None


def gather_traffic(
    world: World,
    steps: CollectiveCounter,
    evaluation: CollectiveCounter | None,
    *,
    rounds: Sequence[TrafficTimes],
    bandwidth: tuple[float, int] | None,
    placement: Sequence[Mapping[str, Any]],
) -> Traffic:
    """Return the traffic of all ranks, on every rank: the bytes of a training step and of an evaluation for each
    content (pooled rows, gradients and the like), and the time of each kind of collective call.

    `steps` counted one training step per round. `evaluation` counted one evaluation; if it is None, so are the bytes
    of an evaluation. The time of a kind of call is the mean of the ranks' medians. It includes waiting for slower
    ranks, and no call overlapped with computing. `placement` is copied to the result.
    """
    here: dict[str, Any] = {
        "step": {kind.value: steps.num_bytes.get(kind, 0) // len(rounds) for kind in Carries},
        "evaluation": {kind.value: evaluation.num_bytes.get(kind, 0) for kind in Carries} if evaluation else None,
        "operators": _operators(steps, evaluation),
        "times": tuple(split_step(rounds)),
    }
    by_rank = world.gather(here)
    speed, sent_bytes = bandwidth if bandwidth is not None else (None, None)
    measured = {"link_bytes_per_s": speed, "link_sent_bytes": sent_bytes, "placement": [*placement]}
    return world.broadcast({**_over_ranks(by_rank), **measured} if by_rank is not None else {})


def _operators(*counters: CollectiveCounter | None) -> dict[str, list[str]]:
    """Return a dict from what was exchanged (pooled rows, gradients and the like) to the names of the collective
    operators that did it, over all counters."""
    names: dict[str, set[str]] = defaultdict(set)
    for counter in counters:
        for kind, found in counter.operators.items() if counter is not None else ():
            names[kind.value] |= found
    return {kind: sorted(found) for kind, found in names.items()}


def _over_ranks(by_rank: list[dict[str, Any]]) -> Traffic:
    mean = TrafficTimes(
        *(statistics.fmean(times) for times in zip(*(rank["times"] for rank in by_rank), strict=True))
    )

    def total(what: str) -> dict[str, int]:
        return {kind.value: sum(rank[what][kind.value] for rank in by_rank) for kind in Carries}

    return {
        "num_ranks": len(by_rank),
        "bytes_per_step": total("step"),
        "bytes_per_evaluation": total("evaluation") if by_rank[0]["evaluation"] is not None else None,
        "sent_bytes_per_step_by_rank": [sum(rank["step"].values()) for rank in by_rank],
        "formulas": {
            kind: [f"{name}: {FORMULAS.get(name, 'none')}" for name in names]
            for kind, names in by_rank[0]["operators"].items()
        },
        **mean._asdict(),
        "compute_s": computing_s(mean),
    }


def measure_bandwidth(world: World, device: torch.device) -> tuple[float, int] | None:
    """Return the one-way bandwidth between rank 0 and the last rank, in bytes/s, and the bytes that each of the two
    sent.

    Every rank gets the result; None if there is only one rank.

    The last rank is the one most likely to be on another machine. Messages (of 1 MiB; of 64 MiB between GPUs) go from
    rank 0 to the last rank and back over the ranks' own group, between memories of `device`, for about 0.3 s.
    """
    if world.size == 1:
        return None
    num_bytes = MESSAGE_BYTES[device.type]
    message = torch.zeros(num_bytes, dtype=torch.uint8, device=device)
    _there_and_back(world, message, 1)  # opens the connection
    took_s = _there_and_back(world, message, 1)
    number = world.broadcast(max(_FEWEST, min(_MOST, int(_WANTED_S / max(took_s, 1e-9)))))
    took_s = _there_and_back(world, message, number)
    return world.broadcast((2 * number * num_bytes / took_s, (number + 2) * num_bytes))


def _there_and_back(world: World, message: torch.Tensor, number: int) -> float:
    """Return the seconds in which `message` goes `number` times from rank 0 to the last rank and back, as rank 0
    measures them; other ranks' results do not count."""
    last = world.size - 1
    world.barrier()
    started_s = now_s(message.device)
    for _ in range(number):
        if world.rank == 0:
            dist.send(message, last)
            dist.recv(message, last)
        elif world.rank == last:
            dist.recv(message, 0)
            dist.send(message, 0)
    return now_s(message.device) - started_s

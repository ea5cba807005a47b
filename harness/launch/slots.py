"""Give workers that run at the same time slots: cores, and GPUs, of their own."""

import os
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from harness.foundation.errors import ExitCode, HarnessError
from harness.launch.deadline import kill_tree
from harness.system.resources import list_cores, read_resources

_GRACE_S = 10.0


class StopWork(BaseException):
    """Exception raised in the thread that follows a worker after another thread ended all workers.

    Like KeyboardInterrupt it is no subclass of Exception, since the measured work has not failed.
    """


class Stop:
    """Means to end at once all workers that several threads started. Afterwards no further worker may start."""

    def __init__(self) -> None:
        self._lock, self._asked = threading.Lock(), threading.Event()
        self._processes = set["subprocess.Popen[bytes]"]()

    @property
    def is_asked(self) -> bool:
        """Whether `ask` was called, so that running workers are ended and later ones may not start."""
        return self._asked.is_set()

    def ask(self) -> None:
        """End all workers and wait until they are gone; their threads raise StopWork."""
        with self._lock:
            self._asked.set()
            processes = [*self._processes]
        for process in processes:
            process.terminate()
        for process in processes:
            stop_process(process)

    @contextmanager
    def covering(self, process: "subprocess.Popen[bytes]") -> Iterator[None]:
        """Register a worker process while the caller's block runs, so that a call of `ask` from another thread ends
        it. Raises StopWork if `ask` was called before, or is called during the block."""
        with self._lock:
            if self.is_asked:
                raise StopWork
            self._processes.add(process)
        try:
            yield
        finally:
            with self._lock:
                self._processes.discard(process)
        if self.is_asked:
            raise StopWork


def stop_process(process: "subprocess.Popen[bytes]") -> None:
    """Terminate a worker process; kill it with all its descendants where it does not end within seconds."""
    process.terminate()
    try:
        process.wait(_GRACE_S)
    except subprocess.TimeoutExpired:
        kill_tree(process.pid)
        process.wait()


@dataclass
class _Stay:
    """Stay of one worker in a slot (cores and GPUs): when it began and ended, in seconds of the monotonic clock."""

    slot: int
    begun_s: float
    ended_s: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Slot:
    """Cores and GPUs for one worker that runs at the same time as others."""

    number: int
    """Number of the slot (cores and GPUs for one worker), from 0."""
    cpus: tuple[int, ...]
    """Logical CPUs to which processes in the slot are pinned."""
    gpus: tuple[str, ...] = ()
    """GPUs that processes in the slot see, as CUDA_VISIBLE_DEVICES names them; empty where they use none."""
    stop: Stop = field(default_factory=Stop)
    stays: list[_Stay] = field(default_factory=list)
    """Times at which workers used the slots (cores and GPUs) of an experiment. All slots share this one list."""

    @property
    def variables(self) -> dict[str, str]:
        """Environment variables that let a worker see only this slot's GPUs; empty where the slot has none."""
        return {"CUDA_VISIBLE_DEVICES": ",".join(self.gpus)} if self.gpus else {}

    def pin(self, pid: int) -> None:
        """Pin a process and its future children to the logical CPUs of the slot. Raises HarnessError where that is
        denied."""
        try:
            os.sched_setaffinity(pid, self.cpus)
        except OSError as error:
            words = ",".join(map(str, self.cpus))
            raise HarnessError(f"CPUs {words}: cannot be pinned to: {error.strerror}.", ExitCode.RESOURCES) from None

    @contextmanager
    def stay(self) -> Iterator[None]:
        """Record in `stays` that a worker uses this slot (its cores and GPUs) while the caller's block runs."""
        stay = _Stay(self.number, time.monotonic())
        self.stays.append(stay)
        try:
            yield
        finally:
            stay.ended_s = time.monotonic()

    def count_beside(self, since_s: float) -> float:
        """Return the mean number of workers in other slots from the time `since_s` (seconds of the monotonic clock)
        until now."""
        now_s = time.monotonic()
        others = [stay for stay in [*self.stays] if stay.slot != self.number]
        spans = ((now_s if each.ended_s is None else each.ended_s) - max(each.begun_s, since_s) for each in others)
        return sum(max(0.0, span) for span in spans) / (now_s - since_s) if now_s > since_s else 0.0


def count_cores() -> int:
    """Return the number of physical cores that slots may share: those of the affinity mask, at most the CPU quota."""
    return min(read_resources().num_cores, len(list_cores()))


def make_slots(
    num: int, *, num_threads: int, gpus: Sequence[str] | None, num_gpus: int, what: str, remedy: str = ""
) -> list[Slot]:
    """Return `num` slots: equal shares of the cores of this process and, if `gpus` is not None, of these GPUs. `gpus`
    has names as in CUDA_VISIBLE_DEVICES.

    Each slot has the same number of whole physical cores, at least `num_threads`, and `num_gpus` of the GPUs. Raises
    HarnessError (exit 2) if there are too few cores or GPUs, or if the system cannot pin processes to cores. The
    message names `what`, the option that asked for the slots, and ends with the advice `remedy` if it is given.
    """
    if not hasattr(os, "sched_setaffinity"):
        raise HarnessError(f"{what} {num}: this system pins no process to cores. {remedy or 'Leave it out.'}")
    cores, num_cores, stays = list_cores(), count_cores(), list[_Stay]()
    _refuse_too_many(f"{what} {num}", num, (num_threads, "thread"), (num_cores, "core"), remedy)
    if gpus is not None:
        _refuse_too_many(f"{what} {num}", num, (num_gpus, "GPU"), (len(gpus), "GPU"), remedy)
    share = num_cores // num
    return [
        Slot(
            number=at,
            cpus=tuple(cpu for core in cores[at * share : (at + 1) * share] for cpu in core),
            gpus=tuple(gpus or ())[at * num_gpus : (at + 1) * num_gpus],
            stays=stays,
        )
        for at in range(num)
    ]


def _refuse_too_many(what: str, num: int, needed: tuple[int, str], found: tuple[int, str], remedy: str) -> None:
    """Raise HarnessError if `num` slots take more cores or GPUs than there are. `needed` is the amount that one slot
    takes, and `found` is the amount that there is; each is (number, unit in the singular), such as (4, "core").
    `what` names the option in the message."""
    (each, word), (most, unit) = needed, found
    if num * each <= most:
        return
    fits = most // each
    fewer = f", or fewer {word}s each" if each > 1 else ""
    said = remedy or f"{f'Give {fits}' if fits > 1 else 'Leave it out'}{fewer}."
    takes = f"{num * each} {unit}{'s' * (num * each != 1)}"
    raise HarnessError(
        f"{what} of {each} {word}{'s' * (each != 1)} each takes {takes}, and this process may use {most}. {said}"
    )

"""Rendezvous of a run's ranks: they find each other, and share notes (entries of a key-value store that all ranks can
read).

The ranks find each other by torchrun's variables: RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT. Rank 0 runs the server
of the store, unless torchrun's launcher does.
"""

import os
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

from torch._C._distributed_c10d import PrefixStore, Store, TCPStore

from reference_models.process.errors import ConfigError, DeviceError, WorldError

T = TypeVar("T")
RENDEZVOUS_TIMEOUT_S = 120.0
"""Default number of seconds for which ranks wait for one another when a run starts."""
REPORT_AFTER_S = 5.0
_POLL_S = 0.1
_ANSWERS_WITHIN_S = 20.0
_NEEDED = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


@dataclass(frozen=True, kw_only=True, slots=True)
class Rendezvous:
    """Rank of this process, and the notes (a key-value store) that it shares with all other ranks.

    Reading or writing a note raises RuntimeError if the store's server is gone, and waits without end if the server
    hangs.
    """

    rank: int
    size: int
    host: str
    """Description, for messages, of the server of the ranks' key-value store: rank 0 or the launcher, with its
    address."""
    is_host: bool
    store: Store
    notes: Store
    """Key-value store of short notes among ranks. It has a connection of its own, so that no note waits until a call
    of the other store, `store`, returns."""

    def note(self, key: str, value: str) -> None:
        self.notes.set(key, value)

    def first_note(self, key: str, value: str) -> str:
        """Write a note (key and value in the ranks' store) unless its key exists; return the value written first,
        which is the same on all ranks."""
        return bytes(self.notes.compare_set(key, "", value)).decode()

    def read_note(self, key: str) -> str:
        """Return the value last written under a key of the ranks' store; empty if no rank has written one yet."""
        return bytes(self.notes.get(key)).decode() if self.notes.check([key]) else ""


def rendezvous(
    environ: Mapping[str, str] | None = None,
    *,
    num_ranks: int | None = None,
    timeout_s: float = RENDEZVOUS_TIMEOUT_S,
    on_waiting: Callable[[str], None] | None = None,
    gpu: str | None = None,
) -> Rendezvous:
    """Wait until every rank has joined; `on_waiting` is called with a message if that takes more than REPORT_AFTER_S
    seconds.

    `gpu` names this rank's GPU, by host and UUID. Raises ConfigError if torchrun's environment variables are missing,
    are wrong, or state another number of ranks. Raises DeviceError on every rank if two ranks have the same GPU.
    Raises WorldError if a rank does not join within `timeout_s`.
    """
    environ = os.environ if environ is None else environ
    rank, size, address, port = _read(environ, num_ranks)
    by_launcher = environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    place = f"{address}:{port}"
    is_host = rank == 0 and not by_launcher
    host = f"{'the launcher' if by_launcher else 'rank 0'}, where the ranks meet ({place}),"
    end_s = time.monotonic() + timeout_s
    report = _WaitReporter(on_waiting)
    try:
        if not is_host:
            _wait_for_server(address, port, end_s, lambda: report.once(f"rank {rank}: waiting for rank 0 at {place}"))
        store = call_within(_ANSWERS_WITHIN_S, lambda: _open_store(address, port, is_host=is_host))
        notes = call_within(_ANSWERS_WITHIN_S, lambda: _open_store(address, port, is_host=False))
        meeting = Rendezvous(
            rank=rank, size=size, host=host, is_host=is_host, store=store, notes=PrefixStore("notes", notes)
        )
        meeting.note(f"gpu/{rank}", gpu or "")
        _gather(meeting, place, end_s, timeout_s, report)
        _refuse_one_gpu_for_two(meeting)
    except TimeoutError:
        took_s = time.monotonic() - end_s + timeout_s
        raise WorldError(
            f"rank {rank}: no rank 0 answers at {place} for {took_s:.0f} s. Start all ranks at the same time, "
            "with MASTER_ADDR of the machine of rank 0 and a MASTER_PORT that nothing else uses."
        ) from None
    except RuntimeError as error:
        if isinstance(error, WorldError):
            raise
        raise WorldError(
            f"rank {rank}: {place} does not answer as rank 0 does ({_first_line(error)}). Was rank 0 ended, or does "
            "another program use this MASTER_PORT?"
        ) from error
    return meeting


class _WaitReporter:
    """Reporter of a long wait for other ranks: it passes on one message, the first after REPORT_AFTER_S seconds."""

    def __init__(self, on_waiting: Callable[[str], None] | None) -> None:
        self._on_waiting, self._from_s = on_waiting, time.monotonic() + REPORT_AFTER_S

    def once(self, line: str) -> None:
        if self._on_waiting is not None and time.monotonic() > self._from_s:
            self._on_waiting(line)
            self._on_waiting = None


def _read(environ: Mapping[str, str], num_ranks: int | None) -> tuple[int, int, str, int]:
    missing = [name for name in _NEEDED if not environ.get(name)]
    if missing:
        raise ConfigError(
            f"cannot join the other ranks: {', '.join(missing)} not set. Start the ranks with torchrun, or set "
            f"{', '.join(_NEEDED)} (LOCAL_RANK too where a machine has several GPUs)."
        )
    numbers = {}
    for name in ("RANK", "WORLD_SIZE", "MASTER_PORT"):
        if not environ[name].isdecimal():
            raise ConfigError(f"{name} is {environ[name]!r} in the environment: expected a whole number.")
        numbers[name] = int(environ[name])
    rank, size, port = numbers.values()
    if rank >= size:
        raise ConfigError(f"RANK is {rank} in a world of WORLD_SIZE {size}: ranks are counted from 0.")
    if num_ranks is not None and num_ranks != size:
        raise ConfigError(f"{num_ranks} ranks were asked for, but WORLD_SIZE is {size}.")
    address = environ["MASTER_ADDR"]
    if not 0 < port < 2**16:
        raise ConfigError(f"MASTER_PORT is {port}: expected 1 to 65535.")
    try:
        socket.getaddrinfo(address, port)
    except (OSError, UnicodeError) as error:
        raise ConfigError(
            f"MASTER_ADDR is {address!r}, which this machine cannot resolve ({error}). Give the name or address of "
            "the machine of rank 0."
        ) from None
    return rank, size, address, port


def _open_store(address: str, port: int, *, is_host: bool) -> Store:
    try:
        return TCPStore(address, port, None, is_host, timedelta(seconds=RENDEZVOUS_TIMEOUT_S), wait_for_workers=False)
    except RuntimeError as error:
        if is_host and "EADDRINUSE" in str(error):
            raise ConfigError(
                f"MASTER_PORT {port} is in use on this machine, by another program or an earlier rank 0. Give all "
                "ranks another MASTER_PORT, or end that program."
            ) from None
        if is_host and "failed to listen" in str(error):
            raise ConfigError(f"rank 0 cannot listen at MASTER_PORT {port}: {_first_line(error)}") from None
        raise


def _wait_for_server(address: str, port: int, end_s: float, on_wait: Callable[[], None]) -> None:
    """Wait until the server of the ranks' store (rank 0 or the launcher) accepts connections. Torch's own client
    would keep trying long after its timeout. Raises TimeoutError if the monotonic clock passes `end_s`."""
    while True:
        try:
            socket.create_connection(
                (address, port), timeout=max(_POLL_S, min(5.0, end_s - time.monotonic()))
            ).close()
            return
        except OSError:
            if time.monotonic() > end_s:
                raise TimeoutError from None
        on_wait()
        time.sleep(_POLL_S)


def _gather(meeting: Rendezvous, place: str, end_s: float, timeout_s: float, report: _WaitReporter) -> None:
    meeting.note(f"here/{meeting.rank}", "1")
    absent = list(range(meeting.size))
    while absent := [rank for rank in absent if not meeting.read_note(f"here/{rank}")]:
        named = ", ".join(map(str, absent[:8])) + (" …" if len(absent) > 8 else "")
        count = f"{len(absent)} of {meeting.size} ranks"
        if time.monotonic() > end_s:
            raise WorldError(
                f"{count} did not come to {place} within {timeout_s:.0f} s: rank {named}. Start all ranks at the "
                "same time, with the same MASTER_ADDR and MASTER_PORT."
            )
        report.once(f"rank {meeting.rank}: waiting for {count} at {place}: rank {named}")
        time.sleep(_POLL_S)


def _refuse_one_gpu_for_two(meeting: Rendezvous) -> None:
    """Raise DeviceError on every rank if two ranks have the same GPU. If rank 0 runs the store's server, it raises
    last, since the other ranks read the GPUs' names from the store."""
    first: dict[str, int] = {}
    for rank in range(meeting.size):
        gpu = meeting.read_note(f"gpu/{rank}")
        if gpu and first.setdefault(gpu, rank) != rank:
            meeting.note(f"read/{meeting.rank}", "1")
            end_s = time.monotonic() + _ANSWERS_WITHIN_S
            while (
                meeting.is_host
                and time.monotonic() < end_s
                and not all(meeting.read_note(f"read/{other}") for other in range(meeting.size))
            ):
                time.sleep(_POLL_S)
            raise DeviceError(
                f"ranks {first[gpu]} and {rank} have the same GPU ({gpu}), which NCCL refuses. Set LOCAL_RANK for "
                "each rank of a machine, as torchrun and --ranks do, or let the launcher show each its own GPU."
            )


def call_within(seconds: float, call: Callable[[], T]) -> T:
    """Return the result of `call`, such as a call of torch's store, which may never end. Raises TimeoutError if there
    is no result after `seconds`."""
    results: list[T] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            results.append(call())
        except BaseException as error:  # raised below, in the caller's thread
            errors.append(error)

    thread = threading.Thread(target=work, name="meeting", daemon=True)
    thread.start()
    thread.join(seconds)
    if errors:
        raise errors[0]
    if not results:
        raise TimeoutError
    return results[0]


def _first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]

"""Keep the time of a run: start its process, stamp its events as they arrive, and pass all output on.

Started as `python -I -S timekeeper.py`, in a process of its own, and imports only the standard library. So no other
code can change the time in this process: neither the user's code, nor start-up files of Python (sitecustomize, .pth),
nor modules in PYTHONPATH. The parent process sends the command as one line of JSON on standard input. End of file on
standard input means that the parent has ended.
"""

import json
import os
import resource
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

EVENT_MARK = b"\x1e"
"""Mark before an event in a worker's output; the same as `harness.measure.kinds.EVENT_MARK`, which must not be
imported here."""
STARTED = "start"
"""Event that a run's process sends when it is ready to make the run."""
RUN_START = "run_start"
"""Event that a run's process sends when the line run_start is in the log."""
RUN_STOP = "run_stop"
"""Event that a run's process sends when the line run_stop is in the log."""
_TICK_S = 0.05
"""Longest wait for a run's output in seconds, and so the largest uncertainty of an event's time stamp."""
_MOST_WAITING_BYTES = 1 << 24
"""Bytes of output that were read and not yet passed on, above which reading pauses."""
_MAX_LINE_BYTES = 1 << 16
"""Longest line that can be an event, in bytes."""
_READ_BYTES = (1 << 20) + 1
"""Bytes of output per read: more than any pipe of an unprivileged user holds, so that one read empties it."""


class Arrival(NamedTuple):
    """Time at which a run's event arrived: between two readings, in seconds, of this process's monotonic clock."""

    earliest_s: float
    latest_s: float
    processor_s: float | None
    """Processor time in seconds of the run's processes until the event; None where it is unknown."""


class RunClock:
    """Clock that times one run from the arrival of its events, in a process other than the run's.

    Of repeated events the first `start`, the first run_start and the last run_stop count, so that extra events cannot
    shorten a run. A delayed timekeeper sees an event late. So it keeps two times for each event: the last time at
    which the event had not arrived, and the time at which it was seen. The reported duration is the shortest that
    these times allow.
    """

    def __init__(self, spawned_s: float, *, is_marked: bool = True) -> None:
        self._spawned_s, self._is_marked = spawned_s, is_marked
        self._seen: dict[str, Arrival] = {}
        self._wall_s: float | None = None
        self._line = b""

    def feed(
        self, said: bytes, earliest_s: float, latest_s: float, read_processor: Callable[[], float | None]
    ) -> bool:
        """Take the output of a run that arrived between two readings of the clock; return whether it contained the
        event run_stop."""
        lines = (self._line + said).split(b"\n")
        self._line = lines.pop()[-_MAX_LINE_BYTES:]
        names = [name for line in lines if (name := _event_of(line, is_marked=self._is_marked)) is not None]
        for name in names:
            self.see(name, Arrival(earliest_s, latest_s, read_processor()))
        return RUN_STOP in names

    def see(self, name: str, seen: Arrival) -> None:
        """Register when an event of the run arrived."""
        if name == STARTED and self._wall_s is None:
            # Read once, like the log's clock, so that a later change of the system's time affects neither.
            self._wall_s = time.time() - time.monotonic()
        if name == RUN_STOP or name not in self._seen:
            self._seen[name] = seen

    def observe(self, exited_s: float | None, processor_s: float | None) -> dict[str, Any] | None:
        """Return the fields of `ObservedRecord`, with the run's `observed_s` in seconds; None where no event of a run
        was seen."""
        start, stop = self._seen.get(RUN_START), self._seen.get(RUN_STOP)
        if start is None and stop is None:
            return None
        both = () if start is None or stop is None else (start, stop)
        return {
            "observed_s": None if start is None or stop is None else max(0.0, stop.earliest_s - start.latest_s),
            "uncertain_s": sum(seen.latest_s - seen.earliest_s for seen in both),
            "run_start_ms": self._wall_ms(start),
            "run_stop_ms": self._wall_ms(stop),
            "process_s": None if exited_s is None else exited_s - self._spawned_s,
            "processor_s": processor_s,
            "processor_before_s": _between(self._seen.get(STARTED), start),
            "processor_run_s": _between(start, stop),
        }

    def _wall_ms(self, seen: Arrival | None) -> int | None:
        """Return the last time, in milliseconds since the Unix epoch, at which the event had not yet arrived; None
        where the event or the clock's start is missing."""
        return None if seen is None or self._wall_s is None else int((seen.earliest_s + self._wall_s) * 1e3)


def _between(first: Arrival | None, last: Arrival | None) -> float | None:
    if first is None or last is None or first.processor_s is None or last.processor_s is None:
        return None
    return max(0.0, last.processor_s - first.processor_s)


def _event_of(line: bytes, *, is_marked: bool) -> str | None:
    """Return the event (start, run_start or run_stop) that ends a line of output, None without one. Versions of
    dlrmbench that did not mark events (`is_marked` False) print an event as a whole line."""
    _, mark, text = line.rpartition(EVENT_MARK)
    if (is_marked and not mark) or b'"event"' not in text or len(text) >= _MAX_LINE_BYTES:
        return None
    try:
        event = json.loads(text)
    except (ValueError, RecursionError):
        return None
    name = event.get("event") if isinstance(event, dict) else None
    return name if name in (STARTED, RUN_START, RUN_STOP) else None


def list_processes(pid: int) -> list[int]:
    """Return the ids of a process and all its descendants, in any session; those that end meanwhile may be
    missing."""
    found = [pid]
    for one in found:
        with suppress(OSError, ValueError):
            for children in Path(f"/proc/{one}/task").glob("*/children"):
                found += map(int, children.read_text(encoding="utf-8").split())
    return found


def read_processor_s(pid: int) -> float | None:
    """Return the processor time in seconds of a process and all its descendants, ended ones included; None where
    /proc does not tell."""
    ticks = 0
    try:
        for one in list_processes(pid):
            about = Path(f"/proc/{one}/stat").read_bytes().rpartition(b")")[2]
            ticks += sum(map(int, about.split()[11:15]))
    except (OSError, ValueError, IndexError):
        return None
    return ticks / os.sysconf("SC_CLK_TCK")


class _Follower:
    """Parent of one worker process: passes the worker's input and output on, and times its events, until it ends."""

    def __init__(self, asked: Mapping[str, Any]) -> None:
        self._record = Path(asked["record"])
        spawned_s = time.monotonic()
        self._process = subprocess.Popen(
            [word.encode("latin-1") for word in asked["command"]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={name.encode("latin-1"): value.encode("latin-1") for name, value in asked["environ"].items()},
        )
        self._clock = RunClock(spawned_s, is_marked=asked["is_marked"])
        self._empty_s = spawned_s
        self._waiting = bytearray()
        self._is_told_to_end = False
        assert self._process.stdout is not None
        self._from = self._process.stdout.fileno()
        os.set_blocking(self._from, False)
        os.set_blocking(1, False)

    def follow(self) -> int:
        """Follow the worker process to its end; return its exit code, or minus the signal that ended it."""
        watched = {0, self._from}
        while self._from in watched or (self._waiting and not self._is_told_to_end):
            is_full = len(self._waiting) > _MOST_WAITING_BYTES
            wanted = watched - {self._from} if is_full else watched
            asked_s = time.monotonic()
            readable, writable, _ = select.select(wanted, [1] if self._waiting else [], [], _TICK_S)
            if self._from in wanted and self._from not in readable:
                self._empty_s = asked_s
            if 0 in readable and not os.read(0, 4096):
                watched.discard(0)
                self._leave()  # the parent is gone
            if writable:
                self._hand_on()
            if self._from in readable and self._read():
                watched.discard(self._from)
        exit_code = self._process.wait()
        exited_s, usage = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
        self._keep(exited_s, usage.ru_utime + usage.ru_stime)
        return exit_code

    def end(self) -> None:
        """Terminate the worker process; its further output is dropped where nobody reads it."""
        self._is_told_to_end = True
        self._process.terminate()

    def _read(self) -> bool:
        """Read the worker's available output; return whether it was the end of the output."""
        asked_s = time.monotonic()
        try:
            said = os.read(self._from, _READ_BYTES)
        except BlockingIOError:
            return False
        latest_s = time.monotonic()
        is_over = self._clock.feed(said, self._empty_s, latest_s, lambda: read_processor_s(self._process.pid))
        self._waiting += said
        if len(said) < _READ_BYTES:
            self._empty_s = asked_s
        if is_over:
            self._keep(None, None)
        return not said

    def _hand_on(self) -> None:
        try:
            del self._waiting[: os.write(1, self._waiting)]
        except BlockingIOError:
            return
        except OSError:
            self._waiting.clear()  # nobody reads any more

    def _leave(self) -> None:
        """Close the worker's standard input: to the worker, that means that its parent is gone."""
        if self._process.stdin is not None:
            with suppress(OSError):
                self._process.stdin.close()

    def _keep(self, exited_s: float | None, processor_s: float | None) -> None:
        """Write the observed times of a run by one rename, so that they survive if this process is killed next."""
        observed = self._clock.observe(exited_s, processor_s)
        if observed is None:
            return
        draft = self._record.with_suffix(".partial")
        with suppress(OSError), draft.open("w", encoding="utf-8") as file:
            json.dump(observed, file)
            file.flush()
            os.fsync(file.fileno())
            draft.replace(self._record)


def main() -> int:
    """Start the command requested on standard input and end with its exit code, or by the signal that ended it."""
    asked = b""
    while not asked.endswith(b"\n"):
        if not (part := os.read(0, 1 << 16)):
            return 1
        asked += part
    follower = _Follower(json.loads(asked))
    signal.signal(signal.SIGTERM, lambda *_: follower.end())
    exit_code = follower.follow()
    if exit_code < 0:
        number = -exit_code
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
        with suppress(OSError, ValueError):
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    return exit_code


if __name__ == "__main__":
    sys.exit(main())

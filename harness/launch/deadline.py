"""Kill a run that is past its deadline and cannot end by itself, with every process that it started."""

import os
import signal
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from harness.launch.timekeeper import RUN_START, RUN_STOP, list_processes

_TICK_S = 1.0
AT_ONCE = 0.0
"""Deadline of a job without a time limit, which is killed only if it hangs. A job hangs if a signal has kept one of
its processes stopped for STOPPED_FOR_S."""
STOPPED_FOR_S = 10.0
"""Seconds for which a signal may keep a process of a run stopped once the run's deadline has passed: a debugger may
stop it briefly."""
SILENT_FOR_S = 300.0
"""Seconds without a progress event after which a run that has begun counts as hung, once its deadline has passed. The
time is long, since an evaluation sends no events."""
_LOOK_EVERY_S, _MOST_LOOKS = 0.05, 200


class Deadline:
    """Context manager that watches process `pid` and its descendants, and kills all of them if their run hangs after
    its deadline. Normally a worker checks the deadline itself, several times a second, and then ends with a complete
    log. This class is for a worker that can no longer do that.

    The deadline is `timeout_s` seconds after the run's begin, or after its launch if it has not begun. Nothing is
    checked before the deadline. After it, a run hangs in either of two cases. In the first, a signal has kept one of
    its processes stopped for STOPPED_FOR_S seconds. In the second, the run has begun, has not ended, and has sent no
    event for SILENT_FOR_S seconds. Time in which the watching process itself did not run does not count.
    """

    def __init__(self, pid: int, timeout_s: float | None) -> None:
        self.reason: str | None = None
        """Reason why the run was killed after its deadline; None where it was not killed."""
        self._pid, self._timeout_s = pid, timeout_s
        self._passed_s = self._silent_s = self._stopped_s = 0.0
        self._has_begun = self._is_over = False
        self._left = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="deadline", daemon=True)

    def __enter__(self) -> "Deadline":
        if self._timeout_s is not None:
            self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._left.set()
        if self._timeout_s is not None:
            self._thread.join()

    def take(self, event: str) -> bool:
        """Register a progress event of the run's process as a sign of life. Return True for the events run_start and
        run_stop. These only tell the timekeeper process when to take the time, and are not shown as progress.

        The time limit counts from the run's first run_start. Work after run_stop is not timed.
        """
        self._silent_s = 0.0
        if event == RUN_START and not self._has_begun:
            self._passed_s, self._has_begun = 0.0, True
        self._is_over = self._is_over or event == RUN_STOP
        return event in (RUN_START, RUN_STOP)

    def look(self, passed_s: float) -> str | None:
        """Advance the deadline's clock by `passed_s` seconds; return the reason why the run is hung, None where it is
        not."""
        assert self._timeout_s is not None
        self._passed_s += passed_s
        self._silent_s += passed_s
        if self._passed_s <= self._timeout_s:
            return None
        stopped = find_stopped(list_processes(self._pid))
        self._stopped_s = 0.0 if stopped is None else self._stopped_s + passed_s
        silent_s = min(self._silent_s, self._passed_s - self._timeout_s)
        if self._stopped_s >= STOPPED_FOR_S:
            why = f"its process {stopped} is stopped, as by SIGSTOP."
        elif silent_s >= SILENT_FOR_S and self._has_begun and not self._is_over:
            why = f"nothing was heard of it for {SILENT_FOR_S:g} s."
        else:
            return None
        if self._timeout_s == AT_ONCE:
            return f"it would not have ended: {why}"
        return f"the run did not end by itself at its --timeout of {self._timeout_s:g} s: {why}"

    def _watch(self) -> None:
        before_s = time.monotonic()
        while not self._left.wait(_TICK_S):
            now_s = time.monotonic()
            self.reason = self.look(min(now_s - before_s, 2 * _TICK_S))
            before_s = now_s
            if self.reason is not None:
                kill_tree(self._pid)
                return


def find_stopped(processes: Iterable[int]) -> int | None:
    """Return the first of the process ids `processes` that a signal has stopped; None where there is none, or /proc
    does not tell."""
    return next((pid for pid in processes if _state_of(pid) == b"T"), None)


def kill_tree(pid: int) -> None:
    """Kill a process and all its descendants, in any session and even if stopped, and wait until they are gone.

    The process itself is killed last, so that children which are just being started are found.
    """
    killed = set[int]()
    for _ in range(_MOST_LOOKS):
        for each in {*list_processes(pid)} - {pid} - killed:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(each, signal.SIGKILL)
            killed.add(each)
        if not any(map(_is_alive, killed)):
            break
        time.sleep(_LOOK_EVERY_S)
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)


def _state_of(pid: int) -> bytes:
    """Return the state letter of a process from /proc; empty where the process is gone, or /proc does not tell."""
    with suppress(OSError, IndexError):
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0]
    return b""


def _is_alive(pid: int) -> bool:
    return _state_of(pid) not in (b"", b"Z", b"X")

"""How long a run took by the clock of the process that started it: no code of the run can bend that."""

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

RUN_START, RUN_STOP = "run_start", "run_stop"
"""Events that a run's process sends as soon as these lines are in its log."""
_TICK_S = 0.25
_HELD_UP_S = 0.5


class RunClock:
    """Stamps the arrival of two events and hands all others on.

    The first run_start and the last run_stop count: a run that sends more of them is not shorter for it. A process
    that was held up, by Ctrl-Z or by a terminal that takes no output, has stamped them late: `run_s` is None then, as
    where an event did not come.
    """

    def __init__(self, on_event: Callable[[Mapping[str, Any]], None]) -> None:
        self._on_event = on_event
        self._stamps_s: dict[str, float] = {}
        self._longest_s = 0.0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._tick, name="run-clock", daemon=True)

    def __enter__(self) -> "RunClock":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    @property
    def run_s(self) -> float | None:
        """Return the seconds from the arrival of `run_start` to that of `run_stop`."""
        if self._longest_s > _HELD_UP_S or not {RUN_START, RUN_STOP} <= self._stamps_s.keys():
            return None
        return self._stamps_s[RUN_STOP] - self._stamps_s[RUN_START]

    def take(self, event: Mapping[str, Any]) -> None:
        """Stamp or hand on an event that has just arrived."""
        now_s = time.monotonic()
        if event["event"] == RUN_START:
            self._stamps_s.setdefault(RUN_START, now_s)
        elif event["event"] == RUN_STOP:
            self._stamps_s[RUN_STOP] = now_s
        else:
            self._on_event(event)
            self._longest_s = max(self._longest_s, time.monotonic() - now_s)

    def _tick(self) -> None:
        last_s = time.monotonic()
        while not self._ended.wait(_TICK_S):
            now_s = time.monotonic()
            self._longest_s, last_s = max(self._longest_s, now_s - last_s - _TICK_S), now_s

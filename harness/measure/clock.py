"""Tell time by a monotonic clock that can also give wall-clock time stamps."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field


def _no_device() -> None:
    return None


@dataclass(slots=True)
class Clock:
    """Clock of wall time at its start plus monotonic time since, so that adjusting the system's clock changes no
    duration.

    `synchronize` waits for the device (GPU), so that no time stamp precedes the end of the work before it.
    """

    synchronize: Callable[[], None] = _no_device
    _wall_ns: int = field(default_factory=time.time_ns)
    _start_ns: int = field(default_factory=time.monotonic_ns)

    def elapsed_s(self) -> float:
        """Return the seconds since this clock was made, after waiting for the device to finish its work."""
        self.synchronize()
        return (time.monotonic_ns() - self._start_ns) / 1e9

    def time_ms(self) -> int:
        """Return the time stamp of a log line, in milliseconds since the Unix epoch, after waiting for the device to
        finish."""
        self.synchronize()
        return (self._wall_ns + time.monotonic_ns() - self._start_ns) // 1_000_000

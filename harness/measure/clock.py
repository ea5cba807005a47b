"""Time: a monotonic clock that can print wall-clock stamps."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field


def _no_device() -> None:
    return None


@dataclass(slots=True)
class Clock:
    """Wall time at the start plus monotonic time since, so that adjusting the system's clock changes no duration.

    `synchronize` waits for the device, so that no stamp precedes the end of the work that it closes.
    """

    synchronize: Callable[[], None] = _no_device
    _wall_ns: int = field(default_factory=time.time_ns)
    _start_ns: int = field(default_factory=time.monotonic_ns)

    def elapsed_s(self) -> float:
        """Return the seconds since this clock was made, devices synchronised."""
        self.synchronize()
        return (time.monotonic_ns() - self._start_ns) / 1e9

    def time_ms(self) -> int:
        """Return the stamp of a log line: milliseconds since the Unix epoch, devices synchronised."""
        self.synchronize()
        return (self._wall_ns + time.monotonic_ns() - self._start_ns) // 1_000_000

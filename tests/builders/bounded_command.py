"""One command line in this process, within bounds of time and memory, and what must hold of it whatever it read."""

import io
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from waiting import HANG_S

from harness.cli import main
from harness.system.resources import peak_rss_bytes

MAX_CPU_S = 5.0
MAX_GROWTH_BYTES = 1 << 30
EXIT_CODES = {0, 2, 3, 4, 5, 7, 8, 9}


class TooSlowError(BaseException):
    """No error of the product's: nothing of it may catch this."""


@contextmanager
def bounded(max_cpu_s: float = MAX_CPU_S) -> Iterator[None]:
    """End what works for more than so much of this process's own time, or waits without end."""

    def too_slow(signum: int, frame: object) -> None:
        raise TooSlowError(f"more than {max_cpu_s} s of processor time, or a wait without end")

    timers = ((signal.SIGVTALRM, signal.ITIMER_VIRTUAL, max_cpu_s), (signal.SIGALRM, signal.ITIMER_REAL, HANG_S))
    before = [signal.signal(number, too_slow) for number, _, _ in timers]
    for _, timer, seconds in timers:
        signal.setitimer(timer, seconds)
    try:
        yield
    finally:
        for (number, timer, _), handler in zip(timers, before, strict=True):
            signal.setitimer(timer, 0)
            signal.signal(number, handler)


def run_bounded(words: list[str]) -> tuple[int, str, str]:
    """Exit code and what was printed, by streams as strict as a terminal's in UTF-8."""
    streams = [io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2)]
    kept = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = streams
    try:
        with bounded():
            main(words)
    except SystemExit as leaving:
        assert isinstance(leaving.code, int)
        out, err = (stream.buffer.getvalue().decode() for stream in streams)  # type: ignore[attr-defined]
        return leaving.code, out, err
    finally:
        sys.stdout, sys.stderr = kept


def assert_sound(words: list[str], code: int, out: str, err: str) -> None:
    assert code in EXIT_CODES, (code, err)
    assert "Traceback" not in err and "internal error" not in err, err
    for text in (out, err):
        lines = text.replace("\r\n", "\n").split("\n")
        assert all(line.isprintable() for line in lines), [line for line in lines if not line.isprintable()][:3]


@contextmanager
def bounded_memory(max_growth_bytes: int = MAX_GROWTH_BYTES) -> Iterator[None]:
    """Bound how much more than it had this process takes at its peak, which Linux forgets for a 5 in clear_refs."""
    Path("/proc/self/clear_refs").write_text("5")
    before = peak_rss_bytes()
    yield
    grown = peak_rss_bytes() - before
    assert grown <= max_growth_bytes, f"{grown} bytes more"

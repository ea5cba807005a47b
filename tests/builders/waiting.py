"""Waiting in tests: for a condition, for as long as it takes, so that no outcome depends on the machine's load."""

import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn, TypeVar

import pytest

T = TypeVar("T")
HANG_S = 1800.0
"""After this a test hangs and is ended. Far beyond what anything takes on a busy machine: no test may need it."""
_POLL_S = 0.02


def wait_until(condition: Callable[[], T], what: str) -> T:
    """The first value of `condition` that is true; an AssertionError that says `what` did not come when it hangs."""
    end_s = time.monotonic() + HANG_S
    while not (value := condition()):
        assert time.monotonic() < end_s, f"did not happen within {HANG_S:.0f} s: {what}"
        time.sleep(_POLL_S)
    return value


def skip_where_busy(why: str) -> NoReturn:
    """Skip a test that needs a pace which a system with more to do than it has cores may not keep; elsewhere fail."""
    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    if load > cores:
        pytest.skip(f"this system is too busy (load {load:.1f} on {cores} cores): {why}")
    pytest.fail(why)


needs_two_cpus = pytest.mark.skipif(
    len(os.sched_getaffinity(0)) < 2,
    reason="varies threads from 1 to 2, which are refused on the one CPU that this process may use",
)


def has_ended(pid: int) -> bool:
    """Whether that process has ended, collected by its parent or not."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True
    return status.rpartition(")")[2].split()[0] in "ZX"


def processes_of(session: int) -> list[int]:
    """All processes of a session."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            if int(fields[3]) == session and fields[0] not in "ZX":
                found.append(int(folder.name))
    return found

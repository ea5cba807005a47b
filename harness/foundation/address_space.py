"""Check that a limited address space (`ulimit -v`) suffices for numpy, before numpy is imported.

Without the check, the user would not learn what happened: numpy loads OpenBLAS, and when OpenBLAS gets no memory, it
ends the process with exit code 1, or by the signal that Ctrl-C sends.
"""

import mmap
import os
import resource
import sys
from collections.abc import Sequence
from types import ModuleType

from harness.foundation.errors import ExitCode, HarnessError

LOADED_BYTES = 256 << 20
"""Bytes of address space that scipy and pandas need in addition to numpy, measured on Linux with numpy 2.4."""
THREAD_BYTES = 16 << 20
"""Bytes of address space of one OpenBLAS thread, stack included; there are as many threads as CPUs."""


class _BeforeNumpy:
    """Import finder that finds no module, but checks the limit of the address space when numpy is imported."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        if fullname == "numpy":
            require_address_space()


def require_address_space() -> None:
    """Raise HarnessError (exit 9) where the limit of the address space (`ulimit -v`) is too low for numpy, scipy and
    pandas."""
    needed = LOADED_BYTES + THREAD_BYTES * (os.cpu_count() or 1)
    try:
        mmap.mmap(-1, needed).close()
    except (OSError, MemoryError):
        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        raise HarnessError(
            f"out of memory: this process may have {limit >> 20} MiB of address space (ulimit -v), and "
            f"{needed >> 20} MiB more are needed to load numpy and its libraries. Raise the limit.",
            ExitCode.RESOURCES,
        ) from None


def watch_address_space() -> None:
    """Arrange that the address space limit, where there is one, is checked before this process imports numpy."""
    if resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY and "numpy" not in sys.modules:
        sys.meta_path.insert(0, _BeforeNumpy())

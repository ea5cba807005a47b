"""Enough address space for numpy, where it is limited (`ulimit -v`): the command line looks before it is imported.

OpenBLAS, which numpy loads, ends the process by itself where it gets no memory, by exit code 1 or by the signal of
Ctrl-C, and neither is what happened.
"""

import mmap
import os
import resource
import sys
from collections.abc import Sequence
from types import ModuleType

from harness.foundation.errors import ExitCode, HarnessError

LOADED_BYTES = 256 << 20
"""What scipy and pandas take beside numpy, measured on Linux with numpy 2.4."""
THREAD_BYTES = 16 << 20
"""A stack, and what OpenBLAS has for each of its threads; as many as there are CPUs."""


class _BeforeNumpy:
    """Finds nothing, and looks for address space when numpy is looked for."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        if fullname == "numpy":
            require_address_space()


def require_address_space() -> None:
    """Raise HarnessError (exit 9) where what the readers of results need cannot be had within the limit."""
    needed = LOADED_BYTES + THREAD_BYTES * (os.cpu_count() or 1)
    try:
        mmap.mmap(-1, needed).close()
    except (OSError, MemoryError):
        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        raise HarnessError(
            f"out of memory: this process may have {limit >> 20} MiB of address space (ulimit -v), and "
            f"{needed >> 20} MiB more are needed to load numpy and what comes with it. Raise the limit.",
            ExitCode.RESOURCES,
        ) from None


def watch_address_space() -> None:
    """Have this process look before it imports numpy, where its address space is limited."""
    if resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY and "numpy" not in sys.modules:
        sys.meta_path.insert(0, _BeforeNumpy())

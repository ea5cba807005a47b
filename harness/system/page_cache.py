"""Drop a dataset's pages from the operating system's page cache, and verify that they are gone.

`posix_fadvise(POSIX_FADV_DONTNEED)` drops a file's clean pages without root (posix_fadvise(2)); `mincore(2)` counts
the remaining ones. A run reads its data faster from a warm cache than from a cold one, so the run's log records
whether the cache was cleared.
"""

import ctypes
import mmap
import os
import stat
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from harness.system.resources import find_filesystem_type

_WINDOW_BYTES = 1 << 30
_BIT_0 = bytes(value & 1 for value in range(256))
_ATTEMPTS = 3
"""Number of attempts to drop pages of a file: recently read ones may wait in a per-core list that only the first
attempt drains."""
TOLERANCE = 1e-3
"""Share of the files' bytes that may remain in a cleared page cache: another reader may hold a page."""


@dataclass(frozen=True, slots=True)
class PageCacheClear:
    """Result of clearing the page cache: whether it worked, the method in words, the bytes of the files, and how many
    of these were in the cache before and after (None where that cannot be measured)."""

    cleared: bool
    method: str
    num_bytes: int
    resident_bytes_before: int | None
    resident_bytes_after: int | None


def clear_page_cache(paths: Iterable[str | Path]) -> PageCacheClear:
    """Write each file's changed pages to disk, then drop the file's pages from the page cache. For a folder, do this
    for all files below it.

    `cleared` of the result is True only if mincore has confirmed that the pages are gone. Raises OSError if a path is
    missing or unreadable.
    """
    files = list_files(paths)
    sizes = {path: path.stat().st_size for path in files}
    total = sum(sizes.values())
    if not files:
        return PageCacheClear(True, "nothing to clear: no files", 0, 0, 0)
    if not can_clear():
        return PageCacheClear(False, f"not cleared: {sys.platform} has no posix_fadvise", total, None, None)
    before = _resident(files)
    for _ in range(_ATTEMPTS):
        for path in files:
            _drop(path)
        after = _resident(files)
        if after is None or after <= total * TOLERANCE:
            break
    if before is None or after is None:
        cleared, how = False, "not proved: mincore is denied on files of others"
    elif after > total * TOLERANCE:
        cleared, how = False, f"{after} bytes stayed: {_why_pages_stay(files)}"
    else:
        cleared, how = True, "proved by mincore"
    return PageCacheClear(cleared, f"posix_fadvise, {how}", total, before, after)


def can_clear() -> bool:
    """Return whether this system has the calls that drop pages; only trying shows whether they work on a file
    system."""
    return sys.platform == "linux" and hasattr(os, "posix_fadvise")


def count_resident_bytes(path: Path) -> int | None:
    """Return the number of a file's bytes that are in the page cache: whole pages, but at most the file's size.

    Return None where the kernel does not tell. That is the case on systems other than Linux, and for files that this
    user neither owns nor may write: since Linux 5.0, mincore(2) reports all pages of these files as resident.
    """
    if sys.platform != "linux" or not _may_ask(path):
        return None
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mincore.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p)
    num_pages = 0
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        for offset in range(0, size, _WINDOW_BYTES):
            length = min(_WINDOW_BYTES, size - offset)
            pages = ctypes.create_string_buffer(-(-length // mmap.PAGESIZE))
            try:
                window = mmap.mmap(file.fileno(), length, access=mmap.ACCESS_READ, offset=offset)
            except OSError:
                return None
            # numpy knows where a read-only buffer is, which ctypes does not.
            if libc.mincore(np.frombuffer(window, np.uint8).ctypes.data, length, pages) != 0:
                return None
            num_pages += pages.raw.translate(_BIT_0).count(1)
    return min(size, num_pages * mmap.PAGESIZE)


def list_files(paths: Iterable[str | Path]) -> list[Path]:
    """Return the regular files among `paths` and in the folders among `paths` (subfolders included), each once."""
    files: dict[Path, None] = {}
    for path in map(Path, paths):
        below = sorted(path.rglob("*")) if path.is_dir() else [path]
        files.update((file.resolve(strict=True), None) for file in below if not file.is_dir())
    return [file for file in files if stat.S_ISREG(file.stat().st_mode)]


def _resident(files: list[Path]) -> int | None:
    counts = [count_resident_bytes(path) for path in files]
    return None if None in counts else sum(count for count in counts if count is not None)


def _may_ask(path: Path) -> bool:
    return os.geteuid() == 0 or path.stat().st_uid == os.geteuid() or os.access(path, os.W_OK)


def _drop(path: Path) -> None:
    with path.open("rb", buffering=0) as file:
        os.fsync(file.fileno())  # dirty pages cannot be dropped
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _why_pages_stay(files: list[Path]) -> str:
    if {find_filesystem_type(path) for path in files} & {"tmpfs", "ramfs"}:
        return "the files live in memory (tmpfs)"
    return "another process maps or reads them, or the file system keeps its files in memory"

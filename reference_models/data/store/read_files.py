"""Keep track of the files that a dataset's reader has open, to verify after a run which bytes were read.

A reader opens its files with this module and maps the open files. If a new file later takes an open file's place, the
open file is examined after the run, not the new one, since the reader read the open one. A file that is changed while
it is open gets another ctime. utime can reset mtime, but no call can reset ctime.
"""

import hashlib
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from reference_models.process.errors import naming
from reference_models.process.open_file import open_regular

BLOCK_BYTES = 1 << 20
NUM_BLOCKS = 16
"""Number of blocks of each data file that are hashed if the dataset is too large to be hashed whole: equidistant,
first and last included."""
MAX_WHOLE_BYTES = 16 << 30
"""Largest dataset, in bytes, that is hashed whole after a run: that takes at most 40 s, runs take many minutes."""
_CHUNK_BYTES = 1 << 22


@dataclass(frozen=True, kw_only=True, slots=True)
class FileState:
    """Identity, size and last change of an open file; by now another file may have the open file's name."""

    device: int
    inode: int
    num_bytes: int
    mtime_ns: int
    ctime_ns: int


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadFile:
    """State of a data file when the reader opened it, and when its bytes were hashed after a run. `hashed` and
    `sha256` are None until the file is hashed."""

    name: str
    opened: FileState
    hashed: FileState | None = None
    sha256: str | None = None


class ReadFiles:
    """Files of an opened dataset, open as long as this object exists."""

    samples_read: int
    """Number of samples read from the files, repeated ones included."""

    def __init__(self, paths: Iterable[Path] = ()) -> None:
        self.samples_read = 0
        self._paths = tuple(paths)
        self._open: dict[Path, tuple[int, FileState]] = {}
        self._lock = threading.Lock()
        self._closing = weakref.finalize(self, _close, self._open)

    def open(self, path: Path) -> BinaryIO:
        """Open `path` for reading, and return a file object. All file objects of a path share one descriptor, opened
        by the first call.

        Raises OSError, and DatasetError for a pipe or a device.
        """
        with self._lock:
            if path not in self._open:
                with open_regular(path, follows=True) as file:
                    descriptor = os.dup(file.fileno())
                self._open[path] = (descriptor, _state(descriptor))
            return open(self._open[path][0], "rb", closefd=False)

    def look(self) -> tuple[ReadFile, ...]:
        """Return each data file's state (identity, size, times) when it was opened; files that were not read yet are
        opened now. Raises OSError."""
        for path in self._paths:
            with naming(path):
                self.open(path).close()
        return tuple(ReadFile(name=path.name, opened=state) for path, (_, state) in sorted(self._open.items()))

    def is_hashed_whole(self) -> bool:
        """Return whether `hash` reads every byte of the data files, instead of blocks of each file."""
        return sum(file.opened.num_bytes for file in self.look()) <= MAX_WHOLE_BYTES

    def hash(self, on_bytes: Callable[[int], None] = lambda num_bytes: None) -> tuple[ReadFile, ...]:
        """Hash the open files' present content, whole or in blocks; `on_bytes` gets the number of bytes just read."""
        is_whole, hashed = self.is_hashed_whole(), []
        for file, (path, (descriptor, _)) in zip(self.look(), sorted(self._open.items()), strict=True):
            digest = hashlib.sha256()
            with naming(path):
                for offset, size in _whole(file.opened) if is_whole else blocks(file.opened.num_bytes):
                    part = os.pread(descriptor, size, offset)
                    digest.update(part)
                    on_bytes(len(part))
                state = _state(descriptor)
            hashed.append(ReadFile(name=file.name, opened=file.opened, hashed=state, sha256=digest.hexdigest()))
        return tuple(hashed)


def blocks(num_bytes: int) -> Iterator[tuple[int, int]]:
    """Yield offset and size of each block to hash of a data file of `num_bytes` bytes that is not hashed whole."""
    last = max(0, num_bytes - BLOCK_BYTES)
    for offset in sorted({last * index // (NUM_BLOCKS - 1) for index in range(NUM_BLOCKS)}):
        yield offset, min(BLOCK_BYTES, num_bytes - offset)


def _whole(state: FileState) -> Iterator[tuple[int, int]]:
    return ((offset, _CHUNK_BYTES) for offset in range(0, state.num_bytes, _CHUNK_BYTES))


def _state(descriptor: int) -> FileState:
    about = os.fstat(descriptor)
    return FileState(
        device=about.st_dev,
        inode=about.st_ino,
        num_bytes=about.st_size,
        mtime_ns=about.st_mtime_ns,
        ctime_ns=about.st_ctime_ns,
    )


def _close(opened: dict[Path, tuple[int, FileState]]) -> None:
    for descriptor, _ in opened.values():
        os.close(descriptor)

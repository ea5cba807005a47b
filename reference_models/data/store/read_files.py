"""The files that a reader has open: what shows after a run which bytes it was given.

A reader opens its files here and maps what is open. What is put in a file's place later is not what is looked at
after the run; and a file that was changed in between has another ctime, which no call sets back as utime does mtime.
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
"""Blocks of each file that are hashed where the dataset is too large to be hashed whole: at even distances, the first
and the last too."""
MAX_WHOLE_BYTES = 16 << 30
"""Up to this size a dataset is hashed whole: at most some 40 s, beside runs of many minutes."""
_CHUNK_BYTES = 1 << 22


@dataclass(frozen=True, kw_only=True, slots=True)
class FileState:
    """Which file it is, and when it was last written: of an open file, not of what has its name."""

    device: int
    inode: int
    num_bytes: int
    mtime_ns: int
    ctime_ns: int


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadFile:
    """One file as the reader opened it and as it was when its bytes were hashed. `sha256` is None before that."""

    name: str
    opened: FileState
    hashed: FileState | None = None
    sha256: str | None = None


class ReadFiles:
    """The files of one opened dataset. They stay open until this object goes."""

    samples_read: int
    """How many samples were read of them, some more than once."""

    def __init__(self, paths: Iterable[Path] = ()) -> None:
        self.samples_read = 0
        self._paths = tuple(paths)
        self._open: dict[Path, tuple[int, FileState]] = {}
        self._lock = threading.Lock()
        self._closing = weakref.finalize(self, _close, self._open)

    def open(self, path: Path) -> BinaryIO:
        """Return a file of the one descriptor that a path has here, opened with the first call.

        Raises OSError, and DatasetError for a pipe or a device.
        """
        with self._lock:
            if path not in self._open:
                with open_regular(path, follows=True) as file:
                    descriptor = os.dup(file.fileno())
                self._open[path] = (descriptor, _state(descriptor))
            return open(self._open[path][0], "rb", closefd=False)

    def look(self) -> tuple[ReadFile, ...]:
        """Say which files these are; those that were not read are opened now. Raises OSError."""
        for path in self._paths:
            with naming(path):
                self.open(path).close()
        return tuple(ReadFile(name=path.name, opened=state) for path, (_, state) in sorted(self._open.items()))

    def is_hashed_whole(self) -> bool:
        """Return whether `hash` reads every byte."""
        return sum(file.opened.num_bytes for file in self.look()) <= MAX_WHOLE_BYTES

    def hash(self, on_bytes: Callable[[int], None] = lambda num_bytes: None) -> tuple[ReadFile, ...]:
        """Hash what the open files hold now, whole or in blocks; `on_bytes` gets how many bytes were just read."""
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
    """Yield offset and size of the blocks that stand for a file of so many bytes."""
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

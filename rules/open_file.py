"""Open files that may come from a stranger safely, to judge and show them; training uses the module
process/open_file.py of `reference_models` instead."""

import os
import stat
from pathlib import Path
from typing import BinaryIO


class NotRegularError(ValueError):
    """Error for a path that is a pipe, a device or a folder instead of a regular file."""


class TooLargeError(ValueError):
    """Error for a file that is larger than the caller's limit for reading, with the number of bytes found."""

    def __init__(self, num_bytes: int) -> None:
        super().__init__(f"{num_bytes:,} bytes")
        self.num_bytes = num_bytes


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file, or the regular file that a link leads to, for reading bytes; the call never waits for a
    pipe or touches a device.

    Raises NotRegularError, OSError, and ValueError for a name that no file can have.
    """
    if not stat.S_ISREG(path.stat().st_mode):
        raise NotRegularError(str(path))
    file = os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb")
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):  # it has just been put there
        file.close()
        raise NotRegularError(str(path))
    return file


def read_regular(path: Path, max_bytes: int) -> bytes:
    """Read a whole file of at most `max_bytes`; the size is checked before reading. Raises TooLargeError, and what
    `open_regular` raises."""
    with open_regular(path) as file:
        if (num_bytes := os.fstat(file.fileno()).st_size) > max_bytes:
            raise TooLargeError(num_bytes)
        content = file.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise TooLargeError(len(content))
    return content

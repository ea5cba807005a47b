"""Open what strangers' files name, or what lies in their folders: the one way for all of them."""

import os
import re
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from reference_models.process.errors import DatasetError

_KINDS = {
    stat.S_IFLNK: "a link",
    stat.S_IFIFO: "a pipe",
    stat.S_IFDIR: "a folder",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def open_regular(path: Path, *, max_bytes: int | None = None, follows: bool = False) -> BinaryIO:
    """Open a regular file to read: no pipe is waited for, no device touched, and a link followed only if `follows`.

    A user's own argument may be a link; what a file names may be one only where its user is known to have put it
    there. `max_bytes` bounds the size before anything is read. Raises DatasetError that says what was found and
    expected, and OSError for what the system refuses.
    """
    expected = "expected a regular file" + ("" if max_bytes is None else f" of at most {max_bytes:,} bytes")
    try:
        _refuse_kind(path, (path.stat if follows else path.lstat)(), expected)
        link_flag = 0 if follows else os.O_NOFOLLOW
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | link_flag)
    except ValueError as error:
        if isinstance(error, DatasetError):
            raise
        raise DatasetError(f"{str(path)!r}: no name of a file: {error}; {expected}.") from None
    try:
        found = os.fstat(descriptor)  # what lay there a moment ago may have been replaced
        _refuse_kind(path, found, expected)
        if max_bytes is not None and found.st_size > max_bytes:
            raise DatasetError(f"{path}: {found.st_size:,} bytes, {expected}.")
        return open(path, "rb", opener=lambda name, flags: descriptor)  # so that it has the name
    except BaseException:
        os.close(descriptor)
        raise


def list_parts(paths: Iterable[Path]) -> list[Path]:
    """Put the files of a folder of part files in its place, by name, numbers in it as numbers.

    Files whose name begins with a dot or an underscore, as _SUCCESS does, are passed over. Raises DatasetError for a
    folder without files, and for one with folders, whose names may be columns.
    """
    found: list[Path] = []
    for path in paths:
        if not path.is_dir():
            found.append(path)
            continue
        parts = [part for part in path.iterdir() if part.name[0] not in "._"]
        if folders := sorted(part.name for part in parts if part.is_dir()):
            raise DatasetError(
                f"{path}: holds a folder {folders[0]!r:.80}, expected files. Give the folders one by one; where "
                "their names are values of a column, write that into the files."
            )
        if not parts:
            raise DatasetError(f"{path}: a folder without files, expected files of rows.")
        found += sorted(parts, key=_by_number)
    return found


def _by_number(path: Path) -> list[tuple[int, str]]:
    return [(int(part) if part.isdecimal() else -1, part) for part in re.split(r"([0-9]{1,18})", path.name)]


def refuse_irregular(paths: Iterable[Path]) -> None:
    """Raise DatasetError for a pipe, a device or a folder among files that a library will open; links are followed.

    What cannot be looked at is left to who opens it.
    """
    for path in paths:
        with suppress(OSError):
            open_regular(path, follows=True).close()


def read_regular(path: Path, max_bytes: int, *, follows: bool = False) -> bytes:
    """Read a whole file as `open_regular` opens it; DatasetError also where more than `max_bytes` come of it."""
    with open_regular(path, max_bytes=max_bytes, follows=follows) as file:
        content = file.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise DatasetError(f"{path}: more than {max_bytes:,} bytes, expected a regular file of at most these.")
    return content


def _refuse_kind(path: Path, found: os.stat_result, expected: str) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise DatasetError(f"{path}: {_KINDS.get(stat.S_IFMT(found.st_mode), 'no file')}, {expected}.")

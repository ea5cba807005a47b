"""Opening of untrusted files: files that other people's files name, or that lie in other people's folders."""

import os
import re
import shlex
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
_POINTER = b"version https://git-lfs.github.com/spec/"


def open_regular(path: Path, *, max_bytes: int | None = None, follows: bool = False) -> BinaryIO:
    """Open a regular file for reading, never waiting for pipes or touching devices; follow links only if `follows`.

    Set `follows` for a path that the user gives. For a path that is read from a file, set it only if the user is
    known to have made the link. Raises DatasetError, before anything is read, if the file is of any other kind or has
    more than `max_bytes` bytes. Raises OSError if the system refuses to open it.
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
        found = os.fstat(descriptor)  # the file may have been replaced since the check above
        _refuse_kind(path, found, expected)
        if max_bytes is not None and found.st_size > max_bytes:
            raise DatasetError(f"{path}: {found.st_size:,} bytes, {expected}.")
        refuse_pointer(path, os.pread(descriptor, len(_POINTER), 0))
        return open(path, "rb", opener=lambda name, flags: descriptor)  # so that the open file has the name
    except BaseException:
        os.close(descriptor)
        raise


def refuse_pointer(path: Path, head: bytes) -> None:
    """Raise DatasetError where a file begins as a Git LFS pointer does, a text that stands for the real file."""
    if head.startswith(_POINTER):
        raise DatasetError(
            f"{path}: is a Git LFS pointer, expected the file itself. Get it, in its repository: "
            f"git lfs pull --include={shlex.quote(path.name)}"
        )


def list_parts(paths: Iterable[Path]) -> list[Path]:
    """Return `paths` with each folder replaced by the files in it, sorted by name; numbers in names are compared as
    numbers.

    Files whose name begins with a dot or an underscore, as _SUCCESS does, are skipped. Raises DatasetError if a
    folder has no files. Raises DatasetError if a folder has subfolders, since their names may be values of a column
    that the files lack (a partitioned dataset).
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
    """Raise DatasetError if a path is a pipe, a device or a folder, before a library opens it; links are followed.

    A path that cannot be examined is left to the library.
    """
    for path in paths:
        with suppress(OSError):
            open_regular(path, follows=True).close()


def read_regular(path: Path, max_bytes: int, *, follows: bool = False) -> bytes:
    """Return the bytes of a whole file that `open_regular` opens. Raises DatasetError also if it has more than
    `max_bytes` bytes."""
    with open_regular(path, max_bytes=max_bytes, follows=follows) as file:
        content = file.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise DatasetError(f"{path}: more than {max_bytes:,} bytes, expected a regular file of at most these.")
    return content


def _refuse_kind(path: Path, found: os.stat_result, expected: str) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise DatasetError(f"{path}: {_KINDS.get(stat.S_IFMT(found.st_mode), 'no file')}, {expected}.")

"""Writing of files such that no reader sees half of one, in folders that others may write to, too.

A file is first written under a new, unpredictable name (a draft), then renamed. So nothing is written through a link
or into a pipe that has the file's name. Code that trains writes all its files by this module; `harness` uses it for
files that it writes under a lock. The package `reports` has a module of its own for the same purpose
(reports/text/atomic_write.py), since `reports` and `reference_models` import nothing from each other. A test checks
that both modules behave alike.
"""

import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from reference_models.process.errors import naming


@contextmanager
def replace_file(path: Path) -> Iterator[BinaryIO]:
    """Yield a new file (a draft) to write to, which is renamed to `path` at the end.

    The draft replaces whatever is at `path`, even a link or a pipe. It is synced to disk before it is renamed. After
    an error it is removed. Drafts that killed processes left are removed, too, so only one process at a time may
    write `path`.
    """
    remove_drafts(path)
    draft = draft_of(path)
    try:
        with naming(path), create(draft) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
        sync_folder(path.parent)
    finally:
        draft.unlink(missing_ok=True)


def write_atomically(path: Path, text: str) -> None:
    """Write text to a file in UTF-8, whole or not at all, as `replace_file` does."""
    with replace_file(path) as file:
        file.write(text.encode())


def create(path: Path) -> BinaryIO:
    """Create a file for writing. Raises FileExistsError where anything, such as a link, has its name."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.fdopen(os.open(path, flags, 0o666), "wb")


def draft_of(path: Path) -> Path:
    """Return the path of a draft of the file `path`, in the same folder, under a name that nobody can have created
    before."""
    return path.with_name(f"{path.name}.{secrets.token_hex(8)}.partial")


def drafts_of(path: Path) -> list[Path]:
    """Return drafts of `path`, files or folders, that killed processes of this or earlier versions left in its
    folder."""
    draft = re.compile(re.escape(path.name) + r"(\.[0-9a-f]{16})?\.partial")
    with suppress(OSError):
        return [place for place in path.parent.iterdir() if draft.fullmatch(place.name)]
    return []


def remove_drafts(path: Path) -> None:
    """Remove the drafts of `path` that killed processes left; those that cannot be removed stay."""
    for draft in drafts_of(path):
        with suppress(OSError):
            remove(draft)


def remove(path: Path) -> None:
    """Remove a file, a folder with its contents, or a link without its target; do nothing if `path` is missing."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Make the renames inside `folder` durable, by syncing the folder to disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

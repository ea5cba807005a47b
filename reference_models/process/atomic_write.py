"""Write a file so that no reader meets half of it, in a folder that may be a stranger's.

Nothing is written through a link or into a pipe that lies there: a draft is new, of a name that nobody foresees.
The one writer of what trains, and of what `harness` writes under a lock of its own. What compares and shows has
reports/text/atomic_write.py; neither package imports the other. One test holds both to the same behaviour.
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
    """Give a new file, which then takes the place of `path`, also of a link or a pipe, by one rename, synced to disk.

    An error leaves nothing of it. One process at a time may write `path`: what earlier ones left as they were killed
    is removed.
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
    """Write UTF-8 text as `replace_file` does."""
    with replace_file(path) as file:
        file.write(text.encode())


def create(path: Path) -> BinaryIO:
    """Open a file that is new. Raises FileExistsError where anything, a link for one, has its name."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.fdopen(os.open(path, flags, 0o666), "wb")


def draft_of(path: Path) -> Path:
    """Return a place beside `path` for a draft of it, which nobody can have taken before."""
    return path.with_name(f"{path.name}.{secrets.token_hex(8)}.partial")


def drafts_of(path: Path) -> list[Path]:
    """Find what processes that were killed left beside `path`, files or folders; earlier versions gave one name."""
    draft = re.compile(re.escape(path.name) + r"(\.[0-9a-f]{16})?\.partial")
    with suppress(OSError):
        return [place for place in path.parent.iterdir() if draft.fullmatch(place.name)]
    return []


def remove_drafts(path: Path) -> None:
    """Remove what `drafts_of` finds, as far as it can be."""
    for draft in drafts_of(path):
        with suppress(OSError):
            remove(draft)


def remove(path: Path) -> None:
    """Remove a file, a folder and all in it, or a link and not what it leads to; nothing may be there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Make a rename inside `folder` durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

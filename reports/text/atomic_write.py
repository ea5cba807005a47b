"""Write a file so that no reader meets half of it: `draft_file` where a user named it, else `replace_file`.

The one writer of what compares and shows, and of what `harness` writes where a user named a file. What trains has
process/atomic_write.py and imports nothing of this package, nor does this one import it, which has torch beside it:
so there are two, held to the same behaviour by one test.
"""

import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rules.temporary_folder import temporary_folder


@contextmanager
def draft_file(path: Path, suffix: str = "") -> Iterator[Path]:
    """Give a place for a draft, whose name ends in `suffix`, that takes the place of `path` by one rename afterwards.

    Nobody foresees a draft's name, and who opens it shall make it new, as `write_new` does. Links are followed: what
    they lead to is written, and they stay. A device or a pipe is never replaced: it is written to, once the draft is
    whole. An error inside leaves no draft. Raises OSError, which names `path`, where it cannot be written.
    """
    target = _file_to_replace(path)
    if target is None:
        with temporary_folder("draft") as folder:
            draft = folder / f"draft{suffix}"
            with _naming(path, draft):
                yield draft
                with draft.open("rb") as source, path.open("wb") as sink:
                    shutil.copyfileobj(source, sink)
        return
    with replace_file(target, suffix) as draft:
        yield draft


@contextmanager
def replace_file(path: Path, suffix: str = "") -> Iterator[Path]:
    """Give a place for a draft as `draft_file` does, that takes the place of `path` itself, also of a link or a pipe.

    For folders that may be a stranger's: a link there may lead to what is the user's, and a pipe has no reader. The
    draft is on the disk before it is renamed. No lock is needed, so a draft that another process was killed over
    stays: it may be one that is being written.
    """
    draft = path.with_name(f".{secrets.token_hex(8)}.partial{suffix}")
    try:
        with _naming(path, draft):
            yield draft
            _sync(draft)
            draft.replace(path)
            _sync(path.parent)
    finally:
        draft.unlink(missing_ok=True)


def write_new(path: Path, text: str, *, errors: str = "strict") -> None:
    """Write UTF-8 text to a file that is new, such as a draft. Raises FileExistsError where anything has its name."""
    with path.open("x", encoding="utf-8", errors=errors, newline="") as file:
        file.write(text)


def _sync(path: Path) -> None:
    """Wait until a file, or what was renamed in a folder, is on the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _naming(path: Path, draft: Path) -> Iterator[None]:
    """Give errors of writing (disk full) the name of what was to be written, in place of none or the draft's."""
    try:
        yield
    except OSError as error:
        if error.errno is None or error.filename not in (None, str(draft), draft):
            raise
        raise OSError(error.errno, error.strerror, str(path)) from None


def _file_to_replace(path: Path) -> Path | None:
    """The regular file, there or not, that `path` leads to; None for what is no file."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:  # nothing, or a link to what is not there yet
        mode = stat.S_IFREG
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        return None
    return Path(os.path.realpath(path)) if path.is_symlink() else path

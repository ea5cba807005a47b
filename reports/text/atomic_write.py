"""Writes files atomically, so that no reader sees half a file: `draft_file` is for files that a user named,
`replace_file` for all others.

The package `reports` uses this module for all files, the package `harness` for files that a user named. Code that
trains uses reference_models/process/atomic_write.py, which does the same: `reference_models` needs torch, `reports`
does not, and neither package imports the other. A test checks that the two modules behave alike.
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
    """Yield the path of a draft file, whose name ends in `suffix`. On exit the draft is renamed to `path`, in one
    step.

    The draft's name is random; the caller has to create the file, as `write_new` does. If `path` is a link, the file
    that it leads to is replaced, and the link stays. If `path` is a device or a pipe, it is not replaced: the
    complete draft is copied into it. An error inside the context leaves no draft. Raises OSError, which names `path`,
    if it cannot be written.
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
    """Yield the path of a draft file. On exit the draft is renamed to `path`, in one step, even if `path` is a link
    or a pipe.

    Use it for files in folders that anyone may write to, where a link may lead to a user's file, and a pipe may have
    no reader. The draft is flushed to the disk before it is renamed. If the process is killed, its draft stays and is
    never removed: since no lock is used, an abandoned draft cannot be told from one that is being written.
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
    """Write UTF-8 text to a new file, such as a draft. Raises FileExistsError where `path` exists."""
    with path.open("x", encoding="utf-8", errors=errors, newline="") as file:
        file.write(text)


def _sync(path: Path) -> None:
    """Flush a file, or a folder after a rename in it, to the disk, and wait until that is done."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _naming(path: Path, draft: Path) -> Iterator[None]:
    """Run the code that writes a draft of the file `path`. If an error (such as disk full) names the draft or no
    file, raise it again with `path` in its message."""
    try:
        yield
    except OSError as error:
        if error.errno is None or error.filename not in (None, str(draft), draft):
            raise
        raise OSError(error.errno, error.strerror, str(path)) from None


def _file_to_replace(path: Path) -> Path | None:
    """Return the regular file, existing or not, that `path` leads to through links; None for a device or a pipe."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:  # no file, or a link to a file that does not exist yet
        mode = stat.S_IFREG
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        return None
    return Path(os.path.realpath(path)) if path.is_symlink() else path

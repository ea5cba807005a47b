"""Make temporary folders that are removed after use. If a process was killed, the next command removes its folder."""

import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_NAME, _LOCK, _FILES = "dlrmbench-", "lock", "files"


@contextmanager
def temporary_folder(what: str, parent: Path | None = None) -> Iterator[Path]:
    """Yield an empty temporary folder in TMPDIR, or a hidden one in the folder `parent` if this is given. Remove the
    folder afterwards, as far as possible.

    First remove the temporary folders that killed processes left. They are recognised by their lock files: a living
    process holds the lock file beside its temporary folder. Raises OSError if no folder can be made.
    """
    where = Path(tempfile.gettempdir()) if parent is None else parent
    prefix = _NAME if parent is None else f".{_NAME}"
    _remove_left(where, prefix)
    while True:
        outer = Path(tempfile.mkdtemp(prefix=f"{prefix}{what}-", dir=where))
        with suppress(FileNotFoundError):  # another process mistook it for an abandoned folder, and removed it
            held = _hold(outer / _LOCK)
            break
    try:
        (outer / _FILES).mkdir()
        yield outer / _FILES
    finally:
        shutil.rmtree(outer, ignore_errors=True)
        os.close(held)


def _hold(path: Path) -> int:
    """Make a lock file and lock it, to show that its temporary folder is in use; return its descriptor. Raises
    FileNotFoundError if another process removes the file before it is locked."""
    held = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        path.lstat()
    except BaseException:
        os.close(held)
        raise
    return held


def _remove_left(where: Path, prefix: str) -> None:
    """Remove this user's temporary folders whose lock no process holds, since killed processes left them; links
    inside are removed and never followed."""
    with suppress(OSError), os.scandir(where) as entries:
        left = [Path(entry.path) for entry in entries if entry.name.startswith(prefix)]
        for folder in left:
            with suppress(OSError):
                _remove_if_left(folder)


def _remove_if_left(folder: Path) -> None:
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        return
    held = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)  # BlockingIOError: somebody holds it
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(held)

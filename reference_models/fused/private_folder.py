"""What compiles kernels, and the folder that keeps them: what is in it is run, so that it is this user's alone.

Torch-free, as who keeps a choice of matrix products asks what it can be computed by.
"""

import os
import shlex
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def private_folder() -> Iterator[Path]:
    """Give this user's own folder in the temporary one; where that is anybody else's, a new one, removed afterwards.

    It is not beside the data, which may come from others, nor one that another user made or may write to. Raises
    OSError where no folder can be made.
    """
    folder = _usual_folder()
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    if folder_problem() is None:
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix="dlrmbench-kernels-") as made:
        yield Path(made)


def folder_problem() -> str | None:
    """Say why this user's own folder is not used; None where it is, or is not there yet."""
    folder = _usual_folder()
    try:
        found = folder.lstat()
    except FileNotFoundError:
        return None
    if not stat.S_ISDIR(found.st_mode):
        return f"{folder} is no folder"
    if found.st_uid != os.getuid() or found.st_mode & 0o022:
        return f"{folder} can be written to by other users"
    return None


def _usual_folder() -> Path:
    return Path(tempfile.gettempdir()) / f"dlrmbench-kernels-{os.getuid()}"


def find_compiler() -> list[str] | str:
    """Return the command of the C compiler: that of CC, by default cc, gcc or clang; in a line why there is none.

    Its words can be written to every file: bytes that are no text are spelled out, and so name no compiler.
    """
    given = _as_text(os.environ.get("CC", ""))
    try:
        command = shlex.split(given)
    except ValueError as error:
        return f"CC is {given!r}, which is no command: {error}"[:200]
    found = next(filter(None, map(shutil.which, command[:1] or ("cc", "gcc", "clang"))), None)
    if found is None:
        return f"no C compiler: {' '.join(command) or 'cc, gcc, clang'} not found"[:200]
    return [_as_text(found), *command[1:]]


def _as_text(text: str) -> str:
    return text.encode(errors="backslashreplace").decode()

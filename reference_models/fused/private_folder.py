"""Folder of compiled kernels, to which only this user may write, since its files are executed; and the C compiler
that makes them.

Torch-free, since storing a choice of kernels records the compiler and must not import torch.
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
    """Yield a folder for compiled code that only this user can write to, in the system's temporary folder.

    It is the user's usual folder, which is kept for later runs. If another user made that folder or can write to it,
    it is a new folder instead, which is removed afterwards. Compiled code is never stored next to the data, since
    that folder may come from others. Raises OSError if no folder can be made.
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
    """Return why this user's folder for compiled code cannot be used; None where it can, or does not exist yet."""
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
    """Return the C compiler's command as a list of words, from the environment variable CC or by default cc, gcc or
    clang; a line with the reason if there is none.

    Bytes of CC that are not valid text are escaped, so that the words can be written to text files. A compiler with
    invalid bytes in its name is therefore not found.
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

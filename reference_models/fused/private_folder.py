"""What compiles kernels, and the folder that keeps them: what is in it is run, so that it is this user's alone.

Torch-free, as who keeps a choice of matrix products asks what it can be computed by.
"""

import os
import shlex
import shutil
import stat
import tempfile
from contextlib import suppress
from pathlib import Path


def private_folder() -> Path:
    """Return this user's own folder in the temporary one; a new one where that is anybody else's.

    It is not beside the data, which may come from others, nor one that another user made or may write to. Raises
    OSError where no folder can be made.
    """
    folder = Path(tempfile.gettempdir()) / f"dlrmbench-kernels-{os.getuid()}"
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
        folder = Path(tempfile.mkdtemp(prefix="dlrmbench-kernels-"))
    return folder


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

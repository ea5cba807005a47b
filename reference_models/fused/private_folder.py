"""The folder of compiled kernels: what is in it is run, so that it is this user's alone."""

import os
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

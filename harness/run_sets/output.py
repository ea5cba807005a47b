"""Check that results can be written to a folder, and choose a free name in it."""

import errno
import os
import stat
from pathlib import Path


def refuse_output(output: Path) -> None:
    """Raise OSError, before data is made, where `output` cannot be created or written to."""
    for place in (output, *output.parents):
        try:
            place.lstat()
        except FileNotFoundError:
            continue
        if not stat.S_ISDIR(place.stat().st_mode):  # `stat` raises for a broken link, or a loop of links
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(place))
        if not os.access(place, os.W_OK | os.X_OK):
            number = errno.EROFS if os.statvfs(place).f_flag & os.ST_RDONLY else errno.EACCES
            raise OSError(number, os.strerror(number), str(place))
        return


def find_unique_folder(output: Path, name: str) -> Path:
    """Return a folder below `output` that does not exist yet; two run sets made in one second get a counter."""
    folder, number = output / name, 1
    while folder.exists():
        number += 1
        folder = output / f"{name}-{number}"
    return folder

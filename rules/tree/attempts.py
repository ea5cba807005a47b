"""The attempts at the runs of a run set of this harness: extra/run_<i>/attempt_<k>, listed once for all rules."""

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from rules.tree.result_set import leads_out

RECORD_FILE = "run.json"
_LOG_FILE = "log.txt"
_RUN = re.compile(r"run_(\d{1,6})\Z")
_ATTEMPT = re.compile(r"attempt_(\d{1,6})\Z")


class AttemptFolder(NamedTuple):
    """One attempt: where its record is, None where there is none in the tree, and whether it kept its own log, which
    becomes the run's result by a rename."""

    number: int
    record: Path | None
    has_log: bool


class RunFolder(NamedTuple):
    """The attempts at one run, by their numbers."""

    number: int
    name: str
    attempts: tuple[AttemptFolder, ...]

    @property
    def made_result(self) -> Path | None:
        """Return run.json of the attempt whose log became the result: the last one that has no log of its own."""
        places = (attempt.record for attempt in reversed(self.attempts) if not attempt.has_log)
        return next((place for place in places if place is not None), None)


def list_attempts(root: Path) -> tuple[RunFolder, ...]:
    """List all attempts below `root`; what cannot be read, or leads out of it, counts as not there."""
    extra = root / "extra"
    if leads_out(extra, root):
        return ()
    return tuple(
        RunFolder(number=number, name=folder.name, attempts=tuple(_attempts(folder, root)))
        for number, folder in _numbered(extra, _RUN, root)
    )


def _attempts(folder: Path, root: Path) -> Iterator[AttemptFolder]:
    for number, attempt in _numbered(folder, _ATTEMPT, root):
        place = attempt / RECORD_FILE
        has_log = os.path.exists(f"{attempt}/{_LOG_FILE}")  # noqa: PTH110  (a Path for each would take longer)
        yield AttemptFolder(number=number, record=place if _is_there(place, root) else None, has_log=has_log)


def _is_there(place: Path, root: Path) -> bool:
    try:
        mode = os.lstat(place).st_mode
    except (OSError, ValueError):
        return False
    return not stat.S_ISLNK(mode) or (place.exists() and not leads_out(place, root))


def _numbered(folder: Path, name: re.Pattern[str], root: Path) -> list[tuple[int, Path]]:
    """Folders of a name in `folder`, which is inside the tree, in the order of their numbers."""
    found = [(int(match[1]), entry) for entry in _list(folder) if (match := name.match(entry.name))]
    return sorted((number, folder / entry.name) for number, entry in found if _is_inside(entry, root))


def _is_inside(entry: os.DirEntry[str], root: Path) -> bool:
    if not entry.is_symlink():
        return entry.is_dir(follow_symlinks=False)
    path = Path(entry.path)
    return path.is_dir() and not leads_out(path, root)


def _list(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []

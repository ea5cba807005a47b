"""List the attempts at the runs of a run set of this harness, which are the folders extra/run_<i>/attempt_<k>; all
callers use this one list."""

import os
import re
import stat
from pathlib import Path
from typing import NamedTuple

from rules.tree.result_set import leads_out

RECORD_FILE = "run.json"
_LOG_FILE = "log.txt"
_RUN = re.compile(r"run_(\d{1,6})\Z")
_ATTEMPT = re.compile(r"attempt_(\d{1,6})\Z")


class AttemptFolder(NamedTuple):
    """Folder of one attempt at a run. `record` is the path of the attempt's run.json, None if there is none.
    `has_log` is True if the folder holds the attempt's log. The log of a finished run is moved out of the folder to
    become the run's result, so `has_log` is then False."""

    number: int
    path: str
    record: Path | None
    has_log: bool


class RunFolder(NamedTuple):
    """Folder of a run's attempts, with the attempts ordered by number."""

    number: int
    name: str
    attempts: tuple[AttemptFolder, ...]

    @property
    def made_result(self) -> Path | None:
        """Return the run.json of the attempt whose log became the run's result. This is the last attempt that has a
        run.json but no longer a log. None if there is none."""
        places = (attempt.record for attempt in reversed(self.attempts) if not attempt.has_log)
        return next((place for place in places if place is not None), None)


class RunFolders(NamedTuple):
    """All attempts at the runs of a run set: `by_name` has each run's folder by its name, ordered by the run's
    number.

    `is_all` is true if no folder with the name of a run or an attempt was left out.
    """

    by_name: dict[str, RunFolder]
    is_all: bool


def list_attempts(root: Path) -> RunFolders:
    """List all attempts at runs of the run set in the folder `root`; folders that cannot be read, or lead out of
    `root`, are left out."""
    extra = root / "extra"
    if leads_out(extra, root):
        return RunFolders(by_name={}, is_all=False)
    runs, is_all = _numbered(str(extra), _RUN, root)
    found: dict[str, RunFolder] = {}
    for run_number, run, name in runs:
        attempts, is_all_of_run = _numbered(run, _ATTEMPT, root)
        is_all = is_all and is_all_of_run
        found[name] = RunFolder(
            number=run_number,
            name=name,
            attempts=tuple(_attempt(number, attempt, root) for number, attempt, _ in attempts),
        )
    return RunFolders(by_name=found, is_all=is_all)


def _attempt(number: int, folder: str, root: Path) -> AttemptFolder:
    has_log = os.path.exists(f"{folder}/{_LOG_FILE}")  # noqa: PTH110  (a Path for each would take longer)
    return AttemptFolder(number=number, path=folder, record=_record(f"{folder}/{RECORD_FILE}", root), has_log=has_log)


def _record(place: str, root: Path) -> Path | None:
    try:
        mode = os.lstat(place).st_mode
    except (OSError, ValueError):
        return None
    path = Path(place)
    return path if not stat.S_ISLNK(mode) or (path.exists() and not leads_out(path, root)) else None


def _numbered(folder: str, name: re.Pattern[str], root: Path) -> tuple[list[tuple[int, str, str]], bool]:
    """Return number, path and name of the folders in `folder` whose names match `name` and that are inside of `root`;
    and whether these are all entries of `folder` with matching names."""
    try:
        with os.scandir(folder) as entries:
            found = [(int(match[1]), entry) for entry in entries if (match := name.match(entry.name))]
    except OSError:
        return [], False
    inside = sorted((number, entry.path, entry.name) for number, entry in found if _is_inside(entry, root))
    return inside, len(inside) == len(found)


def _is_inside(entry: os.DirEntry[str], root: Path) -> bool:
    if not entry.is_symlink():
        return entry.is_dir(follow_symlinks=False)
    path = Path(entry.path)
    return path.is_dir() and not leads_out(path, root)

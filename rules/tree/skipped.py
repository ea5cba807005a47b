"""What lies below a directory and looks like a result, and is not judged: mentioned, so that nobody thinks it was."""

import os
from dataclasses import dataclass
from pathlib import Path

from rules.tree.result_set import NOT_RESULTS, POWER_FOLDER, RESULT_FILE

MAX_MENTIONED = 20
_MAX_LOOKED_AT = 20_000
_HEAD_BYTES = 1 << 16
_MARK = b":::MLLOG"


@dataclass(frozen=True, kw_only=True, slots=True)
class Unjudged:
    """A file or a run set, why it was passed over, and what to do to have it judged."""

    path: Path
    reason: str
    remedy: str


def find_unjudged(path: Path) -> tuple[Unjudged, ...]:
    """Logs of other names and run sets without a finished run at or below a directory, at most MAX_MENTIONED.

    A log is told by a record in its first 64 KiB. What lies beside result_*.txt is rule RS109's concern. Links are
    not followed; what cannot be read is passed over. Of a file given as such nothing is said.
    """
    found: list[Unjudged] = []
    num_looked_at = 0
    for folder, subfolders, files in os.walk(path) if path.is_dir() else ():
        here = Path(folder)
        if _is_unfinished_set(here):
            found.append(
                Unjudged(
                    path=here, reason="a run set without a finished run", remedy="'dlrmbench resume' completes it"
                )
            )
        subfolders[:] = sorted(name for name in subfolders if name not in NOT_RESULTS and not name.startswith("."))
        if any(map(RESULT_FILE.match, files)):
            subfolders[:] = [name for name in subfolders if name != POWER_FOLDER]
            continue
        for name in sorted(files):
            num_looked_at += 1
            if num_looked_at > _MAX_LOOKED_AT or len(found) >= MAX_MENTIONED:
                return tuple(found)
            if _holds_record(here / name):
                reason = "holds records of a log and is not named result_*.txt"
                found.append(Unjudged(path=here / name, reason=reason, remedy="give it as a file to judge it"))
    return tuple(found)


def _is_unfinished_set(folder: Path) -> bool:
    try:
        if not (folder / "extra" / "run_set.json").is_file():
            return False
        return not any(RESULT_FILE.match(one.name) for one in (folder / "results").glob("*/*/*"))
    except OSError:
        return False


def _holds_record(path: Path) -> bool:
    try:
        if path.is_symlink() or not path.is_file():
            return False
        with path.open("rb") as file:
            return _MARK in file.read(_HEAD_BYTES)
    except OSError:
        return False

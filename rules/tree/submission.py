"""What a path to judge is: a log, a result set, an organisation's submission, or a round of submissions.

The layout is that of submission_rules.adoc, "Directory structure, Training". Nothing here opens a file; links to
directories are never followed, and what leads out of a submission is listed and not read.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rules.errors import InputError
from rules.tree.result_set import (
    NOT_RESULTS,
    POWER_FOLDER,
    ResultSet,
    find_result_sets,
    holds_results,
    leads_out,
    read_result_folder,
    require_directory,
    round_of,
    scan_result_sets,
)

SYSTEMS, RESULTS, BENCHMARKS = "systems", "results", "benchmarks"
MAX_ENTRIES = 200_000
OTHER_BENCHMARKS = frozenset(
    {
        "bert", "gnmt", "gpt3", "maskrcnn", "minigo", "resnet", "ssd", "retinanet", "stable_diffusion", "transformer",
        "ncf", "rnnt", "unet3d", "gnn", "rgat", "llama2_70b_lora", "llama31_405b", "llama31_8b", "flux1",
        "gpt_oss_20b", "deepseekv3_671b", "qwen35_397b_grpo",
    }
)  # fmt: skip
"""MLPerf Training's benchmarks that recommend nothing (mlperf_logging.benchmark_meta); their logs are not judged."""

EntryKind = Literal["file", "folder", "broken link", "link out", "link", "other"]


@dataclass(frozen=True, slots=True)
class Entry:
    """One name below a submission, as a path relative to it; `size_bytes` of files only."""

    path: str
    kind: EntryKind
    size_bytes: int | None = None

    @property
    def parts(self) -> tuple[str, ...]:
        return tuple(self.path.split("/"))


@dataclass(frozen=True, kw_only=True, slots=True)
class Submission:
    """One organisation's tree. `sets` are the directories results/<system>/<benchmark> that are judged here;
    `not_judged` those of MLPerf's other benchmarks. `entries` is every name below `folder`, sorted;
    `is_cut` tells that there were more than MAX_ENTRIES."""

    folder: Path
    organization: str
    round: str | None
    sets: tuple[ResultSet, ...]
    not_judged: tuple[Path, ...]
    entries: tuple[Entry, ...]
    is_cut: bool = False

    def below(self, *folder: str) -> tuple[Entry, ...]:
        """Entries directly in a folder."""
        return tuple(one for one in self.entries if one.parts[:-1] == folder)

    def has(self, path: str) -> bool:
        return any(one.path == path for one in self.entries)


@dataclass(frozen=True, kw_only=True, slots=True)
class Round:
    """Several organisations' submissions in one directory. `others` are names in it that are none."""

    folder: Path
    round: str | None
    submissions: tuple[Submission, ...]
    others: tuple[str, ...]


Target = Path | ResultSet | Submission | Round
"""What is judged as a whole; a path is one log."""


def find_targets(path: str | Path) -> tuple[Target, ...]:
    """What lies at or below `path`, outermost first recognised. Raises InputError where there is nothing."""
    path = Path(path)
    if path.is_file():
        return (path,)
    require_directory(path)
    found: list[Target] = []
    waiting = [path]
    while waiting:
        folder = waiting.pop()
        if is_submission(folder):
            found.append(read_submission(folder))
        elif is_round(folder):
            found.append(_read_round(folder))
        elif _holds_run_set(folder):
            found += scan_result_sets(folder)[0]
        else:
            names = _folders(folder)
            if holds_results(folder):
                found.append(read_result_folder(folder, path))
                names = [name for name in names if name != POWER_FOLDER]
            waiting += [folder / name for name in reversed(names) if name not in NOT_RESULTS]
    return tuple(found) if found else find_result_sets(path)


def is_round(folder: Path) -> bool:
    """Whether a directory holds several submissions, or one and is named as a round."""
    inner = sum(is_submission(folder / name) for name in _folders(folder))
    return inner > 1 or (inner == 1 and round_of((Path(os.path.abspath(folder)).name,)) is not None)  # noqa: PTH100


def is_submission(folder: Path) -> bool:
    """Whether a directory holds results/ beside systems/ or benchmarks/, and is no run set of this harness."""
    has_results = _is_folder(folder / RESULTS) and not _holds_run_set(folder)
    return has_results and (_is_folder(folder / SYSTEMS) or _is_folder(folder / BENCHMARKS))


def read_submission(folder: Path) -> Submission:
    """List one organisation's tree. Raises InputError where a directory cannot be read."""
    name = Path(os.path.abspath(folder))  # noqa: PTH100  (resolve() would follow links)
    entries, is_cut = _list(folder)
    sets, not_judged = [], []
    for one in entries:
        if one.kind == "folder" and len(one.parts) == 3 and one.parts[0] == RESULTS:
            place = folder.joinpath(*one.parts)
            if one.parts[2] in OTHER_BENCHMARKS:
                not_judged.append(place)
            else:
                sets.append(read_result_folder(place, folder))
    return Submission(
        folder=folder,
        organization=name.name,
        round=round_of(name.parts),
        sets=tuple(sets),
        not_judged=tuple(not_judged),
        entries=entries,
        is_cut=is_cut,
    )


def _read_round(folder: Path) -> Round:
    submissions, others = [], []
    for place in sorted(folder.iterdir()):
        name = place.name
        if _is_folder(place) and not name.startswith(".") and (is_submission(place) or _is_folder(place / RESULTS)):
            submissions.append(read_submission(place))
        else:
            others.append(name)
    return Round(
        folder=folder,
        round=round_of(Path(os.path.abspath(folder)).parts),  # noqa: PTH100
        submissions=tuple(submissions),
        others=tuple(others),
    )


def _list(top: Path) -> tuple[tuple[Entry, ...], bool]:
    """Every name below `top`, folders before what is in them; and whether there were too many."""
    found: list[Entry] = []
    waiting = [""]
    while waiting:
        relative = waiting.pop()
        try:
            with os.scandir(top / relative) as entries:
                here = sorted(entries, key=lambda one: one.name)
        except OSError as error:
            raise InputError(f"{top / relative}: cannot be read: {error.strerror}.") from None
        folders = []
        for one in here:
            if len(found) >= MAX_ENTRIES:
                return tuple(found), True
            entry = _entry(one, f"{relative}/{one.name}".lstrip("/"), top)
            found.append(entry)
            if entry.kind == "folder":
                folders.append(entry.path)
        waiting += reversed(folders)
    return tuple(found), False


def _entry(one: os.DirEntry[str], path: str, top: Path) -> Entry:
    if one.is_symlink():
        if not Path(one.path).exists():
            return Entry(path, "broken link")
        return Entry(path, "link out" if leads_out(Path(one.path), top) else "link")
    if one.is_dir(follow_symlinks=False):
        return Entry(path, "folder")
    if one.is_file(follow_symlinks=False):
        return Entry(path, "file", one.stat(follow_symlinks=False).st_size)
    return Entry(path, "other")


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _holds_run_set(folder: Path) -> bool:
    """Whether this is a run-set directory of this harness."""
    return _is_folder(folder / "extra") and _is_folder(folder / RESULTS)


def _folders(folder: Path) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            names = [one.name for one in entries if one.is_dir(follow_symlinks=False)]
    except OSError as error:
        raise InputError(f"{folder}: cannot be read: {error.strerror}.") from None
    return sorted(name for name in names if not name.startswith("."))

"""Recognise the kind of a path to judge: a log, a result set, an organisation's submission, or a round of
submissions.

The layout is that of submission_rules.adoc, "Directory structure, Training". This module opens no file. Links to
directories are never followed; links that lead out of a submission are listed and not read.
"""

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rules.errors import InputError
from rules.tree.inventory import EXTRA, Inventory
from rules.tree.others import OTHER_BENCHMARKS, OtherSet
from rules.tree.result_set import ResultSet, leads_out, read_result_folder, round_of

SYSTEMS, RESULTS, BENCHMARKS = "systems", "results", "benchmarks"
MAX_ENTRIES = 200_000
EntryKind = Literal["file", "folder", "broken link", "link out", "link", "other"]


@dataclass(frozen=True, slots=True)
class SubmissionEntry:
    """File, folder, link or other entry below a submission, as a path relative to it; `size_bytes` is set for files
    only."""

    path: str
    kind: EntryKind
    size_bytes: int | None = None

    @property
    def parts(self) -> tuple[str, ...]:
        return tuple(self.path.split("/"))


@dataclass(frozen=True, kw_only=True, slots=True)
class Submission:
    """Tree of one organisation's submission. `sets` are the result directories results/<system>/<benchmark> to judge;
    `others` are result directories of MLPerf's other benchmarks, which are not judged. `entries` has every name below
    `folder`, sorted; `is_cut` states that there were more names than MAX_ENTRIES."""

    folder: Path
    organization: str
    round: str | None
    sets: tuple[ResultSet, ...]
    others: tuple[OtherSet, ...]
    entries: tuple[SubmissionEntry, ...]
    is_cut: bool = False

    def below(self, *folder: str) -> tuple[SubmissionEntry, ...]:
        """Return the submission's entries that lie directly in one folder, given by the parts of its path."""
        return tuple(entry for entry in self.entries if entry.parts[:-1] == folder)

    def has(self, path: str) -> bool:
        return any(entry.path == path for entry in self.entries)


@dataclass(frozen=True, kw_only=True, slots=True)
class Round:
    """MLPerf round: organisations' submissions in one directory. `others` are names in it that are not
    submissions."""

    folder: Path
    round: str | None
    submissions: tuple[Submission, ...]
    others: tuple[str, ...]


Target = Path | ResultSet | OtherSet | Submission | Round
"""Unit that is judged as a whole, or left out as a whole: a log (given by its path), a result set, a submission or a
round."""


def find_targets(inventory: Inventory) -> tuple[Target, ...]:
    """Return the targets in an inventory (list of a path's contents): logs, sets, submissions and rounds, each to be
    judged or left out as a whole. What lies in a submission or round is part of it and not a target by itself. Raises
    InputError if nothing is found, or if a directory could not be read."""
    if not inventory.subfolders and inventory.unreadable is None:
        return inventory.others or (inventory.path,)
    inventory.require_readable()
    sets: dict[Path, ResultSet | OtherSet] = {found.folder: found for found in inventory.result_sets}
    sets |= {other.path: other for other in inventory.others}
    found: list[Target] = []
    waiting = [(inventory.path, False)]
    while waiting:
        folder, is_in_run_set = waiting.pop()
        names = inventory.subfolders[folder]
        if not is_in_run_set and _is_submission(names):
            found.append(_read_submission(folder, sets))
            continue
        if not is_in_run_set and _is_round(inventory, folder):
            found.append(_read_round(inventory, folder, sets))
            continue
        if folder in sets:
            found.append(sets[folder])
        inner = [folder / name for name in reversed(names)]
        is_in_run_set = is_in_run_set or (RESULTS in names and EXTRA in names)
        waiting += [(place, is_in_run_set) for place in inner if place in inventory.subfolders]
    return tuple(found) or inventory.require_result_sets()


def _is_round(inventory: Inventory, folder: Path) -> bool:
    """Return whether a directory is an MLPerf round. It is one if it holds several submissions, or if it holds one
    and its own name states a round."""
    inner = sum(_is_submission(inventory.subfolders.get(folder / name, ())) for name in inventory.subfolders[folder])
    return inner > 1 or (inner == 1 and round_of((Path(os.path.abspath(folder)).name,)) is not None)  # noqa: PTH100


def _is_submission(names: Collection[str]) -> bool:
    """Return whether a directory is a submission, given the names of its subdirectories: results/ is beside systems/
    or benchmarks/, and the directory is not a run set of this harness."""
    return RESULTS in names and EXTRA not in names and (SYSTEMS in names or BENCHMARKS in names)


def _read_submission(folder: Path, sets: Mapping[Path, ResultSet | OtherSet]) -> Submission:
    """List the entries and result sets of one organisation's submission. `sets` maps folders to result sets that have
    been read already. Raises InputError if a directory cannot be read."""
    name = Path(os.path.abspath(folder))  # noqa: PTH100  (resolve() would follow links)
    entries, is_cut = _list(folder)
    judged: list[ResultSet] = []
    others: list[OtherSet] = []
    for entry in entries:
        if entry.kind == "folder" and len(entry.parts) == 3 and entry.parts[0] == RESULTS:
            place, name_of_place = folder.joinpath(*entry.parts), entry.parts[2]
            if place not in sets and name_of_place.lower() in OTHER_BENCHMARKS:
                found: ResultSet | OtherSet = OtherSet(path=place, benchmark=name_of_place.lower())
            else:
                found = sets[place] if place in sets else read_result_folder(place, folder)
            if isinstance(found, OtherSet):
                others.append(found)
            else:
                judged.append(found)
    return Submission(
        folder=folder,
        organization=name.name,
        round=round_of(name.parts),
        sets=tuple(judged),
        others=tuple(others),
        entries=entries,
        is_cut=is_cut,
    )


def _read_round(inventory: Inventory, folder: Path, sets: Mapping[Path, ResultSet | OtherSet]) -> Round:
    submissions, others = [], []
    for place in sorted(folder.iterdir()):
        if RESULTS in inventory.subfolders.get(place, ()):
            submissions.append(_read_submission(place, sets))
        else:
            others.append(place.name)
    return Round(
        folder=folder,
        round=round_of(Path(os.path.abspath(folder)).parts),  # noqa: PTH100
        submissions=tuple(submissions),
        others=tuple(others),
    )


def _list(top: Path) -> tuple[tuple[SubmissionEntry, ...], bool]:
    """Return every file, folder, link and other entry below `top`, folders before their contents, at most
    MAX_ENTRIES; and whether there were more than these."""
    found: list[SubmissionEntry] = []
    waiting = [""]
    while waiting:
        relative = waiting.pop()
        try:
            with os.scandir(top / relative) as entries:
                here = sorted(entries, key=lambda item: item.name)
        except OSError as error:
            raise InputError(f"{top / relative}: cannot be read: {error.strerror}.") from None
        folders = []
        for item in here:
            if len(found) >= MAX_ENTRIES:
                return tuple(found), True
            entry = _entry(item, f"{relative}/{item.name}".lstrip("/"), top)
            found.append(entry)
            if entry.kind == "folder":
                folders.append(entry.path)
        waiting += reversed(folders)
    return tuple(found), False


def _entry(item: os.DirEntry[str], path: str, top: Path) -> SubmissionEntry:
    if item.is_symlink():
        if not Path(item.path).exists():
            return SubmissionEntry(path, "broken link")
        return SubmissionEntry(path, "link out" if leads_out(Path(item.path), top) else "link")
    if item.is_dir(follow_symlinks=False):
        return SubmissionEntry(path, "folder")
    if item.is_file(follow_symlinks=False):
        return SubmissionEntry(path, "file", item.stat(follow_symlinks=False).st_size)
    return SubmissionEntry(path, "other")

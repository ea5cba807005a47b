"""List everything at a path in one walk: result sets, run sets, sweeps, measurements, and files that look like
results and are skipped.

Every command that reads results begins with an inventory. Links to directories are never followed. Three kinds of
directory are not entered: those that hold neither results nor measurements (NOT_RESULTS), hidden ones, and the trials
of a search. The trials' measurements are in the search's study.json.

Few files are opened. `find_skipped` reads the first bytes of files that may be logs. A log is read up to the record
that names its benchmark, but only if its directory is not named after one of this harness's benchmarks.
experiment.json is read to tell a sweep from a pair or a search.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from rules.benchmarks.loader import load_benchmark
from rules.errors import InputError, NothingToJudgeError
from rules.logs.text import printable
from rules.records.codec import Damage, decode
from rules.records.experiment import EXPERIMENT_FILE, is_table, read_experiment, trials_of
from rules.records.kinds import ABSENT, EXTRA_KINDS, PLACES, is_in_processes, is_logged, why_absent
from rules.records.run_set import RunSetRecord
from rules.records.study import STUDY_FILE
from rules.tree.others import LOADGEN, OtherSet, logged_benchmark, other_benchmark, summarise
from rules.tree.result_set import (
    NOT_RESULTS,
    POWER_FOLDER,
    RESULT_FILE,
    ResultSet,
    natural_order,
    read_result_folder,
    set_of_one,
)

EXTRA = "extra"
RUN_SET = "run_set.json"
MAX_MENTIONED = 20
MAX_SKIPPED = 1000
_MAX_CANDIDATES = 20_000
_MAX_NAMES_SHOWN = 3
_HEAD_BYTES = 1 << 16
_MARK = b":::MLLOG"
_TEXTS = (".txt", ".log", ".out")
"""File name extensions of files that may be logs."""
_LOADGEN_FILES = ("mlperf_log_detail.txt", "mlperf_log_summary.txt", "mlperf_log_accuracy.json")
"""Names of files that LoadGen, MLPerf Inference's load generator, writes beside results."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Inventory:
    """Inventory of a path: the results, measurements and studies (searches and simulations with a study.json) at or
    below `path`. Folders are in the order of the walk, which is sorted by name.

    - `result_sets`: directories with result_*.txt. If `path` is a file, one set with that single log.
    - `others`: result directories of MLPerf's other benchmarks.
    - `run_sets`: directories that this harness made, with extra/ beside results/, or with extra/run_set.json.
    - `sweeps`: directories whose experiment.json is of a sweep, or cannot be read.
    - `measurements`: dict from kinds of measurement to the directories with an extra/<kind>.json.
    - `studies`: paths of files study.json.
    - `subfolders`: dict from every directory that was entered to the names of its subdirectories.
    - `candidates`: run sets, and files outside of result sets, at most 20,000. Reports name them as skipped if
      nothing else does.
    - `unreadable`: message about the first directory that could not be read.
    """

    path: Path
    result_sets: tuple[ResultSet, ...] = ()
    others: tuple[OtherSet, ...] = ()
    run_sets: tuple[Path, ...] = ()
    sweeps: tuple[Path, ...] = ()
    measurements: Mapping[str, tuple[Path, ...]] = field(default_factory=lambda: MappingProxyType({}))
    studies: tuple[Path, ...] = ()
    subfolders: Mapping[Path, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))
    candidates: tuple[Path, ...] = ()
    unreadable: str | None = None

    @property
    def holds_measurements(self) -> bool:
        """Return whether there are results to show that are in no MLPerf log: measurements, sweeps, or studies (files
        study.json)."""
        return bool(self.sweeps or self.studies or any(self.measurements.values()))

    def require_result_sets(self) -> tuple[ResultSet, ...]:
        """Return the result sets of this inventory. Raises InputError where there are none, or where a directory
        could not be read."""
        self.require_readable()
        if self.result_sets:
            return self.result_sets
        if (why := self.why_absent()) is not None:
            raise NothingToJudgeError(why)
        if _is_file(self.path / EXTRA / RUN_SET):
            kind = _measured_kind(self.path)
            raise NothingToJudgeError(
                f"{self.path}: a run set without a finished run. Complete it with 'dlrmbench resume {self.path}'."
                if kind is None
                else f"{self.path}: a {kind} measurement, which has no logs to judge. Show it with 'dlrmbench report "
                f"{self.path}'."
            )
        if self.others:
            raise NothingToJudgeError(f"{printable(str(self.path))}: NOT JUDGED: {summarise(self.others)}.")
        if kinds := [kind for kind, folders in self.measurements.items() if folders]:
            name = printable(str(self.path))
            raise NothingToJudgeError(
                f"{name}: holds measurements ({', '.join(kinds)}), which have no logs to judge. "
                f"'dlrmbench report {name}' shows them; 'dlrmbench compare' compares two of throughput or quality."
            )
        if self.studies:
            name = printable(str(self.path))
            raise NothingToJudgeError(
                f"{name}: a study, which has no logs to judge. 'dlrmbench report {name}' shows it."
            )
        if _is_file(self.path / EXPERIMENT_FILE):
            raise NothingToJudgeError(
                f"{self.path}: was begun and is not complete, with nothing yet to judge or show. Complete it: "
                f"'dlrmbench resume {self.path}'."
            )
        if of_inference := [path for path in self.candidates if _is_of_loadgen(path)]:
            raise NothingToJudgeError(
                f"{printable(str(self.path))}: NOT JUDGED: holds results of MLPerf Inference, such as "
                f"{printable(str(of_inference[0]))}, which dlrmbench does not judge."
            )
        self._refuse_unfinished()
        texts = [str(path) for path in self.candidates if path.suffix in _TEXTS]
        raise NothingToJudgeError(
            f"{self.path}: no result_*.txt here or below. Expected <org>/results/<system>/<benchmark>/result_<i>.txt"
            ", or a directory of result_*.txt; a single log of another name can be given as a file"
            + (f", here {', '.join(map(printable, texts[:_MAX_NAMES_SHOWN]))}." if texts else ".")
        )

    def _refuse_unfinished(self) -> None:
        """Raise InputError if this inventory has run sets without a measurement: none of their runs has ended. It is
        called only if the inventory has no result sets."""
        if unfinished := [folder for folder in self.run_sets if _measured_kind(folder) is None]:
            first = unfinished[0]
            whole = first.parent if _is_file(first.parent / EXPERIMENT_FILE) else first
            raise NothingToJudgeError(
                f"{printable(str(self.path))}: holds run sets without a finished run ({len(unfinished)}). Complete "
                f"one with 'dlrmbench resume {printable(str(whole))}'."
            )

    def why_absent(self) -> str | None:
        """Return a message that a run set in this inventory is of a kind of measurement that this installation lacks.
        Only the first run sets are read; None if they are of known kinds."""
        for folder in self.run_sets[:MAX_MENTIONED]:
            record = decode(folder / EXTRA / RUN_SET, RunSetRecord)
            if not isinstance(record, Damage) and (why := why_absent(record.kind)) is not None:
                return f"{printable(str(folder))}: {why} dlrmbench {printable(record.harness_version)} made it."
        return None

    def require_readable(self) -> None:
        if self.unreadable is not None:
            raise InputError(self.unreadable)


@dataclass(frozen=True, kw_only=True, slots=True)
class SkippedFile:
    """File or run set that looks like a result and is not judged, with the reason and what the user can do to have it
    judged."""

    path: Path
    reason: str
    remedy: str


def take_inventory(path: str | Path, benchmark_file: str | Path | None = None) -> Inventory:
    """Return the inventory of `path`: the results at or below it. A file is taken as a log. If `benchmark_file`
    defines a benchmark, its logs are judged even if MLPerf has another benchmark of the same name.

    Raises InputError if nothing is there, and DefinitionError if `benchmark_file` cannot be loaded.
    """
    path = Path(path)
    try:
        path.stat()
    except PermissionError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}.") from None
    except OSError:
        pass  # the error below names it
    own = load_benchmark(benchmark_file).name if benchmark_file is not None else None
    if path.is_file() and path.name == STUDY_FILE:
        return Inventory(path=path, studies=(path,))
    if path.is_file():
        single = set_of_one(path)
        if (name := other_benchmark(single, own)) is not None:
            return Inventory(path=path, others=(OtherSet(path=path, benchmark=name, is_log=True),))
        return Inventory(path=path, result_sets=(single,))
    if not path.is_dir():
        what = "is a broken link" if path.is_symlink() else "no such file or directory"
        what = "is neither a file nor a directory" if path.exists() else what
        raise InputError(f"{path}: {what}. Give a log or a directory that holds result_*.txt.")
    subfolders: dict[Path, tuple[str, ...]] = {}
    result_sets: list[ResultSet] = []
    sweeps: list[Path] = []
    found: dict[str, list[Path]] = {name: [] for name in (RUN_SET, STUDY_FILE, *EXTRA_KINDS)}
    candidates: list[Path] = []
    unreadable = None
    waiting = [path]
    while waiting:
        folder = waiting.pop()
        try:
            with os.scandir(folder) as entries:
                here = sorted(entries, key=lambda entry: entry.name)
            names = [entry.name for entry in here if entry.is_dir(follow_symlinks=False)]
            holds_results = any(RESULT_FILE.match(entry.name) for entry in here)
            if holds_results:
                result_sets.append(read_result_folder(folder, path, here))
        except OSError as error:
            unreadable = unreadable or f"{folder}: cannot be read: {error.strerror}."
            continue
        subfolders[folder] = tuple(name for name in names if not name.startswith("."))
        files = [entry.name for entry in here if not entry.is_dir(follow_symlinks=False)]
        if EXTRA in names:
            is_recorded = _is_file(folder / EXTRA / RUN_SET)
            if is_recorded or "results" in names:
                found[RUN_SET].append(folder)
            if is_recorded and len(candidates) < _MAX_CANDIDATES:
                candidates.append(folder)
            for kind in EXTRA_KINDS:
                if _is_file(folder / EXTRA / f"{kind}.json"):
                    found[kind].append(folder)
        if EXPERIMENT_FILE in files and is_table(read_experiment(folder)):
            sweeps.append(folder)
        if STUDY_FILE in files and _is_file(folder / STUDY_FILE):
            found[STUDY_FILE].append(folder / STUDY_FILE)
        trials = trials_of(folder) if EXPERIMENT_FILE in files else frozenset[str]()
        below = [name for name in subfolders[folder] if name not in NOT_RESULTS and name not in trials]
        if holds_results:
            below = [name for name in below if name != POWER_FOLDER and not RESULT_FILE.match(name)]
        else:
            candidates += [folder / name for name in files[: _MAX_CANDIDATES - len(candidates)]]
        waiting += [folder / name for name in reversed(below)]
    result_sets.sort(key=lambda result_set: natural_order(str(result_set.folder)))
    named = [(result_set, other_benchmark(result_set, own)) for result_set in result_sets]
    return Inventory(
        path=path,
        result_sets=tuple(result_set for result_set, name in named if name is None),
        others=tuple(OtherSet(path=found.folder, benchmark=name) for found, name in named if name is not None),
        run_sets=tuple(found[RUN_SET]),
        sweeps=tuple(sweeps),
        measurements=MappingProxyType({kind: tuple(found[kind]) for kind in EXTRA_KINDS}),
        studies=tuple(found[STUDY_FILE]),
        subfolders=MappingProxyType(subfolders),
        candidates=tuple(candidates),
        unreadable=unreadable,
    )


def find_result_sets(path: str | Path) -> tuple[ResultSet, ...]:
    """Return all result sets (directories with result_*.txt) at or below `path`, sorted by folder. If `path` is a log
    file, return one set with that log.

    Raises InputError if there is nothing to judge, or if a directory cannot be read.
    """
    return take_inventory(path).require_result_sets()


def list_result_sets(inventories: Sequence[Inventory]) -> tuple[ResultSet, ...]:
    """Return the result sets of all inventories (lists of a path's contents). Raises InputError if an inventory holds
    no result sets. No error is raised for an inventory that holds only MLPerf's other benchmarks, if another
    inventory holds result sets."""
    is_any_judged = any(inventory.result_sets for inventory in inventories)
    return tuple(
        result_set
        for inventory in inventories
        if inventory.result_sets or not (is_any_judged and inventory.others)
        for result_set in inventory.require_result_sets()
    )


def find_in_processes(*inventories: Inventory) -> tuple[tuple[Path, str], ...]:
    """Return each folder that holds a measurement made in several fresh processes, with the kind of measurement;
    folders of one kind follow one another."""
    found = (kind for kind in EXTRA_KINDS if any(each.measurements.get(kind) for each in inventories))
    kinds = (kind for kind in found if is_in_processes(kind))
    return tuple((place, kind) for kind in kinds for each in inventories for place in each.measurements.get(kind, ()))


def find_skipped(inventory: Inventory) -> tuple[SkippedFile, ...]:
    """Return files and folders that look like results but are not judged, to tell the user: logs with other names
    than result_*.txt, logs of MLPerf Inference, and run sets without a log of a finished run. At most MAX_SKIPPED are
    returned.

    A log is recognised by a record in its first 64 KiB. Files beside result_*.txt are not returned, since rule RS109
    reports them. Unreadable files are not returned either, nor is the path that the user gave, if this path is a
    file.
    """
    folders = [found.folder for found in inventory.result_sets if found.system is not None]
    finished = {folder.parents[2] for folder in folders if len(folder.parents) > 2}
    run_sets = set(inventory.run_sets)
    skipped: list[SkippedFile] = []
    for path in inventory.candidates:
        if path in run_sets:
            if path not in finished:
                reason, remedy = _why_unfinished(path)
                skipped.append(SkippedFile(path=path, reason=reason, remedy=remedy))
        elif _is_of_loadgen(path):
            reason = "is a log of MLPerf Inference, which dlrmbench does not judge"
            skipped.append(SkippedFile(path=path, reason=reason, remedy="its submission checker does"))
        elif _holds_record(path):
            reason = "holds records of a log and is not named result_*.txt"
            skipped.append(SkippedFile(path=path, reason=reason, remedy="give it as a file to judge it"))
        if len(skipped) >= MAX_SKIPPED:
            break
    return tuple(skipped)


def _is_of_loadgen(path: Path) -> bool:
    """Return whether a file is an output of LoadGen (MLPerf Inference's load generator), by its name or its
    content."""
    return path.name in _LOADGEN_FILES or (path.suffix in _TEXTS and logged_benchmark(path) == LOADGEN)


def _why_unfinished(folder: Path) -> tuple[str, str]:
    """Return the reason why a run set has no log of a finished run, and what the user can do: run a command that
    shows or completes the run set, or use another version of dlrmbench."""
    record = decode(folder / EXTRA / RUN_SET, RunSetRecord)
    if not isinstance(record, Damage) and record.kind not in PLACES:
        made_by = f"dlrmbench {printable(record.harness_version)}, which made it"
        return f"{record.kind}: {ABSENT}", f"use {made_by}"
    if kind := _measured_kind(folder):
        return f"a {kind} measurement, without logs", "'dlrmbench report' shows it"
    return "a run set without a finished run", "'dlrmbench resume' completes it"


def _measured_kind(folder: Path) -> str | None:
    """Return the kind of measurement in a run set. None if the file with the measurement does not exist, or if the
    run set's runs train to a quality target."""
    record = decode(folder / EXTRA / RUN_SET, RunSetRecord)
    if isinstance(record, Damage) or is_logged(record.kind):
        return None
    return record.kind if _is_file(folder / EXTRA / f"{record.kind}.json") else None


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
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

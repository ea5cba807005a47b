"""Finds result sets that repeat the configuration of a compared result, in the same folders or among those that the
user gives. Their differences show the drift of the system."""

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from reports.comparison.drift_tolerance import MIN_SETS, Repeats, spans_ms
from reports.results.measured import find_measured
from reports.results.provenance import interleaving_of, repetition_key
from reports.results.records import read_run_set
from reports.results.reference_systems import system_of
from reports.results.result import Result, System, make_runs
from reports.text.formatting import epoch_ms, printable
from rules.benchmarks.loader import shipped_names
from rules.errors import InputError
from rules.logs.log import read_log
from rules.records.kinds import is_in_processes
from rules.records.run_set import RunSetRecord
from rules.scoring.results import read_run_result
from rules.tree.inventory import take_inventory
from rules.tree.result_set import real_path

_MAX_FOLDERS = 1_000
_MAX_REPEATS = 30
"""Maximum number of repeated sets that are read per configuration, newest first; further sets would add little to the
measured drift."""


def find_repeats(results: Sequence[Result]) -> Repeats:
    """Find repeated result sets: those with the same configuration as one of `results`, in the folders where
    `results` lie. `results` themselves are included.

    Sets of reference systems are left out. So are sets that were measured alternately with others, since they show no
    drift.
    """
    results = [result for result in results if not system_of(result)]
    known = {real_path(result.place): result for result in results if result.place is not None}
    wanted = {result.repetition for result in results if result.repetition is not None}
    folders = {place.parent for place, result in known.items() if result.repetition}
    found: dict[str, list[tuple[float, Path, RunSetRecord]]] = {}
    for folder in _subfolders(folders):
        result = known.get(folder)
        record = result.asked if result is not None else read_run_set(folder, [])
        key = result.repetition if result is not None else repetition_key(record)
        if record is not None and key in wanted:
            found.setdefault(str(key), []).append((epoch_ms(record.created_utc) or 0.0, folder, record))
    groups = []
    for entries in found.values():
        if len(entries) >= MIN_SETS:
            newest = sorted(entries, key=lambda entry: entry[:2])[-_MAX_REPEATS:]
            read = (_read(path, record, known.get(path)) for _, path, record in newest)
            groups.append(_in_sequence(result for result in read if result is not None))
    return Repeats(groups=tuple(group for group in groups if len(group) >= MIN_SETS))


def given_repeats(sides: Sequence[Result]) -> Repeats:
    """Group the repeated result sets, which the user named, by their configuration, to measure drift. Raises
    InputError if no group is large enough."""
    by_key: dict[tuple[str, str | None], list[Result]] = {}
    for side in sides:
        by_key.setdefault((side.quantities[0], side.repetition), []).append(side)
    groups = [_in_sequence(sorted(group, key=lambda side: spans_ms((side,)))) for group in by_key.values()]
    large = tuple(group for group in groups if len(group) >= MIN_SETS)
    if not large:
        most = max((len(group) for group in groups), default=0)
        raise InputError(
            f"--repeated: found {most} sets of one configuration, code and system that were not measured "
            f"alternately, expected at least {MIN_SETS}. Measure one configuration {MIN_SETS} times, one set after "
            "the other."
        )
    return Repeats(groups=large, is_given=True)


def _subfolders(folders: Iterable[Path]) -> Iterator[Path]:
    for folder in sorted(folders):
        try:
            with os.scandir(folder) as entries:
                names = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
        except OSError:
            continue
        yield from (folder / name for name in sorted(names)[-_MAX_FOLDERS:])


def _read(folder: Path, record: RunSetRecord, known: Result | None) -> Result | None:
    """Read the runs of a result set, for their speed, without judging the set's logs; None if the logs cannot be
    read. If `known` is a result read from the same logs, its runs are used and the logs are not read again."""
    if is_in_processes(record.kind):
        return find_measured(folder, record.kind, [])
    try:
        logs = [log for found in take_inventory(folder).result_sets for log in found.logs]
        if known is not None and _has_read(known, logs):
            runs = known.runs
        else:
            runs = make_runs([read_run_result(read_log(log)) for log in logs])
    except (InputError, OSError):
        return None
    return Result(
        label=printable(folder.name, 80),
        source="logs",
        place=folder,
        status="own",
        benchmark=record.benchmark.name,
        repetitions=runs,
        system=System(name=record.system.name),
        asked=record,
        turns=interleaving_of(folder),
        repetition=repetition_key(record),
    )


def _has_read(result: Result, logs: Sequence[Path]) -> bool:
    """Return whether a result's runs were read from the log files `logs`, and whether all state the same benchmark
    and version, for which dlrmbench ships a definition."""
    named = {(run.log.benchmark, run.log.benchmark_version) for run in result.runs}
    benchmark, version = named.pop() if len(named) == 1 else (None, None)
    if benchmark not in shipped_names() or version is None or len(logs) != len(result.runs):
        return False
    return [real_path(Path(run.log.path)) for run in result.runs] == [real_path(log) for log in logs]


def _in_sequence(sides: Iterable[Result]) -> tuple[Result, ...]:
    """Return the result sets that were measured one after the other. Copies of the same measurement, and sets
    measured alternately, are left out."""
    taken: list[Result] = []
    for side in sides:
        if side.samples and side.turns is None and not any(_is_same_time(side, other) for other in taken):
            taken.append(side)
    return tuple(taken)


def _is_same_time(side: Result, other: Result) -> bool:
    """Return whether two results are copies of one measurement, or were measured at the same time."""
    if side.samples == other.samples:
        return True
    spans = spans_ms((side, other))
    return bool(spans) and spans[0][0] < spans[1][1] and spans[1][0] < spans[0][1]

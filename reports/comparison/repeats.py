"""Sets that repeat those of a comparison, found beside them or given: what shows how far a system drifts."""

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from reports.comparison.band import MIN_SETS, Repeats
from reports.facts.measured_sets import find_measured, measured_side
from reports.facts.origin import repetition_key, turns_of
from reports.facts.records import read_run_set
from reports.facts.sides import Side, converged_samples
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
"""The newest; more would say little more, and each is read."""


def find_repeats(sides: Sequence[Side], records: Sequence[RunSetRecord | None] = ()) -> Repeats:
    """The sets in the folders of `sides` that repeat one of them, the set itself included.

    What took turns with others shows no drift and repeats nothing. `records` are those of `sides`, where they have
    been read.
    """
    wanted = {side.repetition for side in sides if side.repetition is not None}
    places = [None if side.folder is None else real_path(side.folder) for side in sides]
    located = [(place, side) for place, side in zip(places, sides, strict=True) if place is not None]
    folders = {place.parent for place, side in located if side.repetition}
    known = {
        place: (record, side)
        for place, side, record in zip(places, sides, records, strict=False)
        if place is not None
    }
    found: dict[str, list[tuple[float, Path, RunSetRecord]]] = {}
    for folder in _subfolders(folders):
        record, side = known.get(folder, (None, None))
        record = record if side is not None else read_run_set(folder, [])
        key = side.repetition if side is not None else repetition_key(record)
        if record is not None and key in wanted:
            found.setdefault(str(key), []).append((epoch_ms(record.created_utc) or 0.0, folder, record))
    groups = []
    for entries in found.values():
        if len(entries) >= MIN_SETS:
            newest = sorted(entries, key=lambda entry: entry[:2])[-_MAX_REPEATS:]
            read = (_read(path, record, known[path][1] if path in known else None) for _, path, record in newest)
            groups.append(_in_sequence(side for side in read if side is not None))
    return Repeats(groups=tuple(group for group in groups if len(group) >= MIN_SETS))


def given_repeats(sides: Sequence[Side]) -> Repeats:
    """The groups that sets make which were named as repetitions. Raises InputError where none is large enough."""
    by_key: dict[tuple[str, str | None], list[Side]] = {}
    for side in sides:
        by_key.setdefault((side.kind, side.repetition), []).append(side)
    groups = [_in_sequence(sorted(group, key=_began)) for group in by_key.values()]
    large = tuple(group for group in groups if len(group) >= MIN_SETS)
    if not large:
        most = max((len(group) for group in groups), default=0)
        raise InputError(
            f"--repeated: found {most} sets of one configuration, code and system that did not take turns, expected "
            f"at least {MIN_SETS}. Measure one configuration {MIN_SETS} times, one set after the other."
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


def _read(folder: Path, record: RunSetRecord, known: Side | None) -> Side | None:
    """A set as far as its speed goes: nothing is judged. Of a side that is `known` its logs are not read again."""
    if is_in_processes(record.kind):
        measured = find_measured(folder, record.kind, [])
        return None if measured is None else measured_side(measured)
    try:
        logs = [log for found in take_inventory(folder).result_sets for log in found.logs]
        if known is not None and _has_read(known, logs):
            runs = known.runs
        else:
            runs = tuple(read_run_result(read_log(log)) for log in logs)
    except (InputError, OSError):
        return None
    return Side(
        label=printable(folder.name, 80),
        kind="runs",
        status="own",
        benchmark=record.benchmark.name,
        samples=converged_samples(runs),
        runs=runs,
        system=record.system.name,
        hardware=(),
        settings=(),
        folder=folder,
        turns=turns_of(folder),
        repetition=repetition_key(record),
    )


def _has_read(side: Side, logs: Sequence[Path]) -> bool:
    """Whether a side's runs are these logs, each judged by the shipped definition that it names."""
    named = {(run.benchmark, run.benchmark_version) for run in side.runs}
    benchmark, version = named.pop() if len(named) == 1 else (None, None)
    if benchmark not in shipped_names() or version is None or len(logs) != len(side.runs):
        return False
    return [real_path(Path(run.path)) for run in side.runs] == [real_path(log) for log in logs]


def _began(side: Side) -> float:
    return min((sample.started_ms for sample in side.samples if sample.started_ms is not None), default=0.0)


def _in_sequence(sides: Iterable[Side]) -> tuple[Side, ...]:
    """Those that were measured one after the other, each once: copies of a set, and sets in turns, show no drift."""
    taken: list[Side] = []
    for side in sides:
        if side.samples and side.turns is None and not any(_is_same_time(side, other) for other in taken):
            taken.append(side)
    return tuple(taken)


def _is_same_time(side: Side, other: Side) -> bool:
    """Whether the two are one measurement, or were made at the same time."""
    if side.samples == other.samples:
        return True
    spans = [
        [moment for sample in each.samples for moment in (sample.started_ms, sample.stopped_ms) if moment is not None]
        for each in (side, other)
    ]
    if not all(spans):
        return False
    return min(spans[0]) < max(spans[1]) and min(spans[1]) < max(spans[0])

"""Read the trials of a search: the objective, the excess over each constraint, and the reason if one is
infeasible."""

import math
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from msgspec import UNSET

from harness.config.axes import AxisPoint
from harness.extensions.tuning.records import ConstraintRecord, SearchRecord, search_of
from harness.foundation.errors import ExitCode, HarnessError
from harness.measure.kinds import find_kind
from reports.results.logs import gather
from reports.results.measured import find_measured
from reports.results.result import Repetition, Result, Run
from reports.text.formatting import num_bytes
from rules.errors import InputError, did_you_mean
from rules.extensions import find_places
from rules.records.columns import MEMORY, TIME_TO_TRAIN, column_measure, column_value, columns_of
from rules.records.experiment import (
    EXPERIMENT_FILE,
    ExperimentRecord,
)
from rules.records.kinds import is_logged

CORE_KINDS = ("training", "throughput", "quality")
"""Kinds of measurement that a trial of a search may make and that are part of the core of the harness, not of an
extension."""
_DECIMAL = ("B", "kB", "MB", "GB", "TB")
"""Units of bytes by powers of 1000, in which most constraints on memory are written."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Trial:
    """One configuration that a search tried, with its measurements; the first trial is the default."""

    values: Mapping[str, str]
    objective: float | None
    """Value of the column that the search optimizes; None if the trial did not measure it."""
    excess: Mapping[str, float]
    """Excess over each constraint's bound, by constraint, as a share of the bound; at most 0 if the bound is kept."""
    reason: str | None
    """Reason why the trial is infeasible, such as a missed constraint; None if it is feasible."""
    columns: Mapping[str, float] = field(default_factory=dict)
    beside: float | None = None
    """Mean number of worker processes of other trials that ran while this trial was measured; None if trials are
    measured one at a time."""


def columns_asked(search: SearchRecord) -> tuple[str, ...]:
    """List the measured columns that a search asks for, the objective first, each once."""
    return tuple(dict.fromkeys((search.objective, *(each.column for each in search.constraints))))


def kind_with(search: SearchRecord, asked: str | None) -> str:
    """Return the kind of measurement that a search's trials make: `asked`, or, if this is None, the first kind that
    has all columns which the search optimizes or constrains.

    Raises HarnessError (exit 2) if no such kind has all the columns. Raises it also if the search would look for the
    worst value, such as the lowest throughput.
    """
    names = columns_asked(search)
    kinds = searched_kinds() if asked is None else (asked,)
    kind = next((kind for kind in kinds if columns_of(kind).keys() >= {*names}), None)
    if kind is None:
        known = dict.fromkeys(name for kind in kinds for name in columns_of(kind))
        wrong = next((name for name in names if name not in known), None)
        if wrong is None:
            raise HarnessError(f"{' and '.join(names)} are of two kinds of measurement, and a trial makes one.")
        raise HarnessError(
            f"{wrong}: no column of {' or '.join(kinds)}, whose columns are {', '.join(known)}."
            f"{did_you_mean(wrong, [*known])}"
        )
    better = "maximize" if column_measure(kind, search.objective).direction == "higher" else "minimize"
    if search.direction != better:
        raise HarnessError(f"--{search.direction} {search.objective} looks for the worst. Give --{better}.")
    return kind


def searched_kinds() -> tuple[str, ...]:
    """List the kinds of measurement that a search's trial may make: all kinds of the core, and those kinds of
    extensions whose option takes no number."""
    others = (find_kind(name) for name in find_places("kinds"))
    return (
        *CORE_KINDS,
        *(kind.name for kind in others if kind.option is not None and kind.option.member is None),
    )


def read_trials(
    folder: Path, record: ExperimentRecord, known: MutableMapping[int, Trial] | None = None
) -> tuple[Trial, ...]:
    """Read every trial of the search in `folder`, in order; trials in `known`, by index, are not read again."""
    known = {} if known is None else known
    for place in range(len(record.configurations)):
        if place not in known:
            known[place] = _read_trial(folder, record, place)
    return tuple(known[place] for place in range(len(record.configurations)))


def _read_trial(folder: Path, record: ExperimentRecord, place: int) -> Trial:
    member, name = record.configurations[place], record.folders[place]
    search, found, beside = search_of(record), None, None
    of_values = f"{place + 1:02d}-{AxisPoint(values={}, texts=member.values).folder_name}"
    if name is not None and place and name != of_values:
        raise HarnessError(
            f"{folder / EXPERIMENT_FILE}: {name} was not made with the values that are said of it, which make "
            f"{of_values}. Put its own back, or search anew.",
            ExitCode.INPUT,
        )
    if name is not None and member.failure is None:
        found, beside = _read_repetition(folder / name, record.kind)
    columns = {} if found is None else measured_columns(found, search)
    excess, reason = judge(search, columns)
    return Trial(
        values=member.values,
        objective=columns.get(search.objective),
        excess=excess,
        columns=columns,
        reason=reason if member.failure is None else member.failure.reason,
        beside=beside,
    )


def _read_repetition(path: Path, kind: str) -> tuple[Repetition | None, float | None]:
    """Return a trial's only measured process, and the mean number of other trials' worker processes that ran
    meanwhile. Each of the two is None if it is not known."""
    try:
        result = read_result(path, kind)
    except InputError:
        return None, None
    found = next(iter(result.repetitions), None) if result is not None else None
    load = next(iter(result.loads), None) if result is not None else None
    return found, None if load is None or load.beside is UNSET else load.beside


def read_result(path: Path, kind: str) -> Result | None:
    """Read the result of the run set (processes of one configuration) in the folder `path`; None for a measurement
    without any process. Raises InputError for a damaged set of runs."""
    return gather([path], second_opinion=False)[0] if is_logged(kind) else find_measured(path, kind, [])


def count_missed(search: SearchRecord, result: Result) -> int:
    """Return the number of a result's processes that missed a constraint or lack a measured column of the search."""
    return sum(judge(search, measured_columns(each, search))[1] is not None for each in result.repetitions)


def measured_columns(repetition: Repetition, search: SearchRecord) -> dict[str, float]:
    """Return the values of a search's columns that one process (a repetition) measured, by column."""
    found = {name: column_value(repetition.record, name) for name in columns_asked(search)}
    if isinstance(repetition, Run) and TIME_TO_TRAIN.member in found:
        found[TIME_TO_TRAIN.member] = repetition.time_s
    return {name: value for name, value in found.items() if value is not None}


def judge(search: SearchRecord, columns: Mapping[str, float]) -> tuple[dict[str, float], str | None]:
    """Return two values for a trial: its excess over each constraint's bound, as a share of the bound; and the reason
    why the trial is infeasible, None if it is feasible."""
    missing = next((name for name in columns_asked(search) if name not in columns), None)
    why = "did not reach the target" if missing == TIME_TO_TRAIN.member else f"{missing} was not measured"
    excess, reason = dict[str, float](), None if missing is None else why
    for each in search.constraints:
        if (value := columns.get(each.column)) is not None:
            over = (value - each.value) * (1 if each.sign == "<=" else -1) / (abs(each.value) or 1.0)
            excess[f"{each.column}{each.sign}{each.value}"] = over
            if over > 0 and reason is None:
                reason = f"missed {constraint_text(each)}: {value_text(each.column, value)}"
    return excess, reason


def constraint_text(constraint: ConstraintRecord) -> str:
    """Return a constraint as text, such as 'memory<=1 GB (953.67 MiB)': first in the unit in which the user probably
    gave it, then in the unit of the measurement."""
    bound = value_text(constraint.column, constraint.value)
    if constraint.column == MEMORY.member:
        power = min(int(math.log10(max(constraint.value, 1.0))) // 3, len(_DECIMAL) - 1)
        bound = f"{constraint.value / 1000**power:.6g} {_DECIMAL[power]} ({bound})"
    return f"{constraint.column}{constraint.sign}{bound}"


def value_text(column: str, value: float) -> str:
    """Return the value of a measured column as text: memory in a unit of bytes, others with six digits."""
    return num_bytes(value) if column == MEMORY.member else f"{value:.6g}"


def best_of(search: SearchRecord, trials: Sequence[Trial]) -> Trial | None:
    """Return a search's feasible trial with the best objective, the first of equal ones; None if none is feasible."""
    return next(iter(rank(search, trials)), None)


def rank(search: SearchRecord, trials: Sequence[Trial]) -> list[Trial]:
    """Return a search's feasible trials sorted by objective, the best first; equal ones in their order."""
    sign = -1.0 if search.direction == "maximize" else 1.0
    feasible = [trial for trial in trials if trial.reason is None]
    return sorted(feasible, key=lambda trial: sign * (trial.objective or 0.0))

"""Makes columns, notes and plain values of measurements (such as throughput), with names and units from the record
type of each kind of measurement."""

from collections.abc import Callable, Collection

from reports.comparison.factor import FACTORS
from reports.comparison.sweep import SweepFacts
from reports.comparison.wording import sentence
from reports.document.blocks import Cell, TableColumn, numeric
from reports.parts.cells import bounds_text
from reports.results.measured import centre_of
from reports.results.result import Result
from reports.text.formatting import MISSING, count, duration, num_bytes, si, throughput, with_unit
from rules.records.kinds import find_record_type
from rules.records.measure import Column, Measure
from rules.records.metrics import METRICS

_WORDS: dict[str | None, Callable[[float], str]] = {
    None: lambda value: count(value) if value == int(value) else f"{value:.5f}",
    **dict.fromkeys(("nat", *(metric.member for metric in METRICS.values())), "{:.5f}".format),
    "s": duration,
    "B": num_bytes,
}
_IN_FULL: dict[str, Callable[[float | None], str]] = {"samples/s": throughput}
"""Dict from a unit, such as samples/s, to the function that formats a value for a table column whose title already
has the unit. The text has no unit and no SI prefix, so that all digits before the decimal point are shown."""


def measure_of(sweep: SweepFacts) -> Measure | None:
    """Return the quantity that is compared among a sweep's measurements. None for sweeps of runs that train to a
    target quality, and for sweeps of one factor of the time to train, such as throughput: these have tables of their
    own."""
    if sweep.is_of_runs or sweep.kind in FACTORS:
        return None
    measured = (row.result.measure for row in sweep.rows if row.result is not None)
    return next(measured, find_record_type(sweep.kind).MEASURE)


def in_unit(value: float | None, unit: str | None) -> str:
    """Format a measured value with its unit, as is usual for the unit: '0.75123' for an AUC, '2.02 GB/s'."""
    if value is None:
        return MISSING
    if unit is None or unit in _WORDS:
        return _WORDS[unit](value)
    return with_unit(si(value), unit)


def mean_name(measure: Measure) -> str:
    """Return the name of the mean (geometric or arithmetic) by which results of a kind of measurement are shown and
    compared."""
    return "geometric mean" if measure.scale == "ratio" else "mean"


def measured_columns(
    measure: Measure, *, is_narrow: bool = False, hidden: Collection[str] = ()
) -> list[tuple[TableColumn, Callable[[Result | None], Cell]]]:
    """Return the table columns of a measurement: first the mean of its compared quantity, then the confidence
    interval of this mean, then the means of the other recorded quantities, except those named in `hidden`. If
    `is_narrow`, the interval has no column of its own and stands below the mean."""
    main, others = Column(member="", title=measure.name, unit=measure.unit), []
    for column in measure.columns:
        if column.member == measure.value:
            main = column
        elif column.member not in hidden:
            others.append(column)

    def words(value: float | None, column: Column) -> str:
        return _in_column(value, column) if is_narrow else in_unit(value, column.unit)

    def centre(found: Result | None) -> Cell:
        mean, bounds = centre_of(found) if found else (None, None)
        below = bounds_text(bounds, lambda end: words(end, main), "") if is_narrow else ""
        return Cell(text=words(mean, main), kind="strong", sub=below)

    def between(found: Result | None) -> Cell:
        return Cell(text=bounds_text(centre_of(found)[1] if found else None, lambda end: words(end, main)))

    def mean(column: Column) -> Callable[[Result | None], Cell]:
        return lambda found: Cell(text=words(found.mean(column.member) if found else None, column))

    on = " on the logarithms" if measure.scale == "ratio" else ""
    if is_narrow:
        head = numeric(main.title, f"{main.origin}, {mean_name(measure)}, 95 % interval")
        # The column is the mean of the processes' values; for a latency, each value is a percentile.
        of_processes = "mean of processes"
        return [
            (head, centre),
            *((numeric(each.title, f"{each.origin}, {of_processes}"), mean(each)) for each in others),
        ]
    return [
        (numeric(main.title, f"{mean_name(measure)} over processes"), centre),
        (numeric(f"95 % interval, {main.title}", f"of that mean, Student's t{on}"), between),
        *((numeric(each.title, "mean"), mean(each)) for each in others),
    ]


def _in_column(value: float | None, column: Column) -> str:
    """Format a measured value for a table column. The unit is left out if the column's title ends with it, as
    'Queries/s' does."""
    text, unit = in_unit(value, column.unit), column.unit
    if unit is None or not column.title.lower().endswith(unit.lower()):
        return text
    return _IN_FULL[unit](value) if unit in _IN_FULL else text.removesuffix(f" {unit}")


def measured_notes(measure: Measure, sweep: SweepFacts) -> tuple[str, ...]:
    """Return the notes printed with the table of a sweep of measurements: how verdicts were reached, a sentence on
    the comparison of each configuration with the first, and the configurations that failed."""
    name = measure.name
    notes = [
        f"{name} was measured in fresh processes, with equal seeds for all configurations; this measurement is "
        "not a score."
    ]
    if any(row.comparison for row in sweep.rows):
        notes.append(
            f"Verdicts are on {measure.scale}s of {name} against the baseline, the first configuration with "
            "results; all verdicts are one family of tests (Holm)."
        )
    notes += [f"{row.label}: {sentence(row.comparison)}" for row in sweep.rows if row.comparison is not None]
    return (*notes, *(f"{row.label} failed: {row.failure}" for row in sweep.rows if row.failure))


def measured_record(measure: Measure | None, measured: Result | None) -> dict[str, object]:
    """Return the mean of every recorded quantity of one measurement, and the interval of the compared quantity, as
    plain values for JSON and CSV. If there is no result, each value is None.

    `measure` is None for factors of the time to train, such as throughput, whose values have other names; the dict is
    then empty.
    """
    if measure is None:
        return {}
    centre, bounds = centre_of(measured) if measured else (None, None)
    means = {column.member: measured.mean(column.member) if measured else None for column in measure.columns}
    low, high = (bounds.low, bounds.high) if bounds else (None, None)
    return {**means, measure.value: centre, f"{measure.value}_low": low, f"{measure.value}_high": high}

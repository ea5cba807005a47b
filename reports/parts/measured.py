"""What processes measured, as columns, notes and plain values, from the metadata of the record of their kind."""

from collections.abc import Callable

from reports.comparison.sweep import SweepFacts
from reports.comparison.wording import sentence
from reports.document.blocks import Cell, TableColumn, numeric
from reports.results.measured import centre_of
from reports.results.result import Result
from reports.text.formatting import MISSING, count, duration, interval, num_bytes, si, with_unit
from rules.records.kinds import find_record_type
from rules.records.measure import Measure
from rules.records.metrics import METRICS

_WORDS: dict[str | None, Callable[[float], str]] = {
    None: lambda value: count(value) if value == int(value) else f"{value:.5f}",
    **dict.fromkeys(("nat", *(metric.member for metric in METRICS.values())), "{:.5f}".format),
    "s": duration,
    "B": num_bytes,
}


def measure_of(sweep: SweepFacts) -> Measure | None:
    """What the kind of a sweep measures; None for runs to a target, and for throughput."""
    if sweep.is_of_runs or sweep.counts_samples:
        return None
    measured = (row.result.measure for row in sweep.rows if row.result is not None)
    return next(measured, find_record_type(sweep.kind).MEASURE)


def in_unit(value: float | None, unit: str | None) -> str:
    """A value as its unit is printed: '0.75123' of an AUC, '2.02 GB/s'."""
    if value is None:
        return MISSING
    if unit is None or unit in _WORDS:
        return _WORDS[unit](value)
    return with_unit(si(value), unit)


def mean_name(measure: Measure) -> str:
    """Say which mean a kind is shown and compared by."""
    return "geometric mean" if measure.scale == "ratio" else "mean"


def measured_columns(measure: Measure) -> list[tuple[TableColumn, Callable[[Result | None], Cell]]]:
    """What is compared with its interval, then the means of what is recorded beside it, each with what it shows."""
    name, unit = measure.name, measure.unit

    def centre(measured: Result | None) -> Cell:
        return Cell(text=in_unit(centre_of(measured)[0] if measured else None, unit), kind="strong")

    def between(measured: Result | None) -> Cell:
        bounds = centre_of(measured)[1] if measured else None
        return Cell(text=interval(in_unit(bounds.low, unit), in_unit(bounds.high, unit)) if bounds else MISSING)

    def mean(member: str, unit: str | None) -> Callable[[Result | None], Cell]:
        return lambda found: Cell(text=in_unit(found.mean(member) if found else None, unit))

    others = [column for column in measure.columns if column.member != measure.value]
    on = " on the logarithms" if measure.scale == "ratio" else ""
    return [
        (numeric(name, f"{mean_name(measure)} over processes"), centre),
        (numeric(f"95 % interval, {name}", f"of that mean, Student's t{on}"), between),
        *((numeric(column.title, "mean"), mean(column.member, column.unit)) for column in others),
    ]


def measured_notes(measure: Measure, sweep: SweepFacts) -> tuple[str, ...]:
    """What must be known beside a sweep's table."""
    name = measure.name
    notes = [f"{name} of fresh processes with equal seeds; nothing is a score."]
    if any(row.comparison for row in sweep.rows):
        notes.append(
            f"Verdicts are on {measure.scale}s of {name} against the first configuration with results; all of them "
            "are one family of tests (Holm)."
        )
    notes += [f"{row.label}: {sentence(row.comparison)}" for row in sweep.rows if row.comparison is not None]
    return (*notes, *(f"{row.label} failed: {row.failure}" for row in sweep.rows if row.failure))


def measured_record(measure: Measure | None, measured: Result | None) -> dict[str, object]:
    """One measurement's means as plain values; nothing for other kinds."""
    if measure is None:
        return {}
    centre, bounds = centre_of(measured) if measured else (None, None)
    means = {column.member: measured.mean(column.member) if measured else None for column in measure.columns}
    low, high = (bounds.low, bounds.high) if bounds else (None, None)
    return {**means, measure.value: centre, f"{measure.value}_low": low, f"{measure.value}_high": high}

"""What processes measured, as columns, notes and plain values, from the metadata of the record of their kind."""

from collections.abc import Callable

from reports.comparison.sweep import SweepFacts
from reports.comparison.wording import sentence
from reports.document.blocks import Cell, Column, numeric
from reports.results.result import Result
from reports.statistics.intervals import mean_interval
from reports.text.formatting import MISSING, count, duration, interval, num_bytes, si, with_unit
from rules.records.kinds import KINDS
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
    return next((row.result.measure for row in sweep.rows if row.result is not None), KINDS[sweep.kind].MEASURE)


def in_unit(value: float | None, unit: str | None) -> str:
    """A value as its unit is printed: '0.75123' of an AUC, '2.02 GB/s'."""
    if value is None:
        return MISSING
    if unit is None or unit in _WORDS:
        return _WORDS[unit](value)
    return with_unit(si(value), unit)


def measured_columns(measure: Measure) -> list[tuple[Column, Callable[[Result | None], Cell]]]:
    """What is compared with its interval, then the means of what is recorded beside it, each with what it shows."""
    name, unit = measure.name, measure.unit

    def between(measured: Result | None) -> Cell:
        ends = measured_ends(measured)
        return Cell(text=interval(*(in_unit(end, unit) for end in ends)) if ends else MISSING)

    def mean(member: str, unit: str | None, kind: str = "") -> Callable[[Result | None], Cell]:
        return lambda found: Cell(text=in_unit(found.mean(member) if found else None, unit), kind=kind)

    others = [column for column in measure.columns if column.member != measure.value]
    return [
        (numeric(name, "mean over processes"), mean(measure.value, unit, "strong")),
        (numeric(f"95 % interval, {name}", "of that mean, Student's t"), between),
        *((numeric(column.title, "mean"), mean(column.member, column.unit)) for column in others),
    ]


def measured_ends(measured: Result | None) -> tuple[float, float] | None:
    """The ends of the mean's interval."""
    bounds = mean_interval(measured.measured_values) if measured else None
    return (bounds.low, bounds.high) if bounds else None


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
    ends = measured_ends(measured) or (None, None)
    means = {column.member: measured.mean(column.member) if measured else None for column in measure.columns}
    return {**means, f"{measure.value}_low": ends[0], f"{measure.value}_high": ends[1]}

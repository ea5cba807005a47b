"""Makes the section on a sweep: one table over all configurations, and charts of each quantity over the varied
settings."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import product

from reports.charts.sweep import places, sweep_figure
from reports.charts.xy import Dot
from reports.comparison.sweep import SweepFacts, SweepRow
from reports.document.blocks import Block, Chart, Prose
from reports.document.page import PageSection
from reports.kinds.details import own_blocks
from reports.parts.measured import in_unit, measure_of
from reports.parts.sweep import sweep_notes, sweep_table, times_unit
from reports.results.measured import centre_of
from reports.statistics.intervals import LogSummary
from reports.text.formatting import percent, plural, printable, si

_Estimate = tuple[float, tuple[float, float] | None]
"""Value of a quantity and the ends of its interval, or None without an interval."""


@dataclass(frozen=True, slots=True)
class _SweptQuantity:
    """Quantity of a sweep's configurations that a chart shows: its title and unit, the function that formats a value,
    and the function that returns the value of a configuration with the ends of its interval."""

    key: str
    title: str
    unit: str
    words: Callable[[float], str]
    estimate: Callable[[SweepRow], _Estimate | None]
    is_ratio: bool = True


def sweep_section(sweep: SweepFacts, index: int = 0) -> PageSection:
    """Return the page section on one sweep; `index` makes its HTML ids unique on the page."""
    id_ = f"sweep{index + 1}"
    failed = sum(bool(row.failure) for row in sweep.rows)
    done = sum(bool(row.num_runs) for row in sweep.rows)
    what = "time to train" if sweep.is_of_runs else sweep.kind
    axes = " × ".join(f"{printable(key)} ({plural(len(values), 'value')})" for key, values in sweep.axes)
    lead = (
        f"{plural(len(sweep.rows), 'configuration')} over {axes}: {'all' if done == len(sweep.rows) else done} "
        f"measured{f', {failed} failed' if failed else ''}. Runs of different configurations are interleaved in time "
        "and share seeds."
    )
    heading = f"Sweep: {what} over {', '.join(printable(key) for key, _ in sweep.axes)}"
    blocks: tuple[Block, ...] = (
        Prose(text=f"{lead} {sweep.closing}".rstrip()),
        sweep_table(sweep, f"{id_}-table", is_narrow=True),
        *(Prose(text=note, kind="note") for note in sweep_notes(sweep)),
        *(
            _chart(sweep, quantity, f"{id_}-{quantity.key}")
            for quantity in _quantities(sweep)
            if any(map(quantity.estimate, sweep.rows))
        ),
        *own_blocks([row.result for row in sweep.rows if row.result is not None], id_),
    )
    number = f" {index + 1}" if index else ""
    return PageSection(id=id_, heading=heading, name=f"Sweep{number}: {what}", blocks=blocks)


def _quantities(sweep: SweepFacts) -> list[_SweptQuantity]:
    if (measure := measure_of(sweep)) is not None:
        words = partial(in_unit, unit=measure.unit)
        return [
            _SweptQuantity(sweep.kind, measure.title, measure.name, words, _of_processes, measure.scale == "ratio")
        ]
    speed = _SweptQuantity("throughput", "Throughput", "samples/s", si, lambda row: _of_mean(row.throughput))
    if not sweep.is_of_runs:
        return [speed, _SweptQuantity("memory", "Peak memory", "GiB", "{:.3g}".format, _peak_gib)]
    unit = times_unit(sweep)
    return [
        _SweptQuantity(
            "time", "Time to train", unit.name, "{:.4g}".format, lambda row: _of_mean(row.time_to_train, unit.seconds)
        ),
        speed,
        _SweptQuantity(
            "samples", "Samples to converge", "samples", si, lambda row: _of_mean(row.samples_to_converge)
        ),
    ]


def _peak_gib(row: SweepRow) -> _Estimate | None:
    return (row.peak_bytes / 2**30, None) if row.peak_bytes else None


def _of_mean(summary: LogSummary | None, scale: float = 1.0) -> _Estimate | None:
    """Return a summary's geometric mean and the ends of its interval, all divided by `scale`; None where there is no
    summary."""
    if summary is None:
        return None
    bounds = summary.interval
    return summary.geometric_mean / scale, (bounds.low / scale, bounds.high / scale) if bounds else None


def _of_processes(row: SweepRow) -> _Estimate | None:
    mean, bounds = centre_of(row.result) if row.result else (None, None)
    return None if mean is None else (mean, (bounds.low, bounds.high) if bounds else None)


def _chart(sweep: SweepFacts, quantity: _SweptQuantity, id_: str) -> Chart:
    """Return a chart of one quantity over the varied setting with the most values, a panel per combination of the
    other settings' values."""
    along = max(range(len(sweep.axes)), key=lambda number: len(sweep.axes[number][1]))
    key, positions = sweep.axes[along]
    others = [axis for number, axis in enumerate(sweep.axes) if number != along]
    panels = []
    for chosen in product(*(values for _, values in others)):
        points = []
        for x, position in zip(places(positions), positions, strict=True):
            values = [*chosen[:along], position, *chosen[along:]]
            points.append(_point(x, sweep.at(values), quantity))
        name = ", ".join(f"{_short(other)} {value}" for (other, _), value in zip(others, chosen, strict=True))
        panels.append((name, points))
    title = f"{quantity.title} over {_short(key)}"
    lead = _lead(sweep, quantity)
    figure = sweep_figure(
        panels,
        (printable(key), positions),
        (f"{quantity.title}, {quantity.unit}", quantity.words),
        is_ratio=quantity.is_ratio,
        id_=id_,
        title=title,
        description=f"{title}. {lead}",
    )
    note = "The table of this sweep lists the numbers of this chart."
    return Chart(figure=figure, heading=title, lead=lead, table_note=note)


def _point(x: float, row: SweepRow | None, quantity: _SweptQuantity) -> Dot:
    if row is None:
        return Dot(x=x, y=None, hint="not in this sweep")
    value, ends = quantity.estimate(row) or (0.0, None)
    if value <= 0:
        return Dot(x=x, y=None, hint=f"{row.label}: {row.failure or 'no value'}")
    return Dot(x=x, y=value, ends=ends, hint=f"{row.label}: {quantity.words(value)} {quantity.unit}")


def _lead(sweep: SweepFacts, quantity: _SweptQuantity) -> str:
    known = [(found[0], row) for row in sweep.rows if (found := quantity.estimate(row)) and found[0]]
    if not known:
        return "No configuration has a value."
    title = quantity.title
    (low, least), (high, most) = min(known, key=lambda entry: entry[0]), max(known, key=lambda entry: entry[0])
    if len(known) == 1:
        return f"{title}, the only value: {quantity.words(low)} {quantity.unit}."
    if quantity.words(low) == quantity.words(high):
        return f"{title}: {quantity.words(low)} {quantity.unit} in each of {plural(len(known), 'configuration')}."
    if not quantity.is_ratio:
        apart = f"{quantity.words(high - low)} apart"
    else:
        apart = f"a factor of {high / low:.3g}" if high / low >= 1.1 else f"{percent(high / low - 1)} more"
    return (
        f"{title}: {quantity.words(low)} {quantity.unit} ({least.label}) to {quantity.words(high)} {quantity.unit} "
        f"({most.label}): {apart}."
    )


def _short(key: str) -> str:
    return printable(key.partition(".")[2] or key)

"""Kinds of measurement apart from throughput: table, notes and section, from the record's metadata."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from reports.comparison.band import Band
from reports.comparison.comparison import compare_results
from reports.comparison.noise import find_bands, noise_of_processes
from reports.comparison.records import Comparison
from reports.comparison.sources import distinct
from reports.comparison.sweep import SweepFacts
from reports.comparison.wording import change_text, sentence, with_sign
from reports.document.blocks import Block, Bullets, Cell, Column, Prose, numeric, table_of
from reports.document.page import PageSection
from reports.page.figures.noise import measured_assumptions, size_text
from reports.page.figures.serving import serving_blocks
from reports.page.figures.times import bounds_text
from reports.page.sections.traffic import measured_exchanges
from reports.results.measured import compared_values, rate_summary
from reports.results.origin import order_in_pair, pair_of
from reports.results.result import Result
from reports.statistics.intervals import mean_interval
from reports.text.formatting import (
    MISSING,
    count,
    duration,
    interval,
    num_bytes,
    percent,
    printable,
    si,
    throughput,
    with_unit,
)
from rules.records.kinds import KINDS
from rules.records.measure import Column as MeasureColumn
from rules.records.measure import Measure
from rules.records.metrics import METRICS

MAX_SENTENCES = 24
_SHOWN_BELOW = {"serve": ("times_alone", "auc")}
"""By kind: columns that tables of its own have."""
_WORDS: dict[str | None, Callable[[float], str]] = {
    None: lambda value: count(value) if value == int(value) else f"{value:.5f}",
    **{metric.member: "{:.5f}".format for metric in METRICS.values()},
    "nat": lambda value: f"{value:.5f}",
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


def _page_columns(kind: str, measured: Sequence[Result]) -> list[tuple[Column, Callable[[Result], Cell]]]:
    """As `measured_columns`, narrower: the interval below its mean, units that a head has left out of the cells, and
    no column without a single value, or that a table below has."""
    measure = measured[0].measure
    (mean, show), (_, between), *others = measured_columns(measure)
    both = numeric(mean.name, "measured, mean; 95 % interval")
    beside = [column for column in measure.columns if column.member != measure.value]
    kept = [
        (numeric(column.name, f"{about.origin}, mean"), _short(cell, about))
        for about, (column, cell) in zip(beside, others, strict=True)
        if about.member not in _SHOWN_BELOW.get(kind, ()) and any(cell(found).text != MISSING for found in measured)
    ]
    main = next(column for column in measure.columns if column.member == measure.value)
    return [(both, lambda found: replace(_short(show, main)(found), sub=_without(between(found).text, main))), *kept]


def _short(cell: Callable[[Result], Cell], about: MeasureColumn) -> Callable[[Result], Cell]:
    return lambda found: replace(cell(found), text=_without(cell(found).text, about))


def _without(text: str, about: MeasureColumn) -> str:
    """Numbers without the unit that the column's title is, as 'Queries/s' is."""
    is_head = about.unit is not None and about.title.lower().endswith(about.unit.lower())
    return text.replace(f" {about.unit}", "") if is_head else text


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


def measured_sections(measured: Sequence[Result]) -> tuple[PageSection, ...]:
    """Make a section per kind, in the order of what was measured, with a row per measurement."""
    kinds: dict[tuple[str, ...], list[Result]] = {}
    for found in measured:
        kinds.setdefault(found.quantities, []).append(found)
    return tuple(_section(found[0].kind, found) for found in kinds.values())


def _section(kind: str, measured: Sequence[Result]) -> PageSection:
    """Show measurements of a kind apart from everything that was trained to a target."""
    measure = measured[0].measure
    is_throughput = measured[0].measure.counts_samples
    beside = ", and nothing here is compared with one" if is_throughput else ""
    lead = f"Measured without training to a target: nothing here is a time to train or a score{beside}."
    what = "Samples per second" if is_throughput else measure.title
    named = distinct(measured)
    comparisons, shown = (
        _compare(named),
        _THROUGHPUT_COLUMNS if is_throughput else _page_columns(kind, named),
    )
    bands = {found.label: band for found, band in zip(named, find_bands(named), strict=True)}
    are_pairs = len({pair_of(found.place) for found in named}) > 1
    against = "Against the first, or its pair's base" if are_pairs else "Against the first"
    smallest = "in a later set" if measure.scale == "ratio" else f"of {measure.name}"
    table = table_of(
        named,
        (
            (Column(name="Measurement", help="benchmark, system"), _name_cell),
            (against if comparisons else None, lambda found: _against(comparisons.get(found.label))),
            *shown[:1],
            (numeric("Smallest difference", smallest), lambda found: _smallest_cell(found, bands[found.label])),
            *shown[1:],
        ),
        id_=f"{kind}-table",
        caption=f"{what}, over the processes of each measurement",
        is_sortable=len(named) > 1,
    )
    said = tuple(f"{entry.new}: {with_sign(sentence(entry))}" for entry in comparisons.values())
    notes = dict.fromkeys(measured_assumptions(found, bands[found.label]) for found in named)
    blocks: tuple[Block, ...] = (
        Prose(text=lead),
        table,
        *([Bullets(items=said[:MAX_SENTENCES], kind="list")] if said else []),
        *(Prose(text=note, kind="note") for note in notes),
        *measured_exchanges(measured),
        *serving_blocks(measured, kind),
    )
    return PageSection(id=kind, heading=f"{measure.title} alone", name=measure.title, blocks=blocks)


def _compare(measured: Sequence[Result]) -> dict[str, Comparison]:
    """Compare each with the first of its benchmark, by label; all of a benchmark are one family of tests.

    The two of a pair took turns with each other alone: its new one is compared with its base, and with no other.
    """
    groups: dict[tuple[str | None, str | None], list[Result]] = {}
    for found in measured:
        groups.setdefault((found.benchmark, pair_of(found.place)), []).append(found)
    compared: dict[str, Comparison] = {}
    for group in groups.values():
        base, *news = sorted(group, key=lambda found: order_in_pair(found.place))
        found_all = compare_results(base, news) if news else ()
        compared |= {new.label: comparison for new, comparison in zip(news, found_all, strict=True)}
    return compared


def _against(comparison: Comparison | None) -> Cell:
    """The verdict in few words; the first, of a benchmark or a pair, is what the others are compared with."""
    whole = comparison.whole if comparison is not None else None
    if comparison is None:
        return Cell(text="the first", kind="quiet")
    if whole is None:
        return Cell(text="not compared", kind="quiet")
    kind = {"slower": "bad", "worse": "bad", "faster": "valid", "better": "valid"}.get(comparison.verdict, "")
    change = with_sign(change_text(whole) or "")
    return Cell(text=comparison.verdict, kind=kind, sub=change)


def _smallest_cell(found: Result, band: Band) -> Cell:
    """The smallest difference that as many such processes show; where drift matters, below it that in turns."""
    smallest = noise_of_processes(found, band)
    if smallest is None:
        return Cell(text=MISSING)
    if found.measure.scale != "ratio":
        return Cell(text=in_unit(smallest.apart, found.measure.unit))
    turns = size_text(smallest.in_turns)
    return Cell(text=size_text(smallest.apart), sub=f"{turns} in turns")


def _name_cell(found: Result) -> Cell:
    about = ", ".join(printable(part, 80) for part in (found.benchmark, found.system.name) if part)
    return Cell(text=found.label, sub=about)


def _mean_cell(found: Result) -> Cell:
    summary = rate_summary(found)
    return Cell(text=throughput(summary.geometric_mean if summary else None), kind="strong")


def _bounds(found: Result) -> str:
    summary = rate_summary(found)
    return bounds_text(summary.interval if summary else None, throughput)


def _spread(found: Result) -> str:
    summary = rate_summary(found)
    return percent(summary.coefficient_of_variation if summary else None)


_THROUGHPUT_COLUMNS: tuple[tuple[Column | str, Callable[[Result], Cell | str]], ...] = (
    (numeric("Samples/s", "geometric mean"), _mean_cell),
    (numeric("95 % interval", "Student's t on the logarithms"), _bounds),
    (numeric("CV", "over processes"), _spread),
    (numeric("Processes"), lambda found: count(found.num_runs)),
    (numeric("Slowest", "samples/s"), lambda found: throughput(min(compared_values(found)))),
    (numeric("Fastest", "samples/s"), lambda found: throughput(max(compared_values(found)))),
    ("Data", lambda found: printable(getattr(found.measured, "data_kind", None) or "dataset", 40)),
)
"""Of samples per second, whose logarithms are compared."""

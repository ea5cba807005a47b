"""Makes the section on measurements that leave no logs (such as throughput): a table and notes. The record type of
each kind of measurement describes the quantities and units."""

import math
from collections.abc import Sequence
from functools import partial

from reports.charts.runs import Quantity, Strip, StripDot, strips_figure
from reports.comparison.comparability import ONE_SYSTEM
from reports.comparison.comparison import compare_results
from reports.comparison.noise import find_tolerances, noise_of_processes
from reports.comparison.records import Comparison
from reports.comparison.sources import distinct
from reports.comparison.wording import change_text, sentence, with_sign
from reports.document.blocks import Block, Bullets, Cell, Chart, Prose, Shown, Table, TableColumn, numeric, table_of
from reports.document.page import PageSection
from reports.facts.noise import Smallest
from reports.kinds.details import details_of, own_blocks
from reports.page.figures.times import hue_number
from reports.page.sections.traffic import measured_exchanges
from reports.parts.cells import by_value
from reports.parts.cost import energy_columns
from reports.parts.measured import in_unit, mean_name, measured_columns
from reports.parts.noise import measured_assumptions, size_text
from reports.results.measured import centre_of, compared_values
from reports.results.provenance import order_in_pair, pair_of
from reports.results.result import Result
from reports.text.formatting import (
    MISSING,
    plural,
    printable,
    time_unit,
    utc,
)
from rules.records.measure import Measure
from rules.records.metrics import metric_of_member

MAX_SENTENCES = 24


def _page_columns(kind: str, measured: Sequence[Result]) -> list[Shown[Result]]:
    """Return the columns of the table of measurements. The first is the compared quantity. It is followed by the
    columns that the kind of measurement defines. If the kind defines none, a column for each other recorded quantity
    follows, except quantities that no measurement has, and quantities that are shown below the table."""
    measure, details = measured[0].measure, details_of(kind)
    both, *others = measured_columns(measure, is_narrow=True, hidden=details.hidden)
    kept = [(head, cell) for head, cell in others if any(cell(found).text != MISSING for found in measured)]
    return [both, *(details.columns or kept)]


def measured_section(measured: Sequence[Result]) -> PageSection:
    """Return the section on measurements of one kind, such as throughput: their table, verdicts against the baseline,
    and notes."""
    kind, measure = measured[0].kind, measured[0].measure
    id_ = measured[0].quantities[0].replace(".", "-")  # a kind may have several quantities
    lead = "A measurement: no run trained to a target, so no number of this section is a time to train or a score."
    named = distinct(measured)
    comparisons = _compare(named)
    shown = _page_columns(kind, named)
    tolerances = {found.label: tolerance for found, tolerance in zip(named, find_tolerances(named), strict=True)}
    are_pairs = len({pair_of(found.place) for found in named}) > 1
    against = "Against the baseline: the first, or the base of its pair" if are_pairs else "Against the baseline"
    smallest = "in a later set" if measure.scale == "ratio" else f"of {measure.name}"
    table = table_of(
        named,
        (
            (TableColumn(name="Measurement", help="benchmark, system"), _name_cell),
            (against if comparisons else None, lambda found: _against(comparisons.get(found.label))),
            *shown[:1],
            (
                numeric("Detectable difference", smallest),
                lambda found: noise_of_processes(found, tolerances[found.label]),
                lambda found: _smallest_cell(found, measure),
            ),
            *shown[1:],
            *energy_columns(named),
        ),
        id_=f"{id_}-table",
        caption=f"{measure.title}, over the processes of each measurement",
        is_sortable=len(named) > 1,
    )
    said = tuple(
        f"'{entry.new}' against the baseline: {with_sign(sentence(entry))}" for entry in comparisons.values()
    )
    notes = dict.fromkeys(measured_assumptions(found, tolerances[found.label]) for found in named)
    notes |= {ONE_SYSTEM: None} if any(entry.is_cross_system for entry in comparisons.values()) else {}
    blocks: tuple[Block, ...] = (
        Prose(text=lead),
        table,
        *([Bullets(items=said[:MAX_SENTENCES], kind="list")] if said else []),
        *(Prose(text=note, kind="note") for note in notes),
        *measured_exchanges(measured),
        *own_blocks(measured, id_),
    )
    return PageSection(id=id_, heading=f"{measure.title} alone", name=measure.title, blocks=blocks)


def processes_section(measured: Sequence[Result], id_: str) -> PageSection:
    """Return the section with the chart of every measured process as a dot, and the list of their values."""
    named, measure = distinct(measured), measured[0].measure
    unit = time_unit(value for found in named for value in compared_values(found)) if measure.unit == "s" else None
    scale, unit_name = (unit.seconds, unit.name) if unit else (1.0, measure.unit)
    # The interval is cut off at the limits of the quantity's range: a quality is from 0 to 1.
    least, most = (0.0, 1.0) if metric_of_member(measure.unit) else (-math.inf, math.inf)
    strips = [
        Strip(
            name=found.label,
            hue=hue_number(position, named),
            dots=tuple(
                StripDot(
                    label=process.label,
                    value=value / scale,
                    hint=f"process {process.label}: {in_unit(value, measure.unit)}",
                )
                for process, value in zip(found.repetitions, compared_values(found), strict=True)
            ),
            mean=None if centre is None else centre / scale,
            mean_label=in_unit(centre, measure.unit),
            low=None if bounds is None else max(bounds.low / scale, least),
            high=None if bounds is None else min(bounds.high / scale, most),
        )
        for position, found in enumerate(named)
        for centre, bounds in (centre_of(found) if found.num_runs > 1 else (None, None),)
    ]
    num_processes = plural(sum(found.num_runs for found in named), "process", "processes")
    lead = f"{num_processes} of {plural(len(named), 'configuration')}."
    title = f"{measure.name} of every process"
    is_named = unit_name.lower() == measure.name.lower()
    axis = measure.name if is_named else f"{measure.name}, {unit_name}"
    mean = mean_name(measure)
    figure = strips_figure(
        strips,
        Quantity(
            name=axis, words=None if unit else partial(_tick, unit=measure.unit), is_ratio=measure.scale == "ratio"
        ),
        {"dot-counted": "process", "mean": mean, "band": f"95 % interval of the {mean}"},
        id_=f"{id_}-strips",
        title=title,
        description=f"One strip per configuration. {lead}",
    )
    chart = Chart(figure=figure, lead=lead, table=_processes_table(named, f"{id_}-processes", title))
    return PageSection(id=f"{id_}-every-process", heading="Every process", name="Every process", blocks=(chart,))


def _tick(value: float, unit: str) -> str:
    """Return the tick label of a measured value, without its unit, which is in the name of the axis."""
    return in_unit(value, unit).removesuffix(f" {unit}").replace("-", "−")


def _processes_table(named: Sequence[Result], id_: str, caption: str) -> Table:
    measure, (quantity,) = named[0].measure, named[0].quantities
    main = next(column for column in measure.columns if column.member == measure.value)
    words = by_value(partial(in_unit, unit=measure.unit))
    return table_of(
        [(found.label, process) for found in named for process in found.repetitions],
        (
            ("Process", lambda row: f"process {row[1].label}"),
            ("Measurement" if len(named) > 1 else None, lambda row: row[0]),
            (numeric(main.title, main.origin), lambda row: row[1].values[quantity], words),
            (numeric("Seed"), lambda row: row[1].seed),
            (TableColumn(name="Started", help="UTC"), lambda row: utc(row[1].started_ms).removesuffix(" UTC")),
        ),
        id_=id_,
        caption=caption,
        is_sortable=True,
    )


def _compare(measured: Sequence[Result]) -> dict[str, Comparison]:
    """Return a dict from the label of each measurement to its comparison with the first measurement of the same
    benchmark. All comparisons within a benchmark form one family of tests, whose levels are set by Holm's method.

    If two measurements were made alternately as a pair (A/B), the pair's new configuration is compared only with the
    pair's base.
    """
    groups: dict[tuple[str | None, str | None], list[Result]] = {}
    for found in measured:
        pair = pair_of(found.place)
        groups.setdefault((None if pair else found.benchmark, pair), []).append(found)
    compared: dict[str, Comparison] = {}
    for group in groups.values():
        base, *news = sorted(group, key=lambda found: order_in_pair(found.place))
        found_all = compare_results(base, news) if news else ()
        compared |= {new.label: comparison for new, comparison in zip(news, found_all, strict=True)}
    return compared


def _against(comparison: Comparison | None) -> Cell:
    """Return the cell with the verdict of a measurement's comparison with the baseline; 'baseline' where there is no
    comparison, because the measurement is the baseline itself."""
    if comparison is None:
        return Cell(text="baseline", kind="quiet")
    if (whole := comparison.whole) is None:
        return Cell(text="not compared", kind="quiet")
    kind = {"slower": "bad", "worse": "bad", "faster": "valid", "better": "valid"}.get(comparison.verdict, "")
    change = with_sign(change_text(whole) or "")
    return Cell(text=comparison.verdict, kind=kind, sub=change)


def _smallest_cell(smallest: Smallest, measure: Measure) -> Cell:
    """Return the cell with the smallest difference that could be detected between this measurement and another with
    as many processes. If the quantity is compared by ratio, as speed is, the cell has a second number: the smallest
    difference that could be detected if the two were measured alternately. The second number is smaller, since
    alternation cancels drift."""
    if measure.scale != "ratio":
        return Cell(text=in_unit(smallest.apart, measure.unit))
    return Cell(text=size_text(smallest.apart), sub=f"{size_text(smallest.in_turns)} alternately")


def _name_cell(found: Result) -> Cell:
    about = ", ".join(printable(part, 80) for part in (found.benchmark, found.system.name) if part)
    return Cell(text=found.label, sub=about)

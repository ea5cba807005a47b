"""Measurements of throughput alone: samples per second of a number of steps, in fresh processes; never a score."""

from collections.abc import Sequence

from reports.document.blocks import Block, Cell, Column, Fold, Prose, numeric, text_table
from reports.document.page import PageSection
from reports.facts.measured_sets import MeasuredSet
from reports.page.figures.traffic import METHOD, STEP_COLUMNS, bytes_table, placement_table, step_cells
from reports.statistics.intervals import log_summary
from reports.text.formatting import MISSING, count, interval, percent, plural, printable, throughput


def throughput_section(measured: Sequence[MeasuredSet]) -> PageSection:
    """One row per measurement, apart from everything that was trained to a target."""
    table = text_table(
        (
            Column(name="Measurement", help="benchmark, system"),
            numeric("Samples/s", "geometric mean"),
            numeric("95 % interval", "Student's t on the logarithms"),
            numeric("CV", "over processes"),
            numeric("Processes"),
            numeric("Slowest", "samples/s"),
            numeric("Fastest", "samples/s"),
            "Data",
        ),
        [_row(measurement) for measurement in measured],
        id_="throughput-table",
        caption="Samples per second, over the processes of each measurement",
        is_sortable=len(measured) > 1,
    )
    lead = (
        "Measured without training to a target: nothing here is a time to train or a score, and nothing here is "
        "compared with one."
    )
    blocks: tuple[Block, ...] = (Prose(text=lead), table, *_exchanges(measured))
    return PageSection(id="throughput", heading="Throughput alone", name="Throughput", blocks=blocks)


def _exchanges(measured: Sequence[MeasuredSet]) -> tuple[Fold, ...]:
    """Of each measurement on several ranks: what these sent in a step, what that took, and where tables lie."""
    found = []
    for number, measurement in enumerate(measured):
        if not measurement.traffic:
            continue
        id_ = f"throughput-exchange-{number}"
        step = text_table(
            STEP_COLUMNS,
            (step_cells(measurement.traffic),),
            id_=f"{id_}-step",
            caption=f"One training step, mean over {plural(len(measurement.traffic), 'process', 'processes')}",
        )
        tables = (
            step,
            bytes_table(measurement.traffic, f"{id_}-bytes"),
            *placement_table(measurement.traffic, f"{id_}-tables"),
        )
        found.append(
            Fold(summary=f"{measurement.label}: exchange between ranks", blocks=(Prose(text=METHOD), *tables))
        )
    return tuple(found)


def _row(measurement: MeasuredSet) -> tuple[Cell | str, ...]:
    summary = log_summary(measurement.rates)
    bounds = summary.interval if summary else None
    about = ", ".join(printable(part, 80) for part in (measurement.benchmark, measurement.system) if part)
    return (
        Cell(text=measurement.label, sub=about),
        Cell(text=throughput(summary.geometric_mean if summary else None), kind="strong"),
        (interval(throughput(bounds.low), throughput(bounds.high)) if bounds else MISSING),
        percent(summary.coefficient_of_variation if summary else None),
        count(len(measurement.rates)),
        throughput(min(measurement.rates)),
        throughput(max(measurement.rates)),
        (printable(measurement.data_kind, 40) if measurement.data_kind else "dataset"),
    )

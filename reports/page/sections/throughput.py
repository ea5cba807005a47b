"""Measurements of throughput alone: samples per second of a number of steps, in fresh processes; never a score."""

from collections.abc import Sequence

from reports.document.blocks import Block, Cell, Column, Fold, Prose, numeric, table_of, text_table
from reports.document.page import PageSection
from reports.facts.measured_sets import MeasuredSet
from reports.page.figures.times import bounds_text
from reports.page.figures.traffic import METHOD, STEP_COLUMNS, bytes_table, placement_table, step_cells
from reports.statistics.intervals import log_summary
from reports.text.formatting import count, percent, plural, printable, throughput


def throughput_section(measured: Sequence[MeasuredSet]) -> PageSection:
    """One row per measurement, apart from everything that was trained to a target."""
    table = table_of(
        [(found, log_summary(found.rates)) for found in measured],
        (
            (Column(name="Measurement", help="benchmark, system"), lambda row: _name_cell(row[0])),
            (
                numeric("Samples/s", "geometric mean"),
                lambda row: Cell(text=throughput(row[1].geometric_mean if row[1] else None), kind="strong"),
            ),
            (
                numeric("95 % interval", "Student's t on the logarithms"),
                lambda row: bounds_text(row[1].interval if row[1] else None, throughput),
            ),
            (
                numeric("CV", "over processes"),
                lambda row: percent(row[1].coefficient_of_variation if row[1] else None),
            ),
            (numeric("Processes"), lambda row: count(len(row[0].rates))),
            (numeric("Slowest", "samples/s"), lambda row: throughput(min(row[0].rates))),
            (numeric("Fastest", "samples/s"), lambda row: throughput(max(row[0].rates))),
            ("Data", lambda row: printable(row[0].data_kind or "dataset", 40)),
        ),
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


def _name_cell(measurement: MeasuredSet) -> Cell:
    about = ", ".join(printable(part, 80) for part in (measurement.benchmark, measurement.system) if part)
    return Cell(text=measurement.label, sub=about)

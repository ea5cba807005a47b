"""Presents studies of inference, whose tables are on a model's forward pass: draws each part of the model in a
roofline chart."""

from collections.abc import Mapping

from reports.charts.roofline import RooflineDot, roofline_figure
from reports.document.blocks import Chart
from reports.kinds.details import Details
from reports.parts.study import find_parameter, number_of, rows_of
from reports.text.formatting import count, printable, si
from rules.records.study import Cell, StudyRecord, StudyTable

CEILINGS = ("matrix products", "memory", "cache")
"""Names of the parameters, in the record of an inference study, that are the ceilings of the roofline chart: FLOP/s
of matrix products, bytes/s of memory and cache."""
WHOLE = "whole batch"
"""Name of the table row that sums up a whole batch in an inference study; the roofline chart leaves this row out."""


def draw_roofline(study: StudyRecord, table: StudyTable, id_: str) -> Chart | None:
    """Draw a roofline chart of an inference study, with a dot for every part of a batch at every batch size; None
    where the study records no ceilings or no parts."""
    best, memory, cache = (find_parameter(study, name) for name in CEILINGS)
    dots = [dot for row in rows_of(table) if row.get("Part") != WHOLE and (dot := _roofline_dot(row)) is not None]
    if not dots or best is None or memory is None:
        return None
    lead = (
        f"The ceilings meet at {best / memory:.3g} FLOP per byte: parts with fewer FLOP per byte are bound by memory."
    )
    figure = roofline_figure(
        dots,
        peak=best,
        memory=memory,
        cache=cache,
        id_=id_,
        title="Parts of a batch under the roof",
        description=f"One dot per part and batch size. {lead}",
    )
    return Chart(figure=figure, lead=lead, table_note="The table below lists the numbers of this chart.")


def _roofline_dot(row: Mapping[str, Cell]) -> RooflineDot | None:
    work, rate, size = (number_of(row.get(name)) for name in ("FLOP/B", "Reached", "Batch"))
    if work is None or rate is None or size is None:
        return None
    label = f"{printable(str(row.get('Part')), 40)}, {count(size)}"
    return RooflineDot(
        label=label, flop_per_byte=work, flop_per_s=rate, kind="phase", hint=f"{label}: {si(rate)}FLOP/s"
    )


DETAILS = Details(chart=draw_roofline)

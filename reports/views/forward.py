"""The page of `profile --forward`: the study's tables, and each model's parts under the roof that was measured."""

from datetime import UTC, datetime

from msgspec import to_builtins

from reports.charts.roofline import RooflineCeilings, RooflineDot, roofline_figure
from reports.document.blocks import Block, Chart
from reports.document.page import PageSection, PageView
from reports.facts.profile import amount
from reports.render.html import embed_json, render_html
from reports.text.formatting import count, printable, si
from reports.views.study import parameters_table, study_table
from rules.records.study import Cell, StudyRecord, StudyTable

CEILINGS = ("matrix products", "memory", "cache")
"""Parameters of the study that are the roof."""
WHOLE = "whole batch"
"""The part that is all of a batch, which is not drawn."""


def render_forward(study: StudyRecord, now: datetime | None = None) -> str:
    """Render one HTML page of all models of the study."""
    moment = (now or datetime.now(UTC)).strftime("%Y-%m-%d %H:%M UTC")
    sections = tuple(_section(study, index) for index in range(len(study.tables)))
    page = PageView(
        title=printable(study.title, 200),
        dek=" ".join(map(printable, study.findings)),
        badges=(),
        tags=(),
        groups=(),
        glossary=(),
        rules=(),
        footnotes=(),
        colophon=f"Written by dlrmbench on {moment}. One file, no network, no tracking.",
        data=embed_json(to_builtins(study)),
        profiles=sections,
    )
    return render_html(page)


def _section(study: StudyRecord, index: int) -> PageSection:
    table, id_ = study.tables[index], f"forward{index + 1}"
    chart = _roofline(study, table, f"{id_}-roofline")
    blocks: list[Block] = [] if chart is None else [chart]
    blocks += [study_table(table), parameters_table(study.parameters)]
    name = printable(table.title, 100)
    return PageSection(id=id_, heading=name, name=name, blocks=tuple(blocks))


def _roofline(study: StudyRecord, table: StudyTable, id_: str) -> Chart | None:
    """Draw every part of every batch size; None where there is no ceiling or nothing to draw."""
    ceilings = {parameter.name: _number(parameter.value) for parameter in study.parameters}
    best, memory, cache = (ceilings.get(name) for name in CEILINGS)
    names = [column.name for column in table.columns]
    rows = [dict(zip(names, row, strict=True)) for row in table.rows]
    dots = [dot for row in rows if row.get("Part") != WHOLE and (dot := _dot(row)) is not None]
    if not dots or best is None or memory is None:
        return None
    lead = f"The ceilings meet at {best / memory:.3g} FLOP per byte: a part to the left of that is bound by memory."
    figure = roofline_figure(
        dots, RooflineCeilings(flop_per_s=best, memory_bytes_per_s=memory, cache_bytes_per_s=cache),
        id_=id_, title="Parts of a batch under the roof", description=f"One dot per part and batch size. {lead}",
    )  # fmt: skip
    return Chart(figure=figure, lead=lead, table_note="The table below has the numbers.")


def _dot(row: dict[str, Cell]) -> RooflineDot | None:
    work, rate, size = (_number(row.get(name)) for name in ("FLOP/B", "Reached", "Batch"))
    if work is None or rate is None or size is None:
        return None
    label = f"{printable(str(row.get('Part')), 40)}, {count(size)}"
    return RooflineDot(
        label=label, flop_per_byte=work, flop_per_s=rate, kind="phase", hint=f"{label}: {si(rate)}FLOP/s"
    )


def _number(value: Cell) -> float | None:
    return amount(value) if isinstance(value, int | float) and not isinstance(value, bool) else None

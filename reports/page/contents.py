"""Lists the sections of the page in a reviewer's order, each with the kinds of results that it is shown for."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import NamedTuple

from reports.charts.runs import Quantity, Strip, StripDot, strips_figure
from reports.comparison.comparison import GroupContext
from reports.comparison.records import Comparison
from reports.document.blocks import Block, Cell, Chart, Fold, Prose, Table, numeric, table_of
from reports.document.page import PageSection
from reports.page.figures.detail import detail_words, detailed_parts
from reports.page.figures.times import (
    MAX_HUES,
    chart_name,
    column_unit,
    hue_number,
    runs_chart,
    strips_sentence,
    throughput_chart,
    time_chart,
)
from reports.page.sections.comparison import comparison_section, why_section
from reports.page.sections.convergence import convergence_section
from reports.page.sections.data import data_section
from reports.page.sections.differences import DIFFERENCES, MOST_DIFFERING, differences_section
from reports.page.sections.machines import machines_section, repeats_of
from reports.page.sections.measured import measured_section, processes_section
from reports.page.sections.published import published_section
from reports.page.sections.reference import reference_section
from reports.page.sections.reproduce import reproduce_section
from reports.page.sections.rules import rules_section
from reports.page.sections.runs import runs_section
from reports.page.sections.scaling import scaling_section
from reports.page.sections.spread import spread_blocks
from reports.page.sections.standing import standing_section
from reports.page.sections.system import noise_section, system_section
from reports.page.sections.traffic import exchange_section
from reports.page.sections.verdict import verdict_section
from reports.parts.cells import bounds_text
from reports.results.logs import Order
from reports.results.result import Result
from reports.statistics.intervals import AT_LEAST_NAME
from reports.text.formatting import names
from rules.records.kept.published import PublishedTable
from rules.records.kinds import EXTRA_KINDS

MAX_SCORES = 24
_SCORE_WORDS = {
    "mean": "Olympic mean, as measured",
    "band": "interval of the geometric mean",
    "dot-counted": "score, after the RCP factor",
}


class ResultGroup(NamedTuple):
    """Group of comparable results, which share tables: the results, the baseline, and the comparison of each other
    result with the baseline."""

    results: Sequence[Result]
    baseline: Result
    comparisons: Sequence[Comparison]
    context: GroupContext
    id: str
    order: Order
    published: PublishedTable | None = None
    """Table of published MLPerf results among which the group's results are ranked; None where no ranking was asked
    for."""


class PagePart(NamedTuple):
    """Specification of a section of the page: the kinds of results that it is shown for, and the function that makes
    it for a group of results. The function returns None if the group has nothing to show."""

    kinds: Collection[str]
    make: Callable[[ResultGroup], PageSection | None]
    is_of_sweeps: bool = False
    """Whether the section is also shown for the measurements of a sweep, in addition to the sweep's own table and
    charts."""
    is_brief: bool = False
    """Whether the section is also on the page that `report --summary` makes: one sheet with only what a decision
    needs."""


TRAINED = ("training",)
MEASURED = EXTRA_KINDS
ALL = (*TRAINED, *MEASURED)
PARTS = (
    PagePart(
        TRAINED, lambda group: verdict_section(group.results, group.id, group.comparisons, group.order), is_brief=True
    ),
    PagePart(MEASURED, lambda group: measured_section(group.results), is_brief=True),
    PagePart(
        ALL,
        lambda group: machines_section(group.results, repeats_of(group.results, group.context.repeats), group.id),
        is_brief=True,
    ),
    PagePart(ALL, lambda group: differences_section(group.results, group.id), is_brief=True),
    PagePart(ALL, lambda group: standing_section(group.results, group.id), is_brief=True),
    PagePart(TRAINED, lambda group: published_section(group.results, group.published, group.id), is_brief=True),
    PagePart(TRAINED, lambda group: _strips_section(group.results, group.id), is_brief=True),
    PagePart(MEASURED, lambda group: processes_section(group.results, group.id), is_of_sweeps=True, is_brief=True),
    PagePart(TRAINED, lambda group: _spread_section(group.results, group.context, group.id)),
    PagePart(TRAINED, lambda group: why_section(group.baseline, group.comparisons, group.id)),
    PagePart(TRAINED, lambda group: comparison_section(group.baseline, group.comparisons, group.id)),
    PagePart(TRAINED, lambda group: scaling_section(group.results, group.id)),
    PagePart(TRAINED, lambda group: convergence_section(group.results, group.id)),
    PagePart(TRAINED, lambda group: reference_section(group.results, group.id)),
    PagePart(TRAINED, lambda group: rules_section(group.results, group.id)),
    PagePart(TRAINED, lambda group: runs_section(group.results, group.id)),
    PagePart(TRAINED, lambda group: _time_section(group.results, group.id)),
    PagePart(TRAINED, lambda group: exchange_section(group.results, group.id)),
    PagePart(TRAINED, lambda group: data_section(group.results, group.id)),
    PagePart(ALL, lambda group: noise_section(group.results, group.id), is_of_sweeps=True),
    PagePart(ALL, lambda group: system_section(group.results, group.id), is_of_sweeps=True),
    PagePart(ALL, lambda group: reproduce_section(group.results, group.id), is_of_sweeps=True),
)
"""Sections of a group of results, in the order in which a reviewer asks for them."""


def group_sections(group: ResultGroup, *, is_brief: bool = False) -> tuple[PageSection, ...]:
    """Return the sections for a group of results; with `is_brief` only those that a reader needs to decide between
    configurations. Empty sections are left out."""
    made = _made(group, [section for section in PARTS if section.is_brief or not is_brief])
    is_free = group.results[0].status == "own"  # for others MLCommons' guidelines require notes
    shown = (section for section in made if not _is_in_head(section))
    return tuple(brief_section(section, has_notes=not is_free) for section in shown) if is_brief else made


def brief_section(section: PageSection, *, has_notes: bool = False) -> PageSection:
    """Return a section shortened for a page on one sheet. Of the section's charts only the first is kept, without the
    table of its values. Notes are kept only if `has_notes`."""
    first = next((block for block in section.blocks if isinstance(block, Chart)), None)
    return replace(
        section,
        blocks=tuple(
            replace(block, table=None, table_note="") if isinstance(block, Chart) else block
            for block in section.blocks
            if (block is first or not isinstance(block, Chart))
            and (has_notes or not (isinstance(block, Prose) and block.kind == "note"))
        ),
    )


def _is_in_head(section: PageSection) -> bool:
    """Return whether a section only repeats the page's head: it lists differences between configurations, and the
    head lists all of them."""
    tables = [block for block in section.blocks if isinstance(block, Table)]
    return section.name == DIFFERENCES and sum(len(table.rows) for table in tables) <= MOST_DIFFERING


def swept_sections(results: Sequence[Result], id_: str) -> tuple[PageSection, ...]:
    """Return the sections on a sweep's measurements, in addition to the sweep's own table and charts. Empty if
    nothing was measured, and for runs that train to a target quality, which the page shows in a group of results."""
    if not results or results[0].is_logged:
        return ()  # results with logs are in groups of their own on the page
    group = ResultGroup(results, results[0], (), GroupContext(), id_, "files")
    return _made(group, [section for section in PARTS if section.is_of_sweeps])


def _made(group: ResultGroup, sections: Sequence[PagePart]) -> tuple[PageSection, ...]:
    made = (section.make(group) for section in sections if group.results[0].kind in section.kinds)
    return tuple(section for section in made if section is not None)


def _strips_section(group: Sequence[Result], id_: str) -> PageSection | None:
    """Return the section that shows every run as a dot; None if there is no run. If several configurations of an
    official benchmark have a score (an Olympic mean), a second chart shows the confidence intervals of their times,
    as measured and RCP-normalised."""
    (_, first), *others = detailed_parts(group)
    chart = runs_chart(first, f"{id_}-strips")
    if chart is None:
        return None
    if len(group) > len(first):
        chart = replace(chart, lead=f"{strips_sentence(group)} {detail_words(group)}".rstrip())
    blocks: list[Block] = [chart]
    for number, (words, part) in enumerate(others, start=2):
        if (more := runs_chart(part, f"{id_}-strips{number}")) is not None:
            blocks.append(Fold(summary=words, blocks=(more,)))
    scored = [result for result in group if result.score.olympic_mean_s is not None and not result.is_repeat]
    if len(scored) > 1 and group[0].status == "official":
        blocks += _overlaps(scored, group, f"{id_}-scores")
    return PageSection(id=f"{id_}-every-run", heading="Every run", name="Every run", blocks=tuple(blocks))


def _spread_section(group: Sequence[Result], context: GroupContext, id_: str) -> PageSection | None:
    """Return the section on the spread of the times to train of a group's result sets, and on the difference between
    two sets that can be detected at this spread; None where no result has a run."""
    if not any(result.runs for result in group):
        return None
    blocks = spread_blocks(group, context, f"{id_}-spread-table")
    return PageSection(
        id=f"{id_}-spread", heading="Differences that runs like these can show", name="Spread", blocks=blocks
    )


def _overlaps(scored: Sequence[Result], group: Sequence[Result], id_: str) -> tuple[Block, ...]:
    """Return the chart of scores with their intervals, under a sentence with the number of pairs of scores whose
    intervals overlap."""
    unit = column_unit(scored)
    positions = {result.index: position for position, result in enumerate(group)}
    drawn = [
        Strip(
            name=f"{chart_name(entry)}  {unit.text(entry.score.olympic_mean_s)}"
            + (f" → {unit.text(entry.score.score_s)}" if scores else ""),
            hue=hue_number(positions[entry.index], group),
            dots=tuple(StripDot(label="", value=unit.of(score_s)) for score_s in scores),
            mean=unit.of(entry.score.olympic_mean_s),
            low=unit.of(entry.interval.low if entry.interval else None),
            high=unit.of(entry.interval.high if entry.interval else None),
        )
        for entry in scored
        for scores in ([entry.score.score_s] if entry.is_scaled and entry.score.score_s else [],)
    ]
    pairs = [(a, b) for i, a in enumerate(scored) for b in scored[:i] if a.interval and b.interval]
    together = sum(_do_overlap(a, b) for a, b in pairs)
    lead = "Fewer than two configurations have an interval."
    if pairs:
        lead = f"{together} of {len(pairs)} pairs of the intervals below overlap."
        if len(pairs) == 1:
            lead = f"The two intervals below {'overlap' if together else 'do not overlap'}."
    if len(drawn) > MAX_SCORES:
        lead += f" The first {MAX_SCORES} configurations are drawn; the table has all."
    title, score = "Scores and their intervals", numeric("Score", "normalised")
    bounds = numeric(AT_LEAST_NAME, "of the geometric mean")
    figure = strips_figure(
        drawn[:MAX_SCORES],
        Quantity(name=f"time to train, {unit.name}"),
        _SCORE_WORDS,
        id_=id_,
        title=title,
        description=f"One row per configuration. {lead}",
    )
    chart = Chart(
        figure=figure,
        heading=title,
        lead=lead,
        table=table_of(
            scored,
            (
                ("Configuration", "label"),
                (numeric("Olympic mean", "raw"), "score.olympic_mean_s", unit.number),
                (bounds, "interval", lambda interval: bounds_text(interval, unit.number)),
                (numeric("RCP factor"), "score.rcp_factor", "{:.4f}".format),
                (score, lambda entry: Cell(text=unit.number(entry.score.score_s), kind="strong")),
                ("Overlaps with", lambda entry: _overlapping(entry, scored)),
            ),
            id_=f"{id_}-table",
            caption=f"Times in {unit.name}; the score is the Olympic mean times its RCP factor",
        ),
    )
    text = "Overlap of intervals is not a verdict: the comparison, which allows for drift, gives verdicts."
    return (chart, Prose(text=text, kind="note"))


def _overlapping(result: Result, scored: Sequence[Result]) -> str | None:
    if result.interval is None:
        return None
    labels = [other.label for other in scored if other is not result and _do_overlap(result, other)]
    return names(labels, most=6) if labels else "none of the others"


def _do_overlap(result: Result, other: Result) -> bool:
    a, b = result.interval, other.interval
    return a is not None and b is not None and a.low <= b.high and b.low <= a.high


def _time_section(group: Sequence[Result], id_: str) -> PageSection | None:
    blocks: list[Block] = []
    for number, (words, part) in enumerate(detailed_parts(group)):
        chart = time_chart(part, f"{id_}-time{number + 1 if number else ''}")
        if chart is None:
            continue
        if blocks:
            blocks.append(Fold(summary=words, blocks=(chart,)))
        elif len(part) < len(group):
            blocks.append(replace(chart, lead=f"{words}: {chart.lead}"))
        else:
            blocks.append(chart)
    if len(group) <= MAX_HUES:
        steady = throughput_chart(group, f"{id_}-throughput")
        blocks += [steady] if steady is not None else []
    if not blocks:
        blocks.append(Prose(text="No log separates training, evaluation and the rest.", kind="absent"))
    return PageSection(id=f"{id_}-time-parts", heading="Where the time goes", name="Time", blocks=tuple(blocks))

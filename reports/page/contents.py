"""The parts of one group of comparable configurations, in the order in which a reviewer asks."""

from collections.abc import Sequence
from dataclasses import replace

from reports.charts.runs import Quantity, Strip, StripDot, strips_figure
from reports.comparison.comparison import GroupSides
from reports.comparison.records import Comparison
from reports.document.blocks import Block, Cell, Chart, Fold, Prose, numeric, table_of
from reports.document.page import PageSection
from reports.facts.facts import Order, SetFacts
from reports.page.figures.detail import detail_words, detailed_parts
from reports.page.figures.noise import spread_blocks
from reports.page.figures.times import (
    MAX_HUES,
    bounds_text,
    chart_name,
    column_unit,
    hue_number,
    runs_chart,
    strips_sentence,
    throughput_chart,
    time_chart,
)
from reports.page.sections.comparison import comparison_sections
from reports.page.sections.convergence import convergence_section
from reports.page.sections.reference import reference_section
from reports.page.sections.remarks import names
from reports.page.sections.reproduce import reproduce_section
from reports.page.sections.rules import rules_section
from reports.page.sections.runs import runs_section
from reports.page.sections.scaling import scaling_section
from reports.page.sections.system import noise_section, system_section
from reports.page.sections.traffic import exchange_section
from reports.page.sections.verdict import verdict_section
from reports.statistics.intervals import AT_LEAST_NAME
from reports.text.formatting import plural

MAX_SCORES = 24
_SCORE_WORDS = {
    "mean": "Olympic mean, as measured",
    "band": "interval of the geometric mean",
    "dot-counted": "score, after the RCP factor",
}


def group_sections(
    group: Sequence[SetFacts],
    baseline: SetFacts,
    comparisons: Sequence[Comparison],
    sides: GroupSides,
    id_: str,
    order: Order,
) -> tuple[PageSection, ...]:
    """Verdict, runs, spread, why, comparison, scaling, convergence, reference, rules, attempts, time, exchange,
    noise, systems, reproduction; those that the records have nothing for are left out."""
    made = (
        verdict_section(group, id_, comparisons, order),
        _strips_section(group, id_),
        _spread_section(group, sides, id_),
        *comparison_sections(group, baseline, comparisons, id_),
        scaling_section(group, id_),
        convergence_section(group, id_),
        reference_section(group, id_),
        rules_section(group, id_),
        runs_section(group, id_),
        _time_section(group, id_),
        exchange_section(group, id_),
        noise_section(group, id_),
        system_section(group, id_),
        reproduce_section(group, id_),
    )
    return tuple(section for section in made if section is not None)


def _strips_section(group: Sequence[SetFacts], id_: str) -> PageSection | None:
    """Every run as a dot; of published scores also the intervals, raw and normalised."""
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
    scored = [facts for facts in group if facts.result.olympic_mean_s is not None and not facts.is_repeat]
    if len(scored) > 1 and group[0].status == "official":
        blocks += _overlaps(scored, group, f"{id_}-scores")
    return PageSection(id=f"{id_}-every-run", heading="Every run", name="Every run", blocks=tuple(blocks))


def _spread_section(group: Sequence[SetFacts], sides: GroupSides, id_: str) -> PageSection | None:
    """What the spread of times is made of, and the smallest difference that such sets show; None without a run."""
    if not any(facts.runs for facts in group):
        return None
    blocks = spread_blocks(group, sides, f"{id_}-spread-table")
    return PageSection(id=f"{id_}-spread", heading="How much such runs can show", name="Spread", blocks=blocks)


def _overlaps(scored: Sequence[SetFacts], group: Sequence[SetFacts], id_: str) -> tuple[Block, ...]:
    """Who overlaps with whom. Without an interval nothing can be said, and that is said."""
    unit = column_unit(scored)
    positions = {facts.index: position for position, facts in enumerate(group)}
    drawn = [
        Strip(
            name=f"{chart_name(entry)}  {unit.text(entry.result.olympic_mean_s)}"
            + (f" → {unit.text(entry.result.score_s)}" if scores else ""),
            hue=hue_number(positions[entry.index], group),
            dots=tuple(StripDot(label="", value=score_s / unit.seconds) for score_s in scores),
            mean=(entry.result.olympic_mean_s or 0.0) / unit.seconds,
            low=entry.interval.low / unit.seconds if entry.interval else None,
            high=entry.interval.high / unit.seconds if entry.interval else None,
        )
        for entry in scored
        for scores in ([entry.result.score_s] if _is_scaled(entry) and entry.result.score_s else [],)
    ]
    pairs = [(a, b) for i, a in enumerate(scored) for b in scored[:i] if a.interval and b.interval]
    together = sum(_do_overlap(a, b) for a, b in pairs)
    lead = (
        f"{together} of {plural(len(pairs), 'pair')} of intervals {'overlaps' if len(pairs) == 1 else 'overlap'}."
        if pairs
        else "Fewer than two configurations have an interval."
    )
    if len(drawn) > MAX_SCORES:
        lead += f" The first {MAX_SCORES} are drawn; the table has all."
    title = "Scores and their intervals"
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
                ("Configuration", lambda entry: entry.label),
                (numeric("Olympic mean", "raw"), lambda entry: unit.number(entry.result.olympic_mean_s)),
                (
                    numeric(AT_LEAST_NAME, "of the geometric mean"),
                    lambda entry: bounds_text(entry.interval, unit.number),
                ),
                (numeric("RCP factor"), _factor),
                (
                    numeric("Score", "normalised"),
                    lambda entry: Cell(text=unit.number(entry.result.score_s), kind="strong"),
                ),
                ("Overlaps with", lambda entry: _overlapping(entry, scored)),
            ),
            id_=f"{id_}-table",
            caption=f"Times in {unit.name}; the score is the Olympic mean times its RCP factor",
        ),
    )
    note = Prose(
        text="Overlapping intervals do not show equality, and intervals apart are no test; the comparison is one.",
        kind="note",
    )
    return (chart, note)


def _is_scaled(facts: SetFacts) -> bool:
    return facts.result.rcp_factor not in (None, 1.0)


def _factor(facts: SetFacts) -> str | None:
    return None if facts.result.rcp_factor is None else f"{facts.result.rcp_factor:.4f}"


def _overlapping(facts: SetFacts, scored: Sequence[SetFacts]) -> str | None:
    if facts.interval is None:
        return None
    labels = [other.label for other in scored if other is not facts and _do_overlap(facts, other)]
    return names(labels, most=6) if labels else "none of the others"


def _do_overlap(facts: SetFacts, other: SetFacts) -> bool:
    if facts.interval is None or other.interval is None:
        return False
    return facts.interval.low <= other.interval.high and other.interval.low <= facts.interval.high


def _time_section(group: Sequence[SetFacts], id_: str) -> PageSection | None:
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
        text = "No log separates training, evaluation and the rest."
        blocks.append(Prose(text=text, kind="absent"))
    return PageSection(id=f"{id_}-time-parts", heading="Where the time goes", name="Time", blocks=tuple(blocks))

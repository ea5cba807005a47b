"""The page of a directory's history: what changed, and a chart per benchmark, configuration, system and quantity."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

import numpy as np
from msgspec import to_builtins

from harness.extensions.history.chart import timeline_figure
from harness.extensions.history.timelines import Point, Timeline
from harness.extensions.history.words import (
    METHOD,
    change_blocks,
    change_rows,
    change_sentence,
    headline,
    why_not_judged,
)
from reports.charts.xy import Dot
from reports.document.blocks import Chart, Fact, Prose, Table, numeric, table_of
from reports.document.page import PageSection, PageView
from reports.page.head import Provenance, head_facts, provenance_of_result
from reports.page.page import colophon
from reports.page.sections.verdict import system_words
from reports.parts.measured import in_unit
from reports.render.html import embed_json, render_html
from reports.statistics.ratios import factor_from
from reports.text.formatting import interval, plural, si, utc

TERMS = {
    "Line": "Sets of one benchmark, configuration, system and data in the order of time, by one quantity.",
    "Change": "A step of a line that is far more likely than chance, drift or a steady trend.",
    "Code": "The digest of the product's files that made a set: changed files have another, without a commit, too.",
    "Interval": "Where a set's mean lies by its own runs, at 95 %, if runs are independent: of its hour alone.",
    "In turns": "Both sides measured alternately with equal seeds, so that what drifts meets both alike.",
    "95 % of sets": "Where sets of one code lie between two changes, by how far those on the line differ.",
}
"""What the page's words mean."""


def render_history(
    lines: Sequence[Timeline], num_left_out: int, *, command: str = "", now: datetime | None = None
) -> str:
    """Render the page that `command` asked for, without charts of lines of one set; `now` is when it is written."""
    drawn = [line for line in lines if len(line.points) > 1]
    num_alone = len(lines) - len(drawn)
    alone = f"{plural(num_alone, 'line')} of one set without a chart" if num_alone else ""
    left = "on no line: damaged, without record or value, not finished, or copies"
    left = f"{plural(num_left_out, 'set')} {left}" if num_left_out else ""
    notes = [f"{'; '.join(filter(None, (alone, left)))}.", METHOD] if alone or left else [METHOD]
    changes = (*change_blocks(lines), *(Prose(text=note, kind="note") for note in notes))
    return render_html(
        PageView(
            title=headline(lines),
            dek="",
            head=_head(lines, command),
            badges=(),
            tags=(),
            groups=(),
            glossary=tuple(Fact(name=word, value=meaning) for word, meaning in TERMS.items()),
            rules=(),
            footnotes=(),
            colophon=colophon(now or datetime.now(UTC)),
            data=embed_json({"changes": to_builtins(change_rows(lines))}),
            eyebrow="a history",
            others=(
                PageSection(id="changes", heading="Changes", name="Changes", blocks=changes),
                *(_section(line, f"line{number}") for number, line in enumerate(drawn, start=1)),
            ),
        )
    )


def _head(lines: Sequence[Timeline], command: str) -> tuple[Fact, ...]:
    """Name the machines, days and code of all sets, and the command that made the page of them."""
    points = [point for line in lines for point in line.points]
    sets = [replace(provenance_of_result(point.result), command="", moments_ms=(point.time_ms,)) for point in points]
    codes = len({point.code for point in points})
    return head_facts([*sets, Provenance(command=command)], f"code: {plural(codes, 'version')}" if codes > 1 else "")


def _section(line: Timeline, id_: str) -> PageSection:
    system = system_words(line.points[-1].result)
    heading = f"{line.name}{f' on {system}' if system else ''}"
    words = partial(in_unit, unit=line.measure.unit)
    ticks = si if line.is_ratio and line.measure.unit != "s" else words
    lead = " ".join(change_sentence(line, change) for change in line.changes) or why_not_judged(line)
    lead = lead or "No change shown."
    codes: dict[str, list[Dot]] = {}
    for at, point in enumerate(line.points):
        ends = None if point.interval is None else (point.interval.low, point.interval.high)
        hint = f"{point.result.label}, {utc(point.time_ms)}: {words(point.value)}; code {point.code}"
        codes.setdefault(f"code {point.code}", []).append(Dot(x=float(at), y=point.value, ends=ends, hint=hint))
    parts = []
    for start, stop in line.parts:
        ends_of = [float(np.mean(line.values[start:stop])) + reach * line.spread for reach in (0.0, -1.96, 1.96)]
        mean, low, high = map(factor_from, ends_of) if line.is_ratio else ends_of
        parts.append((start, stop, mean, low, high))
    days = [utc(point.time_ms)[:10] for point in line.points]
    figure = timeline_figure(
        list(codes.items()),
        parts,
        [(float(at), day) for at, day in enumerate(days) if day not in days[:at]],
        (f"{line.measure.name}, {line.measure.unit}", ticks),
        id_=f"{id_}-chart",
        title=heading,
        description=f"A dot per set, in the order of time. {lead}",
    )
    chart = Chart(figure=figure, lead=lead, table=_table(line, words, f"{id_}-table"))
    return PageSection(id=id_, heading=heading, name=heading, blocks=(chart,))


def _table(line: Timeline, words: partial[str], id_: str) -> Table:
    def bounds(point: Point) -> str | None:
        return interval(words(point.interval.low), words(point.interval.high)) if point.interval else None

    return table_of(
        line.points,
        (
            ("Set", "result.label"),
            ("When (UTC)", lambda point: utc(point.time_ms).removesuffix(" UTC")),
            (numeric(line.measure.name, "mean of the set"), lambda point: words(point.value)),
            (numeric("Interval", "95 %, of times to train at least 90 %"), bounds),
            (numeric("Runs"), "result.num_converged"),
            ("Commit", "commit"),
            ("Code", "code"),
        ),
        id_=id_,
        caption=f"Sets of {line.name}",
    )

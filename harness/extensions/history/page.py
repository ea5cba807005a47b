"""Render the page of a folder's history: its changes, and a chart per benchmark, configuration, system and
quantity."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

import numpy as np
from msgspec import to_builtins

from harness.extensions.history.chart import series_figure
from harness.extensions.history.series import SeriesPoint, SetSeries
from harness.extensions.history.words import (
    METHOD,
    change_blocks,
    change_rows,
    change_sentence,
    headline,
    next_step,
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
    "Series": "Sets that share benchmark, configuration, system and data, put in order of time and compared in one "
    "quantity, such as throughput.",
    "Change": "A jump between two sets that explains the series far better than chance, drift or a steady trend.",
    "Code": "Digest of dlrmbench's source files when the set was measured: the digest changes whenever one of these "
    "files changes, even if the change is not committed.",
    "Interval": "95 % interval of a set's mean over its runs, which are assumed independent; drift from hour to hour "
    "is not included.",
    "Alternately": "Runs of two sets alternate (A/B) with equal seeds, so that drift affects both sets alike.",
    "95 % of sets": "Range of 95 % of the sets between two changes, computed from the spread of the series' sets.",
}
"""Glossary of the history's page: explanations by word."""


def render_history(
    every: Sequence[SetSeries], left_out: Mapping[str, int], *, command: str = "", now: datetime | None = None
) -> str:
    """Return the page of all series (results over time) that `command` asked for, with a chart of each series of at
    least two run sets.

    `left_out` maps the reasons why run sets belong to no series to the numbers of such sets; `now` is the time at
    which the page is written.
    """
    drawn = [series for series in every if len(series.points) > 1]
    num_alone = len(every) - len(drawn)
    alone = f"{num_alone} series of one set {'have' if num_alone > 1 else 'has'} no chart" if num_alone else ""
    reasons = ", ".join(f"{num} {why}" for why, num in left_out.items())
    left = f"{plural(sum(left_out.values()), 'set')} on no series: {reasons}" if left_out else ""
    notes = filter(None, ("; ".join(filter(None, (alone, left))), METHOD))
    changes = (*change_blocks(every), *(Prose(text=note, kind="note") for note in notes))
    return render_html(
        PageView(
            title=headline(every),
            dek="",
            head=(*_head(every, command), *filter(None, (next_step(every, command),))),
            badges=(),
            tags=(),
            groups=(),
            glossary=tuple(Fact(name=word, value=meaning) for word, meaning in TERMS.items()),
            rules=(),
            footnotes=(),
            colophon=colophon(now or datetime.now(UTC)),
            data=embed_json({"changes": to_builtins(change_rows(every))}),
            eyebrow="a history",
            others=(
                PageSection(id="changes", heading="Changes", name="Changes", blocks=changes),
                *(_section(series, f"series{number}") for number, series in enumerate(drawn, start=1)),
            ),
        )
    )


def _head(every: Sequence[SetSeries], command: str) -> tuple[Fact, ...]:
    """Return the lines at the head of the history's page: the machines, days and code versions of all run sets, and
    the command that made the page."""
    points = [point for series in every for point in series.points]
    sets = [replace(provenance_of_result(point.result), command="", moments_ms=(point.time_ms,)) for point in points]
    codes = len({point.code for point in points})
    return head_facts([*sets, Provenance(command=command)], f"code: {plural(codes, 'version')}" if codes > 1 else "")


def _section(series: SetSeries, id_: str) -> PageSection:
    system = system_words(series.points[-1].result)
    heading = f"{series.name}, system '{system}'" if system else series.name
    words = partial(in_unit, unit=series.measure.unit)
    ticks = si if series.is_ratio and series.measure.unit != "s" else words
    lead = " ".join(change_sentence(series, change) for change in series.changes) or why_not_judged(series)
    lead = lead or "No change shown."
    codes: dict[str, list[Dot]] = {}
    for at, point in enumerate(series.points):
        ends = None if point.interval is None else (point.interval.low, point.interval.high)
        hint = f"{point.result.label}, {utc(point.time_ms)}: {words(point.value)}; code version {point.code}"
        codes.setdefault(f"code version {point.code}", []).append(
            Dot(x=float(at), y=point.value, ends=ends, hint=hint)
        )
    parts = []
    for start, stop in series.parts:
        ends_of = [float(np.mean(series.values[start:stop])) + reach * series.spread for reach in (0.0, -1.96, 1.96)]
        mean, low, high = map(factor_from, ends_of) if series.is_ratio else ends_of
        parts.append((start, stop, mean, low, high))
    name, unit = series.measure.name, series.measure.unit
    name = name if name.lower() == unit.lower() else f"{name}, {unit}"
    days = [utc(point.time_ms)[:10] for point in series.points]
    figure = series_figure(
        list(codes.items()),
        parts,
        [(float(at), day) for at, day in enumerate(days) if day not in days[:at]],
        (name, ticks),
        id_=f"{id_}-chart",
        title=heading,
        description=f"A dot per set, in the order of time. {lead}",
    )
    chart = Chart(figure=figure, lead=lead, table=_table(series, words, f"{id_}-table"))
    return PageSection(id=id_, heading=heading, name=heading, blocks=(chart,))


def _table(series: SetSeries, words: partial[str], id_: str) -> Table:
    def bounds(point: SeriesPoint) -> str | None:
        return interval(words(point.interval.low), words(point.interval.high)) if point.interval else None

    return table_of(
        series.points,
        (
            ("Set", "result.label"),
            ("When (UTC)", lambda point: utc(point.time_ms).removesuffix(" UTC")),
            (numeric(series.measure.name, "mean of the set"), lambda point: words(point.value)),
            (numeric("Interval", "95 %, of times to train at least 90 %"), bounds),
            (numeric("Runs"), "result.num_converged"),
            ("Commit", "commit"),
            ("Code", "code"),
        ),
        id_=id_,
        caption=f"Sets of {series.name}",
    )

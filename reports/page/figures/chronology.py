"""From facts to the chart of when each run and attempt was made."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from reports.charts.order import RunSpan, order_figure
from reports.document.blocks import Chart
from reports.facts.facts import SetFacts
from reports.text.formatting import duration, epoch_ms, plural, time_unit

MAX_SPANS = 60
_WHERE = "The table of all runs has each start and status."


@dataclass(frozen=True, kw_only=True, slots=True)
class _Moment:
    """When something was made, in seconds since 1970; `took_s` None is not known."""

    start_s: float
    took_s: float | None
    label: str
    kind: Literal["done", "failed", "unfinished"]


def order_chart(facts: SetFacts, id_: str) -> Chart | None:
    """All runs and attempts on the clock; None when fewer than two starts are known."""
    moments = sorted(_moments(facts), key=lambda moment: moment.start_s)[:MAX_SPANS]
    if len(moments) < 2:
        return None
    first = moments[0].start_s
    extent_s = max(moment.start_s + (moment.took_s or 0.0) for moment in moments) - first
    lead = _lead(moments, extent_s)
    spans = [
        RunSpan(
            label=moment.label,
            start_s=moment.start_s - first,
            stop_s=None if moment.took_s is None else moment.start_s - first + moment.took_s,
            kind=moment.kind,
        )
        for moment in moments
    ]
    title = "Order of the runs"
    description = f"One bar per run or attempt on the clock. {lead}"
    return Chart(
        figure=order_figure(spans, time_unit([extent_s]), id_=id_, title=title, description=description),
        heading=title,
        lead=lead,
        table_note=_WHERE,
    )


def _moments(facts: SetFacts) -> list[_Moment]:
    found = [
        _Moment(
            start_s=run.result.started_ms / 1e3,
            took_s=run.result.time_to_train_s,
            label=f"run {run.label}",
            kind="failed" if run.fate == "failed" else "done",
        )
        for run in facts.runs
        if run.result.started_ms is not None
    ]
    for attempt in facts.unfinished:
        if attempt.record is None:
            continue
        start_ms, stop_ms = epoch_ms(attempt.record.started_utc), epoch_ms(attempt.record.ended_utc)
        if start_ms is not None:
            took_s = None if stop_ms is None else max(stop_ms - start_ms, 0.0) / 1e3
            label = f"run {attempt.run_index}, try {attempt.attempt}"
            found.append(_Moment(start_s=start_ms / 1e3, took_s=took_s, label=label, kind="unfinished"))
    return found


def _lead(moments: list[_Moment], extent_s: float) -> str:
    overlapping = sum(a.took_s is not None and a.start_s + a.took_s > b.start_s for a, b in pairwise(moments))
    gaps = [b.start_s - a.start_s - a.took_s for a, b in pairwise(moments) if a.took_s is not None]
    text = f"{plural(len(moments), 'run or attempt', 'runs and attempts')} within {duration(extent_s)}. "
    if overlapping:
        return text + f"{overlapping} began before the one above had ended."
    return text + (f"None overlap; the longest gap between two is {duration(max(gaps))}." if gaps else "")

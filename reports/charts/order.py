"""Draws the chart of when runs were made: one horizontal bar per run or attempt over clock time, in order of start.

Gaps, overlaps and attempts that left no result help a reader to see whether only favourable runs were kept.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Unpack

from reports.charts import figure, svg
from reports.text.formatting import TimeUnit

_BAR, _GAP, _LEFT = 10.0, 6.0, 92.0
_LEAST_PX = 3.0


@dataclass(frozen=True, kw_only=True, slots=True)
class RunSpan:
    """Start and end of one run or attempt, in seconds since 1970; `stop_s` is None where no end was recorded."""

    label: str
    start_s: float
    stop_s: float | None
    kind: Literal["done", "failed", "unfinished"]


KEYS = (
    figure.LegendKey(mark="span-done", words="run that reached the target"),
    figure.LegendKey(mark="span-failed", words="run that did not"),
    figure.LegendKey(mark="span-unfinished", words="attempt without a result"),
)


def order_figure(spans: Sequence[RunSpan], unit: TimeUnit, **caption: Unpack[figure.Caption]) -> figure.Figure:
    """Draw a bar over clock time for each run or attempt in `spans`, which are sorted by start time."""
    kinds = {span.kind for span in spans}
    keys = [key for key in KEYS if key.mark.removeprefix("span-") in kinds]
    return figure.draw_both(lambda width, id_: _draw(spans, unit, width, id_), keys, **caption)


def _draw(spans: Sequence[RunSpan], unit: TimeUnit, width: float, id_: str) -> figure.Plot:
    first_s = spans[0].start_s
    last = (max(span.stop_s or span.start_s for span in spans) - first_s) / unit.seconds
    x = svg.Scale(0.0, last or 1.0, _LEFT, width - 14)
    bottom = 6 + len(spans) * (_BAR + _GAP)
    marks = [svg.x_axis(x, 2, bottom, f"{unit.name} since the first run started", most=figure.num_ticks(width))]
    names: list[tuple[str, float, float]] = []
    bars: dict[str, list[tuple[float, float, float, float]]] = {}
    for index, span in enumerate(spans):
        top = 6 + index * (_BAR + _GAP)
        left = x((span.start_s - first_s) / unit.seconds)
        right = left if span.stop_s is None else x((span.stop_s - first_s) / unit.seconds)
        names.append((svg.fit(span.label, _LEFT - 10), _LEFT - 8, top + 9.5))
        bars.setdefault(span.kind, []).append((left, top, max(right - left, _LEAST_PX), _BAR))
    if width == figure.WIDE_PX:
        drawn = (svg.boxes(corners, f"span-{kind}") for kind, corners in bars.items())
        marks.append(svg.tag("g", *drawn, id=f"{id_}-curves"))
    else:
        marks.append(figure.reused_curves(id_, x, svg.Scale(0.0, last or 1.0, _LEFT, figure.WIDE_PX - 14)))
    return figure.Plot([*marks, svg.labels(names, "end")], bottom + figure.FOOT_PX, x)

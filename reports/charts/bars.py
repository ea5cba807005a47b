"""Draws charts of stacked horizontal bars: the time of each run, the phases of one training step, and one cost per
row, such as the time per step under each sharding of embedding tables.

The time of a run is split into training, evaluation and everything else, as far as the run's log separates them. The
time of a phase is split into the time that it would take at its roofline ceiling, and the time beyond that.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Unpack

from reports.charts import svg
from reports.charts.figure import FOOT_PX, Caption, Figure, LegendKey, Plot, draw_both, num_ticks
from reports.text.formatting import TimeUnit

_BAR, _GAP, _LEAST_LEFT = 20.0, 8.0, 56.0
PARTS = (
    ("train", "training"),
    ("eval", "evaluation"),
    ("other", "other: before, between and after blocks of steps"),
)
_PHASE_PARTS = (("train", "time at the roofline ceiling"), ("other", "time beyond the ceiling"))


@dataclass(frozen=True, slots=True)
class Bar:
    """Row of a bar chart: lengths of the bar's segments (they add up to its length), and words printed at its end."""

    label: str
    parts: tuple[float, ...]
    words: str


def time_figure(bars: Sequence[Bar], unit: TimeUnit, **caption: Unpack[Caption]) -> Figure:
    """Draw the time to train of each run, or the mean of each configuration's runs, as a stacked bar: seconds of
    training, of evaluation, and of everything else."""
    used = [any(bar.parts[number] > 0 for bar in bars) for number in range(len(PARTS))]
    keys = [key for key, is_used in zip(_keys(PARTS), used, strict=True) if is_used]
    return draw_both(
        lambda width, _: _draw(bars, 1 / unit.seconds, f"time, {unit.name}", width, 130.0), keys, **caption
    )


def phases_figure(bars: Sequence[Bar], **caption: Unpack[Caption]) -> Figure:
    """Draw each phase of a training step as a bar of its share of the step's time, split into the time at the phase's
    roofline ceiling and the time beyond it."""
    keys = _keys(_PHASE_PARTS)
    return draw_both(lambda width, _: _draw(bars, 100.0, "% of the step's time", width, 190.0), keys, **caption)


def cost_figure(
    bars: Sequence[Bar], axis: str, scale: float, bound: tuple[float, str] | None, **caption: Unpack[Caption]
) -> Figure:
    """Draw a bar for each cost, such as the time per step under one sharding of embedding tables. `axis` is the name
    of the axis, which shows bar lengths times `scale`. `bound` is an optional vertical line: its position, in the
    unit of the bar lengths, and its words in the legend."""
    keys = [] if bound is None else [LegendKey(mark="limit", words=bound[1])]
    at = None if bound is None else bound[0]
    return draw_both(lambda width, _: _draw(bars, scale, axis, width, 130.0, at), keys, **caption)


def _keys(parts: Sequence[tuple[str, str]]) -> list[LegendKey]:
    return [LegendKey(mark=f"part-{part}", words=words) for part, words in parts]


def _draw(
    rows: Sequence[Bar], scale: float, axis: str, width: float, note: float, bound: float | None = None
) -> Plot:
    """Draw a row for each bar, on an axis that shows bar lengths times `scale`. On a drawing wider than 600 px, a
    margin of `note` px at the right holds the words of each bar. `bound` is the position of an optional vertical
    line, in the unit of the bar lengths."""
    note = note if width > 600 else 0.0
    longest_name = max((svg.text_width(row.label) for row in rows), default=0.0)
    left = max(_LEAST_LEFT, min(longest_name * svg.BOLD + 12, width / 3))
    x = svg.Scale(0.0, max((sum(row.parts) * scale for row in rows), default=1.0) or 1.0, left, width - note - 12)
    bottom = 8 + len(rows) * (_BAR + _GAP)
    tops = [8 + index * (_BAR + _GAP) for index in range(len(rows))]
    marks = [svg.x_axis(x, 4, bottom, axis, most=num_ticks(width))]
    corners: dict[str, list[tuple[float, float, float, float]]] = {}
    for row, top in zip(rows, tops, strict=True):
        start = 0.0
        for (part, _), extent in zip(PARTS if len(row.parts) > 2 else _PHASE_PARTS, row.parts, strict=True):
            end = start + extent * scale
            if end > start:
                # A hairline of background separates the parts of a bar also without colour.
                corners.setdefault(part, []).append((x(start), top, max(x(end) - x(start) - 1, 0.7), _BAR))
            start = end
    marks += [svg.boxes(corners[part], f"part-{part}") for part, _ in PARTS if part in corners]
    if bound is not None:
        marks.append(svg.line(x(bound * scale), 4, x(bound * scale), bottom, "limit"))
    names = svg.fit_bold_names([row.label for row in rows], left - 11)  # one px in reserve for rounding
    marks.append(svg.labels([(name, left - 8, top + 15) for name, top in zip(names, tops, strict=True)], "end"))
    if note:
        words = [
            (svg.fit(row.words, note), x(sum(row.parts) * scale) + 8, top + 15)
            for row, top in zip(rows, tops, strict=True)
        ]
        marks.append(svg.labels(words))
    return Plot(marks, bottom + FOOT_PX, x)

"""Draws the chart of why one configuration trains slower or faster than the baseline. On a log2 axis, it has a bar
for the time to train, and one for each quantity that determines this time, such as samples to converge."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Unpack

from markupsafe import Markup

from reports.charts import svg
from reports.charts.figure import FOOT_PX, Caption, Figure, LegendKey, Plot, draw_both
from reports.text.formatting import ratio

_ROW, _BAR, _HEAD = 25.0, 13.0, 30.0
_MOST_LOG2, _INDENT, _LEAST_PX = 6.0, 12.0, 44.0
_SHORT = {"no difference shown": "no diff. shown", "below the smallest effect": "below smallest"}
# Round ratios below and above 1 to label on the axis, those far from 1 first.
_TICKS = (
    1024, 0.001, 256, 0.004, 64, 0.016, 16, 0.06, 8, 0.125, 4, 0.25, 2, 0.5, 3, 0.33, 1.5, 0.7, 1.2, 0.8, 0.6,
    1.1, 0.9, 1.05, 0.95, 1.02, 0.98, 1.01, 0.99,
)  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class FactorBar:
    """Bar in a chart of ratios to the baseline: the time to train, or a factor of it, such as throughput.
    `time_ratio` is the time to train divided by the baseline's, or the part of this ratio that the factor causes; a
    value above 1 means slower than the baseline. `low` and `high` are the ends of its interval. Each number is None
    where it is unknown."""

    name: str
    time_ratio: float | None
    low: float | None
    high: float | None
    verdict: str
    is_whole: bool
    is_rejected: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class FactorPanel:
    """Panel of a chart of ratios to the baseline. A panel of one configuration has a bar for the time to train and
    one for each factor of this time, such as throughput. A panel of many configurations has only a bar for the time
    to train of each."""

    label: str
    bars: tuple[FactorBar, ...]


def factors_figure(
    panels: Sequence[FactorPanel], *, interval_name: str = "95 % interval", **caption: Unpack[Caption]
) -> Figure:
    """Draw panels of bars from top to bottom. Either each configuration has a panel, with a bar for the time to train
    and for each of its factors, such as throughput; or a single panel has one bar per configuration."""
    bars = [bar for panel in panels for bar in panel.bars if bar.time_ratio is not None]
    kinds = {_kind(bar) for bar in bars}
    kinds_of_none = ["no difference shown", "inconclusive"]
    if any(bar.verdict == "below the smallest effect" for bar in bars):
        kinds_of_none.insert(1, "below the smallest effect")
    if any(bar.is_rejected for bar in bars):
        kinds_of_none.append("one of the two sets INVALID")
    undecided = ", ".join(kinds_of_none[:-1]) + f" or {kinds_of_none[-1]}"
    names = {"slower": "slower", "faster": "faster", "undecided": undecided}
    keys = [LegendKey(mark=kind, words=words) for kind, words in names.items() if kind in kinds]
    if any(bar.low is not None for panel in panels for bar in panel.bars):
        keys.append(LegendKey(mark="whisker", words=interval_name))
    return draw_both(lambda width, _: _draw(panels, width), keys, **caption)


def _kind(bar: FactorBar) -> str:
    return bar.verdict if bar.verdict in ("slower", "faster") and not bar.is_rejected else "undecided"


def log2_domain(panels: Sequence[FactorPanel]) -> tuple[float, float]:
    """Return the (low, high) of the log2 axis, with some room at both ends. The axis holds 0 (ratio 1, no change),
    all ratios, and the ends of their intervals. An end above 64 or below 1/64 counts as 64 or 1/64."""
    bars = [bar for panel in panels for bar in panel.bars]
    ends = [_log2(end) for bar in bars for end in (bar.low, bar.high) if end is not None]
    found = [0.0, *(math.log2(bar.time_ratio) for bar in bars if bar.time_ratio is not None)]
    found += [max(-_MOST_LOG2, min(end, _MOST_LOG2)) for end in ends]
    low, high = min(found), max(found)
    reach = max(high - low, math.log2(1.04))
    return low - 0.1 * reach, high + 0.1 * reach


def _ticks(scale: svg.Scale) -> list[float]:
    """Choose the time ratios to label on the log2 axis: 1 and, to its left and right, round ratios far enough
    apart."""
    chosen = [1.0]
    for value in _TICKS:
        if not scale.low <= math.log2(value) <= scale.high:
            continue
        at = scale(math.log2(value))
        if all(abs(at - scale(math.log2(other))) >= _LEAST_PX for other in chosen):
            chosen.append(value)
    return sorted(chosen)


def _draw(panels: Sequence[FactorPanel], width: float) -> Plot:
    is_wide = width > 600
    left, right = (190.0, 196.0) if is_wide else (184.0, 76.0)
    if is_wide:  # room for names of configurations, which are longer than names of factors
        longest = max((svg.text_width(bar.name) for panel in panels for bar in panel.bars), default=0.0)
        left = min(max(left, longest + 2 * _INDENT), 330.0)
    low, high = log2_domain(panels)
    x = svg.Scale(low, high, left, width - right)
    top = 22.0
    marks: list[Markup] = []
    heads: list[tuple[float, float]] = []
    for panel, label in zip(panels, svg.fit_bold_names([panel.label for panel in panels], width), strict=True):
        marks.append(svg.text(0, top + 18, label, class_="name halo"))
        heads.append((svg.text_width(label) * svg.BOLD, top))
        top += _HEAD
        names = svg.fit_names([bar.name for bar in panel.bars], left - 8 - _INDENT)
        for bar, name in zip(panel.bars, names, strict=True):
            marks.append(_bar(bar, name, x, top, width, is_wide=is_wide))
            top += _ROW
        top += 8
    ticks = _ticks(x)
    hairlines = "".join(
        f"M{at:.1f} {start:g}V{stop:g}"
        for at in (x(math.log2(tick)) for tick in ticks)
        for start, stop in _beside_heads(at, 22, top, heads)
    )
    zero = x(0.0)
    backdrop = svg.group(
        svg.tag("path", d=hairlines, class_="grid"),
        svg.labels([(f"{tick:.3g}×", x(math.log2(tick)), top + 18) for tick in ticks], "middle"),
        *(svg.line(zero, start, zero, stop, "zero") for start, stop in _beside_heads(zero, 16, top, heads)),
        svg.text(zero - 8, 12, "← faster", class_="axis", anchor="end"),
        svg.text(zero + 8, 12, "slower →", class_="axis"),
        svg.text(x.stop, top + 36, "effect on the time, against the baseline", class_="axis", anchor="end"),
    )
    return Plot([backdrop, *marks], top + FOOT_PX, x)


def _beside_heads(
    at: float, top: float, bottom: float, heads: Sequence[tuple[float, float]]
) -> list[tuple[float, float]]:
    """Return the pieces, as (top, bottom) in px, of a vertical grid line at x = `at` px. The line has gaps where it
    would cross the names of panels; `heads` has the width and the top of each name in px."""
    starts, stops = [top], []
    for width, head in heads:
        if width > at - 4:
            stops.append(head + 6)
            starts.append(head + 23)
    return list(zip(starts, [*stops, bottom], strict=True))


def _bar(bar: FactorBar, words: str, x: svg.Scale, top: float, width: float, *, is_wide: bool) -> Markup:
    middle, weight = top + _ROW / 2, "strong" if bar.is_whole else "label"
    name = svg.text(0 if bar.is_whole else _INDENT, middle + 4.5, words, class_=weight)
    if bar.time_ratio is None:
        return svg.group(name, svg.text(x(0.0) + 8, middle + 4.5, "not known", class_="tick"))
    end, zero = x(math.log2(bar.time_ratio)), x(0.0)
    thick = _BAR + 5 if bar.is_whole else _BAR
    corners = (min(zero, end), middle - thick / 2, max(abs(end - zero), 1.0), thick)
    box = svg.boxes([corners], _kind(bar))
    values: tuple[Markup, ...]
    if is_wide:
        values = (svg.text(width - 186, middle + 4.5, f"{ratio(bar.time_ratio)}  {bar.verdict}", class_=weight),)
    else:
        # On a narrow drawing the verdict's words need a line of their own.
        values = (
            svg.text(width, middle + 0.5, ratio(bar.time_ratio), class_=weight, anchor="end"),
            svg.text(width, middle + 11, _SHORT.get(bar.verdict, bar.verdict), class_="tiny", anchor="end"),
        )
    return svg.group(name, box, _whisker(bar, x, middle), *values)


def _whisker(bar: FactorBar, x: svg.Scale, middle: float) -> Markup:
    """Draw the interval of a bar's ratio as a line, cut off at the ends of the axis."""
    if bar.low is None or bar.high is None:
        return Markup()
    a, b = (min(max(x(_log2(end)), x.start), x.stop) for end in (bar.low, bar.high))
    ends = "".join(f"M{at:.1f} {middle - 4:.1f}v8" for at in (a, b))
    return svg.tag("path", d=f"M{a:.1f} {middle:.1f}H{b:.1f}{ends}", class_="whisker")


def _log2(value: float) -> float:
    return math.log2(value) if 0 < value < math.inf else math.copysign(1e3, value - 1)

"""One quantity over a sweep's first axis; one panel per value of the other axes, all on one scale.

Numbers on the x axis are on a logarithmic scale, other values side by side. Bars are intervals; a cross at
the foot marks a configuration without a value.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Unpack

from markupsafe import Markup

from reports.charts import svg
from reports.charts.figure import Caption, Figure, Key, Plot, draw_both

_HEIGHT = 210.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 62.0, 16.0, 44.0, 44.0
_LEAST_PANEL_PX = 220.0
_REACH = 3.0


@dataclass(frozen=True, kw_only=True, slots=True)
class SweepPoint:
    """One configuration; `value` None has none, and `hint` says why."""

    value: float | None
    low: float | None
    high: float | None
    hint: str


@dataclass(frozen=True, kw_only=True, slots=True)
class SweepPanel:
    """The points over the first axis, in its order, at one value of the other axes (`name`)."""

    name: str
    points: tuple[SweepPoint, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class SweepAxes:
    """The first axis' name and values as written; the quantity's name, and `words` to print its ticks.

    `from_zero`: its lengths compare; not where only differences of the quantity mean anything.
    """

    axis: str
    positions: Sequence[str]
    quantity: str
    words: Callable[[float], str]
    from_zero: bool = True


def sweep_figure(panels: Sequence[SweepPanel], axes: SweepAxes, **caption: Unpack[Caption]) -> Figure:
    """Draw the panels side by side, as many as the page is wide enough for."""
    shown = [point for panel in panels for point in panel.points]
    keys = [Key(mark="dot-counted", words="configuration")]
    if any(point.value is None for point in shown):
        keys.append(Key(mark="dot-failed", words="no value"))
    known = _domain(shown)

    def draw(width: float, _: str) -> Plot:
        num_columns = max(1, min(len(panels), int(width // _LEAST_PANEL_PX)))
        panel_px = width / num_columns
        marks = [
            _panel(panel, axes, known, index % num_columns * panel_px, index // num_columns * _HEIGHT, panel_px)
            for index, panel in enumerate(panels)
        ]
        return Plot(marks, math.ceil(len(panels) / num_columns) * _HEIGHT)

    return draw_both(draw, keys, **caption)


def _domain(points: Sequence[SweepPoint]) -> list[float]:
    """Collect the values and their intervals' ends, the latter at most a factor of 3 beyond all values: two runs have
    intervals so wide that nothing else could be seen."""
    values = [point.value for point in points if point.value is not None and math.isfinite(point.value)]
    if not values:
        return []
    least, most = min(values) / _REACH, max(values) * _REACH
    ends = [end for point in points for end in (point.low, point.high) if end is not None]
    return [*values, *(min(max(end, least), most) for end in ends)]


def _panel(
    panel: SweepPanel, axes: SweepAxes, known: Sequence[float], left: float, top: float, width: float
) -> Markup:
    bottom, start, stop = top + _HEIGHT - _BOTTOM, left + _LEFT, left + width - _RIGHT
    xs = place(axes.positions, start + 12, stop - 20)
    y = _y_scale(known, bottom, top + _TOP, axes.from_zero)
    marks = [svg.text(left, top + 30, svg.fit(axes.quantity, width), class_="axis")]
    if panel.name:
        marks.append(svg.text(left, top + 14, svg.fit(panel.name, width / svg.BOLD), class_="name"))
    if known:
        marks.append(svg.y_axis(y, start, stop, most=5, words=axes.words))
    marks += _x_labels(xs, axes.positions, bottom)
    marks.append(svg.text(stop, bottom + 36, svg.fit(axes.axis, width - _RIGHT), class_="axis", anchor="end"))
    curve = [(x, _at(y, p.value)) for x, p in zip(xs, panel.points, strict=True) if p.value is not None]
    if len(curve) > 1:
        marks.append(svg.polyline(sorted(curve), "curve"))
    marks += [_point(point, x, y, bottom) for x, point in zip(xs, panel.points, strict=True)]
    return svg.group(*marks, class_="hue0")


def _point(point: SweepPoint, x: float, y: svg.AnyScale, bottom: float) -> Markup:
    if point.value is None:
        return svg.group(svg.cross(x, bottom - 8, 5, "dot-failed"), hint=point.hint)
    bar = Markup("")
    if point.low is not None and point.high is not None:
        top, foot = _at(y, point.high), _at(y, point.low)
        bar = svg.rect(x - 5, top, 10, max(foot - top, 1.0), "band")
    return svg.group(bar, svg.circle(x, _at(y, point.value), 4.5, "dot-counted"), hint=point.hint)


def _at(y: svg.AnyScale, value: float) -> float:
    """Place a value; what is beyond the scale is at its end."""
    return y(min(max(value, y.low), y.high))


def _x_labels(xs: Sequence[float], positions: Sequence[str], bottom: float) -> list[Markup]:
    """Write those labels that do not run into one already written, from the left."""
    labels, free_from = [], -math.inf
    for x, text in sorted(zip(xs, positions, strict=True)):
        half = svg.text_width(svg.fit(text, 90.0)) / 2
        if x - half >= free_from:
            labels.append(svg.text(x, bottom + 18, svg.fit(text, 90.0), class_="tick", anchor="middle"))
            free_from = x + half + 8
    return labels


def place(positions: Sequence[str], start: float, stop: float) -> tuple[float, ...]:
    """Place each value: at its logarithm where all are positive numbers, else side by side."""
    numbers = [_number(text) for text in positions]
    values = [math.log(number) for number in numbers if number is not None and 0 < number < math.inf]
    if len(values) != len(positions):
        values = [float(index) for index in range(len(positions))]
    scale = svg.Scale(min(values), max(values), start, stop)
    return tuple(scale(value) for value in values)


def _number(text: str) -> float | None:
    try:
        return float(text.replace("_", ""))
    except ValueError:
        return None


def _y_scale(known: Sequence[float], bottom: float, top: float, from_zero: bool) -> svg.AnyScale:
    """Start at zero, so that lengths compare; a logarithmic scale where the values are far apart."""
    if known and not from_zero:
        margin = 0.06 * (max(known) - min(known)) or 0.01 * abs(known[0])
        return svg.Scale(min(known) - margin, max(known) + margin, bottom, top)
    positive = [value for value in known if value > 0]
    if positive and svg.are_far_apart(positive):
        return svg.LogScale(min(positive) / 1.15, max(positive) * 1.15, bottom, top)
    return svg.Scale(0.0, max(positive, default=1.0) * 1.06, bottom, top)

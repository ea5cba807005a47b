"""One quantity over a sweep's first axis; one panel per value of the other axes, all on one scale.

Numbers on the x axis stand on a logarithmic scale, other values side by side. Bars are 95 % intervals; a cross at
the foot marks a configuration without a value.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from reports.charts import svg
from reports.charts.figure import Figure, Key, draw_both

_HEIGHT = 210.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 62.0, 16.0, 44.0, 44.0
_LEAST_PANEL_PX = 220.0
_REACH = 3.0
_LOG_FROM = 8.0
"""Ratio of largest to smallest value from which the y axis is logarithmic."""


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


def sweep_figure(
    panels: Sequence[SweepPanel],
    positions: Sequence[str],
    *,
    axis: str,
    quantity: str,
    words: Callable[[float], str],
    id_: str,
    title: str,
    description: str,
) -> Figure:
    """`positions` are the first axis' values as written; `words` prints the quantity's ticks."""
    shown = [point for panel in panels for point in panel.points]
    keys = [Key(mark="dot-counted", words="configuration")]
    if any(point.value is None for point in shown):
        keys.append(Key(mark="dot-failed", words="no value"))
    return draw_both(
        lambda width, drawn_id: _draw(panels, positions, axis, quantity, words, width, drawn_id, title, description),
        id_=id_,
        title=title,
        description=description,
        keys=tuple(keys),
    )


def _draw(
    panels: Sequence[SweepPanel],
    positions: Sequence[str],
    axis: str,
    quantity: str,
    words: Callable[[float], str],
    width: float,
    id_: str,
    title: str,
    description: str,
) -> Markup:
    num_columns = max(1, min(len(panels), int(width // _LEAST_PANEL_PX)))
    panel_px = width / num_columns
    known = _domain([point for panel in panels for point in panel.points])
    marks: list[Markup] = []
    for index, panel in enumerate(panels):
        left, top = index % num_columns * panel_px, index // num_columns * _HEIGHT
        marks.append(_panel(panel, positions, axis, quantity, words, known, left, top, panel_px))
    rows = math.ceil(len(panels) / num_columns)
    return svg.drawing(*marks, width=width, height=rows * _HEIGHT, id_=id_, title=title, description=description)


def _domain(points: Sequence[SweepPoint]) -> list[float]:
    """The values and their intervals' ends, the latter at most a factor of 3 beyond all values: two runs have
    intervals so wide that nothing else could be seen."""
    values = [point.value for point in points if point.value is not None and math.isfinite(point.value)]
    if not values:
        return []
    least, most = min(values) / _REACH, max(values) * _REACH
    ends = [end for point in points for end in (point.low, point.high) if end is not None]
    return [*values, *(min(max(end, least), most) for end in ends)]


def _panel(
    panel: SweepPanel,
    positions: Sequence[str],
    axis: str,
    quantity: str,
    words: Callable[[float], str],
    known: Sequence[float],
    left: float,
    top: float,
    width: float,
) -> Markup:
    bottom, start, stop = top + _HEIGHT - _BOTTOM, left + _LEFT, left + width - _RIGHT
    xs = place(positions, start + 12, stop - 20)
    marks: list[Markup] = [svg.text(left, top + 30, svg.fit(quantity, width), class_="axis")]
    if panel.name:
        marks.append(svg.text(left, top + 14, svg.fit_bold(panel.name, width), class_="name"))
    y = _y_scale(known, bottom, top + _TOP)
    ticks = y.ticks
    marks.append(
        svg.tag("path", d="".join(f"M{start:.1f} {y(t):.1f}H{stop:.1f}" for t in ticks), class_="grid")
        if ticks
        else Markup("")
    )
    marks += [svg.text(start - 8, y(tick) + 4, words(tick), class_="tick", anchor="end") for tick in ticks]
    marks += _x_labels(xs, positions, bottom)
    marks.append(svg.text(stop, bottom + 36, svg.fit(axis, width - _RIGHT), class_="axis", anchor="end"))
    curve = [(x, y(p.value)) for x, p in zip(xs, panel.points, strict=True) if p.value is not None]
    if len(curve) > 1:
        marks.append(svg.polyline(sorted(curve), "curve"))
    marks += [_point(point, x, y, bottom) for x, point in zip(xs, panel.points, strict=True)]
    return svg.group(*marks, class_="hue0")


def _point(point: SweepPoint, x: float, y: "_YScale", bottom: float) -> Markup:
    if point.value is None:
        return svg.group(svg.cross(x, bottom - 8, 5, "dot-failed"), hint=point.hint)
    bar = Markup("")
    if point.low is not None and point.high is not None:
        top, foot = y(point.high), y(point.low)
        bar = svg.rect(x - 5, top, 10, max(foot - top, 1.0), "band")
    return svg.group(bar, svg.circle(x, y(point.value), 4.5, "dot-counted"), hint=point.hint)


def _x_labels(xs: Sequence[float], positions: Sequence[str], bottom: float) -> list[Markup]:
    """Those labels that do not run into one already written, from the left."""
    labels, free_from = [], -math.inf
    for x, text in sorted(zip(xs, positions, strict=True)):
        half = svg.text_width(svg.fit(text, 90.0)) / 2
        if x - half >= free_from:
            labels.append(svg.text(x, bottom + 18, svg.fit(text, 90.0), class_="tick", anchor="middle"))
            free_from = x + half + 8
    return labels


def place(positions: Sequence[str], start: float, stop: float) -> tuple[float, ...]:
    """Where each value stands: at its logarithm where all are positive numbers, else side by side."""
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


@dataclass(frozen=True, slots=True)
class _YScale:
    """Linear from zero, or logarithmic; `ticks` are round values inside."""

    scale: svg.Scale
    ticks: tuple[float, ...]
    is_log: bool

    def __call__(self, value: float) -> float:
        """Values beyond the scale stand at its end."""
        at = (math.log10(value) if value > 0 else self.scale.low) if self.is_log else value
        return self.scale(min(max(at, self.scale.low), self.scale.high))


def _y_scale(known: Sequence[float], bottom: float, top: float) -> _YScale:
    positive = [value for value in known if value > 0]
    if not positive:
        return _YScale(svg.Scale(0.0, 1.0, bottom, top), (), False)
    low, high = min(positive), max(positive)
    if high / low < _LOG_FROM:
        scale = svg.Scale(0.0, high * 1.06, bottom, top)
        return _YScale(scale, scale.ticks(5), False)
    scale = svg.Scale(math.log10(low / 1.15), math.log10(high * 1.15), bottom, top)
    steps = (1, 2, 5) if high / low < 100 else (1,) if high / low > 1e4 else (1, 3)
    powers = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 1)
    ticks = [step * 10.0**power for power in powers for step in steps]
    return _YScale(scale, tuple(tick for tick in ticks if low / 1.15 <= tick <= high * 1.15), True)

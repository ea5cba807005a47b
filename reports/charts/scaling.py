"""One quantity over ranks or over a link's speed: a line per series, a dot per configuration."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Unpack

from markupsafe import Markup

from reports.charts import svg
from reports.charts.figure import Caption, Figure, Key, Plot, draw_both, hue, num_ticks

_SMALL = (300.0, 200.0)
_HEIGHT = 260.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Dot:
    """One configuration."""

    x: float
    y: float
    hint: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Series:
    """Configurations that differ in nothing but x, in its order."""

    name: str
    hue: int
    dots: tuple[Dot, ...]
    is_joined: bool = True
    """By a line; dots that follow nothing are alone."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Axes:
    """Names and ticks. `places` are x values to mark, where round numbers would mean nothing."""

    x_name: str
    y_name: str
    x_words: Callable[[float], str]
    y_words: Callable[[float], str]
    places: tuple[float, ...] = ()
    reference: float | None = None
    reference_words: str = ""
    """Written above the line at `reference`."""


def small_scaling(series: Sequence[Series], axes: Axes, *, id_: str, description: str) -> Markup:
    """Draw one of several drawings side by side."""
    width, height = _SMALL
    plot = _draw(series, axes, width, height, 56.0)
    return plot.drawn(width, id_=id_, title=axes.y_name, description=description)


def scaling_legend(series: Sequence[Series], *, id_: str) -> Markup:
    """Name the lines, as one more of the drawings."""
    width, height = _SMALL
    marks: list[Markup] = [svg.text(0, 13, "Lines", class_="axis")]
    names = svg.fit_names([line.name for line in series], width - 38)
    for number, (name, line) in enumerate(zip(names, series, strict=True)):
        at = 36.0 + 30.0 * number
        mark = (svg.line(4, at, 30, at, "curve"), svg.circle(17, at, 4.5, "dot-counted"))
        words = svg.text(38, at + 4, name)
        marks.append(svg.group(*mark, words, class_=hue(line.hue), hint=line.name))
    about = f"Names of the lines: {'; '.join(line.name for line in series)}"
    return Plot(marks, height).drawn(width, id_=id_, title="Lines", description=about)


def link_figure(series: Sequence[Series], axes: Axes, **caption: Unpack[Caption]) -> Figure:
    """Draw one quantity as large as the other charts."""
    keys = [Key(mark="dot-counted", words=line.name, hue=hue(line.hue)) for line in series]
    return draw_both(lambda width, _: _draw(series, axes, width, _HEIGHT, 62.0), keys, **caption)


def _draw(series: Sequence[Series], axes: Axes, width: float, height: float, left: float) -> Plot:
    dots = [dot for line in series for dot in line.dots]
    bottom, right = height - 42, width - 14
    levels = [dot.y for dot in dots] + ([axes.reference] if axes.reference is not None else [])
    y = _from_zero(levels, bottom, 30.0)
    # Twice the ranks, or twice the speed, is one step.
    x = svg.LogScale(min(dot.x for dot in dots) / 1.15, max(dot.x for dot in dots) * 1.15, left, right)
    marks = [
        svg.text(0, 13, svg.fit(axes.y_name, width), class_="axis"),
        svg.y_axis(y, left, right, most=5, words=axes.y_words),
    ]
    if axes.places:
        marks += [
            svg.text(x(at), bottom + 18, axes.x_words(at), class_="tick", anchor="middle") for at in axes.places
        ]
        marks.append(svg.text(right, bottom + 36, axes.x_name, class_="axis", anchor="end"))
    else:
        marks.append(svg.x_axis(x, 22.0, bottom, axes.x_name, most=num_ticks(width), words=axes.x_words))
    if axes.reference is not None:
        at = y(axes.reference)
        marks.append(svg.line(left, at, right, at, "reference"))
        if axes.reference_words:
            marks.append(svg.text(left + 4, at - 5, svg.fit(axes.reference_words, right - left), class_="axis"))
    for line in series:
        places = [(x(dot.x), y(dot.y)) for dot in line.dots]
        curve = [svg.polyline(places, "curve")] if len(places) > 1 and line.is_joined else []
        spots = [
            svg.group(svg.circle(*place, 4.5, "dot-counted"), hint=dot.hint)
            for place, dot in zip(places, line.dots, strict=True)
        ]
        marks.append(svg.group(*curve, *spots, class_=hue(line.hue)))
    return Plot(marks, height, x, y)


def _from_zero(values: Sequence[float], start: float, stop: float) -> svg.AnyScale:
    """Start at 0, so that lengths compare; a logarithmic scale where the values differ by a factor of 8 or more."""
    if svg.are_far_apart(values):
        return svg.value_scale(values, start, stop)
    return svg.Scale(0.0, max(values) * 1.1, start, stop)

"""One quantity over ranks or over a link's speed: a line per series, a dot per configuration."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from reports.charts import svg
from reports.charts.figure import Figure, Key, draw_both, hue

_LOG_FROM = 8.0
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


@dataclass(frozen=True, kw_only=True, slots=True)
class Axes:
    """Names and ticks. `places` are x values to mark, where round numbers would mean nothing."""

    x_name: str
    y_name: str
    x_words: Callable[[float], str]
    y_words: Callable[[float], str]
    places: tuple[float, ...] = ()
    reference: float | None = None


def small_scaling(series: Sequence[Series], axes: Axes, *, id_: str, description: str) -> Markup:
    """One of several drawings side by side."""
    return _draw(series, axes, *_SMALL, 56.0, id_, axes.y_name, description)


def scaling_legend(series: Sequence[Series], *, id_: str) -> Markup:
    """The names of the lines, as one more of the drawings."""
    marks: list[Markup] = [svg.text(0, 13, "Lines", class_="axis")]
    for number, entry in enumerate(series):
        at = 36.0 + 30.0 * number
        mark = (svg.line(4, at, 30, at, "curve"), svg.circle(17, at, 4.5, "dot-counted"))
        words = svg.text(38, at + 4, svg.fit(entry.name, _SMALL[0] - 38))
        marks.append(svg.group(*mark, words, class_=hue(entry.hue), hint=entry.name))
    about = f"Names of the lines: {'; '.join(entry.name for entry in series)}"
    width, height = _SMALL
    return svg.drawing(*marks, width=width, height=height, id_=id_, title="Lines", description=about)


def link_figure(series: Sequence[Series], axes: Axes, *, id_: str, title: str, description: str) -> Figure:
    return draw_both(
        lambda width, drawn_id: _draw(series, axes, width, _HEIGHT, 62.0, drawn_id, title, description),
        id_=id_,
        title=title,
        description=description,
        keys=tuple(Key(mark="dot-counted", words=entry.name, hue=hue(entry.hue)) for entry in series),
    )


def _draw(
    series: Sequence[Series],
    axes: Axes,
    width: float,
    height: float,
    left: float,
    id_: str,
    title: str,
    description: str,
) -> Markup:
    dots = [dot for entry in series for dot in entry.dots]
    bottom, right = height - 42, width - 14
    y = _from_zero([dot.y for dot in dots] + ([axes.reference] if axes.reference is not None else []), bottom, 30.0)
    x = _x_scale([dot.x for dot in dots], left, right)
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
        marks.append(svg.x_axis(x, 22.0, bottom, axes.x_name, most=8 if width > 600 else 4, words=axes.x_words))
    if axes.reference is not None:
        marks.append(svg.line(left, y(axes.reference), right, y(axes.reference), "reference"))
    marks += [_series(entry, x, y) for entry in series]
    return svg.drawing(*marks, width=width, height=height, id_=id_, title=title, description=description, x=x, y=y)


def _series(entry: Series, x: svg.AnyScale, y: svg.AnyScale) -> Markup:
    line = [svg.polyline([(x(dot.x), y(dot.y)) for dot in entry.dots], "curve")] if len(entry.dots) > 1 else []
    dots = [svg.group(svg.circle(x(dot.x), y(dot.y), 4.5, "dot-counted"), hint=dot.hint) for dot in entry.dots]
    return svg.group(*line, *dots, class_=hue(entry.hue))


def _x_scale(values: Sequence[float], start: float, stop: float) -> svg.AnyScale:
    """Logarithmic: twice the ranks, or twice the speed, is one step."""
    return svg.LogScale(min(values) / 1.15, max(values) * 1.15, start, stop)


def _from_zero(values: Sequence[float], start: float, stop: float) -> svg.AnyScale:
    """Linear from 0, so that lengths compare; logarithmic where the values differ by a factor of 8 or more."""
    if min(values) > 0 and max(values) / min(values) >= _LOG_FROM:
        return svg.value_scale(values, start, stop)
    return svg.Scale(0.0, max(values) * 1.1, start, stop)

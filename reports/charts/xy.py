"""Draws x-y charts: dots, curves, bands and horizontal lines on two scales, in a single plot, in panels side by side,
or small."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Unpack

from markupsafe import Markup

from reports.charts import svg
from reports.charts.figure import FOOT_PX, WIDE_PX, Caption, Figure, LegendKey, Plot, draw_both, hue, reused_curves

SMALL_PX = 300.0
_RIGHT_PX = 14.0
_HEAD_PX, _NAME_PX = 26.0, 18.0
_LEAST_PANEL_PX = 220.0
_LAW_POINTS = 48

Place = tuple[float, float]
MakeScale = Callable[[float, float], svg.Scale]
"""Function that makes the scale of an axis from the positions of its two ends in px."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Dot:
    """Dot of an x-y chart. Where `y` is None, a cross at the bottom is drawn. `ends` are the two ends of the interval
    of `y`. Where `y` is an average over random seeds, `seeds` has the value of each seed."""

    x: float
    y: float | None
    hint: str = ""
    ends: tuple[float, float] | None = None
    seeds: tuple[float, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Series:
    """Series of an x-y chart: dots of one colour, joined by a line in the order of x, or by the curve of the fitted
    function `law`."""

    name: str = ""
    hue: int = 0
    dots: Sequence[Dot]
    is_joined: bool = True
    law: Callable[[float], float] | None = None
    mark: str = "dot-counted"
    radius: float = 4.5


@dataclass(frozen=True, kw_only=True, slots=True)
class Curve:
    """Curve of one run in an x-y chart: its points in order, and how the run ended (`fate`). The curve ends in a
    cross if `fate` is 'failed', and in a dot for any other text. If `fate` is '', the curve has no mark at its end,
    except that a curve of a single point is drawn as a dot."""

    hue: int
    points: tuple[Place, ...]
    fate: str = ""
    hint: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class ChartAxis:
    """Axis of an x-y chart: name, function that makes the scale, and format of tick labels. `places` are the values
    to label instead of round values."""

    name: str
    scale: MakeScale
    words: Callable[[float], str] | None = None
    places: Sequence[tuple[float, str]] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Panel:
    """Panel of an x-y chart: one pair of axes, and the marks in it, drawn from back to front in this order:

    - `lines`: curves and outlines of bands, each with the CSS class of its path.
    - `target`: the y value of a horizontal line.
    - `curves`: the quality curves of runs, only in a chart of one panel.
    - `series`: dots.
    - `over`: a function that makes the last marks from the x and y scales.
    """

    x: ChartAxis
    y: ChartAxis
    name: str = ""
    lines: Sequence[tuple[str, Sequence[Place]]] = ()
    curves: Sequence[Curve] = ()
    series: Sequence[Series] = ()
    target: float | None = None
    target_words: str = ""
    over: Callable[[svg.Scale, svg.Scale], Sequence[Markup]] | None = None
    height: float = 260.0
    left: float = 62.0
    """Width, in px, left of the plot for the labels of the y axis."""


def xy_figure(
    *panels: Panel, keys: Sequence[LegendKey] = (), same_as: str | None = None, **caption: Unpack[Caption]
) -> Figure:
    """Draw x-y panels of equal height side by side, as many in a row as the page is wide enough for.

    `keys` are the legend's entries, by default one for each series. `same_as` is the id of another figure on the page
    whose curves lie at the same pixels; its curves are then reused.
    """
    height = panels[0].height
    keys = keys or [
        LegendKey(mark=each.mark, words=each.name, hue=hue(each.hue)) for panel in panels for each in panel.series
    ]

    def draw(width: float, id_: str) -> Plot:
        columns = max(1, min(len(panels), int(width // _LEAST_PANEL_PX)))
        plots = [_plot(panel, width / columns, id_, same_as) for panel in panels]
        if len(plots) == 1:
            return plots[0]
        marks = []
        for number, plot in enumerate(plots):
            place = f"translate({number % columns * width / columns:g} {number // columns * height:g})"
            marks.append(svg.tag("g", *plot.marks, transform=place))
        return Plot(marks, math.ceil(len(panels) / columns) * height)

    return draw_both(draw, keys, **caption)


def small_drawing(panel: Panel, **caption: Unpack[Caption]) -> Markup:
    """Draw an x-y panel SMALL_PX wide, for a row of small charts side by side."""
    return _plot(panel, SMALL_PX, caption["id_"], None).drawn(SMALL_PX, **caption)


def up_to(last: float) -> MakeScale:
    """Return the function that makes the scale of a linear axis from 0 to slightly more than `last`."""
    return partial(svg.Scale, 0.0, last * 1.02 or 1.0)


def from_zero(values: Sequence[float]) -> MakeScale:
    """Return the function that makes the scale of an axis: logarithmic where the largest value is at least 8 times
    the smallest, else linear from 0, so that heights can be compared."""
    if values and svg.are_far_apart(values):
        return partial(svg.value_scale, values)
    return partial(svg.Scale, 0.0, max(values, default=1.0) * 1.1)


def factor_around(values: Sequence[float], factor: float) -> MakeScale:
    """Return the function that makes the scale of a logarithmic axis, from the smallest (positive) value divided by
    `factor` to the largest times `factor`."""
    return partial(svg.LogScale, min(values) / factor, max(values) * factor)


def _plot(panel: Panel, width: float, id_: str, same_as: str | None) -> Plot:
    top = _HEAD_PX + (_NAME_PX if panel.name and panel.y.name else 0.0)
    bottom = panel.height - (FOOT_PX if panel.x.name else 24.0)
    start, stop = panel.left, width - _RIGHT_PX
    x, y = panel.x.scale(start, stop), panel.y.scale(bottom, top)
    is_cut = any(at < y.low for curve in panel.curves for _, at in curve.points)
    clip = svg.rect(start, 0, width - start, bottom, "clip")
    marks = [
        *([svg.tag("clipPath", clip, id=f"{id_}-clip")] if is_cut else []),
        *_axes(panel, x, y, width, top - 8),
        *(svg.polyline([(x(a), y(b)) for a, b in points], class_) for class_, points in panel.lines),
    ]
    if panel.target is not None:
        marks.append(svg.line(start, y(panel.target), stop, y(panel.target), "target"))
    if panel.curves:
        shown = _curves(panel, x, y, width, id_, same_as)
        marks.append(svg.tag("g", shown, clip_path=f"url(#{id_}-clip)") if is_cut else shown)
    marks += [svg.group(*_series(each, x, y), class_=hue(each.hue)) for each in panel.series]
    for curve in panel.curves:
        if curve.fate == "failed" and curve.points:
            end, value = curve.points[-1]
            marks.append(svg.group(svg.cross(x(end), y(value), 5), class_=hue(curve.hue)))
    if panel.target is not None and panel.target_words:
        marks.append(svg.text(start + 6, y(panel.target) - 7, panel.target_words, class_="strong halo"))
    return Plot([*marks, *(panel.over(x, y) if panel.over else ())], panel.height, x, y)


def _axes(panel: Panel, x: svg.Scale, y: svg.Scale, width: float, top: float) -> list[Markup]:
    """Draw the x and y axes of a panel; names stand above the y axis and at the right end of the x axis."""
    places = [(x(value), svg.fit(words, 90.0)) for value, words in panel.x.places]
    places = sorted(places) or svg.placed_ticks(x, 11 if width > 600 else 5, panel.x.words)
    free_from, labelled, stop = -math.inf, [], width - _RIGHT_PX
    for at, words in places:
        half = svg.text_width(words) / 2
        if at - half >= free_from:
            labelled.append((at, words))
            free_from = at + half + 6
    num_ticks = max(5, math.ceil((y.start - y.stop) / 44))
    marks = [
        svg.x_axis_at(labelled, top, y.start, stop, svg.fit(panel.x.name, stop)),
        svg.y_axis(y, panel.left, stop, most=num_ticks, words=panel.y.words),
    ]
    if panel.name:
        marks.append(svg.text(0, 13, svg.fit(panel.name, width / svg.BOLD), class_="name"))
    return [*marks, svg.text(0, top - 6, svg.fit(panel.y.name, width), class_="axis")] if panel.y.name else marks


def _curves(panel: Panel, x: svg.Scale, y: svg.Scale, width: float, id_: str, same_as: str | None) -> Markup:
    """Draw the curves of a panel. A figure is drawn twice, wide and narrow. The wide drawing holds the curves; the
    narrow one refers to them and squeezes them to its own width. If `same_as` is given, it is the id of a figure with
    equal curves, and both drawings refer to that figure's curves."""
    if width == SMALL_PX:
        return Markup().join(_runs(panel.curves, x, y))
    if width == WIDE_PX:
        return (
            svg.tag("g", *_runs(panel.curves, x, y), id=f"{id_}-curves")
            if same_as is None
            else svg.tag("use", href=f"#{same_as}-w-curves")
        )
    wide_x = panel.x.scale(panel.left, WIDE_PX - _RIGHT_PX)
    return reused_curves(id_ if same_as is None else f"{same_as}-n", x, wide_x)


def _runs(curves: Sequence[Curve], x: svg.Scale, y: svg.Scale) -> Iterator[Markup]:
    """Draw the curves of runs, grouped by colour, with a dot at the end of each run that did not fail. The dots of
    one colour are a single SVG path with round line caps, because line caps stay round where the narrow drawing
    squeezes the curves; circles would become ellipses."""
    by_hue: dict[int, list[Curve]] = {}
    for curve in curves:
        if curve.points:
            by_hue.setdefault(curve.hue, []).append(curve)
    for number, some in by_hue.items():
        ends = [
            curve.points[-1] for curve in some if curve.fate != "failed" and (curve.fate or len(curve.points) == 1)
        ]
        path = svg.tag("path", d=svg.spots([(x(a), y(b)) for a, b in ends]), class_="ends") if ends else Markup()
        yield svg.group(*(_run(curve, x, y) for curve in some), path, class_=hue(number))


def _run(curve: Curve, x: svg.Scale, y: svg.Scale) -> Markup:
    points = [(x(a), y(b)) for a, b in curve.points]
    # Points below the y axis are left out, except the last of them, from which the line enters the plot.
    first = next((number for number, (_, at) in enumerate(points) if at <= y.start), len(points) - 1)
    class_ = "curve failed" if curve.fate == "failed" else "curve"
    return svg.tag("path", *svg.hints(curve.hint), d=svg.path_data(points[max(first - 1, 0) :]), class_=class_)


def _series(series: Series, x: svg.Scale, y: svg.Scale) -> Iterator[Markup]:
    """Draw one series: the line or fitted law through its dots, then the dots; values outside the y scale are drawn
    at its end."""

    def at(value: float) -> float:
        return y(min(max(value, y.low), y.high))

    known = sorted((dot.x, dot.y) for dot in series.dots if dot.y is not None)
    if series.law is not None:
        (low, _), (high, _) = known[0], known[-1]
        steps = [low * (high / low) ** (number / (_LAW_POINTS - 1)) for number in range(_LAW_POINTS)]
        known = [(step, series.law(step)) for step in steps]
    if len(known) > 1 and (series.is_joined or series.law is not None):
        yield svg.polyline([(x(a), at(b)) for a, b in known], "curve")
    for dot in series.dots:
        place = x(dot.x)
        if dot.y is None:
            yield svg.group(svg.cross(place, y.start - 8, 5), hint=dot.hint)
            continue
        marks = [svg.circle(place, at(seed), 1.8, series.mark) for seed in dot.seeds]
        if dot.ends is not None:
            low, high = map(at, dot.ends)
            marks.append(svg.rect(place - 5, high, 10, max(low - high, 1.0), "band"))
        yield svg.group(*marks, svg.circle(place, at(dot.y), series.radius, series.mark), hint=dot.hint)

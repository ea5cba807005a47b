"""Draws charts of a sweep: a quantity over one varied setting, with a panel per combination of the other varied
settings' values. Draws charts of scaling laws as well.

The x axis is logarithmic where all values of the setting are positive numbers; otherwise the values stand side by
side. Vertical bars are intervals; a cross at the bottom marks a configuration without a value.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Unpack

from reports.charts import svg
from reports.charts.figure import Caption, Figure, LegendKey
from reports.charts.xy import ChartAxis, Dot, Panel, Series, factor_around, from_zero, xy_figure

_REACH = 3.0


def sweep_figure(
    panels: Sequence[tuple[str, Sequence[Dot]]],
    axis: tuple[str, Sequence[str]],
    quantity: tuple[str, Callable[[float], str]],
    *,
    is_ratio: bool = True,
    **caption: Unpack[Caption],
) -> Figure:
    """Draw one panel for each name in `panels`, with dots of a quantity over the swept setting `axis`. `axis` is the
    setting's name and its values as text; the function `places` returns the x position of a value.

    `quantity` is the name of the y axis and the function that formats its tick labels. With `is_ratio`, ratios of the
    quantity's values have a meaning, and the y axis starts at 0 or is logarithmic. Otherwise only differences have a
    meaning, and the y axis covers only the range of the values.
    """
    shown = [dot for _, dots in panels for dot in dots]
    keys = [LegendKey(mark="dot-counted", words="configuration")]
    if any(dot.y is None for dot in shown):
        keys.append(LegendKey(mark="dot-failed", words="no value"))
    known, (x_name, positions), (y_name, words) = _domain(shown), axis, quantity
    scale = position_scale(positions)
    labels = list(zip(places(positions), positions, strict=True))
    x = ChartAxis(name=x_name, scale=lambda start, stop: scale(start + 12, stop - 20), places=labels)
    differing = partial(svg.Scale, *svg.padded(known)) if known else None
    y_scale = differing if differing and not is_ratio else from_zero([value for value in known if value > 0])
    y = ChartAxis(name=y_name, scale=y_scale, words=words)
    return xy_figure(
        *(Panel(x=x, y=y, name=name, series=[Series(dots=dots)], height=210.0) for name, dots in panels),
        keys=keys,
        **caption,
    )


def _domain(dots: Sequence[Dot]) -> list[float]:
    """Return the y values that the axis must hold: the values of the dots, and the ends of their intervals. Ends are
    cut to a third of the smallest value and to three times the largest, so that the wide interval of a configuration
    with two runs does not fill the chart."""
    values = [dot.y for dot in dots if dot.y is not None and math.isfinite(dot.y)]
    if not values:
        return []
    least, most = min(values) / _REACH, max(values) * _REACH
    return [*values, *(min(max(end, least), most) for dot in dots if dot.ends for end in dot.ends)]


def places(positions: Sequence[str]) -> tuple[float, ...]:
    """Return the x position of each value of a swept setting: the value itself where all are positive numbers, else
    0, 1, 2 …."""
    numbers = [_number(text) for text in positions]
    known = [number for number in numbers if number is not None and 0 < number < math.inf]
    return tuple(known if len(known) == len(positions) else map(float, range(len(positions))))


def position_scale(positions: Sequence[str]) -> Callable[[float, float], svg.Scale]:
    """Return the function that makes the x scale of a swept setting: logarithmic where all its values are positive
    numbers, else linear."""
    xs = places(positions)
    return partial(svg.Scale if 0.0 in xs else svg.LogScale, min(xs), max(xs))


def _number(text: str) -> float | None:
    try:
        return float(text.replace("_", ""))
    except ValueError:
        return None


def law_figure(series: Sequence[Series], **caption: Unpack[Caption]) -> Figure:
    """Draw scaling laws: normalised entropy over training FLOP, a dot per model size and the fitted law as a curve.

    All models share the axes, and training FLOP is logarithmic; each curve spans the sizes that it was fitted to.
    """
    dots = [dot for line in series for dot in line.dots]
    values = [value for dot in dots for value in (dot.y, *dot.seeds) if value is not None]
    panel = Panel(
        x=ChartAxis(name="training FLOP, computed", scale=factor_around([dot.x for dot in dots], 1.3)),
        y=ChartAxis(name="Normalised entropy", scale=partial(svg.Scale, *svg.padded(values, 0.08))),
        series=series,
        height=320.0,
    )
    return xy_figure(panel, **caption)

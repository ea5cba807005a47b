"""Draw a series of run sets over time: a dot for each set, coloured by version of the code. Between two changes of
the mean, the mean and the spread are drawn."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Unpack

from reports.charts import svg
from reports.charts.figure import Caption, Figure, LegendKey, hue
from reports.charts.xy import ChartAxis, Dot, Panel, Series, xy_figure

_MOST_NAMED = 5
"""Maximum number of versions of the code that a chart's legend names; with more, versions share colours."""


def series_figure(
    codes: Sequence[tuple[str, Sequence[Dot]]],
    parts: Sequence[tuple[int, int, float, float, float]],
    days: Sequence[tuple[float, str]],
    axis: tuple[str, Callable[[float], str]],
    **caption: Unpack[Caption],
) -> Figure:
    """Return a chart of a series of run sets over time, with a dot for each set. `codes` maps the name of each
    version of the code to its dots. `days` are labels of the x axis with their positions.

    `parts` are the parts into which detected changes divide the series. Each part is a tuple: index of the first run
    set, index after the last, mean, low end of the spread, high end of the spread. `axis` has the name of the
    quantity, and the function that writes its values at ticks.
    """
    dots = [dot for _, some in codes for dot in some]
    values = [dot.y for dot in dots if dot.y is not None] + [end for part in parts for end in part[3:]]
    least, most, extent = min(values), max(values), max(values) - min(values)
    # Few runs have intervals so wide that nothing else could be seen.
    values += [min(max(end, least - extent), most + extent) for dot in dots for end in dot.ends or ()]
    lines: list[tuple[str, Sequence[tuple[float, float]]]] = []
    for start, stop, mean, low, high in parts:
        a, b = start - 0.4, stop - 0.6
        lines += [
            ("reference-band", [(a, low), (b, low), (b, high), (a, high)]),
            ("reference", [(a, mean), (b, mean)]),
        ]
    panel = Panel(
        x=ChartAxis(
            name="sets in the order of time, UTC",
            places=days,
            scale=lambda start, stop: svg.Scale(-0.5, len(dots) - 0.5, start, stop - 20),
        ),
        y=ChartAxis(name=axis[0], scale=partial(svg.Scale, *svg.padded(values, 0.08)), words=axis[1]),
        lines=lines,
        series=[Series(hue=at % _MOST_NAMED, dots=some, is_joined=False) for at, (_, some) in enumerate(codes)],
        over=lambda x, y: [
            svg.line(x(part[0] - 0.5), y.stop, x(part[0] - 0.5), y.start, "limit") for _, part in pairwise(parts)
        ],
    )
    named = [name for name, _ in codes] if len(codes) <= _MOST_NAMED else ["a set, its colour by code version"]
    keys = [LegendKey(mark="dot-counted", words=words, hue=hue(at)) for at, words in enumerate(named)]
    keys += [
        LegendKey(mark="reference", words="mean of the sets between changes"),
        LegendKey(mark="reference-band", words="range of 95 % of the sets of one code version"),
        *([LegendKey(mark="limit", words="change")] if len(parts) > 1 else ()),
    ]
    return xy_figure(panel, keys=keys, **caption)

"""Draws the roofline chart: FLOP/s over FLOP per byte, both logarithmic, under ceilings measured on the same
system."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, Unpack

from markupsafe import Markup

from reports.charts import svg
from reports.charts.figure import Caption, Figure, LegendKey
from reports.charts.xy import ChartAxis, Dot, Panel, Series, xy_figure
from reports.text.formatting import si

_LABEL_PX = 14.0
_MOST_DECADES = 12


@dataclass(frozen=True, kw_only=True, slots=True)
class RooflineDot:
    """Dot of a roofline chart: the FLOP per byte and the reached FLOP/s of a phase of a training step, of a part of
    an inference batch, or of an operator."""

    label: str
    flop_per_byte: float
    flop_per_s: float
    kind: Literal["phase", "operator"]
    hint: str


_MARKS = {
    "operator": ("dot-dropped", 3.5, "operator under torch.profiler"),
    "phase": ("dot-counted", 5.0, "phase of the step"),
}


def roofline_figure(
    dots: Sequence[RooflineDot], *, peak: float, memory: float, cache: float | None, **caption: Unpack[Caption]
) -> Figure:
    """Draw the dots of a roofline chart below its ceilings. `peak` is the FLOP/s of matrix multiplication at the best
    shape; `memory` and `cache` are the bytes/s of copying between buffers in memory and in the caches."""
    ridge = peak / memory
    low_x, high_x = _decades([*(dot.flop_per_byte for dot in dots), ridge, ridge * 4])
    low_y, high_y = _decades([*(dot.flop_per_s for dot in dots), peak])

    def roof(bytes_per_s: float) -> list[tuple[float, float]]:
        """Return the corners (FLOP per byte, FLOP/s) of the roofline: the slope of `bytes_per_s` up to the ridge,
        then the flat peak, cut off at the chart's edges."""
        start = max(low_x, low_y / bytes_per_s)
        points = [(start, start * bytes_per_s)] if start < peak / bytes_per_s else []
        return [*points, (max(peak / bytes_per_s, low_x), peak), (high_x, peak)]

    lines = [("mean", roof(memory))]
    slopes = [f"memory {si(memory)}B/s"]
    if cache is not None and cache > memory:
        lines.append(("target", roof(cache)))
        slopes.insert(0, f"{slopes[0]}, in cache {si(cache)}B/s (dashed)")
    inside = [dot for dot in dots if dot.flop_per_byte >= low_x and dot.flop_per_s >= low_y]
    series = []
    for kind, (mark, radius, name) in _MARKS.items():
        some = [Dot(x=dot.flop_per_byte, y=dot.flop_per_s, hint=dot.hint) for dot in inside if dot.kind == kind]
        series += [Series(name=name, dots=some, is_joined=False, mark=mark, radius=radius)] if some else []

    def words(x: svg.Scale, y: svg.Scale) -> list[Markup]:
        of_peak = f"matrix products {si(peak)}FLOP/s"
        of_slope = next((each for each in slopes if svg.text_width(each) < x.stop - 120), slopes[-1])
        return [
            svg.text(x.stop, y(peak) - 7, of_peak, class_="tick halo", anchor="end"),
            svg.text(x.stop, y.stop - 14, of_slope, class_="axis", anchor="end"),
            _labels([dot for dot in inside if dot.kind == "phase"], x, y, below=y(peak) + 16),
        ]

    panel = Panel(
        x=ChartAxis(name="FLOP per byte, computed", scale=partial(svg.LogScale, low_x, high_x), words="{:g}".format),
        y=ChartAxis(name="FLOP/s reached", scale=partial(svg.LogScale, low_y, high_y), words=_prefixed),
        lines=lines,
        series=series,
        height=380.0,
        over=words,
    )
    return xy_figure(panel, keys=[LegendKey(mark=each.mark, words=each.name) for each in reversed(series)], **caption)


def _decades(values: Sequence[float]) -> tuple[float, float]:
    """Choose an axis from one power of ten to another that holds the values. The axis spans at most _MOST_DECADES
    decades; smaller values lie outside of it."""
    high = math.ceil(math.log10(max(values)) + 0.05)
    low = math.floor(math.log10(min(values)) - 0.05)
    return 10.0 ** max(low, high - _MOST_DECADES), 10.0**high


def _labels(dots: Sequence[RooflineDot], x: svg.Scale, y: svg.Scale, *, below: float) -> Markup:
    """Write the name of each dot next to the dot, below the roofline, moved down until no name covers another."""
    placed: list[tuple[float, float, float]] = []
    made = []
    for dot in sorted(dots, key=lambda dot: -dot.flop_per_s):
        wide = svg.text_width(dot.label)
        left = x(dot.flop_per_byte) + 9
        if left + wide > x.stop:
            left = x(dot.flop_per_byte) - 9 - wide
        base = max(y(dot.flop_per_s) + 4, below)
        while any(
            abs(base - other) < _LABEL_PX and left < end and start < left + wide for start, end, other in placed
        ):
            base += _LABEL_PX / 2
        placed.append((left, left + wide, base))
        made.append(svg.tag("text", dot.label, x=left, y=base))
    return svg.tag("g", *made, class_="label halo")


def _prefixed(value: float) -> str:
    """Format a number with its SI prefix: '100 G' for 1e11."""
    number, _, prefix = si(value).partition(" ")
    return f"{number.removesuffix('.00').removesuffix('.0')} {prefix}".rstrip()

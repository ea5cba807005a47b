"""Samples per second in each block between two evaluations: drift, throttling and disturbances show here."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Unpack

from markupsafe import Markup

from reports.charts import figure, svg
from reports.text.formatting import si

_HEIGHT = 250.0
_LEFT, _RIGHT, _TOP = 62.0, 14.0, 26.0
_LEAST_EXTENT = 0.05


@dataclass(frozen=True, kw_only=True, slots=True)
class BlockLine:
    """One run: points are (samples trained at the block's end, samples per second inside the block)."""

    hue: int
    points: tuple[tuple[float, float], ...]
    hint: str


def throughput_figure(
    lines: Sequence[BlockLine], *, names: Mapping[int, str], **caption: Unpack[figure.Caption]
) -> figure.Figure:
    """Draw one line per run; `names` are those of the configurations by their hue, where several are drawn."""
    return figure.draw_both(lambda width, id_: _draw(lines, width, id_), figure.curve_keys(names), **caption)


def _draw(lines: Sequence[BlockLine], width: float, id_: str) -> figure.Plot:
    rates = [rate for line in lines for _, rate in line.points]
    middle = sorted(rates)[len(rates) // 2]
    # At least five percent either way, so that noise of a thousandth does not look like a mountain range.
    low, high = svg.padded([*rates, middle * (1 - _LEAST_EXTENT), middle * (1 + _LEAST_EXTENT)], 0.04)
    bottom = _HEIGHT - figure.FOOT_PX
    y = svg.Scale(max(low, 0.0), high, bottom, _TOP)
    x = _x_scale(lines, width)
    marks = [
        svg.x_axis(x, _TOP - 8, bottom, "samples trained", most=figure.num_ticks(width), words=si),
        svg.y_axis(y, _LEFT, width - _RIGHT, most=5, words=si),
        svg.text(0, 12, "samples/s within each block", class_="axis"),
        svg.tag("g", *(_curve(line, x, y) for line in lines), id=f"{id_}-curves")
        if width == figure.WIDE_PX
        else figure.reused_curves(id_, x, _x_scale(lines, figure.WIDE_PX)),
    ]
    return figure.Plot(marks, _HEIGHT, x, y)


def _x_scale(lines: Sequence[BlockLine], width: float) -> svg.Scale:
    return svg.Scale(0.0, max(point[0] for line in lines for point in line.points) * 1.02, _LEFT, width - _RIGHT)


def _curve(line: BlockLine, x: svg.Scale, y: svg.Scale) -> Markup:
    points = [(x(a), y(b)) for a, b in line.points]
    mark = svg.polyline(points, "curve") if len(points) > 1 else svg.circle(*points[0], 2.5, "speck")
    return svg.group(mark, class_=figure.hue(line.hue), hint=line.hint)

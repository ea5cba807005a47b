"""Draws the chart of training speed in samples/s between successive evaluations, which reveals drift, throttling and
noise."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Unpack

from reports.charts import figure, svg
from reports.charts.xy import ChartAxis, Curve, Panel, up_to, xy_figure
from reports.text.formatting import si

_LEAST_EXTENT = 0.05


def throughput_figure(
    lines: Sequence[Curve], *, names: Mapping[int, str], **caption: Unpack[figure.Caption]
) -> figure.Figure:
    """Draw one line per run through points (samples trained at the end of a block, samples/s inside the block).

    A block of training lies between two evaluations. Where several configurations are drawn, `names` maps the colour
    number of each to its name.
    """
    samples, rates = zip(*(point for line in lines for point in line.points), strict=True)
    middle = sorted(rates)[len(rates) // 2]
    # The y axis spans at least ±5 %, so that noise of a thousandth does not look like a mountain range.
    low, high = svg.padded([*rates, middle * (1 - _LEAST_EXTENT), middle * (1 + _LEAST_EXTENT)], 0.04)
    panel = Panel(
        x=ChartAxis(name="samples trained", scale=up_to(max(samples)), words=si),
        y=ChartAxis(name="samples/s within each block", scale=partial(svg.Scale, max(low, 0.0), high), words=si),
        curves=lines,
        height=250.0,
    )
    return xy_figure(panel, keys=figure.curve_keys(names), **caption)

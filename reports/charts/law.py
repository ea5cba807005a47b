"""Normalised entropy over training FLOP: a dot per size of a model, and the law fitted to them as a curve."""

from collections.abc import Sequence
from functools import partial
from typing import Unpack

from reports.charts import svg
from reports.charts.figure import Caption, Figure
from reports.charts.xy import ChartAxis, Panel, Series, factor_around, xy_figure


def law_figure(series: Sequence[Series], **caption: Unpack[Caption]) -> Figure:
    """Draw all models on one pair of axes, FLOP logarithmic; a curve ends where its sizes end."""
    dots = [dot for line in series for dot in line.dots]
    values = [value for dot in dots for value in (dot.y, *dot.seeds) if value is not None]
    panel = Panel(
        x=ChartAxis(name="training FLOP, computed", scale=factor_around([dot.x for dot in dots], 1.3)),
        y=ChartAxis(name="Normalised entropy", scale=partial(svg.Scale, *svg.padded(values, 0.08))),
        series=series,
        height=320.0,
    )
    return xy_figure(panel, **caption)

"""Draws the chart of model quality over epochs, time or samples: one line per run, and the target as a labelled
horizontal line.

The y axis leaves out the steep first part of training, in which no run ends, so that differences near the target are
visible.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Unpack

from markupsafe import Markup

from reports.charts import figure, svg
from reports.charts.xy import ChartAxis, Curve, Panel, small_drawing, up_to, xy_figure


def convergence_figure(
    lines: Sequence[Curve],
    target: float | None,
    x_name: str,
    *,
    metric: str,
    names: Mapping[int, str],
    same_as: str | None = None,
    **caption: Unpack[figure.Caption],
) -> figure.Figure:
    """Draw one line per run: the quality `metric`, such as 'ROC AUC', over epochs, time or samples; `x_name` says
    which.

    Where several configurations are drawn, `names` maps the colour number of each to its name. `same_as` is the id of
    another figure on the page whose curves lie at the same pixels; its curves are then reused. For example, a chart
    over epochs and one over samples differ only in the numbers on the x axis.
    """
    fates = {line.fate for line in lines}
    keys = figure.curve_keys(names)
    keys += [figure.LegendKey(mark="end", words="reached the target")] if fates & {"counted", "dropped"} else []
    keys += [figure.LegendKey(mark="dot-failed", words="ended below the target")] if "failed" in fates else []
    y_name, words = f"{metric} on the held-out split", f"target {target:.5f}" if target is not None else ""
    panel = _panel(lines, target, lines, (x_name, y_name))
    return xy_figure(replace(panel, height=360.0, target_words=words), keys=keys, same_as=same_as, **caption)


def small_convergence(
    lines: Sequence[Curve], target: float | None, every: Sequence[Curve], **caption: Unpack[figure.Caption]
) -> Markup:
    """Draw the quality curves of one configuration's runs, titled with its name, on axes that fit the curves of all
    configurations (`every`)."""
    panel = replace(_panel(lines, target, every, ("", "")), name=caption["title"], height=190.0, left=44.0)
    return small_drawing(panel, **caption)


def _panel(lines: Sequence[Curve], target: float | None, every: Sequence[Curve], names: tuple[str, str]) -> Panel:
    last = max((point[0] for line in every for point in line.points), default=1.0)
    y_scale = partial(svg.Scale, *visible_quality(every, target))
    x, y = ChartAxis(name=names[0], scale=up_to(last)), ChartAxis(name=names[1], scale=y_scale)
    return Panel(x=x, y=y, curves=lines, target=target)


def visible_quality(lines: Sequence[Curve], target: float | None) -> tuple[float, float]:
    """Choose the range of the quality axis, with some room at both ends. The range holds the target, and each run's
    qualities without the first third of its evaluations."""
    late = [y for line in lines for _, y in line.points[min(len(line.points) // 3, len(line.points) - 1) :]]
    late += [line.points[-1][1] for line in lines if line.points]
    late += [target] if target is not None else []
    return svg.padded(late, 0.08) if late else (0.5, 1.0)

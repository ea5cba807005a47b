"""Draws the chart of epochs to converge over batch size: reference convergence points (RCPs) and measured results.

Several results are numbered, and the legend explains the numbers. More than MOST_NUMBERED results have no numbers.
Results whose marks would overlap stand side by side.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Unpack

from markupsafe import Markup

from reports.charts import svg
from reports.charts.figure import Caption, Figure, LegendKey, hue
from reports.charts.xy import ChartAxis, Dot, Panel, Series, factor_around, xy_figure
from reports.text.formatting import converged

_STUB = 2**0.1
MOST_NUMBERED = 12
"""Maximum number of results whose marks are numbered in the chart."""
MOST_MARKS = 100
"""Maximum number of results with a mark each. Of more results, accepted ones at the same pixel share one mark."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ReferenceLevel:
    """Reference convergence point at one batch size: mean and standard deviation of the epochs (or samples) to
    converge, and the fewest epochs (or samples) to converge that the rules accept of a result."""

    batch_size: float
    mean: float
    deviation: float
    least: float


@dataclass(frozen=True, kw_only=True, slots=True)
class ResultMark:
    """Mark of one result in the chart of reference convergence points: its mean epochs (or samples) to converge, and
    whether the result passes the convergence rules."""

    name: str
    hue: int
    batch_size: int
    mean_epochs: float
    is_passed: bool


def reference_figure(
    points: Sequence[ReferenceLevel],
    results: Sequence[ResultMark],
    *,
    unit: str = "epochs",
    **caption: Unpack[Caption],
) -> Figure:
    """Draw the reference convergence points over batch size, the fewest epochs (or samples) to converge that the
    rules accept, and the results; `unit` is 'epochs' or 'samples'."""
    keys = [
        LegendKey(mark="reference", words="reference mean"),
        LegendKey(mark="reference-band", words="± 1 standard deviation"),
        LegendKey(mark="limit", words=f"fewest acceptable {unit}"),
    ]
    if 1 < len(results) <= MOST_NUMBERED:
        for number, result in enumerate(results, start=1):
            words = f"{number}: {result.name}, {converged(result.mean_epochs, unit)} {unit}"
            words += "" if result.is_passed else ", faster than is acceptable"
            keys.append(LegendKey(mark="end" if result.is_passed else "dot-failed", words=words, hue=hue(result.hue)))
    else:
        some = {result.is_passed for result in results}
        keys += (
            [LegendKey(mark="end", words="this result" if len(results) == 1 else "results")] if True in some else []
        )
        keys += [LegendKey(mark="dot-failed", words="converges faster than is acceptable")] if False in some else []
    return xy_figure(_panel(points, results, unit), keys=keys, **caption)


def _panel(points: Sequence[ReferenceLevel], results: Sequence[ResultMark], unit: str) -> Panel:
    sizes = sorted({point.batch_size for point in points} | {result.batch_size for result in results})
    levels = [level for p in points for level in (p.mean - p.deviation, p.mean + p.deviation, p.least)]
    low, high = svg.padded([*levels, *(result.mean_epochs for result in results)], 0.08)
    # A single point is drawn as a short line.
    ends = [(p.batch_size * f, p) for p in points for f in ((1 / _STUB, _STUB) if len(points) == 1 else (1.0,))]
    upper, lower = ([(at, p.mean + sign * p.deviation) for at, p in ends] for sign in (1, -1))
    means = [Dot(x=p.batch_size, y=p.mean) for p in points]
    return Panel(
        x=ChartAxis(
            name="global batch size, logarithmic",
            scale=factor_around(sizes, 2**0.35),
            places=[(size, f"{size:,}") for size in sizes],
        ),
        y=ChartAxis(name=f"{unit} to converge", scale=partial(svg.Scale, max(low, 0.0), high)),
        lines=(
            ("reference-band", [*upper, *reversed(lower)]),
            ("reference", [(at, p.mean) for at, p in ends]),
            ("limit", [(at, p.least) for at, p in ends]),
        ),
        series=[Series(dots=means, is_joined=False, mark="reference-dot", radius=3.5)],
        height=330.0,
        over=lambda x, y: _results(results, x, y, unit),
    )


def _results(results: Sequence[ResultMark], x: svg.Scale, y: svg.Scale, unit: str) -> list[Markup]:
    """Draw the marks of all results; results of one batch size stand side by side where their marks would overlap."""
    is_lone, is_numbered = len(results) == 1, 1 < len(results) <= MOST_NUMBERED
    radius = 8.5 if is_numbered else 6.0 if is_lone else 5.0
    by_size: dict[int, list[int]] = {}
    for index, result in enumerate(results):
        by_size.setdefault(result.batch_size, []).append(index)
    # Each batch size has a share of the width; more marks than fit may overlap, but none hides another.
    reach = 0.4 * (x.stop - x.start) / len(by_size or (0,))
    marks: dict[int, Markup] = {}
    many: dict[int, dict[tuple[float, float], None]] = {}
    for size, some in by_size.items():
        rows = svg.swarm([y(results[index].mean_epochs) for index in some], 2 * radius)
        spacing = min(2 * radius + 1, reach / (max(map(abs, rows)) or 1))
        for index, row in zip(some, rows, strict=True):
            result, at, top = results[index], x(size) + row * spacing, y(results[index].mean_epochs)
            label = str(index + 1) if is_numbered else converged(result.mean_epochs, unit) if is_lone else ""
            if len(results) <= MOST_MARKS or not result.is_passed:
                marks[index] = _result(result, at, top, radius, label)
            else:
                many.setdefault(result.hue, {})[round(at), round(top, 1)] = None
    # All dots of one colour are a single path of round caps.
    dots = [svg.tag("path", d=svg.spots(list(some)), class_=f"ends {hue(number)}") for number, some in many.items()]
    return [*dots, *(marks[index] for index in sorted(marks))]


def _result(result: ResultMark, x: float, y: float, radius: float, label: str) -> Markup:
    mark = svg.circle(x, y, radius, "end") if result.is_passed else svg.cross(x, y, min(radius, 6.0))
    # A label stands inside or to the right of its mark: above and below may be the reference's mean and limit.
    is_inside = result.is_passed and len(label) < 3
    at, class_ = (x, "in-counted") if is_inside else (x + radius + 4, "name halo")
    return svg.group(mark, svg.text(at, y + 4, label, class_=class_) if label else Markup(), class_=hue(result.hue))

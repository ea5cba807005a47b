"""Reference convergence points: epochs to converge over batch size, and where a result is among them.

Several results carry numbers that the legend names; those that would hide each other are side by side.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Unpack

from markupsafe import Markup

from reports.charts import svg
from reports.charts.figure import FOOT_PX, Caption, Figure, Key, Plot, draw_both, hue
from reports.text.formatting import converged

_HEIGHT = 330.0
_LEFT, _RIGHT, _TOP = 58.0, 24.0, 26.0
_STUB = 16.0
MOST_NUMBERED = 12
MOST_MARKS = 100
"""Up to so many results each have a mark of their own; of more, those at one place are drawn once."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Point:
    """The reference at one batch size: mean and deviation of epochs or samples, and the fewest that are accepted."""

    batch_size: int
    mean: float
    deviation: float
    least: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """One result's mean epochs to converge, and whether the convergence rules accept it."""

    name: str
    hue: int
    batch_size: int
    mean_epochs: float
    is_passed: bool


def reference_figure(
    points: Sequence[Point], results: Sequence[Result], *, unit: str = "epochs", **caption: Unpack[Caption]
) -> Figure:
    """Draw the reference, its limit and the results over the batch size; convergence is in `unit`."""
    keys = [
        Key(mark="reference", words="reference mean"),
        Key(mark="reference-band", words="± 1 standard deviation"),
        Key(mark="limit", words=f"fewest acceptable {unit}"),
    ]
    if 1 < len(results) <= MOST_NUMBERED:
        for number, result in enumerate(results, start=1):
            words = f"{number}: {result.name}, {converged(result.mean_epochs, unit)}"
            words += "" if result.is_passed else ", faster than is acceptable"
            keys.append(Key(mark="end" if result.is_passed else "dot-failed", words=words, hue=hue(result.hue)))
    else:
        if any(result.is_passed for result in results):
            keys.append(Key(mark="end", words="this result" if len(results) == 1 else "results"))
        if any(not result.is_passed for result in results):
            keys.append(Key(mark="dot-failed", words="converges faster than is acceptable"))
    return draw_both(lambda width, _: _draw(points, results, width, unit), keys, **caption)


def _draw(points: Sequence[Point], results: Sequence[Result], width: float, unit: str) -> Plot:
    sizes = sorted({point.batch_size for point in points} | {result.batch_size for result in results})
    domain = math.log2(sizes[0]) - 0.35, math.log2(sizes[-1]) + 0.35
    x = svg.Scale(*domain, _LEFT, width - _RIGHT)
    levels = [level for p in points for level in (p.mean - p.deviation, p.mean + p.deviation, p.least)]
    low, high = svg.padded([*levels, *(result.mean_epochs for result in results)], 0.08)
    bottom = _HEIGHT - FOOT_PX
    y = svg.Scale(max(low, 0.0), high, bottom, _TOP)
    labelled: list[tuple[float, str]] = []
    for size in sizes:
        at = x(math.log2(size))
        if all(abs(at - other) >= 52 for other, _ in labelled):
            labelled.append((at, f"{size:,}"))
    marks = [
        svg.x_axis_at(labelled, _TOP - 8, bottom, x.stop, "global batch size, logarithmic"),
        svg.y_axis(y, _LEFT, width - _RIGHT, most=6),
        svg.text(0, 12, f"{unit} to converge", class_="axis"),
        _band(points, x, y),
        *(_line(points, x, y, which) for which in ("reference", "limit")),
        *(svg.circle(x(math.log2(p.batch_size)), y(p.mean), 3.5, "reference-dot") for p in points),
        *_results(results, x, y, unit),
    ]
    return Plot(marks, _HEIGHT, x, y)


def _band(points: Sequence[Point], x: svg.Scale, y: svg.Scale) -> Markup:
    if len(points) == 1:
        (point,) = points
        at = x(math.log2(point.batch_size))
        upper, lower = y(point.mean + point.deviation), y(point.mean - point.deviation)
        return svg.rect(at - _STUB, upper, 2 * _STUB, lower - upper, "reference-band")
    upper_edge = [(x(math.log2(p.batch_size)), y(p.mean + p.deviation)) for p in points]
    lower_edge = [(x(math.log2(p.batch_size)), y(p.mean - p.deviation)) for p in reversed(points)]
    return svg.tag("path", d=svg.path_data([*upper_edge, *lower_edge]) + "z", class_="reference-band")


def _line(points: Sequence[Point], x: svg.Scale, y: svg.Scale, which: str) -> Markup:
    placed = [(x(math.log2(p.batch_size)), y(p.mean if which == "reference" else p.least)) for p in points]
    if len(placed) == 1:
        placed = [(placed[0][0] - _STUB, placed[0][1]), (placed[0][0] + _STUB, placed[0][1])]
    return svg.polyline(placed, which)


def _results(results: Sequence[Result], x: svg.Scale, y: svg.Scale, unit: str) -> list[Markup]:
    """Draw all results, those of a batch size beside each other where their epochs are too close to see both."""
    is_numbered = 1 < len(results) <= MOST_NUMBERED
    radius = 8.5 if is_numbered else 6.0 if len(results) == 1 else 5.0
    by_size: dict[int, list[int]] = {}
    for index, result in enumerate(results):
        by_size.setdefault(result.batch_size, []).append(index)
    # Of the width that each batch size has; more marks than fit may overlap, but none hides another.
    reach = 0.4 * (x.stop - x.start) / len(by_size or (0,))
    marks: dict[int, Markup] = {}
    many: dict[int, dict[tuple[float, float], None]] = {}
    for size, some in by_size.items():
        rows = svg.swarm([y(results[index].mean_epochs) for index in some], 2 * radius)
        spacing = min(2 * radius + 1, reach / (max(map(abs, rows)) or 1))
        for index, row in zip(some, rows, strict=True):
            at = x(math.log2(size)) + row * spacing
            if len(results) > MOST_MARKS and results[index].is_passed:
                many.setdefault(results[index].hue, {})[round(at), round(y(results[index].mean_epochs), 1)] = None
                continue
            own = converged(results[index].mean_epochs, unit) if len(results) == 1 else ""
            label = str(index + 1) if is_numbered else own
            marks[index] = _result(results[index], at, y(results[index].mean_epochs), radius, label)
    # All of one colour are a single path of round caps.
    dots = [svg.tag("path", d=svg.spots(list(some)), class_=f"ends {hue(number)}") for number, some in many.items()]
    return [*dots, *(marks[index] for index in sorted(marks))]


def _result(result: Result, x: float, y: float, radius: float, label: str) -> Markup:
    is_inside = result.is_passed and len(label) < 3
    # Above and below a result the reference's mean and limit of its batch size may be.
    words = (
        svg.text(x, y + 4, label, class_="in-counted")
        if is_inside
        else svg.text(x + radius + 4, y + 4, label, class_="name halo")
    )
    mark = svg.circle(x, y, radius, "end") if result.is_passed else svg.cross(x, y, min(radius, 6.0), "dot-failed")
    return svg.group(mark, words if label else Markup(), class_=hue(result.hue))

"""Normalised entropy over training FLOP: a dot per size of a model, and the law fitted to them as a curve."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Unpack

from reports.charts import svg
from reports.charts.figure import FOOT_PX, Caption, Figure, Key, Plot, draw_both, hue, num_ticks

_HEIGHT = 320.0
_LEFT, _RIGHT, _TOP = 62.0, 16.0, 30.0
_CURVE_POINTS = 48


@dataclass(frozen=True, kw_only=True, slots=True)
class LawDot:
    """One size: its mean, and those of single seeds."""

    x: float
    y: float
    seeds: tuple[float, ...]
    hint: str


@dataclass(frozen=True, kw_only=True, slots=True)
class LawSeries:
    """The sizes of one model; `law` gives the fitted value at an x, None where nothing was fitted."""

    name: str
    dots: tuple[LawDot, ...]
    law: Callable[[float], float] | None


def law_figure(series: Sequence[LawSeries], **caption: Unpack[Caption]) -> Figure:
    """Draw all models on one pair of axes, FLOP logarithmic; a curve ends where its sizes end."""
    dots = [dot for line in series for dot in line.dots]
    low, high = min(dot.x for dot in dots), max(dot.x for dot in dots)
    values = [value for dot in dots for value in (dot.y, *dot.seeds)]

    def draw(width: float, _: str) -> Plot:
        bottom, right = _HEIGHT - FOOT_PX, width - _RIGHT
        x = svg.LogScale(low / 1.3, high * 1.3, _LEFT, right)
        y = svg.Scale(*svg.padded(values, 0.08), bottom, _TOP)
        marks = [
            svg.text(0, 13, svg.fit("Normalised entropy", width), class_="axis"),
            svg.y_axis(y, _LEFT, right, most=5),
            svg.x_axis(x, _TOP, bottom, "training FLOP, computed", most=num_ticks(width)),
        ]
        for number, line in enumerate(series):
            curve = [svg.polyline(_curve(line, x, y), "curve")] if line.law else []
            spots = [
                svg.group(
                    *(svg.circle(x(dot.x), y(value), 1.8, "dot-counted") for value in dot.seeds),
                    svg.circle(x(dot.x), y(dot.y), 4.5, "dot-counted"),
                    hint=dot.hint,
                )
                for dot in line.dots
            ]
            marks.append(svg.group(*curve, *spots, class_=hue(number)))
        return Plot(marks, _HEIGHT, x, y)

    keys = [Key(mark="dot-counted", words=line.name, hue=hue(number)) for number, line in enumerate(series)]
    return draw_both(draw, keys, **caption)


def _curve(line: LawSeries, x: svg.LogScale, y: svg.Scale) -> list[tuple[float, float]]:
    assert line.law is not None
    low, high = line.dots[0].x, line.dots[-1].x
    places = [low * (high / low) ** (index / (_CURVE_POINTS - 1)) for index in range(_CURVE_POINTS)]
    return [(x(place), y(min(max(line.law(place), y.low), y.high))) for place in places]

"""Roofline: speed over arithmetic intensity, both logarithmic, under ceilings that were measured here."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Unpack

from markupsafe import Markup

from reports.charts import svg
from reports.charts.figure import FOOT_PX, Caption, Figure, Key, Plot, draw_both
from reports.text.formatting import si

_HEIGHT = 380.0
_LEFT, _RIGHT, _TOP = 56.0, 16.0, 30.0
_LABEL_PX = 14.0
_MOST_DECADES = 12


@dataclass(frozen=True, kw_only=True, slots=True)
class RooflineDot:
    """One phase or operator: FLOP per byte, and the FLOP/s it reached."""

    label: str
    flop_per_byte: float
    flop_per_s: float
    kind: Literal["phase", "operator"]
    hint: str


@dataclass(frozen=True, kw_only=True, slots=True)
class RooflineCeilings:
    """Matrix multiplication at the best shape, and copying between buffers beyond (and inside) the caches."""

    flop_per_s: float
    memory_bytes_per_s: float
    cache_bytes_per_s: float | None


class _Decades(svg.LogScale):
    """A logarithmic scale whose ticks are whole powers of ten."""

    def ticks(self, most: int) -> tuple[float, ...]:
        first, last = round(math.log10(self.low)), round(math.log10(self.high))
        return tuple(10.0**power for power in range(first, last + 1, math.ceil((last - first + 1) / most)))


_KEYS = {
    "phase": Key(mark="dot-counted", words="phase of the step"),
    "operator": Key(mark="dot-dropped", words="operator under torch.profiler"),
}


def roofline_figure(dots: Sequence[RooflineDot], ceilings: RooflineCeilings, **caption: Unpack[Caption]) -> Figure:
    """Draw the dots under their roof."""
    kinds = {dot.kind for dot in dots}
    keys = [key for kind, key in _KEYS.items() if kind in kinds]
    return draw_both(lambda width, _: _draw(dots, ceilings, width), keys, **caption)


def _draw(dots: Sequence[RooflineDot], ceilings: RooflineCeilings, width: float) -> Plot:
    ridge = ceilings.flop_per_s / ceilings.memory_bytes_per_s
    bottom = _HEIGHT - FOOT_PX
    x = _Decades(*_decades([*(dot.flop_per_byte for dot in dots), ridge, ridge * 4]), _LEFT, width - _RIGHT)
    y = _Decades(*_decades([*(dot.flop_per_s for dot in dots), ceilings.flop_per_s]), bottom, _TOP)
    marks = [
        svg.x_axis(x, _TOP - 6, bottom, "FLOP per byte, computed", most=8, words="{:g}".format),
        svg.y_axis(y, _LEFT, width - _RIGHT, most=6, words=_prefixed),
        svg.text(0, 12, "FLOP/s reached", class_="axis"),
        _roof(x, y, ceilings.flop_per_s, ceilings.memory_bytes_per_s, "mean"),
    ]
    if ceilings.cache_bytes_per_s is not None and ceilings.cache_bytes_per_s > ceilings.memory_bytes_per_s:
        marks.append(_roof(x, y, ceilings.flop_per_s, ceilings.cache_bytes_per_s, "target"))
    peak = f"matrix products {si(ceilings.flop_per_s)}FLOP/s"
    marks.append(svg.text(width - _RIGHT, y(ceilings.flop_per_s) - 7, peak, class_="tick halo", anchor="end"))
    slope = f"memory {si(ceilings.memory_bytes_per_s)}B/s"
    if ceilings.cache_bytes_per_s is not None and width > 600:
        slope += f", in cache {si(ceilings.cache_bytes_per_s)}B/s (dashed)"
    marks.append(svg.text(width - _RIGHT, _TOP - 14, svg.fit(slope, width - 150), class_="axis", anchor="end"))
    drawn = [dot for dot in sorted(dots, key=lambda dot: dot.kind == "phase") if _is_inside(dot, x, y)]
    marks.append(svg.group(*(_mark(dot, x, y) for dot in drawn), class_="hue0"))
    phases = [dot for dot in drawn if dot.kind == "phase"]
    marks.append(_labels(phases, x, y, width, below=y(ceilings.flop_per_s) + 16))
    return Plot(marks, _HEIGHT)


def _decades(values: Sequence[float]) -> tuple[float, float]:
    """Choose whole decades around the values, at most _MOST_DECADES below the largest."""
    high = math.ceil(math.log10(max(values)) + 0.05)
    low = math.floor(math.log10(min(values)) - 0.05)
    return 10.0 ** max(low, high - _MOST_DECADES), 10.0**high


def _is_inside(dot: RooflineDot, x: _Decades, y: _Decades) -> bool:
    return dot.flop_per_byte >= x.low and dot.flop_per_s >= y.low


def _roof(x: _Decades, y: _Decades, flop_per_s: float, bytes_per_s: float, class_: str) -> Markup:
    """Draw the slanted line up to the ridge, then the flat one; clipped to the drawing."""
    ridge = flop_per_s / bytes_per_s
    start = max(x.low, y.low / bytes_per_s)
    points = [(start, start * bytes_per_s)] if start < ridge else []
    points += [(max(ridge, x.low), flop_per_s), (x.high, flop_per_s)]
    return svg.tag("path", d=svg.path_data([(x(a), y(b)) for a, b in points]), class_=class_, fill="none")


def _mark(dot: RooflineDot, x: _Decades, y: _Decades) -> Markup:
    class_ = "dot-counted" if dot.kind == "phase" else "dot-dropped"
    at_x, at_y = x(dot.flop_per_byte), y(dot.flop_per_s)
    return svg.group(svg.circle(at_x, at_y, 5.0 if dot.kind == "phase" else 3.5, class_), hint=dot.hint)


def _labels(dots: Sequence[RooflineDot], x: _Decades, y: _Decades, width: float, *, below: float) -> Markup:
    """Write names beside the dots, under the roof's line and moved down until none covers another."""
    placed: list[tuple[float, float, float]] = []
    made = []
    for dot in sorted(dots, key=lambda dot: -dot.flop_per_s):
        wide = svg.text_width(dot.label)
        left = x(dot.flop_per_byte) + 9
        if left + wide > width - _RIGHT:
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
    """Write '100 G' of 1e11."""
    number, _, prefix = si(value).partition(" ")
    return f"{number.removesuffix('.00').removesuffix('.0')} {prefix}".rstrip()

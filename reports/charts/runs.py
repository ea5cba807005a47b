"""Runs as dots: one strip per configuration, x = time to train.

Filled dots count, open ones were dropped as fastest or slowest, crosses did not converge; the thick tick is the
Olympic mean and the band behind it the interval. Times tie, because evaluations are quantised, so dots swarm.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from markupsafe import Markup

from reports import svg
from reports.charts.figure import NARROW_PX, Figure, Key, draw_both, hue
from reports.formatting import TimeUnit

_LARGE, _SMALL = 9.0, 5.5


@dataclass(frozen=True, kw_only=True, slots=True)
class RunDot:
    """One run; `time_s` is None or infinite for a run that did not converge."""

    label: str
    time_s: float | None
    fate: Literal["counted", "dropped", "failed"]
    hint: str


@dataclass(frozen=True, kw_only=True, slots=True)
class RunStrip:
    """The runs of one configuration. `low_s`, `high_s` bound the interval of `olympic_mean_s`."""

    name: str
    hue: int
    dots: tuple[RunDot, ...]
    olympic_mean_s: float | None
    mean_label: str
    low_s: float | None
    high_s: float | None


KEYS = (
    Key(mark="dot-counted", words="counted run"),
    Key(mark="dot-dropped", words="dropped: fastest or slowest"),
    Key(mark="dot-failed", words="did not converge"),
    Key(mark="mean", words="Olympic mean"),
    Key(mark="band", words="95 % interval"),
)
_KEYS_WITHOUT_SCORE = (Key(mark="dot-counted", words="run that reached the target"), *KEYS[1:])


def runs_figure(
    strips: Sequence[RunStrip], unit: TimeUnit, *, id_: str, title: str, description: str, has_score: bool
) -> Figure:
    fates = {dot.fate for strip in strips for dot in strip.dots}
    shown = {
        "dot-counted": "counted" in fates,
        "dot-dropped": "dropped" in fates,
        "dot-failed": any(not _is_finite(dot.time_s) or dot.fate == "failed" for s in strips for dot in s.dots),
        "mean": any(strip.olympic_mean_s is not None for strip in strips),
        "band": any(strip.low_s is not None for strip in strips),
    }
    return draw_both(
        lambda width, drawn_id: _draw(strips, unit, width, drawn_id, title, description),
        id_=id_,
        title=title,
        description=description,
        keys=tuple(key for key in (KEYS if has_score else _KEYS_WITHOUT_SCORE) if shown[key.mark]),
    )


def _draw(strips: Sequence[RunStrip], unit: TimeUnit, width: float, id_: str, title: str, description: str) -> Markup:
    names = len(strips) > 1
    # Several strips compare distributions, one strip shows runs: only there each dot carries its number.
    radius = _SMALL if names else _LARGE
    finite = [
        value / unit.seconds
        for strip in strips
        for value in (*(dot.time_s for dot in strip.dots), strip.olympic_mean_s, strip.low_s, strip.high_s)
        if value is not None and math.isfinite(value)
    ]
    failed = any(not _is_finite(dot.time_s) for strip in strips for dot in strip.dots)
    gutter = 92.0 if failed else 0.0
    low, high = svg.padded(finite, 0.08) if finite else (0.0, 1.0)
    scale = svg.Scale(max(low, 0.0), high, radius + 4, width - gutter - radius - 4)
    rows: list[Markup] = []
    top = 8.0
    for strip in strips:
        height = _strip_height(strip, scale, unit, radius) + (22 if names else 0)
        rows.append(_strip(strip, scale, unit, top, height, width, gutter, radius))
        top += height + 10
    backdrop = (
        svg.x_axis(scale, 8, top, f"time to train, {unit.name}", most=8 if width > 600 else 4) if finite else ""
    )
    gutter_words = ""
    if failed:
        gutter_words = svg.group(
            svg.line(width - gutter + 8, 8, width - gutter + 8, top, "edge"),
            svg.text(width, top + 18, "no time", class_="tick", anchor="end"),
        )
    return svg.drawing(
        backdrop, *rows, gutter_words, width=width, height=top + 44, id_=id_, title=title, description=description
    )


def _strip_height(strip: RunStrip, scale: svg.Scale, unit: TimeUnit, radius: float) -> float:
    spacing = 2 * radius + 2
    rows = svg.swarm(_positions(strip, scale, unit), spacing)
    extent = max((abs(row) for row in rows), default=0)
    num_failed = sum(not _is_finite(dot.time_s) for dot in strip.dots)
    extent = max(extent, math.ceil((math.ceil(num_failed / 3) - 1) / 2))
    return (2 * extent + 1) * spacing + 34


def _positions(strip: RunStrip, scale: svg.Scale, unit: TimeUnit) -> list[float]:
    return [
        scale(dot.time_s / unit.seconds) for dot in strip.dots if dot.time_s is not None and _is_finite(dot.time_s)
    ]


def _strip(
    strip: RunStrip,
    scale: svg.Scale,
    unit: TimeUnit,
    top: float,
    height: float,
    width: float,
    gutter: float,
    radius: float,
) -> Markup:
    marks: list[Markup] = []
    hinted, names, spacing = width > NARROW_PX, radius == _SMALL, 2 * radius + 2
    body = top + (22 if names else 0)
    middle = (body + 18 + top + height) / 2
    if names:
        marks.append(svg.text(0, top + 14, svg.fit(strip.name, width), class_="name"))
    if strip.low_s is not None and strip.high_s is not None:
        left, right = scale(strip.low_s / unit.seconds), scale(strip.high_s / unit.seconds)
        marks.append(svg.rect(left, body + 18, max(right - left, 1.0), top + height - body - 18, "band", rx=3))
    if strip.olympic_mean_s is not None and math.isfinite(strip.olympic_mean_s):
        x = scale(strip.olympic_mean_s / unit.seconds)
        marks.append(svg.line(x, body + 16, x, top + height, "mean"))
        half = svg.text_width(strip.mean_label) / 2
        at = min(max(x, half), width - gutter - half)
        marks.append(svg.text(at, body + 11, strip.mean_label, class_="strong", anchor="middle"))
    timed = [dot for dot in strip.dots if _is_finite(dot.time_s)]
    positions = _positions(strip, scale, unit)
    for dot, x, row in zip(timed, positions, svg.swarm(positions, spacing), strict=True):
        marks.append(_dot(dot, x, middle + row * spacing, radius, hinted=hinted))
    untimed = [dot for dot in strip.dots if not _is_finite(dot.time_s)]
    for index, dot in enumerate(untimed):
        column, row = index % 3, index // 3
        rows = (len(untimed) + 2) // 3
        y = middle + (row - (rows - 1) / 2) * spacing
        marks.append(_dot(dot, width - gutter + 28 + column * (spacing + 6), y, radius, hinted=hinted))
    return svg.group(*marks, class_=hue(strip.hue))


def _dot(dot: RunDot, x: float, y: float, radius: float, *, hinted: bool) -> Markup:
    hint = dot.hint if hinted else ""
    if dot.fate == "failed":
        label = (svg.text(x + 8, y - 5, dot.label, class_="tiny"),) if radius == _LARGE else ()
        return svg.group(svg.cross(x, y, radius * 0.7, "dot-failed"), *label, hint=hint)
    label = (svg.text(x, y + 4, dot.label, class_=f"in-{dot.fate}"),) if radius == _LARGE else ()
    return svg.group(svg.circle(x, y, radius, f"dot-{dot.fate}"), *label, hint=hint)


def _is_finite(value: float | None) -> bool:
    return value is not None and math.isfinite(value)

"""Runs as dots: one strip per configuration, x = time to train.

Filled dots count, open ones were dropped as fastest or slowest, crosses did not converge; the thick tick is the
mean and the band behind it the interval of an Olympic one. Times tie, as evaluations are quantised, so dots swarm.
One strip numbers its runs; a few have their name above; many have it at their left, in less height.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from markupsafe import Markup

from reports.charts import svg
from reports.charts.figure import NARROW_PX, Figure, Key, draw_both, hue
from reports.text.formatting import TimeUnit

_LARGE, _SMALL, _TINY = 9.0, 5.5, 4.0
MOST_TALL = 6


@dataclass(frozen=True, kw_only=True, slots=True)
class RunDot:
    """One run; `time_s` is None or infinite for a run that did not converge."""

    label: str
    time_s: float | None
    fate: Literal["counted", "dropped", "failed"]
    hint: str


@dataclass(frozen=True, kw_only=True, slots=True)
class RunStrip:
    """The runs of one configuration. `low_s`, `high_s` bound the interval of `mean_s`, which is the Olympic mean, or
    without a score the geometric mean of the runs that reached the target."""

    name: str
    hue: int
    dots: tuple[RunDot, ...]
    mean_s: float | None
    is_score: bool
    mean_label: str
    low_s: float | None
    high_s: float | None


KEYS = (
    Key(mark="dot-counted", words="counted run"),
    Key(mark="dot-dropped", words="fastest or slowest run, left out of the Olympic mean"),
    Key(mark="dot-failed", words="did not converge"),
    Key(mark="mean", words="mean"),
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
        "mean": any(strip.mean_s is not None for strip in strips),
        "band": any(strip.low_s is not None for strip in strips),
    }
    return draw_both(
        lambda width, drawn_id: _draw(strips, unit, width, drawn_id, title, description),
        id_=id_,
        title=title,
        description=description,
        keys=tuple(
            replace(key, words=_mean_words(strips)) if key.mark == "mean" else key
            for key in (KEYS if has_score else _KEYS_WITHOUT_SCORE)
            if shown[key.mark]
        ),
    )


def _mean_words(strips: Sequence[RunStrip]) -> str:
    kinds = {strip.is_score for strip in strips if strip.mean_s is not None}
    if kinds == {True}:
        return "Olympic mean"
    alone = "geometric mean of the runs that reached the target: no score"
    return alone if kinds == {False} else f"Olympic mean; where there is none, {alone}"


def _draw(strips: Sequence[RunStrip], unit: TimeUnit, width: float, id_: str, title: str, description: str) -> Markup:
    # Several strips compare distributions, one strip shows runs: only there each dot carries its number.
    radius = _LARGE if len(strips) == 1 else _SMALL if len(strips) <= MOST_TALL else _TINY
    head = 22.0 if radius == _SMALL or (radius == _TINY and width <= 600) else 0.0
    margin = 250.0 if radius == _TINY and not head else 0.0
    finite = [
        value / unit.seconds
        for strip in strips
        for value in (*(dot.time_s for dot in strip.dots), strip.mean_s, strip.low_s, strip.high_s)
        if value is not None and math.isfinite(value)
    ]
    failed = any(not _is_finite(dot.time_s) for strip in strips for dot in strip.dots)
    gutter = 92.0 if failed else 0.0
    scale = svg.value_scale(finite, margin + radius + 4, width - gutter - radius - 4)
    rows: list[Markup] = []
    top = 8.0
    for strip in strips:
        height = _strip_height(strip, scale, unit, radius) + head
        rows.append(_strip(strip, scale, unit, top, height, width, gutter, radius, head))
        top += height + (3 if radius == _TINY else 10)
    backdrop = svg.x_axis(scale, 8, top, _axis_name(scale, unit), most=8 if width > 600 else 4) if finite else ""
    gutter_words = ""
    if failed:
        gutter_words = svg.group(
            svg.line(width - gutter + 8, 8, width - gutter + 8, top, "edge"),
            svg.text(width, top + 18, "no time", class_="tick", anchor="end"),
        )
    return svg.drawing(
        backdrop, *rows, gutter_words, width=width, height=top + 44, id_=id_, title=title, description=description,
        x=scale,
    )  # fmt: skip


def _axis_name(scale: svg.AnyScale, unit: TimeUnit) -> str:
    return f"time to train, {unit.name}" + (", logarithmic" if isinstance(scale, svg.LogScale) else "")


def _strip_height(strip: RunStrip, scale: svg.AnyScale, unit: TimeUnit, radius: float) -> float:
    spacing = 2 * radius + 2
    rows = svg.swarm(_positions(strip, scale, unit), spacing)
    extent = max((abs(row) for row in rows), default=0)
    num_failed = sum(not _is_finite(dot.time_s) for dot in strip.dots)
    extent = max(extent, math.ceil((math.ceil(num_failed / 3) - 1) / 2))
    return (2 * extent + 1) * spacing + (10 if radius == _TINY else 34)


def _positions(strip: RunStrip, scale: svg.AnyScale, unit: TimeUnit) -> list[float]:
    return [
        scale(dot.time_s / unit.seconds) for dot in strip.dots if dot.time_s is not None and _is_finite(dot.time_s)
    ]


def _strip(
    strip: RunStrip,
    scale: svg.AnyScale,
    unit: TimeUnit,
    top: float,
    height: float,
    width: float,
    gutter: float,
    radius: float,
    head: float,
) -> Markup:
    marks: list[Markup] = []
    # Where the dots stand; the rest of the height above them is for the mean's label.
    body = top + head + (0 if radius == _TINY else 18)
    middle = (body + top + height) / 2
    if head:
        marks.append(svg.text(0, top + 14, svg.fit_bold(strip.name, width), class_="name"))
    elif radius == _TINY:
        marks.append(svg.text(0, middle + 4.5, svg.fit(strip.name, 240), class_="label"))
    if strip.low_s is not None and strip.high_s is not None:
        left, right = scale(strip.low_s / unit.seconds), scale(strip.high_s / unit.seconds)
        marks.append(svg.rect(left, body, max(right - left, 1.0), top + height - body, "band", rx=3))
    if strip.mean_s is not None and math.isfinite(strip.mean_s):
        x = scale(strip.mean_s / unit.seconds)
        marks.append(svg.line(x, body - 2, x, top + height, "mean"))
        if radius != _TINY:
            half = svg.text_width(strip.mean_label) / 2 + 8
            at = min(max(x, half), width - gutter - half)
            marks.append(svg.text(at, body - 7, strip.mean_label, class_="strong", anchor="middle"))
    placed = _placed(strip, scale, unit, radius, middle, width - gutter)
    if radius == _LARGE:
        marks += [_numbered(dot, x, y, hinted=width > NARROW_PX) for dot, x, y in placed]
    else:
        marks += _plain(placed, radius)
    return svg.group(*marks, class_=hue(strip.hue))


def _placed(
    strip: RunStrip, scale: svg.AnyScale, unit: TimeUnit, radius: float, middle: float, edge: float
) -> list[tuple[RunDot, float, float]]:
    """Where each dot stands; runs without a time stand right of the `edge`, in columns of three."""
    spacing = 2 * radius + 2
    timed = [dot for dot in strip.dots if _is_finite(dot.time_s)]
    positions = _positions(strip, scale, unit)
    rows = svg.swarm(positions, spacing)
    placed = [(dot, x, middle + row * spacing) for dot, x, row in zip(timed, positions, rows, strict=True)]
    untimed = [dot for dot in strip.dots if not _is_finite(dot.time_s)]
    num_rows = (len(untimed) + 2) // 3
    for index, dot in enumerate(untimed):
        y = middle + (index // 3 - (num_rows - 1) / 2) * spacing
        placed.append((dot, edge + 28 + index % 3 * (spacing + 6), y))
    return placed


def _numbered(dot: RunDot, x: float, y: float, *, hinted: bool) -> Markup:
    hint = dot.hint if hinted else ""
    if dot.fate == "failed":
        label = svg.text(x + 8, y - 5, dot.label, class_="tiny")
        return svg.group(svg.cross(x, y, _LARGE * 0.7, "dot-failed"), label, hint=hint)
    label = svg.text(x, y + 4, dot.label, class_=f"in-{dot.fate}")
    return svg.group(svg.circle(x, y, _LARGE, f"dot-{dot.fate}"), label, hint=hint)


def _plain(placed: Sequence[tuple[RunDot, float, float]], radius: float) -> list[Markup]:
    """Dots without numbers: all of one kind are a single path of round caps, and rings have smaller caps on top."""
    size = "small" if radius == _SMALL else "tiny"
    marks = []
    for fate in ("counted", "dropped"):
        if places := [(x, y) for dot, x, y in placed if dot.fate == fate]:
            path = svg.spots(places)
            marks.append(svg.tag("path", d=path, class_=f"spots {size}"))
            marks += [svg.tag("path", d=path, class_=f"spots {size} hole")] if fate == "dropped" else []
    marks += [svg.cross(x, y, radius * 0.7, "dot-failed") for dot, x, y in placed if dot.fate == "failed"]
    return marks


def _is_finite(value: float | None) -> bool:
    return value is not None and math.isfinite(value)

"""Runs as dots: one strip per configuration, x = time to train.

Filled dots count, open ones were dropped as fastest or slowest, crosses did not converge; the thick tick is the
mean and the band behind it the interval of the geometric one. Times tie, as evaluations are quantised, so dots swarm.
One strip numbers its runs; a few have their name above; many have it at their left, in less height.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, Unpack

from markupsafe import Markup

from reports.charts import figure, svg
from reports.text.formatting import TimeUnit

_LARGE, _SMALL, _TINY = 9.0, 5.5, 4.0
_MOST_NAME = 340.0
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
    """The runs of one configuration. `mean_s` is the Olympic mean, or without a score the geometric mean of
    the runs that reached the target; `low_s` and `high_s` bound the interval of the geometric mean."""

    name: str
    hue: int
    dots: tuple[RunDot, ...]
    mean_s: float | None
    is_score: bool
    mean_label: str
    low_s: float | None
    high_s: float | None

    @property
    def timed(self) -> list[tuple[RunDot, float]]:
        """The runs that have a time, each with its seconds."""
        return [(dot, dot.time_s) for dot in self.dots if dot.time_s is not None and math.isfinite(dot.time_s)]

    @property
    def untimed(self) -> list[RunDot]:
        return [dot for dot in self.dots if dot.time_s is None or not math.isfinite(dot.time_s)]


KEYS = (
    figure.Key(mark="dot-counted", words="counted run"),
    figure.Key(mark="dot-dropped", words="fastest or slowest run, left out of the Olympic mean"),
    figure.Key(mark="dot-failed", words="did not converge"),
    figure.Key(mark="mean", words="mean"),
    figure.Key(mark="band", words="interval of the geometric mean"),
)
_KEYS_WITHOUT_SCORE = (figure.Key(mark="dot-counted", words="run that reached the target"), *KEYS[1:])


def processes_figure(
    strips: Sequence[RunStrip], unit: TimeUnit, *, axis: str, mean: str, **caption: Unpack[figure.Caption]
) -> figure.Figure:
    """Draw processes that measured one quantity, in place of seconds; `axis` names it, `mean` the mean of a strip."""
    keys = [figure.Key(mark="dot-counted", words="process")]
    keys += [figure.Key(mark="mean", words=mean)] if any(strip.mean_s is not None for strip in strips) else []
    keys += (
        [figure.Key(mark="band", words="its interval")] if any(strip.low_s is not None for strip in strips) else []
    )
    return figure.draw_both(lambda width, _: _draw(strips, unit, width, axis), keys, **caption)


def runs_figure(
    strips: Sequence[RunStrip], unit: TimeUnit, *, has_score: bool, **caption: Unpack[figure.Caption]
) -> figure.Figure:
    """Draw the strips from the first down."""
    fates = {dot.fate for strip in strips for dot in strip.dots}
    shown = {
        "dot-counted": "counted" in fates,
        "dot-dropped": "dropped" in fates,
        "dot-failed": "failed" in fates or any(strip.untimed for strip in strips),
        "mean": any(strip.mean_s is not None for strip in strips),
        "band": any(strip.low_s is not None for strip in strips),
    }
    keys = [
        replace(key, words=_mean_words(strips)) if key.mark == "mean" else key
        for key in (KEYS if has_score else _KEYS_WITHOUT_SCORE)
        if shown[key.mark]
    ]
    return figure.draw_both(lambda width, _: _draw(strips, unit, width), keys, **caption)


def _mean_words(strips: Sequence[RunStrip]) -> str:
    kinds = {strip.is_score for strip in strips if strip.mean_s is not None}
    if kinds == {True}:
        return "Olympic mean"
    alone = "geometric mean of the runs that reached the target: no score"
    return alone if kinds == {False} else f"Olympic mean; where there is none, {alone}"


@dataclass(frozen=True, kw_only=True, slots=True)
class _Layout:
    """What all strips of a drawing share: the seconds' scale, the size of the dots, room at top, left and right."""

    x: svg.AnyScale
    unit: TimeUnit
    width: float
    radius: float
    head: float
    gutter: float
    """Room for the runs without a time."""

    @property
    def spacing(self) -> float:
        return 2 * self.radius + 2

    def at(self, time_s: float) -> float:
        return self.x(time_s / self.unit.seconds)


def _draw(strips: Sequence[RunStrip], unit: TimeUnit, width: float, axis: str = "") -> figure.Plot:
    # Several strips compare distributions, one strip shows runs: only there each dot carries its number.
    radius = _LARGE if len(strips) == 1 else _SMALL if len(strips) <= MOST_TALL else _TINY
    head = 22.0 if radius == _SMALL or (radius == _TINY and width <= 600) else 0.0
    names = [strip.name for strip in strips]
    longest = min(max(map(svg.text_width, names)), _MOST_NAME)
    margin = longest + 10 if radius == _TINY and not head else 0.0
    finite = [
        value / unit.seconds
        for strip in strips
        for value in (*(dot.time_s for dot in strip.dots), strip.mean_s, strip.low_s, strip.high_s)
        if value is not None and math.isfinite(value)
    ]
    gutter = 92.0 if any(strip.untimed for strip in strips) else 0.0
    x = svg.value_scale(finite, margin + radius + 4, width - gutter - radius - 4)
    layout = _Layout(x=x, unit=unit, width=width, radius=radius, head=head, gutter=gutter)
    rows: list[Markup] = []
    top = 8.0
    names = svg.fit_bold_names(names, width) if head else svg.fit_names(names, longest)
    for name, strip in zip(names, strips, strict=True):
        row, height = _strip(strip, name, layout, top)
        rows.append(row)
        top += height + (3 if radius == _TINY else 10)
    marks = (
        [svg.x_axis(x, 8, top, axis or figure.time_axis_name(x, unit), most=figure.num_ticks(width)), *rows]
        if finite
        else rows
    )
    if gutter:
        edge = svg.line(width - gutter + 8, 8, width - gutter + 8, top, "edge")
        marks.append(svg.group(edge, svg.text(width, top + 18, "no time", class_="tick", anchor="end")))
    return figure.Plot(marks, top + figure.FOOT_PX, x)


def _strip(strip: RunStrip, name: str, layout: _Layout, top: float) -> tuple[Markup, float]:
    """Draw one strip with its name as it fits; returns its height, too."""
    radius, positions = layout.radius, [layout.at(time_s) for _, time_s in strip.timed]
    swarm = svg.swarm(positions, layout.spacing)
    extent = max(math.ceil((math.ceil(len(strip.untimed) / 3) - 1) / 2), *map(abs, swarm), 0)
    height = (2 * extent + 1) * layout.spacing + (10 if radius == _TINY else 34) + layout.head
    marks: list[Markup] = []
    # Where the dots are; the rest of the height above them is for the mean's label.
    body = top + layout.head + (0 if radius == _TINY else 18)
    middle = (body + top + height) / 2
    if layout.head:
        marks.append(svg.text(0, top + 14, name, class_="name"))
    elif radius == _TINY:
        marks.append(svg.text(0, middle + 4.5, name, class_="label"))
    if strip.low_s is not None and strip.high_s is not None:
        left, right = layout.at(strip.low_s), layout.at(strip.high_s)
        marks.append(svg.rect(left, body, max(right - left, 1.0), top + height - body, "band", rx=3))
    if strip.mean_s is not None and math.isfinite(strip.mean_s):
        x = layout.at(strip.mean_s)
        marks.append(svg.line(x, body - 2, x, top + height, "mean"))
        if radius != _TINY:
            half = svg.text_width(strip.mean_label) / 2 + 8
            at = min(max(x, half), layout.width - layout.gutter - half)
            marks.append(svg.text(at, body - 7, strip.mean_label, class_="strong", anchor="middle"))
    placed = [
        (dot, x, middle + row * layout.spacing)
        for (dot, _), x, row in zip(strip.timed, positions, swarm, strict=True)
    ]
    # Runs without a time are at the right, in columns of three.
    first_row = -(((len(strip.untimed) + 2) // 3) - 1) / 2
    for index, dot in enumerate(strip.untimed):
        x = layout.width - layout.gutter + 28 + index % 3 * (layout.spacing + 6)
        placed.append((dot, x, middle + (index // 3 + first_row) * layout.spacing))
    if radius == _LARGE:
        marks += [_numbered(dot, x, y, hinted=layout.width > figure.NARROW_PX) for dot, x, y in placed]
    else:
        marks += _plain(placed, radius)
    return svg.group(*marks, class_=figure.hue(strip.hue)), height


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

"""Draws dot strips of any measured quantity: one dot per repetition (run or process), and one strip per
configuration.

A filled dot counts for the score. An open dot was left out of the score, as the fastest and the slowest run are. A
cross is a repetition that failed. The thick tick is the mean, and the band behind the dots is the mean's interval.
Evaluations come at fixed steps, so values are often equal; the dots of equal values are spread out vertically. In a
drawing of one strip, the dots are numbered. In a drawing of a few strips, each strip's name stands above it; in one
of many strips, the name stands at the left, which takes less height.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Unpack

from markupsafe import Markup

from reports.charts import figure, svg

_LARGE, _SMALL, _TINY = 9.0, 5.5, 4.0
_MOST_NAME = 340.0
MOST_TALL = 6


@dataclass(frozen=True, kw_only=True, slots=True)
class StripDot:
    """Dot of a dot strip, usually one repetition (run or process) of a configuration; `value` is None or infinite
    where the repetition has no value, such as the time of a run that did not converge."""

    label: str
    value: float | None
    fate: Literal["counted", "dropped", "failed"] = "counted"
    hint: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Strip:
    """Dot strip, usually of one configuration: a dot per repetition, the mean of the repetitions with the words
    printed above it, and the ends of the mean's interval."""

    name: str
    hue: int
    dots: tuple[StripDot, ...]
    mean: float | None
    mean_label: str = ""
    low: float | None
    high: float | None

    @property
    def known(self) -> list[tuple[StripDot, float]]:
        """Return the repetitions of a strip that have a value, as (repetition, value)."""
        return [(dot, dot.value) for dot in self.dots if dot.value is not None and math.isfinite(dot.value)]

    @property
    def missing(self) -> list[StripDot]:
        return [dot for dot in self.dots if dot.value is None or not math.isfinite(dot.value)]


@dataclass(frozen=True, kw_only=True, slots=True)
class Quantity:
    """Quantity that dot strips show: its axis name with the unit, and the function that formats tick labels.

    `is_ratio` states that ratios of values are meaningful, so that the axis may be logarithmic. `missing` are the
    words printed above the crosses of repetitions that have no value.
    """

    name: str
    words: Callable[[float], str] | None = None
    is_ratio: bool = True
    missing: str = "no value"


def strips_figure(
    strips: Sequence[Strip], quantity: Quantity, words: Mapping[str, str], **caption: Unpack[figure.Caption]
) -> figure.Figure:
    """Draw dot strips, the first at the top; `words` explain each kind of mark in the legend."""
    shown = {f"dot-{dot.fate}" for strip in strips for dot in strip.dots}
    shown |= {"dot-failed"} if any(strip.missing for strip in strips) else set()
    shown |= {"mean"} if any(strip.mean is not None for strip in strips) else set()
    shown |= {"band"} if any(strip.low is not None for strip in strips) else set()
    keys = [figure.LegendKey(mark=mark, words=text) for mark, text in words.items() if mark in shown]
    return figure.draw_both(lambda width, _: _draw(strips, quantity, width), keys, **caption)


@dataclass(frozen=True, kw_only=True, slots=True)
class _ChartLayout:
    """Layout that all dot strips of a drawing share: x scale, radius of dots, and room for names, means and missing
    values."""

    x: svg.Scale
    width: float
    radius: float
    head: float
    above: float
    gutter: float

    @property
    def spacing(self) -> float:
        return 2 * self.radius + 2


def _draw(strips: Sequence[Strip], quantity: Quantity, width: float) -> figure.Plot:
    # Several strips compare distributions, one strip shows runs: only there each dot carries its number.
    radius = _LARGE if len(strips) == 1 else _SMALL if len(strips) <= MOST_TALL else _TINY
    head = 22.0 if radius == _SMALL or (radius == _TINY and width <= 600) else 0.0
    names = [strip.name for strip in strips]
    longest = min(max(map(svg.text_width, names)), _MOST_NAME)
    margin = longest + 10 if radius == _TINY and not head else 0.0
    finite = [
        value
        for strip in strips
        for value in (*(dot.value for dot in strip.dots), strip.mean, strip.low, strip.high)
        if value is not None and math.isfinite(value)
    ]
    gutter = 92.0 if any(strip.missing for strip in strips) else 0.0
    x = svg.value_scale(finite, margin + radius + 4, width - gutter - radius - 4, is_ratio=quantity.is_ratio)
    above = 18.0 if radius != _TINY and any(strip.mean_label for strip in strips) else 0.0
    layout = _ChartLayout(x=x, width=width, radius=radius, head=head, above=above, gutter=gutter)
    rows: list[Markup] = []
    top = 8.0
    names = svg.fit_bold_names(names, width - 8) if head else svg.fit_names(names, longest)
    for name, strip in zip(names, strips, strict=True):
        row, height = _strip(strip, name, layout, top)
        rows.append(row)
        top += height + (3 if radius == _TINY else 10)
    name = quantity.name + (", logarithmic" if isinstance(x, svg.LogScale) else "")
    axis = svg.x_axis(x, 8, top, name, most=figure.num_ticks(width), words=quantity.words)
    marks = [axis, *rows] if finite else rows
    if gutter:
        edge = svg.line(width - gutter + 8, 8, width - gutter + 8, top, "edge")
        marks.append(svg.group(edge, svg.text(width, top + 18, quantity.missing, class_="tick", anchor="end")))
    return figure.Plot(marks, top + figure.FOOT_PX, x)


def _strip(strip: Strip, name: str, layout: _ChartLayout, top: float) -> tuple[Markup, float]:
    """Draw one dot strip at `top` px with its name; return its marks and its height in px."""
    radius, positions = layout.radius, [layout.x(value) for _, value in strip.known]
    swarm = svg.swarm(positions, layout.spacing)
    extent = max(math.ceil((math.ceil(len(strip.missing) / 3) - 1) / 2), *map(abs, swarm), 0)
    height = (2 * extent + 1) * layout.spacing + (10 if radius == _TINY else 16) + layout.above + layout.head
    marks: list[Markup] = []
    # Top of the dots; the space above them is for the mean's label.
    body = top + layout.head + layout.above
    middle = (body + top + height) / 2
    if layout.head:
        marks.append(svg.text(0, top + 14, name, class_="name"))
    elif radius == _TINY:
        marks.append(svg.text(0, middle + 4.5, name, class_="label"))
    if strip.low is not None and strip.high is not None:
        left, right = layout.x(strip.low), layout.x(strip.high)
        marks.append(svg.rect(left, body, max(right - left, 1.0), top + height - body, "band", rx=3))
    if strip.mean is not None and math.isfinite(strip.mean):
        x = layout.x(strip.mean)
        marks.append(svg.line(x, body - 2, x, top + height, "mean"))
        if layout.above:
            half = svg.text_width(strip.mean_label) / 2 + 8
            at = min(max(x, half), layout.width - layout.gutter - half)
            marks.append(svg.text(at, body - 7, strip.mean_label, class_="strong", anchor="middle"))
    placed = [
        (dot, x, middle + row * layout.spacing)
        for (dot, _), x, row in zip(strip.known, positions, swarm, strict=True)
    ]
    # Repetitions without a value are at the right, in columns of three.
    first_row = -(((len(strip.missing) + 2) // 3) - 1) / 2
    for index, dot in enumerate(strip.missing):
        x = layout.width - layout.gutter + 28 + index % 3 * (layout.spacing + 6)
        placed.append((dot, x, middle + (index // 3 + first_row) * layout.spacing))
    if radius == _LARGE:
        marks += [_numbered(dot, x, y, hinted=layout.width > figure.NARROW_PX) for dot, x, y in placed]
    else:
        marks += _plain(placed, radius)
    return svg.group(*marks, class_=figure.hue(strip.hue)), height


def _numbered(dot: StripDot, x: float, y: float, *, hinted: bool) -> Markup:
    hint = dot.hint if hinted else ""
    if dot.fate == "failed":
        label = svg.text(x + 8, y - 5, dot.label, class_="tiny")
        return svg.group(svg.cross(x, y, _LARGE * 0.7), label, hint=hint)
    label = svg.text(x, y + 4, dot.label, class_=f"in-{dot.fate}")
    return svg.group(svg.circle(x, y, _LARGE, f"dot-{dot.fate}"), label, hint=hint)


def _plain(placed: Sequence[tuple[StripDot, float, float]], radius: float) -> list[Markup]:
    """Draw dots without numbers, given as (dot, x, y) with x and y in px. To keep the file small, all dots of one
    kind are round line caps of a single SVG path; failed repetitions are a cross each."""
    size = "small" if radius == _SMALL else "tiny"
    marks = []
    for fate in ("counted", "dropped"):
        if places := [(x, y) for dot, x, y in placed if dot.fate == fate]:
            path = svg.spots(places)
            marks.append(svg.tag("path", d=path, class_=f"spots {size}"))
            marks += [svg.tag("path", d=path, class_=f"spots {size} hole")] if fate == "dropped" else []
    marks += [svg.cross(x, y, radius * 0.7) for dot, x, y in placed if dot.fate == "failed"]
    return marks

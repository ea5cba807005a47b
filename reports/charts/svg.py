"""Writes the SVG of charts: escaped elements, scales, ticks and the marks that charts share.

Elements have CSS classes and no colours. The style sheet has the palette, so one drawing serves light and dark
themes, forced colours and print. No `style` attribute is written, because the page's content security policy forbids
it.
"""

import math
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from markupsafe import Markup, escape

FONT_PX = 13.0
BOLD = 1.12
_FAR = 1e5
_BESIDE_PX = 12.0
"""Width, in px, that every chart leaves free to the right of its x axis."""
_HEAD_SHARES = (0.5, 0.4, 0.6, 0.3, 0.7, 0.2, 0.8, 0.1, 0.9, 0.0, 1.0)
_NICE_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)


def tag(name: str, *children: str, **attributes: str | float | None) -> Markup:
    """Return one SVG element. Attribute names lose trailing underscores (`class_` becomes class), and their inner
    underscores become hyphens. Attributes with the value None are left out.

    Children and values are escaped unless they are Markup already.
    """
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(value if isinstance(value, str) else _number(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    inner = "".join(escape(child) for child in children)
    return Markup(f"<{name}{written}>{inner}</{name}>" if inner else f"<{name}{written}/>")


def group(*children: str, class_: str | None = None, hint: str = "") -> Markup:
    """Return an SVG group of marks; `hint` is the text that browsers show on hover."""
    return tag("g", *hints(hint), *children, class_=class_)


def text(x: float, y: float, content: str, *, class_: str = "label", anchor: str = "start") -> Markup:
    """Return an SVG text with its baseline at y; `anchor` is start, middle or end."""
    return tag("text", content, x=x, y=y, class_=class_, text_anchor=None if anchor == "start" else anchor)


def line(x1: float, y1: float, x2: float, y2: float, class_: str) -> Markup:
    return tag("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)


def polyline(points: Sequence[tuple[float, float]], class_: str | None) -> Markup:
    return tag("path", d=path_data(points), class_=class_)


def path_data(points: Sequence[tuple[float, float]]) -> str:
    """Return SVG path data of a polyline through points in px. To save bytes, the path is written as relative moves;
    their rounding errors do not add up."""
    points = [(_within(x), _within(y)) for x, y in points]
    at_x, at_y = round(points[0][0], 1), round(points[0][1], 1)
    written = [f"M{_number(at_x)} {_number(at_y)}{'l' if len(points) > 1 else ''}"]
    for x, y in points[1:]:
        dx, dy = round(x - at_x, 1), round(y - at_y, 1)
        at_x, at_y = at_x + dx, at_y + dy
        steps = _number(dx) + (_number(dy) if dy < 0 and _number(dy) != "0" else f" {_number(dy)}")
        written.append(steps if len(written) == 1 or steps.startswith("-") else f" {steps}")
    return "".join(written)


def spots(places: Sequence[tuple[float, float]]) -> str:
    """Return SVG path data of zero-length lines at the given (x, y) in px; round line caps show them as dots."""
    return "".join(f"M{_number(x)} {_number(y)}h0" for x, y in places)


def boxes(corners: Sequence[tuple[float, float, float, float]], class_: str) -> Markup:
    """Draw rectangles (x, y, width, height), in px, of one CSS class as a single SVG path."""
    return tag(
        "path",
        d="".join(f"M{_number(x)} {_number(y)}h{_number(w)}v{_number(h)}h{_number(-w)}z" for x, y, w, h in corners),
        class_=class_,
    )


def rect(x: float, y: float, width: float, height: float, class_: str, *, rx: float | None = None) -> Markup:
    return tag("rect", x=x, y=y, width=max(width, 0.0), height=max(height, 0.0), rx=rx, class_=class_)


def circle(x: float, y: float, radius: float, class_: str | None) -> Markup:
    return tag("circle", cx=x, cy=y, r=radius, class_=class_)


def cross(x: float, y: float, radius: float) -> Markup:
    """Return an SVG cross at (x, y), which marks a failed run or a missing value."""
    a, b, extent = _number(x - radius), _number(y - radius), _number(2 * radius)
    return tag("path", d=f"M{a} {b}l{extent} {extent}m0-{extent}l-{extent} {extent}", class_="dot-failed")


def drawing(
    *children: str,
    width: float,
    height: float,
    id_: str,
    title: str,
    description: str,
    x: "Scale | None" = None,
    y: "Scale | None" = None,
) -> Markup:
    """Return the svg element of a chart: an image with a title and a description for screen readers.

    The x and y scales are written into attributes, so that programs can compute the values from the marks' positions.
    """
    return tag(
        "svg",
        tag("title", title, id=f"{id_}-t"),
        tag("desc", description, id=f"{id_}-d"),
        *children,
        role="img",
        viewBox=f"0 0 {_number(width)} {_number(height)}",
        aria_labelledby=f"{id_}-t {id_}-d",
        class_="chart",
        data_x=x.written if x is not None else None,
        data_y=y.written if y is not None else None,
    )


def text_width(content: str) -> float:
    """Estimate the width in px of text in a sans-serif font; wide scripts count double."""
    return sum(FONT_PX * (0.31 if char in " .,:;'|il!" else 0.58 if ord(char) < 0x2E80 else 1.0) for char in content)


def fit(content: str, width: float) -> str:
    """Shorten a text by an ellipsis where it would be wider than `width` px."""
    if text_width(content) <= width:
        return content
    while content and text_width(content + "…") > width:
        content = content[:-1]
    return content.rstrip() + "…"


def fit_names(names: Sequence[str], width: float) -> list[str]:
    """Shorten names to `width` px by an ellipsis in the middle, so that different names stay different.

    Names that would still be equal after shortening get numbers.
    """
    cut = {name: _fit_middle(name, width, _HEAD_SHARES[0]) for name in names}
    for share in _HEAD_SHARES[1:]:
        cut |= {name: _fit_middle(name, width, share) for name in _alike(cut)}
    for number, name in enumerate(_alike(cut), start=1):
        prefix = f"{number}: "
        cut[name] = prefix + _fit_middle(name, width - text_width(prefix), _HEAD_SHARES[0])
    return [cut[name] for name in names]


def _alike(cut: Mapping[str, str]) -> list[str]:
    """Return the names that are shortened to the same text as another name; `cut` has each name's shortened form."""
    texts = Counter(cut.values())
    return [name for name, text in cut.items() if texts[text] > 1]


def fit_bold_names(names: Sequence[str], width: float) -> list[str]:
    """Shorten names, printed in bold (wider than regular), to `width` px by an ellipsis, so that different names stay
    different."""
    return fit_names(names, width / BOLD)


def _fit_middle(content: str, width: float, head_share: float) -> str:
    """Shorten a text to `width` px by an ellipsis. The fraction `head_share` of the kept characters comes from the
    text's start, the rest from its end."""
    if text_width(content) <= width:
        return content
    for num_kept in range(len(content) - 1, 0, -1):
        num_head = round(num_kept * head_share)
        cut = f"{content[:num_head].rstrip()}…{content[len(content) - num_kept + num_head :].lstrip()}"
        if text_width(cut) <= width:
            return cut
    return "…"


def hints(hint: str) -> tuple[Markup, ...]:
    """Return the SVG title element, whose text browsers show on hover; empty for an empty hint."""
    return (tag("title", hint),) if hint else ()


@dataclass(frozen=True, slots=True)
class Scale:
    """Linear map from values in [low, high] to [start, stop] px; where low equals high, every value is mapped to the
    middle."""

    low: float
    high: float
    start: float
    stop: float
    kind: ClassVar[str] = ""

    def __call__(self, value: float) -> float:
        share = self.share(value) if self.high != self.low else 0.5
        return self.start + share * (self.stop - self.start)

    def share(self, value: float) -> float:
        """Return the position of a value on a scale as a fraction: 0 at `low`, 1 at `high`."""
        return (value - self.low) / (self.high - self.low)

    @property
    def written(self) -> str:
        """Return a scale as text for an attribute of the chart's SVG element: the values at both ends, the pixels at
        both ends, and 'log' for a logarithmic scale."""
        return f"{self.low:.9g} {self.high:.9g} {_number(self.start)} {_number(self.stop)}{self.kind}"

    def ticks(self, most: int) -> tuple[float, ...]:
        """Return at most `most` round values inside the scale's range, for tick labels."""
        return nice_ticks(self.low, self.high, most)


@dataclass(frozen=True, slots=True)
class LogScale(Scale):
    """Logarithmic map from values in [low, high], both positive, to [start, stop] px."""

    kind: ClassVar[str] = " log"

    def share(self, value: float) -> float:
        return math.log(max(value, self.low * 1e-6) / self.low) / math.log(self.high / self.low)

    def ticks(self, most: int) -> tuple[float, ...]:
        """Return tick values inside a logarithmic scale: 1, 2 and 5 times powers of ten, or the powers alone if those
        exceed `most`."""
        powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        for leads in ((1, 2, 5), (1,)):
            found = [lead * 10.0**power for power in powers for lead in leads]
            inside = tuple(value for value in found if self.low <= value <= self.high)
            if len(inside) <= most:
                return inside
        return inside[:: math.ceil(len(inside) / most)]


def value_scale(values: Sequence[float], start: float, stop: float, *, is_ratio: bool = True) -> Scale:
    """Return the scale from values to positions between `start` and `stop` px. All values fit on the scale, with some
    room at both ends. It is logarithmic where values differ by a factor of 8 or more, else linear.

    Without `is_ratio`, the scale is always linear, because ratios of the values have no meaning.
    """
    if not values:
        return Scale(0.0, 1.0, start, stop)
    if is_ratio and are_far_apart(values):
        least, greatest = min(values), max(values)
        share = (greatest / least) ** 0.05
        low, high = least / share, greatest * share
        if low > 0 and math.isfinite(high / low):  # else the ratio overflows a float
            return LogScale(low, high, start, stop)
    low, high = padded(values, 0.08)
    return Scale(low if min(values) < 0 else max(low, 0.0), high, start, stop)


def are_far_apart(values: Sequence[float]) -> bool:
    """Return True if values suit a logarithmic axis: all are positive, and the largest is at least 8 times the
    smallest."""
    return min(values) > 0 and max(values) / min(values) >= 8.0


def nice_ticks(low: float, high: float, most: int) -> tuple[float, ...]:
    """Return at most `most` tick values within [low, high]: multiples of 1, 2, 2.5 or 5 times a power of ten."""
    if not (math.isfinite(low) and math.isfinite(high)) or high <= low or most < 1:
        return (low,) if math.isfinite(low) else ()
    magnitude = 10.0 ** math.floor(math.log10((high - low) / most))
    for power in (magnitude, magnitude * 10):
        for nice in _NICE_STEPS:
            step = nice * power
            first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
            if last - first + 1 <= most:
                return tuple(index * step for index in range(first, last + 1))
    return (low,)


def padded(values: Sequence[float], share: float = 0.06) -> tuple[float, float]:
    """Return (low, high) of an axis that holds the finite values, with `share` of their range added at each end; low
    < high always."""
    low, high = min(values), max(values)
    extent = high - low or abs(high) * 0.1 or 1.0
    return low - share * extent, high + share * extent


def tick_texts(ticks: Sequence[float]) -> tuple[str, ...]:
    """Return the labels of axis ticks, with as few decimals as make all labels different."""
    if any(0 < abs(tick) < 1e-6 or abs(tick) >= 1e9 for tick in ticks):
        return tuple(f"{tick:.3g}".replace("-", "−") for tick in ticks)
    for digits in range(7):
        if all(math.isclose(round(tick, digits), tick, rel_tol=1e-9, abs_tol=1e-12) for tick in ticks):
            break
    return tuple(f"{tick + 0.0:,.{digits}f}".replace("-", "−") for tick in ticks)


def x_axis(
    scale: Scale, top: float, bottom: float, name: str, *, most: int, words: Callable[[float], str] | None = None
) -> Markup:
    """Draw an x axis from its scale: vertical grid lines, tick labels below `bottom` px and the axis' name at its
    right end."""
    return x_axis_at(placed_ticks(scale, most, words), top, bottom, scale.stop, name)


def x_axis_at(places: Sequence[tuple[float, str]], top: float, bottom: float, right: float, name: str) -> Markup:
    """Draw an x axis with the given labels, (px, label) each; a label at an end of the axis is kept inside the
    drawing."""
    halves = [(x, label, text_width(label) / 2 + 2) for x, label in places]
    placed = [(label, max(half, min(x, right + _BESIDE_PX - half)), bottom + 18) for x, label, half in halves]
    return group(
        tag("path", d="".join(f"M{_number(x)} {_number(top)}V{_number(bottom)}" for x, _ in places), class_="grid"),
        labels(placed, "middle"),
        text(right, bottom + 36, name, class_="axis", anchor="end") if name else Markup(),
    )


def y_axis(
    scale: Scale, left: float, right: float, *, most: int, words: Callable[[float], str] | None = None
) -> Markup:
    """Draw a y axis from its scale: horizontal grid lines with their tick labels to the left of `left` px."""
    places = placed_ticks(scale, most, words)
    return group(
        tag("path", d="".join(f"M{_number(left)} {_number(y)}H{_number(right)}" for y, _ in places), class_="grid"),
        labels([(label, left - 8, y + 4) for y, label in places], "end"),
    )


def labels(places: Iterable[tuple[str, float, float]], anchor: str | None = None) -> Markup:
    """Draw small text labels, each (words, x, y) in px, as one SVG group."""
    return tag("g", *(tag("text", words, x=x, y=y) for words, x, y in places), class_="tick", text_anchor=anchor)


def placed_ticks(scale: Scale, most: int, words: Callable[[float], str] | None) -> list[tuple[float, str]]:
    """Return at most `most` ticks of a scale as (px, label). The function `words` formats the labels. Labels are
    plain numbers if there is no such function, or if it would make two labels equal."""
    ticks = scale.ticks(most)
    texts = tick_texts(ticks) if words is None else tuple(map(words, ticks))
    return list(zip(map(scale, ticks), texts if len({*texts}) == len(texts) else tick_texts(ticks), strict=True))


def swarm(positions: Sequence[float], spacing: float) -> tuple[int, ...]:
    """Choose a row for each mark (0, then −1, 1, −2, 2 …) so that marks whose positions are closer than `spacing` px
    do not overlap."""
    rows: list[int] = []
    taken: dict[int, list[float]] = {}
    last: dict[float, int] = {}  # row of the last mark at each position: the rows tried before it stay taken
    for position in positions:
        row = last.get(position, 0)
        while _is_near(taken.setdefault(row, []), position, spacing - 1e-6):
            row = -row if row < 0 else -row - 1
        insort(taken[row], position)
        last[position] = row
        rows.append(row)
    return tuple(rows)


def _is_near(taken: Sequence[float], position: float, distance: float) -> bool:
    """Return True if one of the sorted positions `taken` is less than `distance` px from `position`."""
    place = bisect_left(taken, position)
    return any(abs(other - position) < distance for other in taken[max(place - 1, 0) : place + 1])


def _number(value: float) -> str:
    """Format an SVG coordinate with at most one decimal and no trailing zero: finer detail than 0.1 px is
    invisible."""
    shown = f"{_within(value):.1f}"
    return shown[:-2] if shown.endswith(".0") else shown


def _within(value: float) -> float:
    """Return an SVG coordinate limited to ±100,000 px, far outside any drawing, where arithmetic still works."""
    return max(-_FAR, min(value, _FAR)) if value == value else _FAR

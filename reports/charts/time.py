"""Where the time goes: one stacked bar per run, from zero, in the parts that the log tells apart."""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from reports.charts import svg
from reports.charts.figure import Figure, Key, draw_both
from reports.text.formatting import TimeUnit

_BAR, _GAP, _LEAST_LEFT = 20.0, 8.0, 56.0
PARTS = (
    ("train", "training"),
    ("eval", "evaluation"),
    ("other", "other: between blocks, before the first, after the last"),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class TimeBar:
    """One run's timed seconds by part, in the order of PARTS; the parts add up to time to train."""

    label: str
    parts_s: tuple[float, ...]
    words: str


def time_figure(bars: Sequence[TimeBar], unit: TimeUnit, *, id_: str, title: str, description: str) -> Figure:
    used = [index for index in range(len(PARTS)) if any(bar.parts_s[index] > 0 for bar in bars)]
    return draw_both(
        lambda width, drawn_id: _draw(bars, unit, width, drawn_id, title, description),
        id_=id_,
        title=title,
        description=description,
        keys=tuple(Key(mark=f"part-{PARTS[index][0]}", words=PARTS[index][1]) for index in used),
    )


def _draw(bars: Sequence[TimeBar], unit: TimeUnit, width: float, id_: str, title: str, description: str) -> Markup:
    note = 130.0 if width > 600 else 0.0
    longest_name = max((svg.text_width(bar.label) for bar in bars), default=0.0)
    left_edge = max(_LEAST_LEFT, min(longest_name + 12, width / 3))
    longest = max((sum(bar.parts_s) for bar in bars), default=1.0) / unit.seconds
    x = svg.Scale(0.0, longest or 1.0, left_edge, width - note - 12)
    bottom = 8 + len(bars) * (_BAR + _GAP)
    marks: list[Markup] = [svg.x_axis(x, 4, bottom, f"time, {unit.name}", most=8 if width > 600 else 4)]
    tops = [8 + index * (_BAR + _GAP) for index in range(len(bars))]
    for number, (part, _) in enumerate(PARTS):
        corners = []
        for bar, top in zip(bars, tops, strict=True):
            left, right = (x(sum(bar.parts_s[:end]) / unit.seconds) for end in (number, number + 1))
            if bar.parts_s[number] > 0:
                # A hairline of background between parts tells them apart without colour.
                corners.append((left, top, max(right - left - 1, 0.7), _BAR))
        marks.append(svg.boxes(corners, f"part-{part}") if corners else Markup())
    names = (
        svg.tag("text", svg.fit(bar.label, left_edge - 12), x=left_edge - 8, y=top + 15)
        for bar, top in zip(bars, tops, strict=True)
    )
    marks.append(svg.tag("g", *names, class_="tick", text_anchor="end"))
    if note:
        ends = [x(sum(bar.parts_s) / unit.seconds) + 8 for bar in bars]
        words = (
            svg.tag("text", bar.words, x=end, y=top + 15) for bar, end, top in zip(bars, ends, tops, strict=True)
        )
        marks.append(svg.tag("g", *words, class_="tick"))
    return svg.drawing(*marks, width=width, height=bottom + 44, id_=id_, title=title, description=description, x=x)

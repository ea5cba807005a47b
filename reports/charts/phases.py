"""Phases of one step: one bar each, and how much of it the phase would take at its ceiling."""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from reports.charts import svg
from reports.charts.figure import Figure, Key, draw_both

_BAR, _GAP, _LEFT = 16.0, 8.0, 128.0
KEYS = (
    Key(mark="part-train", words="what it would take at its ceiling"),
    Key(mark="part-other", words="what it takes beyond"),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class PhaseBar:
    """`share` of the step's time; `at_ceiling` is the part of that share that the ceiling explains, at most all."""

    name: str
    share: float
    at_ceiling: float
    words: str


def phases_figure(bars: Sequence[PhaseBar], *, id_: str, title: str, description: str) -> Figure:
    return draw_both(
        lambda width, drawn_id: _draw(bars, width, drawn_id, title, description),
        id_=id_,
        title=title,
        description=description,
        keys=KEYS,
    )


def _draw(bars: Sequence[PhaseBar], width: float, id_: str, title: str, description: str) -> Markup:
    note = 190.0 if width > 600 else 0.0
    bottom = 8 + len(bars) * (_BAR + _GAP)
    x = svg.Scale(0.0, max((bar.share for bar in bars), default=1.0) * 100 or 1.0, _LEFT, width - note - 12)
    tops = [8 + index * (_BAR + _GAP) for index in range(len(bars))]
    marks: list[Markup] = [svg.x_axis(x, 4, bottom, "% of the step's time", most=8 if width > 600 else 4)]
    ends = [x(min(max(bar.at_ceiling, 0.0), bar.share) * 100) for bar in bars]
    reached = [(x(0), top, end - x(0), _BAR) for top, end in zip(tops, ends, strict=True) if end - x(0) > 0.2]
    # A hairline of background between the parts tells them apart without colour.
    beyond = [
        (end + 1, top, max(x(bar.share * 100) - end - 1, 0.3), _BAR)
        for bar, top, end in zip(bars, tops, ends, strict=True)
    ]
    marks += [svg.boxes(reached, "part-train")] if reached else []
    marks += [svg.boxes(beyond, "part-other")] if beyond else []
    names = (
        svg.tag("text", svg.fit(bar.name, _LEFT - 10), x=_LEFT - 8, y=top + 12.5)
        for bar, top in zip(bars, tops, strict=True)
    )
    marks.append(svg.tag("g", *names, class_="tick", text_anchor="end"))
    if note:
        words = (
            svg.tag("text", svg.fit(bar.words, note), x=x(bar.share * 100) + 8, y=top + 12.5)
            for bar, top in zip(bars, tops, strict=True)
        )
        marks.append(svg.tag("g", *words, class_="tick"))
    return svg.drawing(*marks, width=width, height=bottom + 44, id_=id_, title=title, description=description)

"""Scores with their intervals, raw and normalised: one row per configuration, to see what overlaps what."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Unpack

from reports.charts import svg
from reports.charts.figure import FOOT_PX, Caption, Figure, Key, Plot, draw_both, hue, num_ticks, time_axis_name
from reports.text.formatting import TimeUnit

_ROW = 46.0


@dataclass(frozen=True, kw_only=True, slots=True)
class ScoreRow:
    """One configuration: the Olympic mean with its interval, and the score where an RCP factor changes it."""

    name: str
    hue: int
    olympic_mean_s: float | None
    score_s: float | None
    low_s: float | None
    high_s: float | None
    words: str


def scores_figure(rows: Sequence[ScoreRow], unit: TimeUnit, **caption: Unpack[Caption]) -> Figure:
    """Draw the rows in their order."""
    keys = [Key(mark="mean", words="Olympic mean, as measured")]
    if any(row.low_s is not None for row in rows):
        keys.append(Key(mark="band", words="interval of the geometric mean"))
    if any(row.score_s is not None for row in rows):
        keys.append(Key(mark="end", words="score, after the RCP factor"))
    return draw_both(lambda width, _: _draw(rows, unit, width), keys, **caption)


def _draw(rows: Sequence[ScoreRow], unit: TimeUnit, width: float) -> Plot:
    known = [
        value / unit.seconds
        for row in rows
        for value in (row.olympic_mean_s, row.score_s, row.low_s, row.high_s)
        if value is not None
    ]
    x = svg.value_scale(known, 6.0, width - 6.0)
    bottom = 8 + len(rows) * _ROW
    marks = [svg.x_axis(x, 4, bottom, time_axis_name(x, unit), most=num_ticks(width))]
    room = max(svg.text_width(f"  {row.words}") for row in rows) * svg.BOLD
    names = svg.fit_bold_names([row.name for row in rows], width - room)
    for number, (name, row) in enumerate(zip(names, rows, strict=True)):
        top = 8 + number * _ROW
        drawn = [svg.text(0, top + 13, f"{name}  {row.words}", class_="name halo")]
        if row.low_s is not None and row.high_s is not None:
            left, right = x(row.low_s / unit.seconds), x(row.high_s / unit.seconds)
            drawn.append(svg.rect(left, top + 20, max(right - left, 1.0), 18, "band", rx=3))
        if row.olympic_mean_s is not None:
            at = x(row.olympic_mean_s / unit.seconds)
            drawn.append(svg.line(at, top + 18, at, top + 40, "mean"))
        if row.score_s is not None:
            drawn.append(svg.circle(x(row.score_s / unit.seconds), top + 29, 5, "end"))
        marks.append(svg.group(*drawn, class_=hue(row.hue)))
    return Plot(marks, bottom + FOOT_PX, x)

"""Draws charts with one line per series, over a quantity on a logarithmic x axis, such as the number of ranks, a
link's speed or a rate."""

from collections.abc import Callable, Sequence

from markupsafe import Markup

from reports.charts import svg
from reports.charts.figure import Plot, hue
from reports.charts.xy import SMALL_PX, ChartAxis, Panel, Series, factor_around, from_zero

SMALL_HEIGHT = 200.0


def scaling_panel(
    series: Sequence[Series],
    x_axis: tuple[str, Callable[[float], str]],
    y_axis: tuple[str, Callable[[float], str]],
    *,
    places: Sequence[float] = (),
    target: float | None = None,
    target_words: str = "",
    height: float = 260.0,
) -> Panel:
    """Return a chart panel of the series, with a logarithmic x axis: a factor of two in ranks, or in a link's speed,
    is the same distance everywhere. Each axis is given by its name and the function that formats its tick labels.

    `places` are x values to label instead of round numbers; `target` is the y value of a horizontal line. The y axis
    is logarithmic where y values differ by a factor of 8 or more; else it starts at 0, so that heights can be
    compared.
    """
    dots = [dot for line in series for dot in line.dots]
    levels = [value for value in (*(dot.y for dot in dots), target) if value is not None]
    (x_name, x_words), (y_name, y_words) = x_axis, y_axis
    return Panel(
        x=ChartAxis(
            name=x_name,
            scale=factor_around([dot.x for dot in dots], 1.15),
            words=x_words,
            places=[(place, x_words(place)) for place in places],
        ),
        y=ChartAxis(name=y_name, scale=from_zero(levels), words=y_words),
        series=series,
        target=target,
        target_words=target_words,
        height=height,
    )


def scaling_legend(series: Sequence[Series], *, id_: str) -> Markup:
    """Draw the legend of a chart's series as a drawing of its own, placed after the panels."""
    marks: list[Markup] = [svg.text(0, 12, "Lines", class_="axis")]
    names = svg.fit_names([line.name for line in series], SMALL_PX - 38)
    for number, (name, line) in enumerate(zip(names, series, strict=True)):
        at = 36.0 + 30.0 * number
        mark = (svg.line(4, at, 30, at, "curve"), svg.circle(17, at, 4.5, "dot-counted"))
        words = svg.text(38, at + 4, name)
        marks.append(svg.group(*mark, words, class_=hue(line.hue), hint=line.name))
    about = f"Names of the lines: {'; '.join(line.name for line in series)}"
    return Plot(marks, SMALL_HEIGHT).drawn(SMALL_PX, id_=id_, title="Lines", description=about)

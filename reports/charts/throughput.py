"""Samples per second in each block between two evaluations: drift, throttling and disturbances show here."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from reports.charts import svg
from reports.charts.figure import WIDE_PX, Figure, Key, draw_both, hue, reused_curves
from reports.text.formatting import si

_HEIGHT = 250.0
_LEFT, _RIGHT, _TOP = 62.0, 14.0, 26.0
_LEAST_EXTENT = 0.05


@dataclass(frozen=True, kw_only=True, slots=True)
class BlockLine:
    """One run: points are (samples trained at the block's end, samples per second inside the block)."""

    hue: int
    points: tuple[tuple[float, float], ...]
    hint: str


def throughput_figure(
    lines: Sequence[BlockLine], *, id_: str, title: str, description: str, names: Mapping[int, str]
) -> Figure:
    """`names` are those of the configurations by their hue, where several are drawn."""
    keys = tuple(Key(mark="curve", words=name, hue=hue(index)) for index, name in names.items())
    return draw_both(
        lambda width, drawn_id: _draw(lines, width, drawn_id, title, description),
        id_=id_,
        title=title,
        description=description,
        keys=keys or (Key(mark="curve", words="one run"),),
    )


def _draw(lines: Sequence[BlockLine], width: float, id_: str, title: str, description: str) -> Markup:
    rates = [rate for line in lines for _, rate in line.points]
    middle = sorted(rates)[len(rates) // 2]
    # At least five percent either way, so that noise of a thousandth does not look like a mountain range.
    low, high = svg.padded([*rates, middle * (1 - _LEAST_EXTENT), middle * (1 + _LEAST_EXTENT)], 0.04)
    bottom = _HEIGHT - 44
    y = svg.Scale(max(low, 0.0), high, bottom, _TOP)
    x = _x_scale(lines, width)
    marks: list[Markup] = [
        svg.x_axis(x, _TOP - 8, bottom, "samples trained", most=8 if width > 600 else 4, words=si),
        svg.y_axis(y, _LEFT, width - _RIGHT, most=5, words=si),
        svg.text(0, 12, "samples/s within each block", class_="axis"),
    ]
    if width == WIDE_PX:
        marks.append(svg.tag("g", *(_curve(line, x, y) for line in lines), id=f"{id_}-curves"))
    else:
        marks.append(reused_curves(id_, x, _x_scale(lines, WIDE_PX)))
    return svg.drawing(*marks, width=width, height=_HEIGHT, id_=id_, title=title, description=description, x=x, y=y)


def _x_scale(lines: Sequence[BlockLine], width: float) -> svg.Scale:
    return svg.Scale(0.0, max(point[0] for line in lines for point in line.points) * 1.02, _LEFT, width - _RIGHT)


def _curve(line: BlockLine, x: svg.Scale, y: svg.Scale) -> Markup:
    points = [(x(a), y(b)) for a, b in line.points]
    mark = svg.polyline(points, "curve") if len(points) > 1 else svg.circle(*points[0], 2.5, "speck")
    return svg.group(mark, class_=hue(line.hue), hint=line.hint)

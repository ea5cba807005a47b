"""Quality over the epoch: one line per run, the target as a labelled line.

The axis leaves out the first steep part, which no run ends in, so that what happens near the target can be seen.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from reports import svg
from reports.charts.figure import NARROW_PX, WIDE_PX, Figure, Key, draw_both, hue, reused_curves

_HEIGHT = 360.0
_LEFT, _RIGHT, _TOP = 62.0, 14.0, 26.0


@dataclass(frozen=True, kw_only=True, slots=True)
class QualityLine:
    """One run: points are (fraction of the epoch or other x, quality) in order."""

    hue: int
    points: tuple[tuple[float, float], ...]
    fate: str
    hint: str


def convergence_figure(
    lines: Sequence[QualityLine],
    target: float | None,
    x_name: str,
    *,
    id_: str,
    title: str,
    description: str,
    names: Mapping[int, str],
) -> Figure:
    """`names` are those of the configurations by their hue, where several are drawn."""
    fates = {line.fate for line in lines}
    keys = [Key(mark="curve", words=name, hue=hue(index)) for index, name in names.items()]
    keys += [] if names else [Key(mark="curve", words="one run")]
    keys += [Key(mark="end", words="reached the target")] if fates & {"counted", "dropped"} else []
    keys += [Key(mark="dot-failed", words="ended below the target")] if "failed" in fates else []
    return draw_both(
        lambda width, drawn_id: _draw(lines, target, x_name, width, drawn_id, title, description),
        id_=id_,
        title=title,
        description=description,
        keys=tuple(keys),
    )


def visible_quality(lines: Sequence[QualityLine], target: float | None) -> tuple[float, float]:
    """The y domain: from the lowest quality after each run's first third of evaluations to just above all."""
    late = [y for line in lines for _, y in line.points[min(len(line.points) // 3, len(line.points) - 1) :]]
    late += [line.points[-1][1] for line in lines if line.points]
    late += [target] if target is not None else []
    return svg.padded(late, 0.08) if late else (0.5, 1.0)


def _draw(
    lines: Sequence[QualityLine],
    target: float | None,
    x_name: str,
    width: float,
    id_: str,
    title: str,
    description: str,
) -> Markup:
    bottom = _HEIGHT - 44
    low, high = visible_quality(lines, target)
    y = svg.Scale(low, high, bottom, _TOP)
    x = _x_scale(lines, width)
    clip = f"{id_}-clip"
    marks: list[Markup] = [
        svg.tag("clipPath", svg.rect(_LEFT, 0, width - _LEFT, bottom, "clip"), id=clip),
        svg.x_axis(x, _TOP - 8, bottom, x_name, most=11 if width > 600 else 5),
        svg.y_axis(y, _LEFT, width - _RIGHT, most=7),
        svg.text(0, 12, "ROC AUC on the held-out split", class_="axis"),
    ]
    drawn = [line for line in lines if line.points]
    if target is not None:
        marks.append(svg.line(_LEFT, y(target), width - _RIGHT, y(target), "target"))
    if width == WIDE_PX:
        curves: Markup = svg.tag("g", *(_curve(line, x, y) for line in drawn), id=f"{id_}-curves")
    else:
        curves = reused_curves(id_, x, _x_scale(lines, WIDE_PX))
    marks.append(svg.tag("g", curves, clip_path=f"url(#{clip})"))
    marks += [_end(line, x, y, hinted=width > NARROW_PX) for line in drawn]
    if target is not None:
        marks.append(svg.text(_LEFT + 6, y(target) - 7, f"target {target:.5f}", class_="strong halo"))
    return svg.drawing(*marks, width=width, height=_HEIGHT, id_=id_, title=title, description=description)


def _x_scale(lines: Sequence[QualityLine], width: float) -> svg.Scale:
    last = max((point[0] for line in lines for point in line.points), default=1.0)
    return svg.Scale(0.0, last * 1.02 or 1.0, _LEFT, width - _RIGHT)


def _curve(line: QualityLine, x: svg.Scale, y: svg.Scale) -> Markup:
    class_ = f"curve {line.fate}" if line.fate == "failed" else "curve"
    return svg.group(svg.polyline([(x(a), y(b)) for a, b in line.points], class_), class_=hue(line.hue))


def _end(line: QualityLine, x: svg.Scale, y: svg.Scale, *, hinted: bool) -> Markup:
    at_x, at_y = x(line.points[-1][0]), y(line.points[-1][1])
    failed = line.fate == "failed"
    mark = svg.cross(at_x, at_y, 5, "dot-failed") if failed else svg.circle(at_x, at_y, 4, "end")
    return svg.group(mark, class_=hue(line.hue), hint=line.hint if hinted else "")

"""Quality over the epoch: one line per run, the target as a labelled line.

The axis leaves out the first steep part, which no run ends in, so that what happens near the target can be seen.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Unpack

from markupsafe import Markup

from reports.charts import figure, svg

_HEIGHT = 360.0
SMALL_PX = 300.0
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
    metric: str,
    names: Mapping[int, str],
    same_as: str | None = None,
    **caption: Unpack[figure.Caption],
) -> figure.Figure:
    """Draw one line per run of a `metric`, such as 'ROC AUC'.

    `names` are those of the configurations by their hue, where several are drawn.

    `same_as` is the id of another figure on the page whose curves, in px, are these: over the samples instead of
    the epoch only the axis differs.
    """
    fates = {line.fate for line in lines}
    keys = figure.curve_keys(names)
    keys += [figure.Key(mark="end", words="reached the target")] if fates & {"counted", "dropped"} else []
    keys += [figure.Key(mark="dot-failed", words="ended below the target")] if "failed" in fates else []

    def draw(width: float, id_: str) -> figure.Plot:
        low, high = visible_quality(lines, target)
        x, y = _x_scale(lines, width), svg.Scale(low, high, _HEIGHT - figure.FOOT_PX, _TOP)
        if same_as is not None and width == figure.WIDE_PX:
            curves = svg.tag("use", href=f"#{same_as}-w-curves")
        elif same_as is not None or width != figure.WIDE_PX:
            curves = figure.reused_curves(
                f"{same_as}-n" if same_as is not None else id_, x, _x_scale(lines, figure.WIDE_PX)
            )
        else:
            curves = svg.tag("g", *_runs(lines, x, y), id=f"{id_}-curves")
        axes = (
            svg.x_axis(x, _TOP - 8, y.start, x_name, most=11 if width > 600 else 5),
            svg.y_axis(y, x.start, x.stop, most=7),
            svg.text(0, 12, f"{metric} on the held-out split", class_="axis"),
        )
        marks = _plot(lines, target, x, y, f"{id_}-clip", width, axes, [curves])
        if target is not None:
            marks.append(svg.text(x.start + 6, y(target) - 7, f"target {target:.5f}", class_="strong halo"))
        return figure.Plot(marks, _HEIGHT, x, y)

    return figure.draw_both(draw, keys, **caption)


def small_convergence(
    lines: Sequence[QualityLine],
    target: float | None,
    domain: tuple[float, float, float],
    *,
    name: str,
    id_: str,
    description: str,
) -> Markup:
    """Draw one configuration among many.

    `name` fits SMALL_PX; `domain` is (last x, lowest and highest quality) of all of them.
    """
    width, height = SMALL_PX, 190.0
    x = svg.Scale(0.0, domain[0] * 1.02 or 1.0, 44.0, width - 8)
    y = svg.Scale(domain[1], domain[2], height - 24, 26.0)
    axes = (
        svg.x_axis(x, 24, y.start, "", most=4),
        svg.y_axis(y, x.start, x.stop, most=4),
        svg.text(0, 13, name, class_="name"),
    )
    marks = _plot(lines, target, x, y, f"{id_}-clip", width, axes, _runs(lines, x, y))
    return figure.Plot(marks, height, x, y).drawn(width, id_=id_, title=name, description=description)


def visible_quality(lines: Sequence[QualityLine], target: float | None) -> tuple[float, float]:
    """Choose the y domain: from the lowest quality after each run's first third of evaluations to just above all."""
    late = [y for line in lines for _, y in line.points[min(len(line.points) // 3, len(line.points) - 1) :]]
    late += [line.points[-1][1] for line in lines if line.points]
    late += [target] if target is not None else []
    return svg.padded(late, 0.08) if late else (0.5, 1.0)


def _plot(
    lines: Sequence[QualityLine],
    target: float | None,
    x: svg.Scale,
    y: svg.Scale,
    clip: str,
    width: float,
    axes: Sequence[Markup],
    curves: Sequence[Markup],
) -> list[Markup]:
    """Put curves, cut off at the plot's edges, and the ends of failed runs over the axes and the target's line."""
    return [
        svg.tag("clipPath", svg.rect(x.start, 0, width - x.start, y.start, "clip"), id=clip),
        *axes,
        *([svg.line(x.start, y(target), x.stop, y(target), "target")] if target is not None else []),
        svg.tag("g", *curves, clip_path=f"url(#{clip})"),
        *(_failed_end(line, x, y) for line in lines if line.points and line.fate == "failed"),
    ]


def _x_scale(lines: Sequence[QualityLine], width: float) -> svg.Scale:
    last = max((point[0] for line in lines for point in line.points), default=1.0)
    return svg.Scale(0.0, last * 1.02 or 1.0, _LEFT, width - _RIGHT)


def _runs(lines: Sequence[QualityLine], x: svg.Scale, y: svg.Scale) -> list[Markup]:
    """Draw curves and ends by configuration. All ends of one are a single path of round caps, which stay round where
    the narrow drawing squeezes it."""
    by_hue: dict[int, list[QualityLine]] = {}
    for line in lines:
        if line.points:
            by_hue.setdefault(line.hue, []).append(line)
    groups = []
    for number, some in by_hue.items():
        curves = [_curve(line, x, y) for line in some]
        ends = [line.points[-1] for line in some if line.fate != "failed"]
        path = svg.tag("path", d=svg.spots([(x(a), y(b)) for a, b in ends]), class_="ends") if ends else Markup()
        groups.append(svg.group(*curves, path, class_=figure.hue(number)))
    return groups


def _curve(line: QualityLine, x: svg.Scale, y: svg.Scale) -> Markup:
    class_ = "curve failed" if line.fate == "failed" else "curve"
    points = [(x(a), y(b)) for a, b in line.points]
    # What is below the picture is left out, but for the last such point, from which the line comes in.
    first = next((number for number, (_, at) in enumerate(points) if at <= y.start), len(points) - 1)
    points = points[max(first - 1, 0) :]
    return svg.tag("path", *svg.hints(line.hint), d=svg.path_data(points), class_=class_)


def _failed_end(line: QualityLine, x: svg.Scale, y: svg.Scale) -> Markup:
    mark = svg.cross(x(line.points[-1][0]), y(line.points[-1][1]), 5, "dot-failed")
    return svg.group(mark, class_=figure.hue(line.hue))

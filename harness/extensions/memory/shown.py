"""What studies of memories show of their own: the misses of a row cache over its size."""

from reports.charts.scaling import scaling_panel
from reports.charts.xy import Dot, Series, xy_figure
from reports.document.blocks import Chart
from reports.kinds.details import Details
from reports.parts.study import number_of, rows_of
from reports.text.formatting import percent, printable
from rules.records.study import StudyRecord, StudyTable


def draw_miss_ratios(study: StudyRecord, table: StudyTable, id_: str) -> Chart | None:
    """Draw the miss ratio over the size of a cache, a line per tier; None where no tier has two sizes."""
    lines: dict[str, dict[float, float]] = {}
    for row in rows_of(table):
        size, ratio = number_of(row.get("Cache")), number_of(row.get("Miss ratio"))
        if size is not None and ratio is not None:
            lines.setdefault(printable(str(row.get("Tier", "LRU")), 20), {})[size] = ratio
    series = []
    for hue, (name, points) in enumerate(lines.items()):
        dots = tuple(
            Dot(x=size, y=ratio, hint=f"{name}, cache of {percent(size)}: {percent(ratio)}")
            for size, ratio in sorted(points.items())
        )
        series += [Series(name=name, hue=hue % 5, dots=dots)] if len(dots) > 1 else []
    if not series:
        return None
    panel = scaling_panel(series, ("cache, as a share of all rows", percent), ("miss ratio", percent))
    figure = xy_figure(
        panel, id_=id_, title="Miss ratio against cache size", description="A dot per size of an LRU cache."
    )
    return Chart(figure=figure, table_note="The table below has the numbers.")


DETAILS = Details(chart=draw_miss_ratios)

"""Draw the chart of a simulated queue: latency against the rate of queries."""

from reports.charts.scaling import scaling_panel
from reports.charts.xy import Dot, Series, xy_figure
from reports.document.blocks import Chart
from reports.parts.study import find_parameter, number_of, rows_of
from reports.text.formatting import duration, printable, si
from rules.records.study import StudyRecord, StudyTable

LIMIT = "limit"
"""Name of the parameter of a queue study that holds the latency limit in seconds, which the chart draws as a line."""


def draw_latencies(study: StudyRecord, table: StudyTable, id_: str) -> Chart | None:
    """Draw a chart of each percentile of latency over the rate of queries, up to four times the latency limit; None
    with fewer than two rates."""
    limit_s = find_parameter(study, LIMIT)
    series = []
    for hue, name in enumerate(column.name for column in table.columns if column.name.startswith("p")):
        points = [(number_of(row.get("Queries/s")), number_of(row.get(name))) for row in rows_of(table)]
        known = [(rate, latency_s) for rate, latency_s in points if rate is not None and latency_s is not None]
        shown = [point for point in known if limit_s is None or point[1] <= 4 * limit_s]
        dots = tuple(
            Dot(x=rate, y=latency_s * 1e3, hint=f"{si(rate)} queries/s: {printable(name, 20)} {duration(latency_s)}")
            for rate, latency_s in shown
        )
        series += [Series(name=printable(name, 20), hue=hue % 5, dots=dots)] if len(dots) > 1 else []
    if not series:
        return None
    panel = scaling_panel(
        series,
        ("queries per second", si),
        ("latency in ms, simulated", "{:g}".format),
        target=None if limit_s is None else limit_s * 1e3,
        target_words="" if limit_s is None else f"limit {duration(limit_s)}",
    )
    title = "Latency against load, from the simulation"
    figure = xy_figure(panel, id_=id_, title=title, description="One line per percentile, a dot per rate.")
    return Chart(figure=figure, table_note="The table below lists the numbers of this chart.")

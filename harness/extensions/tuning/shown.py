"""What the study of a search shows of its own: its regret, trial by trial, and what was found as the page's title."""

from reports.charts.xy import ChartAxis, Dot, Panel, Series, up_to, xy_figure
from reports.document.blocks import Chart
from reports.kinds.details import Details
from reports.parts.study import number_of, rows_of
from reports.text.formatting import percent
from rules.records.study import StudyRecord, StudyTable


def draw_regrets(study: StudyRecord, table: StudyTable, id_: str) -> Chart | None:
    """Draw how far the best so far is from the best of all trials; None of the other table."""
    points = [
        (number_of(row.get("Trial")), 0.0 if row.get("Regret") == 0 else number_of(row.get("Regret")))
        for row in rows_of(table)
    ]
    dots = tuple(
        Dot(x=trial, y=regret, hint=f"trial {trial:g}: {percent(regret)}")
        for trial, regret in points
        if trial is not None and regret is not None
    )
    if not dots:
        return None
    x = ChartAxis(name="trial", scale=up_to(max(dot.x for dot in dots)), words="{:g}".format)
    y = ChartAxis(name="regret", scale=up_to(max(dot.y or 0.0 for dot in dots)), words=percent)
    panel = Panel(x=x, y=y, series=[Series(name="the best so far, beside the best of all", dots=dots)])
    figure = xy_figure(panel, id_=id_, title="Regret of the search", description="A dot per trial.")
    return Chart(figure=figure, table_note="The table below has the numbers.")


DETAILS = Details(chart=draw_regrets, is_answer=True)

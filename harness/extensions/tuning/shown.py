"""Define the chart (regret after each trial) and the glossary on the page of a search of settings; the page's title
says what the search found."""

from functools import partial

from harness.extensions.tuning.records import REGRET
from reports.charts import svg
from reports.charts.xy import ChartAxis, Dot, Panel, Series, up_to, xy_figure
from reports.document.blocks import Chart
from reports.kinds.details import Details
from reports.parts.study import number_of, rows_of
from reports.text.formatting import percent
from rules.records.study import StudyRecord, StudyTable


def draw_regrets(study: StudyRecord, table: StudyTable, id_: str) -> Chart | None:
    """Draw the regret after each trial: the distance of the best trial so far from the best of all trials, as a share
    of the best value. None for a table without regrets."""
    points = [
        (number_of(row.get("Trial")), 0.0 if regret == 0 else number_of(regret))
        for row in rows_of(table)
        for regret in [row.get(REGRET, row.get("Regret"))]  # "Regret": the column's name in earlier studies
    ]
    dots = tuple(
        Dot(x=trial, y=regret, hint=f"trial {trial:g}: {percent(regret)}")
        for trial, regret in points
        if trial is not None and regret is not None
    )
    if not dots:
        return None
    last = round(max(dot.x for dot in dots))
    step = -(-last // _MOST_TICKS)  # trials are counted: only whole numbers
    places = [(float(number), str(number)) for number in range(1, last + 1, step)]
    x = ChartAxis(name="trial", scale=partial(svg.Scale, 0.5, last + 0.5), places=places)
    y = ChartAxis(name="regret", scale=up_to(max(dot.y or 0.0 for dot in dots)), words=percent)
    panel = Panel(
        x=x, y=y, series=[Series(name="the best trial so far, relative to the best of all trials", dots=dots)]
    )
    figure = xy_figure(panel, id_=id_, title="Regret of the search", description="A dot per trial.")
    return Chart(figure=figure, table_note="The table below lists the numbers of this chart.")


_MOST_TICKS = 10
TERMS = {
    REGRET: "How far the best trial so far is from the best of all trials, as a share of the best of all.",
    "Default": "The configuration without changed settings: the first trial, and the baseline when the best trial is "
    "measured again.",
    "gp": "A sampler that models the objective by a Gaussian process, and tries points that may improve it.",
}
DETAILS = Details(chart=draw_regrets, is_answer=True, terms=TERMS)

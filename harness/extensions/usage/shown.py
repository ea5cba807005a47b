"""Draw the charts of usage studies (several models that one application requests) and define the terms of their
glossary. One chart shows the requests over time, in a lane for each model; another shows retrievals by their number
of subgraphs."""

from collections.abc import Sequence
from typing import NamedTuple, Unpack

from reports.charts import svg
from reports.charts.figure import FOOT_PX, NARROW_PX, Caption, Figure, LegendKey, Plot, draw_both, hue, num_ticks
from reports.charts.scaling import scaling_panel
from reports.charts.xy import Dot, Series, xy_figure
from reports.document.blocks import Chart
from reports.kinds.details import Details
from reports.parts.study import is_amount, rows_of
from reports.text.formatting import count, percent, printable
from rules.records.study import TIMELINE, StudyRecord, StudyTable

_LANE, _GAP, _LEFT = 26.0, 10.0, 100.0
_NARROW_SHARE = 0.25
"""Share of a timeline, counted from its begin, that a narrow page shows. The bars of all requests could not be told
apart there."""
_CURVES = ("Precision", "Speed-up over one stage", "Less memory")
_MOST_LINES = 5
"""Maximum number of lines of one chart: each has a colour of its own."""
_LARGEST = 1e9
"""Largest precision, speed-up or memory ratio that a chart of retrievals draws. Points with a larger number are left
out."""
_NOTE = "The table below lists the numbers of this chart."
_KEYS = (
    ("part-train", "done in time"),
    ("part-eval", "done late"),
    ("dot-failed", "dropped (drawn at the request's release)"),
)


class RequestBar(NamedTuple):
    """Bar of a request in the timeline of a schedule, in seconds. A dropped request has a worker below 0 and no
    length."""

    lane: str
    worker: int
    begin_s: float
    end_s: float
    is_late: bool


def lanes_figure(works: Sequence[RequestBar], **caption: Unpack[Caption]) -> Figure:
    """Draw the timeline of requests, with a lane per model in the order of the first requests; a narrow page shows
    only the first quarter of the time."""
    lanes = {
        lane: 8 + index * (_LANE + _GAP) for index, lane in enumerate(dict.fromkeys(work.lane for work in works))
    }
    height, bottom = _LANE / (1 + max(0, *(work.worker for work in works))), 8 + len(lanes) * (_LANE + _GAP)

    def draw(width: float, _: str) -> Plot:
        end_s = max(work.end_s for work in works) * (1.0 if width > NARROW_PX else _NARROW_SHARE)
        shown = [work for work in works if work.begin_s <= end_s]
        x = svg.Scale(0.0, end_s * 1e3, _LEFT, width - 12)
        marks = [svg.x_axis(x, 4, bottom, "ms", most=num_ticks(width))]
        for (mark, _words), is_late in zip(_KEYS[:2], (False, True), strict=True):
            some = [(work, x(work.begin_s * 1e3)) for work in shown if work.worker >= 0 and work.is_late == is_late]
            boxes = [
                (
                    start,
                    lanes[work.lane] + height * work.worker,
                    max(min(x(work.end_s * 1e3), x.stop) - start, 0.7),
                    height,
                )
                for work, start in some
            ]
            marks += [svg.boxes(boxes, mark)] if boxes else []
        dropped = [work for work in shown if work.worker < 0]
        marks += [svg.cross(x(work.begin_s * 1e3), lanes[work.lane] + _LANE / 2, 4) for work in dropped]
        names = zip(svg.fit_names([*lanes], _LEFT - 12), lanes.values(), strict=True)
        return Plot(
            [*marks, svg.labels([(name, _LEFT - 8, top + 17) for name, top in names], "end")], bottom + FOOT_PX, x
        )

    return draw_both(draw, [LegendKey(mark=mark, words=words) for mark, words in _KEYS], **caption)


def draw_usage(study: StudyRecord, table: StudyTable, id_: str) -> Chart | None:
    """Draw the chart of a table of the study of a usage (the models of one application): requests over time, or
    retrievals over numbers of subgraphs; None for other tables."""
    is_curve = {"Subgraphs", *_CURVES} <= {column.name for column in table.columns}
    return draw_curves(table, id_) if is_curve else draw_requests(study, table, id_)


def draw_curves(table: StudyTable, id_: str) -> Chart | None:
    """Draw precision, speed and memory of retrievals over the number of subgraphs, with a line for each retrieval and
    graph. Retrievals that use all subgraphs have no number to draw and are left out. None if no line has two
    points."""
    lines: dict[str, dict[float, tuple[float, ...]]] = {}
    for row in rows_of(table):
        number, name = str(row.get("Subgraphs")), f"{row.get('Retrieval')} on {row.get('Graph')}"
        values = [float(value) for each in _CURVES if is_amount(value := row.get(each))]
        is_known = number.isascii() and number.isdigit() and 0 < len(number) < 9 and int(number) > 0
        if is_known and len(values) == len(_CURVES) and all(0 <= value < _LARGEST for value in values):
            lines.setdefault(printable(name, 40), {}).setdefault(float(number), tuple(values))
    drawn = [(name, line) for name, line in lines.items() if len(line) > 1][:_MOST_LINES]
    if not drawn:
        return None
    panels = []
    for at, (quantity, words) in enumerate(zip(_CURVES, (percent, *("{:g}×".format,) * 2), strict=True)):
        series = [
            Series(name=name, hue=place, dots=[Dot(x=number, y=line[number][at]) for number in sorted(line)])
            for place, (name, line) in enumerate(drawn)
        ]
        panels.append(scaling_panel(series, ("subgraphs", count), (quantity.lower(), words)))
    title, description = "A retrieval over its number of subgraphs", "Precision, speed and memory; one stage is 1×."
    keys = [LegendKey(mark="dot-counted", words=name, hue=hue(place)) for place, (name, _) in enumerate(drawn)]
    figure = xy_figure(*panels, keys=keys, id_=id_, title=title, description=description)
    return Chart(figure=figure, table_note=_NOTE)


def draw_requests(study: StudyRecord, table: StudyTable, id_: str) -> Chart | None:
    """Draw the requests of a usage (the models of one application) over time; None where `table` is not the timeline
    of its study."""
    works = []
    for row in rows_of(table) if table.title.startswith(TIMELINE) else ():
        values = [row.get(name) for name in ("Released", "Deadline", "Worker", "Begun", "Done")]
        released, deadline, worker, begun, done = (float(each) if is_amount(each) else -1.0 for each in values)
        span = (begun, done) if worker >= 0 else (released, released)
        works.append(RequestBar(printable(str(row.get("Model")), 20), int(worker), *span, is_late=done > deadline))
    if not works:
        return None
    title = "Requests of the first second"
    about = "A lane per model, a bar per request; narrow pages show the first quarter."
    figure = lanes_figure(works, id_=id_, title=title, description=about)
    return Chart(figure=figure, table_note=_NOTE)


TERMS = {
    "Deadline": "Time by which a request must be done, counted from its release.",
    "Request": "A call of one model. Requests to a model are released (arrive) at the rate set for the model, or "
    "together with requests to another model.",
    "Score": "XRBench's score, from 0 to 100: the mean over models of the product of three scores: real time (RT), "
    "energy (EN) and quality of experience (QoE).",
    "Real-time score (RT)": "Near 1 where requests are done well before their deadlines, near 0 where they are late.",
    "Quality of experience (QoE)": "The share of requests that were not dropped.",
    "Energy score (EN)": "1 for no energy, 0 for 1.5 J a request; 1 also where no energy was measured.",
    "Stand-ins": "Small MLPs that replace the networks of the benchmark from which the usage scenario is taken, such "
    "as XRBench.",
    "Highest factor on all rates": "The largest factor by which all request rates can be multiplied with every "
    "deadline still met.",
    "Retrieval": "Search of candidates near a node of a graph by PageRank; precision is the share of the exact "
    "candidates that are found.",
    "Subgraphs": "Nodes from which the second stage of a retrieval goes on; more make it more precise and slower.",
    "Simulated time": "A schedule that is computed from measured service times (--simulated).",
}
DETAILS = Details(chart=draw_usage, terms=TERMS)

"""What studies of a usage show of their own: its frames, a lane per model, in which every worker has its height, and
retrievals over their numbers of subgraphs."""

from collections.abc import Sequence
from typing import NamedTuple, Unpack

from reports.charts import svg
from reports.charts.figure import FOOT_PX, Caption, Figure, LegendKey, Plot, draw_both, hue, num_ticks
from reports.charts.scaling import scaling_panel
from reports.charts.xy import Dot, Series, xy_figure
from reports.document.blocks import Chart
from reports.kinds.details import Details
from reports.parts.study import is_amount, rows_of
from reports.text.formatting import count, percent, printable
from rules.records.study import TIMELINE, StudyRecord, StudyTable

_LANE, _GAP, _LEFT = 26.0, 10.0, 100.0
_CURVES = ("Precision", "Speed-up over one stage", "Less memory")
_MOST_LINES = 5
"""Lines of one chart: as many as have a colour of their own."""
_LARGEST = 1e9
"""No number of subgraphs, and no ratio, is so large; such a one is not drawn."""
_NOTE = "The table below has the numbers."
_KEYS = (("part-train", "done in time"), ("part-eval", "done late"), ("dot-failed", "dropped, at its release"))


class Work(NamedTuple):
    """One frame, in seconds; one that was dropped has a worker below 0, and begins and ends at its release."""

    lane: str
    worker: int
    begin_s: float
    end_s: float
    is_late: bool


def lanes_figure(works: Sequence[Work], **caption: Unpack[Caption]) -> Figure:
    """Draw frames by lane, in the order in which lanes come."""
    lanes = {
        lane: 8 + index * (_LANE + _GAP) for index, lane in enumerate(dict.fromkeys(work.lane for work in works))
    }
    height, bottom = _LANE / (1 + max(0, *(work.worker for work in works))), 8 + len(lanes) * (_LANE + _GAP)

    def draw(width: float, _: str) -> Plot:
        x = svg.Scale(0.0, max(work.end_s for work in works) * 1e3, _LEFT, width - 12)
        marks = [svg.x_axis(x, 4, bottom, "ms", most=num_ticks(width))]
        for (mark, _words), is_late in zip(_KEYS[:2], (False, True), strict=True):
            some = [(work, x(work.begin_s * 1e3)) for work in works if work.worker >= 0 and work.is_late == is_late]
            boxes = [
                (start, lanes[work.lane] + height * work.worker, max(x(work.end_s * 1e3) - start, 0.7), height)
                for work, start in some
            ]
            marks += [svg.boxes(boxes, mark)] if boxes else []
        dropped = [work for work in works if work.worker < 0]
        marks += [svg.cross(x(work.begin_s * 1e3), lanes[work.lane] + _LANE / 2, 4) for work in dropped]
        names = zip(svg.fit_names([*lanes], _LEFT - 12), lanes.values(), strict=True)
        return Plot(
            [*marks, svg.labels([(name, _LEFT - 8, top + 17) for name, top in names], "end")], bottom + FOOT_PX, x
        )

    return draw_both(draw, [LegendKey(mark=mark, words=words) for mark, words in _KEYS], **caption)


def draw_usage(study: StudyRecord, table: StudyTable, id_: str) -> Chart | None:
    """Draw the chart of a table: frames over time, or retrievals over their numbers of subgraphs; else None."""
    is_curve = {"Subgraphs", *_CURVES} <= {column.name for column in table.columns}
    return draw_curves(table, id_) if is_curve else draw_frames(study, table, id_)


def draw_curves(table: StudyTable, id_: str) -> Chart | None:
    """Draw precision, speed and memory over the number of subgraphs, a line per retrieval and graph.

    All of them, which is no number, is left out; None where no line has two numbers.
    """
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


def draw_frames(study: StudyRecord, table: StudyTable, id_: str) -> Chart | None:
    """Draw the frames of a usage; None of its other tables."""
    works = []
    for row in rows_of(table) if table.title.startswith(TIMELINE) else ():
        values = [row.get(name) for name in ("Released", "Deadline", "Worker", "Begun", "Done")]
        released, deadline, worker, begun, done = (float(each) if is_amount(each) else -1.0 for each in values)
        span = (begun, done) if worker >= 0 else (released, released)
        works.append(Work(printable(str(row.get("Model")), 20), int(worker), *span, is_late=done > deadline))
    if not works:
        return None
    title = "Frames of the first second"
    figure = lanes_figure(works, id_=id_, title=title, description="A lane per model, a bar per frame.")
    return Chart(figure=figure, table_note=_NOTE)


TERMS = {
    "Deadline": "When a frame must be done: a time after its release.",
    "Frame": "One request of a model, released at its rate.",
    "RT": "XRBench's real-time score: near 1 where frames are done well before their deadlines, near 0 where late.",
    "QoE": "XRBench's quality of experience: the share of frames that were not dropped.",
    "EN": "XRBench's energy score; 1 where no energy was measured.",
    "Stand-ins": "Small networks of ours in place of the models that the source names.",
    "Retrieval": "Candidates near a node of a graph by PageRank; precision is the share of the exact ones.",
    "Subgraphs": "From how many nodes the second stage of a retrieval goes on; more are more precise and slower.",
    "Virtual clock": "A simulated schedule of the service times that were measured.",
}
DETAILS = Details(chart=draw_usage, terms=TERMS)

"""What studies of a usage show of their own: its frames, a lane per model."""

from reports.charts.lanes import Work, lanes_figure
from reports.document.blocks import Chart
from reports.kinds.details import Details
from reports.parts.study import is_amount, rows_of
from reports.text.formatting import printable
from rules.records.study import TIMELINE, StudyRecord, StudyTable


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
    return Chart(figure=figure, table_note="The table below has the numbers.")


DETAILS = Details(chart=draw_frames)

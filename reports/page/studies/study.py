"""A study as blocks: what was found, what it rests on, its tables, what was checked; every column says its origin.

Printed by the verbs that make one, and on the page: there with the chart that its kind has.
"""

from collections.abc import Callable, Mapping

from reports.charts.lanes import Work, lanes_figure
from reports.charts.roofline import RooflineDot, roofline_figure
from reports.charts.scaling import scaling_panel
from reports.charts.xy import ChartAxis, Dot, Panel, Series, up_to, xy_figure
from reports.document.blocks import Block, Chart, Prose
from reports.document.page import PageSection
from reports.facts.profile import amount
from reports.parts.study import is_amount, study_grounds, study_table
from reports.text.formatting import count, duration, percent, printable, si
from rules.records.study import TIMELINE, StudyRecord, StudyTable
from rules.records.study import Cell as Value

CEILINGS = ("matrix products", "memory", "cache")
"""Parameters of a forward study that are the roof."""
WHOLE = "whole batch"
"""Its part that is all of a batch, which is not drawn."""
LIMIT = "limit"
"""Parameter of a queue study: the latency that a line is drawn at."""


def study_sections(study: StudyRecord, id_: str) -> tuple[PageSection, ...]:
    """A section of the page per table, with its chart; the first has the findings, the last what it rests on."""
    made = []
    for index, table in enumerate(study.tables):
        place = f"{id_}-{index + 1}"
        chart = draw(study, table, f"{place}-chart") if (draw := _CHARTS.get(study.kind)) is not None else None
        is_first, is_last = index == 0, index == len(study.tables) - 1
        blocks: tuple[Block, ...] = (
            *(Prose(text=printable(finding), kind="lead") for finding in study.findings if is_first),
            *(() if chart is None else (chart,)),
            study_table(table),
            *(study_grounds(study) if is_last else ()),
        )
        name = printable(table.title, 100)
        made.append(PageSection(id=place, heading=name, name=name, blocks=blocks))
    return tuple(made)


def _roofline(study: StudyRecord, table: StudyTable, id_: str) -> Chart | None:
    """Draw every part of every batch size; None where there is no ceiling or nothing to draw."""
    best, memory, cache = (_parameter(study, name) for name in CEILINGS)
    dots = [dot for row in _rows(table) if row.get("Part") != WHOLE and (dot := _roofline_dot(row)) is not None]
    if not dots or best is None or memory is None:
        return None
    lead = f"The ceilings meet at {best / memory:.3g} FLOP per byte: a part to the left of that is bound by memory."
    figure = roofline_figure(
        dots, peak=best, memory=memory, cache=cache,
        id_=id_, title="Parts of a batch under the roof", description=f"One dot per part and batch size. {lead}",
    )  # fmt: skip
    return Chart(figure=figure, lead=lead, table_note="The table below has the numbers.")


def _roofline_dot(row: Mapping[str, Value]) -> RooflineDot | None:
    work, rate, size = (_number(row.get(name)) for name in ("FLOP/B", "Reached", "Batch"))
    if work is None or rate is None or size is None:
        return None
    label = f"{printable(str(row.get('Part')), 40)}, {count(size)}"
    return RooflineDot(
        label=label, flop_per_byte=work, flop_per_s=rate, kind="phase", hint=f"{label}: {si(rate)}FLOP/s"
    )


def _latencies(study: StudyRecord, table: StudyTable, id_: str) -> Chart | None:
    """Draw each percentile over the rate, as far as it is of the order of the limit; None without two rates."""
    limit_s = _parameter(study, LIMIT)
    series = []
    for hue, name in enumerate(column.name for column in table.columns if column.name.startswith("p")):
        points = [(_number(row.get("Queries/s")), _number(row.get(name))) for row in _rows(table)]
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
        series, ("queries per second", si), ("latency in ms, simulated", "{:g}".format),
        target=None if limit_s is None else limit_s * 1e3,
        target_words="" if limit_s is None else f"limit {duration(limit_s)}",
    )  # fmt: skip
    title = "Latency against load, on the virtual clock"
    figure = xy_figure(panel, id_=id_, title=title, description="One line per percentile, a dot per rate.")
    return Chart(figure=figure, table_note="The table below has the numbers.")


def _miss_ratios(study: StudyRecord, table: StudyTable, id_: str) -> Chart | None:
    """Draw the miss ratio over the size of a cache, a line per tier; None where no tier has two sizes."""
    lines: dict[str, dict[float, float]] = {}
    for row in _rows(table):
        size, ratio = _number(row.get("Cache")), _number(row.get("Miss ratio"))
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


def _timeline(study: StudyRecord, table: StudyTable, id_: str) -> Chart | None:
    """Draw the frames of a usage; None of its other tables."""
    works = []
    for row in _rows(table) if table.title.startswith(TIMELINE) else ():
        values = [row.get(name) for name in ("Released", "Deadline", "Worker", "Begun", "Done")]
        released, deadline, worker, begun, done = (float(each) if is_amount(each) else -1.0 for each in values)
        span = (begun, done) if worker >= 0 else (released, released)
        works.append(Work(printable(str(row.get("Model")), 20), int(worker), *span, is_late=done > deadline))
    if not works:
        return None
    title = "Frames of the first second"
    figure = lanes_figure(works, id_=id_, title=title, description="A lane per model, a bar per frame.")
    return Chart(figure=figure, table_note="The table below has the numbers.")


def _regrets(study: StudyRecord, table: StudyTable, id_: str) -> Chart | None:
    """Draw how far the best so far is from the best of all trials; None of the other table."""
    points = [(_number(row.get("Trial")), 0.0 if row.get("Regret") == 0 else _number(row.get("Regret")))
              for row in _rows(table)]  # fmt: skip
    dots = tuple(
        Dot(x=trial, y=regret, hint=f"trial {trial:g}: {percent(regret)}")
        for trial, regret in points if trial is not None and regret is not None
    )  # fmt: skip
    if not dots:
        return None
    x = ChartAxis(name="trial", scale=up_to(max(dot.x for dot in dots)), words="{:g}".format)
    y = ChartAxis(name="regret", scale=up_to(max(dot.y or 0.0 for dot in dots)), words=percent)
    panel = Panel(x=x, y=y, series=[Series(name="the best so far, beside the best of all", dots=dots)])
    figure = xy_figure(panel, id_=id_, title="Regret of the search", description="A dot per trial.")
    return Chart(figure=figure, table_note="The table below has the numbers.")


_CHARTS: Mapping[str, Callable[[StudyRecord, StudyTable, str], Chart | None]] = {
    "forward": _roofline,
    "queue": _latencies,
    "tiers": _miss_ratios,
    "trace": _miss_ratios,
    "tune": _regrets,
    "usage": _timeline,
}
"""By kind of study: what is drawn of a table."""


def _rows(table: StudyTable) -> list[dict[str, Value]]:
    names = [column.name for column in table.columns]
    return [dict(zip(names, row, strict=True)) for row in table.rows]


def _parameter(study: StudyRecord, name: str) -> float | None:
    return next((_number(parameter.value) for parameter in study.parameters if parameter.name == name), None)


def _number(value: Value) -> float | None:
    return amount(value) if is_amount(value) else None

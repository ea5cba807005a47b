"""Makes the section on convergence: the quality of each run over epochs, time or samples, in one chart or in a small
chart per configuration."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

from reports.charts import svg
from reports.charts.convergence import convergence_figure, small_convergence
from reports.charts.figure import Figure
from reports.charts.xy import SMALL_PX, Curve
from reports.document.blocks import Block, Chart, Fold, Multiples, Prose, Table, numeric, text_table
from reports.document.page import PageSection
from reports.facts.reference_points import find_points
from reports.page.figures.detail import detail_words, detailed
from reports.page.figures.times import MAX_HUES, MAX_LINES, column_unit, hue_number
from reports.results.result import Result, Run
from reports.text.formatting import count, epochs, plural, quality
from rules.scoring.results import Evaluation

MAX_MULTIPLES = 12
MAX_ROWS = 200

_X = Callable[[Evaluation], float | None]
_epoch, _samples = attrgetter("epoch_num"), attrgetter("samples_count")


@dataclass(frozen=True, kw_only=True, slots=True)
class _RunCurve:
    """Run to be drawn as a curve: a run with at least one evaluation that states its epoch. Epochs count from the
    start of training."""

    result: Result
    run: Run
    hue: int
    evaluations: tuple[Evaluation, ...]

    def line(self, x: _X, hint: str = "") -> Curve:
        points = tuple((at, e.quality) for e in self.evaluations if (at := x(e)) is not None)
        return Curve(hue=self.hue, points=points, fate=self.run.fate, hint=hint)


def _epoch_sizes(drawn: Sequence[_RunCurve]) -> list[float]:
    """Return the samples per epoch, one number for each evaluation of the runs; [] where an evaluation lacks its
    samples or its epoch."""
    every = [evaluation for entry in drawn for evaluation in entry.evaluations]
    sizes = [e.samples_count / e.epoch_num for e in every if e.samples_count and e.epoch_num and e.epoch_num > 0]
    return sizes if len(sizes) == len(every) else []


def convergence_section(group: Sequence[Result], id_: str) -> PageSection | None:
    """Return the section on convergence, with all runs in one chart while there are colours for all configurations,
    else with a small chart per configuration; None where no evaluation states its epoch."""
    if len(group) <= MAX_HUES:
        chart = convergence_chart(group, f"{id_}-convergence-chart")
        blocks: tuple[Block, ...] = () if chart is None else (chart,)
    else:
        blocks = _multiples(group, id_)
    if not blocks:
        return None
    return PageSection(id=f"{id_}-convergence", heading="Convergence", name="Convergence", blocks=blocks)


def _drawn(group: Sequence[Result]) -> list[_RunCurve]:
    return [
        _RunCurve(result=result, run=run, hue=hue_number(position, group), evaluations=_trained(run, first))
        for position, result in enumerate(group)
        for first in (_first_epoch(result),)
        for run in result.drawn
        if any(evaluation.epoch_num is not None for evaluation in run.log.evaluations)
    ]


def _first_epoch(result: Result) -> float:
    """Return the epoch_num with which a result's logs mark the start of training: 1 in some MLPerf rounds, else 0."""
    benchmark, _ = find_points(result)
    return benchmark.quality.first_epoch_num if benchmark is not None else 0


def _trained(run: Run, first: float) -> tuple[Evaluation, ...]:
    """Return the evaluations of a run, with epochs counted from the start of training. `first` is the epoch_num that
    the log states for that start."""
    return tuple(
        each if each.epoch_num is None or not first else replace(each, epoch_num=each.epoch_num - first)
        for each in run.log.evaluations
    )


def _target(group: Sequence[Result]) -> float | None:
    return next((run.log.quality_target for result in group for run in result.runs if run.log.quality_target), None)


def _lead(drawn: Sequence[_RunCurve], target: float | None) -> str:
    ends = [entry.evaluations[-1].epoch_num for entry in drawn if entry.run.log.converged]
    known = [end for end in ends if end is not None]
    if known and target is not None:
        low, high = epochs(min(known)), epochs(max(known))
        place = f"at epoch {low}" if low == high else f"between epoch {low} and {high}"
        return f"{len(known)} of {plural(len(drawn), 'run')} met the target of {quality(target)}, {place}."
    return "No run met the target."


def convergence_chart(group: Sequence[Result], id_: str) -> Chart | None:
    """Return the chart of quality over epochs, time or samples trained, among which a reader can choose; None where
    no evaluation states its epoch. Samples are a choice only if every evaluation states epoch and samples."""
    drawn = _drawn(group)
    if not drawn:
        return None
    hidden = len(drawn) - MAX_LINES
    drawn = drawn[:MAX_LINES]
    target, lead = _target(group), _lead(drawn, _target(group))
    if hidden > 0:
        lead += f" The first {MAX_LINES} runs are drawn; {hidden} more are in the table of all runs."
    names = {hue_number(p, group): result.label for p, result in enumerate(group)} if len(group) > 1 else {}
    title, metric = "Quality over the training", group[0].metric.title

    def figure(x: _X, x_name: str, drawn_id: str, same_as: str | None = None) -> Figure:
        is_first = drawn_id == id_ and len(group) == 1
        return convergence_figure(
            [entry.line(x, _hint(entry) if is_first else "") for entry in drawn],
            target,
            x_name,
            id_=drawn_id,
            title=title,
            description=f"{metric} at each evaluation over the {x_name}, one line per run. {lead}",
            metric=metric,
            names=names,
            same_as=same_as,
        )

    unit = column_unit(group)
    views = [("Epochs", figure(_epoch, "fraction of the epoch", id_))]
    time_name = f"{unit.name} since the start of the run"
    views.append((f"Time, {unit.name}", figure(lambda e: e.elapsed_s / unit.seconds, time_name, f"{id_}-time")))
    sizes = _epoch_sizes(drawn)
    if sizes:
        same_as = id_ if max(sizes) - min(sizes) <= 1e-3 * max(sizes) else None
        views.append(("Samples", figure(_samples, "samples trained", f"{id_}-samples", same_as)))
    return Chart(
        figure=views[0][1],
        lead=lead,
        table=evaluations_table(drawn, group, f"{id_}-table"),
        views=tuple(views),
        series=tuple(names.items()) if len(names) > 1 else (),
    )


def _name(entry: _RunCurve, group: Sequence[Result]) -> str:
    return f"{entry.result.label}: run {entry.run.label}" if len(group) > 1 else f"run {entry.run.label}"


def _hint(entry: _RunCurve) -> str:
    last = entry.evaluations[-1]
    reached = f"{entry.result.metric.label} {quality(last.quality)}"
    return f"run {entry.run.label}: {reached} at epoch {epochs(last.epoch_num)}"


def evaluations_table(curves: Sequence[_RunCurve], group: Sequence[Result], id_: str) -> Table:
    """Return the table of the evaluations in the convergence chart, a row per run and a column per evaluation."""
    points = [entry.line(_epoch).points[:MAX_ROWS] for entry in curves]
    heads = _heads(points)
    return text_table(
        ("Run", *map(numeric, heads)),
        [
            (_name(entry, group), *(quality(value) for _, value in known), *[None] * (len(heads) - len(known)))
            for entry, known in zip(curves, points, strict=True)
        ],
        id_=id_,
        caption=f"{group[0].metric.title} at each evaluation, one row per run",
        style="evaluations",
    )


def _heads(points: Sequence[Sequence[tuple[float, float]]]) -> list[str]:
    """Return the column heads of the table of evaluations: 'epoch 0.5' where all runs were evaluated at the same
    epochs, else 'evaluation 1', 'evaluation 2' …."""
    number = max(map(len, points), default=0)
    places = [{epochs(known[at][0]) for known in points if at < len(known)} for at in range(number)]
    if all(len(some) == 1 for some in places):
        return [f"epoch {some.pop()}" for some in places]
    return [f"evaluation {count(at + 1)}" for at in range(number)]


def _multiples(group: Sequence[Result], id_: str) -> tuple[Block, ...]:
    drawn = _drawn(group)
    curves: dict[int, list[_RunCurve]] = {}
    for entry in drawn:
        curves.setdefault(entry.result.index, []).append(entry)
    shown = [result for result in detailed(group) if result.index in curves]
    if not shown:
        return ()
    target, lead, metric = _target(group), _lead(drawn, _target(group)), group[0].metric.title
    lines = {result.index: [entry.line(_epoch) for entry in curves[result.index]] for result in shown}
    every = [line for some in lines.values() for line in some]
    labels = [result.label for result in detailed(group)]
    names = dict(zip(labels, svg.fit_bold_names(labels, SMALL_PX), strict=True))
    drawings = [
        small_convergence(
            lines[result.index],
            target,
            every,
            title=names[result.label],
            id_=f"{id_}-quality-{result.index}",
            description=f"{metric} over the epoch. {_lead(curves[result.index], target)}",
        )
        for result in shown
    ]
    lead = f"{metric} over the fraction of the epoch, one line per run, all on the same scales. {lead}"
    lead = f"{lead} {detail_words(group)}".rstrip()
    blocks: list[Block] = [Prose(text=lead), Multiples(drawings=tuple(drawings[:MAX_MULTIPLES]))]
    if rest := tuple(drawings[MAX_MULTIPLES:]):
        blocks.append(Fold(summary=plural(len(rest), "more configuration"), blocks=(Multiples(drawings=rest),)))
    tables = (
        evaluations_table(curves[result.index], [result], f"{id_}-quality-{result.index}-table") for result in shown
    )
    folds = tuple(Fold(summary=result.label, blocks=(table,)) for result, table in zip(shown, tables, strict=True))
    return (*blocks, Fold(summary="The numbers of these charts", blocks=folds))

"""How quality rose: one line per run, over the epoch, the time or the samples; and the reference's convergence."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from reports.charts import svg
from reports.charts.convergence import convergence_figure, small_convergence
from reports.charts.figure import Figure
from reports.charts.xy import SMALL_PX, Curve
from reports.document.blocks import Block, Chart, Fold, Multiples, Prose, Table, numeric, text_table
from reports.document.page import PageSection
from reports.page.figures.detail import detail_words, detailed
from reports.page.figures.times import MAX_HUES, MAX_LINES, column_unit, hue_number
from reports.results.result import Result, Run
from reports.text.formatting import MISSING, count, epochs, plural, quality
from rules.scoring.results import Evaluation

MAX_MULTIPLES = 12
MAX_ROWS = 200

_X = Callable[[Evaluation], float | None]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Drawn:
    """One run that has evaluations with their place."""

    result: Result
    run: Run
    hue: int

    def line(self, x: _X, hint: str = "") -> Curve:
        points = tuple((at, e.quality) for e in self.run.log.evaluations if (at := x(e)) is not None)
        return Curve(hue=self.hue, points=points, fate=self.run.fate, hint=hint)


def _epoch(evaluation: Evaluation) -> float | None:
    return evaluation.epoch_num


def _samples(evaluation: Evaluation) -> float | None:
    return evaluation.samples_count


def _epoch_sizes(drawn: Sequence[_Drawn]) -> list[float]:
    """Samples per epoch by every evaluation; none where one does not say both."""
    every = [evaluation for entry in drawn for evaluation in entry.run.log.evaluations]
    sizes = [e.samples_count / e.epoch_num for e in every if e.samples_count and e.epoch_num and e.epoch_num > 0]
    return sizes if len(sizes) == len(every) else []


def convergence_section(group: Sequence[Result], id_: str) -> PageSection | None:
    """Show all runs in one chart while there are colours enough, else one small chart per configuration."""
    blocks: tuple[Block, ...]
    if len(group) <= MAX_HUES:
        chart = convergence_chart(group, f"{id_}-convergence-chart")
        if chart is None:
            return None
        blocks = (chart,)
    else:
        blocks = _multiples(group, id_)
        if not blocks:
            return None
    return PageSection(id=f"{id_}-convergence", heading="Convergence", name="Convergence", blocks=blocks)


def _drawn(group: Sequence[Result]) -> list[_Drawn]:
    return [
        _Drawn(result=result, run=run, hue=hue_number(position, group))
        for position, result in enumerate(group)
        for run in result.drawn
        if any(evaluation.epoch_num is not None for evaluation in run.log.evaluations)
    ]


def _target(group: Sequence[Result]) -> float | None:
    return next((run.log.quality_target for result in group for run in result.runs if run.log.quality_target), None)


def _lead(drawn: Sequence[_Drawn], target: float | None) -> str:
    ends = [entry.run.log.evaluations[-1].epoch_num for entry in drawn if entry.run.log.converged]
    known = [end for end in ends if end is not None]
    if known and target is not None:
        low, high = epochs(min(known)), epochs(max(known))
        place = f"at epoch {low}" if low == high else f"between epoch {low} and {high}"
        return f"{len(known)} of {plural(len(drawn), 'run')} met the target of {quality(target)}, {place}."
    return "No run met the target."


def convergence_chart(group: Sequence[Result], id_: str) -> Chart | None:
    """Quality at every evaluation; None when no log holds an evaluation with its place."""
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
        table=evaluations_table(
            [entry.line(_epoch) for entry in drawn], [_name(entry, group) for entry in drawn], metric, f"{id_}-table"
        ),
        views=tuple(views),
        series=tuple(names.items()) if len(names) > 1 else (),
    )


def _name(entry: _Drawn, group: Sequence[Result]) -> str:
    return f"{entry.result.label}: run {entry.run.label}" if len(group) > 1 else f"run {entry.run.label}"


def _hint(entry: _Drawn) -> str:
    last = entry.run.log.evaluations[-1]
    reached = f"{entry.result.metric.label} {quality(last.quality)}"
    return f"run {entry.run.label}: {reached} at epoch {epochs(last.epoch_num)}"


def evaluations_table(lines: Sequence[Curve], names: Sequence[str], metric: str, id_: str) -> Table:
    """One row per run: there are more evaluations than fit beside each other, but they read like the lines."""
    most = max((len(line.points) for line in lines), default=0)
    heads = _heads(lines, min(most, MAX_ROWS))
    rows = tuple(
        (
            name,
            *(
                quality(line.points[number][1]) if number < len(line.points) else MISSING
                for number in range(len(heads))
            ),
        )
        for name, line in zip(names, lines, strict=True)
    )
    return text_table(
        ("Run", *(numeric(head) for head in heads)),
        rows,
        id_=id_,
        caption=f"{metric} at each evaluation, one row per run",
        style="evaluations",
    )


def _heads(lines: Sequence[Curve], number: int) -> list[str]:
    """Places in the epoch where all runs look at the same places, else numbers; never some of each."""
    places = [{epochs(line.points[at][0]) for line in lines if at < len(line.points)} for at in range(number)]
    if all(len(some) == 1 for some in places):
        return [f"epoch {some.pop()}" for some in places]
    return [f"evaluation {count(at + 1)}" for at in range(number)]


def _multiples(group: Sequence[Result], id_: str) -> tuple[Block, ...]:
    drawn = _drawn(group)
    if not drawn:
        return ()
    target, lead, metric = _target(group), _lead(drawn, _target(group)), group[0].metric.title
    shown = detailed(group)
    runs: dict[int, list[_Drawn]] = {result.index: [] for result in shown}
    for entry in drawn:
        if entry.result.index in runs:
            runs[entry.result.index].append(entry)
    lines = {index: [entry.line(_epoch) for entry in some] for index, some in runs.items()}
    every = [line for some in lines.values() for line in some]
    if not every:
        return ()
    names = svg.fit_bold_names([result.label for result in shown], SMALL_PX)
    drawings = [
        small_convergence(
            lines[result.index], target, every, title=name, id_=f"{id_}-quality-{result.index}",
            description=f"{metric} over the epoch. {_lead(runs[result.index], target)}",
        )
        for result, name in zip(shown, names, strict=True)
        if lines[result.index]
    ]  # fmt: skip
    lead = f"{metric} over the fraction of the epoch, one line per run, all on the same scales. {lead}"
    lead = f"{lead} {detail_words(group)}".rstrip()
    blocks: list[Block] = [Prose(text=lead), Multiples(drawings=tuple(drawings[:MAX_MULTIPLES]))]
    if len(drawings) > MAX_MULTIPLES:
        rest = Multiples(drawings=tuple(drawings[MAX_MULTIPLES:]))
        blocks.append(Fold(summary=f"{plural(len(drawings) - MAX_MULTIPLES, 'more configuration')}", blocks=(rest,)))
    tables = tuple(
        Fold(
            summary=result.label,
            blocks=(
                evaluations_table(
                    lines[result.index],
                    [f"run {entry.run.label}" for entry in runs[result.index]],
                    metric,
                    f"{id_}-quality-{result.index}-table",
                ),
            ),
        )
        for result in shown
        if lines[result.index]
    )
    return (*blocks, Fold(summary="The numbers of these charts", blocks=tables))

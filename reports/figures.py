"""From facts to charts: each figure with the sentence that it supports and the table of what it shows."""

import math
from collections.abc import Sequence

from reports.charts.convergence import QualityLine, convergence_figure
from reports.charts.figure import hue
from reports.charts.runs import RunDot, RunStrip, runs_figure
from reports.charts.throughput import BlockLine, throughput_figure
from reports.charts.time import PARTS, TimeBar, time_figure
from reports.chronology import order_chart
from reports.facts import RunFacts, SetFacts
from reports.formatting import (
    MINUTES,
    MISSING,
    TimeUnit,
    count,
    epochs,
    interval,
    percent,
    plural,
    quality,
    throughput,
    time_unit,
)
from reports.statistics import log_summary, spread_shares
from reports.view import Cell, Chart, Column, Table

MAX_LINES = 60


def sorted_cell(text: str, value: float | None, kind: str = "") -> Cell:
    """A number whose text does not sort by itself (its unit varies), with the value that sorts it."""
    return Cell(text=text, sort="" if value is None or math.isnan(value) else f"{value:.9g}", kind=kind)


def column_unit(sets: Sequence[SetFacts]) -> TimeUnit:
    """One unit for all times to train of a page section; minutes where MLPerf publishes minutes."""
    if any(one.status == "official" for one in sets):
        return MINUTES
    return time_unit(run.result.time_to_train_s for one in sets for run in one.runs)


def fate_words(run: RunFacts, has_score: bool) -> str:
    if run.fate == "failed":
        return "did not converge; dropped as slowest" if run.is_dropped else "did not converge"
    if run.is_dropped:
        return "dropped: fastest or slowest"
    return "counted" if has_score else "reached the target"


def runs_chart(sets: Sequence[SetFacts], id_: str) -> Chart | None:
    """Dot strip over all given sets; None when there is no run."""
    if not any(one.runs for one in sets):
        return None
    unit = column_unit(sets)
    strips = [
        RunStrip(
            name=one.label,
            hue=one.index,
            dots=tuple(
                RunDot(
                    label=run.label,
                    time_s=run.time_s,
                    fate=run.fate,
                    hint=f"run {run.label}: {unit.text(run.result.time_to_train_s)}, "
                    f"{fate_words(run, one.result.olympic_mean_s is not None)}",
                )
                for run in one.runs
            ),
            olympic_mean_s=one.result.olympic_mean_s,
            mean_label=("" if len(sets) > 1 else "Olympic mean ") + unit.text(one.result.olympic_mean_s),
            low_s=one.interval.low if one.interval else None,
            high_s=one.interval.high if one.interval else None,
        )
        for one in sets
    ]
    lead = "One strip per configuration, on one scale."
    if len(sets) == 1:
        lead = f"{_runs_sentence(sets[0], unit)} {spread_sentence(sets[0])}".strip()
    title = "Time to train of every run"
    description = " ".join(f"{one.label}: {_runs_sentence(one, unit)}" for one in sets)
    rows = tuple(
        (
            Cell(text=f"{one.label}: run {run.label}" if len(sets) > 1 else f"run {run.label}"),
            Cell(text=unit.number(run.time_s)),
            Cell(text=fate_words(run, one.result.olympic_mean_s is not None)),
        )
        for one in sets
        for run in one.runs
    )
    return Chart(
        figure=runs_figure(
            strips, unit, id_=id_, title=title, description=description,
            has_score=any(one.result.olympic_mean_s is not None for one in sets),
        ),
        heading="Every run",
        lead=lead,
        table=Table(
            id=f"{id_}-table",
            caption=title,
            columns=(
                Column(name="Run"),
                Column(name=f"Time to train, {unit.name}", is_number=True),
                Column(name="In the score"),
            ),
            rows=rows,
        ),
    )  # fmt: skip


def _runs_sentence(one: SetFacts, unit: TimeUnit) -> str:
    converged = [run for run in one.runs if run.result.converged]
    spread = log_summary(run.time_s for run in converged)
    words = f"{len(converged)} of {plural(len(one.runs), 'run')} reached the target."
    if one.result.olympic_mean_s is not None and math.isfinite(one.result.olympic_mean_s):
        words += f" The Olympic mean is {unit.text(one.result.olympic_mean_s)}"
        if one.interval is not None:
            low, high = unit.number(one.interval.low), unit.number(one.interval.high)
            words += f", 95 % interval {interval(low, high)} {unit.name}"
        words += "."
    if spread is not None and spread.coefficient_of_variation is not None:
        words += f" Times vary by {percent(spread.coefficient_of_variation)} (CV)."
    return words


def spread_sentence(one: SetFacts) -> str:
    """Which factor the difference between runs comes from; empty where it cannot be said."""
    runs = [run.result for run in one.runs if run.result.converged]
    rows = [
        (run.time_to_train_s, run.samples_to_converge, run.throughput_samples_per_s, run.train_s)
        for run in runs
        if run.time_to_train_s and run.samples_to_converge and run.throughput_samples_per_s and run.train_s
    ]
    if len(rows) != len(runs) or len(rows) < 3:
        return ""
    totals = [row[0] or 0.0 for row in rows]
    factors = [
        [float(row[1] or 0) for row in rows],
        [1 / (row[2] or math.inf) for row in rows],
        [(row[0] or 0.0) / (row[3] or math.inf) for row in rows],
    ]
    shares = spread_shares(totals, factors)
    if shares is None:
        return ""
    names = ("samples to converge", "throughput", "evaluation and overhead")
    # As computed, so that they add up to 100 %: a factor that works against the others has a negative share.
    told = ", ".join(f"{name} {percent(share, 0)}" for name, share in zip(names, shares, strict=True))
    return f"Where the difference between runs comes from: {told}."


def convergence_chart(sets: Sequence[SetFacts], id_: str) -> Chart | None:
    """Quality over the epoch of every run; None when no log holds an evaluation with its place."""
    drawn: list[tuple[SetFacts, RunFacts, QualityLine]] = []
    for one in sets:
        for run in one.runs:
            points = tuple((e.epoch_num, e.quality) for e in run.result.evaluations if e.epoch_num is not None)
            if points:
                hint = f"run {run.label}: AUC {quality(points[-1][1])} at epoch {epochs(points[-1][0])}"
                line = QualityLine(hue=one.index, points=points, fate=run.fate, hint="" if len(sets) > 1 else hint)
                drawn.append((one, run, line))
    if not drawn:
        return None
    hidden = len(drawn) - MAX_LINES
    drawn = drawn[:MAX_LINES]
    target = next((run.result.quality_target for _, run, _ in drawn if run.result.quality_target), None)
    ends = [line.points[-1][0] for _, run, line in drawn if run.result.converged]
    lead = (
        f"The target of {quality(target)} was met between epoch {epochs(min(ends))} and {epochs(max(ends))}."
        if ends and target is not None
        else "No run met the target."
    )
    if hidden > 0:
        lead += f" The first {MAX_LINES} runs are drawn; {hidden} more are in the tables."
    names = [f"{one.label}: run {run.label}" if len(sets) > 1 else f"run {run.label}" for one, run, _ in drawn]
    most = max(len(line.points) for _, _, line in drawn)
    rows = tuple(
        (
            Cell(text=_evaluation_name([line for _, _, line in drawn], number)),
            *(
                Cell(text=quality(line.points[number][1]) if number < len(line.points) else MISSING)
                for _, _, line in drawn
            ),
        )
        for number in range(min(most, 200))
    )
    title = "Quality over the epoch"
    return Chart(
        figure=convergence_figure(
            [line for _, _, line in drawn],
            target,
            "fraction of the epoch",
            id_=id_,
            title=title,
            description=f"ROC AUC at each evaluation, one line per run. {lead}",
            names={one.index: one.label for one in sets} if len(sets) > 1 else {},
        ),
        heading="Convergence",
        lead=lead,
        table=Table(
            id=f"{id_}-table",
            caption="ROC AUC at each evaluation, one column per run",
            columns=(Column(name="Evaluation"), *(Column(name=name, is_number=True) for name in names)),
            rows=rows,
        ),
    )


def _evaluation_name(lines: Sequence[QualityLine], number: int) -> str:
    """By its place in the epoch where all runs look at the same places."""
    places = {epochs(line.points[number][0]) for line in lines if number < len(line.points)}
    return f"epoch {places.pop()}" if len(places) == 1 else f"evaluation {number + 1}"


def time_chart(one: SetFacts, id_: str) -> Chart | None:
    """Timed seconds of each run in parts; None when no log tells the parts apart."""
    known = [
        run
        for run in one.runs
        if run.result.time_to_train_s and run.result.train_s is not None and run.result.eval_s is not None
    ][:MAX_LINES]
    if not known:
        return None
    unit = column_unit([one])
    bars, rows = [], []
    for run in known:
        total, train, evaluation = (
            run.result.time_to_train_s or 0.0,
            run.result.train_s or 0.0,
            run.result.eval_s or 0.0,
        )
        parts = (train, evaluation, max(total - train - evaluation, 0.0))
        words = f"{percent(evaluation / total)} eval"
        bars.append(TimeBar(label=f"run {run.label}", parts_s=parts, words=words))
        rows.append(
            (
                Cell(text=f"run {run.label}"),
                Cell(text=unit.number(run.result.time_to_train_s)),
                *(Cell(text=unit.number(part)) for part in parts),
                *(Cell(text=percent(part / total)) for part in parts),
                Cell(text=unit.number(run.result.init_s)),
            )
        )
    total_s = sum(sum(bar.parts_s) for bar in bars)
    shares = [sum(bar.parts_s[index] for bar in bars) / total_s for index in range(len(PARTS))]
    title = "Where the timed seconds go"
    lead = (
        f"{percent(shares[0])} training, {percent(shares[1])} evaluation, {percent(shares[2])} other. "
        "Initialisation is not timed; the table has it."
    )
    names = ("Training", "Evaluation", "Other")
    return Chart(
        figure=time_figure(bars, unit, id_=id_, title=title, description=f"One bar per run. {lead}"),
        heading="Where time goes",
        lead=lead,
        table=Table(
            id=f"{id_}-table",
            caption=title,
            columns=(
                Column(name="Run"),
                Column(name=f"Time to train, {unit.name}", is_number=True),
                *(Column(name=f"{name}, {unit.name}", is_number=True) for name in names),
                *(Column(name=f"{name}, %", is_number=True) for name in names),
                Column(name=f"Initialisation (untimed), {unit.name}", is_number=True),
            ),
            rows=tuple(rows),
        ),
    )


def throughput_chart(one: SetFacts, id_: str) -> Chart | None:
    """Samples per second in each block, from the attempts' records; None where there are none."""
    drawn = []
    for run in one.runs[:MAX_LINES]:
        blocks = run.attempt.blocks if run.attempt else ()
        points = tuple((float(b.first_sample + b.num_samples), b.num_samples / b.duration_s) for b in blocks)
        if points:
            drawn.append((run, BlockLine(hue=one.index, points=points, hint=f"run {run.label}")))
    if not drawn:
        return None
    rows = []
    slowdowns = []
    for run, line in drawn:
        rates = sorted(rate for _, rate in line.points)
        median = rates[len(rates) // 2]
        slowdowns.append(rates[0] / median)
        rows.append(
            (
                Cell(text=f"run {run.label}"),
                Cell(text=count(len(rates)), sort=str(len(rates))),
                *(Cell(text=throughput(rate)) for rate in (rates[0], median, rates[-1])),
            )
        )
    title = "Throughput block by block"
    lead = (
        f"The slowest block of any run ran at {percent(min(slowdowns))} of its run's median. A common dip at one "
        "place points at the program, a dip in one run at the system."
    )
    return Chart(
        figure=throughput_figure(
            [line for _, line in drawn], id_=id_, title=title, description=f"Samples per second. {lead}"
        ),
        heading="Steadiness",
        lead=lead,
        table=Table(
            id=f"{id_}-table",
            caption=f"{title}, samples/s",
            columns=(
                Column(name="Run"),
                Column(name="Blocks", is_number=True),
                Column(name="Slowest", is_number=True),
                Column(name="Median", is_number=True),
                Column(name="Fastest", is_number=True),
            ),
            rows=tuple(rows),
        ),
    )


def set_charts(one: SetFacts, prefix: str, *, has_runs_chart: bool) -> tuple[Chart, ...]:
    """All charts of one configuration that its data offers."""
    made = (
        runs_chart([one], f"{prefix}-runs-chart") if has_runs_chart else None,
        convergence_chart([one], f"{prefix}-convergence"),
        time_chart(one, f"{prefix}-time"),
        throughput_chart(one, f"{prefix}-throughput"),
        order_chart(one, f"{prefix}-order"),
    )
    return tuple(chart for chart in made if chart is not None)


def hue_of(one: SetFacts) -> str:
    return hue(one.index)

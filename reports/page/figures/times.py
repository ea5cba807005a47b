"""Makes charts of runs' times and training speed: each figure with the sentence that it supports and the table of its
values."""

import math
from collections.abc import Iterator, Sequence

from reports.charts.bars import PARTS, Bar, time_figure
from reports.charts.runs import Quantity, Strip, StripDot, strips_figure
from reports.charts.throughput import throughput_figure
from reports.charts.xy import Curve
from reports.document.blocks import Cell, Chart, numeric, table_of, text_table
from reports.parts.cells import bounds_text, by_value
from reports.results.result import Result, Run
from reports.statistics.intervals import AT_LEAST_NAME, LogSummary
from reports.text.formatting import MINUTES, TimeUnit, count, percent, plural, throughput, time_unit
from rules.records.run import BlockRecord

MAX_LINES = 60
_MAX_COUNT = 1e15
MAX_HUES = 5


def column_unit(sets: Sequence[Result]) -> TimeUnit:
    """Return the time unit shared by all times to train in a page's section; minutes where MLPerf publishes
    minutes."""
    if any(result.status == "official" for result in sets):
        return MINUTES
    return time_unit(run.log.time_to_train_s for result in sets for run in result.runs)


def fate_words(run: Run, result: Result) -> str:
    """Return in words whether a run counts for the score of its configuration: 'counted', 'dropped: fastest', 'did
    not converge'."""
    if run.fate == "failed":
        # A log with neither run_stop nor a reason for its absence was cut off.
        is_cut = run.log.status is None and run.log.abort_reason is None
        words = "unfinished: no run_stop" if is_cut else "did not converge"
        return f"{words}; dropped as slowest" if run.is_dropped else words
    if run.is_dropped:
        return f"dropped: {_extreme(run, result)}"
    if run.fate == "dropped":
        return f"beyond the {result.score.num_runs_scored} runs of the score"
    return "counted" if result.score.olympic_mean_s is not None else "reached the target"


def _extreme(run: Run, result: Result) -> str:
    """Return whether a run that the Olympic mean drops is dropped as 'fastest' or as 'slowest'; of runs with equal
    times, scoring drops the first ones as fastest."""
    scored = result.runs[: result.score.num_runs_scored]
    times = [math.inf if each.time_s is None else each.time_s for each in scored]
    order = sorted(range(len(times)), key=times.__getitem__)
    return "fastest" if result.runs.index(run) in order[: result.score.num_runs_dropped] else "slowest"


def hue_number(position: int, sets: Sequence[Result]) -> int:
    """Return the colour number of a configuration's marks: its position where there are enough colours for all
    `sets`, else 0, so that all have the same colour."""
    return position if len(sets) <= MAX_HUES else 0


def chart_name(result: Result) -> str:
    """Return the name of a configuration for charts of scores, with a mark where it is INVALID."""
    return f"{result.label} (INVALID)" if result.outcome == "invalid" else result.label


def runs_chart(sets: Sequence[Result], id_: str) -> Chart | None:
    """Return the chart of every run's time to train as a dot, one strip per configuration; None when there is no
    run."""
    if not any(result.drawn for result in sets):
        return None
    unit = column_unit(sets)
    strips = [
        Strip(
            name=chart_name(result),
            hue=hue_number(position, sets),
            dots=tuple(
                StripDot(
                    label=run.label,
                    value=unit.of(run.time_s),
                    fate=run.fate,
                    hint=f"run {run.label}: {unit.text(run.time_s)}, {fate_words(run, result)}",
                )
                for run in result.drawn
            ),
            mean=unit.of(mean_s),
            mean_label=(name if len(sets) == 1 else "") + unit.text(mean_s),
            low=unit.of(result.interval.low if result.interval else None),
            high=unit.of(result.interval.high if result.interval else None),
        )
        for position, result in enumerate(sets)
        if not result.is_repeat
        for name, mean_s in (_shown_mean(result),)
    ]
    lead, title = strips_sentence(sets), "Time to train of every run"
    if len(sets) == 1:
        lead = _runs_sentence(sets[0], unit)
    shown = [result for result in sets if not result.is_repeat]
    description = " ".join(f"{result.label}: {_runs_sentence(result, unit)}" for result in shown)
    columns = ("Run", numeric(f"Time to train, {unit.name}"), "In the score")
    rows = [(f"run {run.label}", unit.number(run.time_s), fate_words(run, sets[0])) for run in sets[0].runs]
    quantity = Quantity(name=f"time to train, {unit.name}", missing="no time")
    return Chart(
        figure=strips_figure(strips, quantity, _mark_words(sets), id_=id_, title=title, description=description),
        lead=lead,
        table=text_table(columns, rows, id_=f"{id_}-table", caption=title) if len(sets) == 1 else None,
        table_note="" if len(sets) == 1 else "The table of all runs lists the times of this chart.",
    )


def _mark_words(sets: Sequence[Result]) -> dict[str, str]:
    """Return the legend of the chart of run times: a dict from each kind of mark (dots of runs, mean, band) to its
    meaning. If a configuration has a score, dots are counted runs, and the mean is the Olympic one where there is
    one. Otherwise dots are runs that reached the target, and the mean is geometric."""
    drawn = [result for result in sets if not result.is_repeat]
    has_score = {result.score.olympic_mean_s is not None for result in drawn if _shown_mean(result)[1] is not None}
    alone = "geometric mean of the runs that reached the target: no score"
    mean = "Olympic mean" if False not in has_score else f"Olympic mean; where there is none, {alone}"
    return {
        "dot-counted": "counted run" if True in has_score else "run that reached the target",
        "dot-dropped": "fastest or slowest run, left out of the Olympic mean",
        "dot-failed": "did not converge",
        "mean": mean if True in has_score else alone,
        "band": "interval of the geometric mean",
    }


def _shown_mean(result: Result) -> tuple[str, float | None]:
    """Return the mean time to show for a configuration, as (name, value): the Olympic mean, or, if there is none, the
    geometric mean of the runs that met the target. The value is None if fewer than two runs did."""
    if result.score.olympic_mean_s is not None:
        return "Olympic mean ", result.score.olympic_mean_s
    summary = result.summary("time_to_train_s")
    return "geometric mean ", summary.geometric_mean if summary is not None and summary.num_values > 1 else None


def strips_sentence(sets: Sequence[Result]) -> str:
    """Return a sentence on the number of runs, the runs without a time to train, and the variation within each
    configuration."""
    drawn = [run for result in sets for run in result.drawn]
    num_repeated = sum(len(result.runs) for result in sets) - len(drawn)
    failed = sum(not run.log.converged for run in drawn)
    text = f"{plural(len(drawn), 'run')} of {plural(len(sets), 'configuration')}"
    text += f"; {failed} did not converge." if failed else ", all of which converged."
    if num_repeated:
        runs = "run is that" if num_repeated == 1 else "runs are those"
        text += f" {num_repeated} more {runs} of an earlier configuration, submitted again, and drawn only with it."
    spreads = [spread for result in sets if (spread := _spread(result)) is not None]
    if not spreads:
        return text
    low, high = percent(min(spreads)), percent(max(spreads))
    return f"{text} Times to train vary within a configuration by {low if low == high else f'{low} to {high}'} (CV)."


def _runs_sentence(result: Result, unit: TimeUnit) -> str:
    words = f"{len(result.converged)} of {plural(len(result.runs), 'run')} reached the target."
    if result.score.olympic_mean_s is not None and math.isfinite(result.score.olympic_mean_s):
        words += f" The Olympic mean of the times to train is {unit.text(result.score.olympic_mean_s)}"
        if result.interval is not None:
            words += f", {AT_LEAST_NAME} {bounds_text(result.interval, unit.number)} {unit.name}"
        words += "."
    if (spread := _spread(result)) is not None:
        words += f" Times to train vary by {percent(spread)} (CV)."
    return words


def _spread(result: Result) -> float | None:
    summary = result.summary("time_to_train_s")
    return summary.coefficient_of_variation if summary else None


def time_chart(sets: Sequence[Result], id_: str) -> Chart | None:
    """Return the chart of timed seconds split into training, evaluation and other: a bar per run, or with several
    configurations a bar per configuration for the mean of its runs; None where no log splits the time."""
    unit = column_unit(sets)
    bars: list[Bar] = []
    for result in sets:
        known = [
            run
            for run in result.runs
            if run.log.time_to_train_s and run.log.train_s is not None and run.log.eval_s is not None
        ]
        if len(sets) == 1:
            bars += [_time_bar(f"run {run.label}", [run]) for run in known[:MAX_LINES]]
        elif known and not result.is_repeat:
            bars.append(_time_bar(result.label, known))
    if not bars:
        return None
    shares = _shares(bars, sets[0].overhead if len(sets) == 1 else None)
    what = "One bar per run" if len(sets) == 1 else "One bar per configuration, the mean of its runs"
    title = "Where the timed seconds go"
    lead = (
        f"The timed seconds are {percent(shares[0])} training, {percent(shares[1])} evaluation and "
        f"{percent(shares[2])} other work. "
        f"{what}; initialisation is not timed."
    )
    rows = [
        (
            bar.label,
            unit.number(total := sum(bar.parts)),
            *(Cell(text=unit.number(part), sub=percent(part / (total or math.inf))) for part in bar.parts),
        )
        for bar in bars
    ]
    columns = (
        "Run" if len(sets) == 1 else "Configuration",
        *(numeric(f"{name}, {unit.name}") for name in ("Time to train", "Training", "Evaluation", "Other")),
    )
    return Chart(
        figure=time_figure(bars, unit, id_=id_, title=title, description=lead),
        heading="Time in training, evaluation and the rest",
        lead=lead,
        table=text_table(columns, rows, id_=f"{id_}-table", caption=title),
    )


def _shares(bars: Sequence[Bar], overhead: LogSummary | None) -> tuple[float, ...]:
    """Return the shares of training, evaluation and other work in the summed time of all bars.

    `overhead` summarises the ratio of the whole time to the training time over runs. If it is given, the share of
    training is 1 / geometric mean of that ratio, so that it agrees with the page's key numbers. Evaluation and other
    work then divide the remaining share in proportion to their seconds.
    """
    sums = [sum(bar.parts[index] for bar in bars) for index in range(len(PARTS))]
    train, *others = (part / sum(sums) for part in sums)
    if overhead is None:
        return (train, *others)
    share = 1 - 1 / overhead.geometric_mean
    return (1 - share, *(share * other / (sum(others) or math.inf) for other in others))


def _time_bar(label: str, runs: Sequence[Run]) -> Bar:
    """Return a bar of the mean seconds of training, of evaluation, and of everything else over `runs`, whose logs all
    separate these parts."""
    sums = [0.0, 0.0, 0.0]
    for run in runs:
        total, train = run.log.time_to_train_s or 0.0, run.log.train_s or 0.0
        evaluation = run.log.eval_s or 0.0
        for index, part in enumerate((train, evaluation, max(total - train - evaluation, 0.0))):
            sums[index] += part / len(runs)
    return Bar(label, tuple(sums), f"{percent(sums[1] / (sum(sums) or math.inf))} evaluation")


def _block_points(blocks: Sequence[BlockRecord]) -> Iterator[tuple[float, float]]:
    """Yield (samples trained, samples/s) at the end of each block of training between two evaluations. Blocks without
    samples are left out, and blocks with numbers of _MAX_COUNT or more, which no chart could show."""
    for block in blocks:
        last = block.first_sample + block.num_samples
        if block.num_samples > 0 and last < _MAX_COUNT and block.num_samples < block.duration_s * _MAX_COUNT:
            yield float(last), block.num_samples / block.duration_s


def throughput_chart(sets: Sequence[Result], id_: str) -> Chart | None:
    """Return the chart of training speed in each block between evaluations, from records of run attempts; None
    without any."""
    drawn: list[tuple[str, Curve]] = []
    for position, result in enumerate(sets):
        for run in result.drawn:
            points = tuple(_block_points(run.record.blocks)) if run.record else ()
            name = f"{result.label}: run {run.label}" if len(sets) > 1 else f"run {run.label}"
            if points and len(drawn) < MAX_LINES:
                hint = name if len(sets) == 1 else ""
                drawn.append((name, Curve(hue=hue_number(position, sets), points=points, hint=hint)))
    if not drawn:
        return None
    rates = [(name, sorted(rate for _, rate in line.points)) for name, line in drawn]
    medians = [(name, known, known[len(known) // 2]) for name, known in rates]
    title = "Throughput block by block"
    names = {hue_number(p, sets): result.label for p, result in enumerate(sets)} if len(sets) > 1 else {}
    slowest = min(known[0] / median for _, known, median in medians)
    lead = (
        f"The slowest block of steps of any run had {percent(slowest)} of its run's median throughput. A dip at the "
        "same block of all runs suggests that the program slows down; a dip in one run, that the system slowed down."
    )
    about, lines = f"Samples per second. {lead}", [line for _, line in drawn]
    return Chart(
        figure=throughput_figure(lines, id_=id_, title=title, description=about, names=names),
        heading="Steadiness",
        lead=lead,
        series=tuple(names.items()) if len(names) > 1 else (),
        table=table_of(
            medians,
            (
                ("Run", lambda row: row[0]),
                (numeric("Blocks"), lambda row: len(row[1]), by_value(count)),
                (numeric("Slowest"), lambda row: row[1][0], throughput),
                (numeric("Median"), lambda row: row[2], throughput),
                (numeric("Fastest"), lambda row: row[1][-1], throughput),
            ),
            id_=f"{id_}-table",
            caption=f"{title}, samples/s",
        ),
    )

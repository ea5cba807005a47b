"""A usage as a study: what became of every model's frames, its score, the highest rates, candidates of retrievals."""

from collections.abc import Iterator, Sequence
from itertools import chain
from statistics import fmean

import numpy as np

from harness.extensions.usage.curve import CURVE_COLUMNS, Curve, hold_against_published, join_varied, make_curve
from harness.extensions.usage.definition import RETRIEVAL, STAND_IN, Usage
from harness.extensions.usage.measuring import MeasuredUsage
from harness.extensions.usage.schedule import GRID
from harness.extensions.usage.score import Counting, ModelScore, join_scores
from harness.foundation.errors import ExitCode, HarnessError
from harness.foundation.study import make_study, make_table
from harness.foundation.virtual_clock import percentile_of
from reports.statistics.intervals import Interval, mean_interval
from reports.text.formatting import duration, percent, plural
from rules.records.load import LoadRecord
from rules.records.study import TIMELINE, Cell, Origin, Parameter, Scalar, Source, StudyRecord

TIMELINE_S = 1.0
_PARTS = "What the models' scores are made of"
Point = Sequence[MeasuredUsage]
"""What all processes found of one usage, in their order: at least one."""
Columns = tuple[tuple[str, str | None, Origin], ...]


def make_usage_study(
    points: Sequence[Point],
    axis: str | None,
    counting: Counting,
    seed: int,
    loads: Sequence[LoadRecord],
    *,
    num_threads: int,
) -> StudyRecord:
    """Make the study of one usage, or of one for each value of an axis; `loads` are those of the processes.

    Raises HarnessError (exit 7) where no rate meets all deadlines of any in any process.
    """
    _refuse_hopeless(points)
    first = points[0][0]
    origin: Origin = "simulated" if first.spans is first.simulated else "measured"
    stand_ins = [name for name, model in first.usage.models.items() if model.source == STAND_IN]
    note = f"; stand-ins, MLPs of ours: {', '.join(stand_ins)}" if stand_ins else ""
    head: Columns = () if axis is None else ((axis, None, "given"),)
    scores, processes, findings = list[tuple[Cell, ...]](), list[tuple[Cell, ...]](), list[str]()
    models, parts = list[tuple[Cell, ...]](), list[tuple[Cell, ...]]()
    retrievals = list[tuple[str, Curve]]()
    for point in points:
        key = () if axis is None else (point[0].text,)
        scores.append((*key, *_list_score(point, counting)))
        processes += [(*key, *row) for row in _list_processes(point, counting, loads)]
        models += [(*key, *_list_model(point, name, counting)) for name in point[0].usage.models]
        parts += [(*key, *_list_parts(point, name, counting, origin)) for name in point[0].usage.models]
        for name in point[0].trials:
            trials = [*chain.from_iterable(each.trials[name] for each in point)]
            retrievals.append((point[0].text, make_curve(name, point[0].usage.models[name], trials)))
        findings.append((f"{axis}={point[0].text}: " if axis else "") + _say_point(point, counting, origin))
    tables = [
        make_table(f"Score{note}", (*head, *_score_columns(origin)), scores),
        make_table(f"Models{note}", (*head, *_model_columns(origin)), models),
        make_table(f"{_PARTS}{note}", (*head, *_part_columns(origin)), parts),
    ]
    if retrievals:
        rows = [((text,) if axis else ()) + row for text, curve in retrievals for row in curve.rows()]
        tables.append(make_table(f"Retrieval{note}", (*head, *CURVE_COLUMNS), rows))
    curves = join_varied(retrievals, axis)
    said = [curve.advice(where) for where, curve in curves]
    findings = [*findings, *said] if axis is None else [*said, *findings]  # what holds of all values comes first
    findings += _say_not_shown(first.usage)
    findings.append(f"Numbers of the usage: {first.usage.source}")
    tables.append(make_table(f"Processes{note}", (*head, *_process_columns(origin)), processes))
    where = f", {axis}={first.text}" if axis else ""
    tables.append(make_table(f"{TIMELINE}{where}{note}", _timeline_columns(origin), _list_timeline(first)))
    return make_study(
        "usage",
        f"{first.usage.title.partition(':')[0]}: {_answer(points, axis, counting, curves)}, {origin}",
        None,
        seed=seed,
        parameters=_list_parameters(points[0], counting, num_threads, stand_ins),
        tables=tables,
        findings=[*findings, *_hold_against_published(curves, stand_ins)],
    )


def _say_not_shown(usage: Usage) -> Iterator[str]:
    """Say of what ranks after a retrieval that their quality together is not known."""
    for name, model in usage.models.items():
        before = model.after or ""
        if before and usage.models[before].source == RETRIEVAL:
            yield (
                f"The quality of {before} and {name} end to end is not shown: {name} ranks as many items of its own "
                f"data as candidates are handed on, not these. Known: precision of {before}, time of both."
            )


def _hold_against_published(curves: Sequence[tuple[str, Curve]], stand_ins: Sequence[str]) -> Iterator[str]:
    """Say in one sentence how far the study is from what was published; nothing of a usage without such a figure."""
    if curves:
        yield hold_against_published(curves)
    elif stand_ins:
        yield (
            "The score says how this machine schedules MLPs of ours, and is held against no published one: those are "
            "of the networks that they stand in for."
        )


def _answer(
    points: Sequence[Point], axis: str | None, counting: Counting, curves: Sequence[tuple[str, Curve]]
) -> str:
    """Say in one line the score and the deadlines met; of several values of an axis which to take: that of a
    retrieval's precision, else the one with most room of those that meet all, or the one that scores best."""
    scores = [fmean(each.score_all(counting) for each in point) for point in points]
    met = [fmean(each.share_met for each in point) for point in points]
    if axis is None:
        return f"{_say_score(points[0], counting)}, {percent(met[0])} of deadlines met"
    shares = {point[0].text: share for point, share in zip(points, met, strict=True)}
    if axis.endswith(".num_subgraphs"):
        varied = next((curve for _, curve in curves if curve.name == axis.rpartition(".")[0]), None)
        if varied is not None and (said := varied.title(axis, shares)):
            return said
    good = [point for point in points if shares[point[0].text] == 1]
    if good:
        roomy, several = max(good, key=lambda point: _least(point).highest_factor), ""
        factor = _least(roomy).highest_factor
        if any(_least(point).highest_factor < factor for point in good):
            several = f"; most room with {roomy[0].text}: {factor:.2f} times all rates (simulated)"
        texts = ",".join(point[0].text for point in good)
        return f"all deadlines are met with {axis}={texts}, of {plural(len(points), 'value')}{several}"
    at = scores.index(max(scores))
    best = f"{axis}={points[at][0].text} scores best of {plural(len(points), 'value')}"
    return f"{best}, {_say_score(points[at], counting)}, with {percent(met[at])} of deadlines met"


def _refuse_hopeless(points: Sequence[Point]) -> None:
    """Raise HarnessError (exit 7) where no rate meets all deadlines of any point in any process."""
    measured = [*chain.from_iterable(points)]
    failed, times_s = measured[0].failed, measured[0].times_s
    if failed is None or any(each.highest_factor for each in measured):
        return
    raise HarnessError(
        f"no rate meets all deadlines: at {GRID:.0%} of all rates {failed.model} fails first: a frame has "
        f"{failed.within_s * 1e3:.4g} ms, and takes up to {max(times_s[failed.model]) * 1e3:.4g} ms alone. Give "
        "longer deadlines.",
        ExitCode.INCONCLUSIVE,
    )


def score_interval(scores: Sequence[float]) -> Interval | None:
    """Return Student's t interval of the mean score at 95 %, within 0 to 100; None for one process."""
    found = mean_interval(scores)
    if found is None:
        return None
    low, high = (min(max(bound, 0.0), 100.0) for bound in (found.low, found.high))
    return Interval(low=low, high=high, confidence=found.confidence, method=found.method)


def _least(point: Point) -> MeasuredUsage:
    """Return what has the lowest of the highest rates: those meet all deadlines in every process."""
    return min(point, key=lambda each: each.highest_factor)


def _score_columns(origin: Origin) -> Columns:
    return (
        ("Score", None, origin), ("From", None, origin), ("To", None, origin), ("Processes", None, "given"),
        ("Deadlines met", "share", origin), ("Highest factor on all rates", None, "simulated"),
    )  # fmt: skip


def _list_score(point: Point, counting: Counting) -> tuple[Cell, ...]:
    scores = [each.score_all(counting) for each in point]
    bounds = score_interval(scores)
    interval = (None, None) if bounds is None else (bounds.low, bounds.high)
    met = fmean(each.share_met for each in point)
    return (fmean(scores), *interval, len(point), met, _least(point).highest_factor)


def _process_columns(origin: Origin) -> Columns:
    return (
        ("Process", None, "given"), ("Seed of arrivals", None, "given"), ("Score", None, origin),
        ("Deadlines met", "share", origin), ("Highest factor on all rates", None, "simulated"),
        ("Load average before", None, "measured"), ("CPUs of other work", None, "measured"),
    )  # fmt: skip


def _list_processes(point: Point, counting: Counting, loads: Sequence[LoadRecord]) -> Iterator[tuple[Cell, ...]]:
    for number, (each, load) in enumerate(zip(point, loads, strict=True), start=1):
        found = (each.score_all(counting), each.share_met, each.highest_factor)
        yield (number, str(each.seed), *found, load.load_avg_before, load.other_cpus)


def _model_columns(origin: Origin) -> Columns:
    return (
        ("Model", None, "given"), ("Items", None, "given"), ("Rate", "/s", "given"), ("Deadline", "s", "given"),
        ("Service", "s", "measured"), ("Requested", None, "computed"), ("Dropped", None, origin),
        ("Late", None, origin), ("p50", "s", origin), ("p99", "s", origin),
    )  # fmt: skip


def _list_model(point: Point, name: str, counting: Counting) -> tuple[Cell, ...]:
    """List one model over all processes: counts and latencies of all frames."""
    usage, score = point[0].usage, _join(point, name, counting)
    return (
        name,
        usage.models[name].items,
        (usage.models[name].rate or 0.0) * usage.factor,
        usage.within_s(name),
        fmean(chain.from_iterable(each.times_s[name] for each in point)),
        score.requested,
        score.dropped,
        score.late,
        *(_percentile(score.latencies_s, share) for share in (0.5, 0.99)),
    )


def _part_columns(origin: Origin) -> Columns:
    on_virtual: Columns = (
        ("Dropped on the virtual clock", None, "simulated"), ("Late on it", None, "simulated"),
        ("p99 on it", "s", "simulated"),
    )  # fmt: skip
    return (
        ("Model", None, "given"), ("Score", None, origin), ("Real-time score", None, origin),
        ("Quality of experience", None, origin), ("Energy", "J", "measured"),
        *(on_virtual if origin == "measured" else ()),
    )  # fmt: skip


def _list_parts(point: Point, name: str, counting: Counting, origin: Origin) -> tuple[Cell, ...]:
    """List what a model's score is made of, means over all processes, and what the virtual clock says of a measured
    one: counts and latencies of all frames."""
    score, beside = _join(point, name, counting), tuple[Cell, ...]()
    if origin == "measured":
        simulated = join_scores([each.score(name, each.simulated, counting) for each in point])
        beside = (simulated.dropped, simulated.late, _percentile(simulated.latencies_s, 0.99))
    energies_j = [each.energies_j[name] for each in point if name in each.energies_j]
    energy_j = fmean(energies_j) if energies_j else None
    return (name, score.score, score.real_time, score.quality, energy_j, *beside)


def _join(point: Point, name: str, counting: Counting) -> ModelScore:
    return join_scores([each.score(name, each.spans, counting) for each in point])


def _percentile(seconds: Sequence[float], share: float) -> float | None:
    return percentile_of(np.array(seconds), share) if seconds else None


def _say_point(point: Point, counting: Counting, origin: Origin) -> str:
    models = [_join(point, name, counting) for name in point[0].usage.models]
    requested = sum(score.requested for score in models)
    num_met = requested - sum(score.dropped + score.late for score in models)
    words = (
        f"{_say_score(point, counting)}, {num_met:,} of {requested:,} deadlines met ({origin}), at a load "
        f"of {percent(fmean(each.offered_load for each in point))}. "
    )
    least = _least(point)
    if least.failed is None:
        return f"{words}All are met at {least.highest_factor:g} times all rates, where the search ends (simulated)."
    every, where = "", ""
    if len(point) > 1:
        number = next(number for number, each in enumerate(point, start=1) if each is least)
        every, where = " in every process", f" in process {number}"
    if not least.highest_factor:
        first = f"at {GRID:.0%} of all rates {least.failed.model} fails first{where}"
        return f"{words}No rate meets all{every}: {first} (simulated), {_say_cause(least)}."
    return (
        f"{words}The highest rates that meet all{every} are {least.highest_factor:.2f} times all rates; above, "
        f"{least.failed.model} fails first{where} (simulated)."
    )


def _say_score(point: Point, counting: Counting) -> str:
    scores = [each.score_all(counting) for each in point]
    bounds, of = score_interval(scores), "one process, so no interval"
    if bounds is not None:
        of = f"95 % interval {bounds.low:.2f} to {bounds.high:.2f} over {len(point)} processes"
    return f"score {fmean(scores):.2f} of 100 ({of})"


def _say_cause(least: MeasuredUsage) -> str:
    """Say why a frame fails at the lowest rates: its own call takes longer than it has, or it waits for others."""
    failed, alone_s = least.failed, least.failed_service_s
    assert failed is not None and alone_s is not None
    took, within = f"a call of it alone took {duration(alone_s)} (measured)", duration(failed.within_s)
    if alone_s > failed.within_s:
        return f"where {took}, more than its deadline of {within}"
    return f"where it waits for other frames: {took}, within its deadline of {within}"


def _timeline_columns(origin: Origin) -> Columns:
    return (
        ("Model", None, "given"),
        ("Frame", None, "given"),
        ("Released", "s", "given"),
        ("Deadline", "s", "given"),
        ("Worker", None, origin),
        ("Begun", "s", origin),
        ("Done", "s", origin),
    )


def _list_timeline(point: MeasuredUsage) -> Iterator[tuple[Cell, ...]]:
    for frame, span in zip(point.frames, point.spans, strict=True):
        if frame.release_s < TIMELINE_S:
            yield (frame.model, frame.number, frame.release_s, frame.deadline_s, *(span or (None,) * 3))


def _list_parameters(
    point: Point, counting: Counting, num_threads: int, stand_ins: Sequence[str]
) -> tuple[Parameter, ...]:
    usage, has_energy = point[0].usage, any(each.energies_j for each in point)
    rows: tuple[tuple[str, Scalar, str | None, Source, str | None], ...] = (
        ("stand-ins", ", ".join(stand_ins) or None, None, "file", "MLPs, not the networks of the source"),
        ("releases", usage.duration_s / usage.factor, "s", "file", "what was released by then is finished"),
        ("workers", usage.workers, None, "file", "processes, one frame at a time each"),
        (
            "processes",
            len(point),
            None,
            "given",
            "one after the other, with workers and arrivals of their own",
        ),
        ("threads of a worker", num_threads, None, "given", None),
        ("factor on all rates", usage.factor, None, "file", None),
        ("order", "earliest deadline first", None, "default", "not preempted; dropped if not begun by it"),
        ("score", counting, None, "given", "XRBench's, without accuracy; released: drops count twice"),
        (
            "energy of a frame",
            "measured" if has_energy else "not given",
            None,
            "measured",
            "whole packages; score: (1.5 J - E) / 1.5 J" if has_energy else f"EN is 1. {point[0].energy_gap}",
        ),
    )
    return tuple(
        Parameter(name=name, value=value, unit=unit, source=source, note=note)
        for name, value, unit, source, note in rows
        if value is not None
    )

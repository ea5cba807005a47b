"""Make the study of a usage (several models that one application requests): requests of every model, the score, the
highest request rates, and candidates of retrievals."""

import shlex
from collections.abc import Iterator, Sequence
from itertools import chain
from statistics import fmean

import numpy as np

from harness.extensions.usage.curve import (
    CURVE_COLUMNS,
    RetrievalCurve,
    hold_against_published,
    join_varied,
    make_curve,
)
from harness.extensions.usage.definition import RETRIEVAL, STAND_IN, Usage
from harness.extensions.usage.measuring import MeasuredUsage
from harness.extensions.usage.schedule import GRID, ModelRequest
from harness.extensions.usage.score import Counting, ModelScore, join_scores
from harness.foundation.queue_simulation import percentile_of
from harness.foundation.study import make_study, make_table
from reports.statistics.intervals import Interval, mean_interval
from reports.text.formatting import capital, duration, names, percent, plural
from rules.records.load import LoadRecord
from rules.records.study import TIMELINE, Cell, Origin, Parameter, Scalar, Source, StudyRecord

TIMELINE_S = 1.0
_PARTS = "Parts of the models' scores"
ProcessResults = Sequence[MeasuredUsage]
"""Measurements of one usage (the models of one application) in all processes, in the order of processes; at least
one."""
Columns = tuple[tuple[str, str | None, Origin], ...]


def make_usage_study(
    points: Sequence[ProcessResults],
    axis: str | None,
    counting: Counting,
    seed: int,
    loads: Sequence[LoadRecord],
    *,
    num_threads: int,
    again: str = "",
    is_trained: bool = False,
) -> StudyRecord:
    """Make the study of one usage (the models of one application), measured once or at each value of the varied key
    `axis`. `loads` has the load of the machine during each process.

    `again` is the command that measures the usage without a varied key, for advice; empty for none. `is_trained` says
    whether the quality of a cascade (one model filters items, another ranks them) is added to the study.
    """
    first = points[0][0]
    origin: Origin = "simulated" if first.spans is first.simulated else "measured"
    stand_ins = [name for name, model in first.usage.models.items() if model.source == STAND_IN]
    head: Columns = () if axis is None else ((axis, None, "given"),)
    scores, processes, findings = list[tuple[Cell, ...]](), list[tuple[Cell, ...]](), list[str]()
    models, parts = list[tuple[Cell, ...]](), list[tuple[Cell, ...]]()
    retrievals = list[tuple[str, RetrievalCurve]]()
    for point in points:
        key = () if axis is None else (point[0].text,)
        scores.append((*key, *_list_score(point, counting)))
        processes += [(*key, *row) for row in _list_processes(point, counting, loads)]
        models += [(*key, *_list_model(point, name, counting)) for name in point[0].usage.models]
        parts += [(*key, *_list_parts(point, name, counting, origin)) for name in point[0].usage.models]
        for name in point[0].trials:
            trials = [*chain.from_iterable(each.trials[name] for each in point)]
            retrievals.append((point[0].text, make_curve(name, point[0].usage.models[name], trials)))
        sentence = _say_point(point, counting, origin)
        findings.append(f"{axis}={point[0].text}: {sentence}" if axis else capital(sentence))
    tables = [
        make_table("Score", (*head, *_score_columns(origin)), scores),
        make_table("Models", (*head, *_model_columns(origin)), models),
        make_table(_PARTS, (*head, *_part_columns(origin)), parts),
    ]
    if retrievals:
        rows = [((text,) if axis else ()) + row for text, curve in retrievals for row in curve.rows()]
        tables.append(make_table("Retrieval", (*head, *CURVE_COLUMNS), rows))
    curves = join_varied(retrievals, axis)
    said = [curve.advice(where) for where, curve in curves]
    following = [_say_next(points, axis, again)] if again else []
    # Findings on all values of an axis come first.
    findings = [*findings, *following, *said] if axis is None else [*said, *following, *findings]
    if stand_ins:
        findings.append(
            "In this usage scenario, small MLPs replace networks of the benchmark from which the scenario is taken: "
            f"{names(stand_ins, 8)}. The score shows how this machine schedules requests; the score is not a result "
            "of the benchmark from which this usage scenario is taken."
        )
    findings += _say_not_shown(first.usage, is_trained=is_trained)
    findings.append(f"Source of this usage scenario's numbers, such as rates and deadlines: {first.usage.source}")
    tables.append(make_table("Processes", (*head, *_process_columns(origin)), processes))
    where, small = f", {axis}={first.text}" if axis else "", " with small MLPs" if stand_ins else ""
    tables.append(make_table(f"{TIMELINE}{where}", _timeline_columns(origin), _list_timeline(first)))
    return make_study(
        "usage",
        f"'{first.usage.title.partition(':')[0]}'{small}: {_answer(points, axis, counting, curves)}, {origin}",
        None,
        seed=seed,
        parameters=_list_parameters(points[0], counting, num_threads, stand_ins),
        tables=tables,
        findings=[*findings, *_hold_against_published(curves, stand_ins)],
    )


def _say_not_shown(usage: Usage, *, is_trained: bool) -> Iterator[str]:
    """Yield a sentence for each pair of models in sequence, one choosing items and the other ranking them, whose
    joint quality the study does not show.

    The joint quality of two benchmarks (a cascade) is shown if the option `--train` was given (`is_trained`). If the
    first is a retrieval, it is never shown.
    """
    for name, model in usage.models.items():
        before = model.after or ""
        if before and usage.models[before].source == RETRIEVAL:
            yield (
                f"The quality of {before} and {name} end to end is not shown: {name} ranks as many items of its own "
                f"data as candidates are handed on, not the candidates. Known: precision of {before}, time of both."
            )
        elif before and not is_trained and STAND_IN not in (model.source, usage.models[before].source):
            yield (
                f"The quality of {before} and {name} end to end is not shown, only the time of both. 'usage --train "
                "SAMPLES' shows it by items kept: it trains both, which must share their generated data."
            )


def _hold_against_published(curves: Sequence[tuple[str, RetrievalCurve]], stand_ins: Sequence[str]) -> Iterator[str]:
    """Yield a sentence on published figures, if there is one to yield. For a usage with retrievals it compares them
    with published figures. For a usage with stand-ins (MLPs in place of published models) it says why their score is
    compared with no published score."""
    if curves:
        yield hold_against_published(curves)
    elif stand_ins:
        yield (
            "The score of small MLPs is compared with no published score: published scores are of the networks that "
            "the MLPs replace."
        )


def _answer(
    points: Sequence[ProcessResults],
    axis: str | None,
    counting: Counting,
    curves: Sequence[tuple[str, RetrievalCurve]],
) -> str:
    """Return the title of a usage's study. If no key was varied, the title says the score and the share of deadlines
    met. If a key was varied, the title recommends one of its values: the value at which a retrieval has the wanted
    precision; if there is none, the value that meets all deadlines at the highest request rates; if no value meets
    all deadlines, the value with the best score."""
    scores = [fmean(each.score_all(counting) for each in point) for point in points]
    met = [fmean(each.share_met for each in point) for point in points]
    if axis is None:
        hopeless = (
            f"; no rate meets all deadlines: {failed.model} fails first" if (failed := _least_hope(points)) else ""
        )
        return f"{_say_score(points[0], counting)}, {percent(met[0])} of deadlines met{hopeless}"
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
            several = f"; highest rates with {roomy[0].text}: {factor:.2f} times the given rates (simulated)"
        texts = ",".join(point[0].text for point in good)
        return f"all deadlines are met with {axis}={texts}, of {plural(len(points), 'value')}{several}"
    at = scores.index(max(scores))
    best = f"{axis}={points[at][0].text} scores best of {plural(len(points), 'value')}"
    return f"{best}, {_say_score(points[at], counting)}, with {percent(met[at])} of deadlines met"


def find_hopeless(points: Sequence[ProcessResults]) -> str:
    """Say why no request rate meets all deadlines, in any process and at any value of a varied key; return an empty
    text if some rate does."""
    if (failed := _least_hope(points)) is None:
        return ""
    slowest_s = max(points[0][0].times_s[failed.model])
    return (
        f"no rate meets all deadlines: at {percent(GRID, 0)} of the given rates {failed.model} fails first: "
        f"a request has {failed.within_s * 1e3:.4g} ms, and takes up to {slowest_s * 1e3:.4g} ms alone. "
        "Give longer deadlines."
    )


def _least_hope(points: Sequence[ProcessResults]) -> ModelRequest | None:
    """Return the request that fails first, if no request rate meets all deadlines in any process; None if some rate
    does."""
    measured = [*chain.from_iterable(points)]
    return None if any(each.highest_factor for each in measured) else measured[0].failed


def _say_next(points: Sequence[ProcessResults], axis: str | None, again: str) -> str:
    """Suggest the command to run next: `again` (the study's command without a varied key) with one value of the
    varied key, with rates that meet all deadlines, with a longer deadline, or with one more worker."""
    if axis is not None:
        roomy = max(points, key=lambda point: _least(point).highest_factor)
        return f"Next, the value with the highest rates alone: {again} --set {shlex.quote(f'{axis}={roomy[0].text}')}"
    usage, least = points[0][0].usage, _least(points[0])
    factor, failed, alone_s = least.highest_factor, least.failed, least.failed_service_s
    if factor:
        # Rounded down to the grid, so that the rates are still met.
        which = (
            "to run at lower rates that meet all deadlines"
            if factor < usage.factor
            else "to run at the highest rates that meet all deadlines"
        )
        return f"Next, {which} (simulated): {again} --set usage.factor={factor:.2f}"
    if failed is not None and alone_s is not None and alone_s > failed.within_s:
        deadline_ms = float(f"{2e3 * alone_s:.2g}")
        return f"Next, a deadline that a call can meet: {again} --set {failed.model}.deadline_ms={deadline_ms:g}"
    return f"Next, one more worker, as requests wait for others: {again} --workers {usage.workers + 1}"


def score_interval(scores: Sequence[float]) -> Interval | None:
    """Return Student's t interval at 95 % of the mean score over processes, within 0 to 100; None for one process."""
    found = mean_interval(scores)
    if found is None:
        return None
    low, high = (min(max(bound, 0.0), 100.0) for bound in (found.low, found.high))
    return Interval(low=low, high=high, confidence=found.confidence, method=found.method)


def _least(point: ProcessResults) -> MeasuredUsage:
    """Return the measurements of the process whose highest possible request rate is the lowest of all processes. At
    that rate every process meets all deadlines."""
    return min(point, key=lambda each: each.highest_factor)


def _score_columns(origin: Origin) -> Columns:
    return (
        ("Score", None, origin), ("From", None, origin), ("To", None, origin), ("Processes", None, "given"),
        ("Deadlines met", "share", origin), ("Highest factor on all rates", None, "simulated"),
    )  # fmt: skip


def _list_score(point: ProcessResults, counting: Counting) -> tuple[Cell, ...]:
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


def _list_processes(
    point: ProcessResults, counting: Counting, loads: Sequence[LoadRecord]
) -> Iterator[tuple[Cell, ...]]:
    for number, (each, load) in enumerate(zip(point, loads, strict=True)):
        found = (each.score_all(counting), each.share_met, each.highest_factor)
        yield (number, str(each.seed), *found, load.load_avg_before, load.other_cpus)


def _model_columns(origin: Origin) -> Columns:
    return (
        ("Model", None, "given"), ("Items", None, "given"), ("Rate", "/s", "given"), ("Deadline", "s", "given"),
        ("Service", "s", "measured"), ("Requested", None, "computed"), ("Dropped", None, origin),
        ("Late", None, origin), ("p50", "s", origin), ("p99", "s", origin),
    )  # fmt: skip


def _list_model(point: ProcessResults, name: str, counting: Counting) -> tuple[Cell, ...]:
    """Return the table row of one model over all processes: counts and latencies of all requests."""
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
    beside: Columns = (
        ("Dropped in simulated time", None, "simulated"), ("Late in simulated time", None, "simulated"),
        ("p99 in simulated time", "s", "simulated"),
    )  # fmt: skip
    return (
        ("Model", None, "given"), ("Score", None, origin), ("Real-time score", None, origin),
        ("Quality of experience", None, origin), ("Energy", "J", "measured"),
        *(beside if origin == "measured" else ()),
    )  # fmt: skip


def _list_parts(point: ProcessResults, name: str, counting: Counting, origin: Origin) -> tuple[Cell, ...]:
    """Return the table row of a model: its score, the factors of the score, and its energy, as means over all
    processes. For a schedule in real time it also has the simulated numbers of dropped and of late requests, and the
    simulated p99 latency."""
    score, beside = _join(point, name, counting), tuple[Cell, ...]()
    if origin == "measured":
        simulated = join_scores([each.score(name, each.simulated, counting) for each in point])
        beside = (simulated.dropped, simulated.late, _percentile(simulated.latencies_s, 0.99))
    energies_j = [each.energies_j[name] for each in point if name in each.energies_j]
    energy_j = fmean(energies_j) if energies_j else None
    return (name, score.score, score.real_time, score.quality, energy_j, *beside)


def _join(point: ProcessResults, name: str, counting: Counting) -> ModelScore:
    return join_scores([each.score(name, each.spans, counting) for each in point])


def _percentile(seconds: Sequence[float], share: float) -> float | None:
    return percentile_of(np.array(seconds), share) if seconds else None


def _say_point(point: ProcessResults, counting: Counting, origin: Origin) -> str:
    models = [_join(point, name, counting) for name in point[0].usage.models]
    requested = sum(score.requested for score in models)
    num_met = requested - sum(score.dropped + score.late for score in models)
    words = (
        f"{_say_score(point, counting)}, {num_met:,} of {requested:,} deadlines met ({origin}), at an offered load "
        f"of {percent(fmean(each.offered_load for each in point))}. "
    )
    least = _least(point)
    if least.failed is None:
        most = f"{least.highest_factor:g} times the given rates, where the search ends"
        return f"{words}All deadlines are met at up to {most} (simulated)."
    every, where = "", ""
    if len(point) > 1:
        number = next(number for number, each in enumerate(point) if each is least)
        every, where = " in every process", f" in process {number}"
    if not least.highest_factor:
        first = f"at {percent(GRID, 0)} of the given rates {least.failed.model} fails first{where}"
        return f"{words}No rate meets all deadlines{every}: {first} (simulated), {_say_cause(least)}."
    return (
        f"{words}The highest rates that meet all deadlines{every} are {least.highest_factor:.2f} times the given "
        f"rates; at higher rates, {least.failed.model} fails first{where} (simulated)."
    )


def _say_score(point: ProcessResults, counting: Counting) -> str:
    scores = [each.score_all(counting) for each in point]
    bounds, of = score_interval(scores), "one process, so no interval"
    if bounds is not None:
        of = f"95 % interval {bounds.low:.2f} to {bounds.high:.2f} over {len(point)} processes"
    return f"score {fmean(scores):.2f} of 100 ({of})"


def _say_cause(least: MeasuredUsage) -> str:
    """Say why a request fails at the lowest rates: its model takes longer than its deadline, or it waits for other
    requests."""
    failed, alone_s = least.failed, least.failed_service_s
    assert failed is not None and alone_s is not None
    took, within = f"a call of it alone took {duration(alone_s)} (measured)", duration(failed.within_s)
    if alone_s > failed.within_s:
        return f"where {took}, more than its deadline of {within}"
    return f"where it waits for other requests: {took}, within its deadline of {within}"


def _timeline_columns(origin: Origin) -> Columns:
    return (
        ("Model", None, "given"),
        ("Request", None, "given"),
        ("Released", "s", "given"),
        ("Deadline", "s", "given"),
        ("Worker", None, origin),
        ("Begun", "s", origin),
        ("Done", "s", origin),
    )


def _list_timeline(point: MeasuredUsage) -> Iterator[tuple[Cell, ...]]:
    for request, span in zip(point.requests, point.spans, strict=True):
        if request.release_s < TIMELINE_S:
            yield (request.model, request.number, request.release_s, request.deadline_s, *(span or (None,) * 3))


def _list_parameters(
    point: ProcessResults, counting: Counting, num_threads: int, stand_ins: Sequence[str]
) -> tuple[Parameter, ...]:
    usage, has_energy = point[0].usage, any(each.energies_j for each in point)
    rows: tuple[tuple[str, Scalar, str | None, Source, str | None], ...] = (
        ("stand-ins", ", ".join(stand_ins) or None, None, "file", "small MLPs in place of the scenario's networks"),
        ("releases", usage.duration_s / usage.factor, "s", "file", "requests released by then are finished"),
        ("workers", usage.workers, None, "file", "processes, one request at a time each"),
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
        ("score", counting, None, "given", "XRBench's RT x EN x QoE, without accuracy; released: drops count twice"),
        (
            "energy of a request",
            "measured" if has_energy else "not given",
            None,
            "measured",
            "whole packages; energy score (EN): (1.5 J - E) / 1.5 J"
            if has_energy
            else f"the energy score (EN) is 1. {point[0].energy_gap}",
        ),
    )
    return tuple(
        Parameter(name=name, value=value, unit=unit, source=source, note=note)
        for name, value, unit, source, note in rows
        if value is not None
    )

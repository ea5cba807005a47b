"""A usage as a study: what became of every model's frames, its score, the highest rates, candidates of retrievals."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from harness.extensions.usage.crew import Crew, RealClock, RetrievalTrial, build_models, repeat_calls, try_retrieval
from harness.extensions.usage.definition import RETRIEVAL, STAND_IN, Usage
from harness.extensions.usage.schedule import (
    GRID,
    Frame,
    Spans,
    VirtualClock,
    draw_frames,
    draw_service,
    find_highest_factor,
    run_schedule,
)
from harness.extensions.usage.score import Counting, ModelScore, score_model, score_usage
from harness.foundation.errors import ExitCode, HarnessError
from harness.foundation.study import make_study, make_table
from harness.foundation.virtual_clock import percentile_of
from harness.system.energy import EnergyMeter
from reports.text.formatting import percent
from rules.records.study import TIMELINE, Cell, Origin, Parameter, Scalar, Source, StudyRecord

PUBLISHED_MEMORY = "1.5 to 13.4 times less, published by MeLoPPR for a CPU, of six other graphs"
LEAST_PRECISION, LEAST_SAVING, TIMELINE_S = 0.8, 1.5, 1.0
Columns = tuple[tuple[str, str | None, Origin], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class MeasuredUsage:
    """What was found of one usage: `text` is the value of the axis, empty without one."""

    text: str
    usage: Usage
    frames: Sequence[Frame]
    spans: Spans
    """By the clock that the study is of."""
    simulated: Spans
    times_s: Mapping[str, Sequence[float]]
    energies_j: Mapping[str, float]
    """Joules of a frame by model, where that was measured."""
    energy_gap: str
    highest_factor: float
    failed: Frame | None
    """What fails first above the highest factor."""
    trials: Mapping[str, Sequence[RetrievalTrial]]

    def score(self, name: str, spans: Spans, counting: Counting) -> ModelScore:
        """Score one model by a schedule."""
        pairs = [pair for pair in zip(self.frames, spans, strict=True) if pair[0].model == name]
        frames, its = [frame for frame, _ in pairs], [span for _, span in pairs]
        return score_model(frames, its, counting, self.energies_j.get(name))


def measure_usage(
    crew: Crew, text: str, usage: Usage, served: Mapping[str, Any], *, seed: int, is_simulated: bool
) -> MeasuredUsage:
    """Time frames of all models on all workers at once, then schedule those of the usage on the virtual clock, and,
    unless `is_simulated`, on the real one."""
    count = usage.workers
    crew.ask([partial(build_models, usage=usage, served=served, seed=seed)] * count)
    energies_j, energy_gap = dict[str, float](), ""
    for name in usage.models:
        meter = EnergyMeter()
        meter.start()
        num_calls = sum(crew.ask([partial(repeat_calls, name=name)] * count))
        energy = meter.stop() or {"energy_j": None, "not_measured": []}
        if energy["energy_j"] is not None:
            energies_j[name] = energy["energy_j"] / num_calls
        energy_gap = " ".join(gap["reason"] for gap in energy["not_measured"])
    times_s = crew.time_frames([*usage.models], seed)
    frames = draw_frames(usage, seed)
    service_s = draw_service(frames, times_s, seed)
    simulated = run_schedule(frames, count, VirtualClock(service_s))
    spans = simulated if is_simulated else run_schedule(frames, count, RealClock(crew, frames))
    trials: dict[str, list[RetrievalTrial]] = {}
    for name, model in usage.models.items():
        if model.source == RETRIEVAL:
            ask = partial(try_retrieval, model=model, seed=seed)
            trials[name] = [*chain(*crew.ask([partial(ask, share=(worker, count)) for worker in range(count)]))]
    highest, failed = find_highest_factor(usage, seed, service_s)
    return MeasuredUsage(
        text=text, usage=usage, frames=frames, spans=spans, simulated=simulated, times_s=times_s, trials=trials,
        energies_j=energies_j, energy_gap=energy_gap, highest_factor=highest, failed=failed,
    )  # fmt: skip


def make_usage_study(
    points: Sequence[MeasuredUsage], axis: str | None, counting: Counting, seed: int, num_threads: int
) -> StudyRecord:
    """Make the study of one usage, or of one for each value of an axis.

    Raises HarnessError (exit 7) where no rate meets all deadlines of any.
    """
    first = points[0]
    if first.failed is not None and not any(point.highest_factor for point in points):
        most_ms = max(first.times_s[first.failed.model]) * 1e3
        raise HarnessError(
            f"no rate meets all deadlines: at {GRID:.0%} of all rates {first.failed.model} fails first: a frame has "
            f"{first.failed.within_s * 1e3:.4g} ms, and takes up to {most_ms:.4g} ms alone. Give longer deadlines.",
            ExitCode.INCONCLUSIVE,
        )
    origin: Origin = "simulated" if first.spans is first.simulated else "measured"
    stand_ins = [name for name, model in first.usage.models.items() if model.source == STAND_IN]
    note = f"; stand-ins, MLPs of ours: {', '.join(stand_ins)}" if stand_ins else ""
    head: Columns = () if axis is None else ((axis, None, "given"),)
    models, retrievals, findings = list[tuple[Cell, ...]](), list[tuple[Cell, ...]](), list[str]()
    for point in points:
        key = () if axis is None else (point.text,)
        scores = {name: point.score(name, point.spans, counting) for name in point.usage.models}
        models += [(*key, *_list_model(point, *each, counting, origin)) for each in scores.items()]
        retrievals += [(*key, *_list_retrieval(point, name)) for name in point.trials]
        findings.append((f"{axis}={point.text}: " if axis else "") + _say_point(point, scores, origin))
    tables = [make_table(f"Models{note}", (*head, *_model_columns(origin)), models)]
    if retrievals:
        tables.append(make_table(f"Retrieval{note}", (*head, *_RETRIEVAL), retrievals))
        findings += _say_retrieval([row[len(head) :] for row in retrievals])
    where = f", {axis}={first.text}" if axis else ""
    tables.append(make_table(f"{TIMELINE}{where}{note}", _timeline_columns(origin), _list_timeline(first)))
    clock = "a virtual clock" if origin == "simulated" else "the real clock"
    return make_study(
        "usage",
        f"{first.usage.title}: deadlines met on {clock}",
        None,
        seed=seed,
        parameters=_list_parameters(first, counting, num_threads, stand_ins),
        tables=tables,
        findings=[*findings, f"Numbers of the usage: {first.usage.source}"],
    )


def _model_columns(origin: Origin) -> Columns:
    on_virtual: Columns = (("Dropped on the virtual clock", None, "simulated"), ("p99 on it", "s", "simulated"))
    beside = on_virtual if origin == "measured" else ()
    return (
        ("Model", None, "given"), ("Items", None, "given"), ("Rate", "/s", "given"), ("Deadline", "s", "given"),
        ("Service", "s", "measured"), ("Requested", None, "computed"), ("Dropped", None, origin),
        ("Late", None, origin), ("p50", "s", origin), ("p99", "s", origin), *beside, ("RT", None, origin),
        ("QoE", None, origin), ("Energy", "J", "measured"), ("Score", None, origin),
    )  # fmt: skip


def _list_model(
    point: MeasuredUsage, name: str, score: ModelScore, counting: Counting, origin: Origin
) -> tuple[Cell, ...]:
    usage, beside = point.usage, tuple[Cell, ...]()
    if origin == "measured":
        simulated = point.score(name, point.simulated, counting)
        beside = (simulated.dropped, _percentile(simulated.latencies_s, 0.99))
    rate, service_s = (usage.models[name].rate or 0.0) * usage.factor, float(np.mean(point.times_s[name]))
    p50_s, p99_s = (_percentile(score.latencies_s, share) for share in (0.5, 0.99))
    counts, energy_j = (score.requested, score.dropped, score.late), point.energies_j.get(name)
    scores = (score.real_time, score.quality, energy_j, score.score)
    return (
        name,
        usage.models[name].items,
        rate,
        usage.within_s(name),
        service_s,
        *counts,
        p50_s,
        p99_s,
        *beside,
        *scores,
    )


def _percentile(seconds: Sequence[float], share: float) -> float | None:
    return percentile_of(np.array(seconds), share) if seconds else None


def _say_point(point: MeasuredUsage, scores: Mapping[str, ModelScore], origin: Origin) -> str:
    usage, requested = point.usage, len(point.frames)
    num_failed = sum(score.dropped + score.late for score in scores.values())
    work_s = sum(float(np.mean(point.times_s[name])) * score.requested for name, score in scores.items())
    words = (
        f"score {score_usage(scores.values()):.2f} of 100, {requested - num_failed:,} of {requested:,} deadlines met "
    )
    words += f"({origin}), at a load of {percent(work_s * usage.factor / usage.duration_s / usage.workers)}. "
    if point.failed is None:
        return f"{words}All are met at {point.highest_factor:g} times all rates, where the search ends (simulated)."
    if not point.highest_factor:
        return f"{words}No rate meets all: at {GRID:.0%} of all rates {point.failed.model} fails first (simulated)."
    highest = f"{point.highest_factor:.2f} times all rates"
    return (
        f"{words}The highest rates that meet all are {highest}; above, {point.failed.model} fails first (simulated)."
    )


_RETRIEVAL: Columns = (
    ("Retrieval", None, "given"),
    ("Subgraphs", None, "given"),
    ("Precision", "share", "measured"),
    ("Mean", "s", "measured"),
    ("p99", "s", "measured"),
    ("Peak of a subgraph", "B", "computed"),
    ("Peak of one stage", "B", "computed"),
    ("Less memory", None, "computed"),
    ("Speed-up over one stage", None, "measured"),
)


def _list_retrieval(point: MeasuredUsage, name: str) -> tuple[Cell, ...]:
    trials = point.trials[name]
    precision, mean_s, at_once_s = np.mean([trial[:3] for trial in trials], axis=0).tolist()
    peaks = max(trial.staged_bytes for trial in trials), max(trial.at_once_bytes for trial in trials)
    p99_s = _percentile([trial.staged_s for trial in trials], 0.99)
    subgraphs = str(point.usage.models[name].num_subgraphs)
    return (name, subgraphs, precision, mean_s, p99_s, *peaks, peaks[1] / peaks[0], at_once_s / mean_s)


def _say_retrieval(rows: Sequence[tuple[Any, ...]]) -> Iterator[str]:
    """Say which settings save memory and are precise, or that none is."""
    goal = f"at least {percent(LEAST_PRECISION)} precise, at least {LEAST_SAVING:g} times less memory than one stage"
    for name in dict.fromkeys(row[0] for row in rows):
        good = [row[1] for row in rows if row[0] == name and row[2] >= LEAST_PRECISION and row[7] >= LEAST_SAVING]
        found = f"with {', '.join(good)} subgraphs" if good else "no setting of these has it"
        yield f"{name}: {goal}: {found} ({PUBLISHED_MEMORY})."


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
    point: MeasuredUsage, counting: Counting, num_threads: int, stand_ins: Sequence[str]
) -> tuple[Parameter, ...]:
    usage, has_energy = point.usage, bool(point.energies_j)
    rows: tuple[tuple[str, Scalar, str | None, Source, str | None], ...] = (
        ("stand-ins", ", ".join(stand_ins) or None, None, "file", "MLPs, not the networks of the source"),
        ("releases", usage.duration_s / usage.factor, "s", "file", "what was released by then is finished"),
        ("workers", usage.workers, None, "file", "processes, one frame at a time each"),
        ("threads of a worker", num_threads, None, "given", None),
        ("factor on all rates", usage.factor, None, "file", None),
        ("order", "earliest deadline first", None, "default", "not preempted; dropped if not begun by it"),
        ("score", counting, None, "given", "XRBench's, without accuracy; released: drops count twice"),
        (
            "energy of a frame",
            "measured" if has_energy else "not given",
            None,
            "measured",
            "whole packages; score: (1.5 J - E) / 1.5 J" if has_energy else f"EN is 1. {point.energy_gap}",
        ),
    )
    return tuple(
        Parameter(name=name, value=value, unit=unit, source=source, note=note)
        for name, value, unit, source, note in rows
        if value is not None
    )

"""What one process finds of a usage: what became of every frame, the highest rates, candidates of retrievals.

A process here is a crew of workers, which are started for it and end with it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from harness.extensions.usage.crew import Crew, RealClock, RetrievalTrial, build_models, repeat_calls, try_retrieval
from harness.extensions.usage.definition import RETRIEVAL, Usage
from harness.extensions.usage.schedule import (
    Frame,
    Spans,
    VirtualClock,
    draw_frames,
    draw_service,
    find_highest_factor,
    run_schedule,
)
from harness.extensions.usage.score import Counting, ModelScore, score_model, score_usage
from harness.system.energy import EnergyMeter


class Share(NamedTuple):
    """Which of how many processes it is: each tries its share of the nodes of a retrieval."""

    number: int
    of: int


class Seeds(NamedTuple):
    """Weights, graphs and nodes are those of the base seed in every process; arrivals and turns are its own."""

    base: int
    arrivals: int


@dataclass(frozen=True, kw_only=True, slots=True)
class MeasuredUsage:
    """What one process found of one usage: `text` is the value of the axis, empty without one."""

    text: str
    usage: Usage
    seed: int
    """The seed of the arrivals."""
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
    failed_service_s: float | None
    """How long the call of `failed` takes alone; None where nothing failed."""
    trials: Mapping[str, Sequence[RetrievalTrial]]

    def score(self, name: str, spans: Spans, counting: Counting) -> ModelScore:
        """Score one model by a schedule."""
        pairs = [pair for pair in zip(self.frames, spans, strict=True) if pair[0].model == name]
        frames, its = [frame for frame, _ in pairs], [span for _, span in pairs]
        return score_model(frames, its, counting, self.energies_j.get(name))

    def score_all(self, counting: Counting) -> float:
        """Score the whole, from 0 to 100."""
        return score_usage(self.score(name, self.spans, counting) for name in self.usage.models)

    @property
    def share_met(self) -> float:
        """The share of all frames that met their deadline."""
        pairs = zip(self.frames, self.spans, strict=True)
        num_met = sum(span is not None and span.end_s <= frame.deadline_s for frame, span in pairs)
        return num_met / len(self.frames) if self.frames else 1.0

    @property
    def offered_load(self) -> float:
        """The time that all frames take, over that of all workers."""
        counts = [(name, sum(frame.model == name for frame in self.frames)) for name in self.usage.models]
        work_s = sum(float(np.mean(self.times_s[name])) * count for name, count in counts)
        return work_s * self.usage.factor / self.usage.duration_s / self.usage.workers


def measure_usage(
    crew: Crew,
    text: str,
    usage: Usage,
    served: Mapping[str, Any],
    seeds: Seeds,
    share: Share,
    *,
    axis: str | None = None,
    is_simulated: bool,
) -> MeasuredUsage:
    """Time frames of all models on all workers at once, then schedule those of the usage on the virtual clock, and,
    unless `is_simulated`, on the real one."""
    count, seed = usage.workers, seeds.arrivals
    crew.ask([partial(build_models, usage=usage, served=served, seed=seeds.base)] * count)
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
            is_varied = axis == f"{name}.num_subgraphs"  # then the axis is the curve
            numbers = (model.subgraphs,) if is_varied else model.curve()
            ask = partial(try_retrieval, model=model, seed=seeds.base, numbers=numbers)
            shares = [(share.number * count + worker, share.of * count) for worker in range(count)]
            trials[name] = [*chain(*crew.ask([partial(ask, share=each) for each in shares]))]
    highest, failed = find_highest_factor(usage, seed, service_s)
    of_failed = (
        float(seconds)
        for frame, seconds in zip(frames, service_s, strict=True)
        if failed is not None and (frame.model, frame.number) == (failed.model, failed.number)
    )
    return MeasuredUsage(
        text=text, usage=usage, seed=seed, frames=frames, spans=spans, simulated=simulated, times_s=times_s,
        trials=trials, energies_j=energies_j, energy_gap=energy_gap, highest_factor=highest, failed=failed,
        failed_service_s=next(of_failed, None),
    )  # fmt: skip

"""Measure a usage (several models that one application requests) once: the schedule of requests, the highest request
rates, and the candidates of retrievals.

A usage is measured several times, and each time counts as one process of the measurement. Such a process consists of
several worker processes, which are started for it and end with it.
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
    ModelRequest,
    SimulatedClock,
    Spans,
    draw_requests,
    draw_service,
    find_highest_factor,
    run_schedule,
)
from harness.extensions.usage.score import Counting, ModelScore, score_model, score_usage
from harness.system.energy import EnergyMeter


class Share(NamedTuple):
    """Number of this process, from 0, and number of all processes. The graph nodes of a retrieval are divided among
    them."""

    number: int
    of: int


class UsageSeeds(NamedTuple):
    """Seeds of a process: the base seed of weights, graphs and nodes, equal in all processes, and the process's own
    seed of arrivals."""

    base: int
    arrivals: int


@dataclass(frozen=True, kw_only=True, slots=True)
class MeasuredUsage:
    """Measurements of one usage (several models that one application requests) in one process; `text` is the value of
    the varied key, empty where no key is varied."""

    text: str
    usage: Usage
    seed: int
    """Random seed of the arrivals of requests."""
    requests: Sequence[ModelRequest]
    spans: Spans
    """Worker, begin and end of each request, by the clock that the study uses: real time or simulated time."""
    simulated: Spans
    times_s: Mapping[str, Sequence[float]]
    energies_j: Mapping[str, float]
    """Energy of a request in joules, by model; only of models whose energy was measured."""
    energy_gap: str
    highest_factor: float
    failed: ModelRequest | None
    """First request that fails when the request rate is raised above `highest_factor`; None where no request
    fails."""
    failed_service_s: float | None
    """Seconds that the request `failed` takes without waiting; None where no request fails."""
    trials: Mapping[str, Sequence[RetrievalTrial]]

    def score(self, name: str, spans: Spans, counting: Counting) -> ModelScore:
        """Compute XRBench's score of one model from a schedule; `spans` has the worker, begin and end of each
        request, None where it was dropped."""
        pairs = [pair for pair in zip(self.requests, spans, strict=True) if pair[0].model == name]
        requests, its = [request for request, _ in pairs], [span for _, span in pairs]
        return score_model(requests, its, counting, self.energies_j.get(name))

    def score_all(self, counting: Counting) -> float:
        """Compute XRBench's score of all models of the usage file together, from 0 to 100."""
        return score_usage(self.score(name, self.spans, counting) for name in self.usage.models)

    @property
    def share_met(self) -> float:
        """Share of all requests of a usage (the models of one application) that were done by their deadlines."""
        pairs = zip(self.requests, self.spans, strict=True)
        num_met = sum(span is not None and span.end_s <= request.deadline_s for request, span in pairs)
        return num_met / len(self.requests) if self.requests else 1.0

    @property
    def offered_load(self) -> float:
        """Offered load: the service time of all requests over the time that all workers have."""
        counts = [(name, sum(request.model == name for request in self.requests)) for name in self.usage.models]
        work_s = sum(float(np.mean(self.times_s[name])) * count for name, count in counts)
        return work_s * self.usage.factor / self.usage.duration_s / self.usage.workers


def measure_usage(
    crew: Crew,
    text: str,
    usage: Usage,
    served: Mapping[str, Any],
    seeds: UsageSeeds,
    share: Share,
    *,
    axis: str | None = None,
    is_simulated: bool,
) -> MeasuredUsage:
    """Time requests of all models of a usage (the models of one application) on all workers at once, then schedule
    its requests in simulated time and, unless `is_simulated`, in real time."""
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
    times_s = crew.time_requests([*usage.models], seed)
    requests = draw_requests(usage, seed)
    service_s = draw_service(requests, times_s, seed)
    simulated = run_schedule(requests, count, SimulatedClock(service_s))
    spans = simulated if is_simulated else run_schedule(requests, count, RealClock(crew, requests))
    trials: dict[str, list[RetrievalTrial]] = {}
    for name, model in usage.models.items():
        if model.source == RETRIEVAL:
            is_varied = axis == f"{name}.num_subgraphs"  # then its values make the curve
            numbers = (model.subgraphs,) if is_varied else model.curve()
            ask = partial(try_retrieval, model=model, seed=seeds.base, numbers=numbers)
            shares = [(share.number * count + worker, share.of * count) for worker in range(count)]
            trials[name] = [*chain(*crew.ask([partial(ask, share=each) for each in shares]))]
    highest, failed = find_highest_factor(usage, seed, service_s)
    of_failed = (
        float(seconds)
        for request, seconds in zip(requests, service_s, strict=True)
        if failed is not None and (request.model, request.number) == (failed.model, failed.number)
    )
    return MeasuredUsage(
        text=text, usage=usage, seed=seed, requests=requests, spans=spans, simulated=simulated, times_s=times_s,
        trials=trials, energies_j=energies_j, energy_gap=energy_gap, highest_factor=highest, failed=failed,
        failed_service_s=next(of_failed, None),
    )  # fmt: skip

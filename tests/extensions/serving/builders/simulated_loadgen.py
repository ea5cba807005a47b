"""A simulated system under a simulated LoadGen: whole searches of `Bench`, without a thread or a clock.

The simulated LoadGen has LoadGen's arrivals and its rule. Each run draws service times of its own, and what is timed
beforehand is a few hundred of them: the bench knows no more of the system than it would of a real one.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.extensions.serving import bench
from harness.extensions.serving.bench import Bench, ProcessMeasurements
from harness.extensions.serving.bound import Limit
from harness.extensions.serving.config import parse_serve
from harness.extensions.serving.loadgen import LoadGenVerdict, ScheduledRun, Seeds
from harness.extensions.serving.rule import most_late
from harness.extensions.serving.schedule import QueueModel, draw_arrivals
from harness.extensions.serving.timing import TimedSize
from harness.foundation.queue_simulation import ServiceTimes, Traffic, Workers, percentile_of, simulate
from reference_models.process.world import SingleProcess

NUM_TIMED = 400
"""Calls that are timed before a search."""
CV = 0.95
_SIGMA = math.sqrt(math.log1p(CV**2))
SERVICES: dict[str, Callable[[np.random.Generator, int], Any]] = {
    "constant": lambda random, number: np.ones(number),
    "exponential": lambda random, number: random.exponential(size=number),
    "lognormal": lambda random, number: random.lognormal(-(_SIGMA**2) / 2, _SIGMA, number),
}
"""Factors of mean 1 of so many service times."""


@dataclass(kw_only=True)
class SimulatedSystem:
    """One worker whose calls take `service_s`, times a factor."""

    kind: str
    service_s: float
    limit_s: float
    random: np.random.Generator
    percentile: float = 95.0
    asked: list[tuple[float, bool]] = field(default_factory=list)
    """Every rate that the search asked, and LoadGen's verdict."""

    def draw(self, number: int) -> Any:
        return SERVICES[self.kind](self.random, number)

    def judge(
        self, answer: object, sizes: Sequence[int], workers: Workers, trial: ScheduledRun, folder: Path
    ) -> LoadGenVerdict:
        """Stand in for LoadGen: the same arrivals, the same rule."""
        number = max(trial.min_queries, math.ceil(trial.rate * trial.min_duration_s))
        arrivals_s = draw_arrivals(trial.seeds.schedule, number)
        service = ServiceTimes(by_items_s=np.full(2, self.service_s), factors=np.ones(1))
        asked = Traffic(arrivals_s=arrivals_s, items=np.ones(number, dtype=np.int64), factors=self.draw(number))
        latencies_s = simulate(asked, trial.rate, service, workers)
        num_late = int((latencies_s > trial.limit_s).sum())
        allowed = most_late(number, trial.share)
        is_valid = allowed is not None and num_late <= allowed
        if not str(folder).endswith("_loaded"):
            self.asked.append((trial.rate, is_valid))
        duration_s = float((arrivals_s / trial.rate + latencies_s).max())
        return LoadGenVerdict(
            is_valid=is_valid,
            reason=None if is_valid else "too many queries were late",
            num_queries=number,
            num_late=num_late,
            duration_s=duration_s,
            completed_per_s=number / duration_s,
            mean_s=float(latencies_s.mean()),
            latencies_s={f"{self.percentile:.2f}": percentile_of(latencies_s, trial.share)},
            issued_s=tuple((arrivals_s / trial.rate).tolist()),
        )

    def time_calls(self, answer: object, calls: Sequence[Any], *more: object) -> list[TimedSize]:
        """Stand in for the timing of calls."""
        return [
            TimedSize(items=1, num_queries=1, seconds=tuple((self.service_s * self.draw(NUM_TIMED)).tolist()))
            for _ in calls
        ]

    def search(self, seeds: Seeds, folder: Path, **asked: Any) -> ProcessMeasurements:
        """Measure as one process of `serve` does; LoadGen and the timing are of this system."""
        serve = parse_serve(
            {"target_latency_ms": self.limit_s * 1e3, "percentile": self.percentile, "queries": "fixed:1", **asked}
        )
        made = Bench(
            answer=lambda parts: None,
            sizes=(1,),
            serve=serve,
            seed=int(self.random.integers(2**31)),
            seeds=seeds,
            folder=folder,
            on_event=lambda event: None,
        )
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(bench, "judge", self.judge)
            patch.setattr(bench, "time_calls", self.time_calls)
            found = made.measure(SingleProcess(), "run", 0.0)
        assert found is not None
        return found


def half_valid(system: SimulatedSystem, num_queries: int, near: float, num_runs: int, seed: int) -> float:
    """The truth that a spread is of: the rate at which half of all runs of so many queries are VALID.

    The median over runs of the rate up to which each is VALID, whose arrivals and service times are its own.
    """
    random = np.random.default_rng(seed)
    service = ServiceTimes(by_items_s=np.full(2, system.service_s), factors=np.ones(1))
    limit = Limit(seconds=system.limit_s, share=system.percentile / 100)
    bounds = []
    for _ in range(num_runs):
        arrivals_s = draw_arrivals(int(random.integers(2**62)), num_queries)
        factors = SERVICES[system.kind](random, num_queries)
        run = Traffic(arrivals_s=arrivals_s, items=np.ones(num_queries, dtype=np.int64), factors=factors)
        model = QueueModel(traffic=run, service=service, workers=Workers(), limit=limit)
        bounds.append(model.bound_of([run], near) or 0.0)
    return float(np.median(bounds))

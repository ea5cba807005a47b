"""Reproduce LoadGen's arrivals, and simulate two rates: the highest rate that LoadGen's rule calls VALID for these
arrivals, and the highest rate in steady state.

MLPerf publishes LoadGen's seeds, so nobody can choose the arrivals. Two effects make the VALID rate of a short run
differ from the rate in steady state. The random arrivals of the run move it by several percent. LoadGen's rule lowers
it, since the rule allows a smaller share of late queries the shorter a run is. The simulation includes both effects:
it applies LoadGen's rule to LoadGen's arrivals.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from harness.extensions.serving.bound import Limit, bisect_rate
from harness.extensions.serving.rule import MOST_QUERIES, fewest_queries, most_late
from harness.foundation.queue_simulation import ServiceTimes, Times, Traffic, Workers, simulate

LOW = 0.015
"""Fraction by which LoadGen's rule of early stopping may keep the highest VALID rate below the steady-state rate. It
decides how long runs are, since the rule is stricter for short runs."""
MIN_QUERIES = {50.0: 100, 90.0: 100, 95.0: 200, 97.0: 340, 99.0: 1000, 99.9: 10_000}
"""Dict from percentile to the minimum number of queries in a run that LoadGen's early stopping judges. In a run of
this length a few queries may be late."""
CHANCE = 0.02
"""Standard deviation by which chance may move the highest VALID rate, as a fraction of the rate; runs are made so
long that chance moves it no further."""
SHORTEST_S = 2.0
"""Minimum seconds of a run of LoadGen at the simulated highest VALID rate. Runs at higher rates have as many queries
and are shorter, and must still be long enough to measure."""
_BLOCK = 2000
"""Number of consecutive simulated queries in a block. Blocks differ in their numbers of late queries, which shows how
uncertain the highest VALID rate is."""
_NUM_DRAWS = 8
"""Number of random draws of items and service times over which the number of late queries is averaged."""
_MOST_DRAWN = 400_000
"""Maximum number of queries of all draws together; for long runs it reduces the number of draws."""
_STEP, _MOST_STEPS = 1.05, 80


def draw_arrivals(seed: int, num_queries: int) -> Times:
    """Return the arrival times in seconds of queries at a mean rate of one query per second, drawn exactly as LoadGen
    draws them. The first query arrives at 0.

    LoadGen uses std::exponential_distribution with std::mt19937. An interval is -log(1 - u), where u is a uniform
    number made of two words of the generator, the low word first.
    """
    words = np.random.RandomState(seed % 2**32).randint(0, 2**32, (num_queries - 1, 2), dtype=np.uint32)
    uniform = (words[:, 0] + words[:, 1] * 2.0**32) / 2.0**64
    return np.concatenate(([0.0], np.cumsum(-np.log(1 - uniform))))


@dataclass(frozen=True, kw_only=True, slots=True)
class QueueModel:
    """A simulated queue of queries to a served model, with its latency limit."""

    traffic: Traffic
    service: ServiceTimes
    workers: Workers
    limit: Limit

    def late(self, rate: float) -> NDArray[np.bool_]:
        """Return for each simulated query whether its latency exceeds the limit at `rate` queries per second."""
        return simulate(self.traffic, rate, self.service, self.workers) > self.limit.seconds

    def count_queries(self, bound: float, run_s: float, least: int) -> int:
        """Return the number of queries that a run of LoadGen needs for two aims. The rule of early stopping, stricter
        for short runs, should keep the VALID rate at most the fraction `LOW` below the steady-state rate `bound`.
        Chance should move the VALID rate by at most `CHANCE`.

        The number is limited to the queries that arrive in `run_s` seconds. It is nevertheless never below any of
        three minima: `least`, the queries that arrive in `SHORTEST_S` seconds (or in `run_s`, if that is shorter),
        and the length at which a run at a quarter of `bound` is VALID.
        """
        below = self.late(bound * (1 - LOW))
        by_rule = fewest_queries(float(below.mean()), self.limit.share)
        late = self.late(bound)
        slope = (float(late.mean()) - float(below.mean())) / LOW
        blocks = late[: len(late) // _BLOCK * _BLOCK].reshape(-1, _BLOCK).mean(1)
        by_chance = _BLOCK * (float(blocks.std()) / max(slope, 1e-9) / CHANCE) ** 2
        usual = min(MOST_QUERIES, max(by_rule, math.ceil(by_chance)))
        fewest = fewest_queries(float(self.late(bound / 4).mean()), self.limit.share, margin=2.0)
        return max(least, fewest, round(bound * min(run_s, SHORTEST_S)), min(usual, round(bound * run_s)))

    def loadgen_bound(self, seed: int, num_queries: int, bound: float) -> float | None:
        """Return the highest rate at which a simulated run of `num_queries` queries is VALID by LoadGen's rule;
        `seed` is the seed of its arrivals. None if no rate is VALID.

        The search begins at `bound`, the highest rate within the limit in steady state.
        """
        num_draws = max(1, min(_NUM_DRAWS, _MOST_DRAWN // num_queries))
        return self.bound_of(self.draw_runs(seed, num_queries, num_draws), bound)

    def draw_runs(self, seed: int, num_queries: int, num_draws: int) -> list[Traffic]:
        """Draw simulated runs with the arrivals of LoadGen's `seed`, with other items and service times in each."""
        arrivals_s, number = draw_arrivals(seed, num_queries), len(self.traffic.items)
        places = [(np.arange(num_queries) + draw * num_queries) % number for draw in range(num_draws)]
        return [
            Traffic(
                arrivals_s=arrivals_s,
                items=np.take(self.traffic.items, of_draw),
                factors=np.take(self.traffic.factors, of_draw),
            )
            for of_draw in places
        ]

    def count_late(self, run: Traffic, rate: float) -> int:
        """Return the number of queries of a simulated run whose latency exceeds the limit at `rate` queries per
        second."""
        return int((simulate(run, rate, self.service, self.workers) > self.limit.seconds).sum())

    def bound_of(self, runs: Sequence[Traffic], near: float) -> float | None:
        """Return the highest rate at which `runs` have no more late queries than LoadGen's rule allows, on average.

        None where no rate is VALID. The search begins at `near`.
        """
        allowed = most_late(len(runs[0].items), self.limit.share)
        if allowed is None:
            return None

        def is_valid(rate: float) -> bool:
            return sum(self.count_late(run, rate) for run in runs) <= allowed * len(runs)

        is_above, rate = is_valid(near), near
        for _ in range(_MOST_STEPS):
            following = rate * _STEP if is_above else rate / _STEP
            if is_valid(following) != is_above:
                break
            rate = following
        else:
            return rate if is_above else None
        return bisect_rate(min(rate, following), max(rate, following), is_valid)

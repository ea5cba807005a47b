"""LoadGen's arrivals, drawn before it draws them, and how far from the long run its verdict on them is.

The seeds are LoadGen's own, published ones: nobody chooses among arrivals. In a short run they move the bound by
several percent, and LoadGen's rule, which allows fewer late queries the shorter a run is, makes it lower still. What
both do is known: the virtual clock judges the same arrivals by the same rule, and knows the long run besides.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from harness.extensions.serving.bound import Limit, bisect_rate
from harness.extensions.serving.rule import MOST_QUERIES, fewest_queries, most_late
from harness.foundation.virtual_clock import ServiceTimes, Times, Traffic, Workers, simulate

LOW = 0.015
"""By which LoadGen's rule alone may make the bound low in a run that is as long as it should be."""
MIN_QUERIES = {50.0: 100, 90.0: 100, 95.0: 200, 97.0: 340, 99.0: 1000, 99.9: 10_000}
"""By percentile, so that LoadGen can be sure: of ln .01 / ln p of them (44, 90, 152, 459, 4603) none may be late, of
more some."""
CHANCE = 0.02
"""Standard deviation by which chance may move the bound in such a run."""
SHORTEST_S = 2.0
"""Seconds of a run at the bound, so that one at a much higher rate does not end before LoadGen can measure it."""
_BLOCK = 2000
"""Queries in a row whose late ones are counted together, to see how much chance there is."""
_NUM_DRAWS, _MOST_DRAWN = 8, 400_000
"""Draws of items and service times over which late queries are averaged: those of LoadGen's runs are others. Fewer
where runs are so long that they are queries enough."""
_STEP, _MOST_STEPS = 1.05, 80


def draw_arrivals(seed: int, num_queries: int) -> Times:
    """Draw when queries are issued at a rate of one a second, as LoadGen does: the first at once.

    LoadGen takes std::exponential_distribution of std::mt19937: minus the logarithm of one minus a uniform number of
    two of its words, low before high.
    """
    words = np.random.RandomState(seed % 2**32).randint(0, 2**32, (num_queries - 1, 2), dtype=np.uint32)
    uniform = (words[:, 0] + words[:, 1] * 2.0**32) / 2.0**64
    return np.concatenate(([0.0], np.cumsum(-np.log(1 - uniform))))


@dataclass(frozen=True, kw_only=True, slots=True)
class QueueModel:
    """A queue on the virtual clock, with the limit by which it is judged."""

    traffic: Traffic
    service: ServiceTimes
    workers: Workers
    limit: Limit

    def late(self, rate: float) -> NDArray[np.bool_]:
        """Return which queries are late at `rate`, of many in a row."""
        return simulate(self.traffic, rate, self.service, self.workers) > self.limit.seconds

    def count_queries(self, bound: float, run_s: float, least: int) -> int:
        """Return the queries of a run of which LoadGen's rule lowers `bound`, that of the long run, by `LOW`, and
        chance moves it by `CHANCE`.

        No more than come in `run_s`, but at least `least`, those of `SHORTEST_S`, and so many that a run at a quarter
        of the bound is VALID.
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
        """Return the highest rate at which LoadGen's rule calls a run of so many queries of that seed VALID.

        None where it calls none VALID. `bound` is that of the long run, from which the search begins.
        """
        num_draws = max(1, min(_NUM_DRAWS, _MOST_DRAWN // num_queries))
        return self.bound_of(self.draw_runs(seed, num_queries, num_draws), bound)

    def draw_runs(self, seed: int, num_queries: int, num_draws: int) -> list[Traffic]:
        """Draw what LoadGen's runs of that seed may be asked: its arrivals, other items and factors in each."""
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
        """Return how many queries of a run are late at `rate`."""
        return int((simulate(run, rate, self.service, self.workers) > self.limit.seconds).sum())

    def bound_of(self, runs: Sequence[Traffic], near: float) -> float | None:
        """Return the highest rate at which `runs` have no more late queries than LoadGen's rule allows, on average.

        None where it calls none VALID. The search begins at `near`.
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

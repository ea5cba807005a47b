"""LoadGen's arrivals, drawn before it draws them, and which of several such schedules is an ordinary one.

In a short run at a rate near the bound, chance in the arrivals moves the bound by several percent. So many schedules
are drawn; of those whose queries come at the rate that is asked, LoadGen is given the seed of that one of which the
virtual clock says that about as many queries are late as on average over all that could be drawn.
"""

import numpy as np

from harness.measure.serving.bound import Limit
from harness.measure.serving.queue import ServiceTimes, Times, Traffic, Workers, simulate
from harness.measure.serving.rule import most_late

NUM_DRAWN, NUM_TRIED = 256, 16
"""Schedules that are drawn, and those of them, the nearest to the rate, that are tried on the virtual clock."""
_STRIDE = 1000
"""Between the seeds of two schedules, more than a run of LoadGen has seeds."""


def draw_arrivals(seed: int, num_queries: int) -> Times:
    """Draw when queries are issued at a rate of one a second, as LoadGen does: the first at once.

    LoadGen takes std::exponential_distribution of std::mt19937: minus the logarithm of one minus a uniform number of
    two of its words, low before high.
    """
    words = np.random.RandomState(seed % 2**32).randint(0, 2**32, (num_queries - 1, 2), dtype=np.uint32)
    uniform = (words[:, 0] + words[:, 1] * 2.0**32) / 2.0**64
    return np.concatenate(([0.0], np.cumsum(-np.log(1 - uniform))))


def choose_schedule(
    seed: int, num_queries: int, rate: float, traffic: Traffic, service: ServiceTimes, workers: Workers, limit: Limit
) -> int:
    """Choose the seed of a schedule of which as many queries are late at `rate`, the modelled bound, as may be."""
    drawn = {
        seed + number * _STRIDE: draw_arrivals(seed + number * _STRIDE, num_queries) for number in range(NUM_DRAWN)
    }
    near = sorted(drawn, key=lambda candidate: abs(drawn[candidate][-1] - num_queries))[:NUM_TRIED]
    allowed = most_late(num_queries, limit.share) or 0
    items, factors = np.resize(traffic.items, num_queries), np.resize(traffic.factors, num_queries)

    def misses(candidate: int) -> int:
        asked = Traffic(arrivals_s=drawn[candidate], items=items, factors=factors)
        return abs(int((simulate(asked, rate, service, workers) > limit.seconds).sum()) - allowed)

    return min(near, key=misses)

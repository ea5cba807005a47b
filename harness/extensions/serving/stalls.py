"""Find stalls: times in which a service stood still for another reason than its calls of the model.

A stall of 300 ms at 700 queries/s makes hundreds of queries late. A run of a few seconds may not have so many late
queries, so a stall decides its verdict. Two signs show a stall: a call takes far longer than calls that were timed
before the run, or LoadGen issues queries far later than planned.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from harness.extensions.serving.bound import Limit
from harness.extensions.serving.rule import most_late
from harness.extensions.serving.timing import TimedSize
from harness.foundation.queue_simulation import ServiceTimes

_OF_LIMIT = 0.5
"""Least length of a stall of the service, as a multiple of the latency limit."""
_OF_CALL = 3.0
"""Least length of a stall of the service, as a multiple of the p99 of the slowest calls. The larger of the two lower
bounds counts."""
_WEIGHT = 0.1
"""Smallest number of queries arriving during stalls at which the stalls count as a possible reason of LoadGen's
verdict, as a share of the number of late queries that LoadGen allows."""
Call = tuple[int, float]
"""Number of items of a call of the model, and the seconds that the call took."""


@dataclass(frozen=True, slots=True)
class Stalls:
    """Stalls of the service (times in which it stood still) in one run, in seconds: the longest, and all together; 0
    if none."""

    longest_s: float = 0.0
    total_s: float = 0.0

    def may_decide(self, rate: float, num_queries: int, share: float) -> bool:
        """Return whether stalls may decide LoadGen's verdict. They may if, at `rate`, enough queries arrive during
        stalls, compared with the number of late queries that LoadGen's rule allows."""
        allowed = max(1, most_late(num_queries, share) or 0)
        return rate * self.total_s >= _WEIGHT * allowed

    def beside(self, other: "Stalls") -> "Stalls":
        """Return the stalls of two processes together: the longer of the two longest, and the sum of the totals."""
        return Stalls(max(self.longest_s, other.longest_s), self.total_s + other.total_s)


def find_stalls(
    calls: Iterable[Call], delays_s: Iterable[float], timed: Sequence[TimedSize], service: ServiceTimes, limit: Limit
) -> Stalls:
    """Find the stalls of a run of LoadGen. Two sources are searched: the times of calls of the model, and the delays
    with which LoadGen issued queries.

    Most stalls show in both sources and must not be counted twice. Only the stalls from one source are returned, the
    one in which stalls take more time in total.
    """
    usual_s = max(float(np.percentile(size.seconds, 99)) for size in timed)
    least_s = max(_OF_LIMIT * limit.seconds, _OF_CALL * usual_s)
    most = len(service.by_items_s) - 1
    beyond = [took_s - float(service.by_items_s[min(items, most)]) for items, took_s in calls]
    in_calls = [seconds for seconds in beyond if seconds > least_s]
    # All queries of a stall are issued late, the first one the most: only the first delay is counted.
    in_issues = [after_s for before_s, after_s in pairwise((0.0, *delays_s)) if after_s > least_s >= before_s]
    return max((Stalls(max(each, default=0.0), sum(each)) for each in (in_calls, in_issues)), key=_total_s)


def _total_s(stalls: Stalls) -> float:
    return stalls.total_s

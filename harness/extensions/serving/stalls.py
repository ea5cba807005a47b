"""Stalls: times in which a service stood still, for reasons that are not its calls.

A stall of 300 ms at 700 queries/s makes hundreds of queries late, more than a run of some seconds may have: its
verdict is then that of the stall. What a call takes is known beforehand, and when LoadGen should issue a query is,
too; what goes far beyond is counted.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from harness.extensions.serving.bound import Limit
from harness.extensions.serving.rule import most_late
from harness.extensions.serving.timing import TimedSize
from harness.foundation.virtual_clock import ServiceTimes

_OF_LIMIT, _OF_CALL = 0.5, 3.0
"""A stall is longer than this share of the limit, and than so many of the longest usual calls (their p99)."""
_WEIGHT = 0.1
"""Queries that arrive in stalls, as a share of those that may be late, from which on they may decide."""
Call = tuple[int, float]
"""Items of a call, and the seconds that it took."""


@dataclass(frozen=True, slots=True)
class Stalls:
    """What held up one run; the zero of it where nothing did."""

    longest_s: float = 0.0
    total_s: float = 0.0

    def may_decide(self, rate: float, num_queries: int, share: float) -> bool:
        """Whether queries that arrive meanwhile, at `rate`, weigh against the late ones that the rule allows."""
        allowed = max(1, most_late(num_queries, share) or 0)
        return rate * self.total_s >= _WEIGHT * allowed

    def beside(self, other: "Stalls") -> "Stalls":
        """Return what held up either of two processes."""
        return Stalls(max(self.longest_s, other.longest_s), self.total_s + other.total_s)


def find_stalls(
    calls: Iterable[Call], delays_s: Iterable[float], timed: Sequence[TimedSize], service: ServiceTimes, limit: Limit
) -> Stalls:
    """Find stalls among the calls of a run, and where queries were issued so much later than they should have been.

    Both see most stalls: the greater total counts.
    """
    usual_s = max(float(np.percentile(size.seconds, 99)) for size in timed)
    least_s = max(_OF_LIMIT * limit.seconds, _OF_CALL * usual_s)
    most = len(service.by_items_s) - 1
    beyond = [took_s - float(service.by_items_s[min(items, most)]) for items, took_s in calls]
    in_calls = [seconds for seconds in beyond if seconds > least_s]
    # All that should have been issued during a stall is late, the first of it the most.
    in_issues = [after_s for before_s, after_s in pairwise((0.0, *delays_s)) if after_s > least_s >= before_s]
    return max((Stalls(max(each, default=0.0), sum(each)) for each in (in_calls, in_issues)), key=_total_s)


def _total_s(stalls: Stalls) -> float:
    return stalls.total_s

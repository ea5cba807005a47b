"""LoadGen's rule for a server: how many of so many queries may be late, so that the run is VALID.

Two things must hold of n queries at share p (mlcommons/inference, loadgen: results.cc, early_stopping.cc): the order
statistic at n * p is within the limit; and a system of which only a share p is ever within it would be late as seldom
as that with a probability below 1 %. The second is the stricter one, and fewer late queries are allowed the shorter
a run is: of 200 queries at p95 there may be three, of 10,000 there may be 449.
"""

import math

import numpy as np

CHANCE = 1 - 0.99
"""With which LoadGen may call a system VALID whose share is only just p."""


def most_late(num_queries: int, share: float) -> int | None:
    """Return how many of `num_queries` may be beyond the limit at most; None where even none is too many."""
    late = np.arange(1, max(2, math.ceil(num_queries * (1 - share)) + 1), dtype=np.float64)
    ratios = np.log((num_queries - late + 1) / late) + math.log((1 - share) / share)
    terms = num_queries * math.log(share) + np.concatenate(([0.0], np.cumsum(ratios)))
    # The chance of so many late queries or fewer, of independent ones of which 1 - share is late.
    allowed = int(np.searchsorted(np.cumsum(np.exp(terms)), CHANCE))
    return allowed - 1 if allowed else None


def passing_share(num_queries: int, share: float) -> float | None:
    """Return the share of `num_queries` that must be within the limit, above `share`; None where no share does."""
    late = most_late(num_queries, share)
    return None if late is None else 1 - late / num_queries

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
MOST_QUERIES = 270_336
"""No run is longer: as many queries as MLPerf Inference asks of a server at p99."""


def most_late(num_queries: int, share: float) -> int | None:
    """Return how many of `num_queries` may be beyond the limit at most; None where even none is too many."""
    late = np.arange(1, max(2, math.ceil(num_queries * (1 - share)) + 1), dtype=np.float64)
    ratios = np.log((num_queries - late + 1) / late) + math.log((1 - share) / share)
    terms = num_queries * math.log(share) + np.concatenate(([0.0], np.cumsum(ratios)))
    # The chance of so many late queries or fewer, of independent ones of which 1 - share is late.
    allowed = int(np.searchsorted(np.cumsum(np.exp(terms)), CHANCE))
    return allowed - 1 if allowed else None


def fewest_queries(late_share: float, share: float, margin: float = 0.0) -> int:
    """Return the queries of the shortest run that is VALID where `late_share` of them are late, to a tenth.

    With a margin, so many standard deviations more of them. `MOST_QUERIES` where no shorter run is.
    """
    num_queries = 40
    while num_queries < MOST_QUERIES:
        late = most_late(num_queries, share)
        mean = late_share * num_queries
        if late is not None and late >= mean + margin * math.sqrt(mean):
            return num_queries
        num_queries = math.ceil(num_queries * 1.1)
    return MOST_QUERIES

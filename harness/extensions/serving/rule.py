"""Compute LoadGen's rule for a server: the number of late queries that a VALID run may have.

A run of n queries at share p must meet two conditions (mlcommons/inference, loadgen: results.cc, early_stopping.cc).
First, the order statistic at n * p is within the limit. Second, late queries are so few that luck does not explain
them: if exactly a share p of all queries were answered in time, a run would have as few with a probability below 1 %.
The second condition is the stricter one: the shorter a run is, the smaller the share of late queries that it may
have. At p95, 3 of 200 queries may be late, and 449 of 10,000.
"""

import math

import numpy as np

CHANCE = 1 - 0.99
"""Probability with which LoadGen calls a run VALID though the system answers exactly the required share of queries in
time."""
MOST_QUERIES = 270_336
"""Maximum number of queries of a run of LoadGen: as many as MLPerf Inference demands of a server at p99."""


def most_late(num_queries: int, share: float) -> int | None:
    """Return the maximum number of late queries in a run of `num_queries` queries that LoadGen calls VALID; None
    where a run of so few queries is never VALID."""
    late = np.arange(1, max(2, math.ceil(num_queries * (1 - share)) + 1), dtype=np.float64)
    ratios = np.log((num_queries - late + 1) / late) + math.log((1 - share) / share)
    terms = num_queries * math.log(share) + np.concatenate(([0.0], np.cumsum(ratios)))
    # Probability of at most that many late queries, where each is late independently with probability 1 - share.
    allowed = int(np.searchsorted(np.cumsum(np.exp(terms)), CHANCE))
    return allowed - 1 if allowed else None


def fewest_queries(late_share: float, share: float, margin: float = 0.0) -> int:
    """Return the number of queries, to within 10 %, in the shortest run that LoadGen calls VALID if a fraction
    `late_share` of all queries is late.

    With `margin`, the run must be VALID even if the number of late queries is `margin` standard deviations above its
    mean. Return `MOST_QUERIES` if no shorter run is VALID.
    """
    num_queries = 40
    while num_queries < MOST_QUERIES:
        late = most_late(num_queries, share)
        mean = late_share * num_queries
        if late is not None and late >= mean + margin * math.sqrt(mean):
            return num_queries
        num_queries = math.ceil(num_queries * 1.1)
    return MOST_QUERIES

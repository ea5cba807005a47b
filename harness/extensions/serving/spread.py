"""Simulate how far a search for the highest VALID rate may end from the true rate, because of its arrivals and
service times.

At the true rate, half of all runs of the same length would be VALID. A search misses it for two reasons: its seed
decides one sequence of arrivals, and it judges a rate by a few runs. Many whole searches are simulated, each with
another seed. They show by which factors searches miss the true rate. The ends of the measured search's bracket,
divided by these factors, are an interval for the true rate. The interval holds for the system as it was timed;
slowness at other times is not included.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from harness.extensions.serving.rule import most_late
from harness.extensions.serving.schedule import QueueModel, draw_arrivals
from harness.extensions.serving.search import Bracket, RateAttempt, bracket_of, search_highest
from harness.foundation.queue_simulation import Traffic

CONFIDENCE = 0.95
NUM_SEARCHES = (199, 79, 39)
"""Possible numbers of simulated searches; the largest for which there is time is used. Each number plus one is a
multiple of 40, so 2.5 % of the results lie below the interval's lower end without interpolation."""
_RUNS_OF_A_SEARCH = 20
_FAST_PER_S = 2e7
"""Number of queries simulated in a second of computing for a single worker that does not merge queries."""
_SLOW_PER_S = 5e5
"""Number of queries simulated in a second of computing for several workers, or for one that merges queries."""
_BUDGET_S = 5.0
"""Seconds of computing above which fewer searches are simulated."""
_MOST_S = 60.0
"""Seconds of computing above which no search is simulated, if even the smallest number of searches would take
longer."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchSpread:
    """Simulated spread of searches for the highest VALID rate: factors by which the ends of a search's bracket may
    differ from the true rate. At the true rate half of all runs are VALID."""

    low: float
    """2.5 % quantile of the lowest INVALID rate that a search finds, divided by the true rate."""
    high: float
    """97.5 % quantile of the highest VALID rate that a search finds, divided by the true rate."""

    def around(self, bracket: Bracket) -> tuple[float | None, float | None]:
        """Return the lower and upper rate between which the true rate lies with 95 % confidence; None for an end that
        the search left open."""
        low = None if bracket.low is None else bracket.low / self.high
        return low, None if bracket.high is None else bracket.high / self.low


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchCase:
    """Properties of a search for the highest VALID rate that all its simulations share."""

    num_queries: int
    """Number of queries of each run of the search."""
    near: float
    """Rate that is expected near the highest VALID one, in queries per second."""
    start_error: float
    """Error of the rate at which a search begins: the standard deviation of the logarithm of its ratio to the highest
    VALID rate."""
    may_go_on: Callable[[float, float, bool], bool]
    """Function that decides whether another run is made. Its arguments are the seconds of all runs so far, the
    seconds of the next run, and whether any rate was VALID so far."""
    num_copies: int = 1
    """Number of processes that serve at the same time, each with its own arrivals: the runs of all must be VALID."""


def simulate_spread(model: QueueModel, case: SearchCase, seed: int) -> SearchSpread | None:
    """Simulate searches for the highest VALID rate, as many as there is time for, each with arrivals of its own.
    Return the factors by which the searches miss the true rate (the rate at which half of all runs are VALID).

    None if runs are too long to simulate enough searches, or if many searches find no VALID rate.
    """
    is_fast = model.workers.count == 1 and model.workers.max_items is None
    of_search_s = _RUNS_OF_A_SEARCH * case.num_queries * case.num_copies / (_FAST_PER_S if is_fast else _SLOW_PER_S)
    number = next((each for each in NUM_SEARCHES if each * of_search_s <= _BUDGET_S), NUM_SEARCHES[-1])
    if number * of_search_s > _MOST_S or most_late(case.num_queries, model.limit.share) is None:
        return None
    random = np.random.default_rng((seed, 7))
    searches = [_SimulatedSearch(model, case, random) for _ in range(number)]
    truth = float(np.median([search.first_bound for search in searches]))
    lows, highs = [], []
    for search in searches:
        found = search.run()
        lows.append(found.low or 0.0)
        highs.append(found.high or np.inf)
    outside = round((number + 1) * (1 - CONFIDENCE) / 2)
    low, high = sorted(highs)[outside - 1] / truth, sorted(lows)[number - outside] / truth
    return SearchSpread(low=float(low), high=float(high)) if 0 < low < np.inf and high > 0 else None


class _SimulatedSearch:
    """One simulated search for the highest VALID rate, with arrivals and items of its own, and new service times in
    each run."""

    def __init__(self, model: QueueModel, case: SearchCase, random: np.random.Generator) -> None:
        self._model, self._case, self._random = model, case, random
        self._runs = [self._draw_run() for _ in range(case.num_copies)]
        self.first_bound = min(model.bound_of([run], case.near) or 0.0 for run in self._runs)
        """Highest rate at which a run with the search's arrivals is VALID; 0 where none is."""
        self._allowed = most_late(case.num_queries, model.limit.share) or 0

    def _places(self) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
        number = len(self._model.traffic.items)
        return (np.arange(self._case.num_queries) + self._random.integers(number)) % number

    def _draw_run(self) -> Traffic:
        places, traffic = self._places(), self._model.traffic
        arrivals_s = draw_arrivals(int(self._random.integers(2**62)), self._case.num_queries)
        return Traffic(
            arrivals_s=arrivals_s, items=np.take(traffic.items, places), factors=np.take(traffic.factors, places)
        )

    def _judge(self, rate: float) -> RateAttempt:
        factors = self._model.traffic.factors
        again = [replace(run, factors=np.take(factors, self._places())) for run in self._runs]
        return RateAttempt(
            rate=rate, is_valid=all(self._model.count_late(run, rate) <= self._allowed for run in again)
        )

    def run(self) -> Bracket:
        done: list[RateAttempt] = []
        start = (self.first_bound or self._case.near) * float(np.exp(self._random.normal() * self._case.start_error))

        def attempt(rate: float) -> RateAttempt:
            done.append(self._judge(rate))
            return done[-1]

        def may_go_on() -> bool:
            took_s = sum(self._case.num_queries / each.rate for each in done)
            run_s = self._case.num_queries / start
            return self._case.may_go_on(took_s, run_s, bracket_of(done).low is not None)

        return bracket_of(search_highest(attempt, start, least=start / 4, may_go_on=may_go_on))

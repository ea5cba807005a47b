"""How far from what it looks for one search may end, because of its arrivals and service times: simulated.

A search asks one row of arrivals, that of its seed, and calls a rate VALID by a few runs. Another row would have
given another rate. What both look for is the rate at which a run of so many queries is VALID in half of all cases,
whatever its arrivals, items and service times: the truth here. Whole searches on the virtual clock, each with a seed
of its own, say by which factors they miss it; the rates between which a search ended, over these factors, are the
spread. It holds the truth as far as the virtual clock knows the system: what is slower at other times is not in it.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from harness.extensions.serving.rule import most_late
from harness.extensions.serving.schedule import QueueModel, draw_arrivals
from harness.extensions.serving.search import Bracket, RateAttempt, bracket_of, search_highest
from harness.foundation.virtual_clock import Traffic

CONFIDENCE = 0.95
NUM_SEARCHES = (199, 79, 39)
"""Searches to simulate: of so many, the order statistics that leave 2.5 % outside at each side are whole numbers."""
_RUNS_OF_A_SEARCH = 20
_FAST_PER_S, _SLOW_PER_S, _BUDGET_S, _MOST_S = 2e7, 5e5, 5.0, 60.0
"""Queries a second that the virtual clock answers for one worker, and for several or merged ones; how long that may
take, as far as fewer searches help, and at most."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchSpread:
    """By which factors the ends of a search's bracket may miss the rate at which half of all runs are VALID."""

    low: float
    """The highest VALID rate is more than so many times the truth, in all but 2.5 % of searches."""
    high: float
    """The lowest INVALID one is less than so many times it, likewise."""

    def around(self, bracket: Bracket) -> tuple[float | None, float | None]:
        """Return between which rates the truth is; None of an end where the search left it open."""
        low = None if bracket.low is None else bracket.low / self.high
        return low, None if bracket.high is None else bracket.high / self.low


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchCase:
    """The properties of a search that one on the virtual clock is given, too."""

    num_queries: int
    """Queries of each run."""
    near: float
    """Queries a second near which the bound is."""
    start_error: float
    """Standard deviation of the logarithm by which its start may miss the bound of its own arrivals."""
    may_go_on: Callable[[float, float, bool], bool]
    """Whether a further run may be made, after so many seconds of runs, of so many seconds, with a VALID rate or not.
    """
    num_copies: int = 1
    """Processes that are asked beside each other, each with its own arrivals: all must be VALID."""


def simulate_spread(model: QueueModel, case: SearchCase, seed: int) -> SearchSpread | None:
    """Search as often as there is time for, each with arrivals of its own.

    None where runs are so long that too few searches could be simulated, or where many searches find no VALID rate.
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
    """One search on the virtual clock: arrivals and items of its own, service times of each run."""

    def __init__(self, model: QueueModel, case: SearchCase, random: np.random.Generator) -> None:
        self._model, self._case, self._random = model, case, random
        self._runs = [self._draw_run() for _ in range(case.num_copies)]
        self.first_bound = min(model.bound_of([run], case.near) or 0.0 for run in self._runs)
        """The rate up to which a first run is VALID; 0 where none is."""
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

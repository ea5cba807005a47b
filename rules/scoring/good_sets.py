"""Compute the chance of a false alarm of the convergence test: the chance that the test fails a good set, whose runs
are drawn from the reference runs themselves."""

import math
from collections import Counter, defaultdict
from fractions import Fraction
from functools import cache

DIGITS = 3
"""Decimal digits to which a run's epochs to converge are rounded before the convergence test, as in the official
tool."""
_DROPPED = 1
"""Number of runs that the official convergence test leaves out at each end; it does not depend on how many runs the
benchmark's score drops."""


@cache
def failing_share(epochs: tuple[float, ...], num_runs: int, least: float) -> float:
    """Return the share of possible result sets that the convergence test would fail. A possible set consists of
    `num_runs` runs (at least 3), drawn with replacement from the reference runs, whose epochs to converge are
    `epochs`.

    A set fails if its Olympic mean is below `least`. The share is exact: all possible sets are counted, and none is
    simulated.
    """
    # Distribution of the sum of the runs that count, by the number of runs placed so far in ascending order.
    chances: list[dict[int, Fraction]] = [{0: Fraction(1)}] + [{} for _ in range(num_runs)]
    for value, number in sorted(Counter(round(epoch * 10**DIGITS) for epoch in epochs).items()):
        following: list[dict[int, Fraction]] = [defaultdict(Fraction) for _ in chances]
        for placed, sums in enumerate(chances):
            for more in range(num_runs - placed + 1):
                weight = Fraction(number**more, len(epochs) ** more * math.factorial(more))
                counted = _num_counted(placed, placed + more, num_runs)
                for total, chance in sums.items():
                    following[placed + more][total + counted * value] += chance * weight
        chances = following
    most = least * (num_runs - 2 * _DROPPED) * 10**DIGITS
    failing = sum((chance for total, chance in chances[-1].items() if total < most), start=Fraction(0))
    return float(failing * math.factorial(num_runs))


def _num_counted(first: int, end: int, num_runs: int) -> int:
    """Return how many of the places from `first` to `end` - 1 count for the Olympic mean, in a set of `num_runs` runs
    ordered by epochs to converge."""
    return max(min(end, num_runs - _DROPPED) - max(first, _DROPPED), 0)


def failing_words(share: float) -> str:
    """Return in words the share of good sets (of reference runs) that the convergence test fails: 'chance of a false
    alarm 1.2 %'. A positive share is not rounded to 0."""
    return f"chance of a false alarm {failing_percent(share)}" if share else "no chance of a false alarm"


def failing_percent(share: float) -> str:
    """Return how many of the sets drawn from the reference runs fail the convergence test, as a percentage for a
    table's cell: '1.2 %'. A positive share is not rounded to 0."""
    if share == 0:
        return "0 %"
    return f"{'<0.1' if share < 5e-4 else f'{share * 100:.1f}'} %"

"""How often the convergence test fails a good set: one of runs that converge exactly as the reference's own did."""

import math
from collections import Counter, defaultdict
from fractions import Fraction
from functools import cache

DIGITS = 3
"""To how many a run's epochs to converge are rounded before the test, as by the official tool."""
_DROPPED = 1
"""The official test leaves out as many runs at each end, whatever the benchmark scores."""


@cache
def failing_share(epochs: tuple[float, ...], num_runs: int, least: float) -> float:
    """Return the share of sets of `num_runs` (3 at least) drawn from the reference's `epochs` whose mean is too low.

    Too low is an Olympic mean below `least`. Drawn with replacement; every set is counted, none simulated.
    """
    # Sets in order of their values: by how many runs are placed, the distribution of the sum of those that count.
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
    """How many of the places first to end - 1 of a set in order enter its mean."""
    return max(min(end, num_runs - _DROPPED) - max(first, _DROPPED), 0)


def failing_words(share: float) -> str:
    """Return the share in words: '1.2 % of good sets fail'. It is not rounded to none."""
    if share == 0:
        return "no good set fails"
    return f"{'<0.1' if share < 5e-4 else f'{share * 100:.1f}'} % of good sets fail"

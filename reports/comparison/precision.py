"""Computes the statistical power of a comparison: its detectable difference, and the number of runs that a verdict
needs."""

import math
from dataclasses import dataclass

from reports.comparison.pairing import Pairing
from reports.statistics.distributions import chi_square_quantile
from reports.statistics.intervals import MIN_RUNS
from reports.statistics.power import (
    POWER,
    Design,
    least_number,
    power_of_difference,
    power_of_equality,
    smallest_effect,
)
from reports.statistics.ratios import Difference

MAX_RUNS = 1_000
_TAIL = 0.1
"""Probability that the number of runs needed lies below the printed range, equal to the probability that it lies
above. The printed range is thus an interval of 80 %. A range is printed because the spread is estimated from few
runs."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SampleSize:
    """Number of runs per configuration, or of pairs, that a verdict needs with 80 % power, if the true difference is
    as measured.

    `number` assumes the spread as measured. `low` and `high` assume the smallest and the largest spread that is
    compatible with the measured runs. `high` is None if more than MAX_RUNS may be needed.
    """

    number: int
    low: int
    high: int | None


def runs_needed(
    difference: Difference, level: float, margin: float, pairing: Pairing, within_level: float | None = None
) -> SampleSize | None:
    """Return how many runs a verdict on a difference needs; None if it needs more than 1,000, or if no number is
    enough. No number may be enough, because more runs do not narrow the drift tolerance.

    The true difference is taken to be as measured. `margin` is the smallest effect of interest, on the scale of the
    differences. If the difference is at least `margin`, the verdict needs an interval that excludes zero, and a
    measured difference of at least `margin`. If it is smaller, the verdict needs an interval that lies within the
    margin.
    """
    size, degrees = abs(float(difference.mean)), float(difference.degrees)
    tail, tolerance, spread = within_level or level / 2, float(difference.tolerance), _spread(difference, pairing)

    def needed(spread: float) -> int | None:
        def has_power(number: int) -> bool:
            design = Design(spread=spread, num_base=number, num_new=number, is_paired=pairing.is_paired)
            if size >= margin:
                return power_of_difference(design, size, level, margin, tolerance) >= POWER
            return power_of_equality(design, size, tail, margin, tolerance) >= POWER

        return least_number(has_power, MIN_RUNS, MAX_RUNS)

    number = needed(spread)
    if number is None:
        return None
    # Measured over true variance is distributed as chi-squared over its degrees of freedom.
    low, high = (
        spread * math.sqrt(degrees / float(chi_square_quantile(degrees, tail))) for tail in (_TAIL, 1 - _TAIL)
    )
    return SampleSize(number=number, low=needed(low) or number, high=needed(high))


def smallest_shown(difference: Difference, level: float, margin: float, pairing: Pairing) -> float:
    """Return the detectable difference (80 % power) of a comparison with as many runs, of the same spread, as the
    measured one. It is a difference of logarithms if ratios are compared, else of plain values."""
    design = Design(
        spread=_spread(difference, pairing),
        num_base=len(pairing.base),
        num_new=len(pairing.new),
        is_paired=pairing.is_paired,
    )
    return smallest_effect(design, level, margin, float(difference.tolerance))


def _spread(difference: Difference, pairing: Pairing) -> float:
    """Return the standard deviation of single runs, assumed equal for both results; for paired runs, of the pairs'
    differences."""
    shares = 1 / len(pairing.base) + (0.0 if pairing.is_paired else 1 / len(pairing.new))
    return float(difference.standard_error) / math.sqrt(shares)

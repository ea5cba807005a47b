"""How many runs it would take: planned from the spread that was measured."""

import math

import numpy as np
from scipy.special import stdtrit

from reports.comparison.pairing import Pairing
from reports.statistics.intervals import MIN_RUNS
from reports.statistics.ratios import Difference

POWER = 0.8
MAX_RUNS = 1_000


def runs_needed(difference: Difference, level: float, margin: float, pairing: Pairing) -> int | None:
    """Runs per side (or pairs) after which a verdict has 80 % probability, if the difference is as measured.

    `margin` is the smallest effect on the scale of the differences. Beyond it, the interval has to leave out 'no
    difference'; within it, the interval has to lie inside. None where more than 1,000 would be needed, as for one
    right at the smallest effect.
    """
    size = abs(float(difference.mean))
    room = size if size >= margin else margin - size
    # What one run on each side would have, so that n runs have it over the square root of n.
    spread = float(difference.standard_error) * math.sqrt(_effective_runs(pairing))
    numbers = np.arange(MIN_RUNS, MAX_RUNS + 1, dtype=np.float64)
    degrees = numbers - 1 if pairing.is_paired else 2 * (numbers - 1)
    needed = (stdtrit(degrees, 1 - level / 2) + stdtrit(degrees, POWER)) * spread / np.sqrt(numbers)
    enough = np.flatnonzero(needed <= room)
    return int(numbers[enough[0]]) if len(enough) else None


def _effective_runs(pairing: Pairing) -> float:
    """Runs per side of a balanced comparison with the same standard error, taking both spreads as alike."""
    if pairing.is_paired:
        return len(pairing.base)
    return 2.0 / (1.0 / len(pairing.base) + 1.0 / len(pairing.new))

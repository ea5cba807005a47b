"""Computes the power of a comparison: the probability of a verdict, the detectable difference, the number of runs
needed.

`reports.statistics.ratios.decide` makes verdicts; this module computes in advance how often that function reaches a
verdict. Values of single runs are taken as normal, with equal spread in both configurations. If ratios are compared,
the logarithms of the values are taken as normal instead.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from reports.statistics.distributions import gamma_quantile, normal_tail, student_quantile

Floats = NDArray[np.float64]

POWER = 0.8
FIRST_LEVEL = 0.05 / 4
"""Strictest significance level of Holm's method over the four compared quantities of a time to train (the time and
its three factors), at a confidence of 95 %."""
_NODES = 16
_NUM_HALVINGS = 36
_MOST = 5.0
"""Largest difference, as a logarithm, that the search for the detectable difference tries: a factor of 148."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Design:
    """Design of a comparison of two configurations: `num_base` runs against `num_new` runs, at least 2 each. If
    `is_paired`, both members are the number of pairs.

    `spread` is the standard deviation of single runs. If `is_paired`, it is the standard deviation of the differences
    within pairs.
    """

    spread: float
    num_base: int
    num_new: int
    is_paired: bool = False

    @property
    def error(self) -> float:
        """Standard error of the difference between the two means."""
        shares = 1 / self.num_base if self.is_paired else 1 / self.num_base + 1 / self.num_new
        return max(self.spread * math.sqrt(shares), 1e-12)

    def reaches(self, tail: float) -> Floats:
        """Return values for half the width of the difference's confidence interval, which has error probability
        `tail` at each end. The width depends on the spread that the runs will show, which is not known in advance. So
        several equally likely spreads are assumed, and one value is returned for each."""
        unit = _unit_reaches(self.num_base, self.num_new, self.is_paired, tail)
        return np.asarray(max(self.spread, 1e-12) * unit, dtype=np.float64)


def smallest_apart(
    spread: float,
    num_base: int,
    num_new: int,
    *,
    level: float = FIRST_LEVEL,
    min_effect: float = 0.0,
    tolerance: float = 0.0,
) -> float:
    """Return the detectable difference (80 % power) between two sets measured separately, as a fraction: 0.06 is 6 %.

    `spread` is the standard deviation of the logarithms of single runs in both sets, which is about their coefficient
    of variation. `num_base` and `num_new` are at least 2. `tolerance` is the drift tolerance, as a fraction (0.2 is
    20 %): a difference between sets measured one after the other must exceed it. `min_effect` is the smallest effect
    of interest, as a fraction. Infinite if even a difference by a factor of 148 would not be detected.
    """
    design = Design(spread=spread, num_base=num_base, num_new=num_new)
    return smallest_difference(design, level, math.log1p(min_effect), math.log1p(tolerance))


def smallest_difference(design: Design, level: float, margin: float, tolerance: float = 0.0) -> float:
    """Return the detectable difference (80 % power) of a comparison, as a fraction; `margin` and `tolerance` are
    logarithms."""
    return math.expm1(smallest_effect(design, level, margin, tolerance))


def smallest_effect(design: Design, level: float, margin: float, tolerance: float = 0.0) -> float:
    """Return the detectable difference (80 % power) of a comparison, in the same unit as `margin`; infinite if it is
    larger than _MOST."""
    thresholds, low, high = _thresholds(design, level, margin, tolerance), 0.0, _MOST
    for _ in range(_NUM_HALVINGS):
        middle = (low + high) / 2
        is_found = normal_tail((middle - thresholds) / design.error).mean() >= POWER
        low, high = (low, middle) if is_found else (middle, high)
    return math.inf if high == _MOST else high


def power_of_difference(design: Design, effect: float, level: float, margin: float, tolerance: float = 0.0) -> float:
    """Return the probability that a true difference `effect` gets a verdict in its direction.

    `effect`, `margin` (the smallest effect of interest) and `tolerance` (the drift tolerance) are on the scale of the
    differences; `level` is the two-sided significance level.
    """
    return float(normal_tail((abs(effect) - _thresholds(design, level, margin, tolerance)) / design.error).mean())


def power_of_equality(design: Design, effect: float, level: float, margin: float, tolerance: float = 0.0) -> float:
    """Return the probability that a true difference `effect` is shown to lie within `margin` (equivalence).

    `effect`, `margin` and `tolerance` (the drift tolerance) are on the scale of the differences; `level` is
    one-sided.
    """
    room = margin - np.hypot(design.reaches(level), tolerance)
    within = normal_tail((room - effect) / design.error) - normal_tail((-room - effect) / design.error)
    return float(np.where(room > 0, within, 0.0).mean())


def least_number(has_power: Callable[[int], bool], low: int, high: int) -> int | None:
    """Return the smallest number of runs from `low` to `high` with enough power; None if there is none. Power is
    taken to grow with the number of runs."""
    if not has_power(high):
        return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if has_power(middle) else (middle + 1, high)
    return low


def _thresholds(design: Design, level: float, margin: float, tolerance: float) -> Floats:
    """Return values that a measured difference must exceed for a verdict. The threshold depends on the spread that
    the runs will show, which is not known in advance, so there is one value for each of several equally likely
    spreads."""
    return np.asarray(np.maximum(np.hypot(design.reaches(level / 2), tolerance), margin))


@lru_cache(maxsize=1024)
def _unit_reaches(num_base: int, num_new: int, is_paired: bool, tail: float) -> Floats:
    """Return possible half-widths of a difference's confidence interval with error probability `tail` at each end,
    for runs with a true spread of 1. The half-width depends on the spread that the runs will show, which is not known
    in advance, so there is one value for each of several equally likely spreads."""
    base = _mean_squares(num_base) / num_base
    if is_paired:
        return np.float64(student_quantile(num_base - 1, 1 - tail)) * np.sqrt(base)
    new = _mean_squares(num_new) / num_new
    both = base[:, None] + new
    degrees = both**2 / (base[:, None] ** 2 / (num_base - 1) + new**2 / (num_new - 1))
    return np.asarray(student_quantile(degrees, 1 - tail) * np.sqrt(both), dtype=np.float64).reshape(-1)


def _mean_squares(num_runs: int) -> Floats:
    """Return quantiles, at equal steps of probability, of the sample variance of `num_runs` runs whose true variance
    is 1."""
    half = (num_runs - 1) / 2
    return np.asarray(gamma_quantile(half, (np.arange(_NODES) + 0.5) / _NODES) / half)

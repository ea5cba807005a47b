"""Computes ratios of two groups of runs through their logarithms: differences, intervals, Holm's levels, verdicts.

All functions work on whole arrays, so that the simulations that verify them run the same code that judges results.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from reports.statistics.distributions import student_quantile, student_tail

Floats = NDArray[np.float64]
Verdict = Literal[
    "faster",
    "slower",
    "better",
    "worse",
    "below the smallest effect",
    "no difference shown",
    "inconclusive",
    "identical",
]
"""Verdict on a difference between two configurations. 'faster' or 'slower' (for times and speeds), 'better' or
'worse' (for quality): a difference is shown, and it is at least the smallest effect. 'below the smallest effect': a
difference is shown, and its interval lies within the equivalence margin. 'no difference shown': none is shown, and
the interval lies within the margin. 'identical': the values of every pair of runs are equal. 'inconclusive': all
other cases."""

_TINY = 1e-12


_FARTHEST = 700.0
"""Largest logarithm of a ratio used in computations, so that its exponential is finite. Records, which anyone may
have written, may hold values with a larger ratio."""


def factor_from(log: float) -> float:
    """Return e to the power of `log`, limited so that the result is a finite float."""
    return math.exp(max(-_FARTHEST, min(log, _FARTHEST)))


def fraction_from(log: float) -> float:
    """Return e to the power of `log`, minus 1, limited so that the result is a finite float."""
    return math.expm1(min(log, _FARTHEST))


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """Difference of two configurations' mean logarithms, new minus base, with its standard error and degrees of
    freedom; arrays of one shape.

    `tolerance` is the drift tolerance. If two sets are measured one after the other, drift of the system may change
    the difference by at most this much, in either direction. Drift is independent of chance, so the tolerance and the
    half-width of the interval are added as squares.
    """

    mean: Floats
    standard_error: Floats
    degrees: Floats
    tolerance: Floats | float = 0.0

    def without_tolerance(self) -> "Difference":
        """Return this difference with a drift tolerance of zero."""
        return replace(self, tolerance=0.0)

    def p_value(self) -> Floats:
        """Return the two-sided p-value of the hypothesis of no difference (Student's t), without drift tolerance."""
        return np.asarray(2.0 * student_tail(self.degrees, -np.abs(self.mean) / self.standard_error))

    def apart_p(self) -> Floats:
        """Return the smallest two-sided significance level at which the difference's interval, widened by the drift
        tolerance, excludes zero."""
        return np.minimum(2.0 * self._tail(np.abs(self.mean)), 1.0)

    def within_p(self, margin: Floats | float) -> Floats:
        """Return the smallest one-sided significance level at which the difference's interval, widened by the drift
        tolerance, lies within ±`margin`."""
        return self._tail(margin - np.abs(self.mean))

    def below_p(self, margin: Floats | float, sign: float = 1.0) -> Floats:
        """Return the smallest one-sided level at which a test shows that the true difference, times `sign`, is below
        `margin`. The drift tolerance widens the interval of the difference."""
        return self._tail(margin - sign * self.mean)

    def _tail(self, room: Floats) -> Floats:
        """Return the tail probability at which the difference's interval, widened by the drift tolerance, reaches
        exactly `room` to each side; 1 if the drift tolerance alone is at least `room`."""
        left = np.square(np.maximum(room, 0.0)) - np.square(np.asarray(self.tolerance))
        tail = student_tail(self.degrees, -np.sqrt(np.maximum(left, 0.0)) / self.standard_error)
        return np.where((left > 0) & (room > 0), tail, 1.0)

    def reach(self, level: Floats | float) -> Floats:
        """Return half the width of the difference's two-sided confidence interval at the confidence 1 - `level`,
        without drift."""
        return np.asarray(student_quantile(self.degrees, 1.0 - np.asarray(level) / 2.0) * self.standard_error)


def sample_variance(logs: Floats, step: Floats | float) -> Floats:
    """Return the sample variance of logarithms along the last axis, but at least step^2 / (n + 1).

    The lower bound is for values on a grid: quality is evaluated every 5 % of an epoch, and times are stamped to 1
    ms. A few runs then often agree to the last digit, and a sample variance of zero would promise certainty. The
    bound is the variance of n equal values and one more value, a step away.
    """
    return moments_of(logs).floored_variance(step)


@dataclass(frozen=True, kw_only=True, slots=True)
class Moments:
    """Mean and sample variance of the values of `number` runs (at least 2), for one group of runs or for an array of
    groups. The arrays of means and of variances have the same shape."""

    number: int
    mean: Floats
    variance: Floats

    def floored_variance(self, step: Floats | float) -> Floats:
        """Return the groups' sample variance with a lower bound, so that equal values do not promise certainty. The
        bound is the variance of `number` equal values and one more, a `step` away."""
        least = np.square(np.asarray(step, dtype=np.float64)) / (self.number + 1)
        return np.asarray(np.maximum(np.maximum(self.variance, least), _TINY**2))


def moments_of(logs: Floats) -> Moments:
    """Return the mean and sample variance of groups of runs' values [..., n], n at least 2."""
    return Moments(number=logs.shape[-1], mean=mean_of(logs), variance=variance_of(logs))


def mean_of(values: Floats) -> Floats:
    """Return the mean along the last axis; for few values three times as fast as `values.mean`."""
    mean: Floats = np.add.reduce(values, axis=-1) / values.shape[-1]
    return mean


def variance_of(values: Floats) -> Floats:
    """Return the sample variance along the last axis, at least 2 values; for few values faster than
    `values.var(ddof=1)`."""
    number = values.shape[-1]
    apart = values - np.add.reduce(values, axis=-1, keepdims=True) / number
    variance: Floats = np.add.reduce(apart * apart, axis=-1) / (number - 1)
    return variance


def welch_difference(
    base: Floats, new: Floats, *, step: Floats | float, tolerance: Floats | float = 0.0
) -> Difference:
    """Return the difference of the means of independent groups of runs [..., n] and [..., m], n and m at least 2
    (Welch 1947).

    `step` is the resolution of both groups' values, `tolerance` the drift tolerance.
    """
    return welch_of_moments(moments_of(base), moments_of(new), step=step, tolerance=tolerance)


def welch_of_moments(
    base: Moments, new: Moments, *, sign: float = 1.0, step: Floats | float, tolerance: Floats | float = 0.0
) -> Difference:
    """Return the difference of the means of independent groups (Welch 1947), given each group's mean and variance.
    The difference is multiplied by `sign`, which is 1 or -1."""
    of_base = base.floored_variance(step) / base.number
    of_new = new.floored_variance(step) / new.number
    total = of_base + of_new
    degrees = total**2 / (of_base**2 / (base.number - 1) + of_new**2 / (new.number - 1))
    mean = sign * new.mean - sign * base.mean
    return Difference(mean=mean, standard_error=np.sqrt(total), degrees=degrees, tolerance=tolerance)


def paired_difference(
    base: Floats, new: Floats, *, step: Floats | float, tolerance: Floats | float = 0.0
) -> Difference:
    """Return the mean difference of paired groups of runs [..., n], n at least 2: Student's t on the differences
    within pairs."""
    apart = new - base
    number = apart.shape[-1]
    error = np.sqrt(sample_variance(apart, step) / number)
    degrees = np.full(error.shape, number - 1.0)
    return Difference(mean=apart.mean(axis=-1), standard_error=error, degrees=degrees, tolerance=tolerance)


def mean_difference(differences: Sequence[Difference]) -> Difference:
    """Return the mean of independent differences, such as the differences on several benchmarks.

    All benchmarks have equal weight. The standard error comes from the spread within benchmarks, so it says nothing
    of benchmarks that were not measured. Degrees of freedom follow Satterthwaite (1946). Drift tolerances are left
    out.
    """
    mean, error, degrees = (
        np.asarray([getattr(each, name) for each in differences], dtype=np.float64)
        for name in ("mean", "standard_error", "degrees")
    )
    total = np.square(error).sum(axis=0)
    return Difference(
        mean=mean.mean(axis=0),
        standard_error=np.sqrt(total) / len(differences),
        degrees=np.square(total) / (error**4 / degrees).sum(axis=0),
    )


def holm_levels(p_values: Floats, alpha: float) -> Floats:
    """Return the level at which Holm's step-down procedure tests each hypothesis of a family, along the last axis.

    The smallest of the m p-values is tested at alpha / m, the next at alpha / (m - 1), and so on, until a hypothesis
    is not rejected. All later hypotheses get the level of that one. So a hypothesis is rejected exactly if p <=
    level. The procedure is valid if the hypotheses depend on each other (Holm 1979), as the factors of the time to
    train do.
    """
    number = p_values.shape[-1]
    order = np.argsort(p_values, axis=-1, kind="stable")
    ordered = np.take_along_axis(p_values, order, axis=-1)
    steps = alpha / (number - np.arange(number, dtype=np.float64))
    failed = ordered > steps
    first = np.where(failed.any(axis=-1), failed.argmax(axis=-1), number - 1)
    ranks = np.minimum(np.arange(number), first[..., None])
    levels = np.empty_like(p_values)
    np.put_along_axis(levels, order, steps[ranks], axis=-1)
    return levels


def decide(
    difference: Difference, levels: Floats, margin: Floats | float, within_levels: Floats | None = None
) -> NDArray[np.str_]:
    """Return the verdict on differences of log time, or of another quantity of which more means slower.

    `margin` is the smallest effect (the equivalence margin) on the scale of the differences: log1p(0.03) of log time,
    for a ratio of 1.03. The first of two intervals has the two-sided error probabilities `levels`; the second has a
    tail of `within_levels`, by default half of `levels`, at each end. Both are widened by the drift tolerance.

    - 'faster' or 'slower': the first interval excludes zero, and the difference is at least `margin`.
    - 'no difference shown': the second interval lies within `margin`.
    - 'below the smallest effect': the second interval lies within `margin`, and both intervals exclude zero.
    - 'inconclusive': all other cases.
    """
    tails = np.asarray(levels) / 2.0 if within_levels is None else np.asarray(within_levels)
    apart_p = difference.apart_p()
    is_apart = apart_p <= levels
    is_large = np.abs(difference.mean) >= margin
    is_within = difference.within_p(margin) <= tails
    is_small = is_apart & (apart_p <= 2.0 * tails)
    direction = np.where(difference.mean > 0, "slower", "faster")
    small = np.where(is_small, "below the smallest effect", "no difference shown")
    return np.where(is_apart & is_large, direction, np.where(is_within, small, "inconclusive")).astype(np.str_)

"""Computes the uncertainty of one group of runs' values: confidence intervals of geometric means, and the shares that
factors have in the spread.

The run is the unit of analysis. Values from inside a run are not pooled: they are not independent and would make
intervals too narrow.

Times to train take only few possible values (a coarse grid), because a run ends at an evaluation. The interval of
their mean then covers the true mean less often than Student's t promises, and even less often if their distribution
is skewed. No interval from 5 runs avoids that. So intervals of such values are computed at 95 % confidence (NOMINAL)
but printed as 90 % intervals (AT_LEAST).
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reports.statistics.distributions import student_quantile
from reports.statistics.ratios import Floats, mean_of, sample_variance, variance_of

MIN_RUNS = 5
NOMINAL = 0.95
AT_LEAST = 0.90
"""Confidence that is printed for intervals of values that change only at evaluations, such as times to train. The
intervals are computed at the higher confidence NOMINAL, since a grid and few values cost coverage. In simulations
they cover the true mean in 95 % of sets if times are normal or lognormal, in 96 % if times follow Student's t with 3
degrees of freedom, and in at least 91 % if times are drawn from the shipped reference convergence points."""
AT_LEAST_NAME = f"{AT_LEAST:.0%} interval".replace("%", " %")
IF_INDEPENDENT = "if processes are independent: of this hour, not of the system"
IF_RUNS_INDEPENDENT = IF_INDEPENDENT.replace("processes", "runs")
"""Assumption, printed with an interval, that runs (or processes) are independent: with drift of speed within a set,
the interval covers the long-run mean far less often."""
_MAX_LOG = 709.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Interval:
    """Confidence interval of a mean, in the unit of the values. `confidence` is the printed confidence; the true
    coverage is at least that."""

    low: float
    high: float
    confidence: float
    method: str


@dataclass(frozen=True, kw_only=True, slots=True)
class LogSummary:
    """Summary of several runs' positive values, computed from their logarithms: geometric mean, spread and confidence
    interval.

    `coefficient_of_variation` is the sample standard deviation divided by the mean, as in MLPerf's reference
    convergence points. `step` is the resolution of the values. If it is not known, `step` and `interval` are None.
    """

    num_values: int
    geometric_mean: float
    coefficient_of_variation: float | None
    logs: tuple[float, ...]
    step: float | None
    confidence: float
    nominal: float

    @property
    def interval(self) -> Interval | None:
        """Confidence interval of the geometric mean; None for fewer than two values, or if `step` is not known.

        It is computed only when it is read, because importing Student's t takes longer than computing the rest of a
        summary.
        """
        if self.num_values < 2 or self.step is None:
            return None
        logs = np.asarray(self.logs, dtype=np.float64)
        mean, reach = float(mean_of(logs)), float(log_reach(logs, self.step, self.nominal))
        high = math.exp(mean + reach) if mean + reach < _MAX_LOG else math.inf
        level = f" at {100 * self.nominal:.1f} %" if self.nominal != NOMINAL else ""
        method = f"Student's t on the logarithms{level}"
        return Interval(low=math.exp(mean - reach), high=high, confidence=self.confidence, method=method)


def log_reach(logs: Floats, step: Floats | float, nominal: float = NOMINAL) -> Floats:
    """Return half the width of the confidence interval, by Student's t, of the mean of logarithms [..., n], n at
    least 2.

    The values lie on a grid, such as the grid of evaluations. `step` is the grid's step as a fraction of the values:
    one number for all groups, or an array [...]. A coarse grid changes the interval twice. First, the variance has a
    lower bound (`sample_variance`), because equal values on a grid may stem from unequal ones. Second, the interval
    is widened by the shift of the mean if one run ended a step earlier or later: a continuity correction (Cox 1970,
    "The continuity correction"). Usual is half of this shift; the whole is used here because the distribution over
    few values is skewed.
    """
    number = logs.shape[-1]
    error = np.sqrt(sample_variance(logs, step) / number)
    return np.asarray(student_quantile(number - 1, (1 + nominal) / 2) * error + np.asarray(step) / number)


def time_interval(times_s: Sequence[float], step: float) -> Interval | None:
    """Return the confidence interval of the geometric mean of times to train. The times lie on the grid of the
    evaluations; `step` is the grid's step as a fraction of the times.

    None for fewer than 5 runs, or where a time is not finite: a set in which a run did not converge has no mean.
    """
    if len(times_s) < MIN_RUNS:
        return None
    summary = log_summary(times_s, step=step, confidence=AT_LEAST)
    return summary.interval if summary else None


def log_summary(
    values: Iterable[float | None],
    *,
    step: float | None = None,
    confidence: float = NOMINAL,
    nominal: float = NOMINAL,
) -> LogSummary | None:
    """Return the summary of the values that are not None. None if there are no such values, or if one of them is not
    positive and finite.

    `step` is the resolution of the values, as a fraction of them; without it the summary has no interval.
    `confidence` is the confidence that the summary states. The interval is computed at the higher confidence
    `nominal`, since small sets cover less than is computed.
    """
    known = [value for value in values if value is not None]
    if not known or any(not (math.isfinite(value) and value > 0) for value in known):
        return None
    array = np.asarray(known, dtype=np.float64)
    logs = np.log(array)
    # The squares of the largest numbers that a log may hold overflow a float, so values are scaled first.
    scaled = array / array.max()
    return LogSummary(
        num_values=len(known),
        geometric_mean=math.exp(float(mean_of(logs))),
        coefficient_of_variation=math.sqrt(variance_of(scaled)) / float(mean_of(scaled)) if len(known) > 1 else None,
        logs=tuple(logs.tolist()),
        step=step,
        confidence=confidence,
        nominal=nominal,
    )


def mean_of_known(values: Iterable[float | None]) -> float | None:
    """Return the arithmetic mean of the values that are not None; None where there is none."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def mean_interval(values: Sequence[float] | NDArray[np.float64]) -> Interval | None:
    """Return the 95 % interval of the mean of values, by Student's t; None for fewer than two values, or if one is
    not finite."""
    num, array = len(values), np.asarray(values, dtype=np.float64)
    if num < 2 or not np.isfinite(array).all():
        return None
    mean = float(array.mean())
    reach = float(student_quantile(num - 1, (1 + NOMINAL) / 2)) * float(array.std(ddof=1)) / math.sqrt(num)
    return Interval(low=mean - reach, high=mean + reach, confidence=NOMINAL, method="Student's t")


def spread_shares(totals: Sequence[float], factors: Sequence[Sequence[float]]) -> tuple[float, ...] | None:
    """Return each factor's share in the variance of log(total) over several runs, where total is the product of the
    factors.

    The share of factor f is cov(log f, log total) / var(log total). The shares add up to exactly 1. A share is
    negative if its factor varies against the others. None with fewer than 3 runs, if the total does not vary, or if a
    value is not positive and finite.
    """
    values = np.asarray([totals, *factors], dtype=np.float64)
    if values.shape[1] < 3 or not np.all(np.isfinite(values)) or not np.all(values > 0):
        return None
    logs = np.log(values)
    centred = logs - logs.mean(axis=1, keepdims=True)
    variance = float(centred[0] @ centred[0])
    if variance <= 1e-18 * values.shape[1]:
        return None
    return tuple(float(centred[0] @ row) / variance for row in centred[1:])

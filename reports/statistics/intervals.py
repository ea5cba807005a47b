"""Uncertainty of one set of runs: the Olympic mean's interval and the spread of each factor.

The run is the unit of analysis. Nothing here pools what happened inside a run: those values are not
independent and would make intervals too narrow.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, stdtrit

from reports.text.formatting import percent

MIN_RUNS = 5
NUM_RESAMPLES = 10_000
_MAX_LOG = 709.0
NUM_SIMULATED_SETS = 2_000
_RESAMPLE_SEED = 20_200_713
_SIMULATION_SEED = 20_200_714


@dataclass(frozen=True, kw_only=True, slots=True)
class Interval:
    """An interval for a mean, in the unit of the values.

    `coverage` is the measured share of simulated sets of normally distributed values whose interval, made
    by this very method from as many runs, held the true value; None where theory gives it exactly.
    """

    low: float
    high: float
    confidence: float
    coverage: float | None
    method: str


def coverage_words(coverage: float, num_runs: int) -> str:
    """What a simulated coverage is a share of: 'held the true mean in 94.6 % of 2,000 simulated sets of ...'."""
    sets = f"{NUM_SIMULATED_SETS:,} simulated sets of {num_runs} normal times"
    return f"held the true mean in {percent(coverage)} of {sets}"


@dataclass(frozen=True, kw_only=True, slots=True)
class LogSummary:
    """Positive values of several runs, summarised through their logarithms.

    `coefficient_of_variation` is the sample standard deviation over the mean, as MLPerf's reference
    convergence points state it. `interval` is Student's t on the logs, for the geometric mean.
    """

    num_values: int
    geometric_mean: float
    coefficient_of_variation: float | None
    interval: Interval | None


def olympic_interval(times_s: Sequence[float], drop: int, *, confidence: float = 0.95) -> Interval | None:
    """Bootstrap interval of the Olympic mean of `times_s`, with its simulated coverage.

    Method: the expanded percentile interval (Hesterberg 2015, "What teachers should know about the
    bootstrap", section 4.3). Runs are resampled with replacement 10,000 times from a fixed seed, each
    resample is scored by the same Olympic rule, and the percentiles are moved outwards to
    Phi(-sqrt(n / (n - 1)) * t), with t Student's quantile at n - 1 degrees of freedom, because the plain
    percentile interval of few runs is too short (90 % instead of 95 % at 5 runs). The coverage is that of
    2,000 simulated sets of normal times; the method is equivariant under shift and scale, so it depends on the
    number of runs and on `drop` only.

    None with fewer than 5 runs, with fewer than 3 counted runs, or when a time is not finite: a set in which
    a run did not converge has no mean whose uncertainty this could be.
    """
    num_runs = len(times_s)
    if num_runs < MIN_RUNS or num_runs - 2 * drop < 3 or not all(math.isfinite(time) for time in times_s):
        return None
    ends = _ends(_resample_weights(num_runs, drop), np.sort(np.asarray([times_s], dtype=np.float64)), confidence)
    return Interval(
        low=float(ends[0, 0]),
        high=float(ends[1, 0]),
        confidence=confidence,
        coverage=_simulated_coverage(num_runs, drop, confidence),
        method="expanded percentile bootstrap, 10,000 resamples of the runs",
    )


def log_summary(values: Iterable[float | None], *, confidence: float = 0.95) -> LogSummary | None:
    """Summary of the known values; None when there is none, or when one is not positive and finite."""
    known = [value for value in values if value is not None]
    if not known or any(not (math.isfinite(value) and value > 0) for value in known):
        return None
    array = np.asarray(known, dtype=np.float64)
    logs = np.log(array)
    # Squares of the largest numbers that a log may hold are beyond what a float can say.
    scaled = array / array.max()
    if (interval := mean_interval(logs, confidence=confidence)) is not None:
        high = math.exp(interval.high) if interval.high < _MAX_LOG else math.inf
        method = f"{interval.method} on the logarithms"
        interval = replace(interval, low=math.exp(interval.low), high=high, method=method)
    return LogSummary(
        num_values=len(known),
        geometric_mean=math.exp(float(logs.mean())),
        coefficient_of_variation=float(scaled.std(ddof=1) / scaled.mean()) if len(known) > 1 else None,
        interval=interval,
    )


def mean_interval(values: Sequence[float] | NDArray[np.float64], *, confidence: float = 0.95) -> Interval | None:
    """Student's t for the mean of values as they are; None for fewer than two, or where one is not finite."""
    num, array = len(values), np.asarray(values, dtype=np.float64)
    if num < 2 or not np.isfinite(array).all():
        return None
    mean = float(array.mean())
    reach = float(stdtrit(num - 1, (1 + confidence) / 2)) * float(array.std(ddof=1)) / math.sqrt(num)
    return Interval(low=mean - reach, high=mean + reach, confidence=confidence, coverage=None, method="Student's t")


@cache
def _resample_weights(num_runs: int, drop: int) -> NDArray[np.float64]:
    """Weights [10,000, num_runs] that give each resample's Olympic mean from the sorted times.

    Resampled indices of sorted times are sorted like the times themselves, so the Olympic mean of a resample
    is linear in them, and one set of weights serves the data and every simulated set.
    """
    generator = np.random.default_rng(_RESAMPLE_SEED)
    drawn = np.sort(generator.integers(0, num_runs, (NUM_RESAMPLES, num_runs)), axis=1)
    kept = drawn[:, drop : num_runs - drop]
    weights = np.zeros((NUM_RESAMPLES, num_runs))
    np.add.at(weights, (np.arange(NUM_RESAMPLES)[:, None], kept), 1.0 / kept.shape[1])
    return weights


def _ends(weights: NDArray[np.float64], sorted_times: NDArray[np.float64], confidence: float) -> NDArray[np.float64]:
    """Interval ends [2, num_sets] for sorted times [num_sets, num_runs]."""
    num_runs = sorted_times.shape[1]
    student = float(stdtrit(num_runs - 1, (1 + confidence) / 2))
    tail = float(ndtr(-math.sqrt(num_runs / (num_runs - 1)) * student))
    return np.quantile(weights @ sorted_times.T, [tail, 1 - tail], axis=0)


@cache
def _simulated_coverage(num_runs: int, drop: int, confidence: float) -> float:
    generator = np.random.default_rng(_SIMULATION_SEED)
    weights = _resample_weights(num_runs, drop)
    num_covered = 0
    # In parts, so that the product with the weights stays small.
    for _ in range(NUM_SIMULATED_SETS // 500):
        sets = np.sort(generator.standard_normal((500, num_runs)), axis=1)
        low, high = _ends(weights, sets, confidence)
        num_covered += int(np.count_nonzero((low <= 0) & (high >= 0)))
    return num_covered / NUM_SIMULATED_SETS


def spread_shares(totals: Sequence[float], factors: Sequence[Sequence[float]]) -> tuple[float, ...] | None:
    """How much of the spread of log(total) each factor carries, where total = product of the factors.

    The share of factor f is cov(log f, log total) / var(log total); the shares add up to 1 exactly, and one may
    be negative where a factor works against the others. None with fewer than 3 runs, without spread, or when a
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

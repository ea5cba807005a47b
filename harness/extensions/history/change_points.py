"""Find where the mean of a series of measured values changed. Steps are told from drift and trends by comparing
likelihoods.

Three explanations of a series are compared: steps between levels with independent noise; one level with correlation
between neighbouring values (an AR(1) process, each correlation in CORRELATIONS as likely as another); and a steady
trend. Steps are found if their likelihood exceeds the mean likelihood of all explanations without a step, and a third
of the likelihood of a trend, whose prior probability is one third.

A likelihood is integrated over the unknowns: the level, the sizes of steps and slopes in units of the noise, and the
noise, whose prior is uniform in its logarithm (Jeffreys' prior; Kass and Raftery 1995, "Bayes factors"). For each
number of steps, the best places are used (Jackson et al. 2005, "An algorithm for optimal partitioning of data on an
interval").

The number of steps has the highest log likelihood, less a `penalty` for each step. The penalty was chosen by the
rates of false and of missed changes, which are simulated in tests/extensions/history/test_change_points.py. Shi,
Gallagher, Lund and Killick 2022, "A comparison of single and multiple changepoint techniques for time series data",
compare tests for series whose neighbouring values are correlated.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import lgamma, log

import numpy as np

from reports.statistics.ratios import Floats

LEAST = 3
"""Minimum number of run sets on each side of a change in a series."""
SHORTEST = 8
"""Minimum number of run sets of a series in which a change can be shown."""
CORRELATIONS = (0.0, 0.2, 0.4, 0.6, 0.75, 0.85, 0.92, 0.97, 0.99)
"""Correlations of neighbouring values, as in an AR(1) process, by which a series without a change is explained."""
MOST = 10
"""Maximum number of changes that are found in one series of run sets."""
TREND_WORTH = 3.5
"""Smallest gain in log likelihood for which a trend of a series is shown: by chance 1 of 100 series of independent
run sets reaches it."""
_ROUNDING = 1e-9


@dataclass(frozen=True, kw_only=True, slots=True)
class Changes:
    """Changes found in a series of values, or the reason why the series is not judged.

    `places` are, in rising order, the indices of the first value after each change. `is_trend` is True if the series
    has no change but rises or falls steadily. `is_correlated` is True if the series has no change, but would seem to
    have one if neighbouring values were taken for independent. `is_too_short` is True if the series has fewer than
    SHORTEST values.
    """

    places: tuple[int, ...] = ()
    is_trend: bool = False
    is_correlated: bool = False
    is_too_short: bool = False


def penalty(number: int, num_series: int = 1) -> float:
    """Return the gain in log likelihood by which each change must improve the explanation of a series of `number`
    values; smaller changes are not shown.

    If a page has more than four series, log(`num_series` / 4) is added, since with more series more changes appear by
    chance.
    """
    alone = min(0.18 * number + 0.59, 4.8) if number >= 12 else 4.5
    return alone + log(max(num_series / 4.0, 1.0))


def find_changes(page: Sequence[Floats]) -> list[Changes]:
    """Return the changes of all series of a page, each of values [n] in the order of time."""
    num_judged = sum(len(values) >= SHORTEST for values in page)
    return [_find(values, num_judged) if len(values) >= SHORTEST else Changes(is_too_short=True) for values in page]


def _find(values: Floats, num_series: int) -> Changes:
    number, least = len(values), penalty(len(values), num_series)
    floor = number * (_ROUNDING * float(np.abs(values).max())) ** 2
    values = values - values.mean()
    if float(np.square(values).sum()) <= floor:  # all are equal
        return Changes()
    level, trend = level_likelihoods(values, floor), _trend_likelihood(values, floor)
    unchanged = max(float(np.logaddexp.reduce([*level, trend]) - log(len(level) + 1)), trend - log(3.0))
    steps = partition(values)
    gains = [
        _step_likelihood(residual, places, number, floor) - least * len(places)
        for residual, places in steps
        if np.isfinite(residual)
    ]
    best = int(np.argmax(gains))
    if gains[best] > unchanged:
        return Changes(places=steps[best][1])
    if trend - float(np.logaddexp.reduce(level) - log(len(level))) > TREND_WORTH:
        return Changes(is_trend=True)
    return Changes(is_correlated=gains[best] > level[0])


def level_likelihoods(values: Floats, floor: float) -> list[float]:
    """Return the log likelihoods of a series that has one level and no step: one for each autocorrelation in
    CORRELATIONS. Terms that all explanations of a series share are left out."""
    found, number = [], len(values)
    for correlation in CORRELATIONS:
        innovation = 1.0 - correlation**2
        white = np.concatenate([values[:1], (values[1:] - correlation * values[:-1]) / innovation**0.5])
        level = np.concatenate([[1.0], np.full(number - 1, (1.0 - correlation) / innovation**0.5)])
        weight = float(level @ level)
        residual = max(float(white @ white) - float(white @ level) ** 2 / weight, floor)
        found.append(-0.5 * (number - 1) * log(innovation) - 0.5 * log(weight) - 0.5 * (number - 1) * log(residual))
    return found


def _trend_likelihood(values: Floats, floor: float) -> float:
    """Return the log likelihood of a series that follows a steady trend with independent noise. The trend's rise from
    the first to the last value has a flat prior, like the size of a step."""
    number = len(values)
    rise = (np.arange(number) - (number - 1) / 2.0) / (number - 1)
    weight = float(rise @ rise)
    residual = max(float(values @ values) - float(values @ rise) ** 2 / weight, floor)
    return -0.5 * log(number) - 0.5 * log(weight) - 0.5 * (number - 1) * log(residual)


def _step_likelihood(residual: float, places: tuple[int, ...], number: int, floor: float) -> float:
    """Return the log likelihood of a series that has steps at `places` and is level between them. `residual` is the
    sum of the squared residuals from the levels."""
    num_steps = len(places)
    num_places = number - (num_steps + 1) * LEAST + num_steps
    ways = lgamma(num_places + 1) - lgamma(num_steps + 1) - lgamma(num_places - num_steps + 1)
    sizes = np.diff([0, *places, number])
    residual_part = 0.5 * (number - 1) * log(max(residual, floor))
    return -residual_part - 0.5 * float(np.log(sizes).sum()) - ways


def partition(values: Floats) -> list[tuple[float, tuple[int, ...]]]:
    """Return the least sum of squared residuals of a series with 1, 2, … steps, and the steps' places; values [n]
    have mean 0."""
    number = len(values)
    most = min(MOST, number // LEAST - 1)
    sums, squares = (np.concatenate([[0.0], np.cumsum(each)]) for each in (values, values**2))
    # [steps, values up to here]: the least sum, and where its last level begins
    least, begins = np.full((most + 1, number + 1), np.inf), np.zeros((most + 1, number + 1), dtype=np.int64)
    for stop in range(LEAST, number + 1):
        starts = np.arange(stop - LEAST + 1)
        cost = np.maximum(squares[stop] - squares[starts] - (sums[stop] - sums[starts]) ** 2 / (stop - starts), 0.0)
        least[0, stop] = cost[0]
        total = least[:-1, starts] + cost
        begins[1:, stop] = total.argmin(axis=1)
        least[1:, stop] = total.min(axis=1)
    found = []
    for num_steps in range(1, most + 1):
        places, stop = [], number
        for left in range(num_steps, 0, -1):
            stop = int(begins[left, stop])
            places.append(stop)
        found.append((float(least[num_steps, number]), tuple(reversed(places))))
    return found

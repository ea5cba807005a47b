"""Sets that grow until they are precise enough: when to stop, and what their interval is worth then.

A set whose runs decide when it ends has an interval that is too short: it ends the more readily the smaller its
spread happens to be. With Student's t at 95 % and from 5 runs on, the interval at the end holds the true mean in as
little as 92 % of sets (Starr 1966, "The performance of a sequential procedure for the fixed-width interval estimation
of the mean"; Chow and Robbins 1965 show that the shortage ends only for very many runs). So both the decision to stop
and the interval that is shown take Student's t at STOPPING_CONFIDENCE, which holds CONFIDENCE at every spread;
`growth_interval` simulates what it holds at the spread that was found, by the function that decides.
"""

import math
from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from reports.statistics.intervals import NUM_SIMULATED_SETS, Interval

CONFIDENCE = 0.95
STOPPING_CONFIDENCE = 0.975
_SEED = 20_200_715


def end_of_growth(logs: NDArray[np.float64], width: float, min_runs: int) -> NDArray[np.int64]:
    """Return after how many runs each set ends: the first number, from `min_runs` on, that is narrow enough.

    `logs` [num_sets, num_runs] are logarithms of times in the order of the runs; 0 where a set is not narrow enough
    with all of them. Narrow enough: the interval reaches at most `width` of the mean to its farther side.
    """
    reach = _reach(logs)
    is_narrow = (reach <= math.log1p(width)) & (np.arange(1, logs.shape[1] + 1) >= min_runs)
    return np.where(is_narrow.any(axis=1), is_narrow.argmax(axis=1) + 1, 0)


def is_narrow(times_s: Sequence[float], width: float, min_runs: int) -> bool:
    """Decide whether a set may stop growing; never while a run has no time, which leaves no mean."""
    if not all(math.isfinite(time_s) and time_s > 0 for time_s in times_s):
        return False
    return bool(end_of_growth(np.log(np.asarray([times_s], dtype=np.float64)), width, min_runs)[0])


def growth_interval(times_s: Sequence[float], width: float, min_runs: int, max_runs: int) -> Interval | None:
    """Make the interval of the geometric mean time of a set that grew, with its simulated coverage.

    `times_s` are in the order of the runs. None for fewer than two, or where a run has no time: one that did not
    converge leaves no mean.
    """
    if len(times_s) < 2 or not all(math.isfinite(time_s) and time_s > 0 for time_s in times_s):
        return None
    logs = np.log(np.asarray([times_s], dtype=np.float64))
    mean, reach, spread = float(logs.mean()), float(_reach(logs)[0, -1]), float(logs.std(ddof=1))
    return Interval(
        low=math.exp(mean - reach),
        high=math.exp(mean + reach),
        confidence=CONFIDENCE,
        coverage=simulate_coverage(round(spread, 3), width, min_runs, max_runs),
        method=f"Student's t on the logarithms at {STOPPING_CONFIDENCE:.1%}, of a set that grew until it was narrow",
    )


@cache
def simulate_coverage(spread: float, width: float, min_runs: int, max_runs: int) -> float:
    """Simulate which share of sets that grow holds the true mean: normal logarithms with that standard deviation."""
    logs = spread * np.random.default_rng(_SEED).standard_normal((NUM_SIMULATED_SETS, max_runs))
    ends = end_of_growth(logs, width, min_runs)
    last = np.where(ends == 0, max_runs, ends) - 1
    sets = np.arange(len(logs))
    means = np.cumsum(logs, axis=1)[sets, last] / (last + 1)
    return float(np.mean(np.abs(means) <= _reach(logs)[sets, last]))


def _reach(logs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return how far the interval reaches from the mean after each run [num_sets, num_runs]; infinite after one."""
    num = np.arange(1, logs.shape[1] + 1)
    centred = logs - logs[:, :1]  # so that squares lose no digits
    means = np.cumsum(centred, axis=1) / num
    squares = np.maximum(np.cumsum(centred**2, axis=1) - num * means**2, 0.0)
    reach = np.full(logs.shape, math.inf)
    student = stdtrit(num[1:] - 1, (1 + STOPPING_CONFIDENCE) / 2)
    reach[:, 1:] = student * np.sqrt(squares[:, 1:] / (num[1:] - 1) / num[1:])
    return reach

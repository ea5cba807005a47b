"""Decides when a set of runs that grows until it is precise enough may end, and computes its confidence interval at
that point.

If the runs of a set decide when it ends, the usual interval is too short, because a set whose spread happens to be
small ends sooner. With Student's t at 95 % and at least 5 runs, the interval at the end covers the true mean in as
few as 92 % of sets (Starr 1966, "The performance of a sequential procedure for the fixed-width interval estimation of
the mean"; Chow and Robbins 1965 show that the coverage reaches 95 % only for very many runs). So both the decision to
stop and the printed interval use Student's t at the higher confidence STOPPING, which covers 95 % for normal
logarithms at every spread.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from reports.statistics.intervals import AT_LEAST, Interval, log_reach, log_summary
from reports.statistics.ratios import Floats

STOPPING = 0.975


def stopping_run(logs: Floats, steps: Floats | float, width: float, min_runs: int) -> NDArray[np.int64]:
    """Simulate sets to which runs are added until an interval is narrow enough. Return the number of runs of each
    set, at least `min_runs`; 0 for a set that never stops.

    `logs` [num_sets, num_runs] are logarithms of times in the order of the runs. `steps` are the resolutions of the
    runs' times, as fractions of the times; a set's resolution is their mean over its runs so far. A set stops when
    the farther end of its confidence interval is at most the fraction `width` away from the mean.
    """
    steps = np.broadcast_to(np.asarray(steps, dtype=np.float64), logs.shape)
    is_narrow = np.zeros(logs.shape, dtype=np.bool_)
    for num in range(max(min_runs, 2), logs.shape[1] + 1):
        reach = log_reach(logs[:, :num], steps[:, :num].mean(axis=1), STOPPING)
        is_narrow[:, num - 1] = reach <= math.log1p(width)
    return np.where(is_narrow.any(axis=1), is_narrow.argmax(axis=1) + 1, 0)


def narrow_after(times_s: Sequence[float], steps: Sequence[float], width: float, min_runs: int) -> int | None:
    """Return the number of runs after which a growing set is precise enough to stop. None if it is not yet, or if a
    run has no time."""
    if not times_s or not all(math.isfinite(time_s) and time_s > 0 for time_s in times_s):
        return None
    logs = np.log(np.asarray([times_s], dtype=np.float64))
    return int(stopping_run(logs, np.asarray([steps], dtype=np.float64), width, min_runs)[0]) or None


def sequential_interval(times_s: Sequence[float], step: float) -> Interval | None:
    """Return the confidence interval of the geometric mean time of a set that was to grow until it was precise
    enough.

    `step` is the resolution of the times, as a fraction of them. None for fewer than two runs, or where a run has no
    time: a run that did not converge leaves no mean.
    """
    summary = log_summary(times_s, step=step, confidence=AT_LEAST, nominal=STOPPING)
    return summary.interval if summary else None

"""Interpolates the samples at which a quality curve crosses its target, by a line through its last points; never used
for scores.

A run is scored by its first evaluation that met the target: a value on the coarse grid of evaluations, and one that
depends on the luck of a single evaluation. A mean of evaluations around the crossing would depend less on both, but a
run ends as it meets the target, when such a mean has not crossed it yet. The line needs no later evaluation.

Differences between seeds last through whole runs, and interpolation does not remove them. On full curves of variants
of the generated benchmarks, cut where they meet a target, interpolated samples varied 0.84 times (dlrm_tiny, 6
variants of 12 seeds) and 0.91 times (dlrm_small, 8 of 8 seeds) as much as samples to converge, where these vary by 4
to 5 %; where they vary by more than 7 %, interpolated ones vary as much. The interpolated values are about 4 % lower,
since nothing is rounded up to an evaluation.
"""

import math
from collections.abc import Sequence

import numpy as np

NUM_FITTED = 6
_FEWEST = 3


def smoothed_crossing(samples: Sequence[float], qualities: Sequence[float], target: float) -> float | None:
    """Return the number of training samples at which a line through the last evaluations meets the quality `target`.

    The points are the last NUM_FITTED evaluations up to the first that met the target; the line is fitted by least
    squares, quality over the logarithm of samples. None where the target was not met, for fewer than 3 evaluations,
    for samples that do not rise or are not positive, for a line that does not rise, and where the line meets the
    target before the first of its points or more than one evaluation after the last.
    """
    met = next((at for at, quality in enumerate(qualities) if quality >= target), None)
    if met is None or met + 1 < _FEWEST:
        return None
    first = max(met + 1 - NUM_FITTED, 0)
    places, values = np.asarray(samples[first : met + 1]), np.asarray(qualities[first : met + 1])
    if not (
        np.isfinite(places).all() and np.isfinite(values).all() and places[0] > 0 and (np.diff(places) > 0).all()
    ):
        return None
    logs = np.log(places)
    centred = logs - logs.mean()
    slope = float(centred @ (values - values.mean())) / float(centred @ centred)
    if not slope > 0:
        return None
    crossing = float(logs.mean()) + (target - float(values.mean())) / slope
    end = float(2 * places[-1] - places[-2])
    return math.exp(crossing) if logs[0] <= crossing <= math.log(end) else None

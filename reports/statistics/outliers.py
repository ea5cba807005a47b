"""Finds outliers: values, such as runs' speeds, that lie far from all others in their set."""

from collections.abc import Sequence
from math import log, sqrt

import numpy as np

LEAST = 5
"""Least number of values in a set in which outliers are looked for."""
DEVIATIONS = 5.0
"""Least distance of an outlier from the mean of the other values, in standard deviations. An outlier must also be at
least FRACTION from the median. By chance, 2 % of sets of five independent, normal values with 4 % noise have a value
that meets both conditions."""
FRACTION = 0.1
"""Least distance of an outlier from the median of its set's values, as a fraction."""


def find_outliers(logs: Sequence[float]) -> tuple[int, ...]:
    """Return the indices of outliers in a set of values, given as logarithms.

    Each value is compared with the mean of all others by Student's t. The distance is in units of the standard
    deviation of a further value, computed from the spread of the others. Two outliers on the same side may hide each
    other.
    """
    values = np.asarray(logs, dtype=np.float64)
    number = len(values)
    if number < LEAST:
        return ()
    middle, found = float(np.median(values)), []
    for place, value in enumerate(values):
        others = np.delete(values, place)
        reach = float(others.std(ddof=1)) * sqrt(1.0 + 1.0 / (number - 1))
        is_far = abs(float(value - others.mean())) > DEVIATIONS * reach
        if is_far and abs(float(value) - middle) >= log(1.0 + FRACTION):
            found.append(place)
    return tuple(found)

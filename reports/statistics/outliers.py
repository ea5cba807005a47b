"""Values that lie far from all others of their set."""

from collections.abc import Sequence
from math import log, sqrt

import numpy as np

LEAST = 5
"""Values of which one can be told to lie apart."""
DEVIATIONS = 5.0
"""By chance 2 % of sets of five values, independent and normal with 4 % noise, have one so far and FRACTION away."""
FRACTION = 0.1
"""How far from the median it lies at least."""


def find_outliers(logs: Sequence[float]) -> tuple[int, ...]:
    """Return the places of values, given as logarithms, that lie apart from the others.

    Each is held against the mean of all others, in units of how far another one of their spread would lie from it
    (Student's t with one left out); two that lie apart on one side hide each other.
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

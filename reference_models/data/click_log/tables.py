"""Make lookup tables for generating click logs. Only arithmetic on integers and IEEE additions, multiplications,
divisions and square roots are used.

IEEE 754 rounds these operations exactly, so the tables are the same on every machine; a libm's exp, log and pow are
not. Sums run over integers, or in the fixed order that `np.add.accumulate` defines.
"""

from functools import cache

import numpy as np
from numpy.typing import NDArray

from reference_models.data.click_log.counter import hash_range

QUANTILE_BITS = 12
NUM_QUANTILES = 1 << QUANTILE_BITS
THRESHOLD_BITS = 16
ZIPF_STEPS_PER_ONE = 8
"""Number of possible Zipf exponents in an interval of length 1. Exponents s are multiples of 1/8, so that k ** s
needs only products and square roots."""
_LN_2 = 0.6931471805599453
_MASS_ONE = float(1 << 40)


def natural_log(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ln(x) for x > 0 to about 1e-15: ln(m * 2**e) = e ln 2 + 2 artanh((m - 1) / (m + 1))."""
    mantissa, exponent = np.frexp(x)
    ratio = (mantissa - 1.0) / (mantissa + 1.0)
    square = ratio * ratio
    series = np.zeros_like(ratio)
    for odd in range(41, 0, -2):
        series = series * square + 1.0 / odd
    return exponent.astype(np.float64) * _LN_2 + 2.0 * (ratio * series)


@cache
def logit_thresholds() -> NDArray[np.float32]:
    """Return rising thresholds of the click logit, float32 [2**16]: ln(p / (1 - p)) at p = (i + 1/2) / 2**16.

    A label is 1 if its logit exceeds a threshold that is drawn at random from these. The probability of a label 1 is
    then sigmoid(logit).
    """
    size = 1 << THRESHOLD_BITS
    index = np.arange(size, dtype=np.float64)
    return (natural_log(index + 0.5) - natural_log(size - index - 0.5)).astype(np.float32)


@cache
def exponential_quantiles() -> NDArray[np.float64]:
    """Return quantiles of the exponential distribution (mean 1) at p = (i + 1/2) / 2**12: rising float64 [2**12]."""
    index = np.arange(NUM_QUANTILES, dtype=np.float64)
    return -natural_log(1.0 - (index + 0.5) / NUM_QUANTILES)


def zipf_masses(num_ids: int, exponent: float) -> NDArray[np.int64]:
    """Return each id's weight by Zipf's law, int64 [num_ids]: 2**40 / (id + 1) ** exponent, at least 1.

    A higher id never has a larger weight. Weights are integers, so that their sums are exact.
    """
    rank = np.arange(1, num_ids + 1, dtype=np.float64)
    power, root = np.ones_like(rank), rank
    eighths = round(exponent * ZIPF_STEPS_PER_ONE)
    for _ in range(eighths // ZIPF_STEPS_PER_ONE):
        power = power * rank
    for bit in (4, 2, 1):
        root = np.sqrt(root)
        if eighths % ZIPF_STEPS_PER_ONE & bit:
            power = power * root
    return np.maximum((_MASS_ONE / power).astype(np.int64), 1)


def inverse_zipf(masses: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the first id, and the number of ids, of each of 2**12 slices of equal probability: int64 [2**12] each.

    `masses` are the ids' weights. A sample draws a slice, then one of the slice's ids; both draws are uniform. A
    frequent id can fill several slices. Many rare ids share a slice, and are then equally probable within it.
    """
    edges = np.add.accumulate(masses)
    total = int(edges[-1])
    cuts = np.array([total * i // NUM_QUANTILES for i in range(NUM_QUANTILES + 1)], dtype=np.int64)
    first = np.searchsorted(edges, cuts[:-1], side="right")
    last = np.searchsorted(edges, cuts[1:] - 1, side="right")
    return first.astype(np.int64), np.maximum(last - first, 0).astype(np.int64) + 1


def slice_masses(num_ids: int, first: NDArray[np.int64], width: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the probability of each id, float64 [num_ids]. The arguments are the slices of equal probability that
    `inverse_zipf` returns: the first id and the number of ids of each."""
    steps = np.zeros(num_ids + 1, dtype=np.float64)
    share = 1.0 / (width * float(NUM_QUANTILES))
    np.add.at(steps, first, share)
    np.subtract.at(steps, first + width, share)
    return np.maximum(np.add.accumulate(steps)[:num_ids], 0.0)


def normals(key: int, count: int) -> NDArray[np.float64]:
    """Return `count` almost normal random numbers (mean 0, variance 1), each the sum of twelve 16-bit uniforms."""
    total = np.zeros(count, dtype=np.int64)
    words = hash_range(key, 0, 3 * count).reshape(3, count)
    for word in words:
        for shift in (0, 16, 32, 48):
            total += ((word >> np.uint64(shift)) & np.uint64(0xFFFF)).astype(np.int64)
    return (total.astype(np.float64) - 12 * 32767.5) / 65536.0


def uniforms(key: int, count: int) -> NDArray[np.float64]:
    """Return `count` uniform random numbers from [0, 1), determined by `key`: float64 [count]."""
    return (hash_range(key, 0, count) >> np.uint64(11)).astype(np.float64) / float(1 << 53)

"""Tests two groups of runs for a difference without assuming a distribution, and gives an effect size; both are
printed, but verdicts do not use them."""

from functools import lru_cache
from itertools import combinations
from math import comb

import numpy as np
from numpy.typing import NDArray

from reports.statistics.ratios import Floats

MAX_EXACT = 200_000
"""Largest number of rearrangements of runs that a permutation test tries in full (10 against 10 runs have 184,756).
If there are more, the test draws NUM_RANDOM of them."""
NUM_RANDOM = 20_000
_SEED = 20_200_715
# Sums of the same numbers in another order differ in their last digits by rounding; they count as ties.
_ROUNDING = 1e-12
_FEW = 1_000


def permutation_p(base: Floats, new: Floats, *, is_paired: bool) -> float:
    """Return the two-sided p-value of a permutation test of equal means: the share of rearrangements of the runs in
    which the means differ at least as much as they do in the measured arrangement.

    A rearrangement exchanges unpaired runs between the two groups, and changes the signs of differences of paired
    runs. If there are at most 200,000 rearrangements, all are tried. Else 20,000 are drawn with a fixed seed, and the
    measured arrangement is counted as well.
    """
    if is_paired:
        apart = new - base
        if 2 ** len(apart) <= MAX_EXACT:
            return _share_as_far(_signs(len(apart)) @ apart, float(apart.sum()))
        signs = np.random.default_rng(_SEED).choice([-1.0, 1.0], (NUM_RANDOM, len(apart)))
        return _share_as_far(signs @ apart, float(apart.sum()), num_extra=1)
    # Once values are centred on the common mean, the difference of means is linear in the sum of one group.
    together = np.concatenate([base, new])
    together = together - together.mean()
    observed = float(together[len(base) :].sum())
    if (number := comb(len(together), len(new))) <= MAX_EXACT:
        return _num_as_far(together, len(new), observed) / number
    generator = np.random.default_rng(_SEED)
    order = generator.permuted(np.tile(together, (NUM_RANDOM, 1)), axis=1)
    return _share_as_far(order[:, : len(new)].sum(axis=1), observed, num_extra=1)


def _share_as_far(sums: Floats, observed: float, num_extra: int = 0) -> float:
    scale = max(float(np.abs(sums).max()), abs(observed))
    as_far = int(np.count_nonzero(np.abs(sums) >= abs(observed) - _ROUNDING * scale))
    return (as_far + num_extra) / (len(sums) + num_extra)


def _num_as_far(values: Floats, chosen: int, observed: float) -> int:
    """Count the ways to choose `chosen` of the values such that their sum is at least as far from 0 as the sum
    `observed`. All values together add up to 0.

    If there are few ways, every sum is computed. If there are many, the values are divided into two halves, and all
    sums within each half are computed. Pairs of sums that are far enough from 0 are then counted by binary search.
    """
    ordered = np.sort(values)
    scale = max(abs(float(ordered[:chosen].sum())), abs(float(ordered[-chosen:].sum())), abs(observed))
    least = abs(observed) - _ROUNDING * scale
    if least <= 0:
        return comb(len(values), chosen)
    if comb(len(values), chosen) <= _FEW:
        return int(np.count_nonzero(np.abs(values[_choices(len(values), chosen)].sum(axis=1)) >= least))
    left, right = np.split(values, [len(values) // 2])
    number = 0
    for of_left in range(max(0, chosen - len(right)), min(chosen, len(left)) + 1):
        sums = left[_choices(len(left), of_left)].sum(axis=1)
        others = np.sort(right[_choices(len(right), chosen - of_left)].sum(axis=1))
        number += len(sums) * len(others) - int(np.searchsorted(others, least - sums, side="left").sum())
        number += int(np.searchsorted(others, -least - sums, side="right").sum())
    return number


@lru_cache(maxsize=64)
def _choices(number: int, chosen: int) -> NDArray[np.intp]:
    """Return the indices of each way to choose `chosen` out of `number` values, one row per way."""
    places = np.fromiter((place for row in combinations(range(number), chosen) for place in row), dtype=np.intp)
    return places.reshape(comb(number, chosen), chosen)


@lru_cache(maxsize=4)
def _signs(number: int) -> Floats:
    bits = (np.arange(2**number)[:, None] >> np.arange(number)) & 1
    return np.where(bits == 1, 1.0, -1.0)


def cliffs_delta(base: NDArray[np.float64], new: NDArray[np.float64]) -> float:
    """Return Cliff's delta (effect size): the share of pairs (base, new) in which new is larger, minus the share in
    which it is smaller."""
    return float(np.sign(np.subtract.outer(new, base)).mean())


def fisher_p(base_yes: int, num_base: int, new_yes: int, num_new: int) -> float:
    """Return the two-sided p-value of Fisher's exact test that two shares are equal: `base_yes` of `num_base` and
    `new_yes` of `num_new`.

    It is computed in whole numbers, so that ties are exact. scipy's function is not used because it computes with
    rounding, and takes most of a second to import.
    """
    total, yes = num_base + num_new, base_yes + new_yes
    weights = {
        k: comb(num_base, k) * comb(num_new, yes - k) for k in range(max(0, yes - num_new), min(num_base, yes) + 1)
    }
    return sum(weight for weight in weights.values() if weight <= weights[base_yes]) / comb(total, yes)

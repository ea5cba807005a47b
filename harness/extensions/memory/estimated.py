"""Miss ratios of long traces, estimated from several samples of their rows, each with its range."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from reference_models.data.traces.stack_distances import MissRatioCurve, find_rows, measure_curve, sample_rows
from reference_models.data.traces.trace import Ids

NUM_SAMPLES = 8
"""Samples of the rows, each of another seed."""
LEAST_SAMPLED = 200
"""Rows of a sample that a cache holds at least, on average, for its miss ratio to be estimated."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EstimatedCurve:
    """What LRU caches of every size miss: exactly, or as several samples of the rows say."""

    curves: tuple[MissRatioCurve, ...]
    """One that is exact, or one for each sample."""
    sampled: float
    """Share of the touched rows that are in a sample; 1 where the curve is exact."""
    mean_units: float = 1.0
    """Units of a touched row, on average; 1 where rows are alike."""
    grain: float = 0.0
    """Share of the lookups that one sampled lookup stands for, at most; 0 where the curve is exact."""

    @property
    def is_exact(self) -> bool:
        """Return whether all rows are counted."""
        return len(self.curves) == 1

    def ratios(self, num_units: int) -> tuple[float | None, float | None, float | None]:
        """Return the miss ratio of a cache of so many units, and the ends of the range in which the exact one is.

        A unit is a row where rows are alike. The range is that of the samples, and a half of it more on either side:
        distances that are estimated from few rows shift all samples alike. It is at least as much more as one sampled
        lookup stands for, since lookups that are as rare may be in none. All are the same where the curve is exact,
        and None where too few rows of a sample are in such a cache.
        """
        if not self.is_exact and num_units / self.mean_units * self.sampled < LEAST_SAMPLED:
            return None, None, None
        found = [curve.miss_ratio(num_units) for curve in self.curves]
        margin = max((max(found) - min(found)) / 2, self.grain)
        return sum(found) / len(found), max(0.0, min(found) - margin), min(1.0, max(found) + margin)


def estimate_curve(
    keys: Ids, sample_rate: float, seed: int, units_of: Callable[[Ids], Ids] | None = None
) -> EstimatedCurve:
    """Measure the curve of lookups of `keys` [lookups]: exactly at a `sample_rate` of 1, else by NUM_SAMPLES samples.

    Where a sample has all rows, the curve is exact. Other seeds give other samples. `units_of` is as `measure_curve`
    takes it.
    """
    if sample_rate == 1 or not len(keys):
        return EstimatedCurve(curves=(measure_curve([keys], None, units_of),), sampled=1.0)
    touched = find_rows(keys)
    seeds = range(seed * NUM_SAMPLES, (seed + 1) * NUM_SAMPLES)
    sample = sample_rows(touched, sample_rate, seeds[0])
    if sample.share == 1:
        return EstimatedCurve(curves=(measure_curve([keys], None, units_of),), sampled=1.0)

    def units_of_numbers(numbers: Ids) -> Ids:
        return np.ones(len(numbers), np.int64) if units_of is None else units_of(touched.keys[numbers])

    samples = [sample, *(sample_rows(touched, sample_rate, each) for each in seeds[1:])]
    curves = tuple(measure_curve([touched.numbers], each, units_of_numbers) for each in samples)
    mean_units = 1.0 if units_of is None else float(units_of(touched.keys).mean())
    grain = max(float(each.lookups.max()) for each in samples) / len(keys)
    return EstimatedCurve(curves=curves, sampled=sample.share, mean_units=mean_units, grain=grain)

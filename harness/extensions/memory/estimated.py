"""Estimate the miss ratios of row caches on long traces, with ranges, from several samples of the embedding rows."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from reference_models.data.traces.stack_distances import MissRatioCurve, find_rows, measure_curve, sample_rows
from reference_models.data.traces.trace import Ids

NUM_SAMPLES = 8
"""Number of samples of the embedding rows that a miss ratio is estimated from, each drawn with another seed."""
LEAST_SAMPLED = 200
"""Minimum number of sampled embedding rows that a cache must hold on average for its miss ratio to be estimated."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EstimatedCurve:
    """Miss ratios of LRU caches by cache size, exact or estimated from several samples of the embedding rows."""

    curves: tuple[MissRatioCurve, ...]
    """Miss-ratio curves: one if it is exact; otherwise one for each random sample of the rows from which it is
    estimated."""
    sampled: float
    """Share of all distinct rows looked up that one random sample of rows has; 1 if the miss-ratio curve is exact."""
    mean_units: float = 1.0
    """Mean size of the rows looked up. If tables differ in row size, it is in AccessTrace.unit_bytes; otherwise a row
    is the unit, and the size is 1."""
    grain: float = 0.0
    """Resolution of an estimated curve: the largest share of all lookups for which one sampled lookup stands. 0 if
    the curve is exact."""

    @property
    def is_exact(self) -> bool:
        """Return whether the miss ratios are counted from all rows, so that nothing is estimated."""
        return len(self.curves) == 1

    def ratios(self, num_units: int) -> tuple[float | None, float | None, float | None]:
        """Return the miss ratio of a cache of `num_units` units, and the lower and upper end of a range for the exact
        ratio. A unit is one row if all rows are of one size.

        The range runs from the smallest to the largest ratio of the samples of rows, widened on both sides. It is
        widened by half of its own width or, if this is more, by the share of lookups that one sampled lookup
        represents. For an exact curve all three ratios are equal. All three are None if fewer than LEAST_SAMPLED rows
        of a sample fit the cache.
        """
        if not self.is_exact and num_units / self.mean_units * self.sampled < LEAST_SAMPLED:
            return None, None, None
        found = [curve.miss_ratio(num_units) for curve in self.curves]
        margin = max((max(found) - min(found)) / 2, self.grain)
        return sum(found) / len(found), max(0.0, min(found) - margin), min(1.0, max(found) + margin)


def estimate_curve(
    keys: Ids, sample_rate: float, seed: int, units_of: Callable[[Ids], Ids] | None = None
) -> EstimatedCurve:
    """Measure the LRU miss ratios, by cache size, of lookups of the rows `keys` [lookups].

    The ratios are exact at a `sample_rate` of 1, and where a sample has all rows. Otherwise they are estimated from
    NUM_SAMPLES samples of the rows, which `seed` decides. `units_of` returns the size in units of the row of each
    key, as in `measure_curve`; None where all rows are of one size.
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

"""The law value = a * C ** -b + c, a, b, c >= 0, of a quantity that falls as more is computed.

For one exponent b the rest is linear, so every b of a grid is solved exactly, for all resamples at once: no starting
point, no local minimum, the same answer for the same numbers. The interval is a bootstrap over seeds. A seed's
deviations from the means are drawn together for all sizes, since sizes share seeds, and made larger by two factors:
sqrt(n / (n - 1)), which n deviations from their own mean lack, and that by which Student's t with n - 1 degrees of
freedom is wider than the normal, since so few seeds know their spread badly. Floors of resamples may be below zero,
where a bound would keep small exponents out of the interval. How often the interval holds an exponent
that was planted is simulated in `tests/test_reports/test_power_law.py`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from reports.statistics.distributions import student_quantile
from reports.statistics.intervals import Interval

Floats = NDArray[np.float64]
CONFIDENCE = 0.95
MIN_SIZES = 4
MIN_DECADES = 1.0
MIN_EXPONENT, MAX_EXPONENT = 1e-3, 5.0
"""What is searched; below the first, which a decade changes by 0.2 %, an exponent is zero."""
_RESAMPLES = 2000
_EXPONENTS = np.concatenate([[0.0], np.geomspace(MIN_EXPONENT, MAX_EXPONENT, 700)])
METHOD = "bootstrap over seeds"


@dataclass(frozen=True, kw_only=True, slots=True)
class PowerLaw:
    """A fitted law. `interval` is of the exponent; None with one seed, of which no spread is known."""

    exponent: float
    interval: Interval | None
    factor: float
    """a: what would be gained at a C of one."""
    floor: float
    """c: what no amount of computing goes below."""
    num_sizes: int
    num_seeds: int
    low: float
    """The least C, and the largest."""
    high: float

    @property
    def decades(self) -> float:
        return math.log10(self.high / self.low)

    def at(self, compute: float) -> float:
        """Compute the law's value."""
        return float(self.factor * compute**-self.exponent + self.floor)


def why_no_law(compute: Sequence[float]) -> str | None:
    """Say why sizes with these C have no law: too few of them, or too near to one another. None where they may."""
    sizes = sorted({value for value in compute if value > 0})
    if len(sizes) < MIN_SIZES:
        return f"{len(sizes)} different amounts of training FLOP, at least {MIN_SIZES} are needed"
    if (decades := math.log10(sizes[-1] / sizes[0])) < MIN_DECADES:
        return (
            f"training FLOP from {sizes[0]:.3g} to {sizes[-1]:.3g}, {decades:.2f} decades, at least {MIN_DECADES:g} "
            "is needed"
        )
    return None


def fit_power_law(compute: Sequence[float], values: Sequence[Sequence[float]], seed: int = 0) -> PowerLaw:
    """Fit `values` [size][seed], of sizes with training FLOP `compute`; all sizes have the same seeds.

    `seed` is of the resamples. Raises ValueError where `why_no_law` says why, or sizes differ in their seeds.
    """
    if (why := why_no_law(compute)) is not None:
        raise ValueError(why)
    observed = np.array(values, dtype=np.float64)
    if observed.ndim != 2 or len(observed) != len(compute):
        raise ValueError("every size needs the same number of values")
    cost = np.array(compute, dtype=np.float64)
    middle = math.exp(float(np.log(cost).mean()))
    num_sizes, num_seeds = observed.shape
    exponent, factor, floor = (part[0] for part in _solve(cost / middle, observed.mean(axis=1)[None, :]))
    interval = None
    if num_seeds > 1:
        exponents = _solve(cost / middle, _resampled(observed, seed), is_bounded=False)[0]
        ends = np.quantile(exponents, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
        low, high = min(float(ends[0]), float(exponent)), max(float(ends[1]), float(exponent))
        low = 0.0 if low <= MIN_EXPONENT else low
        interval = Interval(low=low, high=high, confidence=CONFIDENCE, method=METHOD)
    return PowerLaw(
        exponent=float(exponent),
        interval=interval,
        factor=float(factor * middle**exponent),
        floor=float(floor),
        num_sizes=num_sizes,
        num_seeds=num_seeds,
        low=float(cost.min()),
        high=float(cost.max()),
    )


def values_at(at: float, compute: Sequence[float], values: Sequence[Sequence[float]], seed: int) -> Floats | None:
    """Return what the laws fitted to resamples of `values` [size][seed] say at C = `at`; None with one seed.

    Of two models with resamples of their own, quantiles of the differences are an interval of the difference.
    """
    observed = np.array(values, dtype=np.float64)
    if observed.shape[1] < 2:
        return None
    _, factors, floors = _solve(np.array(compute) / at, _resampled(observed, seed), is_bounded=False)
    return np.asarray(factors + floors)


def _resampled(observed: Floats, seed: int) -> Floats:
    """Draw means of seeds [resample, size], of values [size, seed]."""
    num_seeds, high = observed.shape[1], (1 + CONFIDENCE) / 2
    scale = math.sqrt(num_seeds / (num_seeds - 1))
    scale *= float(student_quantile(num_seeds - 1, high)) / NormalDist().inv_cdf(high)
    means = observed.mean(axis=1)
    deviations = scale * (observed - means[:, None])
    drawn = np.random.default_rng(seed).integers(0, num_seeds, (_RESAMPLES, num_seeds))
    return np.asarray(means + deviations[:, drawn].mean(axis=2).T)


def _solve(cost: Floats, values: Floats, *, is_bounded: bool = True) -> tuple[Floats, Floats, Floats]:
    """Find the best b, a and c of each row of `values` [num_rows, num_sizes] by least squares.

    Where it `is_bounded`, no c is below zero.
    """
    mean = values.mean(axis=1)
    best = np.square(values - mean[:, None]).sum(axis=1)  # b = 0: nothing is gained
    found = np.zeros((3, len(values)))
    found[2] = mean
    for exponent in _EXPONENTS[1:]:
        power = cost**-exponent
        centred = power - power.mean()
        slope = values @ centred / (centred @ centred)
        floor = mean - slope * power.mean()
        if is_bounded:  # below zero there is no entropy: then the law has no floor at all
            is_below = floor < 0
            slope = np.where(is_below, values @ power / (power @ power), slope)
            floor = np.where(is_below, 0.0, floor)
        errors = np.square(values - slope[:, None] * power - floor[:, None]).sum(axis=1)
        better = (slope > 0) & (errors < best)
        best = np.where(better, errors, best)
        for row, part in zip(found, (np.full_like(slope, exponent), slope, floor), strict=True):
            row[better] = part[better]
    return found[0], found[1], found[2]

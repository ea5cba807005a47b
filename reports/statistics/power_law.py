"""Fits the scaling law value = a * C ** -b + c, with a, b, c >= 0, to a quantity that falls as more compute C
(training FLOP) is spent.

For a given exponent b, the best a and c follow from a linear fit. So every b of a grid is solved exactly, for all
resamples at once, and the best b is refined between its neighbours by golden section. This needs no starting point
and ends in no local minimum. The limit b -> 0 with a -> infinity is the logarithmic law, which has no floor c.

The confidence interval of b is a bootstrap over seeds. All sizes (models of different compute) share seeds, so a
seed's deviations from the means are drawn together for all sizes. They are scaled by sqrt(n / (n - 1)) for n seeds,
and by the ratio of Student's t to the normal quantile, since few seeds show too little spread. The floor c of a
resample may be below zero, since a bound would keep small exponents out of the interval. The coverage is simulated in
`tests/core/test_reports/test_power_law.py`.

Whether the sizes follow a law is decided by an F test of lack of fit (Draper and Smith, "Applied Regression
Analysis", section 2.1). It compares the residuals of the sizes' means from the best curve with the noise between
seeds. An offset of a seed that is equal in all sizes is no noise: it changes only c.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from reports.statistics.distributions import f_tail, student_quantile
from reports.statistics.intervals import Interval, mean_interval

Floats = NDArray[np.float64]
CONFIDENCE = 0.95
MIN_SIZES = 4
MIN_DECADES = 1.0
MIN_EXPONENT = 1e-3
"""Smallest exponent b that the fit of a scaling law searches."""
MAX_EXPONENT = 5.0
"""Largest exponent b that the fit of a scaling law searches."""
_LOGARITHM = 0.01
"""Exponent b up to which a scaling law a * C ** -b + c counts as logarithmic. If the lower end of the interval of b
is at most this value, the lower end is set to 0. With this exponent the slope against log C, constant for a
logarithmic law, changes by only 2 % over a decade of C."""
_RESAMPLES = 2000
_EXPONENTS = np.geomspace(MIN_EXPONENT, MAX_EXPONENT, 200)
_NUM_SECTIONS = 30
_GOLDEN = (math.sqrt(5) - 1) / 2
_ALIKE = 1.1
"""Ratio of training FLOP below which two configurations count as models of one size."""
LACK_OF_FIT = 0.001
"""p-value of the F test of lack of fit below which model sizes are said not to follow a scaling law."""
_NUM_FREE = 3
"""Number of free parameters of the scaling law: a, b and c."""
_IMMATERIAL = 1e-4
"""Floor of the noise in the test of lack of fit, for seeds that hardly differ. It is the residual of the sizes' means
from a fitted law, as a fraction of the range of the means."""
METHOD = "bootstrap over seeds"


@dataclass(frozen=True, kw_only=True, slots=True)
class PowerLaw:
    """Fitted scaling law a * C ** -b + c. `interval` is the interval of the exponent b; None with one seed, since the
    spread over seeds is then not known."""

    exponent: float
    interval: Interval | None
    factor: float
    """Factor a of the scaling law: the reducible part of the value at C = 1 FLOP."""
    floor: float
    """Floor c of the scaling law: the limit of the value for large C."""
    num_sizes: int
    num_seeds: int
    low: float
    """Smallest C (training FLOP) that the law was fitted to."""
    high: float
    """Largest C (training FLOP) that the law was fitted to."""
    gain: float
    """Decrease of the measured value from the smallest C (training FLOP) to the largest."""
    gain_interval: Interval | None
    """Confidence interval of the quantity's decrease from the least compute to the most, computed from the decrease
    at each seed; None with one seed."""
    misfit_chance: float | None
    """p-value of the F test that the model sizes do not follow the fitted scaling law (lack of fit); None with one
    seed."""

    @property
    def decades(self) -> float:
        return math.log10(self.high / self.low)

    def at(self, compute: float) -> float:
        """Return the fitted law's value at C = `compute` training FLOP."""
        return float(self.factor * compute**-self.exponent + self.floor)


def are_alike(compute: float, other: float) -> bool:
    """Return whether two amounts of training FLOP count as one model size: they differ by less than 10 %."""
    return max(compute, other) < _ALIKE * min(compute, other)


def why_no_law(compute: Sequence[float]) -> str | None:
    """Return the reason why no scaling law can be fitted to sizes with these training FLOP (too few, or too close);
    None if one can."""
    sizes: list[float] = []
    for value in sorted(value for value in compute if value > 0):
        if not sizes or not are_alike(value, sizes[-1]):
            sizes.append(value)
    if len(sizes) < MIN_SIZES:
        return f"{len(sizes)} different amounts of training FLOP, at least {MIN_SIZES} are needed"
    if (decades := math.log10(sizes[-1] / sizes[0])) < MIN_DECADES:
        return (
            f"training FLOP from {sizes[0]:.3g} to {sizes[-1]:.3g}, {decades:.2f} decades, at least {MIN_DECADES:g} "
            "is needed"
        )
    return None


def fit_power_law(compute: Sequence[float], values: Sequence[Sequence[float]], seed: int = 0) -> PowerLaw:
    """Fit a scaling law to `values` [size][seed] of models, one model per size, with training FLOP `compute` per
    size. All sizes have the same seeds.

    `seed` is the seed of the bootstrap. Raises ValueError if there are too few sizes, if their compute is too close,
    or if they differ in their seeds.
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
    gains = observed[cost.argmin()] - observed[cost.argmax()]
    interval = None
    if num_seeds > 1:
        exponents = _solve(cost / middle, _resampled(observed, seed), is_bounded=False)[0]
        ends = np.quantile(exponents, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
        low, high = min(float(ends[0]), float(exponent)), max(float(ends[1]), float(exponent))
        low = 0.0 if low <= _LOGARITHM else low
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
        gain=float(gains.mean()),
        gain_interval=mean_interval(gains),
        misfit_chance=_misfit_chance(cost / middle, observed),
    )


def _misfit_chance(cost: Floats, observed: Floats) -> float | None:
    """Return the p-value of the F test of lack of fit of a scaling law to `observed` [size, seed]; None with one
    seed."""
    num_sizes, num_seeds = observed.shape
    if num_seeds < 2:
        return None
    means = observed.mean(axis=1)
    exponent, factor, floor = _solve(cost, means[None, :], is_bounded=False)
    left = float(np.square(means - factor * cost**-exponent - floor).sum()) / (num_sizes - _NUM_FREE)
    between = observed - means[:, None] - observed.mean(axis=0) + observed.mean()
    degrees = (num_sizes - 1) * (num_seeds - 1)
    pure = float(np.square(between).sum()) / degrees / num_seeds
    least = (_IMMATERIAL * float(np.ptp(means))) ** 2
    return float(f_tail(num_sizes - _NUM_FREE, degrees, left / max(pure, least, 1e-300)))


def values_at(at: float, compute: Sequence[float], values: Sequence[Sequence[float]], seed: int) -> Floats | None:
    """Return the values at C = `at` FLOP of scaling laws fitted to bootstrap resamples of `values` [size][seed]; None
    with one seed.

    The confidence interval of the difference between two models is made of quantiles of the differences between their
    returned values.
    """
    observed = np.array(values, dtype=np.float64)
    if observed.shape[1] < 2:
        return None
    _, factors, floors = _solve(np.array(compute) / at, _resampled(observed, seed), is_bounded=False)
    return np.asarray(factors + floors)


def _resampled(observed: Floats, seed: int) -> Floats:
    """Return bootstrap resamples over seeds of the sizes' means [resample, size], from values [size, seed]."""
    num_seeds, high = observed.shape[1], (1 + CONFIDENCE) / 2
    scale = math.sqrt(num_seeds / (num_seeds - 1))
    scale *= float(student_quantile(num_seeds - 1, high)) / NormalDist().inv_cdf(high)
    means = observed.mean(axis=1)
    deviations = scale * (observed - means[:, None])
    drawn = np.random.default_rng(seed).integers(0, num_seeds, (_RESAMPLES, num_seeds))
    return np.asarray(means + deviations[:, drawn].mean(axis=2).T)


def _solve(cost: Floats, values: Floats, *, is_bounded: bool = True) -> tuple[Floats, Floats, Floats]:
    """Return the best b, a and c of the law a * C ** -b + c for each row of `values` [num_rows, num_sizes], by least
    squares.

    With `is_bounded`, c is at least zero.
    """
    num_rows, mean = len(values), values.mean(axis=1)
    flat = np.square(values - mean[:, None]).sum(axis=1)  # errors of a constant, b = 0
    best, place = flat, np.full(num_rows, -1)
    for index, exponent in enumerate(_EXPONENTS):
        errors = _with_exponent(cost, values, np.array([exponent]), is_bounded=is_bounded)[0]
        better = errors < best
        best, place = np.where(better, errors, best), np.where(better, index, place)
    low, high = (_EXPONENTS[np.clip(place + step, 0, len(_EXPONENTS) - 1)] for step in (-1, 1))
    for _ in range(_NUM_SECTIONS):
        inner, outer = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
        inner_errors, outer_errors = (
            _with_exponent(cost, values, each, is_bounded=is_bounded)[0] for each in (inner, outer)
        )
        is_inner = inner_errors < outer_errors
        low, high = np.where(is_inner, low, inner), np.where(is_inner, outer, high)
    exponents = (low + high) / 2
    errors, slope, floor = _with_exponent(cost, values, exponents, is_bounded=is_bounded)
    edge = _EXPONENTS[np.clip(place, 0, None)]
    at_edge = _with_exponent(cost, values, edge, is_bounded=is_bounded)
    is_edge = at_edge[0] <= errors  # the best b of the grid is an end of it, or refining did not help
    exponents = np.where(is_edge, edge, exponents)
    slope, floor = np.where(is_edge, at_edge[1], slope), np.where(is_edge, at_edge[2], floor)
    is_flat = place < 0
    return np.where(is_flat, 0.0, exponents), np.where(is_flat, 0.0, slope), np.where(is_flat, mean, floor)


def _with_exponent(
    cost: Floats, values: Floats, exponents: Floats, *, is_bounded: bool
) -> tuple[Floats, Floats, Floats]:
    """Return, for each row of `values`, the squared error, a and c of the best scaling law a * C ** -b + c with a
    given exponent b. `exponents` has one b per row, or one for all rows. The error is infinite if the law would not
    fall with C. With `is_bounded`, c is at least zero."""
    power = cost[None, :] ** -exponents[:, None]
    centred, mean = power - power.mean(axis=1, keepdims=True), values.mean(axis=1)
    slope = (values * centred).sum(axis=1) / np.square(centred).sum(axis=1)
    floor = mean - slope * power.mean(axis=1)
    if is_bounded:  # entropy is never below zero, so a negative floor becomes 0
        is_below = floor < 0
        slope = np.where(is_below, (values * power).sum(axis=1) / np.square(power).sum(axis=1), slope)
        floor = np.where(is_below, 0.0, floor)
    errors = np.square(values - slope[:, None] * power - floor[:, None]).sum(axis=1)
    return np.where(slope > 0, errors, np.inf), slope, floor

"""Computes the noise of a result set: the shares of convergence, speed and overhead in the spread of its times to
train, and the smallest difference to another set that a comparison would detect.

The page and the commands `score` and `run` show the noise before any comparison. The spread is taken as at least the
resolution of the evaluations, and a detectable difference as at least the smallest effect of interest. Verdicts of
comparisons have the same two lower limits.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reports.results.measured import rate_summary
from reports.results.result import Repetition, Result
from reports.statistics.distributions import chi_square_quantile
from reports.statistics.intervals import MIN_RUNS, spread_shares
from reports.statistics.power import FIRST_LEVEL, Design, smallest_apart, smallest_difference
from reports.statistics.ratios import sample_variance
from rules.records.load import BUSY_SHARE

STEADY_SPEED = 0.05
"""Coefficient of variation of runs' speed above which the speed is called unsteady; quiet systems show 0.001 to
0.005."""
ASSUMED_DRIFT = 0.2
"""Assumed drift of speed between sets measured one after the other, as a fraction; used where no drift was
measured."""
_Turns = tuple[float | None, float | None, float | None]
"""Detectable difference of two sets measured alternately (A/B), and the ends of its 95 % range; each is None where it
is unknown."""
_NO_TURNS: _Turns = (None, None, None)
_LEVEL = 0.05
"""Significance level of a test that needs no correction for multiple tests, such as that of a measurement of one
quantity."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Shares:
    """Shares of convergence, speed and overhead in the variance of the logarithm of the time to train. The three
    shares add up to 1. A negative share means that this factor offsets the others."""

    convergence: float
    speed: float
    overhead: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Smallest:
    """Detectable difference of two sets: the smallest true difference that a comparison finds with 80 % power. It is
    a fraction; for a quality, it is in the quality's unit.

    `apart` is for two sets measured one after the other. `in_turns` is for two sets measured alternately (A/B), in
    pairs of runs with equal seeds that need equal samples to converge; it is None for a quantity that differs even
    between runs of equal seed. `in_turns` is estimated from few runs, so its true value is between `in_turns_low` and
    `in_turns_high` with 95 % confidence.
    """

    apart: float
    in_turns: float | None = None
    in_turns_low: float | None = None
    in_turns_high: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Noise:
    """Noise of a set with `num_runs` converged runs: the shares of convergence, speed and overhead in the spread of
    the times to train, and the detectable differences in time and in throughput. A member is None if there are too
    few runs for it, or if logs lack a value."""

    num_runs: int
    shares: Shares | None
    time: Smallest | None
    throughput: Smallest | None


def noise_of(samples: Sequence[Repetition], *, min_effect: float, tolerances: Mapping[str, float]) -> Noise:
    """Return the noise of converged runs: the shares of convergence, speed and overhead in the spread of their times,
    and the differences in time and throughput that can be detected between two sets of as many runs."""
    time, speed, num_samples = (
        _logs(samples, name) for name in ("time_to_train", "throughput", "samples_to_converge")
    )
    grid, pairs = _step(samples, "time_to_train"), _NO_TURNS
    apart = None if time is None else _apart(time, grid, min_effect, tolerances["time_to_train"])
    if time is not None and num_samples is not None:
        # Pairs of runs that need equal samples have equal curves, so the evaluations' grid sets no least spread.
        pairs = _in_turns(time - num_samples, 0.0, min_effect)
    step, tolerance = _step(samples, "throughput"), tolerances["throughput"]
    return Noise(
        num_runs=len(samples),
        shares=_shares(samples),
        time=None if apart is None else _smallest(apart, pairs),
        throughput=None if speed is None else _of_rates(speed, step, min_effect, tolerance),
    )


def noise_of_rates(
    rates: Sequence[float], *, min_effect: float, tolerance: float, step: float = 0.0
) -> Smallest | None:
    """Return the detectable difference between two sets of a rate that is measured in several processes. None if
    processes are too few, or a rate is 0 or less."""
    logs = _logarithms(rates)
    return None if logs is None else _of_rates(logs, step, min_effect, tolerance, level=_LEVEL)


def noise_of_values(values: Sequence[float], *, min_effect: float) -> Smallest | None:
    """Return the detectable difference of a quantity that is compared by differences and does not drift, such as
    quality. None if values are too few, or a value is not finite."""
    if len(values) < MIN_RUNS or not all(map(math.isfinite, values)):
        return None
    design = Design(spread=float(np.std(values, ddof=1)), num_base=len(values), num_new=len(values))
    return Smallest(apart=math.log1p(smallest_difference(design, _LEVEL, min_effect)))


def spread_reach(num_runs: int, degrees: float | None = None) -> tuple[float, float]:
    """Return both ends of the 95 % range of the true standard deviation, as multiples of the standard deviation that
    was measured from `num_runs` runs (at least 2).

    `degrees` are the degrees of freedom, by default `num_runs` - 1.
    """
    degrees = num_runs - 1 if degrees is None else degrees
    return math.sqrt(degrees / chi_square_quantile(degrees, 0.025)), math.sqrt(
        degrees / chi_square_quantile(degrees, 0.975)
    )


def is_speed_unsteady(speed_cv: float, num_runs: int) -> bool:
    """Return whether the coefficient of variation of runs' speed exceeds STEADY_SPEED with 95 % confidence, given the
    number of runs that it was measured from."""
    return num_runs > 1 and spread_reach(num_runs)[0] * speed_cv > STEADY_SPEED


def is_disturbed(result: Result) -> bool:
    """Return whether a result was measured on a noisy machine. There are three signs of noise, and one is enough.
    Other processes kept more than a tenth of the CPUs busy (BUSY_SHARE). A run is an outlier in speed. The speed
    varied much between runs or processes (`is_speed_unsteady`).

    If the share of CPUs kept busy by other processes is not on record, the load average before the first run stands
    for it. The load average may include the load of an earlier command of the same user.
    """
    if _is_shared(result):
        return True
    if result.is_logged and result.outliers:
        return True
    speed = result.speed if result.is_logged else rate_summary(result)
    speed_cv = None if speed is None else speed.coefficient_of_variation
    return speed_cv is not None and is_speed_unsteady(
        speed_cv, result.num_converged if result.is_logged else result.num_runs
    )


def _is_shared(result: Result) -> bool:
    """Return whether other processes kept more than BUSY_SHARE of the CPUs busy, on average over a result's runs."""
    loads = [(load, load.other_cpus) for load in result.loads if load is not None and load.other_cpus is not None]
    if measured_s := sum(load.duration_s for load, _ in loads):
        share = sum(load.duration_s * others / load.num_cpus for load, others in loads) / measured_s
        return share > BUSY_SHARE
    checks = () if result.asked is None else result.asked.preflight
    return any(check.name == "load" and check.status == "warning" for check in checks)


def _of_rates(
    logs: NDArray[np.float64], step: float, min_effect: float, tolerance: float, level: float = FIRST_LEVEL
) -> Smallest | None:
    apart = _apart(logs, step, min_effect, tolerance, level)
    return None if apart is None else _smallest(apart, _in_turns(logs, step, min_effect, level))


def _smallest(apart: float, in_turns: _Turns) -> Smallest:
    middle, low, high = in_turns
    return Smallest(apart=apart, in_turns=middle, in_turns_low=low, in_turns_high=high)


def _apart(
    logs: NDArray[np.float64], step: float, min_effect: float, tolerance: float, level: float = FIRST_LEVEL
) -> float | None:
    if len(logs) < MIN_RUNS:
        return None
    spread, number = math.sqrt(float(sample_variance(logs, step))), len(logs)
    return smallest_apart(spread, number, number, level=level, min_effect=min_effect, tolerance=tolerance)


def _in_turns(logs: NDArray[np.float64], step: float, min_effect: float, level: float = FIRST_LEVEL) -> _Turns:
    """Return the smallest difference that is detected with 80 % power in pairs of runs, made one directly after the
    other, and both ends of the 95 % range of this difference.

    The spread of pairs is estimated from differences between successive runs of the set, since noise that lasts
    longer than a run affects both runs of a pair alike.
    """
    if (number := len(logs)) < MIN_RUNS:
        return _NO_TURNS
    floor = float(sample_variance(np.zeros(number), step))
    spread = math.sqrt(max(float(np.square(np.diff(logs)).mean()), floor))
    # Successive differences share runs, which lowers the degrees of freedom of their mean square (von Neumann 1941).
    reach = spread_reach(number, degrees=2 * (number - 1) ** 2 / (3 * number - 4))
    middle, low, high = (
        smallest_difference(
            Design(spread=factor * spread, num_base=number, num_new=number, is_paired=True),
            level,
            math.log1p(min_effect),
        )
        for factor in (1.0, *reach)
    )
    return middle, low, high


def _shares(samples: Sequence[Repetition]) -> Shares | None:
    columns = [
        [sample.values.get(name, math.nan) for sample in samples]
        for name in ("time_to_train", "samples_to_converge", "throughput", "overhead")
    ]
    times, num_samples, rates, overheads = columns
    found = spread_shares(times, [num_samples, [1 / rate if rate else math.nan for rate in rates], overheads])
    if found is None:
        return None
    convergence, speed, overhead = found
    return Shares(convergence=convergence, speed=speed, overhead=overhead)


def _logs(samples: Sequence[Repetition], name: str) -> NDArray[np.float64] | None:
    return _logarithms([sample.values.get(name, math.nan) for sample in samples])


def _logarithms(values: Sequence[float]) -> NDArray[np.float64] | None:
    known = all(math.isfinite(value) and value > 0 for value in values)
    return np.log(np.asarray(values, dtype=np.float64)) if known and len(values) > 1 else None


def _step(samples: Sequence[Repetition], name: str) -> float:
    return float(np.mean([sample.steps.get(name, 0.0) for sample in samples])) if samples else 0.0

"""Computes the resolution (grid) of a run's values, as fractions of the values, for comparisons and intervals.

A run ends at an evaluation, so its time and samples have the resolution of the evaluations; other values have the
clock's. Interpolated samples have no grid.
"""

import math
from collections.abc import Callable, Iterable, Sequence

from reports.statistics.time_to_target import smoothed_crossing
from rules.scoring.results import Evaluation, RunResult

_CLOCK_STEP_S = 1e-3


def time_step(run: RunResult) -> float:
    """Return the resolution of a run's time to train: the time between its last two evaluations as a fraction of it;
    the clock's where unknown."""
    gap_s = _gap([evaluation.elapsed_s for evaluation in run.evaluations[-2:]])
    return _share(gap_s, run.time_to_train_s, _CLOCK_STEP_S)


def samples_step(run: RunResult) -> float:
    """Return the resolution of a run's samples to converge: those between its last two evaluations as a fraction; one
    sample if unknown."""
    gap = _gap([_trained(evaluation, run.train_samples) for evaluation in run.evaluations[-2:]])
    return _share(gap, run.samples_to_converge, 1.0)


def clock_step(run: RunResult) -> float:
    """Return the resolution of a run's training time: the clock's millisecond as a fraction of that time."""
    return _share(_CLOCK_STEP_S, run.train_s, _CLOCK_STEP_S)


def mean_step(step: Callable[[RunResult], float], runs: Iterable[RunResult]) -> float:
    """Return the mean resolution of runs' values, by the function `step` of a run; 0 without runs."""
    steps = [step(run) for run in runs]
    return math.fsum(steps) / len(steps) if steps else 0.0


def smoothed_samples(run: RunResult) -> float | None:
    """Return a run's samples to converge, interpolated by a line through the last evaluations; never used for scores.

    None for a run that did not converge, and where the line does not meet the target near the last evaluation.
    """
    trained = [_trained(evaluation, run.train_samples) for evaluation in run.evaluations]
    samples = [value for value in trained if value is not None]
    if not run.converged or run.quality_target is None or len(samples) < len(trained):
        return None
    return smoothed_crossing(samples, [evaluation.quality for evaluation in run.evaluations], run.quality_target)


def _trained(evaluation: Evaluation, train_samples: int | None) -> float | None:
    if evaluation.samples_count is not None:
        return float(evaluation.samples_count)
    return evaluation.epoch_num * train_samples if evaluation.epoch_num is not None and train_samples else None


def _gap(ends: Sequence[float | None]) -> float | None:
    """Return the distance between a run's last two evaluations; for a single evaluation, from the start. None if
    unknown."""
    known = [end for end in ends if end is not None]
    if not known or len(known) != len(ends):
        return None
    gap = known[-1] - (known[0] if len(known) > 1 else 0.0)
    return gap if math.isfinite(gap) and gap > 0 else None


def _share(step: float | None, value: float | None, least: float) -> float:
    """Return a resolution `step`, or `least` where it is None, as a fraction of `value`, at most 1; 0 without a
    positive value."""
    if value is None or not math.isfinite(value) or value <= 0:
        return 0.0
    return min((step if step is not None else least) / value, 1.0)

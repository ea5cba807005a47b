"""Computes the resolution of a run's values, as a fraction of the values, for comparisons and intervals. The
resolution is the distance between neighbouring values that can occur.

A run ends at an evaluation, so its time and its samples to converge have the resolution of the evaluations. Other
values have the resolution of the clock. Samples interpolated between evaluations can have any value.
"""

import math
from collections.abc import Callable, Iterable, Sequence

from reports.statistics.time_to_target import smoothed_crossing
from rules.scoring.results import Evaluation, RunResult

_CLOCK_STEP_S = 1e-3


def time_step(run: RunResult) -> float:
    """Return the resolution of a run's time to train, as a fraction of that time: the time between the run's last two
    evaluations, or, where the times of evaluations are unknown, the resolution of the clock."""
    gap_s = _gap([evaluation.elapsed_s for evaluation in run.evaluations[-2:]])
    return _share(gap_s, run.time_to_train_s, _CLOCK_STEP_S)


def samples_step(run: RunResult) -> float:
    """Return the resolution of a run's samples to converge, as a fraction of them: the number of samples between the
    run's last two evaluations, or one sample where the evaluations' sample counts are unknown."""
    gap = _gap([_trained(evaluation, run.train_samples) for evaluation in run.evaluations[-2:]])
    return _share(gap, run.samples_to_converge, 1.0)


def clock_step(run: RunResult) -> float:
    """Return the resolution of a run's training time: the clock's millisecond as a fraction of that time."""
    return _share(_CLOCK_STEP_S, run.train_s, _CLOCK_STEP_S)


def mean_step(step: Callable[[RunResult], float], runs: Iterable[RunResult]) -> float:
    """Return the mean resolution of runs' values, where `step` returns the resolution of one run's value; 0 without
    runs."""
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
    """Return the distance between the last two evaluations of a run, in time or in samples. `ends` has the time or
    the sample count of each evaluation. If there is only one evaluation, return its distance from the run's start.
    None if a time or count is unknown, or if the distance is not positive."""
    known = [end for end in ends if end is not None]
    if not known or len(known) != len(ends):
        return None
    gap = known[-1] - (known[0] if len(known) > 1 else 0.0)
    return gap if math.isfinite(gap) and gap > 0 else None


def _share(step: float | None, value: float | None, least: float) -> float:
    """Return `step`, the distance between two possible values, as a fraction of `value`, at most 1; 0 if `value` is
    not positive. If `step` is None, `least` takes its place."""
    if value is None or not math.isfinite(value) or value <= 0:
        return 0.0
    return min((step if step is not None else least) / value, 1.0)

"""Test a result against reference convergence points (RCPs): whether it converged too fast, and how its time is
normalised.

The arithmetic is that of mlperf_logging.rcp_checker 4.1.68, with which published scores were computed: prune,
interpolate, one-sided two-sample t-test at 5 % on Olympic means, normalise. This module never reads or writes
scaling.json. The rule's text is training_rules.adoc, "RCP".
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct, field

from rules.benchmarks.loader import Benchmark, shipped_versions
from rules.errors import DefinitionError
from rules.logs import keys
from rules.scoring.good_sets import DIGITS, failing_share, failing_words

ALPHA = 0.05
IMPOSSIBLE = 1e-4
"""Probability threshold for benchmarks that are not MLPerf's: if a set's fast convergence is less probable than this,
it is no longer explained by luck."""
_TOLERANCE = 0.0001
_NOT_CONVERGED = 1e9
"""Epochs (or samples) to converge that the official tool assigns to a run that did not converge."""
_MOST = 1e15
_ADDED_LATER = {("dlrm_dcnv2", "3.0"): (55_296, 135_168)}
"""Batch sizes of reference convergence points that were added after the results of a round had been uploaded: a dict
from benchmark and round to the batch sizes. Published factors do not include these points. Round 3.0's results were
uploaded on 2023-06-19, and the points were added on 2023-06-27 (mlcommons/logging#316, 237f7a9)."""
RcpStatus = Literal["passed", "failed", "missing", "none"]
Unit = Literal["epochs", "samples"]


@dataclass(frozen=True, kw_only=True, slots=True)
class ReferencePoint:
    """Reference convergence point: how many epochs reference runs at one batch size need to converge. `mean` is their
    Olympic mean, `stdev` their standard deviation, and `min_epochs` the lowest mean that a result may have.
    `num_runs` is 0 for an interpolated point.

    "Epochs" are in the benchmark's convergence unit, which for dlrmv4 is samples. `stdev` is over all runs, as in the
    official tool. The rule's worked example differs: it leaves out the fastest and the slowest run.
    """

    name: str
    global_batch_size: int
    mean: float
    stdev: float
    min_epochs: float
    num_runs: int
    epochs: tuple[float, ...] = ()
    """Epochs to converge of each reference run at the point's batch size; empty for an interpolated point."""

    @property
    def max_speedup(self) -> float:
        return self.mean / self.min_epochs


@dataclass(frozen=True, kw_only=True, slots=True)
class Convergence:
    """Outcome of testing a result set against reference convergence points. `factor` multiplies the set's time to
    train. It is 1 or more, and above 1 only if the set converged faster than the reference. `mean_epochs` is the
    set's Olympic mean of epochs to converge, in `unit`. The status "none" means that there are no points to test
    against."""

    status: RcpStatus
    reason: str
    factor: float
    mean_epochs: float | None
    point: ReferencePoint | None
    unit: Unit = "epochs"
    failing_share: float | None = None
    """Chance of a false alarm of the convergence test: the share of sets drawn from the reference runs at this batch
    size that would fail the test. None for MLPerf's benchmarks."""
    chance: float | None = None
    """Probability that a result set's mean epochs to converge would be as low as measured, or lower, by luck. None
    for MLPerf's benchmarks."""
    factor_at_upload: float | None = None
    """Normalisation factor of the score as it was when the round's results were submitted, without reference points
    added later. None if it equals `factor`."""


def olympic(values: Sequence[float]) -> float:
    import numpy as np

    return float(np.mean(sorted(values)[1:-1]))


def p_value(mean: float, stdev: float, num: int, ref_mean: float, ref_stdev: float, ref_num: int) -> float:
    """Return a p-value: the probability that a mean of epochs to converge is as low as the result's, or lower, if the
    runs of result and reference had the same true mean. It is from a two-sample t-test with pooled variance."""
    from scipy.special import stdtr

    freedom = num + ref_num - 2
    variance = ((num - 1) * stdev**2 + (ref_num - 1) * ref_stdev**2) / freedom
    return float(stdtr(freedom, (mean - ref_mean) / (variance * (1 / num + 1 / ref_num)) ** 0.5))


def chance_of(mean: float, num_runs: int, point: ReferencePoint, step: float) -> float:
    """Return the probability that the Olympic mean of `num_runs` epochs to converge is `mean` or lower by luck, if
    the runs converge as the reference runs of `point` do.

    `step` is the distance between evaluations, in the unit of convergence. The standard deviation is taken as at
    least half a step, because a run's convergence is known only as the evaluation at which it met the target.
    Otherwise reference runs that all met the target at the same evaluation would make an earlier evaluation
    impossible.
    """
    stdev = max(point.stdev, step / 2)
    return p_value(mean, stdev, num_runs - 2, point.mean, stdev, point.num_runs - 2)


def min_acceptable_mean(mean: float, stdev: float, num_ref: int, num_runs: int) -> float:
    """Return the lowest mean of a result's epochs to converge that the convergence test accepts, given the
    reference's `mean`. It is found by bisection to 0.0001, as in the official tool.

    `num_ref` is the number of reference runs in the reference's mean. `num_runs` is the number of runs of a result;
    Olympic scoring drops 2 of them. The standard deviation `stdev` is assumed for both the reference and the result.
    """
    if stdev == 0:
        return mean
    low, high = 0.0, mean
    middle = (low + high) / 2
    while high - low > _TOLERANCE:
        if p_value(middle, stdev, num_ref, mean, stdev, num_runs - 2) > ALPHA:
            high = middle
        else:
            low = middle
        middle = (low + high) / 2
    return middle


def make_reference_point(name: str, batch_size: int, epochs: Sequence[float], num_runs: int) -> ReferencePoint:
    import numpy as np

    mean, stdev = olympic(epochs), float(np.std(epochs))
    return ReferencePoint(
        name=name,
        global_batch_size=batch_size,
        mean=mean,
        stdev=stdev,
        min_epochs=min_acceptable_mean(mean, stdev, len(epochs) - 2, num_runs),
        num_runs=len(epochs),
        epochs=tuple(epochs),
    )


def interpolate(batch_size: int, low: ReferencePoint, high: ReferencePoint, num_runs: int) -> ReferencePoint:
    """Return the reference convergence point for a batch size, interpolated between the points `low` and `high`. Its
    `min_epochs` is computed as if 2 * `num_runs` reference runs had been made at that batch size."""
    import numpy as np

    sizes = [low.global_batch_size, high.global_batch_size]
    mean = float(np.interp(batch_size, sizes, [low.mean, high.mean]))
    stdev = float(np.interp(batch_size, sizes, [low.stdev, high.stdev]))
    return ReferencePoint(
        name=f"between {low.name} and {high.name}",
        global_batch_size=batch_size,
        mean=mean,
        stdev=stdev,
        min_epochs=min_acceptable_mean(mean, stdev, num_runs * 2, num_runs),
        num_runs=0,
    )


def prune(points: Sequence[ReferencePoint], num_runs: int) -> tuple[ReferencePoint, ...]:
    """Return the reference convergence points to test against; the others are removed, as in the official tool.
    First, the points at smaller batch sizes than that of the point with the fewest epochs to converge are removed.
    Then each point that needs more epochs than interpolation between its two neighbours gives is removed.

    The official loop does not look at earlier points again after a removal, so the points may differ from the lower
    convex hull (mlcommons/logging#368).
    """
    kept = sorted(points, key=lambda point: point.global_batch_size)
    fastest = min(kept, key=lambda point: point.mean)
    kept = [point for point in kept if point.global_batch_size >= fastest.global_batch_size]
    index = 1
    while index < len(kept) - 1:
        between = interpolate(kept[index].global_batch_size, kept[index - 1], kept[index + 1], num_runs)
        if kept[index].mean > between.mean:
            del kept[index]
        else:
            index += 1
    return tuple(kept)


def find_point(batch_size: int, points: Sequence[ReferencePoint], num_runs: int) -> tuple[ReferencePoint | None, str]:
    """Return the reference convergence point to test a batch size against, and how it was found. "found": a point has
    this batch size. "interpolated": the point is interpolated between the next smaller and the next larger point.
    "smallest": the batch size is below all points, and the smallest point is returned. "missing": the batch size is
    above all points, and the point is None."""
    exact = next((point for point in points if point.global_batch_size == batch_size), None)
    if exact is not None:
        return exact, "found"
    in_order = sorted(points, key=lambda point: point.global_batch_size)
    below = [point for point in in_order if point.global_batch_size < batch_size]
    above = in_order[len(below) :]
    if below and above:
        return interpolate(batch_size, below[-1], above[0], num_runs), "interpolated"
    return (above[0], "smallest") if above else (None, "missing")


def judge_epochs(
    batch_size: int,
    epochs: Sequence[float | None],
    points: Sequence[ReferencePoint],
    num_runs: int,
    unit: Unit = "epochs",
) -> Convergence:
    """Test a result's epochs to converge against reference convergence points; None in `epochs` is a run that did not
    converge. The returned result has the factor by which the official tool multiplies the time."""
    if sum(value is None for value in epochs) > 1:
        return _untested("failed", "more than one run did not converge")
    point, how = find_point(batch_size, points, num_runs)
    if point is None:
        return _untested("missing", f"batch size {batch_size} is above all reference points; submit one")
    # Limited to values whose sums are finite, far beyond any training.
    mean = olympic(
        [_NOT_CONVERGED if value is None else max(-_MOST, min(round(value, DIGITS), _MOST)) for value in epochs]
    )
    if mean <= 0:
        return _untested("failed", f"a mean of {mean} {unit} to converge is impossible")
    limit = point.mean / point.max_speedup
    digits = 4 if unit == "epochs" else 0
    reason = (
        f"mean {mean:.{digits}f} {unit}, reference {point.mean:.{digits}f} at batch size {point.global_batch_size}; "
        f"a mean below {limit:.{digits}f} {unit} is not accepted"
    )
    status: RcpStatus = "passed" if mean >= limit else "missing" if how == "smallest" else "failed"
    if status == "passed":
        reason = f"point {how}: {reason}" if how != "found" else reason
    elif status == "missing":
        reason = (
            f"batch size {batch_size} is below all reference points and converges faster than the smallest one: "
            f"{reason}"
        )
    else:
        reason = f"the set converges faster than the reference allows: {reason}"
    factor = 1.0 if status == "missing" else max(1.0, point.mean / mean)
    return Convergence(status=status, reason=reason, factor=factor, mean_epochs=mean, point=point, unit=unit)


def _untested(status: RcpStatus, reason: str) -> Convergence:
    return Convergence(status=status, reason=reason, factor=1.0, mean_epochs=None, point=None)


def judge_convergence(
    benchmark: Benchmark,
    round_name: str | None,
    batch_size: int | None,
    epochs: Sequence[float | None],
    division: str = keys.CLOSED,
) -> Convergence:
    """Test the convergence of one complete result set against its benchmark's reference points. `epochs` are the
    epochs to converge as logged (dlrm v1 counts from 1), or samples.

    A benchmark that is not MLPerf's is tested only at the batch sizes of its reference points, and its times are
    never normalised. An MLPerf benchmark is tested only in the Closed division, as in package_checker, since the
    training method is free in the Open division.
    """
    if division == keys.OPEN and benchmark.status == "official":
        return _untested("none", "the Open division is not held against reference convergence points")
    if batch_size is None:
        return _untested("missing", "the runs do not agree on a global_batch_size")
    if len(epochs) < 3:
        return _untested("missing", "fewer than 3 runs")
    is_own = benchmark.status == "own"
    file = rcp_file(benchmark, round_name)
    if file is None:
        where = f"round {round_name}" if round_name else "this benchmark"
        return _untested("none", f"there are no reference convergence points for {where}")
    points = load_points(file, benchmark.score.num_runs)
    if not points:
        return _untested("none", "the reference is uncalibrated: no point in its file is of a whole calibration")
    if is_own and batch_size not in [point.global_batch_size for point in points]:
        sizes = ", ".join(str(point.global_batch_size) for point in points)
        return _untested("none", f"no reference convergence point at batch size {batch_size} (there are {sizes})")
    kept = points if is_own else prune(points, benchmark.score.num_runs)
    unit: Unit = "samples" if benchmark.quality.convergence_unit == keys.SAMPLES_COUNT else "epochs"
    found = judge_epochs(batch_size, epochs, kept, benchmark.score.num_runs, unit)
    if batch_size in {point.global_batch_size for point in points} - {point.global_batch_size for point in kept}:
        why = "a smaller batch converges fastest, or the point converges slower than its neighbours predict"
        found = replace(
            found, reason=f"{found.reason} (this round prunes the point at batch size {batch_size}: {why})"
        )
    later = _ADDED_LATER.get((benchmark.name, round_name or ""), ())
    if later:
        early = prune([point for point in points if point.global_batch_size not in later], benchmark.score.num_runs)
        before = judge_epochs(batch_size, epochs, early, benchmark.score.num_runs, unit).factor
        if before != found.factor:
            sizes = " and ".join(map(str, later))
            note = f"without the points at {sizes}, added after this round's results, the factor is {before:.7g}"
            found = replace(found, reason=f"{found.reason} ({note})", factor_at_upload=before)
    if not is_own:
        return found
    if (point := found.point) is not None and found.mean_epochs is not None:
        share = failing_share(point.epochs, benchmark.score.num_runs, point.mean / point.max_speedup)
        found = replace(
            found,
            reason=f"{found.reason}; {failing_words(share)} for a set as fast as the reference",
            failing_share=share,
            chance=chance_of(found.mean_epochs, len(epochs), point, _step(benchmark, batch_size)),
        )
    return replace(found, factor=1.0)


def _step(benchmark: Benchmark, batch_size: int) -> float:
    """Return the distance between two evaluations, in the benchmark's unit of convergence (epochs or samples)."""
    samples = benchmark.data_samples("train_samples")
    if benchmark.quality.convergence_unit != keys.SAMPLES_COUNT or samples is None:
        return 1 / benchmark.quality.evals_per_epoch
    return float(benchmark.steps_between_evals(samples, batch_size) * batch_size)


def rcp_file(benchmark: Benchmark, round_name: str | None) -> Path | None:
    """Return the file of a benchmark's reference convergence points; None if there is no such file. For MLPerf's
    benchmarks it is in the installed mlperf-logging wheel; for other shipped benchmarks it is beside their
    definition."""
    if benchmark.status == "own":
        path = benchmark.path.with_suffix(".rcps.json")
        is_shipped = any(benchmark.path == known.path for known in shipped_versions(benchmark.name))
        return path if is_shipped and path.is_file() else None
    spec = find_spec("mlperf_logging")
    if spec is None or not spec.submodule_search_locations or round_name is None:
        return None
    folder = Path(next(iter(spec.submodule_search_locations))) / "rcp_checker" / f"training_{round_name}.0"
    path = folder / f"rcps_{benchmark.name}.json"
    return path if path.is_file() else None


class _ReferenceRuns(Struct):
    """Entry of a file of reference convergence points: the reference runs at one batch size."""

    batch_size: int = field(name="BS")
    epochs: Annotated[tuple[float, ...], Meta(min_length=3)] = field(name="Epochs to converge")
    is_calibrated: bool = field(name="Calibrated", default=True)
    """Whether the reference runs may serve for the convergence test; False for runs of 'calibrate --quick'."""


@cache
def load_points(path: Path, num_runs: int) -> tuple[ReferencePoint, ...]:
    """Read one file of reference convergence points, in the JSON format of the mlperf-logging wheel, sorted by batch
    size. Raises DefinitionError if the file cannot be read.

    Points marked as uncalibrated are left out.
    """
    try:
        records = msgspec.json.decode(path.read_bytes(), type=dict[str, _ReferenceRuns])
    except (OSError, ValueError) as error:
        raise DefinitionError(f"{path}: reference convergence points cannot be read: {error}") from None
    points = [
        make_reference_point(name, runs.batch_size, runs.epochs, num_runs)
        for name, runs in records.items()
        if runs.is_calibrated
    ]
    return tuple(sorted(points, key=lambda point: point.global_batch_size))

"""Judge a result set's test against the benchmark's reference convergence points (RCPs): whether its runs converge
faster than these allow."""

import math
from collections.abc import Iterator
from pathlib import Path

from rules.checks.result_set.bypass import bypass_words
from rules.checks.rule import Problem, Severity, rule
from rules.checks.subject import SetSubject
from rules.logs import keys
from rules.records.codec import Record, decode
from rules.scoring.good_sets import failing_words
from rules.scoring.rcp import IMPOSSIBLE, olympic
from rules.scoring.results import epochs_by_samples

_FACTOR_TOLERANCE = 1e-9
_RCP = 'training_rules.adoc, "Reference Convergence Points (RCPs)"'
_SOURCE = f"{_RCP}; mlperf_logging rcp_checker"


class _Scaling(Record, frozen=True, kw_only=True):
    """Content of scaling.json that the rules read: the factor by which the official tool scales a result's score."""

    scaling_factor: float


def _complete(subject: SetSubject) -> str | None:
    if subject.convergence is None:
        return "the set is not complete"
    is_free = _is_open(subject) and not subject.is_own and subject.convergence.status == "none"
    return "the Open division need not meet reference points" if is_free else None


def _tested(subject: SetSubject) -> str | None:
    if subject.convergence is None:
        return "the set is not complete"
    return subject.convergence.reason if subject.convergence.status == "none" else None


@rule(
    "RC101",
    "the set must not converge faster than the reference runs allow",
    source=_SOURCE,
    remedy="Look for what makes training converge too fast: other data order, more epochs counted as one, a leak.",
    requires={"RS105"},
    applies=_tested,
)
def converges_like_reference(subject: SetSubject) -> Iterator[Problem]:
    """The runs do not converge significantly faster than the reference: the Olympic mean of their epochs (dlrmv4:
    samples) to converge is not significantly below the mean of the reference runs at this batch size (one-sided test,
    5 %).

    - The arithmetic is that of the official tool, by which scores are published. It differs from the text of MLPerf's
      rules twice. Its standard deviation includes all reference runs, while the text's example leaves out the fastest
      and the slowest. When it prunes reference points, it skips the point after one that it removed
      (mlcommons/logging#368).
    - For own benchmarks a failed test is a warning. The warning states the chance of a false alarm: the share of sets
      drawn from the reference's own runs that fail.
    - In Closed a failed test of an own benchmark is an error if the chance of converging this fast by luck is below 1
      in 10,000.
    - Epochs are read from epoch_num. If train_samples contradicts epoch_num (HP103), the test is repeated with epochs
      computed from train_samples. A failure of this second test is a warning.
    """
    convergence = subject.convergence
    if convergence is not None and convergence.status == "failed":
        point, unit = convergence.point, convergence.unit
        mean = convergence.mean_epochs
        what, found, expected = convergence.reason, None, None
        if point is not None and mean is not None:
            what = f"converges faster than the reference allows at batch size {point.global_batch_size}"
            found = f"a mean of {_amount(mean, unit)}"
            expected = f"at least {_amount(point.min_epochs, unit)}, by a reference of {_amount(point.mean, unit)}"
            if convergence.failing_share is not None:
                expected += f", {failing_words(convergence.failing_share)}"
        if is_certain := convergence.chance is not None and convergence.chance < IMPOSSIBLE:
            what += f", and luck explains it in fewer than one of {1 / IMPOSSIBLE:,.0f} sets"
        what += bypass_words(subject, "rcp")
        is_excused = subject.is_own and (not is_certain or _is_open(subject))
        yield Problem(what, found=found, expected=expected, severity="warning" if is_excused else "error")

    elif (
        convergence is not None
        and (point := convergence.point) is not None
        and (mean := _mean_by_samples(subject)) is not None
        and mean < point.min_epochs
    ):
        yield Problem(
            "by train_samples the set would converge faster than the reference allows",
            found=f"a mean of {_amount(mean, convergence.unit)}",
            expected=f"at least {_amount(point.min_epochs, convergence.unit)}",
            severity="warning",
            remedy="Show which is right: train_samples, or epoch_num, by which the set is judged.",
        )


def _is_open(subject: SetSubject) -> bool:
    return any(run.division == keys.OPEN for run in subject.runs)


def _mean_by_samples(subject: SetSubject) -> float | None:
    """Return the Olympic mean of the set's epochs to converge, with epochs computed from train_samples in each log
    whose train_samples contradicts its epoch_num. Other logs count by epoch_num. Return None if no log has this
    contradiction, for logs of this harness, and for unknown benchmarks."""
    benchmark = subject.benchmark
    if benchmark is None or subject.is_ours:
        return None
    counted = [epochs_by_samples(log, benchmark, subject.round) for log in subject.logs]
    if all(epochs is None for epochs in counted):
        return None
    epochs = [
        (run.epochs_to_converge if other is None else other) if run.converged else None
        for run, other in zip(subject.runs, counted, strict=True)
    ]
    return olympic([math.inf if each is None else each for each in epochs]) + benchmark.quality.first_epoch_num


def _amount(number: float, unit: str) -> str:
    return f"{number:.{4 if unit == 'epochs' else 0}f} {unit}"


@rule(
    "RC102",
    "reference convergence points must exist for the set's batch size",
    source=_SOURCE,
    remedy="Use a batch size with reference points, or supply reference runs (2 N) for this one.",
    applies=_complete,
)
def reference_exists(subject: SetSubject) -> Iterator[Problem]:
    """Reference convergence points exist at the batch size, or on both sides of it. Their absence for the whole
    round, or for an own benchmark, is only reported (info)."""
    convergence = subject.convergence
    if convergence is not None and convergence.status in ("missing", "none"):
        severity: Severity = "error" if convergence.status == "missing" and not subject.is_own else "info"
        yield Problem(
            convergence.reason + (bypass_words(subject, "rcp") if severity == "error" else ""), severity=severity
        )


def _has_factor(subject: SetSubject) -> str | None:
    if not _scaling_file(subject).is_file():
        return "the set has no scaling.json with a factor"
    if subject.has_broken_logs:
        return "logs of the set are broken"
    if subject.is_own or subject.convergence is None or subject.convergence.status in ("missing", "none"):
        return "the set cannot be tested against reference points"
    return None


def _scaling_file(subject: SetSubject) -> Path:
    return subject.result_set.folder / "scaling.json"


@rule(
    "RC103",
    "the factor in scaling.json must follow from the logs",
    source='training_rules.adoc, "Score scaling"; mlperf_logging rcp_checker writes scaling.json',
    remedy="Remove scaling.json and let the RCP checker write it again; a factor set in review needs its reason.",
    severity="warning",
    requires={"RS102", "RS103", "RS104", "RS105", "RS106"},
    applies=_has_factor,
)
def factor_agrees(subject: SetSubject) -> Iterator[Problem]:
    """If scaling.json lies beside the logs, its normalisation factor equals the one that follows from the logs and
    this round's reference points. dlrmbench scores from the logs alone and never uses the factor in the file. In
    round 3.0 reference points were added after results had been uploaded, so a factor that follows from the earlier
    points is only reported (info) in that round. A factor below 1 is an error: a factor corrects the score of a set
    that converged too fast, so it can only make the score worse."""
    assert subject.convergence is not None
    path = _scaling_file(subject)
    given = None if path.is_symlink() else decode(path, _Scaling)
    if not isinstance(given, _Scaling):
        yield Problem("no factor can be read", path, expected='{"scaling_factor": NUMBER}')
    elif given.scaling_factor < 1 - _FACTOR_TOLERANCE:
        yield Problem(
            "a factor below 1 makes the score better than the runs were",
            path,
            found=f"{given.scaling_factor:.10g}",
            expected="at least 1",
            severity="error",
        )
    elif not _is_close(given.scaling_factor, subject.convergence.factor):
        is_of_upload = _is_close(given.scaling_factor, subject.convergence.factor_at_upload)
        yield Problem(
            "the published factor is that of the points that the round had when its results were uploaded"
            if is_of_upload
            else "the published factor is not the one that the runs give",
            path,
            found=f"{given.scaling_factor:.10g}",
            expected=f"{subject.convergence.factor:.10g}" + (" by all points" if is_of_upload else ""),
            severity="info" if is_of_upload else None,
            remedy="Nothing: the published score stands, and is not the one here." if is_of_upload else None,
        )


def _is_close(factor: float, other: float | None) -> bool:
    return other is not None and math.isclose(factor, other, rel_tol=_FACTOR_TOLERANCE)

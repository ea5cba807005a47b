"""The convergence family: the RCP test as rules over a result set."""

from collections.abc import Iterator

from rules.rule import Problem, Rule, Severity, rule
from rules.subject import SetSubject

_SOURCE = 'training_rules.adoc, "RCP"; mlperf_logging rcp_checker'


def _complete(subject: SetSubject) -> str | None:
    return None if subject.convergence is not None else "the set is not complete"


def _tested(subject: SetSubject) -> str | None:
    if subject.convergence is None:
        return "the set is not complete"
    return subject.convergence.reason if subject.convergence.status == "none" else None


@rule(
    "RC101",
    "the set converges no faster than the reference allows",
    source=_SOURCE,
    remedy="Look for what makes training converge too fast: other data order, more epochs counted as one, a leak.",
    requires={"RS105"},
    applies=_tested,
)
def converges_like_reference(subject: SetSubject) -> Iterator[Problem]:
    """The Olympic mean of epochs to converge is not significantly (one-sided, 5 %) below that of the reference at
    this batch size. Own benchmarks: a warning, since the test rejects one good set in twenty."""
    convergence = subject.convergence
    if convergence is not None and convergence.status == "failed":
        severity: Severity = "warning" if subject.is_own else "error"
        point = convergence.point
        yield Problem(
            message=convergence.reason,
            found=_amount(convergence.mean_epochs, convergence.unit),
            expected=None if point is None else f"at least {_amount(point.min_epochs, convergence.unit)}",
            severity=severity,
        )


def _amount(number: float | None, unit: str) -> str | None:
    return None if number is None else f"{number:.{4 if unit == 'epochs' else 0}f} {unit}"


@rule(
    "RC102",
    "there is a reference for this batch size",
    source=_SOURCE,
    remedy="Use a batch size with reference points, or supply reference runs (2 N) for this one.",
    applies=_complete,
)
def reference_exists(subject: SetSubject) -> Iterator[Problem]:
    """Reference convergence points exist at the batch size, or on both sides of it. Without any for the round
    or the own benchmark it is only said."""
    convergence = subject.convergence
    if convergence is not None and convergence.status in ("missing", "none"):
        severity: Severity = "error" if convergence.status == "missing" and not subject.is_own else "info"
        yield Problem(message=convergence.reason, severity=severity)


RULES: tuple[Rule[SetSubject], ...] = (converges_like_reference, reference_exists)

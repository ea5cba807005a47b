"""Seeds: every run of a set has its own."""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from rules.benchmarks.rounds import is_before
from rules.checks.rule import Problem, Severity, rule
from rules.checks.subject import LogSubject, SetSubject
from rules.logs import keys
from rules.logs.log import as_number
from rules.logs.text import show


@rule(
    "SE101",
    "every run has its own seed",
    source='training_rules.adoc, "Randomness"; mlperf_logging seed_checker',
    remedy="Run again with another seed; two runs of one seed are one sample of the convergence, not two.",
)
def seeds_differ(subject: SetSubject) -> Iterator[Problem]:
    """No seed occurs in two logs of a set. Seeds were optional before round 4.1, so there it is a warning. The
    official tool compares seeds together with the source line that logged them; this rule compares seeds."""
    holders: dict[float, list[int]] = defaultdict(list)
    for index, log in enumerate(subject.logs):
        for seed in {number for line in log.all(keys.SEED) if (number := as_number(line.value)) is not None}:
            holders[seed].append(index)
    for seed, indices in holders.items():
        for index in indices[1:]:
            line = next(line for line in subject.logs[index].all(keys.SEED) if as_number(line.value) == seed)
            yield Problem(
                "the seed is that of another run",
                line,
                found=f"{show(line.value)}, also in {Path(subject.logs[indices[0]].path).name}",
                expected="a seed of its own",
                remedy="Log the seed that was drawn; a negative one only asks for that." if seed < 0 else None,
                severity="warning" if is_before(subject.round, "4.1") else "error",
            )


def _optional(subject: LogSubject) -> str | None:
    if subject.is_ours or subject.benchmark is None or not subject.is_closed or subject.is_at_least("4.1"):
        return "ST104 requires the seed where the rules do"
    return None


@rule(
    "SE102",
    "the run says its seed",
    source="mlcommons/training_policies#546: required from round 4.1 on",
    remedy="Log the seed that the run used.",
    severity="info",
    requires={"ST101"},
    applies=_optional,
)
def seed_is_logged(subject: LogSubject) -> Iterator[Problem]:
    """Before round 4.1 a log need not hold a seed; without one nobody can see that runs differ."""
    if not subject.log.all(keys.SEED):
        yield Problem("the log holds no seed", found="no record", expected="seed: a whole number")


def _of_others(subject: LogSubject) -> str | None:
    return "ST104 allows one seed only" if subject.is_ours else None


@rule(
    "SE103",
    "the run has one seed",
    source="mlcommons/training_policies#546: required from round 4.1 on; mlperf_logging seed_checker warns",
    remedy="Let one process log the seed from which all others follow.",
    requires={"ST101"},
    applies=_of_others,
)
def one_seed(subject: LogSubject) -> Iterator[Problem]:
    """Several different seeds leave open which of them made the run, and whether another run has it too; ranks may
    have seeds of their own. In Open, and before round 4.1, where no seed is required, it is a warning."""
    lines = subject.log.all(keys.SEED)
    others = [line for line in lines if line.rank == lines[0].rank and line.value != lines[0].value]
    severity: Severity = "error" if subject.is_closed and not is_before(subject.round, "4.1") else "warning"
    if others:
        yield Problem(
            "a second seed", others[0], found=show(others[0].value), expected=show(lines[0].value), severity=severity
        )

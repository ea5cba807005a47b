"""Judge the seeds of a set's logs: every run has its own."""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from rules.benchmarks.rounds import is_before
from rules.checks.result_set.bypass import bypass_words
from rules.checks.rule import Problem, rule
from rules.checks.run_log.required_keys import seed_number
from rules.checks.subject import LogSubject, SetSubject
from rules.logs import keys
from rules.logs.log import LogLine
from rules.logs.text import show

_SEEDS = 'training_rules.adoc, "Random numbers"'


@rule(
    "SE101",
    "every run of a set must have its own seed",
    source=f'{_SEEDS}: "no other run can log the same seed on the same line in the same source file"; mlperf_logging '
    "seed_checker",
    remedy="Run again with another seed; two runs of one seed are one sample of the convergence, not two.",
)
def seeds_differ(subject: SetSubject) -> Iterator[Problem]:
    """No seed occurs in two logs of a set. In official logs a repeated seed is only a warning in three cases: in
    Open, where seeds are free; before round 4.1, when seeds were optional; and if the two records of the seed name
    different source lines (file and lineno in their metadata), since the rule forbids only the same line."""
    holders: dict[float, list[LogLine]] = defaultdict(list)
    for log in subject.logs:
        found: dict[float, LogLine] = {}
        for line in log.all(keys.SEED):
            if (number := seed_number(line.value)) is not None:
                found.setdefault(number, line)
        for number, line in found.items():
            holders[number].append(line)
    is_free = is_before(subject.round, "4.1") or all(run.division == keys.OPEN for run in subject.runs)
    bypassed = bypass_words(subject, "seed-checker") if any(len(lines) > 1 for lines in holders.values()) else ""
    for seed, lines in holders.items():
        for index, line in enumerate(lines[1:], start=1):
            twins = [other for other in lines[:index] if _source_line(other) == _source_line(line)]
            is_error = subject.is_ours or (bool(twins) and not is_free)
            other = (twins or lines)[0]
            yield Problem(
                "the seed is that of another run"
                + ("" if twins else ", logged by another line of the source")
                + (bypassed if is_error else ""),
                line,
                found=f"{show(line.value)}, also in {Path(other.path).name}",
                expected="a seed of its own",
                remedy="Log the seed that was drawn; a negative one only asks for that." if seed < 0 else None,
                severity="error" if is_error else "warning",
            )


def _source_line(line: LogLine) -> tuple[str, str]:
    """Return the source file and line from which a log's record was written, as its metadata states them."""
    return show(line.metadata.get("file")), show(line.metadata.get("lineno"))


def _optional(subject: LogSubject) -> str | None:
    if subject.is_ours or subject.benchmark is None or not subject.is_closed or subject.is_at_least("4.1"):
        return "rule ST104 requires the seed where a log must state it"
    return None


@rule(
    "SE102",
    "the log should state the seed of its run",
    source="mlcommons/training_policies#546: seeds in logs are required from round 4.1 on",
    remedy="Log the seed that the run used.",
    severity="info",
    requires={"ST101"},
    reads=(keys.SEED,),
    applies=_optional,
)
def seed_is_logged(subject: LogSubject) -> Iterator[Problem]:
    """Before round 4.1 a log need not hold a seed; without seeds nobody can tell that runs differ."""
    if not subject.log.all(keys.SEED):
        yield Problem("the log holds no seed", found="no record", expected="seed: a whole number")


def _of_others(subject: LogSubject) -> str | None:
    return "rule ST104 allows only one seed" if subject.is_ours else None


@rule(
    "SE103",
    "a run must log one seed, not several different ones",
    source=f'{_SEEDS}: "If any run logs more than one seed, a warning is raised by the package checker"',
    remedy="Let one process log the seed from which all others follow.",
    severity="warning",
    requires={"ST101"},
    reads=(keys.SEED,),
    applies=_of_others,
)
def one_seed(subject: LogSubject) -> Iterator[Problem]:
    """Several different seeds leave open which of them made the run, and whether another run shares it; ranks may
    have seeds of their own."""
    lines = subject.log.all(keys.SEED)
    others = [line for line in lines if line.rank == lines[0].rank and line.value != lines[0].value]
    if others:
        yield Problem("a second seed", others[0], found=show(others[0].value), expected=show(lines[0].value))

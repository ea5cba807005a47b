"""One run, one result: the same run in two sets of a submission, or in two submissions of a round."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from rules.checks.rule import Problem, Severity, rule
from rules.checks.subject import JudgedSet, RoundSubject, SubmissionSubject
from rules.logs.text import letters, show
from rules.records.system import SYSTEM_FIELDS
from rules.scoring.results import RunResult

_CONTENT = 'submission_rules.adoc, "Submission content": result logs for each system-implementation tested'
_NOT_HARDWARE = frozenset(
    {
        "submitter", "division", "status", "system_name", "hw_notes", "framework", "other_software_stack",
        "operating_system", "sw_notes",
    }
)  # fmt: skip


_Place = tuple[RunResult, JudgedSet]
"""A run and its set."""


def _twins(sets: Iterable[JudgedSet]) -> Iterator[tuple[_Place, _Place]]:
    """Runs that an earlier set holds too."""
    seen: dict[object, _Place] = {}
    for judged in sets:
        for run in judged.runs:
            found = next((seen[identity] for identity in run.identities if identity in seen), None)
            if found is not None and found[1] is not judged:
                yield (run, judged), found
            for identity in run.identities:
                seen.setdefault(identity, (run, judged))


def _problem(run: RunResult, other: RunResult, top: Path, severity: Severity | None = None) -> Problem:
    """`top` is the tree, in which the other run has its place."""
    return Problem(
        f"the same run as {Path(other.path).relative_to(top)}",
        run.path,
        found=None if run.started_ms is None else f"run_start {show(run.started_ms)}",
        expected="a run of its own",
        severity=severity,
    )


def _same_hardware(first: JudgedSet, other: JudgedSet) -> bool:
    if first.system_desc is None or other.system_desc is None:
        return False
    hardware = [field for field in SYSTEM_FIELDS if field not in _NOT_HARDWARE]
    return all(first.system_desc.get(field) == other.system_desc.get(field) for field in hardware)


@rule("SU201", "every run belongs to one result", source=_CONTENT, remedy="Measure each system by runs of its own.")
def runs_belong_to_one_set(subject: SubmissionSubject) -> Iterator[Problem]:
    """No run is in two sets of the submission. Where both systems are described with the same hardware (as when the
    same runs are reported with two ways of measuring power), that is a warning."""
    for (run, judged), (other_run, other) in _twins(subject.sets):
        yield _problem(
            run, other_run, subject.submission.folder, severity="warning" if _same_hardware(judged, other) else None
        )


@rule(
    "RO101",
    "every run belongs to one submission",
    source=_CONTENT,
    remedy="Submit only runs that the organisation made itself.",
)
def runs_belong_to_one_submission(subject: RoundSubject) -> Iterator[Problem]:
    """No run is in the submissions of two organisations."""
    sets = (judged for submission in subject.submissions for judged in submission.sets)
    for (run, judged), (other_run, other) in _twins(sets):
        if judged.result_set.organization != other.result_set.organization:
            yield _problem(run, other_run, subject.round.folder)


@rule(
    "RO102",
    "every directory of the round is a submission",
    source='submission_rules.adoc, "Directory structure, Training"',
    remedy="Lay it out as <organisation>/systems, benchmarks, results, or remove it.",
    severity="warning",
)
def directories_are_submissions(subject: RoundSubject) -> Iterator[Problem]:
    """Each directory of a round is that of an organisation and holds results/. What else is there is not judged."""
    for name in subject.round.others:
        place = subject.round.folder / name
        if place.is_dir() and not name.startswith("."):
            yield Problem("a directory that is no submission", place, expected="results/ in it")


@rule(
    "RO103",
    "no organisation submits under two names",
    source="none: two directories whose names differ in case or punctuation only are one organisation's",
    remedy="Merge the directories.",
    severity="warning",
)
def names_differ(subject: RoundSubject) -> Iterator[Problem]:
    """Names of organisations' directories differ by more than case and punctuation."""
    seen: dict[str, str] = {}
    for submission in subject.submissions:
        name = submission.submission.organization
        other = seen.setdefault(letters(name), name)
        if other != name:
            yield Problem("two names of one organisation", submission.submission.folder, found=show(other))

"""Find runs that are in two result sets of a submission, or in two submissions of a round: one run belongs to one
result."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from rules.benchmarks.rounds import is_before
from rules.checks.rule import Problem, Severity, rule
from rules.checks.subject import JudgedSet, RoundSubject, SubmissionSubject
from rules.logs.text import letters, show
from rules.records.system import SYSTEM_FIELDS
from rules.scoring.results import RunResult, are_near

_CONTENT = 'submission_rules.adoc, "Submission content": result logs for each system-implementation tested'
_NOT_HARDWARE = frozenset(
    {
        "submitter", "division", "status", "system_name", "hw_notes", "framework", "other_software_stack",
        "operating_system", "sw_notes",
    }
)  # fmt: skip


_Place = tuple[RunResult, JudgedSet]
"""Place where a run was found: the run's result, and the judged result set that holds it."""
_FEWEST_SHARED = 2
_NEAR = 5e-6
"""Difference of qualities below which runs of two result sets count as copies, if it holds at every evaluation. It is
about a tenth of 4.9e-5, the distance of the nearest published runs within one set. It must be smaller than that:
there are a hundred times as many pairs of runs from different sets, so some are nearer by chance."""

_MOST_NEAR = 100
"""Maximum number of runs with about the same first quality that are kept for comparison with later runs, so that a
submission with many copies of one run does not take hours to judge."""


class _Twin(NamedTuple):
    """Run found in two result sets; `alike` says how many qualities are equal or near, where neither the log's bytes
    nor the start time are equal."""

    run: RunResult
    judged: JudgedSet
    other: RunResult
    other_set: JudgedSet
    alike: str = ""
    is_whole: bool = True
    """Whether all qualities in the run's log equal those of the run in the other result set."""


def _twins(sets: Iterable[JudgedSet]) -> Iterator[_Twin]:
    """Yield runs that an earlier result set holds too: with the same bytes of the log, with the same start time and
    qualities, or, in official logs, with equal or nearly equal qualities."""
    seen: dict[object, _Place] = {}
    by_quality: dict[float, _Place] = {}
    by_first: dict[int, list[_Place]] = defaultdict(list)
    for judged in sets:
        is_measured = not is_before(judged.verdict.round, "3.0")
        for run in judged.runs:
            place = run, judged
            found = next((seen[identity] for identity in run.identities if identity in seen), None)
            for identity in run.identities:
                seen.setdefault(identity, place)
            twin = _Twin(*place, *found) if found is not None and found[1] is not judged else None
            is_official = bool(judged.rounds) and run.definition_sha256 is None
            if is_official and run.evaluations and 0 <= run.qualities[0] <= 1:
                alike = _alike(place, by_quality, by_first)
                twin = twin or (alike if alike is not None and (alike.is_whole or is_measured) else None)
            if twin is not None:
                yield twin


def _alike(place: _Place, by_quality: dict[float, _Place], by_first: dict[int, list[_Place]]) -> _Twin | None:
    """Return the run at `place` paired with a run of another set whose qualities are equal at some or all
    evaluations, or nearly equal at all; None if there is no such run. Remember the run at `place` for later calls."""
    run, judged = place
    holders = [by_quality.setdefault(quality, place) for quality in run.fine_qualities]
    shared = Counter(id(other) for other, of in holders if of is not judged)
    bin_ = round(run.qualities[0] / _NEAR)
    near = [
        other
        for number in (bin_ - 1, bin_, bin_ + 1)
        for other in by_first.get(number, ())
        if other[1] is not judged and are_near(other[0].qualities, run.qualities, _NEAR)
    ]
    if len(by_first[bin_]) < _MOST_NEAR:
        by_first[bin_].append(place)
    if shared and shared.most_common(1)[0][1] >= _FEWEST_SHARED:
        (identity, number), *_ = shared.most_common(1)
        found = next(holder for holder in holders if id(holder[0]) == identity)
        is_whole = found[0].qualities == run.qualities
        words = f"{number} of {len(run.evaluations)} evaluations have its exact qualities"
        return _Twin(*place, *found, "all evaluations have its exact qualities" if is_whole else words, is_whole)
    if near:
        return _Twin(*place, *near[0], f"all evaluations are within {_NEAR:g} of its own", False)
    return None


def _problem(twin: _Twin, top: Path, severity: Severity | None = None) -> Problem:
    """Return the problem of a run that is in two result sets; the other run's path is shown relative to `top`, the
    folder of the submission or round."""
    where = Path(twin.other.path).relative_to(top)
    started = None if twin.run.started_ms is None else f"run_start {show(twin.run.started_ms)}"
    return Problem(
        f"{'the same run as' if twin.is_whole else 'perhaps the same run as'} {where}"
        + (f": {twin.alike}" if twin.alike else ""),
        twin.run.path,
        found=started,
        expected="a run of its own",
        severity=severity if twin.is_whole else "warning",
        remedy="Look whether a log was copied and its stamps changed; else say why two trainings came out alike."
        if twin.alike
        else None,
    )


def _same_hardware(first: JudgedSet, other: JudgedSet) -> bool:
    if first.system_desc is None or other.system_desc is None:
        return False
    hardware = [field for field in SYSTEM_FIELDS if field not in _NOT_HARDWARE]
    return all(first.system_desc.get(field) == other.system_desc.get(field) for field in hardware)


@rule(
    "SU201",
    "no run may belong to two results of a submission",
    source=_CONTENT,
    remedy="Measure each system by runs of its own.",
)
def runs_belong_to_one_set(subject: SubmissionSubject) -> Iterator[Problem]:
    """No run is in two sets of the submission.

    - Two logs are of the same run if they have the same bytes, or the same run_start and qualities.
    - Two official logs are also of the same run, whatever their stamps, if all qualities are equal and at least two
      of them have more than six decimals.
    - A shared run is an error. It is only a warning if both systems are described with the same hardware, as when one
      set of runs is reported with two ways of measuring power.
    - From round 3.0 on, two runs are also a warning if they share just two qualities of more than six decimals. Among
      published runs of different sets, 117 pairs share one such quality, and only copies share two.
    - From round 3.0 on, two runs are also a warning if they have at least four evaluations and their qualities differ
      by less than 5e-6 at each.
    """
    for twin in _twins(subject.sets):
        is_allowed = _same_hardware(twin.judged, twin.other_set)
        yield _problem(twin, subject.submission.folder, "warning" if is_allowed else None)


@rule(
    "RO101",
    "no run may belong to the submissions of two organisations",
    source=_CONTENT,
    remedy="Submit only runs that the organisation made itself.",
)
def runs_belong_to_one_submission(subject: RoundSubject) -> Iterator[Problem]:
    """No run is in the submissions of two organisations: the same bytes, run_start or qualities, as for SU201."""
    sets = (judged for submission in subject.submissions for judged in submission.sets)
    for twin in _twins(sets):
        if twin.judged.result_set.organization != twin.other_set.result_set.organization:
            yield _problem(twin, subject.round.folder)


@rule(
    "RO102",
    "every directory of a round must be a submission",
    source='submission_rules.adoc, "Directory structure, Training"',
    remedy="Lay the directory out as <organisation>/systems, benchmarks, results, or remove it.",
    severity="warning",
)
def directories_are_submissions(subject: RoundSubject) -> Iterator[Problem]:
    """Each directory of a round belongs to an organisation and holds results/. Other names there are not judged."""
    for name in subject.round.others:
        place = subject.round.folder / name
        if place.is_dir() and not name.startswith("."):
            yield Problem("a directory that is no submission", place, expected="results/ in it")


@rule(
    "RO103",
    "no organisation may submit under two names",
    source="a rule of dlrmbench, not of MLPerf: two directories whose names differ in case or "
    "punctuation only are one organisation's",
    remedy="Merge the directories of the organisation.",
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

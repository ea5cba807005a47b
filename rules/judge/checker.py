"""Judge the logs, sets, submissions and rounds at given paths, each level with the verdicts on the level below."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import msgspec

from rules.checks.result_set.logs import INCOMPLETE
from rules.checks.rule import Outcome, judge
from rules.checks.subject import JudgedSet, RoundSubject, SubmissionSubject
from rules.checks.verdict import Level, Verdict, VerdictOutcome, has_error, worst_first
from rules.judge.families import RULES
from rules.judge.parallel import map_in_order, no_full_collections
from rules.judge.second_opinion import with_second_opinion
from rules.judge.sets import check_log, judge_set
from rules.logs.text import printable
from rules.official.opinion import OnProgress
from rules.tree.inventory import Inventory, take_inventory
from rules.tree.others import OtherSet
from rules.tree.result_set import ResultSet, real_path
from rules.tree.submission import Round, Submission, Target, find_targets

MANY_LOGS = 1000
"""Number of logs above which several processes judge. One process takes about a second for as many, as long as
starting further processes takes."""
_LAYOUT, _NO_RULES = "layout only", "none"


def check_paths(
    paths: Sequence[str | Path | Inventory],
    benchmark_file: str | Path | None = None,
    second_opinion: bool = True,
    ruleset: str | None = None,
    num_processes: int = 1,
    on_progress: OnProgress | None = None,
    on_opinion: OnProgress | None = None,
) -> tuple[Verdict, ...]:
    """Return the verdict on each of several paths or inventories, in their order, whatever `num_processes`. A path is
    a log, a set, a submission, a round, or a directory that holds any of these.

    `on_progress` is called with the number of logs judged so far and the number of all logs. `on_opinion` is called
    with the number of questions that the official checkers have answered and the number of all questions. Raises
    InputError for the first path that is missing or cannot be read.
    """
    inventories = [path if isinstance(path, Inventory) else take_inventory(path, benchmark_file) for path in paths]
    targets = [target for inventory in inventories for target in find_targets(inventory)]
    units = [unit for target in targets for unit in _units(target)]
    num_logs = sum(map(_num_logs, units))
    many = len(units) > 1
    function = partial(_judge_unit, benchmark_file=benchmark_file, ruleset=ruleset, is_one_of_many=many)
    judged: list[Verdict | JudgedSet] = []
    num_done = 0
    processes = num_processes if num_logs >= MANY_LOGS else 1
    results = map_in_order(function, units, processes, preload=("rules.judge.checker", "scipy.special"))
    with no_full_collections():
        for unit, result in zip(units, results, strict=True):
            judged.append(result)
            num_done += _num_logs(unit)
            if on_progress is not None:
                on_progress(num_done, num_logs)
        remaining = iter(judged)
        verdicts = tuple(_assemble(target, remaining) for target in targets)
    return with_second_opinion(verdicts, on_progress=on_opinion) if second_opinion else verdicts


def judge_levels(
    inventory: Inventory,
    judged: Sequence[JudgedSet],
    benchmark_file: str | Path | None = None,
    ruleset: str | None = None,
) -> tuple[Verdict, ...]:
    """Return the verdicts on the submissions and rounds of an inventory (list of a folder's results) whose sets with
    logs are judged already."""
    by_folder = {real_path(part.result_set.folder): part for part in judged}
    return tuple(
        _assemble(
            target,
            (
                by_folder.get(real_path(unit.folder)) or judge_set(unit, benchmark_file, ruleset, is_one_of_many=True)
                for unit in _units(target)
                if isinstance(unit, ResultSet)
            ),
        )
        for target in find_targets(inventory)
        if isinstance(target, Round | Submission)
    )


def _units(target: Target) -> Iterator[Path | ResultSet]:
    """Yield the logs and sets below a path that are judged one by one, in the order in which their verdicts are later
    combined."""
    if isinstance(target, Round):
        for submission in target.submissions:
            yield from submission.sets
    elif isinstance(target, Submission):
        yield from target.sets
    elif not isinstance(target, OtherSet):
        yield target


def _num_logs(unit: Path | ResultSet) -> int:
    return len(unit.logs) if isinstance(unit, ResultSet) else 1


def _judge_unit(
    unit: Path | ResultSet, benchmark_file: str | Path | None, ruleset: str | None, is_one_of_many: bool
) -> Verdict | JudgedSet:
    if isinstance(unit, ResultSet):
        return judge_set(unit, benchmark_file, ruleset, is_one_of_many)
    return check_log(unit, benchmark_file, ruleset, is_one_of_many)


def _assemble(target: Target, judged: Iterator[Verdict | JudgedSet]) -> Verdict:
    """Return the verdict on a submission, a round, a set or a log from the verdicts on the logs and sets in it."""
    if isinstance(target, Round):
        return _judge_round(target, [_take(submission, judged) for submission in target.submissions])
    if isinstance(target, Submission):
        return _judge_submission(_take(target, judged))
    if isinstance(target, OtherSet):
        return _not_judged(target)
    part = next(judged)
    return part.verdict if isinstance(part, JudgedSet) else part


def _take(submission: Submission, judged: Iterator[Verdict | JudgedSet]) -> SubmissionSubject:
    sets = [part for _ in submission.sets if isinstance(part := next(judged), JudgedSet)]
    return SubmissionSubject(submission=submission, sets=tuple(sets))


def _judge_submission(subject: SubmissionSubject) -> Verdict:
    own = judge(RULES["submission"], subject, str(subject.submission.folder))
    parts = tuple(judged.verdict for judged in subject.sets)
    below = tuple(_require_all_runs(outcome) for part in parts for outcome in part.outcomes)
    others = tuple(map(_not_judged, subject.submission.others))
    return _join("submission", str(subject.submission.folder), own, below, (*parts, *others))


def _judge_round(target: Round, submissions: Sequence[SubmissionSubject]) -> Verdict:
    own = judge(RULES["round"], RoundSubject(round=target, submissions=tuple(submissions)), str(target.folder))
    parts = tuple(map(_judge_submission, submissions))
    below = tuple(outcome for part in parts for outcome in part.outcomes)
    return _join("round", str(target.folder), own, below, parts)


def _join(
    level: Level, path: str, own: tuple[Outcome, ...], below: tuple[Outcome, ...], parts: tuple[Verdict, ...]
) -> Verdict:
    """Return the verdict on a submission or round from the results of the rules for this level and the verdicts on
    its parts. Equal findings of several parts at one place appear once."""
    findings = tuple(dict.fromkeys(worst_first((*own, *below))))
    by_benchmark = [part for part in parts if part.ruleset not in (_NO_RULES, _LAYOUT)]
    rulesets = dict.fromkeys(part.ruleset for part in by_benchmark)
    sources = dict.fromkeys(part.ruleset_source for part in by_benchmark)
    unbroken: VerdictOutcome = "valid" if by_benchmark else "not judged"
    return Verdict(
        subject=printable(path),
        level=level,
        outcome="invalid" if has_error(findings) else unbroken,
        benchmark=_common(part.benchmark for part in by_benchmark),
        round=_common(part.round for part in by_benchmark),
        ruleset=", ".join(rulesets) or _LAYOUT,
        ruleset_source=", ".join(sources) or "it holds no benchmark that dlrmbench judges",
        findings=findings,
        outcomes=(*own, *below),
        parts=parts,
    )


def _not_judged(other: OtherSet) -> Verdict:
    """Return the verdict "not judged" on a result directory or log of one of MLPerf's other benchmarks, or in another
    form: no rule was applied."""
    return Verdict(
        subject=printable(str(other.path)),
        level="log" if other.is_log else "set",
        outcome="not judged",
        benchmark=other.benchmark,
        round=None,
        ruleset=_NO_RULES,
        ruleset_source=other.why,
        findings=(),
        outcomes=(),
    )


def _common(values: Iterable[str | None]) -> str | None:
    """Return the value that all of `values` are equal to; None where they differ, or there are none."""
    distinct = set(values)
    return distinct.pop() if len(distinct) == 1 else None


def _require_all_runs(outcome: Outcome) -> Outcome:
    """Return the result of a rule for a set within a submission: runs that are missing in the set are an error there,
    since a submission must be complete."""
    if outcome.code != INCOMPLETE:
        return outcome
    findings = tuple(replace(finding, severity="error") for finding in outcome.findings)
    return msgspec.structs.replace(outcome, findings=findings)

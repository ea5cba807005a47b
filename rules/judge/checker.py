"""Judging: the families concatenated, applied to a log, a set, a submission or a round, and the verdict."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from rules.benchmarks.loader import Benchmark
from rules.benchmarks.rounds import find_definition, infer_round, named_round
from rules.checks.result_set import (
    convergence as convergence_rules,
)
from rules.checks.result_set import (
    files as set_files,
)
from rules.checks.result_set import (
    logs as result_sets,
)
from rules.checks.result_set import (
    power,
    seeds,
    system_desc,
)
from rules.checks.result_set import (
    records as run_records,
)
from rules.checks.result_set import (
    times as set_times,
)
from rules.checks.rule import SEVERITIES, Finding, Outcome, Rule, judge
from rules.checks.run_log import cadence, hyperparameters, quality, structure, timing
from rules.checks.subject import JudgedSet, LogSubject, RoundSubject, SetSubject, SubmissionSubject, make_log_subject
from rules.checks.submission import layout as submission
from rules.checks.submission import shared_runs
from rules.checks.verdict import Level, Verdict, VerdictOutcome
from rules.errors import DefinitionError, did_you_mean
from rules.judge.parallel import map_in_order, no_full_collections
from rules.judge.second_opinion import with_second_opinion
from rules.logs import keys
from rules.logs.log import RunLog, read_log
from rules.logs.text import printable
from rules.scoring.energy import read_set_power
from rules.scoring.results import read_run_result
from rules.scoring.scoring import judge_set_convergence
from rules.tree.result_set import ResultSet, find_result_sets
from rules.tree.submission import Round, Submission, Target, find_targets
from rules.tree.system_desc import read_system_desc

LOG_RULES: tuple[Rule[LogSubject], ...] = (
    *structure.RULES,
    *hyperparameters.RULES,
    *timing.RULES,
    *cadence.RULES,
    *quality.RULES,
    *seeds.LOG_RULES,
)
SET_RULES: tuple[Rule[SetSubject], ...] = (
    *result_sets.RULES,
    *set_files.RULES,
    *run_records.RULES,
    *set_times.RULES,
    *seeds.SET_RULES,
    *system_desc.RULES,
    *power.RULES,
    *convergence_rules.RULES,
)
SUBMISSION_RULES: tuple[Rule[SubmissionSubject], ...] = (*submission.RULES, *shared_runs.SUBMISSION_RULES)
ROUND_RULES: tuple[Rule[RoundSubject], ...] = shared_runs.ROUND_RULES
MANY_LOGS = 1000
"""From this many logs on, judging takes longer (about a second) than more processes take to start and to answer."""


def find_rule(code: str) -> Rule[Any]:
    """The rule of a code. Raises DefinitionError with a suggestion."""
    families: tuple[tuple[Rule[Any], ...], ...] = (LOG_RULES, SET_RULES, SUBMISSION_RULES, ROUND_RULES)
    rules = {one.code: one for family in families for one in family}
    if code.upper() not in rules:
        raise DefinitionError(f"unknown rule {code!r}.{did_you_mean(code.upper(), list(rules))}")
    return rules[code.upper()]


def check_log(
    path: str | Path,
    benchmark_file: str | Path | None = None,
    ruleset: str | None = None,
    second_opinion: bool = True,
    is_one_of_many: bool = False,
) -> Verdict:
    """Judge one log by itself. Raises InputError for an unreadable path, DefinitionError for a bad definition and,
    unless it is one of many, for a ruleset without its benchmark."""
    path = Path(path)
    result_set = find_result_sets(path)[0]
    log = read_log(path)
    benchmark = find_definition(log.value(keys.SUBMISSION_BENCHMARK), benchmark_file, result_set.definition_file)
    ruleset, foreign_round = _applicable(benchmark, ruleset, is_one_of_many)
    round_name = infer_round(benchmark, result_set.round, ruleset)
    source = _source(benchmark, result_set, round_name, ruleset)
    verdict = _judge_log(log, benchmark, round_name, source, foreign_round)
    return with_second_opinion((verdict,))[0] if second_opinion else verdict


def check_set(
    result_set: ResultSet,
    benchmark_file: str | Path | None = None,
    second_opinion: bool = True,
    ruleset: str | None = None,
) -> Verdict:
    """Judge a result set and every log in it."""
    verdict = judge_set(result_set, benchmark_file, ruleset).verdict
    return with_second_opinion((verdict,))[0] if second_opinion else verdict


def judge_set(
    result_set: ResultSet,
    benchmark_file: str | Path | None = None,
    ruleset: str | None = None,
    is_one_of_many: bool = False,
) -> JudgedSet:
    """The verdict on a set and its logs, with what the levels above need."""
    logs = tuple(read_log(path) for path in result_set.logs)
    benchmark = _definition_of_set(logs, benchmark_file, result_set)
    ruleset, foreign_round = _applicable(benchmark, ruleset, is_one_of_many)
    round_name = infer_round(benchmark, result_set.round, ruleset)
    source = _source(benchmark, result_set, round_name, ruleset)
    verdicts = [_judge_log(log, benchmark, round_name, source, foreign_round) for log in logs]
    subject = make_set_subject(result_set, logs, benchmark, round_name)
    own = judge(SET_RULES, subject, str(result_set.folder))
    outcomes = (*own, *(_forgive(outcome, own) for verdict in verdicts for outcome in verdict.outcomes))
    findings = _sorted(outcomes)
    verdict = Verdict(
        subject=printable(str(result_set.folder)),
        level="set",
        outcome=_set_outcome(findings),
        benchmark=_name(benchmark, logs),
        round=round_name,
        ruleset=_ruleset(benchmark, round_name),
        ruleset_source=source,
        findings=findings,
        outcomes=outcomes,
        parts=tuple(verdicts),
    )
    return JudgedSet(
        result_set=result_set,
        verdict=verdict,
        runs=subject.runs,
        rounds=benchmark.rounds if benchmark is not None else (),
        system_desc=subject.system_desc.fields if subject.system_desc is not None else None,
    )


def check_path(
    path: str | Path,
    benchmark_file: str | Path | None = None,
    second_opinion: bool = True,
    ruleset: str | None = None,
) -> tuple[Verdict, ...]:
    """Judge what `path` is: a log, a set, a submission, a round, or all of these below a directory."""
    return check_paths([path], benchmark_file, second_opinion, ruleset)


def check_paths(
    paths: Sequence[str | Path],
    benchmark_file: str | Path | None = None,
    second_opinion: bool = True,
    ruleset: str | None = None,
    num_processes: int = 1,
    told: Callable[[int, int], None] | None = None,
) -> tuple[Verdict, ...]:
    """Judge each of several paths; the verdicts stand in the order of the paths, whatever `num_processes`.

    `told` hears how many of how many logs have been judged. Raises InputError for the first path that is missing or
    cannot be read.
    """
    targets = [target for path in paths for target in find_targets(path)]
    units = [unit for target in targets for unit in _units(target)]
    num_logs = sum(map(_num_logs, units))
    many = len(units) > 1
    function = partial(_judge_unit, benchmark_file=benchmark_file, ruleset=ruleset, is_one_of_many=many)
    judged: list[Verdict | JudgedSet] = []
    num_done = 0
    processes = num_processes if num_logs >= MANY_LOGS else 1
    results = map_in_order(function, units, processes, preload=("rules.judge.checker", "scipy.special"))
    with no_full_collections():
        for unit, one in zip(units, results, strict=True):
            judged.append(one)
            num_done += _num_logs(unit)
            if told is not None:
                told(num_done, num_logs)
        found = iter(judged)
        verdicts = tuple(_assemble(target, found) for target in targets)
    return with_second_opinion(verdicts) if second_opinion else verdicts


def _units(target: Target) -> Iterator[Path | ResultSet]:
    """The logs and sets that are judged by themselves, in the order in which `_assemble` takes them."""
    if isinstance(target, Round):
        for one in target.submissions:
            yield from one.sets
    elif isinstance(target, Submission):
        yield from target.sets
    else:
        yield target


def _num_logs(unit: Path | ResultSet) -> int:
    return len(unit.logs) if isinstance(unit, ResultSet) else 1


def _judge_unit(
    unit: Path | ResultSet, benchmark_file: str | Path | None, ruleset: str | None, is_one_of_many: bool
) -> Verdict | JudgedSet:
    if isinstance(unit, ResultSet):
        return judge_set(unit, benchmark_file, ruleset, is_one_of_many)
    return check_log(unit, benchmark_file, ruleset, second_opinion=False, is_one_of_many=is_one_of_many)


def _assemble(target: Target, found: Iterator[Verdict | JudgedSet]) -> Verdict:
    """The verdict on one target from what its parts were found to be."""
    if isinstance(target, Round):
        return _judge_round(target, [_take(one, found) for one in target.submissions])
    if isinstance(target, Submission):
        return _judge_submission(_take(target, found))
    one = next(found)
    return one.verdict if isinstance(one, JudgedSet) else one


def _take(tree: Submission, found: Iterator[Verdict | JudgedSet]) -> SubmissionSubject:
    sets = [one for _ in tree.sets if isinstance(one := next(found), JudgedSet)]
    return SubmissionSubject(submission=tree, sets=tuple(sets))


def _judge_submission(subject: SubmissionSubject) -> Verdict:
    own = judge(SUBMISSION_RULES, subject, str(subject.submission.folder))
    parts = tuple(one.verdict for one in subject.sets)
    below = tuple(_demand(outcome) for part in parts for outcome in part.outcomes)
    return _stand_above("submission", str(subject.submission.folder), own, below, parts)


def _judge_round(target: Round, submissions: Sequence[SubmissionSubject]) -> Verdict:
    own = judge(ROUND_RULES, RoundSubject(round=target, submissions=tuple(submissions)), str(target.folder))
    parts = tuple(_judge_submission(one) for one in submissions)
    below = tuple(outcome for part in parts for outcome in part.outcomes)
    return _stand_above("round", str(target.folder), own, below, parts)


def _stand_above(
    level: Level, path: str, own: tuple[Outcome, ...], below: tuple[Outcome, ...], parts: tuple[Verdict, ...]
) -> Verdict:
    """The verdict of a level over its parts. What several parts say of one place is said once."""
    findings = tuple(dict.fromkeys(_sorted((*own, *below))))
    rulesets = dict.fromkeys(part.ruleset for part in parts)
    sources = dict.fromkeys(part.ruleset_source for part in parts)
    return Verdict(
        subject=printable(path),
        level=level,
        outcome="invalid" if _has_error(findings) else "valid",
        benchmark=_common(part.benchmark for part in parts),
        round=_common(part.round for part in parts),
        ruleset=", ".join(rulesets) or "layout only",
        ruleset_source=", ".join(sources) or "nothing in it is judged by a benchmark's rules",
        findings=findings,
        outcomes=(*own, *below),
        parts=parts,
    )


def _common(values: Iterable[str | None]) -> str | None:
    """The value that all share, else None."""
    found = set(values)
    return found.pop() if len(found) == 1 else None


def _demand(outcome: Outcome) -> Outcome:
    """A submission must be complete: what is incomplete in a set is an error here."""
    if outcome.code != result_sets.INCOMPLETE:
        return outcome
    return replace(outcome, findings=tuple(replace(one, severity="error") for one in outcome.findings))


def _definition_of_set(
    logs: Sequence[RunLog], benchmark_file: str | Path | None, result_set: ResultSet
) -> Benchmark | None:
    """By the name that most of the logs give; by the directory's where there are none."""
    names = [name for log in logs if isinstance(name := log.value(keys.SUBMISSION_BENCHMARK), str)]
    usual = max(names, key=names.count) if names else None if logs else result_set.benchmark
    return find_definition(usual, benchmark_file, result_set.definition_file)


def _applicable(
    benchmark: Benchmark | None, asked: str | None, is_one_of_many: bool
) -> tuple[str | None, str | None]:
    """The round asked for where it has the benchmark, else (of many) none; then the one that has not."""
    if asked is None or benchmark is None or not is_one_of_many or named_round(asked) in benchmark.rounds:
        return asked, None
    return None, named_round(asked)


def _judge_log(
    log: RunLog, benchmark: Benchmark | None, round_name: str | None, source: str, foreign_round: str | None = None
) -> Verdict:
    outcomes = judge(LOG_RULES, make_log_subject(log, benchmark, round_name, foreign_round), log.path)
    findings = _sorted(outcomes)
    return Verdict(
        subject=printable(log.path),
        level="log",
        outcome="invalid" if _has_error(findings) else "valid",
        benchmark=_name(benchmark, (log,)),
        round=round_name,
        ruleset=_ruleset(benchmark, round_name),
        ruleset_source=source,
        findings=findings,
        outcomes=outcomes,
    )


def make_set_subject(
    result_set: ResultSet, logs: tuple[RunLog, ...], benchmark: Benchmark | None, round_name: str | None
) -> SetSubject:
    """What the set rules look at: the logs, what they say of their runs, and what lies beside them."""
    runs = tuple(read_run_result(log, benchmark) for log in logs)
    return SetSubject(
        result_set=result_set,
        logs=logs,
        runs=runs,
        benchmark=benchmark,
        round=round_name,
        is_ours=any(make_log_subject(log, benchmark, round_name).is_ours for log in logs),
        power=read_set_power(result_set, runs),
        system_desc=read_system_desc(result_set.system_json) if result_set.system_json is not None else None,
        convergence=judge_set_convergence(runs, benchmark, round_name),
    )


def _forgive(outcome: Outcome, of_set: Sequence[Outcome]) -> Outcome:
    """In a set that may hold a run that did not converge, that run is a warning and not an error."""
    if outcome.code != quality.NOT_CONVERGED or not outcome.findings:
        return outcome
    judged = next((one for one in of_set if one.code == result_sets.NOT_CONVERGED), None)
    if judged is None or judged.status != "pass":
        return outcome
    forgiven = (
        replace(one, severity="warning", message=f"{one.message}; it counts as the dropped slowest run")
        for one in outcome.findings
    )
    return replace(outcome, findings=tuple(forgiven))


def _set_outcome(findings: Sequence[Finding]) -> VerdictOutcome:
    if _has_error(findings):
        return "invalid"
    return "incomplete" if any(one.code == result_sets.INCOMPLETE for one in findings) else "valid"


def _has_error(findings: Sequence[Finding]) -> bool:
    return any(finding.severity == "error" for finding in findings)


def _sorted(outcomes: Sequence[Outcome]) -> tuple[Finding, ...]:
    found = [finding for outcome in outcomes for finding in outcome.findings]
    return tuple(sorted(found, key=lambda one: SEVERITIES.index(one.severity)))


def _name(benchmark: Benchmark | None, logs: Sequence[RunLog]) -> str | None:
    if benchmark is not None:
        return benchmark.name
    name = logs[0].value(keys.SUBMISSION_BENCHMARK) if logs else None
    return printable(name) if isinstance(name, str) else None


def _ruleset(benchmark: Benchmark | None, round_name: str | None) -> str:
    if round_name is not None:
        return f"MLPerf Training {round_name}"
    return f"{benchmark.name} version {benchmark.version}" if benchmark is not None else "structure and timing only"


def _source(benchmark: Benchmark | None, result_set: ResultSet, round_name: str | None, asked: str | None) -> str:
    if asked is not None:
        return "asked for"
    if round_name is not None:
        if round_name == result_set.round:
            return f"from the {result_set.round_source}'s name"
        return f"the last round of {benchmark.name}" if benchmark is not None else "unknown"
    return f"definition {benchmark.path.name}" if benchmark is not None else "the benchmark is not defined here"

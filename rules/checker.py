"""Judging: the families concatenated, applied to one log or one result set, and the verdict."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rules import (
    cadence,
    convergence_rules,
    hyperparameters,
    keys,
    quality,
    result_sets,
    seeds,
    structure,
    system_desc,
    timing,
)
from rules.benchmarks import Benchmark
from rules.definitions import find_definition
from rules.errors import DefinitionError, did_you_mean
from rules.log import RunLog, printable, read_log
from rules.results import read_run_result
from rules.rounds import infer_round
from rules.rule import SEVERITIES, Finding, Outcome, Rule, judge
from rules.scoring import judge_set_convergence
from rules.second_opinion import with_second_opinion
from rules.sets import ResultSet, find_result_sets
from rules.subject import LogSubject, SetSubject, make_log_subject
from rules.verdict import Verdict, VerdictOutcome

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
    *seeds.SET_RULES,
    *system_desc.RULES,
    *convergence_rules.RULES,
)


def find_rule(code: str) -> Rule[Any]:
    """The rule of a code. Raises DefinitionError with a suggestion."""
    rules: dict[str, Rule[Any]] = {one.code: one for one in LOG_RULES}
    rules |= {one.code: one for one in SET_RULES}
    if code.upper() not in rules:
        raise DefinitionError(f"unknown rule {code!r}.{did_you_mean(code.upper(), list(rules))}")
    return rules[code.upper()]


def check_log(
    path: str | Path,
    benchmark_file: str | Path | None = None,
    ruleset: str | None = None,
    second_opinion: bool = True,
) -> Verdict:
    """Judge one log by itself. Raises InputError for an unreadable path, DefinitionError for a bad definition."""
    path = Path(path)
    result_set = find_result_sets(path)[0]
    log = read_log(path)
    benchmark = find_definition(log.value(keys.SUBMISSION_BENCHMARK), benchmark_file, result_set.definition_file)
    round_name = infer_round(benchmark, result_set.round, ruleset)
    verdict = _judge_log(log, benchmark, round_name, _source(benchmark, result_set, round_name, ruleset))
    return with_second_opinion((verdict,))[0] if second_opinion else verdict


def check_set(
    result_set: ResultSet,
    benchmark_file: str | Path | None = None,
    second_opinion: bool = True,
    ruleset: str | None = None,
) -> Verdict:
    """Judge a result set and every log in it."""
    logs = tuple(read_log(path) for path in result_set.logs)
    benchmark = _definition_of_set(logs, benchmark_file, result_set)
    round_name = infer_round(benchmark, result_set.round, ruleset)
    source = _source(benchmark, result_set, round_name, ruleset)
    verdicts = [_judge_log(log, benchmark, round_name, source) for log in logs]
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
    return with_second_opinion((verdict,))[0] if second_opinion else verdict


def check_path(
    path: str | Path,
    benchmark_file: str | Path | None = None,
    second_opinion: bool = True,
    ruleset: str | None = None,
) -> tuple[Verdict, ...]:
    """Judge what `path` is: one log, or every result set at or below a directory."""
    if Path(path).is_file():
        return (check_log(path, benchmark_file, ruleset, second_opinion),)
    verdicts = tuple(check_set(one, benchmark_file, False, ruleset) for one in find_result_sets(path))
    return with_second_opinion(verdicts) if second_opinion else verdicts


def _definition_of_set(
    logs: Sequence[RunLog], benchmark_file: str | Path | None, result_set: ResultSet
) -> Benchmark | None:
    """By the name that most of the logs give."""
    names = [name for log in logs if isinstance(name := log.value(keys.SUBMISSION_BENCHMARK), str)]
    usual = max(names, key=names.count) if names else None
    return find_definition(usual, benchmark_file, result_set.definition_file)


def _judge_log(log: RunLog, benchmark: Benchmark | None, round_name: str | None, source: str) -> Verdict:
    outcomes = judge(LOG_RULES, make_log_subject(log, benchmark, round_name), log.path)
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
    described = result_set.system_json
    content, error = system_desc.read_system_desc(described) if described is not None else (None, None)
    return SetSubject(
        result_set=result_set,
        logs=logs,
        runs=runs,
        benchmark=benchmark,
        round=round_name,
        is_ours=any(make_log_subject(log, benchmark, round_name).is_ours for log in logs),
        system_desc=content,
        system_desc_error=error,
        convergence=judge_set_convergence(runs, benchmark, round_name),
    )


def _forgive(outcome: Outcome, of_set: Sequence[Outcome]) -> Outcome:
    """In a set that may hold a run that did not converge, that run is a warning and not an error."""
    judged = next((one for one in of_set if one.code == result_sets.NOT_CONVERGED), None)
    if outcome.code != quality.NOT_CONVERGED or judged is None or judged.status != "pass":
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
            return "from the directory's name"
        return f"the last round of {benchmark.name}" if benchmark is not None else "unknown"
    return f"definition {benchmark.path.name}" if benchmark is not None else "the benchmark is not defined here"

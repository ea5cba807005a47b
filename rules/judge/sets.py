"""Judge one log, or one result set: every log is read, judged and scored once."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from pathlib import Path

import msgspec

from rules.benchmarks.loader import Benchmark, shipped_versions
from rules.benchmarks.rounds import (
    NamedBenchmark,
    find_definition,
    infer_round,
    named_in,
    named_round,
    open_round,
)
from rules.checks.result_set.logs import INCOMPLETE, NOT_CONVERGED
from rules.checks.rule import Outcome, judge
from rules.checks.run_log.quality import NOT_CONVERGED as LOG_NOT_CONVERGED
from rules.checks.run_log.structure import CRASHED
from rules.checks.run_log.timing import BEGIN_MS, END_MS
from rules.checks.subject import JudgedSet, SetFiles, SetSubject, make_log_subject
from rules.checks.verdict import Level, Verdict, has_error, worst_first
from rules.judge.families import RULES
from rules.judge.second_opinion import with_second_opinion
from rules.logs import keys
from rules.logs.log import RunLog, read_log
from rules.logs.text import printable
from rules.official.opinion import OnProgress
from rules.scoring.energy import read_set_power
from rules.scoring.results import read_run_result
from rules.scoring.scoring import score_runs
from rules.tree.result_set import ResultSet, set_of_one
from rules.tree.system_desc import read_system_desc

_FORGIVABLE = (LOG_NOT_CONVERGED, CRASHED)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Ruleset:
    """Rules by which logs are judged: the benchmark definition and the MLPerf round. `benchmark` is None if the
    benchmark is undefined. `source` states how definition and round were chosen. `foreign_round` is the round that
    the user asked for, if the benchmark was not part of that round; else None."""

    benchmark: Benchmark | None
    round: str | None
    source: str
    foreign_round: str | None = None
    known: dict[Hashable, object] = field(default_factory=dict)
    """Cache of intermediate results, by key, that rules compute once for all logs judged by this benchmark definition
    and round."""

    def __str__(self) -> str:
        if self.round is not None:
            return f"MLPerf Training {self.round}"
        if self.benchmark is not None:
            return f"{self.benchmark.name} version {self.benchmark.version}"
        return "structure and timing only"


def check_log(
    path: str | Path,
    benchmark_file: str | Path | None = None,
    ruleset: str | None = None,
    is_one_of_many: bool = False,
) -> Verdict:
    """Judge one log without its set. Raises InputError if the path is unreadable, and DefinitionError if the
    benchmark definition is bad.

    Raises DefinitionError also if the log's benchmark is not part of the round `ruleset`. With `is_one_of_many` (the
    log is one of several to be judged) it does not: the log is then judged as if no round had been named.
    """
    path = Path(path)
    result_set, log = set_of_one(path), read_log(path)
    benchmark = find_definition(named_in(log), benchmark_file, result_set.definition_file)
    return _judge_log(log, _choose_ruleset(benchmark, result_set, ruleset, is_one_of_many, (log,)))


def judge_sets(
    result_sets: Sequence[ResultSet],
    benchmark_file: str | Path | None = None,
    ruleset: str | None = None,
    *,
    second_opinion: bool = True,
    on_opinion: OnProgress | None = None,
) -> tuple[JudgedSet, ...]:
    """Judge several result sets one after the other; the official checkers are asked about all of the sets in one
    process.

    `on_opinion` is called with the number of answered questions and of all questions. If the benchmark of one of
    several sets is not part of the round that the user asked for, that set is judged as if the user had named no
    round, and rule ST115 reports this.
    """
    is_one_of_many = len(result_sets) > 1
    judged = [judge_set(result_set, benchmark_file, ruleset, is_one_of_many) for result_set in result_sets]
    if not second_opinion or not judged:
        return tuple(judged)
    verdicts = with_second_opinion([part.verdict for part in judged], on_progress=on_opinion)
    return tuple(replace(part, verdict=verdict) for part, verdict in zip(judged, verdicts, strict=True))


def judge_set(
    result_set: ResultSet,
    benchmark_file: str | Path | None = None,
    ruleset: str | None = None,
    is_one_of_many: bool = False,
) -> JudgedSet:
    """Return the verdict on a result set and its logs, and its score. The logs are read once, and not kept in
    memory."""
    logs = tuple(read_log(path) for path in result_set.logs)
    benchmark = _definition_of_set(logs, benchmark_file, result_set)
    chosen = _choose_ruleset(benchmark, result_set, ruleset, is_one_of_many, logs)
    verdicts = tuple(_judge_log(log, chosen) for log in logs)
    errors = (finding for verdict in verdicts for finding in verdict.findings if finding.severity == "error")
    is_broken = any(finding.code not in _FORGIVABLE for finding in errors)
    subject = replace(make_set_subject(result_set, logs, benchmark, chosen.round), has_broken_logs=is_broken)
    own = judge(RULES["set"], subject, str(result_set.folder))
    outcomes = (*own, *(_forgive(outcome, own) for verdict in verdicts for outcome in verdict.outcomes))
    return JudgedSet(
        result_set=result_set,
        verdict=_reach("set", str(result_set.folder), logs, chosen, outcomes, verdicts),
        result=subject.result,
        rounds=benchmark.rounds if benchmark is not None else (),
        system_desc=subject.system_desc.fields if subject.system_desc is not None else None,
        files=subject.files,
    )


def make_set_subject(
    result_set: ResultSet, logs: tuple[RunLog, ...], benchmark: Benchmark | None, round_name: str | None
) -> SetSubject:
    """Return a result set in the form that rules judge: the logs, their runs' results, the score, and the files
    beside the logs."""
    runs = tuple(read_run_result(log, benchmark, round_name) for log in logs)
    power = read_set_power(result_set, runs)
    return SetSubject(
        result_set=result_set,
        logs=logs,
        result=score_runs(runs, benchmark, round_name, power),
        benchmark=benchmark,
        round=round_name,
        is_ours=any(make_log_subject(log, benchmark, round_name).is_ours for log in logs),
        power=power,
        system_desc=read_system_desc(result_set.system_json) if result_set.system_json is not None else None,
        files=SetFiles(result_set.root),
    )


def _definition_of_set(
    logs: Sequence[RunLog], benchmark_file: str | Path | None, result_set: ResultSet
) -> Benchmark | None:
    """Return the benchmark definition by the name and version that most of the set's logs state, or by the
    directory's name where the set has no logs; None for a benchmark without a definition."""
    named = [benchmark for benchmark in map(named_in, logs) if isinstance(benchmark.name, str)]
    none = NamedBenchmark(name=None if logs else result_set.benchmark)
    return find_definition(max(named, key=named.count, default=none), benchmark_file, result_set.definition_file)


def _choose_ruleset(
    benchmark: Benchmark | None,
    result_set: ResultSet,
    asked: str | None,
    is_one_of_many: bool,
    logs: Sequence[RunLog],
) -> _Ruleset:
    """Return the rules by which a log or result set is judged: the rules of the round `asked`, which the user named,
    or, if the user named none, of the round that `infer_round` finds.

    If the benchmark is not part of the round `asked`, `is_one_of_many` decides: if true, the log or set is judged as
    if the user had named no round; if false, DefinitionError is raised. Raises DefinitionError also if there is no
    round `asked`.
    """
    foreign_round = None
    if asked is not None and benchmark is not None and is_one_of_many:
        wanted = named_round(asked)
        if wanted not in benchmark.rounds:
            asked, foreign_round = None, wanted
    day = _last_day(logs)
    round_name = infer_round(benchmark, result_set.round, asked, day)
    if asked is not None:
        source = "asked for"
    elif round_name is not None and round_name == result_set.round:
        source = f"from the {result_set.round_source}'s name"
    elif benchmark is None:
        source = "the benchmark, or its version, is not defined here"
    elif round_name is not None:
        is_open = day is not None and open_round(benchmark, day) == round_name
        source = f"open when the runs were made, {day}" if is_open else f"the last round of {benchmark.name}"
        source += "; --ruleset ROUND judges by another"
    else:
        versions = shipped_versions(benchmark.name)
        is_older = benchmark.path in {version.path for version in versions[:-1]}
        source = f"definition {benchmark.path.name}"
        source += f", an older version: {versions[-1].version} is current" if is_older else ""
    return _Ruleset(benchmark=benchmark, round=round_name, source=source, foreign_round=foreign_round)


def _last_day(logs: Sequence[RunLog]) -> date | None:
    """Return the day (UTC) on which the last run of a set began; None if no time stamp is plausible.

    Time stamps are in milliseconds. If none is plausible so, they are read as seconds, which some logs of round 0.7
    use. Rule TI108 reports implausible stamps.
    """
    starts = [line.time_ms for log in logs if (line := log.first(keys.RUN_START)) is not None]
    for unit_s in (1e-3, 1.0):
        known = [start * unit_s for start in starts if BEGIN_MS / 1e3 <= start * unit_s <= END_MS / 1e3]
        if known:
            return datetime.fromtimestamp(max(known), UTC).date()
    return None


def _judge_log(log: RunLog, chosen: _Ruleset) -> Verdict:
    subject = make_log_subject(log, chosen.benchmark, chosen.round, chosen.foreign_round, chosen.known)
    return _reach("log", log.path, (log,), chosen, judge(RULES["log"], subject, log.path))


def _reach(
    level: Level,
    path: str,
    logs: Sequence[RunLog],
    chosen: _Ruleset,
    outcomes: tuple[Outcome, ...],
    parts: tuple[Verdict, ...] = (),
) -> Verdict:
    name = logs[0].value(keys.SUBMISSION_BENCHMARK) if logs else None
    if chosen.benchmark is not None:
        name = chosen.benchmark.name
    findings = worst_first(outcomes)
    is_incomplete = any(finding.code == INCOMPLETE for finding in findings)
    return Verdict(
        subject=printable(path),
        level=level,
        outcome="invalid" if has_error(findings) else "incomplete" if is_incomplete else "valid",
        benchmark=printable(name) if isinstance(name, str) else None,
        round=chosen.round,
        ruleset=str(chosen),
        ruleset_source=chosen.source,
        findings=findings,
        outcomes=outcomes,
        parts=parts,
    )


def _forgive(outcome: Outcome, of_set: Sequence[Outcome]) -> Outcome:
    """Return a rule's result for one log of a result set. An error because the log's run did not converge, or
    crashed, becomes a warning if the set may hold one run of this kind, which counts as the dropped slowest run."""
    if outcome.code not in _FORGIVABLE or not outcome.findings:
        return outcome
    allowed = next((other for other in of_set if other.code == NOT_CONVERGED), None)
    if allowed is None or allowed.status != "pass":
        return outcome
    forgiven = (
        replace(finding, severity="warning", message=f"{finding.message}; it counts as the dropped slowest run")
        for finding in outcome.findings
    )
    return msgspec.structs.replace(outcome, findings=tuple(forgiven))

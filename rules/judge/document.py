"""Define the JSON document with verdicts that `check --format json` prints."""

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from rules.checks.rule import Finding, Status
from rules.checks.verdict import Level, Verdict, VerdictOutcome
from rules.judge.agreement import ComparedFamily, compare_opinions
from rules.logs.text import printable
from rules.official.opinion import OfficialOpinion
from rules.records.codec import Count, Record
from rules.tree.inventory import SkippedFile


class JudgedRule(Record, frozen=True, kw_only=True):
    """Result of one rule for a log, set, submission or round; `reason` states why the rule was not applied, where it
    was skipped."""

    code: str
    title: str
    subject: str
    status: Status
    reason: str | None


class LogVerdict(Record, frozen=True, kw_only=True):
    """Verdict on one log of a result set, judged without regard to the set's other logs, with the official checkers'
    opinions."""

    subject: str
    outcome: Literal["valid", "invalid"]
    official: tuple[OfficialOpinion, ...]


class VerdictMember(Record, frozen=True, kw_only=True):
    """Verdict on a log, set, submission or round.

    `findings` are the findings on the judged item itself and on all its parts, worst first. `rules` has the results
    of the rules for this level; for a set it also has the results of the rules for its logs. `logs` are the logs of a
    set; `parts` are the sets of a submission or the submissions of a round.
    """

    subject: str
    """Path of the log or of the directory that was judged."""
    level: Level
    outcome: VerdictOutcome
    benchmark: str | None
    round: str | None
    """MLPerf round by whose rules the log or tree was judged. None for benchmarks that are not MLPerf's, and for a
    tree whose parts are of several rounds."""
    ruleset: str
    ruleset_source: str
    num_errors: Count
    num_warnings: Count
    findings: tuple[Finding, ...]
    rules: tuple[JudgedRule, ...]
    official: tuple[OfficialOpinion, ...]
    agreement: tuple[ComparedFamily, ...]
    """Comparison with MLPerf's official checkers by family of rules; empty where the checkers were not asked."""
    logs: tuple[LogVerdict, ...]
    parts: tuple["VerdictMember", ...]


class Omission(Record, frozen=True, kw_only=True):
    """File or run set that is not judged: a log not named result_*.txt (those of MLPerf Inference included), or a run
    set without a finished run."""

    path: str
    reason: str
    remedy: str


class VerdictDocument(Record, frozen=True, kw_only=True):
    """Document that `check --format json` prints: the verdict on everything judged, and files and run sets that were
    not judged."""

    schema_version: Literal[1] = 1
    verdicts: tuple[VerdictMember, ...]
    not_judged: tuple[Omission, ...]


def verdicts_to_json(verdicts: Sequence[Verdict], skipped: Sequence[SkippedFile] = ()) -> dict[str, Any]:
    """Return the document that `check --format json` prints, as plain JSON values; `skipped` lists files and run sets
    that look like results and were not judged."""
    document = VerdictDocument(
        verdicts=tuple(map(_member, verdicts)),
        not_judged=tuple(
            Omission(path=printable(str(item.path)), reason=item.reason, remedy=item.remedy) for item in skipped
        ),
    )
    content: dict[str, Any] = msgspec.to_builtins(document)
    return content


def _member(verdict: Verdict) -> VerdictMember:
    is_set = verdict.level == "set"
    return VerdictMember(
        subject=verdict.subject,
        level=verdict.level,
        outcome=verdict.outcome,
        benchmark=verdict.benchmark,
        round=verdict.round,
        ruleset=verdict.ruleset,
        ruleset_source=verdict.ruleset_source,
        num_errors=verdict.count("error"),
        num_warnings=verdict.count("warning"),
        findings=verdict.findings,
        rules=tuple(
            msgspec.convert(outcome, JudgedRule, from_attributes=True)
            for outcome in verdict.outcomes
            if verdict.level in ("log", "set") or outcome.subject == verdict.subject
        ),
        official=verdict.official,
        agreement=compare_opinions(verdict),
        logs=tuple(
            msgspec.convert(log, LogVerdict, from_attributes=True) for log in (verdict.parts if is_set else ())
        ),
        parts=tuple(map(_member, verdict.parts if not is_set else ())),
    )

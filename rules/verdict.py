"""The verdict on a log or a set, and its JSON form (schemas/verdict.schema.json)."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from rules.official import OfficialOpinion
from rules.rule import Finding, Outcome, Severity

SCHEMA_VERSION = 1
Level = Literal["log", "set"]
VerdictOutcome = Literal["valid", "invalid", "incomplete"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """What the rules say of one log or one set.

    `findings` and `outcomes` are those of this level and of the levels below, worst first; `logs` holds the
    verdicts on a set's logs by themselves. A set may be valid although one of its logs is not: the run that did
    not converge, which in the set's findings is only a warning. `ruleset` names the rules and `ruleset_source`
    how they were chosen; `round` is the official round, None for own benchmarks.
    """

    subject: str
    level: Level
    outcome: VerdictOutcome
    benchmark: str | None
    round: str | None
    ruleset: str
    ruleset_source: str
    findings: tuple[Finding, ...]
    outcomes: tuple[Outcome, ...]
    official: OfficialOpinion | None = None
    logs: tuple["Verdict", ...] = ()

    def count(self, severity: Severity) -> int:
        return sum(finding.severity == severity for finding in self.findings)


def verdicts_to_json(verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """The document that `check --format json` prints, as plain values."""
    return {"schema_version": SCHEMA_VERSION, "verdicts": [_to_json(one) for one in verdicts]}


def _to_json(verdict: Verdict) -> dict[str, Any]:
    return {
        "subject": verdict.subject,
        "level": verdict.level,
        "outcome": verdict.outcome,
        "benchmark": verdict.benchmark,
        "round": verdict.round,
        "ruleset": verdict.ruleset,
        "ruleset_source": verdict.ruleset_source,
        "num_errors": verdict.count("error"),
        "num_warnings": verdict.count("warning"),
        "findings": [asdict(finding) for finding in verdict.findings],
        "rules": [
            {
                "code": one.code,
                "title": one.title,
                "subject": one.subject,
                "status": one.status,
                "reason": one.reason,
            }
            for one in verdict.outcomes
        ],
        "official": None if verdict.official is None else asdict(verdict.official),
        "logs": [
            {
                "subject": one.subject,
                "outcome": one.outcome,
                "official": None if one.official is None else asdict(one.official),
            }
            for one in verdict.logs
        ],
    }

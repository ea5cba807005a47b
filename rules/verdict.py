"""The verdict on a log or a set, and its JSON form (schemas/verdict.schema.json)."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from rules.official import OfficialOpinion
from rules.rule import Finding, Outcome

SCHEMA_VERSION = 1
Level = Literal["log", "set"]
VerdictOutcome = Literal["valid", "invalid", "incomplete"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """What the rules say of one log or one set.

    `findings` are of this level, errors first; a set's verdict holds its logs' verdicts in `logs`. `ruleset`
    names the rules and `ruleset_source` how they were chosen. A set may be valid although one of its logs is
    not: the run that did not converge.
    """

    subject: str
    level: Level
    outcome: VerdictOutcome
    benchmark: str | None
    ruleset: str
    ruleset_source: str
    findings: tuple[Finding, ...]
    rules: tuple[Outcome, ...]
    official: OfficialOpinion | None = None
    logs: tuple["Verdict", ...] = ()

    @property
    def all_findings(self) -> tuple[Finding, ...]:
        """Findings of this level and of the levels below."""
        return (*self.findings, *(finding for log in self.logs for finding in log.findings))


def verdicts_to_json(verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """The document that `check --format json` prints, as plain values."""
    return {"schema_version": SCHEMA_VERSION, "verdicts": [_to_json(one) for one in verdicts]}


def _to_json(verdict: Verdict) -> dict[str, Any]:
    return {
        "subject": verdict.subject,
        "level": verdict.level,
        "outcome": verdict.outcome,
        "benchmark": verdict.benchmark,
        "ruleset": verdict.ruleset,
        "ruleset_source": verdict.ruleset_source,
        "findings": [asdict(finding) for finding in verdict.findings],
        "rules": [
            {"code": one.code, "title": one.title, "status": one.status, "reason": one.reason}
            for one in verdict.rules
        ],
        "official": None if verdict.official is None else asdict(verdict.official),
        "logs": [_to_json(one) for one in verdict.logs],
    }

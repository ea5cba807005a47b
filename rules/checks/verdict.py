"""The verdict on a log, a set, a submission or a round, and its JSON form (schemas/verdict.schema.json)."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from rules.checks.rule import Finding, Outcome, Severity
from rules.logs.log import printable
from rules.official.opinion import OfficialOpinion
from rules.tree.skipped import Unjudged

SCHEMA_VERSION = 2
Level = Literal["log", "set", "submission", "round"]
VerdictOutcome = Literal["valid", "invalid", "incomplete"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """What the rules say of one log, one set, one submission or one round.

    `findings` and `outcomes` are those of this level and of the levels below; findings stand worst first. `parts`
    holds the verdicts of the level below: the logs of a set, the sets of a submission, the submissions of a round.
    A level's verdict stands above those of its parts: a set may be valid although one of its logs is not (the run
    that did not converge, which in the set's findings is only a warning), and a submission invalid although a set
    in it is only incomplete. `ruleset` names the rules and `ruleset_source` how they were chosen; `round` is the
    official round, None for own benchmarks and where the parts are of several. `official` holds what the official
    checkers said of this level; their opinions of the parts stand there.
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
    official: tuple[OfficialOpinion, ...] = ()
    parts: tuple["Verdict", ...] = ()

    @property
    def logs(self) -> tuple["Verdict", ...]:
        """The verdicts on all logs below this level, in order; none for a log itself."""
        return tuple(log for part in self.parts for log in (part.logs if part.level != "log" else (part,)))

    def count(self, severity: Severity) -> int:
        return sum(finding.severity == severity for finding in self.findings)


def verdicts_to_json(verdicts: Sequence[Verdict], unjudged: Sequence[Unjudged] = ()) -> dict[str, Any]:
    """The document that `check --format json` prints, as plain values.

    Findings stand at every level that they concern. What became of each rule stands at its own level only: a set
    lists its logs' rules, a submission and a round their own. `unjudged` is what was passed over.
    """
    return {
        "schema_version": SCHEMA_VERSION,
        "verdicts": [_to_json(one) for one in verdicts],
        "not_judged": [
            {"path": printable(str(one.path)), "reason": one.reason, "remedy": one.remedy} for one in unjudged
        ],
    }


def _to_json(verdict: Verdict) -> dict[str, Any]:
    from rules.judge.agreement import compare_opinions  # it looks at verdicts

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
            if verdict.level in ("log", "set") or one.subject == verdict.subject
        ],
        "official": [asdict(one) for one in verdict.official],
        "agreement": [asdict(one) for one in compare_opinions(verdict)],
        "logs": [
            {
                "subject": one.subject,
                "outcome": one.outcome,
                "official": [asdict(opinion) for opinion in one.official],
            }
            for one in (verdict.parts if verdict.level == "set" else ())
        ],
        "parts": [_to_json(one) for one in (verdict.parts if verdict.level != "set" else ())],
    }

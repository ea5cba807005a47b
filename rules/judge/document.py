"""Verdicts as the JSON document that `check --format json` prints (schemas/verdict.schema.json)."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rules.checks.verdict import Verdict
from rules.judge.agreement import compare_opinions
from rules.logs.text import printable
from rules.tree.inventory import Skipped

SCHEMA_VERSION = 2


def verdicts_to_json(verdicts: Sequence[Verdict], skipped: Sequence[Skipped] = ()) -> dict[str, Any]:
    """The document that `check --format json` prints, as plain values.

    Findings are at every level that they concern. What became of each rule is at its own level only: a set
    lists its logs' rules, a submission and a round their own. `skipped` is what was passed over.
    """
    return {
        "schema_version": SCHEMA_VERSION,
        "verdicts": [_to_json(verdict) for verdict in verdicts],
        "not_judged": [
            {"path": printable(str(item.path)), "reason": item.reason, "remedy": item.remedy} for item in skipped
        ],
    }


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
                "code": outcome.code,
                "title": outcome.title,
                "subject": outcome.subject,
                "status": outcome.status,
                "reason": outcome.reason,
            }
            for outcome in verdict.outcomes
            if verdict.level in ("log", "set") or outcome.subject == verdict.subject
        ],
        "official": [asdict(opinion) for opinion in verdict.official],
        "agreement": [asdict(opinion) for opinion in compare_opinions(verdict)],
        "logs": [
            {
                "subject": part.subject,
                "outcome": part.outcome,
                "official": [asdict(opinion) for opinion in part.official],
            }
            for part in (verdict.parts if verdict.level == "set" else ())
        ],
        "parts": [_to_json(part) for part in (verdict.parts if verdict.level != "set" else ())],
    }

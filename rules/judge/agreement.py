"""The official verdicts beside ours, rule family by rule family, and where the two differ."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Literal

from rules.checks.rule import BROKEN, FAMILIES, LOOKED_AT_BY, Outcome, family_of
from rules.checks.verdict import Verdict
from rules.official.opinion import CheckerName, OfficialOpinion

Relation = Literal["same", "differ", "ours alone", "no verdict"]
_TOLERATED = 1
"""Logs of a set that may be rejected: package_checker's own allowance, of which Olympic scoring drops one."""
_QUOTED_KEY = re.compile(r"'([a-z0-9_]+)'|Failed checks for ([a-z0-9_]+) ")
_KEY_FAMILIES = (
    (re.compile(r"eval_accuracy|(train|eval)_samples"), "QU"),
    (re.compile(r".*opt_|opt_|lr_|global_batch_size|gradient_accumulation|weights_initialization"), "HP"),
    (re.compile(r"(init|run)_(start|stop)"), "TI"),
)
_MESSAGE_CHARS = 160


@dataclass(frozen=True, kw_only=True, slots=True)
class ComparedFamily:
    """One family of rules: what ours came to, what theirs, and whether that is the same.

    "ours alone": no official checker looks at this, or none was asked. "no verdict": theirs crashed, took too
    long or refused.
    """

    family: str
    name: str
    ours: str
    theirs: str
    relation: Relation


def compare_opinions(verdict: Verdict) -> tuple[ComparedFamily, ...]:
    """Return a row per family that was judged; none where no official checker was asked about this verdict."""
    opinions = [opinion for part in verdict.walk() for opinion in part.official]
    if not opinions:
        return ()
    judged = dict.fromkeys(family_of(outcome.code) for outcome in verdict.outcomes)
    order = [*FAMILIES, *judged]
    return tuple(_compare(family, verdict, opinions) for family in sorted(judged, key=order.index))


def differences(verdict: Verdict) -> tuple[str, ...]:
    """Return a line for each family where the two differ, or where only ours finds an error."""
    lines = []
    for row in compare_opinions(verdict):
        if row.relation == "differ":
            lines.append(f"ours and theirs differ on {row.name}: ours {row.ours}; theirs {row.theirs}")
        elif row.relation == "no verdict":
            lines.append(f"theirs came to no verdict on {row.name}: {row.theirs}")
        elif row.relation == "ours alone" and "error" in row.ours:
            lines.append(f"only ours judges {row.name}: {row.ours}")
    return tuple(lines)


def _compare(family: str, verdict: Verdict, opinions: Sequence[OfficialOpinion]) -> ComparedFamily:
    ours, is_accepted = _ours(family, verdict)
    checkers = LOOKED_AT_BY.get(family, ())
    asked = [opinion for opinion in opinions if opinion.checker in checkers]
    if not asked:
        theirs = "not asked" if checkers else "no official checker looks at it"
        relation: Relation = "ours alone"
    else:
        theirs, accepts = _compliance(family, verdict) if checkers == ("compliance",) else _others(asked)
        relation = "no verdict" if accepts is None else "same" if accepts == is_accepted else "differ"
        if family in ("SU", "PW", "RS") and is_accepted and accepts is False and verdict.count("error"):
            # The package checker's one verdict is on logs, seeds and convergence too, which have rows of their own.
            relation = "same"
    return ComparedFamily(
        family=family, name=FAMILIES.get(family, family), ours=ours, theirs=theirs, relation=relation
    )


def _ours(family: str, verdict: Verdict) -> tuple[str, bool]:
    outcomes = [outcome for outcome in verdict.outcomes if family_of(outcome.code) == family]
    found = [finding for outcome in outcomes for finding in outcome.findings]
    counts = Counter(finding.severity for finding in found)
    if not found:
        is_any = any(outcome.status == "pass" for outcome in outcomes)
        return _skipped(outcomes, is_any) or ("passed" if is_any else "did not apply"), True
    texts = []
    for severity in ("error", "warning", "info"):
        if number := counts[severity]:
            codes = sorted({finding.code for finding in found if finding.severity == severity})
            texts.append(
                f"{number} {severity}{'s' if number > 1 and severity != 'info' else ''} ({', '.join(codes)})"
            )
    return ", ".join(texts), not counts["error"]


def _skipped(outcomes: Sequence[Outcome], is_any_judged: bool) -> str:
    """What was not judged, because a rule that it builds on is broken; "" where nothing was left out."""
    blocked = [
        outcome for outcome in outcomes if outcome.status == "skip" and (outcome.reason or "").endswith(BROKEN)
    ]
    if not blocked:
        return ""
    codes = ", ".join(sorted({outcome.code for outcome in blocked}))
    reasons = ", ".join(sorted({str(outcome.reason) for outcome in blocked}))
    return f"{'passed in part, ' if is_any_judged else ''}not judged: {codes} ({reasons})"


def _compliance(family: str, verdict: Verdict) -> tuple[str, bool | None]:
    """What the compliance checker says of the logs, as far as it concerns one family of rules."""
    sets = [list(log.official) for log in verdict.logs] or [list(verdict.official)]
    asked = [opinion for opinions in sets for opinion in opinions if opinion.checker == "compliance"]
    silent = [opinion for opinion in asked if opinion.outcome not in ("valid", "invalid")]
    if silent:
        on_logs = f" on {len(silent)} of {len(asked)} logs" if len(asked) > 1 else ""
        return f"{silent[0].outcome}{on_logs}: {_first(silent)}", None
    rejected = {opinion.subject: said for opinion in asked if (said := _about(family, opinion))}
    if not rejected:
        return f"accepts {len(asked)} logs" if len(asked) != 1 else "accepts it", True
    tolerated = verdict.level != "log" and all(
        sum(log.subject in rejected for log in part.parts) <= _TOLERATED
        for part in verdict.walk()
        if part.level == "set"
    )
    text = f"rejects {len(rejected)} of {len(asked)} logs" if len(asked) > 1 else "rejects it"
    subject, said = next(iter(rejected.items()))
    example = f"{PurePath(subject).name}: {said}" if len(asked) > 1 else said
    allowed = " (which its package checker accepts)" if tolerated else ""
    return f"{text}{allowed}: {example}", tolerated


def _about(family: str, opinion: OfficialOpinion) -> str:
    """The first complaint of an opinion that belongs to this family; complaints of no known key to structure."""
    if opinion.outcome != "invalid":
        return ""
    return next((said for said in opinion.messages if _family_of_message(said) == family), "")[:_MESSAGE_CHARS]


def _family_of_message(message: str) -> str:
    match = _QUOTED_KEY.search(message)
    key = (match[1] or match[2]) if match is not None else ""
    if message.startswith("Required ") and "different values" not in message:
        return "ST"
    return next((family for pattern, family in _KEY_FAMILIES if pattern.match(key)), "ST")


def _others(asked: Sequence[OfficialOpinion]) -> tuple[str, bool | None]:
    texts = [
        _one_checker(checker, [opinion for opinion in asked if opinion.checker == checker])
        for checker in dict.fromkeys(opinion.checker for opinion in asked)
    ]
    outcomes = {opinion.outcome for opinion in asked}
    accepts = False if "invalid" in outcomes else True if outcomes == {"valid"} else None
    return "; ".join(texts), accepts


def _one_checker(checker: CheckerName, asked: Sequence[OfficialOpinion]) -> str:
    counts = Counter(opinion.outcome for opinion in asked)
    words = {"valid": "accepts", "invalid": "rejects"}
    if len(asked) == 1:
        (only,) = asked
        factor = f", factor {only.factor:.10g}" if only.factor is not None else ""
        said = f": {_first(asked)}" if only.messages and (only.outcome != "valid" or checker == "rcp") else ""
        return f"{checker} {words.get(only.outcome, only.outcome)}{factor}{said}"
    counted = ", ".join(f"{words.get(name, name)} {number}" for name, number in counts.items())
    others = [opinion for opinion in asked if opinion.outcome != "valid"]
    return f"{checker} {counted}" + (f": {_first(others)}" if others else "")


def _first(opinions: Sequence[OfficialOpinion]) -> str:
    return next((message for opinion in opinions for message in opinion.messages), "no reason given")[:_MESSAGE_CHARS]

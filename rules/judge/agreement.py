"""Compare the verdicts of MLPerf's official checkers with those of this harness's rules, by family of rules."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Literal

from rules.checks.rule import BROKEN, FAMILIES, LOOKED_AT_BY, LOOKED_AT_FOR, Outcome, count_problems, family_of
from rules.checks.verdict import Verdict
from rules.logs import keys
from rules.official.opinion import CheckerName, OfficialOpinion

Agreement = Literal["same", "differ", "ours alone", "no verdict"]
ADDED = "asked with "
"""Beginning of an official checker's message about an entry that does not come from the checker: this harness added
it to the checker's tables."""
_FORGIVABLE = frozenset({"QU103", "ST116"})
"""Rules whose error in one log a result set may forgive: the log's run did not converge, or crashed, and counts as
the dropped slowest run. The official checker rejects such a log on its own."""
_TOLERATED = 1
"""Number of rejected logs that the official package checker tolerates in a result set, since Olympic scoring drops
one."""
_QUOTED_KEY = re.compile(r"'([a-z0-9_]+)'|Failed checks for ([a-z0-9_]+) ")
_EXECUTED = re.compile(r'Failed executing CHECK code: (?P<test>.*?) triggered by line: .*?"key": *"(?P<key>\w+)"')
_KEY_FAMILIES = (
    (re.compile(r"eval_accuracy"), "QU"),
    (re.compile(r".*opt_|lr_|global_batch_size|gradient_accumulation|weights_initialization|max_sequence"), "HP"),
    (re.compile(r"(train|eval)_samples|eval_every"), "HP"),
    (re.compile(r"(init|run)_(start|stop)"), "TI"),
)
_PACKAGE_FAMILIES = (
    (re.compile(r"/power\b|power (files?|result)", re.IGNORECASE), "PW"),
    (re.compile(r"number of files|total files|Unknown files"), "RS"),
    (re.compile(r"Skipping benchmark"), "SU"),
    (re.compile(r"do(es)? not comply|^CHECK |^Required |^Failed |parsing errors"), "ST"),
    (re.compile(r"seed", re.IGNORECASE), "SE"),
    (re.compile(r"RCP|convergence|Batch sizes"), "RC"),
    (re.compile(r"system description", re.IGNORECASE), "SY"),
)
"""Patterns of the official package checker's messages, each with a family of rules: a message belongs to the family
of the first pattern that it matches. The messages concern many families, since the package checker also runs the
other checkers. Patterns for messages that name directories come first: a directory may have any name, such as
"seed"."""
_MESSAGE_CHARS = 160
_MAX_FOLDERS = 3
_NOT_APPLIED = "did not apply"
_ELSEWHERE = "finds nothing here"


@dataclass(frozen=True, kw_only=True, slots=True)
class ComparedFamily:
    """Comparison for one family of rules: the result of this harness, the result of the official checkers, and
    whether the two agree.

    Two values state that nothing can be compared. "ours alone": no official checker covers the family, or none was
    asked. "no verdict": the official checker crashed, timed out or refused.
    """

    family: str
    name: str
    ours: str
    theirs: str
    agreement: Agreement


def compare_opinions(verdict: Verdict) -> tuple[ComparedFamily, ...]:
    """Return a comparison with the official checkers for each family of rules that was judged; empty where no
    official checker was asked about the logs and directories of this verdict."""
    opinions = [opinion for part in verdict.walk() for opinion in part.official]
    if not opinions:
        return ()
    judged = dict.fromkeys(family_of(outcome.code) for outcome in verdict.outcomes)
    order = [*FAMILIES, *judged]
    return tuple(_compare(family, verdict, opinions) for family in sorted(judged, key=order.index))


def differences(verdict: Verdict) -> tuple[str, ...]:
    """Return a line for each family of rules that a reader should look at. A family is listed if the results of the
    official checkers and of this harness differ; if the official checkers came to no verdict; or if only this harness
    judges the family, and it found an error."""
    lines = []
    for row in compare_opinions(verdict):
        if row.agreement == "differ":
            lines.append(f"ours and theirs differ on {row.name}: ours {row.ours}; theirs {row.theirs}")
        elif row.agreement == "no verdict":
            lines.append(f"theirs came to no verdict on {row.name}: {row.theirs}")
        elif row.agreement == "ours alone" and "error" in row.ours:
            lines.append(f"only ours judges {row.name}: {row.ours}")
    return tuple(lines)


def accepted_by_round(verdict: Verdict) -> tuple[str, ...]:
    """Return a line for each MLPerf round whose official compliance checker accepts logs that break rules here. The
    line states the number of these logs and lists the broken rules with their sources: the official checker does not
    test them."""
    against: dict[str, list[Verdict]] = {}
    num_broken: Counter[str | None] = Counter()
    for log in verdict.logs or (verdict,):
        asked, broken = _asked_of_round(log), _broken(log) - _FORGIVABLE
        if log.round is not None and asked and broken:
            num_broken[log.round] += 1
            if all(each.outcome == "valid" for each in asked):
                against.setdefault(log.round, []).append(log)
    lines = []
    for round_name, logs in against.items():
        errors = (finding for log in logs for finding in log.findings if finding.severity == "error")
        rules = dict.fromkeys(f"{each.code}, that {each.title} ({each.citation})" for each in errors)
        lines.append(
            f"the official checker says SUCCESS to {len(logs)} of {num_broken[round_name]} logs with errors here, by"
            f" its own rules of round {round_name}, which do not test {'; '.join(rules)}"
        )
    return tuple(lines)


def is_accepted_by_round(verdict: Verdict) -> bool:
    """Return whether the compliance checker of the MLPerf round accepts all the logs in which rules here find errors.
    False if no log has errors, or if the result set has errors of its own."""
    logs = verdict.logs or (verdict,)
    rejected = [log for log in logs if _broken(log) - _FORGIVABLE]
    answers = [_asked_of_round(log) for log in rejected]
    are_accepted = all(asked and all(each.outcome == "valid" for each in asked) for asked in answers)
    return bool(rejected) and are_accepted and _broken(verdict) <= set().union(*map(_broken, rejected))


def _asked_of_round(log: Verdict) -> list[OfficialOpinion]:
    """Return the official compliance checker's opinions on a log by the rules of the log's own MLPerf round."""
    return [each for each in log.official if each.checker == "compliance" and each.ruleset == f"{log.round}.0"]


def _broken(verdict: Verdict) -> set[str]:
    """Return the codes of the rules that a verdict reports as broken, with an error."""
    return {finding.code for finding in verdict.findings if finding.severity == "error"}


def _compare(family: str, verdict: Verdict, opinions: Sequence[OfficialOpinion]) -> ComparedFamily:
    ours, is_accepted = _ours(family, verdict)
    checkers = LOOKED_AT_BY.get(family, ())
    logs = [log for log in verdict.logs or (verdict,) if _is_looked_at(family, log)]
    asked = [opinion for opinion in opinions if opinion.checker in checkers]
    if not asked or not logs:
        theirs = "not asked" if checkers and logs else "no official checker looks at it"
        agreement: Agreement = "ours alone"
    elif family == "PW" and ours == _NOT_APPLIED:
        theirs, agreement = "no power was measured", "same"
    else:
        theirs, accepts = (
            _compliance(family, verdict, logs) if checkers == ("compliance",) else _others(family, asked)
        )
        agreement = "no verdict" if accepts is None else "same" if accepts == is_accepted else "differ"
    return ComparedFamily(
        family=family, name=FAMILIES.get(family, family), ours=ours, theirs=theirs, agreement=agreement
    )


def _is_looked_at(family: str, log: Verdict) -> bool:
    return family not in LOOKED_AT_FOR or log.benchmark in LOOKED_AT_FOR[family]


def _ours(family: str, verdict: Verdict) -> tuple[str, bool]:
    outcomes = [outcome for outcome in verdict.outcomes if family_of(outcome.code) == family]
    found = [finding for outcome in outcomes for finding in outcome.findings]
    counts = count_problems(found)
    if not found:
        is_any = any(outcome.status == "pass" for outcome in outcomes)
        return _skipped(outcomes, is_any) or ("passed" if is_any else _NOT_APPLIED), True
    texts = []
    for severity in ("error", "warning", "info"):
        if number := counts[severity]:
            codes = sorted({finding.code for finding in found if finding.severity == severity})
            texts.append(
                f"{number} {severity}{'s' if number > 1 and severity != 'info' else ''} ({', '.join(codes)})"
            )
    return ", ".join(texts), not counts["error"]


def _skipped(outcomes: Sequence[Outcome], is_any_judged: bool) -> str:
    """Return a clause on the rules of a family that were not judged because a rule they require is broken; the empty
    string where there are none."""
    blocked = [
        outcome for outcome in outcomes if outcome.status == "skip" and (outcome.reason or "").endswith(BROKEN)
    ]
    if not blocked:
        return ""
    codes = ", ".join(sorted({outcome.code for outcome in blocked}))
    reasons = ", ".join(sorted({str(outcome.reason) for outcome in blocked}))
    return f"{'passed in part, ' if is_any_judged else ''}not judged: {codes} ({reasons})"


def _compliance(family: str, verdict: Verdict, logs: Sequence[Verdict]) -> tuple[str, bool | None]:
    """Return two values on one family of rules: in words, what the official compliance checker found in the logs, and
    whether the official checkers accept the logs.

    A set with one rejected log counts as accepted, since the official package checker tolerates one. The second value
    is None if the compliance checker came to no verdict on a log.
    """
    asked = [opinion for log in logs for opinion in log.official if opinion.checker == "compliance"]
    silent = [opinion for opinion in asked if opinion.outcome not in ("valid", "invalid")]
    if silent:
        folders = [str(PurePath(opinion.subject).parent) for opinion in silent]
        on_logs = f" on {len(silent)} of {len(asked)} logs{_in(folders, verdict)}" if len(asked) > 1 else ""
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
    """Return the first complaint in an official checker's opinion that belongs to a family of rules; empty if there
    is none. Complaints about unknown keys belong to the structure of logs (ST)."""
    if opinion.outcome != "invalid":
        return ""
    return next((said for said in opinion.messages if _family_of_message(said) == family), "")[:_MESSAGE_CHARS]


def _in(folders: Sequence[str], verdict: Verdict) -> str:
    """Return a clause such as " in set_a, set_b and 2 more directories" that names the folders in `folders` that are
    below the verdict's own directory; empty if no folder is."""
    inner = [
        str(PurePath(folder).relative_to(verdict.subject))
        for folder in dict.fromkeys(folders)
        if PurePath(folder).is_relative_to(verdict.subject) and folder != verdict.subject
    ]
    if not inner:
        return ""
    rest = len(inner) - _MAX_FOLDERS
    return f" in {', '.join(inner[:_MAX_FOLDERS])}" + (f" and {rest} more directories" if rest > 0 else "")


def _family_of_message(message: str) -> str:
    if (executed := _EXECUTED.match(message)) is not None:
        key, test = executed["key"], executed["test"]
    else:
        match = _QUOTED_KEY.search(message)
        key, test = (match[1] or match[2]) if match is not None else "", message.partition("failed test: ")[2]
    if message.startswith("Required ") and "different values" not in message:
        return "ST"
    if key == keys.EVAL_ACCURACY and test:  # its place, or type and range: no such test involves the target
        return "CA" if keys.SAMPLES_COUNT in test else "ST"
    return next((family for pattern, family in _KEY_FAMILIES if pattern.match(key)), "ST")


def _others(family: str, asked: Sequence[OfficialOpinion]) -> tuple[str, bool | None]:
    asked = [_as_of(family, opinion) for opinion in asked]
    texts = [
        _one_checker(checker, [opinion for opinion in asked if opinion.checker == checker])
        for checker in dict.fromkeys(opinion.checker for opinion in asked)
    ]
    outcomes = {opinion.outcome for opinion in asked}
    accepts = False if "invalid" in outcomes else True if outcomes == {"valid"} else None
    return "; ".join(texts), accepts


def _as_of(family: str, opinion: OfficialOpinion) -> OfficialOpinion:
    """Return the part of an official checker's opinion that concerns one family of rules.

    The package checker gives a single verdict on logs, seeds, convergence and descriptions, so its messages are
    divided among the families if it rejects. If none of them fits any family, every family gets all of them. Other
    opinions are returned unchanged.
    """
    if opinion.checker != "package" or opinion.outcome != "invalid":
        return opinion
    about = [(message, _family_of_package(message)) for message in opinion.messages]
    own = tuple(message for message, of in about if of == family)
    if own or not about or all(of is None for _, of in about):
        return replace(opinion, messages=own or opinion.messages)
    return replace(opinion, outcome="valid", messages=(_ELSEWHERE,))


def _family_of_package(message: str) -> str | None:
    return next((family for pattern, family in _PACKAGE_FAMILIES if pattern.search(message)), None)


def _one_checker(checker: CheckerName, asked: Sequence[OfficialOpinion]) -> str:
    words = {"valid": "accepts", "invalid": "rejects"}
    counts = Counter(
        _ELSEWHERE if opinion.messages == (_ELSEWHERE,) else words.get(opinion.outcome, opinion.outcome)
        for opinion in asked
    )
    if len(asked) == 1:
        (only,) = asked
        factor = f", factor {only.factor:.10g}" if only.factor is not None else ""
        said = f": {_first(asked)}" if only.messages and (only.outcome != "valid" or checker == "rcp") else ""
        return f"{checker} {next(iter(counts))}{factor}{said}"
    counted = ", ".join(f"{word}{' in' * (word == _ELSEWHERE)} {number}" for word, number in counts.items())
    others = [opinion for opinion in asked if opinion.outcome != "valid"]
    names = [PurePath(opinion.subject).name for opinion in others if opinion.outcome == "timeout"]
    late = f" ({', '.join(names[:_MAX_FOLDERS])}{' and more' * (len(names) > _MAX_FOLDERS)})" if names else ""
    added = next((message for opinion in asked for message in opinion.messages if message.startswith(ADDED)), "")
    late += f" ({added.partition(':')[0]})" if added else ""
    return f"{checker} {counted}{late}" + (f": {_first(others)}" if others else "")


def _first(opinions: Sequence[OfficialOpinion]) -> str:
    return next((message for opinion in opinions for message in opinion.messages), "no reason given")[:_MESSAGE_CHARS]

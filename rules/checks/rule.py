"""Define a rule that judges logs, result sets, submissions or rounds: a code, a title, a citation, and a pure
function that yields problems with their places.

The decorator `rule` returns a Rule and registers nothing; `rules.judge.families` names the rules that apply. Codes
are the two letters of a family and three digits; codes are never reused.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass
from inspect import cleandoc
from itertools import chain
from pathlib import Path
from typing import Annotated, Generic, Literal, TypeVar

import msgspec
from msgspec import Meta

from rules.logs.log import LogLine, UnparsedText
from rules.logs.text import printable

Severity = Literal["error", "warning", "info"]
Status = Literal["pass", "fail", "skip"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info")
MAX_FINDINGS_PER_RULE = 20
"""Maximum number of findings of one rule on one log, set, submission or round that are listed, the worst first;
further findings are counted by severity."""
ANYTHING = ""
"""Member of `Problem.keys` which says that no key or field of the log or result set can be relied on."""
BROKEN = " failed"
"""Words at the end of the reason why a rule was skipped: another rule that it requires found an error, or was itself
skipped because of an error."""
_FAMILIES: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("ST", "structure", ("compliance",)),
    ("TI", "timing", ("compliance",)),
    ("HP", "hyperparameters", ("compliance",)),
    ("CA", "cadence", ("compliance",)),
    ("QU", "quality", ("compliance",)),
    ("SE", "seeds", ("seed",)),
    ("RS", "result sets", ("package",)),
    ("RC", "reference convergence points", ("rcp",)),
    ("SY", "system description", ("system",)),
    ("SU", "submission tree", ("package", "repo")),
    ("PW", "power", ("package",)),
    ("RO", "rounds", ()),
)
FAMILIES = {letters: name for letters, name, _ in _FAMILIES}
LOOKED_AT_BY = {letters: checkers for letters, _, checkers in _FAMILIES if checkers}
"""Map from the letters of a family of rules to the names of the official checkers (such as "compliance") that check
the same part of logs or submissions."""
LOOKED_AT_FOR = {"CA": frozenset({"dlrmv4"})}
"""Dict from a family of rules (its letters) to the benchmarks for which the official checkers test the same things.
For a family that is not in the dict, they do so for all benchmarks. They test cadence (CA) for dlrmv4 only, by
closed_dlrmv4.yaml (mlcommons/logging issue 79)."""
S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Problem:
    """Problem that a rule found in what it judges. If `severity` or `remedy` is None, the severity or remedy of the
    rule itself holds.

    `number` is the number of problems that this object stands for, if a rule counts many and keeps one. `keys` are
    the keys of the log, or the fields of another file, that have wrong values, so that other rules cannot rely on
    them. If `keys` is None, the key of the record at `place` is meant, or all keys if `place` is no record.
    """

    message: str
    place: LogLine | UnparsedText | Path | str | None = None
    """Place of the problem: a record or unreadable text in a log, or a path. None means the place that the rule
    gives, else the judged log or directory itself."""
    _: KW_ONLY
    found: str | None = None
    expected: str | None = None
    remedy: str | None = None
    severity: Severity | None = None
    number: int = 1
    keys: tuple[str, ...] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """Breach of a rule at a place in a log or directory, ready to show. `line_num` counts from 1; it is None if the
    breach concerns the whole file or directory.

    `number` counts the problems that the finding stands for: 1, or more where they are counted and not listed.
    """

    code: Annotated[str, Meta(pattern="^[A-Z]{2}[0-9]{3}$")]
    title: str
    severity: Severity
    message: str
    path: str
    line_num: Annotated[int, Meta(ge=1)] | None
    found: str | None
    expected: str | None
    remedy: str
    citation: str
    number: Annotated[int, Meta(ge=1)] = 1

    @property
    def place(self) -> str:
        return self.path if self.line_num is None else f"{self.path}:{self.line_num}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule(Generic[S]):
    """Rule that judges subjects (logs, sets, submissions or rounds) of type S.

    `requires` are codes of other rules, and `reads` are the keys or fields that the rule reads; None for all. The
    rule is skipped if a required rule failed on a key or field that it reads. `applies` returns the reason why the
    rule does not apply to a subject; None if it applies. `place` returns the place shown for a problem that names no
    place. If `place` is None, the subject itself is shown.
    """

    code: str
    title: str
    source: str
    remedy: str
    severity: Severity
    requires: frozenset[str]
    check: Callable[[S], Iterable[Problem]]
    applies: Callable[[S], str | None]
    place: Callable[[S], Path | None]
    reads: frozenset[str] | None = None

    @property
    def summary(self) -> str:
        """Return the first paragraph of the rule's explanation (the docstring of its function) as one line."""
        return " ".join((self.check.__doc__ or "").partition("\n\n")[0].split())

    @property
    def cases(self) -> tuple[str, ...]:
        """Return the list below the first paragraph of the rule's explanation, one line for each item; empty if the
        explanation has no list."""
        items = re.split(r"^- ", cleandoc(self.check.__doc__ or "").partition("\n\n")[2], flags=re.MULTILINE)
        return tuple(" ".join(item.split()) for item in items if item.strip())

    @property
    def explanation(self) -> str:
        """Return the whole explanation of the rule: its summary, then its cases, each on a line of its own."""
        return "\n".join((self.summary, *(f"- {case}" for case in self.cases)))


class Outcome(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Result of one rule for one subject (the path of a log, set, submission or round). `reason` states why the rule
    was skipped there."""

    code: str
    title: str
    subject: str
    status: Status
    reason: str | None
    findings: tuple[Finding, ...]


def rule(
    code: str,
    title: str,
    *,
    source: str,
    remedy: str,
    severity: Severity = "error",
    requires: frozenset[str] | set[str] = frozenset(),
    reads: Iterable[str] | None = None,
    applies: Callable[[S], str | None] = lambda subject: None,
    place: Callable[[S], Path | None] = lambda subject: None,
) -> Callable[[Callable[[S], Iterable[Problem]]], Rule[S]]:
    """Turn a function that yields the problems of a subject (such as a log) into a Rule; the function's docstring
    becomes the rule's explanation."""
    return lambda check: Rule(
        code=code, title=title, source=source, remedy=remedy, severity=severity, requires=frozenset(requires),
        check=check, applies=applies, place=place, reads=None if reads is None else frozenset(reads),
    )  # fmt: skip


def judge(rules: Iterable[Rule[S]], subject: S, path: str) -> tuple[Outcome, ...]:
    """Apply each rule in order to one subject (such as a log or a set), and return a result for each. `path` is shown
    as the place of findings that state no place."""
    outcomes: list[Outcome] = []
    failed: dict[str, set[str]] = {}
    shown = printable(path)
    for checked in rules:
        broken = _broken(checked, failed) if failed else []
        reason = f"{broken[0]}{BROKEN}" if broken else checked.applies(subject)
        findings: tuple[Finding, ...] = ()
        if broken:  # what a skipped rule would check is as unreliable as what a broken rule found
            failed[checked.code] = set().union(*(failed[code] for code in broken))
        elif reason is None:
            problems = iter(checked.check(subject))
            if (first := next(problems, None)) is not None:
                wrong: set[str] = set()
                findings = tuple(_findings(checked, subject, path, chain((first,), problems), wrong))
                if wrong:
                    failed[checked.code] = wrong
        outcomes.append(
            Outcome(
                code=checked.code,
                title=checked.title,
                subject=shown,
                status="skip" if reason is not None else "fail" if findings else "pass",
                reason=reason,
                findings=findings,
            )
        )
    return tuple(outcomes)


def _broken(checked: Rule[S], failed: Mapping[str, set[str]]) -> list[str]:
    return [code for code in sorted(checked.requires & failed.keys()) if _is_read(failed[code], checked.reads)]


def _is_read(wrong: set[str], reads: frozenset[str] | None) -> bool:
    """Return whether one of the keys or fields that a rule reads is among those that cannot be relied on."""
    return reads is None or ANYTHING in wrong or not wrong.isdisjoint(reads)


def _findings(
    checked: Rule[S], subject: S, path: str, found: Iterable[Problem], wrong: set[str]
) -> Iterator[Finding]:
    """Yield the findings of one rule, worst first, and add to `wrong` the keys that its errors concern. Every problem
    is counted, but only the first MAX_FINDINGS_PER_RULE of each severity are kept. The limit bounds the memory. It
    holds for each severity, so that many warnings do not displace an error."""
    held: dict[Severity, list[Problem]] = {}
    numbers: Counter[Severity] = Counter()
    for problem in found:
        severity = problem.severity or checked.severity
        numbers[severity] += problem.number
        first = held.setdefault(severity, [])
        if len(first) < MAX_FINDINGS_PER_RULE:
            first.append(problem)
        if severity == "error":
            wrong.update(_keys_of(problem))
    num_left = MAX_FINDINGS_PER_RULE
    for severity in SEVERITIES:
        listed = held.get(severity, [])[:num_left]
        num_left -= len(listed)
        for problem in listed:
            yield _finding(checked, subject, path, problem, severity)
        if num_more := numbers[severity] - sum(problem.number for problem in listed):
            rest = Problem(f"{num_more} more findings of {checked.code} are not listed", number=num_more)
            yield _finding(checked, subject, path, rest, severity)


def _keys_of(problem: Problem) -> tuple[str, ...]:
    if problem.keys is not None:
        return problem.keys
    return (problem.place.key,) if isinstance(problem.place, LogLine) else (ANYTHING,)


def _finding(checked: Rule[S], subject: S, path: str, problem: Problem, severity: Severity) -> Finding:
    place = problem.place or checked.place(subject) or path
    file, line_num = (place.path, place.line_num) if isinstance(place, LogLine | UnparsedText) else (str(place), None)
    return Finding(
        code=checked.code,
        title=checked.title,
        severity=severity,
        message=printable(problem.message),
        path=printable(file),
        line_num=line_num,
        found=None if problem.found is None else printable(problem.found),
        expected=None if problem.expected is None else printable(problem.expected),
        remedy=problem.remedy or checked.remedy,
        citation=checked.source,
        number=problem.number,
    )


def count_problems(findings: Iterable[Finding]) -> Counter[Severity]:
    """Return, for each severity, the number of problems that findings stand for, including problems that are counted
    and not listed."""
    counts: Counter[Severity] = Counter()
    for finding in findings:
        counts[finding.severity] += finding.number
    return counts


def family_of(code: str) -> str:
    """Return the family's letters in a rule's code: 'HP' for 'HP101'."""
    return code[:2]

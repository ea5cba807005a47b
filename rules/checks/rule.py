"""What a rule is: a code, a title, a citation, and a pure function that yields what it found and where.

`rule` returns a Rule and registers nothing; `rules.judge.families` names those that apply. Codes are two
letters, those of a family, and three digits; they are never reused.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass
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
"""Findings of one rule on one subject that are kept, the worst ones; of the others the number is, by severity."""
ANYTHING = ""
"""Among the keys that cannot be relied on (`Problem.keys`): any others may be."""
BROKEN = " failed"
"""How the reason ends that a rule was skipped for, where it builds on a broken one."""
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
"""The official checkers of each family."""
LOOKED_AT_FOR = {"CA": frozenset({"dlrmv4"})}
"""Benchmarks of which alone they look at a family: of cadence for closed_dlrmv4.yaml (mlcommons/logging issue 79)."""
S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Problem:
    """What a rule's function yields. None means: the log or set itself (place), or as the rule says (severity,
    remedy). `number`: how many problems it counts, where a flood of them was counted and not kept. `keys`: what
    cannot be relied on, keys of a log or fields; None where the place's key says it, else that may be anything."""

    message: str
    place: LogLine | UnparsedText | Path | str | None = None
    """A line of a log, or a path."""
    _: KW_ONLY
    found: str | None = None
    expected: str | None = None
    remedy: str | None = None
    severity: Severity | None = None
    number: int = 1
    keys: tuple[str, ...] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """A broken rule at a place, ready to show. `line_num` counts from 1; None concerns the file or set.

    `number` is of how many problems it speaks: 1, or more where they are counted and not listed.
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
    """A rule over subjects of type S. `requires` are codes of rules that must not have failed before in what this one
    `reads`: keys of a log or fields; None is anything.

    `applies` returns why the rule does not apply to a subject, or None where it does; `place` where a problem is that
    names no place, None for the subject itself.
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
    def explanation(self) -> str:
        """Return the docstring of the rule's function as one line."""
        return " ".join((self.check.__doc__ or "").split())


class Outcome(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How one rule ended for one subject (a log's or a set's path). `reason` says why it was skipped."""

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
    """Turn a function over a subject into a Rule; its docstring becomes the explanation."""
    return lambda check: Rule(
        code=code, title=title, source=source, remedy=remedy, severity=severity, requires=frozenset(requires),
        check=check, applies=applies, place=place, reads=None if reads is None else frozenset(reads),
    )  # fmt: skip


def judge(rules: Iterable[Rule[S]], subject: S, path: str) -> tuple[Outcome, ...]:
    """Judge one subject by each rule in order. `path` is where findings without a place belong."""
    outcomes: list[Outcome] = []
    failed: dict[str, set[str]] = {}
    shown = printable(path)
    for checked in rules:
        broken = _broken(checked, failed) if failed else []
        reason = f"{broken[0]}{BROKEN}" if broken else checked.applies(subject)
        findings: tuple[Finding, ...] = ()
        if broken:  # what nobody has looked at is relied on no more than what is broken
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
    """Whether a rule reads something that cannot be relied on."""
    return reads is None or ANYTHING in wrong or not wrong.isdisjoint(reads)


def _findings(
    checked: Rule[S], subject: S, path: str, found: Iterable[Problem], wrong: set[str]
) -> Iterator[Finding]:
    """All that a rule found, worst first; what its errors concern is added to `wrong`. Every problem is counted, and
    of each severity as many are held as may be listed: what is said of a subject depends on no order, and memory on
    no number."""
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
    """Return how many problems of each severity findings speak of, those that are counted and not listed included."""
    counts: Counter[Severity] = Counter()
    for finding in findings:
        counts[finding.severity] += finding.number
    return counts


def family_of(code: str) -> str:
    """Return 'HP' of 'HP101'."""
    return code[:2]

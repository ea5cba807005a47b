"""What a rule is: a code, a title, a citation, and a pure function that yields what it found and where.

`rule` returns a Rule and registers nothing; `rules.judge.families` names those that apply. Codes are two
letters, those of a family, and three digits; they are never reused.
"""

from collections.abc import Callable, Iterable, Iterator
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
    remedy). `number`: how many problems it counts, where a flood of them was counted and not kept."""

    message: str
    place: LogLine | UnparsedText | Path | str | None = None
    """A line of a log, or a path."""
    _: KW_ONLY
    found: str | None = None
    expected: str | None = None
    remedy: str | None = None
    severity: Severity | None = None
    number: int = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """A broken rule at a place, ready to show. `line_num` counts from 1; None concerns the file or set."""

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

    @property
    def place(self) -> str:
        return self.path if self.line_num is None else f"{self.path}:{self.line_num}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule(Generic[S]):
    """A rule over subjects of type S. `requires` are codes of rules that must not have failed before.

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
    applies: Callable[[S], str | None] = lambda subject: None,
    place: Callable[[S], Path | None] = lambda subject: None,
) -> Callable[[Callable[[S], Iterable[Problem]]], Rule[S]]:
    """Turn a function over a subject into a Rule; its docstring becomes the explanation."""
    return lambda check: Rule(
        code=code, title=title, source=source, remedy=remedy, severity=severity, requires=frozenset(requires),
        check=check, applies=applies, place=place,
    )  # fmt: skip


def judge(rules: Iterable[Rule[S]], subject: S, path: str) -> tuple[Outcome, ...]:
    """Judge one subject by each rule in order. `path` is where findings without a place belong."""
    outcomes: list[Outcome] = []
    failed: set[str] = set()
    shown = printable(path)
    for checked in rules:
        broken = sorted(checked.requires & failed) if failed else []
        reason = f"{broken[0]}{BROKEN}" if broken else checked.applies(subject)
        findings: tuple[Finding, ...] = ()
        if reason is None:
            problems = iter(checked.check(subject))
            if (first := next(problems, None)) is not None:
                findings = tuple(_findings(checked, subject, path, chain((first,), problems)))
        if findings and any(finding.severity == "error" for finding in findings):
            failed.add(checked.code)
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


def _findings(checked: Rule[S], subject: S, path: str, found: Iterator[Problem]) -> Iterator[Finding]:
    for count, problem in enumerate(found):
        if count == MAX_FINDINGS_PER_RULE:
            num_more = problem.number + sum(later.number for later in found)
            problem = Problem(
                message=f"{num_more} more findings of {checked.code} are not listed", severity=problem.severity
            )
        place = problem.place or checked.place(subject) or path
        file, line_num = (
            (place.path, place.line_num) if isinstance(place, LogLine | UnparsedText) else (str(place), None)
        )
        yield Finding(
            code=checked.code,
            title=checked.title,
            severity=problem.severity or checked.severity,
            message=printable(problem.message),
            path=printable(file),
            line_num=line_num,
            found=None if problem.found is None else printable(problem.found),
            expected=None if problem.expected is None else printable(problem.expected),
            remedy=problem.remedy or checked.remedy,
            citation=checked.source,
        )
        if count == MAX_FINDINGS_PER_RULE:
            return


def family_of(code: str) -> str:
    """Return 'HP' of 'HP101'."""
    return code[:2]

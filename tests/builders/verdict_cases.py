"""What a verdict case is: something on disk, and exactly what judging it says.

Every file tests/builders/*_cases.py may hold a list CASES; `all_cases` finds them. test_rules/test_cases.py judges
each case and shows that no rule can be taken out of the registry unnoticed.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest.mock import patch

from rules.checks.rule import Rule
from rules.checks.verdict import Verdict
from rules.judge.checker import check_paths
from rules.judge.families import RULES


def check(path: Path, ruleset: str | None = None) -> tuple[Verdict, ...]:
    return check_paths([path], second_opinion=False, ruleset=ruleset)


@dataclass(frozen=True, kw_only=True)
class VerdictCase:
    """`write_bad` and `write_good` write below an empty folder and return the path to judge.

    Judged, the bad one has a finding of rule `code` in the file named `file` at `line` (None: the file or folder
    as a whole), and no findings but of `code` and `also`. `is_error` says whether the worst verdict is "invalid".
    The good one has no finding of `code`, and the rule was not skipped there.
    """

    code: str
    write_bad: Callable[[Path], Path]
    write_good: Callable[[Path], Path]
    file: str | None = None
    line: int | None = None
    also: frozenset[str] = field(default_factory=frozenset)
    is_error: bool = True
    name: str = ""
    check: Callable[[Path], tuple[Verdict, ...]] = check

    @property
    def id(self) -> str:
        return f"{self.code} {self.name}".strip()


def all_cases() -> list[VerdictCase]:
    """The cases of all files tests/builders/*_cases.py, by rule."""
    names = sorted(path.stem for path in Path(__file__).parent.glob("*_cases.py") if path.stem != "verdict_cases")
    return sorted((case for name in names for case in getattr(import_module(name), "CASES", [])), key=lambda c: c.id)


def all_rules() -> dict[str, Rule[Any]]:
    """Every rule that judges, by code."""
    return {rule.code: rule for rules in RULES.values() for rule in rules}


@contextmanager
def without_rule(code: str) -> Iterator[None]:
    """As if the rule had never been written."""
    reduced = {level: tuple(rule for rule in rules if rule.code != code) for level, rules in RULES.items()}
    with patch.dict(RULES, reduced):
        yield


def assert_verdict(case: VerdictCase, folder: Path) -> None:
    """Judge the bad thing of a case, written below an empty folder."""
    verdicts = case.check(case.write_bad(folder))
    findings = [finding for verdict in verdicts for finding in verdict.findings]
    mine = [finding for finding in findings if finding.code == case.code]
    assert mine, {finding.code for finding in findings}
    places = {(Path(finding.path).name, finding.line_num) for finding in mine}
    wanted = (case.file, case.line)
    assert wanted in places or (case.file is None and case.line in {line for _, line in places}), places
    # Most sets of own runs are built without a chain, which is said.
    assert {finding.code for finding in findings if (finding.code, finding.severity) != ("RS131", "info")} == {
        case.code
    } | case.also
    assert any(verdict.outcome == "invalid" for verdict in verdicts) == case.is_error
    for finding in mine:
        assert finding.remedy and finding.citation and finding.message


def assert_silent(case: VerdictCase, folder: Path) -> None:
    """Judge the good thing of a case, written below an empty folder: the rule was asked and found nothing."""
    verdicts = case.check(case.write_good(folder))
    mine = [outcome for verdict in verdicts for outcome in verdict.outcomes if outcome.code == case.code]
    assert not [finding for outcome in mine for finding in outcome.findings]
    assert any(outcome.status == "pass" for outcome in mine), [outcome.reason for outcome in mine]

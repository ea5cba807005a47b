"""Every rule speaks of the one log or set that breaks it, and is silent about the compliant one."""

from pathlib import Path

import pytest
from rule_cases import LOG_CASES, SET_CASES, LogCase, write_good_set

from rules.checker import LOG_RULES, SET_RULES, check_set, find_rule
from rules.errors import DefinitionError
from rules.log import parse_lines
from rules.rule import Outcome, judge
from rules.sets import find_result_sets
from rules.subject import make_log_subject


def judge_text(case: LogCase, text: str) -> dict[str, Outcome]:
    subject = make_log_subject(parse_lines(text, "result_0.txt"), case.benchmark, case.round)
    return {outcome.code: outcome for outcome in judge(LOG_RULES, subject, "result_0.txt")}


def judge_set(root: Path) -> dict[str, Outcome]:
    (one,) = find_result_sets(root)
    verdict = check_set(one, second_opinion=False)
    return {outcome.code: outcome for outcome in verdict.outcomes if outcome.subject == verdict.subject}


def test_every_rule_has_a_case() -> None:
    assert {one.code for one in LOG_RULES} == set(LOG_CASES)
    assert {one.code for one in SET_RULES} == set(SET_CASES)


@pytest.mark.parametrize("code", LOG_CASES)
def test_log_rule_passes_the_compliant_log_and_fails_the_broken_one(code: str) -> None:
    case = LOG_CASES[code]
    passed, failed = judge_text(case, case.good())[code], judge_text(case, case.bad())[code]
    assert passed.status == "pass", (passed.reason, passed.findings)
    assert failed.status == "fail", failed.reason
    finding = failed.findings[0]
    assert finding.code == code
    assert finding.path == "result_0.txt"
    assert finding.remedy and finding.citation and finding.message


@pytest.mark.parametrize("code", SET_CASES)
def test_set_rule_passes_the_compliant_set_and_fails_the_broken_one(code: str, tmp_path: Path) -> None:
    passed = judge_set(write_good_set(tmp_path / "good"))[code]
    assert passed.status == "pass", (passed.reason, passed.findings)
    failed = judge_set(SET_CASES[code](tmp_path / "bad" / "Example"))[code]
    assert failed.status == "fail", failed.reason
    assert failed.findings[0].remedy and failed.findings[0].citation


def test_codes_are_unique_and_every_rule_explains_itself() -> None:
    rules = [*LOG_RULES, *SET_RULES]
    assert len({one.code for one in rules}) == len(rules)
    for one in rules:
        assert len(one.explanation) > 30, one.code
        assert one.title and one.source and one.remedy, one.code
        assert find_rule(one.code.lower()) is one


def test_required_rules_are_judged_before() -> None:
    """A rule is skipped where one that it requires has failed; that one must have been judged already."""
    for rules in (LOG_RULES, SET_RULES):
        seen: set[str] = set()
        for one in rules:
            assert one.requires <= seen, one.code
            seen.add(one.code)


def test_unknown_code_suggests_one() -> None:
    with pytest.raises(DefinitionError, match="QU102"):
        find_rule("QU1O2")

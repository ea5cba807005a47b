"""Every rule speaks of what breaks it, at the right line, and is silent about what does not; and none is idle."""

from pathlib import Path

import pytest
from verdict_cases import VerdictCase, all_cases, all_rules, assert_silent, assert_verdict, without_rule

CASES = all_cases()
BY_CODE: dict[str, list[VerdictCase]] = {code: [case for case in CASES if case.code == code] for code in all_rules()}


def test_cases_are_of_known_rules_and_have_names_of_their_own() -> None:
    assert {case.code for case in CASES} <= set(BY_CODE)
    assert len({case.id for case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_what_breaks_a_rule_yields_its_code_at_its_line(case: VerdictCase, tmp_path: Path) -> None:
    assert_verdict(case, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_what_does_not_break_it_passes(case: VerdictCase, tmp_path: Path) -> None:
    assert_silent(case, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("code", sorted(BY_CODE))
def test_no_rule_can_be_removed_unnoticed(code: str, tmp_path: Path) -> None:
    """Without the rule at least one of the verdicts above is no longer what its case says."""
    noticed = []
    with without_rule(code):
        assert code not in all_rules()
        for index, case in enumerate(BY_CODE[code]):
            folder = tmp_path / str(index)
            folder.mkdir()
            try:
                assert_verdict(case, folder)
            except AssertionError:
                noticed.append(case.id)
    assert noticed, f"no verdict case needs {code}"

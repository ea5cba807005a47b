"""The registry: codes are unique, rules explain themselves and come after what they require."""

import pytest

from rules.errors import DefinitionError
from rules.judge.families import RULES, all_rules, find_rule, list_rules


def test_codes_are_unique_and_every_rule_explains_itself() -> None:
    rules = [*RULES["log"], *RULES["set"]]
    assert len({rule.code for rule in rules}) == len(rules)
    for rule in rules:
        assert len(rule.explanation) > 30, rule.code
        assert rule.title and rule.source and rule.remedy, rule.code
        assert find_rule(rule.code.lower()) is rule


def test_an_explanation_has_every_word_of_the_rule_and_a_line_for_each_case() -> None:
    for rule in all_rules():
        assert rule.explanation.split() == (rule.check.__doc__ or "").split(), rule.code
        assert rule.explanation.splitlines() == [rule.summary, *(f"- {case}" for case in rule.cases)], rule.code
    assert any(len(rule.cases) > 5 for rule in all_rules())


def test_required_rules_are_judged_before() -> None:
    """A rule is skipped where one that it requires has failed; that one must have been judged already."""
    for rules in (RULES["log"], RULES["set"]):
        seen: set[str] = set()
        for rule in rules:
            assert rule.requires <= seen, rule.code
            seen.add(rule.code)


def test_unknown_code_suggests_one() -> None:
    with pytest.raises(DefinitionError, match="QU102"):
        find_rule("QU1O2")


@pytest.mark.parametrize("code", ["XX999", "", "QU1O2"])
def test_unknown_code_says_how_to_list_and_lists_few_itself(code: str) -> None:
    with pytest.raises(DefinitionError, match="--explain all") as raised:
        find_rule(code)
    assert sum(rule.code in str(raised.value) for rule in all_rules()) <= 3


def test_a_family_and_all_are_listed_in_order() -> None:
    assert [rule.code for rule in list_rules("all")] == sorted({rule.code for rule in all_rules()})
    listed = [rule.code for rule in list_rules("qu")]
    assert "QU102" in listed and all(code.startswith("QU") for code in listed)
    assert not list_rules("QU102") and not list_rules("XX")

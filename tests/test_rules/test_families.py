"""The registry: codes are unique, rules explain themselves and come after what they require."""

import pytest

from rules.errors import DefinitionError
from rules.judge.families import RULES, find_rule


def test_codes_are_unique_and_every_rule_explains_itself() -> None:
    rules = [*RULES["log"], *RULES["set"]]
    assert len({rule.code for rule in rules}) == len(rules)
    for rule in rules:
        assert len(rule.explanation) > 30, rule.code
        assert rule.title and rule.source and rule.remedy, rule.code
        assert find_rule(rule.code.lower()) is rule


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

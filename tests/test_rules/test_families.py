"""The registry: codes are unique, rules explain themselves and come after what they require."""

import pytest

from rules.errors import DefinitionError
from rules.judge.families import RULES, find_rule


def test_codes_are_unique_and_every_rule_explains_itself() -> None:
    rules = [*RULES["log"], *RULES["set"]]
    assert len({one.code for one in rules}) == len(rules)
    for one in rules:
        assert len(one.explanation) > 30, one.code
        assert one.title and one.source and one.remedy, one.code
        assert find_rule(one.code.lower()) is one


def test_required_rules_are_judged_before() -> None:
    """A rule is skipped where one that it requires has failed; that one must have been judged already."""
    for rules in (RULES["log"], RULES["set"]):
        seen: set[str] = set()
        for one in rules:
            assert one.requires <= seen, one.code
            seen.add(one.code)


def test_unknown_code_suggests_one() -> None:
    with pytest.raises(DefinitionError, match="QU102"):
        find_rule("QU1O2")

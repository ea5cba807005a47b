"""rules/README.md is what the rules say today."""

import re

from places import ROOT

from harness.foundation.errors import ExitCode
from rules.checks.rule import FAMILIES, family_of
from rules.judge.families import RULES
from rules.judge.handbook import render_page

README = ROOT / "rules" / "README.md"
CODES = [rule.code for rules in RULES.values() for rule in rules]


def test_the_readme_is_current() -> None:
    assert README.read_text(encoding="utf-8") == render_page(), "run: dlrmbench schema rules_page > rules/README.md"


def test_every_rule_has_its_section_with_fix_and_source() -> None:
    sections = re.split(r"^### ", render_page(), flags=re.MULTILINE)[1:]
    assert sorted(section[:5] for section in sections) == sorted(CODES)
    assert all("**Fix:**" in section and "**Source:**" in section for section in sections)


def test_every_family_has_a_name() -> None:
    assert {family_of(code) for code in CODES} <= set(FAMILIES)


def test_no_code_is_used_twice() -> None:
    assert len(set(CODES)) == len(CODES)


def test_links_lead_to_headings() -> None:
    text = render_page()
    headings = set(re.findall(r"^## (\S+)$", text, flags=re.MULTILINE))
    assert set(re.findall(r"\]\(#([^)]+)\)", text)) <= headings


def test_exit_codes_are_the_documented_ones() -> None:
    table = render_page().split("| exit code of `check` |")[1].split("\n\n")[0]
    assert [int(code) for code in re.findall(r"^\| (\d+) \|", table, flags=re.MULTILINE)] == [
        ExitCode.DONE,
        ExitCode.USAGE,
        ExitCode.COMPLIANCE,
        ExitCode.INPUT,
    ]

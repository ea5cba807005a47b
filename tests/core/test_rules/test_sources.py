"""What rules quote is where they say it is: each section is a heading of the document that is named.

tests/data/headings holds the headings alone, one per line: of training_rules.adoc and power_measurement.adoc at
d73e20f of mlcommons/training_policies, of submission_rules.adoc at c195f80 of mlcommons/policies.
"""

import re
from pathlib import Path

import pytest

from rules.judge.families import all_rules
from rules.judge.handbook import UNCOVERED

FOLDER = Path(__file__).parents[2] / "data" / "headings"
HEADINGS = {path.stem: set(path.read_text(encoding="utf-8").splitlines()) for path in FOLDER.glob("*.txt")}
DOCUMENT = re.compile(r"([a-z_]+)\.adoc")
SECTION = re.compile(r'([a-z_]+)\.adoc, "([^"]+)"')
SOURCES = {rule.code: rule.source for rule in all_rules()}
QUOTING = sorted(code for code, source in SOURCES.items() if ".adoc" in source)


def sections_of(heading: str, known: set[str]) -> list[str]:
    """The headings that a section is named by: itself, or one inside of another with a comma between."""
    return [heading] if heading in known else heading.split(", ")


def test_the_documents_are_known() -> None:
    assert set(HEADINGS) == {"training_rules", "power_measurement", "submission_rules"} and len(QUOTING) > 50


@pytest.mark.parametrize("code", QUOTING)
def test_a_quoted_section_is_a_heading_of_its_document(code: str) -> None:
    source = SOURCES[code]
    quoted = SECTION.findall(source)
    assert len(quoted) == len(DOCUMENT.findall(source)), f"a document without a section: {source}"
    for document, heading in quoted:
        for section in sections_of(heading, HEADINGS[document]):
            assert section in HEADINGS[document], source


def test_a_rule_that_has_no_section_says_who_else_demands_it() -> None:
    """A checker, a format, this harness, or nobody."""
    known = (
        "a rule of dlrmbench, not of MLPerf",
        "dlrmbench: ",
        "mlperf_logging ",
        "compliance_checker ",
        "mllog",
        "mlcommons/",
        "RFC ",
    )
    for code, source in SOURCES.items():
        assert ".adoc" in source or source.startswith(known), (code, source)


def test_what_nobody_checks_is_of_sections_that_exist() -> None:
    assert UNCOVERED
    for document, heading, words in UNCOVERED:
        assert heading in HEADINGS[document] and words[0].isupper() and words.endswith(".")

"""Writes the JUnit XML of `check --format junit`, which build servers read: a suite per log or directory, a case per
rule."""

import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence

from rules.checks.rule import FAMILIES, Finding, Outcome, family_of
from rules.checks.verdict import Verdict

_ILLEGAL = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def verdicts_to_junit(verdicts: Sequence[Verdict]) -> str:
    """Return rule verdicts as JUnit XML. Only errors fail a test case, since only errors make `check` exit with code
    3."""
    root = ET.Element("testsuites", name="dlrmbench check")
    for verdict in verdicts:
        root.extend(_skipped(part) for part in verdict.walk() if not part.outcomes)
        for subject in dict.fromkeys(outcome.subject for outcome in verdict.outcomes):
            outcomes = [outcome for outcome in verdict.outcomes if outcome.subject == subject]
            root.append(_suite(subject, outcomes, verdict))
    for name in ("tests", "failures", "skipped"):
        root.set(name, str(sum(int(suite.get(name, "0")) for suite in root)))
    root.set("errors", "0")
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode")


def _suite(subject: str, outcomes: Sequence[Outcome], verdict: Verdict) -> ET.Element:
    suite = ET.Element("testsuite", name=_legal(subject), tests=str(len(outcomes)), errors="0")
    properties = ET.SubElement(suite, "properties")
    for name, value in (("judged as part of", verdict.subject), ("rules", verdict.ruleset)):
        ET.SubElement(properties, "property", name=name, value=_legal(value))
    if subject == verdict.subject:
        ET.SubElement(properties, "property", name="verdict", value=verdict.outcome)
    for outcome in outcomes:
        suite.append(_case(outcome))
    suite.set("failures", str(len(suite.findall("testcase/failure"))))
    suite.set("skipped", str(len(suite.findall("testcase/skipped"))))
    return suite


def _skipped(verdict: Verdict) -> ET.Element:
    """Return the JUnit test suite of a result set that was not judged: one test case, which is skipped, with the
    reason."""
    suite = ET.Element("testsuite", name=_legal(verdict.subject), tests="1", errors="0", failures="0", skipped="1")
    properties = ET.SubElement(suite, "properties")
    ET.SubElement(properties, "property", name="verdict", value=verdict.outcome)
    case = ET.SubElement(suite, "testcase", classname="not judged", name=_legal(verdict.benchmark or "unknown"))
    ET.SubElement(case, "skipped", message=_legal(verdict.ruleset_source))
    return suite


def _case(outcome: Outcome) -> ET.Element:
    family = FAMILIES.get(family_of(outcome.code), family_of(outcome.code))
    case = ET.Element("testcase", classname=_legal(family), name=_legal(f"{outcome.code} {outcome.title}"))
    errors = [finding for finding in outcome.findings if finding.severity == "error"]
    others = [finding for finding in outcome.findings if finding.severity != "error"]
    if outcome.status == "skip":
        ET.SubElement(case, "skipped", message=_legal(outcome.reason or ""))
    if errors:
        failure = ET.SubElement(case, "failure", type="error", message=_legal(_text(errors[0])))
        failure.text = _legal(
            "\n\n".join(f"{_text(error)}\nfix: {error.remedy}\nrule: {error.citation}" for error in errors)
        )
    if others:
        said = ET.SubElement(case, "system-out")
        said.text = _legal("\n".join(f"{other.severity}: {_text(other)}\nfix: {other.remedy}" for other in others))
    return case


def _text(finding: Finding) -> str:
    parts = [f"{finding.place}: {finding.message}"]
    if finding.found is not None:
        parts.append(f"found {finding.found}")
    if finding.expected is not None:
        parts.append(f"expected {finding.expected}")
    return "; ".join(parts)


def _legal(text: str) -> str:
    """Return text without the characters that XML 1.0 cannot contain, even escaped."""
    return _ILLEGAL.sub("\ufffd", text)

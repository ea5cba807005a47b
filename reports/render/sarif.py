"""Writes the SARIF 2.1.0 (OASIS) of `check --format sarif`; code hosts show it next to the lines that findings
concern."""

import hashlib
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import quote

from rules.checks.rule import Finding, Severity
from rules.checks.verdict import Verdict
from rules.errors import DefinitionError
from rules.judge.families import find_rule

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS: dict[Severity, str] = {"error": "error", "warning": "warning", "info": "note"}


def verdicts_to_sarif(verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """Return one SARIF run of all rule verdicts. Paths of findings below the working directory become relative
    URIs."""
    root = Path.cwd()
    codes = sorted({outcome.code for verdict in verdicts for outcome in verdict.outcomes})
    rules = [_rule(code, verdicts) for code in codes]
    results = [
        _result(finding, codes.index(finding.code), root) for verdict in verdicts for finding in verdict.findings
    ]
    notifications = [
        {
            "level": "note",
            "message": {"text": f"Not judged: {part.benchmark or 'unknown benchmark'}: {part.ruleset_source}."},
            "locations": [{"physicalLocation": {"artifactLocation": {"uri": _uri(part.subject, root)}}}],
        }
        for verdict in verdicts
        for part in verdict.walk()
        if not part.outcomes
    ]
    said = {"toolExecutionNotifications": notifications} if notifications else {}
    return {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": {"name": "dlrmbench", "version": version("dlrmbench"), "rules": rules}},
                "invocations": [{"executionSuccessful": True, **said}],
                "columnKind": "unicodeCodePoints",
                "results": results,
            }
        ],
    }


def _rule(code: str, verdicts: Sequence[Verdict]) -> dict[str, Any]:
    try:
        rule = find_rule(code)
    except DefinitionError:  # the code is of no known rule, so only its title is known
        title = next(o.title for verdict in verdicts for o in verdict.outcomes if o.code == code)
        return {"id": code, "shortDescription": {"text": title}, "help": {"text": title}}
    return {
        "id": code,
        "shortDescription": {"text": rule.title},
        "fullDescription": {"text": rule.explanation or rule.title},
        "help": {"text": f"{rule.explanation}\nFix: {rule.remedy}\nSource: {rule.source}".strip()},
        "defaultConfiguration": {"level": _LEVELS[rule.severity]},
    }


def _result(finding: Finding, index: int, root: Path) -> dict[str, Any]:
    uri = _uri(finding.path, root)
    place: dict[str, Any] = {"artifactLocation": {"uri": uri}}
    if finding.line_num is not None:
        place["region"] = {"startLine": finding.line_num}
    texts = [finding.message]
    if finding.found is not None:
        texts.append(f"Found: {finding.found}.")
    if finding.expected is not None:
        texts.append(f"Expected: {finding.expected}.")
    texts.append(f"Fix: {finding.remedy}")
    identity = "\0".join((finding.code, uri, str(finding.line_num), finding.message, finding.found or ""))
    return {
        "ruleId": finding.code,
        "ruleIndex": index,
        "level": _LEVELS[finding.severity],
        "message": {"text": "\n".join(texts)},
        "locations": [{"physicalLocation": place}],
        "partialFingerprints": {"finding/v1": hashlib.sha256(identity.encode("utf-8", "replace")).hexdigest()},
    }


def _uri(path: str, root: Path) -> str:
    """Return the URI of a file or directory: relative to `root` if it is below that, else a file URI; directories end
    with a slash."""
    place = Path(path)
    absolute = place.absolute()
    slash = "/" if absolute.is_dir() else ""
    if absolute.is_relative_to(root) and ".." not in place.parts:
        inner = absolute.relative_to(root).as_posix()
        return quote("./" if inner == "." else inner + slash)
    return "file://" + quote(absolute.as_posix() + slash)

"""How `check` shows verdicts: grouped by rule, worst first, every place with what was found and expected."""

import csv
import io
import re
import textwrap
from collections import Counter
from collections.abc import Sequence
from pathlib import PurePath
from typing import Any

import click

from harness.cli.escaping import markdown_safe, spreadsheet_safe
from harness.cli.opinion_view import opinion_lines, opinion_markdown
from harness.cli.table import printable, style, terminal_width
from rules.checks.rule import SEVERITIES, Finding, Rule
from rules.checks.verdict import Verdict, VerdictOutcome

MAX_PLACES = 5
MAX_PARTS = 20
_ORDER: tuple[VerdictOutcome, ...] = ("invalid", "incomplete", "valid")
_COLOURS = {"error": "red", "warning": "yellow", "info": "cyan"}
_OUTCOMES = {"valid": "green", "invalid": "red", "incomplete": "yellow"}
_COLUMNS = (
    "subject", "level", "outcome", "benchmark", "ruleset", "severity", "code", "title", "path", "line_num", "message",
    "found", "expected", "remedy", "citation",
)  # fmt: skip
Group = tuple[tuple[str, str], list[Finding]]


def echo_verdicts(verdicts: Sequence[Verdict], *, show_all: bool = False) -> None:
    """Worst verdict first, counts last; with `show_all` every finding and every part."""
    ordered = _worst_first(verdicts)
    for verdict in ordered:
        _echo_verdict(verdict, show_all)
    if len(verdicts) > 1:
        click.echo(_counts(ordered))


def _worst_first(verdicts: Sequence[Verdict]) -> list[Verdict]:
    return sorted(verdicts, key=lambda one: (_ORDER.index(one.outcome), -one.count("error"), -one.count("warning")))


def _counts(verdicts: Sequence[Verdict]) -> str:
    """'1 invalid, 3 valid'."""
    counts = Counter(one.outcome for one in verdicts)
    return ", ".join(f"{counts[name]} {name}" for name in _ORDER if counts[name])


def _echo_verdict(verdict: Verdict, show_all: bool) -> None:
    word = style(verdict.outcome.upper(), colour=_OUTCOMES[verdict.outcome], bold=True)
    level = f"{verdict.level} " if verdict.level in ("submission", "round") else ""
    click.echo(f"{word}  {level}{verdict.subject}")
    about = [_benchmarks(verdict), f"rules: {verdict.ruleset} ({verdict.ruleset_source})"]
    if verdict.logs:
        about.append(f"{len(verdict.logs)} logs" if len(verdict.logs) != 1 else "1 log")
    _echo("  " + "; ".join(about), indent=2)
    if verdict.level in ("submission", "round"):
        _echo_parts(verdict, show_all)
    for (severity, code), findings in group_findings(verdict.findings):
        first = findings[0]
        click.echo(f"  {style(severity, colour=_COLOURS[severity])}  {code}  {first.title}")
        kinds = group_alike(findings)
        for alike in kinds if show_all else kinds[:MAX_PLACES]:
            _echo(f"      {_places(alike, verdict, show_all)}: {describe(alike[0])}", indent=8)
        if len(kinds) > MAX_PLACES and not show_all:
            rest = [one for alike in kinds[MAX_PLACES:] for one in alike]
            files = _number(len({one.path for one in rest}), "file")
            click.echo(f"      and {len(rest)} more in {files} (-v shows all)")
        _echo(f"      fix: {first.remedy}", indent=8)
        _echo(f"      rule: {first.citation}", indent=8)
    skipped = [one for one in verdict.outcomes if one.status == "skip"]
    passed = sum(one.status == "pass" for one in verdict.outcomes)
    _echo(f"  {passed} judgements passed, {len(skipped)} did not apply", indent=2)
    for line in opinion_lines(verdict):
        click.echo(f"  {line}")
    click.echo()


def _benchmarks(verdict: Verdict) -> str:
    named = [verdict.benchmark] if verdict.benchmark else [part.benchmark for part in verdict.parts]
    return ", ".join(dict.fromkeys(name for name in named if name)) or "unknown benchmark"


def _echo_parts(verdict: Verdict, show_all: bool) -> None:
    """The verdicts of the level below, a line each, worst first."""
    parts = _worst_first(verdict.parts)
    below = "submission" if verdict.level == "round" else "set"
    _echo(f"  {_number(len(parts), below)}: {_counts(parts)}" if parts else f"  no {below}s", indent=2)
    for part in parts if show_all else parts[:MAX_PARTS]:
        found = [_number(part.count(each), each) for each in SEVERITIES[:2] if part.count(each)]
        name = str(PurePath(part.subject).relative_to(verdict.subject))
        _echo(f"    {part.outcome:<10} {name}" + (f"  ({', '.join(found)})" if found else ""), indent=15)
    if len(parts) > MAX_PARTS and not show_all:
        click.echo(f"    and {len(parts) - MAX_PARTS} more: {_counts(parts[MAX_PARTS:])} (-v shows all)")


def _number(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def group_findings(findings: Sequence[Finding]) -> list[Group]:
    """By rule, errors first, rules in the order in which they were judged."""
    groups: dict[tuple[str, str], list[Finding]] = {}
    for finding in sorted(findings, key=lambda one: SEVERITIES.index(one.severity)):
        groups.setdefault((finding.severity, finding.code), []).append(finding)
    return list(groups.items())


def group_alike(findings: Sequence[Finding]) -> list[list[Finding]]:
    """Findings of one rule that say the same of several places, together."""
    groups: dict[tuple[str, str | None, str | None], list[Finding]] = {}
    for finding in findings:
        groups.setdefault((finding.message, finding.found, finding.expected), []).append(finding)
    return list(groups.values())


def describe(finding: Finding) -> str:
    parts = [finding.message]
    if finding.found is not None:
        parts.append(f"found {finding.found}")
    if finding.expected is not None:
        parts.append(f"expected {finding.expected}")
    return "; ".join(parts)


def _places(alike: Sequence[Finding], verdict: Verdict, show_all: bool) -> str:
    """One place, or how many, from the first to the last."""
    places = list(dict.fromkeys(_place(finding, verdict) for finding in alike))
    if len(places) == 1:
        return places[0]
    if show_all:
        return f"in {len(places)} places: {', '.join(places)}"
    first, last = PurePath(places[0]), PurePath(places[-1])
    until = last.name if first.parent == last.parent else str(last)
    return f"{first} … {until} ({len(places)} places)" if len(places) > 2 else f"{first} and {until}"


def _place(finding: Finding, verdict: Verdict) -> str:
    """The finding's place, a set's own folder left out."""
    folder = PurePath(verdict.subject)
    path = PurePath(finding.path)
    if path == folder:
        name = path.name if verdict.level == "log" else f"the {verdict.level}"
    else:
        name = str(path.relative_to(folder)) if path.is_relative_to(folder) else finding.path
    return name if finding.line_num is None else f"{name}:{finding.line_num}"


def _echo(text: str, indent: int) -> None:
    """Wrapped to the terminal; later lines are indented by `indent`."""
    lead = len(text) - len(text.lstrip())
    lines = textwrap.wrap(
        printable(text.strip()),
        width=max(terminal_width(), 60) - indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    for number, line in enumerate(lines):
        click.echo(" " * (lead if number == 0 else indent) + line)


def check_csv(verdicts: Sequence[Verdict]) -> str:
    """One row per finding; a verdict without findings has one row of its own."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for verdict in verdicts:
        head = [verdict.subject, verdict.level, verdict.outcome, verdict.benchmark, verdict.ruleset]
        for finding in verdict.findings:
            values = [*head, *(getattr(finding, name) for name in _COLUMNS[len(head) :])]
            writer.writerow([spreadsheet_safe(value) for value in values])
        if not verdict.findings:
            writer.writerow([spreadsheet_safe(value) for value in head] + [""] * (len(_COLUMNS) - len(head)))
    return out.getvalue()


def check_markdown(verdicts: Sequence[Verdict]) -> str:
    """A section per verdict with a table of its findings."""
    lines: list[str] = []
    for verdict in verdicts:
        lines += [f"## {verdict.outcome.upper()}: {markdown_safe(verdict.subject)}", ""]
        lines += [
            f"{markdown_safe(verdict.benchmark or 'unknown benchmark')}, rules: {markdown_safe(verdict.ruleset)} "
            f"({markdown_safe(verdict.ruleset_source)})",
            "",
        ]
        if verdict.findings:
            lines += ["| severity | rule | where | what | fix |", "|---|---|---|---|---|"]
        for (severity, code), findings in group_findings(verdict.findings):
            for finding in findings:
                cells = (severity, code, _place(finding, verdict), describe(finding), finding.remedy)
                lines.append("| " + " | ".join(markdown_safe(cell) for cell in cells) + " |")
        if verdict.findings:
            lines.append("")
        lines += opinion_markdown(verdict)
    return "\n".join(lines).rstrip()


def echo_explanation(one: Rule[Any]) -> None:
    """Everything about one rule."""
    varies = any(re.search(rf"\b{other}\b", one.explanation) for other in SEVERITIES if other != one.severity)
    click.echo(f"{style(one.code, bold=True)}  {one.title}")
    for text in (
        one.explanation,
        f"Severity: {one.severity}{' in general, and another where said above' if varies else ''}.",
        f"Source: {one.source}",
        f"Fix: {one.remedy}",
        f"Not judged where one of these is broken: {', '.join(sorted(one.requires))}." if one.requires else "",
    ):
        if text:
            _echo(f"  {text}", indent=2)

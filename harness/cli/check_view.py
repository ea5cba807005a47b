"""How `check` shows verdicts: grouped by rule, worst first, every place with what was found and expected."""

import csv
import io
import textwrap
from collections import Counter
from collections.abc import Sequence
from pathlib import PurePath
from typing import Any

import click

from harness.cli.escaping import markdown_safe, spreadsheet_safe
from harness.cli.opinion_view import opinion_lines, opinion_markdown
from harness.cli.table import printable, style, terminal_width
from rules.rule import SEVERITIES, Finding, Rule
from rules.verdict import Verdict, VerdictOutcome

MAX_PLACES = 5
_COLOURS = {"error": "red", "warning": "yellow", "info": "cyan"}
_OUTCOMES = {"valid": "green", "invalid": "red", "incomplete": "yellow"}
_COLUMNS = (
    "subject", "level", "outcome", "benchmark", "ruleset", "severity", "code", "title", "path", "line_num", "message",
    "found", "expected", "remedy", "citation",
)  # fmt: skip
Group = tuple[tuple[str, str], list[Finding]]


def echo_verdicts(verdicts: Sequence[Verdict]) -> None:
    """Worst verdict first, counts last."""
    order: tuple[VerdictOutcome, ...] = ("invalid", "incomplete", "valid")
    for verdict in sorted(verdicts, key=lambda one: order.index(one.outcome)):
        _echo_verdict(verdict)
    if len(verdicts) > 1:
        counts = Counter(one.outcome for one in verdicts)
        click.echo(", ".join(f"{counts[name]} {name}" for name in order if counts[name]))


def _echo_verdict(verdict: Verdict) -> None:
    word = style(verdict.outcome.upper(), colour=_OUTCOMES[verdict.outcome], bold=True)
    click.echo(f"{word}  {verdict.subject}")
    about = [verdict.benchmark or "unknown benchmark", f"rules: {verdict.ruleset} ({verdict.ruleset_source})"]
    if verdict.logs:
        about.append(f"{len(verdict.logs)} logs" if len(verdict.logs) != 1 else "1 log")
    _echo("  " + "; ".join(about), indent=2)
    for (severity, code), findings in group_findings(verdict.findings):
        first = findings[0]
        click.echo(f"  {style(severity, colour=_COLOURS[severity])}  {code}  {first.title}")
        kinds = group_alike(findings)
        for alike in kinds[:MAX_PLACES]:
            more = f" and {len(alike) - 1} more" if len(alike) > 1 else ""
            _echo(f"      {_place(alike[0], verdict)}{more}: {describe(alike[0])}", indent=8)
        if len(kinds) > MAX_PLACES:
            click.echo(f"      and {sum(map(len, kinds[MAX_PLACES:]))} more findings (--format csv lists all)")
        _echo(f"      fix: {first.remedy}", indent=8)
        _echo(f"      rule: {first.citation}", indent=8)
    skipped = [one for one in verdict.outcomes if one.status == "skip"]
    passed = sum(one.status == "pass" for one in verdict.outcomes)
    _echo(f"  {passed} judgements passed, {len(skipped)} did not apply", indent=2)
    for line in opinion_lines(verdict):
        click.echo(f"  {line}")
    click.echo()


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


def _place(finding: Finding, verdict: Verdict) -> str:
    """The finding's place, a set's own folder left out."""
    folder = PurePath(verdict.subject)
    path = PurePath(finding.path)
    if path == folder:
        name = path.name if verdict.level == "log" else "the set"
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
    click.echo(f"{style(one.code, bold=True)}  {one.title}")
    for text in (
        one.explanation,
        f"Severity: {one.severity}, unless said otherwise above.",
        f"Source: {one.source}",
        f"Fix: {one.remedy}",
        f"Not judged where one of these is broken: {', '.join(sorted(one.requires))}." if one.requires else "",
    ):
        if text:
            _echo(f"  {text}", indent=2)

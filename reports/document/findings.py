"""Makes blocks of findings of rule checks: grouped by rule, errors first. Equal findings at several places share a
row."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from reports.document.blocks import FindingEntry, FindingGroup
from reports.text.formatting import names, plural
from reports.text.formatting import printable as short
from rules.checks.rule import SEVERITIES, Finding, Severity
from rules.logs.text import printable

_ICONS = {"error": "✕", "warning": "▲", "info": "ℹ"}
MAX_OPEN = 8
_PREFIXES: Mapping[Severity, str] = {"error": "broken rule: ", "warning": "broken rule: ", "info": "not met: "}
"""Prefix of a rule's title in findings, by severity. A title states what the rule demands; without a prefix it would
read as if the demand were met. A finding of severity info breaks no rule."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PlacedFinding:
    """Finding of a rule check with the name of its place (file, line); `label` names the configuration that the
    finding is about."""

    finding: Finding
    where: str
    label: str = ""


def group_findings(
    placed: Sequence[PlacedFinding],
    *,
    id_: str = "findings",
    num_labels: int = 1,
    label_noun: str = "configuration",
    max_rows: int | None = None,
    name_places: Callable[[Sequence[str]], str] = ", ".join,
    name_labels: Callable[[Sequence[str]], str] = ", ".join,
    count_rest: Callable[[Sequence[PlacedFinding]], str] | None = None,
) -> tuple[FindingGroup, ...]:
    """Return findings (breaches of rules) in groups, one for each severity and rule. Errors come first. Within a
    severity, rules keep the order in which they were judged. Findings that differ only in their places share a row.

    A group has at most `max_rows` rows; None means all rows. `count_rest` says in words which findings are left out.
    `name_places` and `name_labels` join the places and the labels of the findings in a row. `num_labels` is the
    number of configurations that the findings are about; `label_noun` is the word for them if they are not
    configurations.
    """
    by_rule: dict[tuple[Severity, str], list[PlacedFinding]] = {}
    for entry in sorted(placed, key=lambda entry: SEVERITIES.index(entry.finding.severity)):
        by_rule.setdefault((entry.finding.severity, entry.finding.code), []).append(entry)
    groups = []
    for number, ((severity, code), entries) in enumerate(by_rule.items()):
        alike = _alike(entries)
        rest = [entry for same in alike[max_rows:] for entry in same] if max_rows is not None else []
        first = entries[0].finding
        affected = {entry.label for entry in entries}
        where = f" in {plural(len(affected), label_noun)}" if num_labels > 1 else ""
        groups.append(
            FindingGroup(
                id=f"{id_}-{severity}-{code}",
                code=printable(code),
                title=f"{_PREFIXES[severity]}{printable(first.title)}",
                severity=severity,
                icon=_ICONS[severity],
                citation=printable(first.citation),
                times=f"({plural(_number(entries), 'finding')}{where})",
                rows=tuple(
                    _row(same, name_places, name_labels if num_labels > 1 else None) for same in alike[:max_rows]
                ),
                more="" if not rest else f"{_number(rest):,} more" if count_rest is None else count_rest(rest),
                is_open=severity != "info" and number < MAX_OPEN,
            )
        )
    return tuple(groups)


def broken_rules(findings: Sequence[Finding], severity: Severity) -> str:
    """Return in words the rules that findings of one severity break: 'broken rule: CA101 (evaluations must come as
    often as the benchmark says)'. '' if no rule is broken.

    If the rules are many, only the first few are named, followed by the number of the others.
    """
    found = (each for each in findings if each.severity == severity)
    rules = list(dict.fromkeys(f"{short(each.code, 20)} ({short(each.title)})" for each in found))
    return f"broken rule{'s' if len(rules) > 1 else ''}: {names(rules)}" if rules else ""


def _number(entries: Sequence[PlacedFinding]) -> int:
    return sum(entry.finding.number for entry in entries)


def _alike(entries: Sequence[PlacedFinding]) -> list[list[PlacedFinding]]:
    """Group findings of one rule that are equal except for their places (files and lines)."""
    alike: dict[tuple[str | None, ...], list[PlacedFinding]] = {}
    for entry in entries:
        finding = entry.finding
        alike.setdefault((finding.message, finding.found, finding.expected, finding.remedy), []).append(entry)
    return list(alike.values())


def _row(
    same: Sequence[PlacedFinding],
    name_places: Callable[[Sequence[str]], str],
    name_labels: Callable[[Sequence[str]], str] | None,
) -> FindingEntry:
    finding = same[0].finding
    return FindingEntry(
        where=name_places(list(dict.fromkeys(entry.where for entry in same))),
        what=printable(finding.message),
        found=printable(finding.found or ""),
        expected=printable(finding.expected or ""),
        remedy=printable(finding.remedy),
        sub=name_labels(list(dict.fromkeys(entry.label for entry in same))) if name_labels else "",
    )

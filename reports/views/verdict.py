"""Makes the output of rule verdicts as blocks: findings by rule, errors first, next to the official checkers'
verdicts; and explanations of rules."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import PurePath
from typing import Any

from reports.document.blocks import Block, Bullets, Cell, FindingList, Fold, Heading, Part, Prose, text_table
from reports.document.findings import PlacedFinding, group_findings
from reports.render.csv import render_csv
from reports.text.formatting import plural
from rules.checks.rule import SEVERITIES, Finding, Rule
from rules.checks.verdict import Verdict, VerdictOutcome
from rules.judge.agreement import accepted_by_round, compare_opinions, differences
from rules.official.opinion import OfficialOpinion

MAX_PLACES = 5
MAX_PARTS = 20
_COLUMNS = (
    "subject", "level", "outcome", "benchmark", "ruleset", "severity", "code", "title", "path", "line_num", "message",
    "found", "expected", "remedy", "citation"
)  # fmt: skip
_ORDER: tuple[VerdictOutcome, ...] = ("invalid", "incomplete", "valid", "not judged")


def verdict_blocks(verdicts: Sequence[Verdict], *, max_places: int | None = None) -> tuple[Block, ...]:
    """Return rule verdicts as blocks, INVALID ones first. If there are several verdicts, a last block has the number
    of each outcome. At most `max_places` findings of each rule are listed, or all if `max_places` is None.

    If `max_places` is given, two further lists are cut to the MAX_PARTS worst entries: the list of the parts of a
    submission or round (its result sets or submissions), and the list of results that no rule was applied to.
    """
    ordered = _worst_first(verdicts)
    blocks: list[Block] = [_verdict(verdict, max_places) for verdict in ordered if verdict.outcomes]
    if others := [verdict for verdict in ordered if not verdict.outcomes]:
        blocks.append(_other_benchmarks(others, None if max_places is None else MAX_PARTS))
    return (*blocks, Prose(text=_counts(ordered))) if len(verdicts) > 1 else tuple(blocks)


def verdicts_csv(verdicts: Sequence[Verdict]) -> str:
    """Return rule verdicts as CSV with one row per finding; a verdict without findings has one row of its own."""
    rows: list[list[object]] = []
    for verdict in verdicts:
        head = [verdict.subject, verdict.level, verdict.outcome, verdict.benchmark, verdict.ruleset]
        names = _COLUMNS[len(head) :]
        rows += [[*head, *(getattr(finding, name) for name in names)] for finding in verdict.findings]
        rows += [] if verdict.findings else [[*head, *(None for _ in names)]]
    return render_csv(_COLUMNS, rows)


def explain_rule(rule: Rule[Any]) -> tuple[Block, ...]:
    """Return the blocks on one rule: its explanation, severity, source and remedy."""
    others = [severity for severity in SEVERITIES if severity != rule.severity]
    varies = any(re.search(rf"\b{severity}\b", rule.explanation) for severity in others)
    details = (
        f"Severity: {rule.severity}{' in general, and another where said above' if varies else ''}.",
        f"Source: {rule.source}",
        f"Fix: {rule.remedy}",
        f"Not judged where one of these is broken: {', '.join(sorted(rule.requires))}." if rule.requires else "",
    )
    blocks: list[Block] = [Prose(text=rule.summary)]
    if rule.cases:
        blocks.append(Bullets(items=rule.cases, kind="list"))
    blocks += (Prose(text=text) for text in details if text)
    return (Part(heading=Heading(text=f"{rule.code}  {rule.title}"), blocks=tuple(blocks)),)


def rules_table(rules: Iterable[Rule[Any]]) -> tuple[Block, ...]:
    """Return a table of rules, one row per rule."""
    rows = [(rule.code, rule.severity, rule.title) for rule in rules]
    return (text_table(("code", "severity", "rule"), rows, id_="rules"),)


def _worst_first(verdicts: Sequence[Verdict]) -> list[Verdict]:
    return sorted(verdicts, key=lambda v: (_ORDER.index(v.outcome), -v.count("error"), -v.count("warning")))


def _counts(verdicts: Iterable[Verdict]) -> str:
    """Return the number of verdicts of each outcome: '1 invalid, 3 valid'."""
    counts = Counter(verdict.outcome for verdict in verdicts)
    return ", ".join(f"{counts[name]} {name}" for name in _ORDER if counts[name])


def _verdict(verdict: Verdict, max_places: int | None) -> Part:
    is_tree = verdict.level in ("submission", "round")
    about = [_benchmarks(verdict), f"rules: {verdict.ruleset} ({verdict.ruleset_source})"]
    about += [plural(len(verdict.logs), "log")] if verdict.logs else []
    placed = [PlacedFinding(finding=finding, where=_place(finding, verdict)) for finding in verdict.findings]
    groups = group_findings(
        placed,
        max_rows=max_places,
        name_places=_all_places if max_places is None else _first_and_last,
        count_rest=_count_rest,
    )
    statuses = Counter(outcome.status for outcome in verdict.outcomes)
    return Part(
        heading=Heading(
            word=verdict.outcome.upper(),
            kind=verdict.outcome,
            text=f"{verdict.level} {verdict.subject}" if is_tree else verdict.subject,
        ),
        blocks=(
            Prose(text="; ".join(about)),
            *(Prose(text=line, kind="note") for line in accepted_by_round(verdict)),
            *(_parts(verdict, None if max_places is None else MAX_PARTS) if is_tree else ()),
            *([FindingList(id="findings", groups=groups)] if groups else []),
            Prose(text=f"{plural(statuses['pass'], 'judgement')} passed, {statuses['skip']} did not apply"),
            *_opinions(verdict),
        ),
    )


def _other_benchmarks(verdicts: Sequence[Verdict], max_lines: int | None) -> Part:
    """Return a line for each result that no rule was applied to, with the reason, such as that dlrmbench does not
    judge its MLPerf benchmark. If there are more than `max_lines` results, only the first ones have a line, and the
    last line has the number of the rest."""
    words = {verdict.subject: f"{verdict.benchmark} is {verdict.ruleset_source}" for verdict in verdicts}
    if len(words) == 1:
        ((subject, text),) = words.items()
        return Part(heading=Heading(word="NOT JUDGED", kind="not judged", text=subject), blocks=(Prose(text=text),))
    lines = [f"{subject}: {text}" for subject, text in words.items()][:max_lines]
    rest = [f"and {len(words) - len(lines)} more (-v shows all)"] if len(words) > len(lines) else []
    heading = Heading(word="NOT JUDGED", kind="not judged", text=f"{len(words)} directories or logs")
    return Part(heading=heading, blocks=(Bullets(items=(*lines, *rest)),))


def _benchmarks(verdict: Verdict) -> str:
    judged = [part for part in verdict.parts if part.outcome != "not judged"] or verdict.parts
    named = [verdict.benchmark] if verdict.benchmark else [part.benchmark for part in judged]
    return ", ".join(dict.fromkeys(name for name in named if name)) or "unknown benchmark"


def _parts(verdict: Verdict, max_parts: int | None) -> tuple[Block, ...]:
    """Return the table of verdicts on the parts of a submission (result sets) or of a round (submissions), one row
    per part, the worst verdict first."""
    parts = _worst_first(verdict.parts)
    below = "submission" if verdict.level == "round" else "set"
    if not parts:
        return (Prose(text=f"no {below}s"),)
    rows = []
    for part in parts[:max_parts]:
        found = [plural(part.count(each), each) for each in SEVERITIES[:2] if part.count(each)]
        name = str(PurePath(part.subject).relative_to(verdict.subject))
        without = "none" if part.outcomes else part.ruleset_source
        rows.append((Cell(text=part.outcome, kind=part.outcome), name, ", ".join(found) or without))
    table = text_table(
        ("verdict", below, "findings"),
        rows,
        id_=f"{below}s",
        caption=f"{plural(len(parts), below)}: {_counts(parts)}",
    )
    if max_parts is None or len(parts) <= max_parts:
        return (table,)
    rest = parts[max_parts:]
    return (table, Prose(text=f"and {len(rest)} more: {_counts(rest)} (-v shows all)"))


def _all_places(places: Sequence[str]) -> str:
    return places[0] if len(places) == 1 else f"in {len(places)} places: {', '.join(places)}"


def _first_and_last(places: Sequence[str]) -> str:
    """Join the places of a finding: one place as it is, two by 'and'; of more places the first and the last, with the
    number of places."""
    if len(places) == 1:
        return places[0]
    first, last = PurePath(places[0]), PurePath(places[-1])
    until = last.name if first.parent == last.parent else str(last)
    return f"{first} … {until} ({len(places)} places)" if len(places) > 2 else f"{first} and {until}"


def _count_rest(rest: Sequence[PlacedFinding]) -> str:
    files = plural(len({entry.finding.path for entry in rest}), "file")
    number = sum(entry.finding.number for entry in rest)
    return f"and {number:,} more in {files} (-v shows {'all' if number == len(rest) else 'more'})"


def _place(finding: Finding, verdict: Verdict) -> str:
    """Return a finding's file and line, relative to the folder (set, submission or round) that the verdict is on."""
    above = f"{verdict.subject}/"
    if finding.path == verdict.subject:
        name = PurePath(finding.path).name if verdict.level == "log" else f"the {verdict.level}"
    elif finding.path.startswith(above):
        name = finding.path[len(above) :]
    else:
        folder, path = PurePath(verdict.subject), PurePath(finding.path)
        name = str(path.relative_to(folder)) if path.is_relative_to(folder) else finding.path
    return name if finding.line_num is None else f"{name}:{finding.line_num}"


def _opinions(verdict: Verdict) -> tuple[Block, ...]:
    """Return dlrmbench's verdicts next to those of the official MLPerf checkers, and where they differ; empty where
    the checkers were not run."""
    rows = compare_opinions(verdict)
    if not rows:
        return ()
    opinions = list(_official(verdict))
    checkers = ", ".join(dict.fromkeys(opinion.checker for opinion in opinions))
    rulesets = ", ".join(dict.fromkeys(opinion.ruleset for opinion in opinions))
    name, *_, version = opinions[0].tool.split(" ")
    return (
        Fold(
            summary=f"second opinion: {name} {version} ({checkers}), ruleset {rulesets}",
            blocks=(
                text_table(("rules", "ours", "theirs"), [(row.name, row.ours, row.theirs) for row in rows]),
                Bullets(items=tuple(differences(verdict)) or ("ours and theirs agree",)),
            ),
        ),
    )


def _official(verdict: Verdict) -> Iterable[OfficialOpinion]:
    yield from verdict.official
    for part in verdict.parts:
        yield from _official(part)

"""What the rules said about one set, ordered for a reader: broken rules first, the rest folded."""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import PurePath

from reports.facts import SetFacts
from reports.formatting import MISSING, plural, printable
from reports.glossary import registered
from reports.view import Cell, Column, Fact, FindingGroup, Judgement, Table
from rules.rule import SEVERITIES, Finding, Outcome

_ICONS = {"error": "✕", "warning": "▲", "info": "ℹ"}
MAX_SHOWN = 40


def judgement_of(one: SetFacts, prefix: str) -> Judgement:
    """Findings grouped by rule, passed and skipped rules folded with counts, the second opinion beside them."""
    verdict = one.verdict
    groups = _groups(one, verdict.findings, prefix)
    passed = [outcome for outcome in verdict.outcomes if outcome.status == "pass"]
    skipped = [outcome for outcome in verdict.outcomes if outcome.status == "skip"]
    told = ", ".join(plural(verdict.count(severity), severity) for severity in SEVERITIES if verdict.count(severity))
    num_passed = len({outcome.code for outcome in passed})
    opinion, opinion_summary = _opinion(one, f"{prefix}-opinion")
    return Judgement(
        summary=f"Judged by {registered(printable(verdict.ruleset))} ({printable(verdict.ruleset_source)}): "
        f"{told or 'no findings'}; {plural(num_passed, 'rule')} passed.",
        groups=groups,
        passed=_folded(passed),
        passed_summary=f"{plural(num_passed, 'rule')} passed in {plural(len(passed), 'judgement')}",
        skipped=_folded(skipped),
        skipped_summary=f"{plural(len({outcome.code for outcome in skipped}), 'rule')} not judged, with the reason",
        opinion=opinion,
        opinion_summary=opinion_summary,
    )


def _groups(one: SetFacts, findings: Sequence[Finding], prefix: str) -> tuple[FindingGroup, ...]:
    by_rule: dict[tuple[str, str], list[Finding]] = {}
    for severity in SEVERITIES:
        for finding in findings:
            if finding.severity == severity:
                by_rule.setdefault((severity, finding.code), []).append(finding)
    return tuple(
        FindingGroup(
            code=printable(code, 20),
            title=printable(found[0].title),
            severity=severity,
            icon=_ICONS[severity],
            citation=printable(found[0].citation),
            times=f"{len(found)}×",
            table=_finding_table(one, found, f"{prefix}-{severity}-{code}"),
        )
        for (severity, code), found in by_rule.items()
    )


def _finding_table(one: SetFacts, findings: Sequence[Finding], id_: str) -> Table:
    """One row per distinct finding: what ten logs have alike is said once, with all places."""
    alike: dict[tuple[str | None, ...], list[Finding]] = {}
    for finding in findings:
        alike.setdefault((finding.message, finding.found, finding.expected, finding.remedy), []).append(finding)
    rows: list[tuple[Cell, ...]] = [
        (
            Cell(text=_places([place(one, finding) for finding in same]), kind="code"),
            *(Cell(text=printable(text)) for text in texts),
        )
        for texts, same in list(alike.items())[:MAX_SHOWN]
    ]
    if len(alike) > MAX_SHOWN:
        rows.append((Cell(text=f"{len(alike) - MAX_SHOWN} more"), *(Cell(text=MISSING) for _ in range(4))))
    names = ("Where", "What", "Found", "Expected", "How to fix")
    return Table(
        id=id_,
        caption=f"Findings of {printable(findings[0].code, 20)}",
        columns=tuple(Column(name=name) for name in names),
        rows=tuple(rows),
    )


def _places(places: Sequence[str]) -> str:
    shown = ", ".join(places[:3])
    return shown if len(places) <= 3 else f"{shown} and {plural(len(places) - 3, 'more place')}"


def place(one: SetFacts, finding: Finding) -> str:
    """File and line, without the folders that all of the set's logs share."""
    path = PurePath(finding.path)
    folder = one.result_set.folder
    shown = (
        path.name if path.parent == PurePath(str(folder)) else "the set" if path == PurePath(str(folder)) else path
    )
    return printable(shown if finding.line_num is None else f"{shown}:{finding.line_num}")


def rule_index(sets: Iterable[SetFacts]) -> tuple[Fact, ...]:
    """Code and title of every rule that was applied to any set, so that each title stands on the page once."""
    titles = {outcome.code: outcome.title for one in sets for outcome in one.verdict.outcomes}
    return tuple(Fact(name=printable(code, 20), value=printable(titles[code])) for code in sorted(titles))


def _folded(outcomes: Sequence[Outcome]) -> tuple[Fact, ...]:
    """Passed rules by code; skipped ones by reason."""
    if not any(outcome.reason for outcome in outcomes):
        return tuple(Fact(name=printable(code, 20), value="") for code in sorted({one.code for one in outcomes}))
    by_reason: dict[str, set[str]] = {}
    for outcome in outcomes:
        by_reason.setdefault(outcome.reason or "", set()).add(outcome.code)
    return tuple(
        Fact(name=", ".join(sorted(codes)), value=printable(reason)) for reason, codes in sorted(by_reason.items())
    )


def _opinion(one: SetFacts, id_: str) -> tuple[Table | None, str]:
    """The official checker's word on each log, beside ours."""
    asked = [
        (run, log, opinion)
        for run, log in zip(one.runs, one.verdict.logs, strict=False)
        for opinion in log.official
        if opinion.checker == "compliance"
    ]
    if not asked:
        if one.status == "official":
            return None, "The official compliance checker was not asked."
        return None, "The official compliance checker does not know this benchmark, so these rules stand alone."
    counts = Counter(opinion.outcome for _, _, opinion in asked)
    told = ", ".join(f"{number} {outcome}" for outcome, number in counts.most_common())
    first = asked[0][2]
    differing = sum(log.outcome != opinion.outcome for _, log, opinion in asked)
    agreement = "It agrees with ours on every log." if not differing else f"It differs from ours on {differing}."
    rows = tuple(
        (
            Cell(text=f"run {run.label}"),
            Cell(text=log.outcome),
            Cell(text=opinion.outcome, kind="warn" if opinion.outcome != log.outcome else ""),
            Cell(text=printable("; ".join(opinion.messages), 300) if opinion.messages else MISSING),
        )
        for run, log, opinion in asked
    )
    summary = (
        f"{printable(first.tool)}, ruleset {printable(first.ruleset)}, on each log by itself: {told}. {agreement}"
    )
    names = ("Log", "These rules", "Official checker", "What it said")
    table = Table(
        id=id_,
        caption="Our verdict and the official checker's, log by log",
        columns=tuple(Column(name=name) for name in names),
        rows=rows,
    )
    return table, summary

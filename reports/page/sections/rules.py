"""Makes the section on the findings of rule checks for a group's configurations: broken rules first, equal findings
once."""

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from operator import methodcaller
from pathlib import PurePath
from typing import NamedTuple

from reports.document.blocks import (
    Block,
    Cell,
    Fact,
    Facts,
    FindingGroup,
    FindingList,
    Fold,
    Heading,
    Prose,
    TableColumn,
    numeric,
    table_of,
)
from reports.document.findings import PlacedFinding, group_findings
from reports.document.glossary import registered
from reports.document.page import PageSection
from reports.page.sections.remarks import count_words, level_name
from reports.results.result import Result
from reports.text.formatting import MISSING, count, names, plural, printable
from rules.checks.rule import SEVERITIES, Finding, Outcome, count_problems
from rules.checks.verdict import Verdict
from rules.official.opinion import OfficialOpinion

_PLURALS = {"error": "Errors", "warning": "Warnings", "info": "Remarks"}
MAX_SHOWN = 40


def rules_section(group: Sequence[Result], id_: str) -> PageSection:
    """Return the section on rule checks: findings by rule, then, folded, the rules that passed and the rules that
    were skipped, then the verdicts of the official MLPerf checkers."""
    outcomes = [outcome for result in group for outcome in result.verdict.outcomes]
    passed = [outcome for outcome in outcomes if outcome.status == "pass"]
    skipped = [outcome for outcome in outcomes if outcome.status == "skip"]
    blocks: list[Block] = [Prose(text=_summary(group, passed))]
    placed = [
        PlacedFinding(finding=finding, where=place(result, finding), label=result.label)
        for result in group
        for finding in result.verdict.findings
    ]
    if groups := _grouped(placed, id_, len(group), "configuration"):
        blocks.append(FindingList(id=f"{id_}-findings", groups=groups, choices=_choices(group)))
    if passed:
        codes, where = _by_code(passed), Prose(text="The end of the page lists the title of each rule.", kind="note")
        text = f"✓ {plural(len(codes), 'rule')} passed in {plural(len(passed), 'judgement')}"
        blocks.append(Fold(summary=text, blocks=(Facts(facts=codes, style="codes"), where)))
    if skipped:
        text = f"– {plural(len(_by_code(skipped)), 'rule')} not judged, with reasons"
        blocks.append(Fold(summary=text, blocks=(Facts(facts=_by_reason(skipped), style="rules"),)))
    blocks += (*_levels(group, f"{id_}-levels"), *_opinion(group, id_), *_set_opinions(group, id_))
    return PageSection(id=f"{id_}-rules", heading="Compliance with the rules", name="Rules", blocks=tuple(blocks))


def _levels(group: Sequence[Result], id_: str) -> tuple[Block, ...]:
    """Return the blocks on the submissions and MLPerf rounds that contain a group's result sets: a table of the
    verdicts on these directories, and the findings that are about a directory itself and not about a result set in
    it."""
    found = {verdict.subject: verdict for result in group for verdict in reversed(result.levels)}
    if not found:
        return ()
    table = table_of(
        found.values(),
        (
            ("Directory", lambda verdict: Cell(text=level_name(verdict), sub=_level_words(verdict))),
            ("Verdict", "outcome", lambda outcome: Cell(text=outcome.upper(), kind=outcome)),
            ("Rules", "ruleset", lambda ruleset: registered(printable(ruleset, 80))),
            *((numeric(_PLURALS[severity]), methodcaller("count", severity), count) for severity in SEVERITIES),
            (
                TableColumn(name="Own findings", help="of the directory itself, not of sets in it"),
                "own_findings",
                lambda found: count_words(found) or "none",
            ),
        ),
        id_=f"{id_}-table",
        caption="Submissions and rounds, judged with all that they contain, as 'dlrmbench check' does",
    )
    placed = [
        PlacedFinding(finding=finding, where=_below(finding, verdict), label=level_name(verdict))
        for verdict in found.values()
        for finding in verdict.own_findings
    ]
    groups = _grouped(placed, id_, len(found), "place")
    findings = (FindingList(id=f"{id_}-findings", groups=groups),) if groups else ()
    return (Heading(text="Submissions and rounds"), table, *findings)


def _level_words(verdict: Verdict) -> str:
    """Return in words what a verdict is about, an MLPerf round or a submission. A submission is named with the
    directory that contains it: 'submission in training_results_v5.1', 'round'."""
    inside = printable(PurePath(verdict.subject).parent.name, 80) if verdict.level == "submission" else ""
    return f"{verdict.level} in {inside}" if inside else verdict.level


def _below(finding: Finding, verdict: Verdict) -> str:
    """Return the file and line of a finding on a submission or round, relative to the directory that was judged."""
    path = finding.path.removeprefix(verdict.subject).removeprefix("/")
    place = printable(path, 120) if path else level_name(verdict)
    return place if finding.line_num is None else f"{place}:{finding.line_num}"


def _summary(group: Sequence[Result], passed: Sequence[Outcome]) -> str:
    judged: dict[str, list[str]] = {}
    for result in group:
        ruleset = f"{registered(printable(result.verdict.ruleset))} ({printable(result.verdict.ruleset_source)})"
        judged.setdefault(ruleset, []).append(result.label)
    by = " and ".join(
        ruleset if len(judged) == 1 else f"{ruleset} for {names(labels)}" for ruleset, labels in judged.items()
    )
    text = count_words([finding for result in group for finding in result.verdict.findings])
    num_passed = len({outcome.code for outcome in passed})
    return f"Judged by {by}: {text or 'no findings'}; {plural(num_passed, 'rule')} passed."


def _choices(group: Sequence[Result]) -> tuple[tuple[str, str], ...]:
    counts = count_problems(finding for result in group for finding in result.verdict.findings)
    if len(counts) < 2:
        return ()
    kinds = ((kind, f"{_PLURALS[kind]} ({counts[kind]:,})") for kind in SEVERITIES if counts[kind])
    return (("all", f"All ({counts.total():,})"), *kinds)


def _grouped(placed: Sequence[PlacedFinding], id_: str, num_labels: int, noun: str) -> tuple[FindingGroup, ...]:
    return group_findings(
        placed,
        id_=id_,
        num_labels=num_labels,
        label_noun=noun,
        max_rows=MAX_SHOWN,
        name_places=_places,
        name_labels=names,
    )


def _places(places: Sequence[str]) -> str:
    shown = ", ".join(places[:3])
    return shown if len(places) <= 3 else f"{shown} and {plural(len(places) - 3, 'more place')}"


def place(result: Result, finding: Finding) -> str:
    """Return a finding's file and line. A file in the folder of the result set's logs is given by its name, the
    folder itself as 'the set', and a file elsewhere by its whole path."""
    path = PurePath(finding.path)
    folder = PurePath(result.verdict.subject)
    shown = path.name if path.parent == folder else "the set" if path == folder else path
    return printable(shown if finding.line_num is None else f"{shown}:{finding.line_num}", 120)


def rule_index(sets: Iterable[Result]) -> tuple[Fact, ...]:
    """Return code and title of every rule that was applied to at least one result set."""
    titles = {outcome.code: outcome.title for result in sets for outcome in result.verdict.outcomes}
    return tuple(Fact(name=printable(code, 20), value=printable(titles[code])) for code in sorted(titles))


def _by_code(outcomes: Sequence[Outcome]) -> tuple[Fact, ...]:
    return tuple(Fact(name=printable(code, 20), value="") for code in sorted({outcome.code for outcome in outcomes}))


def _by_reason(outcomes: Sequence[Outcome]) -> tuple[Fact, ...]:
    by_reason: dict[str, set[str]] = {}
    for outcome in outcomes:
        by_reason.setdefault(outcome.reason or "", set()).add(outcome.code)
    return tuple(
        Fact(name=", ".join(sorted(codes)), value=printable(reason)) for reason, codes in sorted(by_reason.items())
    )


class _CheckerOpinion(NamedTuple):
    """Opinion of the official MLPerf checker and dlrmbench's verdict on one log, or on a whole set, for which `run`
    is empty."""

    result: Result
    opinion: OfficialOpinion
    run: str = ""
    ours: str = "valid"


def _opinion(group: Sequence[Result], id_: str) -> tuple[Block, ...]:
    """Return a sentence on the official MLPerf checker's opinions on all logs, and a table of the logs on which it
    differs from dlrmbench's verdict or has messages."""
    asked = [
        _CheckerOpinion(result, opinion, run.label, log.outcome)
        for result in group
        for run, log in zip(result.runs, result.verdict.logs, strict=False)
        for opinion in log.official
        if opinion.checker == "compliance"
    ]
    head, name = "Second opinion: ", "the official compliance checker"
    if not asked:
        is_official = group[0].status == "official"
        why = f"{name} was not asked" if is_official else f"none; {name} does not know this benchmark"
        return (Prose(text=f"{head}{why}.", kind="note"),)
    outcomes = Counter(row.opinion.outcome for row in asked).most_common()
    text = ", ".join(f"{number} {outcome}" for outcome, number in outcomes)
    differing = sum(row.ours != row.opinion.outcome for row in asked)
    agreement = f"dlrmbench's verdict differs on {differing or 'none'} of the logs."
    tool = names(list(dict.fromkeys(f"{row.opinion.tool}, ruleset {row.opinion.ruleset}" for row in asked)))
    summary = Prose(text=f"{head}{printable(tool)}, on each log by itself: {text}. {agreement}", kind="note")
    worth = [row for row in asked if row.ours != row.opinion.outcome or row.opinion.messages]
    if not worth:
        return (summary,)
    table = table_of(
        worth[:MAX_SHOWN],
        (
            ("Log", lambda row: Cell(text=f"run {row.run}", sub=row.result.label if len(group) > 1 else "")),
            ("These rules", "ours"),
            ("Official checker", _outcome_cell),
            ("What it said", lambda row: "; ".join(row.opinion.messages) or None, partial(printable, max_chars=300)),
        ),
        id_=f"{id_}-opinion",
        caption="Our verdict and the official checker's, on the logs where it differs or has a message",
    )
    hidden = len(worth) - MAX_SHOWN
    more = (Prose(text=f"{hidden:,} more logs.", kind="note"),) if hidden > 0 else ()
    where = f"{plural(len(worth), 'log')} on which the official checker differs or has a message"
    return (summary, Fold(summary=where, blocks=(table, *more)))


def _set_opinions(group: Sequence[Result], id_: str) -> tuple[Block, ...]:
    """Return a table of the official MLPerf checkers' opinions on whole sets (seeds, reference points, descriptions)
    next to dlrmbench's verdicts."""
    asked = [_CheckerOpinion(result, opinion) for result in group for opinion in result.verdict.official]
    if not asked:
        return ()
    table = table_of(
        asked[:MAX_SHOWN],
        (
            ("Configuration", "result.label"),
            ("Checker", "opinion.checker"),
            ("Outcome", _outcome_cell),
            ("RCP factor: its, ours", _factors),
            ("What it said", lambda row: "; ".join(row.opinion.messages) or None, partial(printable, max_chars=200)),
        ),
        id_=f"{id_}-set-opinions",
        caption="Opinions of the official checkers on whole sets",
    )
    not_valid = sum(row.opinion.outcome != "valid" for row in asked)
    text = f"{plural(len(asked), 'opinion')} of the official checkers on whole sets"
    return (Fold(summary=f"{text}, {not_valid} other than valid" if not_valid else text, blocks=(table,)),)


def _outcome_cell(row: _CheckerOpinion) -> Cell:
    """Return the cell of the official MLPerf checker's verdict, with a mark where dlrmbench's verdict differs."""
    return Cell(text=row.opinion.outcome, kind="warn" if row.opinion.outcome != row.ours else "")


def _factors(row: _CheckerOpinion) -> str | None:
    both = (row.opinion.factor, row.result.score.rcp_factor if row.opinion.checker == "rcp" else None)
    return None if both == (None, None) else ", ".join(MISSING if it is None else f"{it:.4f}" for it in both)

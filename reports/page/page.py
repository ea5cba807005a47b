"""From the facts of all sets to the whole page: groups of comparable results, each with all its parts."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version

from markupsafe import Markup

from reports.comparison.records import Comparison
from reports.comparison.sweep import SweepFacts
from reports.comparison.wording import speed, with_sign
from reports.document.glossary import GLOSSARY, footnotes, status_line
from reports.document.page import GroupView, PageSection, PageView
from reports.facts.facts import SetFacts
from reports.facts.find import brief_name
from reports.facts.measured_sets import MeasuredSet
from reports.page.contents import group_sections
from reports.page.sections.comparison import compare_group
from reports.page.sections.measured import measured_section
from reports.page.sections.profile import profile_section
from reports.page.sections.rules import rule_index
from reports.page.sections.sweep import sweep_section
from reports.page.sections.throughput import throughput_section
from reports.page.sections.verdict import badge, headline, tags, verdict_notes, verdict_table
from reports.text.formatting import plural, printable
from rules.records.profile import ProfileRecord
from rules.scoring.comparable import why_not_comparable


def build_page(
    sets: Sequence[SetFacts],
    data: Markup,
    *,
    title: str | None = None,
    now: datetime | None = None,
    baseline: SetFacts | None = None,
    sweeps: Sequence[SweepFacts] = (),
    profiles: Sequence[ProfileRecord] = (),
    measured: Sequence[MeasuredSet] = (),
) -> PageView:
    """The view of the whole page; `data` is the JSON for programs, already safe to embed.

    `baseline` is what the others of its group are compared with; in other groups it is the first one. Sweeps of
    throughput, profiles and measurements of throughput have no sets: a page may consist of them alone.
    """
    sets = briefly_named(sets)
    groups = comparable_groups(sets)
    views = tuple(group_view(group, index, groups[:index], baseline) for index, group in enumerate(groups))
    sweep_sections = tuple(sweep_section(sweep, index) for index, sweep in enumerate(sweeps))
    profile_sections = tuple(
        profile_section(profile, f"profile{index + 1}") for index, profile in enumerate(profiles)
    )
    measured_sections = _measured_sections(measured)
    alone = [section.heading for section in (*sweep_sections, *profile_sections)]
    head = (
        _headline(sets, views)
        if sets
        else (alone or [f"{measured_sections[0].name} of {plural(len(measured), 'configuration')}"])[0]
    )
    moment = (now or datetime.now(UTC)).strftime("%Y-%m-%d %H:%M UTC")
    num_official = sum(facts.status == "official" for facts in sets)
    return PageView(
        title=printable(title, 200) if title else head,
        dek=_dek(sets, groups, titled=title is not None, head=head),
        badges=tuple(badge(facts) for facts in sets) if len(sets) == 1 else (),
        tags=tags(groups[0]) if len(groups) == 1 else (),
        groups=views,
        glossary=GLOSSARY,
        rules=rule_index(sets),
        footnotes=footnotes(any_official=num_official > 0, num_official=num_official),
        colophon=f"Written by dlrmbench {_version()} on {moment}. One file, no network, no tracking.",
        data=data,
        sweeps=sweep_sections,
        profiles=profile_sections,
        measured=measured_sections,
    )


def _measured_sections(measured: Sequence[MeasuredSet]) -> tuple[PageSection, ...]:
    """One per kind, in the order of what was measured."""
    kinds: dict[str, list[MeasuredSet]] = {}
    for measurement in measured:
        kinds.setdefault(measurement.kind, []).append(measurement)
    return tuple(
        throughput_section(found) if found[0].counts_samples else measured_section(kind, found)
        for kind, found in kinds.items()
    )


def _headline(sets: Sequence[SetFacts], groups: Sequence[GroupView]) -> str:
    if len(sets) == 1:
        return headline(sets[0])
    # Of official results the guidelines ask for more beside a comparison than a headline can say.
    if len(sets) == 2 and len(groups) == 1 and groups[0].finding and sets[0].status == "own":
        return groups[0].finding
    return _many_headline(sets)


def briefly_named(sets: Sequence[SetFacts]) -> tuple[SetFacts, ...]:
    """Own run sets by the name that somebody chose, without benchmark and moment, where that is unique."""
    brief = [brief_name(facts) for facts in sets]
    return tuple(
        replace(facts, label=name) if brief.count(name) == 1 else facts
        for facts, name in zip(sets, brief, strict=True)
    )


def comparable_groups(sets: Sequence[SetFacts]) -> tuple[tuple[SetFacts, ...], ...]:
    """Sets of one problem together, in the order given; official and own benchmarks never share a group."""
    groups: list[list[SetFacts]] = []
    for facts in sets:
        for group in groups:
            if all(_may_share(facts, other) for other in group):
                group.append(facts)
                break
        else:
            groups.append([facts])
    return tuple(tuple(group) for group in groups)


def _may_share(facts: SetFacts, other: SetFacts) -> bool:
    if facts.status != other.status or facts.first_run is None or other.first_run is None:
        return False
    return why_not_comparable(facts.first_run, other.first_run) is None


def group_view(
    group: Sequence[SetFacts],
    index: int,
    earlier: Sequence[Sequence[SetFacts]] = (),
    baseline: SetFacts | None = None,
) -> GroupView:
    """All parts of one group. Where an `earlier` group has the same benchmark, a note says what keeps them apart."""
    first = group[0]
    id_ = f"group{index + 1}"
    division = f", {_division(first)} division" if _division(first) else ""
    heading = f"{first.benchmark}{division}"
    twins = [
        other
        for other in earlier
        if other[0].benchmark == first.benchmark and _division(other[0]) == _division(first)
    ]
    base = next((facts for facts in group if baseline is not None and facts.index == baseline.index), first)
    comparisons = compare_group(group, base)
    return GroupView(
        id=id_,
        heading=heading if not twins else f"{heading} ({len(twins) + 1})",
        status_line=status_line(first.status),
        table=verdict_table(group, f"{id_}-verdicts", comparisons),
        notes=(*(_why_apart(first, twin[0]) for twin in twins), *verdict_notes(group)),
        sections=group_sections(group, base, comparisons, id_),
        finding=_finding(comparisons) if len(comparisons) == 1 else "",
    )


def _finding(comparisons: Sequence[Comparison]) -> str:
    """The comparison of two configurations as a headline; empty where it shows nothing."""
    (comparison,) = comparisons
    whole = comparison.whole
    if comparison.verdict not in ("faster", "slower") or whole is None or whole.time_ratio is None:
        return ""
    if comparison.verdict != whole.verdict:
        return f"{comparison.new}: {comparison.verdict} than {comparison.base}, by the runs that reach the target"
    return f"{comparison.new} trains {with_sign(speed(whole.time_ratio))} than {comparison.base}"


def _division(facts: SetFacts) -> str:
    return printable(facts.first_run.division, 40) if facts.first_run and facts.first_run.division else ""


def _why_apart(facts: SetFacts, other: SetFacts) -> str:
    why = why_not_comparable(facts.first_run, other.first_run) if facts.first_run and other.first_run else None
    return f"Not in one table with {other.label}: {printable(why) if why else 'not comparable'}."


def _many_headline(sets: Sequence[SetFacts]) -> str:
    names = sorted({facts.benchmark for facts in sets})
    text = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    unverified = ", unverified" if any(facts.status == "official" for facts in sets) else ""
    return f"{plural(len(sets), 'configuration')} of {text}{unverified}"


def _dek(sets: Sequence[SetFacts], groups: Sequence[Sequence[SetFacts]], *, titled: bool, head: str) -> str:
    parts = [f"{head}."] if titled else []
    if len(sets) == 1:
        facts = sets[0]
        seeds = {run.result.seed for run in facts.runs if run.result.seed is not None}
        sown = " with different seeds" if len(seeds) == len(facts.runs) > 1 else ""
        parts.append(f"{facts.label}: {plural(len(facts.runs), 'run')}{sown}.")
    elif len(groups) > 1:
        parts.append(f"{plural(len(groups), 'problem')} that may not be compared with each other: one table each.")
    return " ".join(parts)


def _version() -> str:
    try:
        return version("dlrmbench")
    except PackageNotFoundError:
        return "(not installed)"

"""From the facts of all sets to the whole page: groups of comparable results, each with all its parts."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version

from markupsafe import Markup

from reports.document.glossary import GLOSSARY, footnotes, standing_line
from reports.document.page import GroupView, PageView
from reports.facts.facts import Order, SetFacts, in_order, with_repeats
from reports.facts.find import brief_name
from reports.page.answer import answer, what_there_is
from reports.page.contents import group_sections
from reports.page.gathered import Gathered
from reports.page.sections.comparison import compare_group
from reports.page.sections.measured import measured_sections
from reports.page.sections.profile import profile_section
from reports.page.sections.rules import rule_index
from reports.page.sections.sweep import sweep_section
from reports.page.sections.verdict import badge, headline, tags
from reports.text.formatting import plural, printable
from rules.scoring.comparable import why_not_comparable


def build_page(
    gathered: Gathered,
    data: Markup,
    *,
    title: str | None = None,
    now: datetime | None = None,
    baseline: SetFacts | None = None,
    order: Order = "files",
) -> PageView:
    """Make the view of the whole page; `data` is the JSON for programs, already safe to embed.

    `baseline` is what the others of its group are compared with; in other groups it is the first one of the files.
    `order` is that of a group's configurations. A page may consist of sweeps, profiles or measurements alone.
    """
    sets = briefly_named(gathered.sets)
    groups = tuple(map(with_repeats, comparable_groups(sets)))
    views = tuple(_group_view(groups, index, baseline, order) for index in range(len(groups)))
    sweeps = tuple(sweep_section(sweep, index) for index, sweep in enumerate(gathered.sweeps))
    profiles = tuple(profile_section(found, f"profile{index + 1}") for index, found in enumerate(gathered.profiles))
    measured = measured_sections(gathered.measured)
    if sets:
        head = _headline(sets, views)
    elif sweeps or profiles:
        head = (*sweeps, *profiles)[0].heading
    else:
        head = f"{measured[0].name} of {plural(len(gathered.measured), 'configuration')}"
    moment = (now or datetime.now(UTC)).strftime("%Y-%m-%d %H:%M UTC")
    return PageView(
        title=printable(title, 200) if title else head,
        dek=_dek(sets, groups, titled=title is not None, head=head),
        badges=tuple(badge(facts) for facts in sets) if len(sets) == 1 else (),
        tags=tags(groups[0]) if len(groups) == 1 else (),
        groups=views,
        glossary=GLOSSARY,
        rules=rule_index(sets),
        footnotes=footnotes([facts.standing for facts in sets]),
        colophon=f"Written by dlrmbench {_version()} on {moment}. One file, no network, no tracking.",
        data=data,
        sweeps=sweeps,
        profiles=profiles,
        measured=measured,
    )


def _headline(sets: Sequence[SetFacts], groups: Sequence[GroupView]) -> str:
    if len(sets) == 1:
        return headline(sets[0])
    return groups[0].finding if len(groups) == 1 else what_there_is(sets)


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


def group_heading(groups: Sequence[Sequence[SetFacts]], index: int) -> str:
    """Name a group by benchmark and division, with a number where an earlier one has the same."""
    names = [f"{group[0].benchmark}{_division(group[0])}" for group in groups[: index + 1]]
    number = names.count(names[index])
    return names[index] if number == 1 else f"{names[index]} ({number})"


def _group_view(
    groups: Sequence[Sequence[SetFacts]], index: int, baseline: SetFacts | None, order: Order
) -> GroupView:
    group, id_ = in_order(groups[index], order), f"group{index + 1}"
    wanted = (facts for facts in group if baseline is not None and facts.index == baseline.index)
    base = next(wanted, groups[index][0])
    comparisons = compare_group(group, base)
    return GroupView(
        id=id_,
        heading=group_heading(groups, index),
        status_line=standing_line([facts.standing for facts in group]),
        has_several=len(group) > 1,
        sections=group_sections(group, base, comparisons, id_, order),
        finding=answer(group, comparisons),
    )


def _division(facts: SetFacts) -> str:
    """', closed division'; empty where the logs name none."""
    first = facts.first_run
    return f", {printable(first.division, 40)} division" if first and first.division else ""


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

"""Builds the HTML page's contents from all results: groups of comparable results, each with all its sections."""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from markupsafe import Markup

from reports.comparison.comparison import GroupContext, context_of
from reports.comparison.sweep import SweepFacts
from reports.comparison.wording import with_sign
from reports.document.blocks import Block, Bullets
from reports.document.glossary import footnotes, page_glossary, registered, standing_line
from reports.document.page import GroupView, PageSection, PageView
from reports.kinds.details import details_of
from reports.page.answer import answer, answer_measured, answer_sweep, judged_words, what_there_is
from reports.page.content import ReportContent
from reports.page.contents import ResultGroup, brief_section, group_sections, swept_sections
from reports.page.head import page_head
from reports.page.next_step import next_step
from reports.page.sections.comparison import compare_group
from reports.page.sections.rules import rule_index
from reports.page.sections.verdict import badge, headline, tags
from reports.page.studies.law import law_sections
from reports.page.studies.profile import profile_section
from reports.page.studies.study import study_sections
from reports.page.studies.sweep import sweep_section
from reports.parts.profile import profile_answer
from reports.results.find import brief_name
from reports.results.logs import Order, in_order, with_repeats
from reports.results.result import Result
from reports.text.formatting import distinct_labels, plural, printable
from rules.records.experiment import ExperimentRecord, read_experiment, trials_of
from rules.records.kept.published import PublishedTable
from rules.records.kinds import is_in_processes
from rules.records.metrics import Metric, metric_of_member
from rules.records.study import StudyColumn, StudyRecord
from rules.scoring.comparable import problem_of, why_not_comparable
from rules.tree.others import count_others


def build_page(
    gathered: ReportContent,
    data: Markup,
    *,
    title: str | None = None,
    now: datetime | None = None,
    baseline: Result | None = None,
    order: Order = "files",
    is_brief: bool = False,
) -> PageView:
    """Return the contents of the whole HTML page; `data` is the page's data as JSON for programs, already safe to
    embed.

    The results of a group are compared with `baseline` if the group contains it. Otherwise they are compared with the
    result of the group that was read first. `order` is the order of configurations in a group. With `is_brief` the
    page has only what a reader needs to decide between configurations. A page need not have results; it may consist
    of sweeps, profiles, measurements or studies only.
    """
    sets = briefly_named(gathered.sets)
    groups = tuple(map(with_repeats, comparable_groups((*sets, *gathered.measured))))
    answers = (study for study in gathered.studies if details_of(study.kind).is_answer)
    said = [with_sign(finding) for study in answers for finding in study.findings]
    views = tuple(
        _without_said(_group_view(groups, index, baseline, order, is_brief, gathered.published), said)
        for index in range(len(groups))
    )
    step = next_step(gathered, is_brief=is_brief)
    sweeps, profiles, studies = other_sections(gathered, has_step=step is None)
    num_laws = len(sweeps) - len(gathered.sweeps)
    logged = [group for group in groups if group[0].is_logged]
    head = _headline(gathered, sets, views, len(logged), (*sweeps, *profiles)) + _unfinished(gathered.results)
    kinds = _kinds(gathered)
    terms = {word: meaning for kind in sorted(kinds) for word, meaning in details_of(kind).terms.items()}
    measured_kinds = kinds - {study.kind for study in gathered.studies}
    parts = map(brief_section, sweeps[num_laws:]) if is_brief else _with_parts(gathered.sweeps, sweeps[num_laws:])
    if is_brief:  # of each study only the findings and the first table
        studies = tuple((kind, brief_section(section)) for kind, section in studies if section.id.endswith("-1"))
    leads = tuple(section for kind, section in studies if details_of(kind).is_answer)
    return PageView(
        title=printable(title, 200) if title else head,
        dek=_dek(gathered, logged, title_is_given=title is not None, head=head),
        badges=tuple(badge(result) for result in sets) if len(sets) == 1 else (),
        tags=tags(logged[0]) if len(logged) == 1 else (),
        groups=() if is_brief and leads else views,  # a study's answer stands for them
        head=(*page_head(gathered), *filter(None, (step,))),
        is_brief=is_brief,
        glossary=()
        if is_brief
        else page_glossary(
            terms,
            is_trained=bool(sets) or not all(details_of(kind).terms for kind in measured_kinds),
            metrics=_metrics(gathered),
        ),
        rules=() if is_brief else rule_index(sets),
        footnotes=footnotes([result.standing for result in sets]),
        colophon=colophon(now or datetime.now(UTC)),
        data=data,
        eyebrow=_eyebrow(gathered),
        sweeps=(*leads, *sweeps[:num_laws], *parts),
        others=(*profiles, *(section for kind, section in studies if not details_of(kind).is_answer)),
    )


def other_sections(
    gathered: ReportContent, *, has_step: bool = True
) -> tuple[tuple[PageSection, ...], tuple[PageSection, ...], tuple[tuple[str, PageSection], ...]]:
    """Return three lists of the page's sections: on sweeps with their scaling laws, on profiles, and on studies
    (tables of computed or measured numbers). Each section of a study is a pair (kind of the study, section).

    `has_step` says whether the findings of a study suggest a next command; they do not if the page's head does.
    """
    sweeps = tuple(sweep_section(sweep, index) for index, sweep in enumerate(gathered.sweeps))
    profiles = tuple(profile_section(found, f"profile{index + 1}") for index, found in enumerate(gathered.profiles))
    studies = tuple(
        (study.kind, section)
        for index, study in enumerate(gathered.studies)
        for section in study_sections(study, f"study{index + 1}", has_step=has_step)
    )
    return (*law_sections(gathered.sweeps), *sweeps), profiles, studies


def _with_parts(sweeps: Sequence[SweepFacts], sections: Sequence[PageSection]) -> Iterator[PageSection]:
    """Yield the section of each sweep, followed by the sections on its measurements. If there are several sweeps, the
    sections on measurements name their sweep."""
    names = distinct_labels(printable(sweep.name, 80) for sweep in sweeps)
    for number, (sweep, name, section) in enumerate(zip(sweeps, names, sections, strict=True), start=1):
        yield section
        groups: dict[tuple[str, ...], list[Result]] = {}
        for row in sweep.rows:
            if row.result is not None:
                result = replace(row.result, label=row.label, index=row.index)
                groups.setdefault(result.quantities, []).append(result)
        of_sweep = f": {name}" if len(sweeps) > 1 else ""
        for quantities, results in groups.items():
            of = f"{of_sweep}, {results[0].measure.name}" if len(groups) > 1 else of_sweep
            id_ = f"sweep{number}" if len(groups) == 1 else f"sweep{number}-{quantities[0].replace('.', '-')}"
            for part in swept_sections(results, id_):
                yield replace(part, heading=f"{part.heading}{of}", name=f"{part.name}{of}")


def _whole_of(place: Path) -> Path:
    """Return the folder of all results that were made together with the run set at `place`. This is the folder that
    contains the run set, or the folder of a whole hyperparameter search if the search compared the run set in a
    pair."""
    return place.parent.parent if trials_of(place.parent.parent) else place.parent


def _headline(
    gathered: ReportContent,
    sets: Sequence[Result],
    groups: Sequence[GroupView],
    num_logged: int,
    others: Sequence[PageSection],
) -> str:
    """Return the title of the page. It is the answer of the page's comparison, or a sentence on its only result. If
    all results were measured for one study, it is the study's title.

    If the page has no runs that train to a target quality, the title is the answer of its measurements, sweep or
    profile. If there is no single answer, the title says how many of each kind the page has.
    """
    places = {None if result.place is None else _whole_of(result.place) for result in gathered.results}
    answers_of = [study for study in gathered.studies if details_of(study.kind).is_answer]
    if len(answers_of) == len(gathered.studies) == 1 and len(places) <= 1 and not gathered.sweeps:
        return printable(answers_of[0].title, 400)
    if len(sets) == 1:
        return headline(sets[0])
    if sets:
        return groups[0].finding if num_logged == 1 else what_there_is(sets) + judged_words(sets)
    measured, sweeps = gathered.measured, gathered.sweeps
    answers = {details_of(kind).answer for kind in _kinds(gathered)}
    answer_of = answers.pop() if len(answers) == 1 else None
    is_pair = len(groups) == 1 and len(measured) == 2 and not others
    if is_pair and (found := answer_measured(measured)):
        return found
    if answer_of is not None and (found := answer_of(gathered.all_measured)):
        return found
    if len(sweeps) == 1 and not measured and (found := answer_sweep(sweeps[0])):
        return found
    if len(gathered.profiles) == 1 and not measured and not sweeps:
        return profile_answer(gathered.profiles[0])
    if others:
        return others[0].heading
    if len(groups) == 1:
        return answer_measured(measured) or what_there_is(measured)
    if groups:
        kinds = [groups[0].heading, *(group.heading.lower() for group in groups[1:])]
        return f"{' and '.join(kinds)} of {plural(len(gathered.measured), 'configuration')}"
    return printable(gathered.studies[0].title, 400)


def _unfinished(results: Sequence[Result]) -> str:
    """Return words to end the page's title where all results are of one command that has not made all its runs: how
    many runs are finished, of how many, and the command that continues. '' for all other pages."""
    places = {result.place.parent for result in results if result.place is not None}
    if len(results) < 2 or len(places) != 1:
        return ""
    (folder,) = places
    group = read_experiment(folder)
    if not isinstance(group, ExperimentRecord) or group.stop is not None:
        return ""
    members = {each.folder for each in group.configurations if each.failure is None}
    done = [min(each.num_runs, group.num_runs) for each in results if each.place and each.place.name in members]
    num_planned, num_done = len(members) * group.num_runs, sum(done)
    if len(done) < len(results) or num_done >= num_planned:
        return ""
    command = shlex.join(["dlrmbench", "resume", str(folder)])
    word = "processes" if is_in_processes(group.kind) else "runs"
    return f"; unfinished: {num_done} of {num_planned} {word}, '{printable(command)}' goes on"


def _eyebrow(gathered: ReportContent) -> str:
    """Return the kind of page, such as 'training to a quality target'. If a page has several kinds of contents, the
    first of these decides: runs that train to a target quality, measurements, profiles, studies (computed or measured
    tables)."""
    if gathered.sets or any(sweep.is_of_runs for sweep in gathered.sweeps):
        return "training to a quality target"
    if gathered.measured or gathered.sweeps or any(details_of(study.kind).is_answer for study in gathered.studies):
        return "measured without a quality target"
    if gathered.profiles:
        return "a profile" if len(gathered.profiles) == 1 else "profiles"
    if any(column.origin == "measured" for study in gathered.studies for column in _columns_of(study)):
        return "a measurement: nothing was trained to a target"
    return "a simulation: nothing was trained"


def _columns_of(study: StudyRecord) -> list[StudyColumn]:
    return [column for table in study.tables for column in table.columns]


def _kinds(gathered: ReportContent) -> set[str]:
    """Return the kinds of measurement on a page, except runs that train to a target quality; profiles, sweeps and
    studies (tables of computed or measured numbers) count as well."""
    profiled = {"profile"} if gathered.profiles else set()
    return (
        {sweep.kind for sweep in gathered.sweeps}
        | {found.kind for found in gathered.measured}
        | {study.kind for study in gathered.studies}
        | profiled
    )


def _metrics(gathered: ReportContent) -> list[Metric]:
    """Return the quality metrics (such as AUC) of the result sets and of the measurements of quality on the page."""
    members = [found.measure.value for found in gathered.all_measured]
    of_measured = [metric for member in members if (metric := metric_of_member(member)) is not None]
    return [*(result.metric for result in gathered.sets), *of_measured]


def briefly_named(sets: Sequence[Result]) -> tuple[Result, ...]:
    """Return results with shorter labels: each gets the name that the user gave its run set, without benchmark and
    time, if no other result has that name."""
    brief = [brief_name(result) for result in sets]
    return tuple(
        replace(result, label=name) if brief.count(name) == 1 else result
        for result, name in zip(sets, brief, strict=True)
    )


def comparable_groups(results: Sequence[Result]) -> tuple[tuple[Result, ...], ...]:
    """Return results in groups whose members are comparable, in the order given: measurements of one quantity, or
    runs of one benchmark to one target.

    Official MLPerf benchmarks and other benchmarks never share a group.
    """
    groups: list[list[Result]] = []
    firsts: list[dict[object, Result]] = []  # per group, a result of each problem: few problems
    for result in results:
        problem = (
            result.status,
            result.quantities,
            None if result.first_run is None else problem_of(result.first_run),
        )
        for group, others in zip(groups, firsts, strict=True):
            if all(_may_share(result, other) for other in others.values()):
                group.append(result)
                others.setdefault(problem, result)
                break
        else:
            groups.append([result])
            firsts.append({problem: result})
    return tuple(tuple(group) for group in groups)


def _may_share(result: Result, other: Result) -> bool:
    if result.status != other.status or result.quantities != other.quantities:
        return False
    if not result.is_logged:
        return True
    if result.first_run is None or other.first_run is None:
        return False
    return why_not_comparable(result.first_run, other.first_run) is None


def group_heading(groups: Sequence[Sequence[Result]], index: int) -> str:
    """Return the heading of a group of results: benchmark and division (or the measured quantity), with a number
    where an earlier group has the same."""
    names = [_problem_name(group[0]) for group in groups[: index + 1]]
    number = names.count(names[index])
    return names[index] if number == 1 else f"{names[index]} ({number})"


def _group_view(
    groups: Sequence[Sequence[Result]],
    index: int,
    baseline: Result | None,
    order: Order,
    is_brief: bool,
    published: PublishedTable | None,
) -> GroupView:
    group, id_ = in_order(groups[index], order), f"group{index + 1}"
    is_logged = group[0].is_logged
    status_lines = (standing_line([result.standing for result in group]), *_why_apart(groups, index))
    wanted = (result for result in group if baseline is not None and result.index == baseline.index)
    base = next(wanted, groups[index][0])
    context = context_of(group) if is_logged else GroupContext()
    comparisons = compare_group(group, base, context) if is_logged else ()
    return GroupView(
        id=id_,
        heading=group_heading(groups, index),
        status_line=" ".join(status_lines) if is_logged else "",
        has_several=len(group) > 1,
        sections=group_sections(
            ResultGroup(group, base, comparisons, context, id_, order, published), is_brief=is_brief
        ),
        finding=answer(group, comparisons, context) if is_logged else "",
    )


def _without_said(view: GroupView, said: Sequence[str]) -> GroupView:
    """Return a group's contents without sentences that the top of the page has already. An item of a list, such as
    'new: …', is removed if one of the sentences `said` contains its text after the colon."""

    def unsaid(block: Block) -> bool:
        return not isinstance(block, Bullets) or bool(block.items)

    def shorten(block: Block) -> Block:
        if not isinstance(block, Bullets) or block.kind != "list":
            return block
        rests = {item: item.partition(": ")[2] for item in block.items}
        kept = tuple(item for item, rest in rests.items() if not rest or not any(rest in text for text in said))
        return replace(block, items=kept)

    sections = (
        replace(section, blocks=tuple(filter(unsaid, map(shorten, section.blocks)))) for section in view.sections
    )
    return replace(view, sections=tuple(sections)) if said else view


def _why_apart(groups: Sequence[Sequence[Result]], index: int) -> Iterator[str]:
    """Yield the reasons why a group of results is separate from the first group of the same benchmark and
    division."""
    first = groups[index][0]
    name = _problem_name(first)
    twin = next((group[0] for group in groups[:index] if _problem_name(group[0]) == name), None)
    if twin is not None and first.first_run and twin.first_run:
        why = why_not_comparable(first.first_run, twin.first_run) or "one of them is not comparable with all others"
        yield f"Not in one table with {twin.label}: {printable(why)}."


def _problem_name(result: Result) -> str:
    """Return a result's benchmark and division, 'dlrm_tiny, closed division'; for a measurement, the measured
    quantity."""
    if not result.is_logged:
        return result.measure.title
    first = result.first_run
    division = f", {printable(first.division, 40)} division" if first and first.division else ""
    return f"{result.benchmark_name}{division}"


def _dek(gathered: ReportContent, groups: Sequence[Sequence[Result]], *, title_is_given: bool, head: str) -> str:
    """Return the sentences below the page's title, which say what the page contains."""
    parts = [f"{head}."] if title_is_given else []
    if len(gathered.sets) == 1:
        result = groups[0][0]
        seeds = {run.log.seed for run in result.runs if run.log.seed is not None}
        sown = " with different seeds" if len(seeds) == len(result.runs) > 1 else ""
        name = result.label if result.place is None else printable(result.place.name, 80)  # a label may be a digest
        parts.append(f"{name}: {plural(len(result.runs), 'run')}{sown}.")
    elif len(groups) > 1:
        num_benchmarks = len({group[0].benchmark_name for group in groups})
        tables = plural(len(groups), "benchmark" if num_benchmarks == len(groups) else "group")
        parts.append(f"{tables}, whose times must not be compared with each other: one table each.")
    if gathered.others:
        parts.append(f"Not on this page: {registered(count_others(gathered.others))} that dlrmbench does not judge.")
    return " ".join(parts)


def colophon(now: datetime) -> str:
    """Return the last line of a page: the program and version that wrote it, and the time."""
    written = f"Written by dlrmbench {_version()} on {now:%Y-%m-%d %H:%M} UTC."
    return f"{written} This page is one file and loads nothing from elsewhere."


def _version() -> str:
    try:
        return version("dlrmbench")
    except PackageNotFoundError:
        return "(not installed)"

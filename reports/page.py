"""From the facts of all sets to the whole page: groups of comparable results, then one part per set."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version

from markupsafe import Markup

from reports.facts import SetFacts
from reports.figures import column_unit, convergence_chart, runs_chart, sorted_cell
from reports.formatting import (
    MISSING,
    TimeUnit,
    count,
    epochs,
    interval,
    learning_rate,
    num_bytes,
    percent,
    plural,
    printable,
    quality,
    throughput,
)
from reports.glossary import GLOSSARY, footnotes, status_line
from reports.judgement import rule_index
from reports.profile_record import ProfileRecord
from reports.profile_section import profile_view
from reports.sections import badge, headline, set_view
from reports.sweep import SweepFacts
from reports.sweep_view import sweep_view
from reports.tables import configuration_row
from reports.view import Cell, Column, GroupView, PageView, Table
from rules.rounds import why_not_comparable

_ELSEWHERE = "The numbers stand in each configuration's own part, in the tables of its runs and its convergence."


def build_page(
    sets: Sequence[SetFacts],
    data: Markup,
    *,
    title: str | None = None,
    now: datetime | None = None,
    sweeps: Sequence[SweepFacts] = (),
    profiles: Sequence[ProfileRecord] = (),
) -> PageView:
    """The view of the whole page; `data` is the JSON export, already safe to embed.

    Throughput sweeps and profiles have no sets: a page may consist of them alone.
    """
    groups = comparable_groups(sets)
    views = tuple(group_view(group, index, groups[:index]) for index, group in enumerate(groups))
    drawn_together = {one.index for group in groups if len(group) > 1 for one in group}
    sweep_views = tuple(sweep_view(sweep, index) for index, sweep in enumerate(sweeps))
    profile_views = tuple(profile_view(profile, f"profile{index + 1}") for index, profile in enumerate(profiles))
    alone = [view.heading for view in (*sweep_views, *profile_views)]
    head = headline(sets[0]) if len(sets) == 1 else _many_headline(sets) if sets else alone[0]
    moment = (now or datetime.now(UTC)).strftime("%Y-%m-%d %H:%M UTC")
    num_official = sum(one.status == "official" for one in sets)
    return PageView(
        title=printable(title, 200) if title else head,
        eyebrow="dlrmbench · training to a quality target",
        headline=printable(title, 200) if title else head,
        dek=_dek(sets, groups, titled=title is not None, head=head),
        badges=tuple(badge(one) for one in sets) if len(sets) == 1 else (),
        groups=views,
        sets=tuple(set_view(one, has_runs_chart=one.index not in drawn_together) for one in sets),
        glossary=GLOSSARY,
        rules=rule_index(sets),
        footnotes=footnotes(any_official=num_official > 0, num_official=num_official),
        colophon=f"Written by dlrmbench {_version()} on {moment}. One file, no network, no tracking.",
        data=data,
        sweeps=sweep_views,
        profiles=profile_views,
    )


def comparable_groups(sets: Sequence[SetFacts]) -> tuple[tuple[SetFacts, ...], ...]:
    """Sets of one problem together, in the order given; official and own benchmarks never share a group."""
    groups: list[list[SetFacts]] = []
    for one in sets:
        for group in groups:
            if all(_may_share(one, other) for other in group):
                group.append(one)
                break
        else:
            groups.append([one])
    return tuple(tuple(group) for group in groups)


def _may_share(one: SetFacts, other: SetFacts) -> bool:
    if one.status != other.status or one.first_run is None or other.first_run is None:
        return False
    return why_not_comparable(one.first_run, other.first_run) is None


def group_view(group: Sequence[SetFacts], index: int, earlier: Sequence[Sequence[SetFacts]] = ()) -> GroupView:
    """One verdict table and, where there is more than one configuration, charts across them.

    Where an `earlier` group has the same benchmark, a note says what keeps them apart.
    """
    first = group[0]
    id_ = f"group{index + 1}"
    charts = []
    if len(group) > 1:
        made = (runs_chart(group, f"{id_}-runs"), convergence_chart(group, f"{id_}-quality"))
        charts = [replace(chart, table=None, table_note=_ELSEWHERE) for chart in made if chart]
    division = f", {_division(first)} division" if _division(first) else ""
    heading = f"{first.benchmark}{division}"
    twins = [
        other
        for other in earlier
        if other[0].benchmark == first.benchmark and _division(other[0]) == _division(first)
    ]
    return GroupView(
        id=id_,
        heading=heading if not twins else f"{heading} ({len(twins) + 1})",
        status_line=status_line(first.status),
        table=verdict_table(group, f"{id_}-verdicts"),
        charts=tuple(charts),
        notes=(*(_why_apart(first, twin[0]) for twin in twins), *_notes(group)),
    )


def _division(one: SetFacts) -> str:
    return printable(one.first_run.division, 40) if one.first_run and one.first_run.division else ""


def _why_apart(one: SetFacts, other: SetFacts) -> str:
    why = why_not_comparable(one.first_run, other.first_run) if one.first_run and other.first_run else None
    return f"Not in one table with {other.label}: {printable(why) if why else 'not comparable'}."


def verdict_table(group: Sequence[SetFacts], id_: str) -> Table:
    """One row per configuration: verdict, score and what it is made of."""
    unit = column_unit(group)
    is_scaled = any(one.result.rcp_factor not in (None, 1.0) for one in group)
    columns = (
        Column(name="Configuration"),
        Column(name="Verdict"),
        Column(name="Time to train", is_number=True, help=f"{unit.name}; the score"),
        *(
            (Column(name="Olympic mean", is_number=True, help=f"{unit.name}; before the RCP factor"),)
            if is_scaled
            else ()
        ),
        Column(name="95 % interval", is_number=True, help=f"{unit.name}; of the Olympic mean"),
        Column(name="Runs", is_number=True, help="converged / needed"),
        Column(name="RCP"),
        Column(name="Epochs", is_number=True, help="to converge"),
        Column(name="CV", is_number=True, help="of epochs"),
        Column(name="Samples/s", is_number=True),
        Column(name="CV", is_number=True, help="of samples/s"),
        Column(name="Final AUC", is_number=True),
        Column(name="Errors / warnings", is_number=True),
        Column(name="Batch size", is_number=True),
        Column(name="Learning rate", is_number=True),
        Column(name="Peak memory", is_number=True),
    )
    caption = f"{plural(len(group), 'configuration')}; factors are geometric means over converged runs"
    rows = tuple(_verdict_row(one, unit, is_scaled) for one in group)
    return Table(id=id_, caption=caption, columns=columns, rows=rows, is_sortable=len(rows) > 1)


def _verdict_row(one: SetFacts, unit: TimeUnit, is_scaled: bool) -> tuple[Cell, ...]:
    row = configuration_row(one)
    shown = badge(one)
    unverified = " unverified" if one.status == "official" and one.result.score_s is not None else ""
    bounds = interval(unit.number(row["low_s"]), unit.number(row["high_s"])) if one.interval else MISSING
    factor = row["rcp_factor"]
    passed = f"{printable(row['rcp_outcome'], 60)}{f' ×{factor:.4f}' if factor and factor != 1.0 else ''}"
    return (
        Cell(text=one.label, anchor=f"set{one.index + 1}"),
        Cell(text=f"{shown.icon} {shown.word}", kind=shown.kind),
        Cell(text=unit.number(row["score_s"]) + unverified, kind="strong"),
        *((Cell(text=unit.number(row["olympic_mean_s"])),) if is_scaled else ()),
        Cell(text=bounds),
        Cell(text=f"{row['num_converged']} / {row['num_runs_required'] or MISSING}"),
        Cell(text=passed if row["rcp_outcome"] not in (None, "none") else "no RCP"),
        Cell(text=epochs(row["epochs_to_converge"])),
        Cell(text=percent(row["epochs_cv"])),
        Cell(text=throughput(row["throughput_samples_per_s"])),
        Cell(text=percent(row["throughput_cv"])),
        Cell(text=quality(row["final_quality"])),
        Cell(text=f"{row['num_errors']} / {row['num_warnings']}"),
        Cell(text=count(row["global_batch_size"])),
        Cell(text=learning_rate(row["learning_rate"])),
        sorted_cell(num_bytes(row["peak_rss_bytes"]), row["peak_rss_bytes"]),
    )


def _notes(group: Sequence[SetFacts]) -> tuple[str, ...]:
    notes = []
    coverages = sorted({one.interval.coverage for one in group if one.interval and one.interval.coverage})
    if coverages:
        told = " and ".join(percent(coverage) for coverage in coverages)
        notes.append(
            f"The 95 % intervals are expanded percentile bootstraps of the runs; such intervals held the true mean "
            f"in {told} of simulated sets of as many runs."
        )
    if any(one.result.olympic_mean_s is not None and one.interval is None for one in group):
        notes.append(
            "No interval where a run did not converge or fewer than 5 runs exist: an infinite time has no mean."
        )
    if len(group) > 1:
        notes.append(
            "Overlapping intervals do not show equality, and the rows stand in the order of the files: no ranking."
        )
    return tuple(notes)


def _many_headline(sets: Sequence[SetFacts]) -> str:
    names = sorted({one.benchmark for one in sets})
    told = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return f"{plural(len(sets), 'configuration')} of {told}"


def _dek(sets: Sequence[SetFacts], groups: Sequence[Sequence[SetFacts]], *, titled: bool, head: str) -> str:
    parts = [f"{head}."] if titled else []
    if len(sets) == 1:
        one = sets[0]
        seeds = {run.result.seed for run in one.runs if run.result.seed is not None}
        sown = " with different seeds" if len(seeds) == len(one.runs) > 1 else ""
        parts.append(f"{one.label}: {plural(len(one.runs), 'run')}{sown}.")
    elif len(groups) > 1:
        parts.append(f"{plural(len(groups), 'problem')} that may not be compared with each other: one table each.")
    return " ".join(parts)


def _version() -> str:
    try:
        return version("dlrmbench")
    except PackageNotFoundError:
        return "(not installed)"

"""Exports a report as JSON and CSV, for programs and spreadsheets, and as blocks for job summaries."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from reports.comparison.comparison import context_of
from reports.comparison.noise import describe_sets
from reports.document.blocks import Block, Heading, Prose
from reports.document.glossary import standing_line
from reports.document.page import PageSection
from reports.page.content import gather_everything
from reports.page.figures.detail import detail_note
from reports.page.page import briefly_named, comparable_groups, group_heading
from reports.page.sections.comparison import compare_group
from reports.page.sections.spread import spread_blocks
from reports.page.sections.verdict import verdict_notes, verdict_table
from reports.results.logs import Order, in_order
from reports.results.result import Result
from reports.tables.documents import is_document, join_documents, json_text, read_document
from reports.tables.measurements import with_measured
from reports.tables.records import ReportDocument
from reports.tables.rows import document_of


def export_json(sets: Sequence[Result], measured: Sequence[Result] = ()) -> str:
    """Return all tables of results as JSON: each configuration with its runs, and the processes of measurements; null
    means unknown."""
    return json_text(with_measured(describe_sets(sets), measured, sets))


def read_documents(
    paths: Sequence[Path], *, second_opinion: bool = False, ruleset: str | None = None
) -> ReportDocument:
    """Read all results at or below `paths`: run sets, measurements, anyone's result directories, logs, exported JSON.

    Logs are judged by the official MLPerf round `ruleset`, where one is given. Raises InputError where a path holds
    no results.
    """
    documents = [read_document(path) for path in paths if is_document(path)]
    folders = [path for path in paths if not is_document(path)]
    if not folders:
        return join_documents(documents)
    found = gather_everything(folders, second_opinion=second_opinion, ruleset=ruleset)
    ours = with_measured(describe_sets(found.sets), found.all_measured, found.sets)
    return join_documents([ours, *documents])


def export_csv(sets: Sequence[Result], measured: Sequence[Result] = ()) -> str:
    """Return results as CSV with one row per run. If there are no runs, each process of the measurements has a row.
    Text that a spreadsheet would run as a formula gets a leading apostrophe."""
    from reports.tables.frames import document_csv  # imported here, since the page needs no pandas

    return document_csv(with_measured(document_of(sets), measured, sets))


def result_blocks(sets: Sequence[Result], order: Order, sections: Iterable[PageSection]) -> list[Block]:
    """Return the report as blocks. For each group of comparable configurations there is a table of verdicts, followed
    by the smallest differences that could be detected between two sets with as many runs. After all groups come
    `sections`: the sections on sweeps, measurements, profiles and studies (computed or measured tables)."""
    blocks: list[Block] = []
    groups = comparable_groups(briefly_named(sets))
    for index, of_files in enumerate(groups):
        group = in_order(of_files, order)
        blocks += [
            Heading(text=group_heading(groups, index)),
            Prose(text=standing_line([result.standing for result in group])),
        ]
        if note := detail_note(group):
            blocks.append(Prose(text=note))
        context = context_of(group)
        blocks.append(
            replace(verdict_table(group, "", compare_group(group, of_files[0], context, is_brief=True)), caption="")
        )
        blocks += [Prose(text=note) for note in verdict_notes(group, order)]
        blocks += spread_blocks(group, context, "")
    for section in sections:
        blocks += [Heading(text=section.heading), *section.blocks]
    return blocks

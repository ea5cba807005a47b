"""The facts as JSON, CSV and Markdown: for programs, spreadsheets and job summaries."""

from collections.abc import Sequence

from reports.document.blocks import Table
from reports.facts.facts import SetFacts
from reports.page.page import comparable_groups, group_view
from reports.tables.columns import frame_csv
from reports.tables.documents import json_text
from reports.tables.frames import runs_frame
from reports.tables.rows import document_of


def export_json(sets: Sequence[SetFacts]) -> str:
    """Everything the tables hold, per configuration; null is not known."""
    return json_text(document_of(sets))


def export_csv(sets: Sequence[SetFacts]) -> str:
    """One row per run. Text that a spreadsheet would take for a formula gets a leading apostrophe."""
    return frame_csv(runs_frame(document_of(sets)))


def export_markdown(sets: Sequence[SetFacts]) -> str:
    """The verdict tables, one per group of comparable configurations."""
    parts = []
    for index, group in enumerate(comparable_groups(sets)):
        view = group_view(group, index)
        parts.append(
            f"## {_markdown(view.heading)}\n\n{_markdown(view.status_line)}\n\n{_markdown_table(view.table)}"
        )
        parts += [_markdown(note) for note in view.notes]
    return "\n\n".join(parts) + "\n"


def _markdown_table(table: Table) -> str:
    names = (f"{one.name} ({one.help.partition(';')[0]})" if one.help else one.name for one in table.columns)
    lines = ["| " + " | ".join(_markdown(name) for name in names) + " |"]
    lines.append("|" + "|".join("--:" if column.is_number else ":--" for column in table.columns) + "|")
    lines += ["| " + " | ".join(_markdown(cell.line) for cell in row) + " |" for row in table.rows]
    return "\n".join(lines)


def _markdown(text: str) -> str:
    """Text without Markdown's and HTML's meaning."""
    for char in "\\`*_[]|#":
        text = text.replace(char, f"\\{char}")
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")

"""The facts as JSON, CSV and Markdown: for programs, spreadsheets and job summaries."""

import csv
import io
from collections.abc import Sequence
from typing import Any

import pandas as pd

from reports.document.blocks import Table
from reports.facts.facts import SetFacts
from reports.page.page import comparable_groups, group_view
from reports.tables.documents import document_of, plain
from reports.tables.tables import runs_table, tables_of

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def export_json(sets: Sequence[SetFacts]) -> dict[str, Any]:
    """Everything the tables hold, per configuration; null is not known. Described by schemas/report.schema.json."""
    return document_of(tables_of(sets))


def export_csv(sets: Sequence[SetFacts]) -> str:
    """One row per run. Text that a spreadsheet would take for a formula gets a leading apostrophe."""
    return frame_csv(runs_table(sets))


def frame_csv(frame: pd.DataFrame) -> str:
    """Any table as CSV, as `export_csv` writes it."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(frame.columns)
    for row in frame.itertuples(index=False):
        writer.writerow([_inert(plain(cell)) for cell in row])
    return text.getvalue()


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


def _inert(cell: Any) -> Any:
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA) else cell

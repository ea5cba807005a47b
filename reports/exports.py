"""The facts as JSON, CSV and Markdown: for programs, spreadsheets and job summaries."""

from collections.abc import Sequence
from typing import Any

from reports.facts import SetFacts
from reports.page import comparable_groups, group_view
from reports.tables import configurations_table, evaluations_table, runs_table
from reports.view import Table

SCHEMA_VERSION = 1
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def export_json(sets: Sequence[SetFacts]) -> dict[str, Any]:
    """Everything the tables hold, per configuration; null is not known. Described by schemas/report.schema.json."""
    configurations = configurations_table(sets).to_dict("records")
    runs, evaluations = runs_table(sets), evaluations_table(sets)
    return {
        "schema_version": SCHEMA_VERSION,
        "configurations": [
            {
                **{str(key): _plain(value) for key, value in row.items()},
                "runs": _records(runs, one.label),
                "evaluations": _records(evaluations, one.label),
            }
            for one, row in zip(sets, configurations, strict=True)
        ],
    }


def export_csv(sets: Sequence[SetFacts]) -> str:
    """One row per run. Text that a spreadsheet would take for a formula gets a leading apostrophe."""
    frame = runs_table(sets).map(
        lambda value: f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value
    )
    return str(frame.to_csv(index=False, lineterminator="\n"))


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
    lines = ["| " + " | ".join(_markdown(column.name) for column in table.columns) + " |"]
    lines.append("|" + "|".join("--:" if column.is_number else ":--" for column in table.columns) + "|")
    lines += ["| " + " | ".join(_markdown(cell.text) for cell in row) + " |" for row in table.rows]
    return "\n".join(lines)


def _markdown(text: str) -> str:
    """Text without Markdown's and HTML's meaning."""
    for char in "\\`*_[]|#":
        text = text.replace(char, f"\\{char}")
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _records(frame: Any, label: str) -> list[dict[str, Any]]:
    chosen = frame[frame["configuration"] == label].drop(columns="configuration")
    return [{str(key): _plain(value) for key, value in row.items()} for row in chosen.to_dict("records")]


def _plain(value: Any) -> Any:
    """pandas' missing value as None."""
    return None if value is None or value != value else value

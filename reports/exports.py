"""The facts as JSON, CSV and Markdown: for programs, spreadsheets and job summaries."""

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from reports.facts import SetFacts
from reports.page import comparable_groups, group_view
from reports.tables import configurations_table, evaluations_table, runs_table
from reports.view import Table

SCHEMA_VERSION = 1
_PER_EVALUATION = ("epoch_num", "samples_count", "elapsed_s", "quality")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def export_json(sets: Sequence[SetFacts]) -> dict[str, Any]:
    """Everything the tables hold, per configuration; null is not known. Described by schemas/report.schema.json.

    A run's evaluations are one list per quantity, because there are many.
    """
    runs, evaluations = runs_table(sets), evaluations_table(sets)
    return {
        "schema_version": SCHEMA_VERSION,
        "configurations": [
            {
                **_plain_row(row),
                "runs": [
                    {**run, "evaluations": _columns(evaluations, one.label, run["run"], run["path"])}
                    for run in _rows_of(runs, one.label)
                ],
            }
            for one, row in zip(sets, configurations_table(sets).to_dict("records"), strict=True)
        ],
    }


def export_csv(sets: Sequence[SetFacts]) -> str:
    """One row per run. Text that a spreadsheet would take for a formula gets a leading apostrophe."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    frame = runs_table(sets)
    writer.writerow(frame.columns)
    for row in frame.itertuples(index=False):
        writer.writerow([_inert(_plain(cell)) for cell in row])
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
    lines = ["| " + " | ".join(_markdown(column.name) for column in table.columns) + " |"]
    lines.append("|" + "|".join("--:" if column.is_number else ":--" for column in table.columns) + "|")
    lines += ["| " + " | ".join(_markdown(cell.text) for cell in row) + " |" for row in table.rows]
    return "\n".join(lines)


def _markdown(text: str) -> str:
    """Text without Markdown's and HTML's meaning."""
    for char in "\\`*_[]|#":
        text = text.replace(char, f"\\{char}")
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _rows_of(frame: pd.DataFrame, label: str) -> list[dict[str, Any]]:
    chosen = frame[frame["configuration"] == label].drop(columns="configuration")
    return [_plain_row(row) for row in chosen.to_dict("records")]


def _columns(evaluations: pd.DataFrame, label: str, run: str, path: str) -> dict[str, list[Any]]:
    """The evaluations of one committed run, a list per quantity; an attempt without a log has none."""
    mine = (evaluations["configuration"] == label) & (evaluations["run"] == run) & (evaluations["path"] == path)
    chosen = evaluations[mine]
    return {name: [_plain(value, digits=7) for value in chosen[name]] for name in _PER_EVALUATION}


def _inert(cell: Any) -> Any:
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA) else cell


def _plain_row(row: Mapping[Any, Any]) -> dict[str, Any]:
    return {str(key): _plain(value) for key, value in row.items()}


def _plain(value: Any, digits: int = 9) -> Any:
    """A value as JSON has it: missing as None, numbers with the digits that a clock of 1 ms can fill."""
    if value is None or value != value:
        return None
    return float(f"{value:.{digits}g}") if isinstance(value, float) else value

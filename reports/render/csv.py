"""Rows of values as CSV, safe to open in a spreadsheet."""

import csv
import io
from collections.abc import Iterable, Sequence

from rules.logs.text import printable

_FORMULA = ("=", "+", "-", "@")


def render_csv(columns: Sequence[str], rows: Iterable[Iterable[object]]) -> str:
    """A head and one line per row, None as an empty field.

    Text that a spreadsheet would take for a formula gets a leading apostrophe.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([inert(value) if isinstance(value, str) else value for value in row] for row in rows)
    return text.getvalue()


def inert(text: str) -> str:
    """Text that no spreadsheet takes for a formula, and whose control characters reach no terminal and end no row."""
    shown = printable(text)
    return f"'{shown}" if shown.startswith(_FORMULA) else shown

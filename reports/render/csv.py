"""Writes rows of values as CSV that is safe to open in a spreadsheet."""

import csv
import io
from collections.abc import Iterable, Sequence

from rules.logs.text import printable

_FORMULA = ("=", "+", "-", "@")


def render_csv(columns: Sequence[str], rows: Iterable[Iterable[object]]) -> str:
    """Return a header line and one line per row as CSV, None as an empty field.

    Text that a spreadsheet would take for a formula gets a leading apostrophe.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([inert(value) if isinstance(value, str) else value for value in row] for row in rows)
    return text.getvalue()


def inert(text: str) -> str:
    """Return text that no spreadsheet runs as a formula, without control characters, which could end a CSV row."""
    shown = printable(text)
    return f"'{shown}" if shown.startswith(_FORMULA) else shown

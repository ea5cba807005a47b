"""Rows of values as CSV, safe to open in a spreadsheet."""

import csv
import io
from collections.abc import Iterable, Sequence

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def render_csv(columns: Sequence[str], rows: Iterable[Iterable[object]]) -> str:
    """A head and one line per row, None as an empty field.

    Text that a spreadsheet would take for a formula gets a leading apostrophe.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_inert(value) for value in row] for row in rows)
    return text.getvalue()


def _inert(value: object) -> object:
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value

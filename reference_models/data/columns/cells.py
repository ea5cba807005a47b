"""Parse a column's cells as numbers, labels and times, alike for the commands `init`, `data prepare` and `data
predict`."""

import re
from datetime import UTC, date, datetime
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import compute

NULLS = ("", "NA", "N/A", "NaN", "nan", "NULL", "null", "None", "\\N")
"""Texts that stand for a missing number, label or time."""
BAD_TEXT = "\ufdd0"
"""Character that, with two hexadecimal digits after it, stands in text for a byte that is not UTF-8; valid text never
has it (U+FDD0)."""
WORDS = {"true": 1, "yes": 1, "y": 1, "t": 1, "false": 0, "no": 0, "n": 0, "f": 0}
"""Dict from each word (in lower case) that a label's cell may hold to the label, 1 or 0."""
_NULLS = pa.array(NULLS)
_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
BLANKS = " \t"
"""Characters around a cell's text that are ignored."""
_NUMBER_CELL = re.compile(_NUMBER)
_TIME_CELL = re.compile(
    r"\d{4}([-/]\d{2}([-/]\d{2}([T ]\d{2}(:\d{2}(:\d{2}([.,]\d{1,9})?)?)?)?)?)?( ?(Z|UTC|[+-]\d{2}(:?\d{2})?))?"
)
_DAY_FIRST = re.compile(r"\d{1,2}[/.-]\d{1,2}[/.-]\d{2,4}\b.*")
_MONTH = "(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*"
_YEAR_BEHIND = (
    r"(?i)^(0?[1-9]|[12][0-9]|3[01])[/.-](0?[1-9]|[12][0-9]|3[01])[/.-](19|20)[0-9]{2}\b"
    rf"|^([a-z]{{3,9}},? )?([0-9]{{1,2}}[ -]{_MONTH}|{_MONTH}\.? [0-9]{{1,2}})\b.*\b(19|20)[0-9]{{2}}\b"
)
"""Pattern of dates with the year last, such as 31/01/2026, Jan 31, 2026 and Sat Jan 31 23:59:59 +0000 2026."""
EXPECTED_TEXT = "UTF-8. Where it is Windows-1252 or Latin-1, convert it: iconv -f WINDOWS-1252 -t UTF-8"
EXPECTED_TIME = "a number, or a time such as 2026-01-31, 2026-01-31 23:59:59 or 2026-01-31T23:59:59+01:00"


def mark_bad_bytes(text: str) -> str:
    """Return text in which the character BAD_TEXT and two hexadecimal digits stand for each byte that was not UTF-8
    and was decoded to a surrogate ("surrogateescape")."""
    return re.sub("[\udc80-\udcff]", lambda found: f"{BAD_TEXT}{ord(found[0]) - 0xDC00:02x}", text)


def show_cell(cell: object) -> str:
    """Return a cell's content for an error message, shortened, with bytes that are not UTF-8 as escapes."""
    if cell is None:
        return "empty"
    if not isinstance(cell, bytes | str):
        cell = str(cell)
    shown = re.sub(r"\\ufdd0([0-9a-f]{2})", r"\\x\1", ascii(cell[:200]))
    return shown if len(shown) <= 42 else f"{shown[:40]}…"


def to_text(column: pa.Array) -> pa.Array:
    """Return a column of text or bytes as strings; the character BAD_TEXT and two hexadecimal digits stand for each
    byte that is not UTF-8."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if not is_text(column.type):
        return column
    try:
        column = column.cast(pa.string())
        column.validate(full=True)
    except pa.ArrowInvalid:
        cells = column.cast(pa.large_binary() if pa.types.is_large_string(column.type) else pa.binary()).to_pylist()
        marked = [None if cell is None else mark_bad_bytes(cell.decode("utf-8", "surrogateescape")) for cell in cells]
        column = pa.array(marked, pa.string())
    return column


def is_text(kind: pa.DataType) -> bool:
    """Return whether an Arrow type holds text or bytes."""
    tests = ("string", "large_string", "string_view", "binary", "large_binary", "binary_view", "fixed_size_binary")
    return any(getattr(pa.types, f"is_{name}")(kind) for name in tests)


def is_number(kind: pa.DataType) -> bool:
    """Return whether an Arrow type of a Parquet column holds numbers."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def strip(column: pa.Array) -> pa.Array:
    """Return a column's texts without blanks around them, and null for texts such as 'NA' of missing cells."""
    column = compute.utf8_trim(column, BLANKS)
    return compute.if_else(compute.is_in(column, value_set=_NULLS), None, column)


def parse_numbers(
    column: pa.Array, decimal: str = ".", thousands: str = ""
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return the numbers [n] in a column of text, NaN where missing, and a mask [n] of cells that are no numbers.

    `decimal` stands before the fraction, `thousands` between groups of digits.
    """
    if decimal == "." and not thousands:
        try:
            return to_numpy(column.cast(pa.float64())), np.zeros(len(column), np.bool_)
        except pa.ArrowInvalid:
            pass
    column = strip(column)
    if thousands:
        column = compute.replace_substring(column, thousands, "")
    if decimal != ".":
        column = compute.replace_substring(column, decimal, ".")
    is_one = compute.match_substring_regex(column, _NUMBER).fill_null(True)
    values = compute.if_else(is_one, column, None).cast(pa.float64())
    return to_numpy(values), to_numpy(compute.invert(is_one))


def parse_words(column: pa.Array) -> NDArray[np.float64]:
    """Return a column's labels [n]: 1 and 0 for words such as 'yes' and 'False', NaN for all other cells."""
    lower = compute.utf8_lower(compute.utf8_trim(column, BLANKS))
    places = to_numpy(compute.index_in(lower, value_set=pa.array([*WORDS])).fill_null(len(WORDS)))
    found: NDArray[np.float64] = np.array([*WORDS.values(), np.nan])[places]
    return found


def parse_times(column: pa.Array, has_zone: bool | None) -> tuple[NDArray[np.int64], NDArray[np.bool_], bool]:
    """Return three things for a column of text: its times in nanoseconds since 1970 [n], a mask [n] of the cells that
    are no times, and whether the times name a time zone.

    Times without a zone are compared as written, times with a zone as instants. `has_zone` states which of the two
    the column must have; a time of the other kind counts as no time. If `has_zone` is None, the column's first time
    decides.
    """
    column = compute.utf8_trim(column, BLANKS)
    if has_zone is None:
        first = next((cell for cell in column.to_pylist() if cell is not None and parse_time(cell) is not None), None)
        has_zone = first is not None and names_zone(first)
    kind = pa.timestamp("ns", "UTC" if has_zone else None)
    written = compute.replace_substring_regex(column, r" ?UTC$", "Z") if has_zone else column
    try:
        values = written.cast(kind).cast(pa.int64())
        return to_numpy(values.fill_null(0)), to_numpy(values.is_null()), has_zone
    except pa.ArrowInvalid:
        encoded = column.dictionary_encode()
        cells = [
            parse_time(cell) if names_zone(cell) == has_zone else None for cell in encoded.dictionary.to_pylist()
        ]
        known = np.array([*(0 if cell is None else cell for cell in cells), 0], np.int64)
        is_none = np.array([*(cell is None for cell in cells), True])
        places = to_numpy(encoded.indices.fill_null(len(cells)))
        return known[places], is_none[places], has_zone


def names_zone(cell: str) -> bool:
    """Return whether the text of a time names its time zone."""
    return bool(re.search(r"(Z|UTC|\d\d:?\d\d:?[\d.,]* ?[+-]\d{2}(:?\d{2})?|[T ]\d{2} ?[+-]\d{2}(:?\d{2})?)$", cell))


def parse_time(cell: str) -> int | None:
    """Return the time in a cell's text, in nanoseconds since 1970; None if the text is no time. A time without a zone
    is read as UTC."""
    cell = cell.strip()
    if not _TIME_CELL.fullmatch(cell):
        return None
    written = re.sub(r" ?(Z|UTC)$", "+00:00", cell.replace("/", "-").replace(",", "."))
    written = re.sub(r" ([+-]\d\d)", r"\1", written)
    written += {4: "-01-01", 7: "-01"}.get(len(written), "")
    fraction = re.search(r"\.(\d+)", written)
    try:
        found = datetime.fromisoformat(re.sub(r"\.\d+", "", written))
    except ValueError:
        return None
    instant = to_instant(found)
    return None if instant is None else instant + int(f"{fraction[1]:0<9}" if fraction else 0)


def to_instant(found: date) -> int | None:
    """Return a date or time, as UTC if it has no zone, in nanoseconds since 1970; None beyond 64 bits."""
    if not isinstance(found, datetime):
        found = datetime(found.year, found.month, found.day)
    since = (found if found.tzinfo else found.replace(tzinfo=UTC)) - datetime(1970, 1, 1, tzinfo=UTC)
    instant = (since.days * 86_400 + since.seconds) * 10**9 + since.microseconds * 1000
    return instant if abs(instant) < 2**63 - 10**9 else None


def hold_unsorted_dates(column: pa.Array) -> bool:
    """Return whether all cells of a column are dates with the year last, such as 31/01/2026, whose order as text is
    not their order in time."""
    return compute.all(compute.match_substring_regex(column, _YEAR_BEHIND)).as_py() is True


def explain_time(cell: object) -> str:
    """Return a description of the times that a column may hold, for the error message about its cell `cell`."""
    if isinstance(cell, str) and _DAY_FIRST.fullmatch(cell.strip()):
        return f"{EXPECTED_TIME}; day and month in this order do not sort, and may be exchanged"
    return EXPECTED_TIME


def is_number_or_time(cell: str) -> bool:
    """Return whether a cell of a text file is a number or a date: if a first line has such cells, it is hardly a
    header."""
    cell = cell.strip()
    return bool(_NUMBER_CELL.fullmatch(cell)) or (len(cell) >= 10 and parse_time(cell) is not None)


def to_numpy(column: pa.Array) -> NDArray[Any]:
    """Return a writable NumPy copy of an Arrow column, with NaN for nulls of numbers."""
    return np.array(column.to_numpy(zero_copy_only=False))

"""Criteo's tab-separated text to columns: a block of whole lines at a time, no Python work per line.

A line is a label (0 or 1), 13 integers and 26 categories of up to 8 hexadecimal digits; an empty integer or category
is missing and counts as 0, as in facebookresearch/dlrm's data_utils.py. Lines may end in LF or CR LF. Any other line
is malformed: it is left out and reported with its number and the reason.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reference_models.config import NUM_CRITEO_DENSE, NUM_CRITEO_SPARSE
from reference_models.criteo.swar import WORD_BYTES, load_words, pad_with_zeros, parse_decimal, parse_hexadecimal

NUM_COLUMNS = 1 + NUM_CRITEO_DENSE + NUM_CRITEO_SPARSE
MAX_INTEGER_DIGITS = 2 * WORD_BYTES
_FIRST_CATEGORY = 1 + NUM_CRITEO_DENSE
_TAB, _LF, _CR, _MINUS, _ZERO = b"\t\n\r-0"
# Two words may be loaded before the first field's end.
_PADDING = bytes(2 * WORD_BYTES)
_MAX_INTEGER = 2**31 - 1
_LOG_TABLE = np.log(np.arange(1, 65537, dtype=np.float64)).astype(np.float32)


@dataclass(frozen=True, slots=True)
class Malformed:
    """A line that is left out: its number within the block, from 0, and what is wrong with it."""

    line: int
    reason: str


@dataclass(frozen=True, slots=True)
class Rows:
    """n well-formed lines: labels uint8 [n], integers int32 [n, 13], categories uint32 [n, 26]; lines read in all."""

    labels: NDArray[np.uint8]
    integers: NDArray[np.int32]
    categories: NDArray[np.uint32]
    num_lines: int
    num_malformed: int
    malformed: tuple[Malformed, ...]


def parse_block(block: bytes, max_named: int = 10) -> Rows:
    """Parse whole lines, the last one ending in a line feed. The first `max_named` malformed lines are named."""
    buffer = _PADDING + block
    text = np.frombuffer(buffer, np.uint8)
    separators = np.flatnonzero((text == _TAB) | (text == _LF))
    line_ends = np.flatnonzero(text[separators] == _LF)
    columns = np.diff(line_ends, prepend=-1)
    whole = columns == NUM_COLUMNS
    named = [
        Malformed(int(line), f"{columns[line]} columns, expected {NUM_COLUMNS}")
        for line in np.flatnonzero(~whole)[:max_named]
    ]
    lines: NDArray[np.intp] | None = None
    before = np.concatenate(([len(_PADDING) - 1], separators[:-1]))
    if whole.all():
        ends, starts = separators.reshape(-1, NUM_COLUMNS), before.reshape(-1, NUM_COLUMNS) + 1
    else:
        lines = np.flatnonzero(whole)
        fields = line_ends[lines, None] + np.arange(1 - NUM_COLUMNS, 1)
        ends, starts = separators[fields], before[fields] + 1
    if ends.size and (returns := text[ends[:, -1] - 1] == _CR).any():
        ends = ends.copy()
        # An empty last field keeps its place: the byte before it is then the tab, never a carriage return.
        ends[:, -1] -= returns
    labels, integers, categories, bad = _parse_fields(buffer, text, starts, ends)
    wrong = bad.any(axis=1)
    if wrong.any():
        numbers = np.arange(len(ends)) if lines is None else lines
        for row in np.flatnonzero(wrong)[:max_named]:
            named.append(Malformed(int(numbers[row]), _describe(buffer, starts[row], ends[row], bad[row])))
        keep = ~wrong
        labels, integers, categories = labels[keep], integers[keep], categories[keep]
    return Rows(
        labels=labels,
        integers=integers,
        categories=categories,
        num_lines=len(columns),
        num_malformed=len(columns) - len(labels),
        malformed=tuple(sorted(named, key=lambda item: item.line)[:max_named]),
    )


def transform_integers(integers: NDArray[np.int32]) -> NDArray[np.float32]:
    """log(x + 1) with negative values as 0 (data_utils.py), the same float32 on every machine.

    Small values come from a table in double precision; numpy's own float32 logarithm depends on the processor.
    """
    values = np.maximum(integers, 0)
    result = _LOG_TABLE[np.minimum(values, len(_LOG_TABLE) - 1)]
    if (large := values >= len(_LOG_TABLE)).any():
        result[large] = np.log(values[large].astype(np.float64) + 1.0)
    return result


def _parse_fields(
    buffer: bytes, text: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64]
) -> tuple[NDArray[np.uint8], NDArray[np.int32], NDArray[np.uint32], NDArray[np.bool_]]:
    bad = np.zeros(ends.shape, np.bool_)
    lengths = ends - starts
    labels = text[starts[:, 0]] - np.uint8(_ZERO)
    bad[:, 0] = (lengths[:, 0] != 1) | (labels > 1)
    dense = slice(1, _FIRST_CATEGORY)
    integers, bad[:, dense] = _parse_integers(buffer, text, starts[:, dense], ends[:, dense])
    words = pad_with_zeros(load_words(buffer, ends[:, _FIRST_CATEGORY:]), lengths[:, _FIRST_CATEGORY:])
    categories, bad[:, _FIRST_CATEGORY:] = parse_hexadecimal(words)
    bad[:, _FIRST_CATEGORY:] |= lengths[:, _FIRST_CATEGORY:] > WORD_BYTES
    return labels, integers, categories, bad


def _parse_integers(
    buffer: bytes, text: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64]
) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
    lengths = ends - starts
    negative = (text[starts] == _MINUS) & (lengths > 0)
    digits = lengths - negative
    values, bad = parse_decimal(pad_with_zeros(load_words(buffer, ends), digits))
    bad |= (digits > MAX_INTEGER_DIGITS) | (negative & (digits == 0))
    if (long := (digits > WORD_BYTES) & ~bad).any():
        front = pad_with_zeros(load_words(buffer, ends[long] - WORD_BYTES), digits[long] - WORD_BYTES)
        upper, upper_bad = parse_decimal(front)
        values[long] += upper * 10**WORD_BYTES
        bad[long] |= upper_bad
    np.negative(values, out=values, where=negative)
    bad |= (values > _MAX_INTEGER) | (values < -_MAX_INTEGER - 1)
    return values.astype(np.int32), bad


def _describe(buffer: bytes, starts: NDArray[np.int64], ends: NDArray[np.int64], bad: NDArray[np.bool_]) -> str:
    column = int(np.flatnonzero(bad)[0])
    field = buffer[starts[column] : ends[column]]
    shown = ascii(field[:24].decode("latin-1")) + ("…" if len(field) > 24 else "")
    if column == 0:
        expected = "a label, 0 or 1"
    elif column < _FIRST_CATEGORY:
        expected = "an integer of 32 bits or nothing"
    else:
        expected = f"up to {WORD_BYTES} hexadecimal digits or nothing"
    return f"column {column + 1} is {shown}, expected {expected}"

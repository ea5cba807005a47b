"""Parse Criteo's tab-separated text to columns: pyarrow splits and converts a block of complete lines at a time.

A line is a label (0 or 1), 13 integers and 26 categories of up to 8 hexadecimal digits; an empty integer or category
is missing and counts as 0, as in facebookresearch/dlrm's data_utils.py. Lines may end in LF or CR LF. Any other line
is malformed: it is left out and reported with its number and the reason.

pyarrow is more lenient (a byte order mark, blanks, "0x", a lone CR as line end), so it only gets blocks of bytes that
a well-formed line may have. A block with any fault is checked line by line, about ten times slower, and its
well-formed lines are read.
"""

import re
from binascii import unhexlify
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import compute, csv

from reference_models.config.sections import NUM_CRITEO_DENSE, NUM_CRITEO_SPARSE

NUM_COLUMNS = 1 + NUM_CRITEO_DENSE + NUM_CRITEO_SPARSE
MAX_CATEGORY_DIGITS = 8
_MIN_LINE_BYTES = len("0") + NUM_COLUMNS
_FIRST_CATEGORY = 1 + NUM_CRITEO_DENSE
_MIN_INTEGER, _MAX_INTEGER = -(2**31), 2**31 - 1
_INTEGER = re.compile(rb"(-?)0*([0-9]{1,10})")
_CATEGORY = re.compile(rb"[0-9a-fA-F]{0,8}")
_KNOWN_BYTES = b"0123456789abcdefABCDEF-\t\r\n"
_TYPES = [pa.bool_()] + [pa.int32()] * NUM_CRITEO_DENSE + [pa.string()] * NUM_CRITEO_SPARSE
_NAMES = [f"column {number}" for number in range(1, NUM_COLUMNS + 1)]
_PARSE = csv.ParseOptions(delimiter="\t", quote_char=False, ignore_empty_lines=False)
# As bool, a label is one of two strings; as a number it could also be "00" or "-0".
_CONVERT = csv.ConvertOptions(
    column_types=dict(zip(_NAMES, _TYPES, strict=True)),
    null_values=[""],
    true_values=["1"],
    false_values=["0"],
    check_utf8=False,
)
# pyarrow imports pandas with its first scalar: here, and not during the first block, where a Ctrl-C would be lost.
_MISSING = pa.scalar(0, pa.int32())
# While reading, pyarrow would catch SIGINT and SIGTERM itself, and loses some. A block takes only milliseconds.
pa.enable_signal_handlers(False)
_LOG_TABLE = np.log(np.arange(1, 65537, dtype=np.float64)).astype(np.float32)


@dataclass(frozen=True, slots=True)
class MalformedLine:
    """Malformed line of Criteo's text, which is left out: its number within the block, from 0, and the reason."""

    line: int
    reason: str


@dataclass(frozen=True, slots=True)
class ParsedRows:
    """Columns of n well-formed lines of Criteo's text: labels uint8 [n], integers int32 [n, 13], categories uint32
    [n, 26].

    `num_lines` counts all lines read. Both matrices are stored by columns.
    """

    labels: NDArray[np.uint8]
    integers: NDArray[np.int32]
    categories: NDArray[np.uint32]
    num_lines: int
    num_malformed: int
    malformed: tuple[MalformedLine, ...]


def parse_block(block: bytes, max_named: int = 10) -> ParsedRows:
    """Parse complete lines of Criteo's text with their line feeds. The result names the first `max_named` malformed
    lines."""
    columns = _read_columns(block)
    if columns is not None:
        return ParsedRows(*columns, num_lines=len(columns[0]), num_malformed=0, malformed=())
    good: list[bytes] = []
    named: list[MalformedLine] = []
    num_lines = 0
    for line in block.split(b"\n")[:-1]:
        fault = describe_fault(line)
        if fault is None:
            good.append(line + b"\n")
        elif len(named) < max_named:
            named.append(MalformedLine(num_lines, fault))
        num_lines += 1
    columns = _read_columns(b"".join(good))
    if columns is None:
        raise RuntimeError("pyarrow refuses lines that are well-formed")
    return ParsedRows(*columns, num_lines=num_lines, num_malformed=num_lines - len(good), malformed=tuple(named))


def describe_fault(line: bytes) -> str | None:
    """Return the fault of a line of Criteo's text, given without its line feed; None for a well-formed line. This
    function defines the format."""
    fields = line.removesuffix(b"\r").split(b"\t")
    if len(fields) != NUM_COLUMNS:
        return f"{len(fields)} columns, expected {NUM_COLUMNS}"
    if fields[0] not in (b"0", b"1"):
        return _describe_field(fields, 0, "a label, 0 or 1")
    for column in range(1, _FIRST_CATEGORY):
        if fields[column] and not _is_integer(fields[column]):
            return _describe_field(fields, column, "an integer of 32 bits or nothing")
    for column in range(_FIRST_CATEGORY, NUM_COLUMNS):
        if not _CATEGORY.fullmatch(fields[column]):
            return _describe_field(fields, column, f"up to {MAX_CATEGORY_DIGITS} hexadecimal digits or nothing")
    return None


def transform_integers(integers: NDArray[np.int32]) -> NDArray[np.float32]:
    """Return log(x + 1) of Criteo's integers, with negative integers as 0, as facebookresearch/dlrm's data_utils.py
    does. The float32 results are the same on every machine.

    Small values come from a table computed in double precision, since numpy's own float32 logarithm depends on the
    processor.
    """
    values = np.maximum(integers, 0)
    result = _LOG_TABLE[np.minimum(values, len(_LOG_TABLE) - 1)]
    if (large := values >= len(_LOG_TABLE)).any():
        result[large] = np.log(values[large].astype(np.float64) + 1.0)
    return result


def _read_columns(block: bytes) -> tuple[NDArray[np.uint8], NDArray[np.int32], NDArray[np.uint32]] | None:
    """Return labels, integers and categories of complete lines of Criteo's text; None if any line is malformed."""
    if not block:
        empty = np.empty((0, NUM_CRITEO_DENSE), np.int32), np.empty((0, NUM_CRITEO_SPARSE), np.uint32)
        return np.empty(0, np.uint8), *empty
    text = np.frombuffer(block, np.uint8)
    num_lines, num_returns = (np.count_nonzero(text == byte) for byte in b"\n\r")
    # pyarrow would need a gigabyte to refuse a million empty lines.
    if num_lines * _MIN_LINE_BYTES > len(block) or num_returns > num_lines:
        return None
    if block.translate(None, delete=_KNOWN_BYTES):
        return None
    options = csv.ReadOptions(use_threads=False, block_size=len(block), column_names=_NAMES)
    try:
        table = csv.read_csv(pa.BufferReader(block), options, _PARSE, _CONVERT)
    except pa.ArrowInvalid:
        return None
    labels, integers = _join(table.columns[:1]), _join(table.columns[1:_FIRST_CATEGORY])
    categories = _parse_hexadecimal(_join(table.columns[_FIRST_CATEGORY:]))
    # For pyarrow a carriage return within a line ends it, too: there are then more rows than lines.
    if table.num_rows != num_lines or labels.null_count or categories is None:
        return None
    return (
        labels.to_numpy(zero_copy_only=False).view(np.uint8),
        integers.fill_null(_MISSING).to_numpy().reshape(NUM_CRITEO_DENSE, -1).T,
        categories.reshape(NUM_CRITEO_SPARSE, -1).T,
    )


def _join(columns: Sequence[pa.ChunkedArray]) -> pa.Array:
    return pa.concat_arrays([chunk for column in columns for chunk in column.chunks])


def _parse_hexadecimal(strings: pa.StringArray) -> NDArray[np.uint32] | None:
    """Return the values of strings of up to eight hexadecimal digits, 0 for an empty string; None if any string has
    another character or more digits."""
    if compute.max(compute.binary_length(strings)).as_py() > MAX_CATEGORY_DIGITS:
        return None
    padded = compute.ascii_lpad(strings, MAX_CATEGORY_DIGITS, "0")
    try:
        digits = unhexlify(padded.buffers()[2][: MAX_CATEGORY_DIGITS * len(padded)])
    except ValueError:
        return None
    return np.frombuffer(digits, ">u4").astype(np.uint32)


def _is_integer(field: bytes) -> bool:
    # Without the leading zeros: int() refuses very long strings.
    found = _INTEGER.fullmatch(field)
    return found is not None and _MIN_INTEGER <= int(found[1] + found[2]) <= _MAX_INTEGER


def _describe_field(fields: Sequence[bytes], column: int, expected: str) -> str:
    field = fields[column]
    shown = ascii(field[:24].decode("latin-1")) + ("…" if len(field) > 24 else "")
    return f"column {column + 1} is {shown}, expected {expected}"

"""A batch of columns to labels, numbers and category values, with the rows that are left out named."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import compute

from reference_models.data.columns.parameters import ColumnsParameters, SparseColumn
from reference_models.process.errors import DatasetError

MISSING = 0
"""The value of a cell without a category; no other value has it."""
NULLS = ("", "NA", "N/A", "NaN", "nan", "NULL", "null", "None", "\\N")
"""What stands for a missing number in text."""
_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
_NULLS = pa.array(NULLS)
_LARGEST = float(np.finfo(np.float32).max)


@dataclass(slots=True)
class Batch:
    """n rows of a file, of which those in `reasons` are left out. Row numbers count from 1."""

    path: Path
    columns: pa.RecordBatch
    numbers: NDArray[np.int64]
    """The rows' numbers in the file [n]."""
    is_wrong: NDArray[np.bool_] = field(init=False)
    reasons: dict[int, str] = field(default_factory=dict)
    """What is wrong, by position, of the first of them."""

    def __post_init__(self) -> None:
        self.is_wrong = np.zeros(self.columns.num_rows, np.bool_)

    def numbers_of(self, name: str) -> NDArray[np.float64]:
        """Return the numbers of a column [n], NaN where one is missing; rows whose cell is no number are left out.

        Raises DatasetError for a column of another type.
        """
        column = self._column(name)
        if _is_text(column.type):
            values, is_wrong = _parse_numbers(column)
        elif pa.types.is_integer(column.type) or pa.types.is_floating(column.type) or _is_simple(column.type):
            numbers = column.cast(pa.uint8()) if pa.types.is_boolean(column.type) else column
            values, is_wrong = _to_numpy(numbers.cast(pa.float64(), safe=False)), np.zeros(len(column), np.bool_)
        else:
            raise DatasetError(f"{self.path}: column {name!r} holds {column.type}, expected numbers.")
        is_large = np.abs(values) > _LARGEST
        self._leave_out(name, is_large | is_wrong, "a number of 32 bits or nothing")
        return values

    def labels_of(self, name: str, positive_from: float | None) -> NDArray[np.uint8]:
        """Return the labels [n]; rows without one are left out. Raises DatasetError for any that is none."""
        column = self._column(name)
        expected = "0 or 1" if positive_from is None else "a number"
        if _is_text(column.type):
            column = compute.if_else(compute.is_in(column, value_set=_NULLS), None, column)
            values, is_wrong = _parse_numbers(column)
            if is_wrong.any():
                column = compute.utf8_lower(column)
                is_true, is_false = (compute.equal(column, word).fill_null(False) for word in ("true", "false"))
                values[_to_numpy(is_true)], values[_to_numpy(is_false)] = 1, 0
                is_wrong &= np.isnan(values)
        elif pa.types.is_temporal(column.type):
            raise DatasetError(f"{self.path}: column {name!r} holds {column.type}, expected labels, {expected}.")
        else:
            values, is_wrong = self.numbers_of(name), np.zeros(len(column), np.bool_)
        is_missing = np.isnan(values)
        if positive_from is None:
            is_wrong |= (values != 0) & (values != 1) & ~is_missing
        if is_wrong.any():
            position = int(np.flatnonzero(is_wrong)[0])
            remedy = ""
            if positive_from is None and not np.isnan(values[position]):
                remedy = " Say with data.parameters.positive_from which numbers are 1."
            raise DatasetError(f"{self._cell(position, name)}, expected a label, {expected}.{remedy}")
        self._leave_out(name, is_missing, "a label")
        return (values >= (1 if positive_from is None else positive_from)).astype(np.uint8)

    def values_of(self, given: SparseColumn) -> NDArray[np.uint64]:
        """Return the values of a category [n], or [n, max_ids]: 64 bits of a hash of each one's text.

        MISSING stands for none. Two of ten million values share a hash with a chance of 3 in a million. Raises
        DatasetError for a cell with more ids than there may be.
        """
        column = self._column(given.column)
        if not _is_text(column.type):
            column = column.cast(pa.string())
        if given.separator is None:
            return _hash(column)
        split = compute.split_pattern(column, given.separator)
        counts = _to_numpy(compute.list_value_length(split).fill_null(0)).astype(np.int64)
        cells = np.repeat(np.arange(len(counts)), counts)
        values = _hash(split.flatten())
        cells, values = cells[values != MISSING], values[values != MISSING]
        counts = np.bincount(cells, minlength=len(counts))
        if len(over := np.flatnonzero(counts > given.max_ids)):
            raise DatasetError(
                f"{self._cell(int(over[0]), given.column)}: {counts[over[0]]} ids, more than max_ids = "
                f"{given.max_ids} in data.parameters.sparse. Give a larger one."
            )
        result = np.full((len(counts), given.max_ids), MISSING, np.uint64)
        result[cells, np.arange(len(cells)) - np.repeat(np.cumsum(counts) - counts, counts)] = values
        return result

    def times_of(self, name: str) -> pa.Array:
        """Return the times of rows: int64, float64 or strings, which sort. Rows without one are left out."""
        column = self._column(name)
        self._leave_out(name, _to_numpy(column.is_null()), "a time")
        return column.cast(pa.string()) if pa.types.is_temporal(column.type) else column

    def _column(self, name: str) -> pa.Array:
        """Return a column with text as strings, however the file holds it."""
        column = self.columns.column(name)
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        is_other = (pa.types.is_large_string, pa.types.is_string_view, pa.types.is_large_binary, pa.types.is_binary)
        return column.cast(pa.string(), safe=False) if any(is_of(column.type) for is_of in is_other) else column

    def _leave_out(self, name: str, is_wrong: NDArray[np.bool_], expected: str) -> None:
        for position in map(int, np.flatnonzero(is_wrong & ~self.is_wrong)[:10]):
            self.reasons[position] = f"{self._place(position, name)}, expected {expected}"
        self.is_wrong |= is_wrong

    def _place(self, position: int, name: str) -> str:
        found = self._column(name)[position].as_py()
        shown = "empty" if found is None else ascii(found if isinstance(found, bytes | str) else str(found))
        return f"row {self.numbers[position]}: column {name!r} is " + (
            shown if len(shown) <= 42 else f"{shown[:40]}…"
        )

    def _cell(self, position: int, name: str) -> str:
        return f"{self.path}:{self._place(position, name)}"


def convert(batch: Batch, given: ColumnsParameters) -> tuple[NDArray[Any], NDArray[Any], list[NDArray[Any]]]:
    """Return labels uint8 [n], numbers float64 [n, max(1, D)], NaN where missing, and values of each category."""
    labels = batch.labels_of(given.label, given.positive_from)
    numbers = [batch.numbers_of(column.column) for column in given.dense]
    dense = np.stack(numbers or [np.zeros(len(labels))], axis=1)
    return labels, dense, [batch.values_of(column) for column in given.sparse]


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind))


def _is_simple(kind: pa.DataType) -> bool:
    return bool(pa.types.is_boolean(kind) or pa.types.is_decimal(kind) or pa.types.is_null(kind))


def _parse_numbers(column: pa.Array) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return numbers [n], NaN where missing, and where there is none in a cell that holds something."""
    try:
        return _to_numpy(column.cast(pa.float64())), np.zeros(len(column), np.bool_)
    except pa.ArrowInvalid:
        is_missing = compute.is_in(column, value_set=_NULLS)
        is_number = compute.match_substring_regex(column, _NUMBER).fill_null(True)
        values = compute.if_else(compute.and_not(is_number, is_missing), column, None).cast(pa.float64())
        return _to_numpy(values), _to_numpy(compute.invert(compute.or_(is_number, is_missing)))


def _to_numpy(column: pa.Array) -> NDArray[Any]:
    """Return a copy that may be written to; NaN for nulls of numbers."""
    return np.array(column.to_numpy(zero_copy_only=False))


def _hash(column: pa.Array) -> NDArray[np.uint64]:
    """Hash the text of a column [n]; MISSING for null and for empty text."""
    encoded = column.dictionary_encode()
    texts = encoded.dictionary.cast(pa.binary()).to_pylist()
    hashes = np.append(hash_texts(texts), np.uint64(MISSING))
    found: NDArray[np.uint64] = hashes[_to_numpy(encoded.indices.fill_null(len(texts)))]
    return found


def hash_texts(texts: Sequence[bytes]) -> NDArray[np.uint64]:
    """Hash each text by BLAKE2b to 64 bits, little-endian, other than MISSING, which empty text has."""
    digests = b"".join([blake2b(text, digest_size=8).digest() for text in texts])
    hashes = np.frombuffer(digests, "<u8").astype(np.uint64)
    hashes[hashes == MISSING] = 1
    hashes[[position for position, text in enumerate(texts) if not text]] = MISSING
    return hashes

"""Convert a batch of a file's rows to labels, numbers and category values. Malformed rows are left out, with a
reason."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import compute

from reference_models.data.columns.cells import (
    BAD_TEXT,
    BLANKS,
    EXPECTED_TEXT,
    EXPECTED_TIME,
    NULLS,
    explain_time,
    is_number,
    is_text,
    parse_numbers,
    parse_times,
    parse_words,
    show_cell,
    strip,
    to_numpy,
    to_text,
)
from reference_models.data.columns.files import is_list
from reference_models.data.columns.parameters import ColumnsParameters, DenseColumn, SparseColumn
from reference_models.process.errors import DatasetError

_MOST_PARTS = 1 << 16
"""Maximum number of parts, empty ones included, between a cell's separators; a cell with more is refused before it is
split."""
MISSING = 0
"""Hash value of an empty cell in a category column; no other cell has this hash."""
_MISSING_SHARES = pa.array([cell for cell in NULLS if cell.lower() != "nan"])
_SHARE = "a number from 0 to 1"
_LARGEST = float(np.finfo(np.float32).max)


@dataclass(slots=True)
class Times:
    """Times of n rows as sortable numbers, int64 or float64 [n]; whether the times are dates rather than numbers; and
    whether the dates name a time zone."""

    values: NDArray[Any]
    is_date: bool
    has_zone: bool


@dataclass(slots=True)
class ColumnBatch:
    """Batch of n rows of a user's file. Malformed rows are marked in `is_wrong` and left out; `reasons` has the
    reasons of the first of them."""

    path: Path
    columns: pa.RecordBatch
    numbers: NDArray[np.int64]
    """Row numbers [n] of the batch's rows, counted in the file from 1."""
    is_wrong: NDArray[np.bool_] = field(init=False)
    reasons: dict[int, str] = field(default_factory=dict)
    """Reasons why the first malformed rows are left out, by position in the batch."""

    def __post_init__(self) -> None:
        self.is_wrong = np.zeros(self.columns.num_rows, np.bool_)

    def numbers_of(self, given: DenseColumn) -> NDArray[np.float64]:
        """Return the numbers of a dense feature's column [n], NaN where missing; rows whose cell is no number, or too
        large for float32, are left out.

        Raises DatasetError for a column of a type other than text, numbers or booleans.
        """
        return self._numbers(given.column, given.decimal, given.thousands)

    def _numbers(self, name: str, decimal: str = ".", thousands: str = "") -> NDArray[np.float64]:
        column = self._column(name)
        if is_text(column.type):
            values, is_wrong = parse_numbers(to_text(column), decimal, thousands)
        elif is_number(column.type) or pa.types.is_boolean(column.type) or pa.types.is_null(column.type):
            numbers = column.cast(pa.uint8()) if pa.types.is_boolean(column.type) else column
            values, is_wrong = to_numpy(numbers.cast(pa.float64(), safe=False)), np.zeros(len(column), np.bool_)
        else:
            raise DatasetError(f"{self.path}: column {name!r} holds {column.type}, expected numbers.")
        is_large = np.abs(values) > _LARGEST
        self._leave_out(name, is_large | is_wrong, "a number of 32 bits or nothing")
        return values

    def labels_of(self, given: ColumnsParameters) -> NDArray[np.uint8] | NDArray[np.float32]:
        """Return the labels of the batch's rows, uint8 [n], or float32 if soft; rows without a label are left out.

        Raises DatasetError for a cell that is no label.
        """
        name, positive_from = given.label, given.positive_from
        if given.soft_labels:
            return self._soft_labels(name)
        column = self._column(name)
        if given.positive and not is_list(column.type):
            return self._named_labels(name, to_text(column), given.positive)
        expected = "0 or 1" if positive_from is None else "a number"
        if is_text(column.type):
            column = strip(to_text(column))
            values, is_wrong = parse_numbers(column)
            if is_wrong.any():
                words = parse_words(column)
                values, is_wrong = np.where(is_wrong, words, values), is_wrong & np.isnan(words)
        elif pa.types.is_temporal(column.type) or is_list(column.type):
            raise DatasetError(f"{self.path}: column {name!r} holds {column.type}, expected labels, {expected}.")
        else:
            values, is_wrong = self._numbers(name), np.zeros(len(column), np.bool_)
        is_missing = np.isnan(values)
        if positive_from is None:
            is_wrong |= (values != 0) & (values != 1) & ~is_missing
        is_wrong &= ~self.is_wrong
        if is_wrong.any():
            position = int(np.flatnonzero(is_wrong)[0])
            remedy = ""
            if positive_from is None:
                remedy = (
                    " Say with data.parameters.positive which cells are 1."
                    if np.isnan(values[position])
                    else " Say with data.parameters.positive_from which numbers are 1."
                )
                if 0 < values[position] < 1:
                    remedy = remedy[:-1] + ", or keep shares from 0 to 1 as they are with soft_labels = true."
            raise DatasetError(f"{self._cell(position, name)}, expected a label, {expected}.{remedy}")
        self._leave_out(name, is_missing, "a label")
        return (values >= (1 if positive_from is None else positive_from)).astype(np.uint8)

    def _soft_labels(self, name: str) -> NDArray[np.float32]:
        """Return soft labels, shares from 0 to 1: float32 [n]. A row with an empty cell is left out.

        Raises DatasetError for a cell that is no number from 0 to 1, NaN included, and for a column of a type other
        than text, numbers or booleans.
        """
        column = self._column(name)
        if is_text(column.type):
            column = compute.utf8_trim(to_text(column), BLANKS)
            column = compute.if_else(compute.is_in(column, value_set=_MISSING_SHARES), None, column)
            values, is_none = parse_numbers(column)
        elif is_number(column.type) or pa.types.is_boolean(column.type) or pa.types.is_null(column.type):
            numbers = column.cast(pa.uint8()) if pa.types.is_boolean(column.type) else column
            values, is_none = to_numpy(numbers.cast(pa.float64(), safe=False)), np.zeros(len(column), np.bool_)
        else:
            raise DatasetError(f"{self.path}: column {name!r} holds {column.type}, expected labels, {_SHARE}.")
        is_missing = to_numpy(column.is_null())
        is_wrong = ~((values >= 0) & (values <= 1)) & ~is_missing & ~self.is_wrong
        if is_wrong.any():
            position = int(np.flatnonzero(is_wrong)[0])
            remedy = (
                "Write such cells as numbers, with '.' before the fraction, or empty them to leave their rows out."
                if is_none[position]
                else "Empty such cells to leave their rows out."
                if np.isnan(values[position])
                else "Divide it by the largest that it can be, or leave soft_labels out and say with "
                "data.parameters.positive_from which numbers are 1."
            )
            raise DatasetError(f"{self._cell(position, name)}, expected a label, {_SHARE}. {remedy}")
        self._leave_out(name, is_missing, "a label")
        return values.astype(np.float32) + np.float32(0.0)

    def _named_labels(self, name: str, column: pa.Array, positive: Sequence[str]) -> NDArray[np.uint8]:
        if not is_text(column.type):
            column = column.cast(pa.string())
        column = strip(column)
        self._leave_out(name, to_numpy(column.is_null()), "a label")
        return to_numpy(compute.is_in(column, value_set=pa.array(positive, pa.string()))).astype(np.uint8)

    def values_of(self, given: SparseColumn) -> NDArray[np.uint64]:
        """Return the values of a category column, uint64 [n] or [n, max_ids]. A value is 64 bits of a hash of the
        id's text.

        MISSING fills places without an id. Among ten million values, the probability that any two share a hash is 3
        in a million. Raises DatasetError if a cell has more than max_ids ids, or a list where one id is expected.
        """
        column = self.columns.column(given.column)
        if is_list(column.type):
            if given.max_ids == 1:
                raise DatasetError(
                    f"{self.path}: column {given.column!r} holds lists, expected one value a cell. Say max_ids = N "
                    "in data.parameters.sparse, how many ids a cell has at most."
                )
            counts = to_numpy(compute.list_value_length(column).fill_null(0)).astype(np.int64)
            return self._pad(given, counts, _hash(_ids(column.flatten())))
        values = column.dictionary if pa.types.is_dictionary(column.type) else column
        if values.type in (pa.large_string(), pa.large_binary()) or not is_text(values.type):
            column = _ids(values.take(column.indices) if values is not column else values)
        if given.max_ids == 1:
            return _hash(column)
        encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
        if len(encoded.dictionary) > 2 * len(encoded):
            encoded = encoded.dictionary_decode().dictionary_encode()
        codes = to_numpy(encoded.indices.fill_null(len(encoded.dictionary))).astype(np.int64)
        if given.separator is None:
            parts, counts = encoded.dictionary, np.ones(len(encoded.dictionary), np.int64)
        else:
            separator = given.separator if pa.types.is_string(encoded.dictionary.type) else given.separator.encode()
            most = to_numpy(compute.count_substring(encoded.dictionary, separator)) + 1
            self._refuse_many(given, most[codes[codes < len(most)]].max(initial=0) > _MOST_PARTS, codes, most)
            split = compute.split_pattern(encoded.dictionary, separator)
            parts, counts = split.flatten(), to_numpy(compute.list_value_length(split)).astype(np.int64)
        return self._pad_texts(given, codes, np.append(counts, 0), _hash(parts))

    def _pad_texts(
        self, given: SparseColumn, codes: NDArray[np.int64], counts: NDArray[np.int64], values: NDArray[np.uint64]
    ) -> NDArray[np.uint64]:
        """Return each row's category values [n, max_ids]. The arguments are the values of all distinct cells one
        after another, the number of values of each distinct cell (`counts`), and which distinct cell each row has
        (`codes`)."""
        texts = np.repeat(np.arange(len(counts)), counts)
        texts, values = texts[values != MISSING], values[values != MISSING]
        counts = np.bincount(texts, minlength=len(counts))
        self._refuse_many(given, bool((counts[codes] > given.max_ids).any()), codes, counts)
        is_short = counts <= given.max_ids
        places = np.arange(len(texts)) - np.repeat(np.cumsum(counts) - counts, counts)
        table = np.full((len(counts), given.max_ids), MISSING, np.uint64)
        keep = is_short[texts]
        table[texts[keep], places[keep]] = values[keep]
        return table[codes]

    def _pad(self, given: SparseColumn, counts: NDArray[np.int64], values: NDArray[np.uint64]) -> NDArray[np.uint64]:
        return self._pad_texts(given, np.arange(len(counts)), counts, values)

    def _refuse_many(
        self, given: SparseColumn, is_over: bool, codes: NDArray[np.int64], counts: NDArray[np.int64]
    ) -> None:
        if not is_over:
            return
        of_rows = np.append(counts, 0)[codes]
        position = int(np.argmax(of_rows > given.max_ids))
        raise DatasetError(
            f"{self._cell(position, given.column)}: {of_rows[position]} ids, more than max_ids = "
            f"{given.max_ids} in data.parameters.sparse. Give a larger one."
        )

    def times_of(self, name: str, known: Times | None) -> Times:
        """Return the times of the batch's rows; rows without a time are left out.

        Numbers stay as they are, dates and times become instants. `known` are the times of the file's earlier rows,
        None for its first rows. Text is read as in the earlier rows: as numbers or as dates, with or without a time
        zone. Raises DatasetError if the column's type is not dates, times, numbers or text.
        """
        column = self._column(name)
        if pa.types.is_timestamp(column.type) or pa.types.is_date(column.type):
            has_zone = pa.types.is_timestamp(column.type) and column.type.tz is not None
            instants = column.cast(pa.timestamp("ns", "UTC" if has_zone else None), safe=False).cast(pa.int64())
            self._leave_out(name, to_numpy(instants.is_null()), "a time")
            return Times(to_numpy(instants.fill_null(0)), True, has_zone)
        if is_number(column.type):
            self._leave_out(name, to_numpy(column.is_null()), "a time")
            if pa.types.is_integer(column.type) and column.type != pa.uint64():
                return Times(to_numpy(column.fill_null(0).cast(pa.int64())), False, False)
            values = to_numpy(column.cast(pa.float64(), safe=False))
            self._leave_out(name, ~np.isfinite(values), "a time")
            return Times(values, False, False)
        if not is_text(column.type):
            raise DatasetError(f"{self.path}: column {name!r} holds {column.type}, expected {EXPECTED_TIME}.")
        column = strip(to_text(column))
        is_missing = to_numpy(column.is_null())
        self._leave_out(name, is_missing, "a time")
        if known is None or not known.is_date:
            times = _parse_time_numbers(column)
            if known is not None or 2 * times[1].sum() <= len(column) + is_missing.sum():
                self._leave_out(name, times[1], EXPECTED_TIME)
                return Times(times[0], False, False)
        values, is_none, has_zone = parse_times(column, None if known is None else known.has_zone)
        expected = EXPECTED_TIME
        if (is_none & ~self.is_wrong).any():
            cell = column[int(np.flatnonzero(is_none & ~self.is_wrong)[0])].as_py()
            expected = explain_time(cell)
        self._leave_out(name, is_none, expected)
        return Times(values, True, has_zone)

    def leave_out_bad_text(self, names: Sequence[str]) -> None:
        """Leave out the batch's rows whose text in the columns `names` has bytes that are not UTF-8."""
        for name in names:
            column = self.columns.column(name)
            if pa.types.is_string(column.type):
                is_bad = to_numpy(compute.match_substring(column, BAD_TEXT).fill_null(False))
                self._leave_out(
                    name,
                    is_bad,
                    f"{EXPECTED_TEXT} {self.path.name} > utf8.csv",
                )

    def _column(self, name: str) -> pa.Array:
        """Return the batch's column `name`, decoded if it is dictionary-encoded."""
        column = self.columns.column(name)
        return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column

    def _leave_out(self, name: str, is_wrong: NDArray[np.bool_], expected: str) -> None:
        for position in map(int, np.flatnonzero(is_wrong & ~self.is_wrong)[:10]):
            self.reasons[position] = f"{self._place(position, name)}, expected {expected}"
        self.is_wrong |= is_wrong

    def _place(self, position: int, name: str) -> str:
        cell = self.columns.column(name).slice(position, 1)
        shown = show_cell(to_text(cell)[0].as_py())
        return f"row {self.numbers[position]}: column {name!r} is {shown}"

    def _cell(self, position: int, name: str) -> str:
        return f"{self.path}:{self._place(position, name)}"


def convert(batch: ColumnBatch, given: ColumnsParameters) -> tuple[NDArray[Any], NDArray[Any], list[NDArray[Any]]]:
    """Return a batch's labels uint8 [n] (float32 if soft), dense features float64 [n, max(1, D)], and the hashed
    values of each category column. Missing numbers are NaN."""
    labels = batch.labels_of(given)
    return labels, read_dense(batch, given), [batch.values_of(column) for column in given.sparse]


def read_dense(batch: ColumnBatch, given: ColumnsParameters) -> NDArray[np.float64]:
    """Return the dense features of a batch [n, max(1, D)], NaN where missing; one column of zeros if the definition
    has no dense features."""
    numbers = [batch.numbers_of(column) for column in given.dense]
    return np.stack(numbers or [np.zeros(len(batch.numbers))], axis=1)


def _parse_time_numbers(column: pa.Array) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Return the times [n] of a column of times that are numbers, as integers if all are whole, and a mask [n] of
    cells that are no numbers."""
    try:
        return to_numpy(column.cast(pa.int64()).fill_null(0)), to_numpy(column.is_null())
    except pa.ArrowInvalid:
        values, _ = parse_numbers(column)
        return np.nan_to_num(values, posinf=0, neginf=0), ~np.isfinite(values)


def _ids(values: pa.Array) -> pa.Array:
    """Return ids as texts. If all numbers of a floating-point column are whole, they have no fraction: '7' for
    7.0."""
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if pa.types.is_floating(values.type):
        is_exact = compute.less(compute.abs(values), 2**53)
        is_whole = compute.and_(compute.equal(compute.floor(values), values), is_exact)
        if not compute.all(is_whole, skip_nulls=True).as_py():
            return values.cast(pa.string())
        values = values.cast(pa.float64()).cast(pa.int64())
    if pa.types.is_large_binary(values.type) or pa.types.is_large_string(values.type):
        return values.cast(pa.binary())
    return values if is_text(values.type) else values.cast(pa.string())


def _hash(column: pa.Array) -> NDArray[np.uint64]:
    """Return hashes of a column's texts [n], without blanks around them; MISSING (0) for null and empty text."""
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    if encoded is column and 4 * len(encoded.dictionary) > len(
        encoded
    ):  # a dictionary of a part of the file, with values not in these rows
        encoded = column.dictionary_decode().dictionary_encode()
    dictionary = encoded.dictionary.cast(pa.binary())
    texts = dictionary.to_pylist()
    if (data := dictionary.buffers()[2]) is not None and b" " in data.to_pybytes():
        texts = [text.strip(b" ") for text in texts]
    hashes = np.append(hash_texts(texts), np.uint64(MISSING))
    found: NDArray[np.uint64] = hashes[to_numpy(encoded.indices.fill_null(len(texts)))]
    return found


def hash_texts(texts: Sequence[bytes]) -> NDArray[np.uint64]:
    """Return 64-bit BLAKE2b hashes of texts, little-endian. Only empty text has the hash MISSING (0)."""
    digests = b"".join([blake2b(text, digest_size=8).digest() for text in texts])
    hashes = np.frombuffer(digests, "<u8").astype(np.uint64)
    hashes[hashes == MISSING] = 1
    hashes[[position for position, text in enumerate(texts) if not text]] = MISSING
    return hashes

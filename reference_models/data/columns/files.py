"""Read the needed columns of a user's file in batches, from text, JSON lines or Parquet, in bounded memory.

The commands `init`, `data prepare` and `data predict` read all files by this module. Cells of text and of JSON are
strings, null if empty; cells of Parquet have the file's types.
"""

import json
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import compute, csv, parquet

from reference_models.data.columns.cells import is_text
from reference_models.data.columns.json_lines import JsonLines
from reference_models.data.columns.text import (
    MAX_COLUMNS,
    TextForm,
    Utf8Text,
    find_delimiter,
    read_form,
    refuse_headerless,
    refuse_other_forms,
)
from reference_models.data.prepared.lines import BLOCK_BYTES, SourceFile, TextSource
from reference_models.data.prepared.pipeline import num_rows_within
from reference_models.data.store.manifest import compute_file_sha256
from reference_models.process.errors import ConfigError, DatasetError, did_you_mean

PARQUET_MAGIC = b"PAR1"
MAX_CELL_BYTES = 1 << 20
"""Maximum number of bytes of a text cell in a user's Parquet file; a larger one is refused. BLOCK_BYTES limits rows
of delimited text and JSON lines."""
_PIECE_BYTES = 1 << 25
"""Maximum number of bytes of all cells of a batch together, even from a small (compressed) file."""
_BATCH_ROWS = 1 << 16
_BUFFER_BYTES = 1 << 18
_MAX_PART_BYTES = 1 << 29
_DELTA_ROWS = 256
"""Maximum number of rows per batch of a Parquet file with delta-encoded text, which may be far longer decoded than in
the file."""
_VALUE_BYTES = 16
"""Least number of bytes of memory that a Parquet value takes while it is decoded, however few it takes in the
file."""
_MAX_WRONG = 100_000
"""Maximum number of rows with a wrong number of columns in a block of text; a file with more in one block is
refused."""
_STRADDLES = "straddling"
# While reading, pyarrow would catch SIGINT and SIGTERM itself, and loses some. A block takes only milliseconds.
pa.enable_signal_handlers(False)


@dataclass(slots=True)
class ColumnFile:
    """File of columns (text, JSON lines, Parquet). Its rows are read once, by `batches`; after that `source` has the
    file's size and sha256."""

    path: Path
    needed: Sequence[str] | None = None
    """Names of the columns to read; None for all columns of single values or lists of values."""
    delimiter: str | None = None
    """Delimiter of the columns of a text file; None to detect it."""
    names: Sequence[str] = ()
    """Names of the columns of text without a header."""
    form: TextForm | None = None
    """Form of a text file (delimiter, header), set when its first batch is read; None for other files."""
    left_out: list[str] = field(default_factory=list)
    """Names of the columns that hold neither single values nor lists of values (but objects), and cannot be read."""
    num_rows: int | None = None
    """Number of the file's rows, if its metadata have the number; else None."""
    _num_rows: int = 0
    """Row number, counted from 1 in the file, of the last row that `number_rows` has numbered."""
    _wrong: list[tuple[int, str]] = field(default_factory=list)
    """Rows of text that were left out (a wrong number of columns, no JSON object) and that `take_wrong_rows` has not
    returned yet: the row number and the reason of each."""
    _unpassed: list[int] = field(default_factory=list)
    """Numbers of the rows of text that were left out (a wrong number of columns, no JSON object) after the last row
    so far that `number_rows` has numbered."""
    _source: SourceFile | None = None
    _text: TextSource | None = None
    _stream: Utf8Text | None = None

    def batches(self, on_bytes: Callable[[int], None] = lambda count: None) -> Iterator[pa.RecordBatch]:
        """Yield the file's rows in batches of the needed columns.

        Raises ConfigError for a missing column, DatasetError for a file that cannot be read, or a cell of more than
        MAX_CELL_BYTES.
        """
        try:
            begin = _read_begin(self.path)
            if begin.startswith(PARQUET_MAGIC):
                yield from self._read_parquet(on_bytes)
            elif begin.removeprefix(BOM_UTF8).lstrip().startswith(b"{"):
                yield from self._read_json(begin, on_bytes)
            else:
                yield from self._read_text(on_bytes)
        except (pa.ArrowException, OSError) as error:
            if isinstance(error, OSError) and error.filename is not None:
                raise
            if _STRADDLES in str(error) and self._stream is not None:
                raise DatasetError(
                    f"{self.path}:{self._stream.num_lines + 1}: about here a row has more than {BLOCK_BYTES:,} "
                    "bytes, more than is read. A quote that nothing closes makes one."
                ) from None
            raise DatasetError(f"{self.path}: cannot be read: {str(error).splitlines()[0]:.200}") from None

    @property
    def has_bad_text(self) -> bool:
        """Whether the part of a text file read so far has bytes that are not UTF-8."""
        return self._stream is not None and self._stream.has_bad_text

    @property
    def share_read(self) -> float:
        """Share of a text file's bytes read so far."""
        assert self._text is not None, "asked of text alone"
        return min(1.0, self._text.num_read_bytes / max(1, self.path.stat().st_size))

    def number_rows(self, num_rows: int) -> NDArray[np.int64]:
        """Return the row numbers [num_rows], within the file, of the next `num_rows` rows that were read and kept;
        the first row after the header has number 1."""
        first = self._num_rows + 1
        wrong = np.array(sorted(self._unpassed), np.int64)
        numbers = np.setdiff1d(np.arange(first, first + num_rows + len(wrong)), wrong)[:num_rows]
        if num_rows:
            self._num_rows = int(numbers[-1])
            self._unpassed = [number for number in self._unpassed if number > self._num_rows]
        return numbers

    def take_wrong_rows(self, last: int | None = None) -> list[str]:
        """Return the reasons why rows up to number `last` were left out (a wrong number of columns, no JSON object).
        Reasons that an earlier call returned are not returned again."""
        taken, self._wrong = self._wrong, []
        return [f"row {number}: {why}" for number, why in taken if last is None or number <= last]

    @property
    def num_numbered(self) -> int:
        """Row number, counted in the file, of the last row read so far. Rows that were left out (a wrong number of
        columns, or no JSON object) count, too."""
        return max([self._num_rows, *self._unpassed])

    def stop(self) -> None:
        """End the reading of the file's rows early; its sha256 still covers the whole file."""
        num_bytes = self.path.stat().st_size
        self._source = SourceFile(path=self.path, num_bytes=num_bytes, sha256=compute_file_sha256(self.path))

    @property
    def source(self) -> SourceFile:
        """Path, size and sha256 of the file read, available after all batches."""
        assert self._source is not None, "all batches were read before"
        return self._source

    def _read_text(self, on_bytes: Callable[[int], None]) -> Iterator[pa.RecordBatch]:
        form = self.form = read_form(self.path, self.delimiter, self.names)
        if self.needed is None or not {*self.needed} <= {*form.names}:
            refuse_headerless(self.path, form)  # more helpful than that a column is missing or duplicate
        needed = self._check_names(form.names)
        self._text = TextSource(self.path, on_bytes)
        convert = csv.ConvertOptions(
            include_columns=[*needed],
            column_types=dict.fromkeys(needed, pa.string()),
            null_values=[""],
            strings_can_be_null=True,
            check_utf8=False,
        )
        read = csv.ReadOptions(use_threads=False, block_size=BLOCK_BYTES, column_names=[*form.names])
        with self._text.opened() as file:
            self._stream = Utf8Text(file, form)
            is_long = len(form.delimiter) > 1
            parse = csv.ParseOptions(
                delimiter=self._stream.pyarrow_delimiter if is_long else form.delimiter,
                quote_char=False if is_long else '"',
                newlines_in_values=True,
                invalid_row_handler=self._leave_out,
            )
            if form.has_rows:
                yield from csv.open_csv(pa.PythonFile(self._stream, mode="r"), read, parse, convert)
            else:
                while self._stream.read(BLOCK_BYTES):
                    pass
                yield pa.RecordBatch.from_pylist([], pa.schema([(name, pa.string()) for name in needed]))
        self._source = self._text.source

    def _leave_out(self, row: csv.InvalidRow) -> str:
        if len(self._unpassed) >= _MAX_WRONG:
            return "error"
        self._leave_out_row(row.number, f"{row.actual_columns} columns, expected {row.expected_columns}")
        return "skip"

    def _leave_out_row(self, number: int, why: str) -> None:
        self._unpassed.append(number)
        self._wrong.append((number, why))

    def _read_json(self, begin: bytes, on_bytes: Callable[[int], None]) -> Iterator[pa.RecordBatch]:
        refuse_other_forms(self.path, begin)
        self._text = TextSource(self.path, on_bytes)
        with self._text.opened() as file:
            self._stream = Utf8Text(file, TextForm((), ",", len(BOM_UTF8) * begin.startswith(BOM_UTF8)))
            lines = JsonLines(self.path, self._stream, self._leave_out_row)
            yield from lines.batches(self._check_names(lines.names))
        self.left_out += lines.nested
        self._source = self._text.source

    def _read_parquet(self, on_bytes: Callable[[int], None]) -> Iterator[pa.RecordBatch]:
        with parquet.ParquetFile(self.path, pre_buffer=False) as file:
            schema, self.num_rows = file.schema_arrow, file.metadata.num_rows
            if len(schema) > MAX_COLUMNS:
                raise DatasetError(f"{self.path}: {len(schema):,} columns, expected at most {MAX_COLUMNS:,}.")
            needed = self._check_names([entry.name for entry in schema if not _is_nested(entry.type)])
            self.left_out += [entry.name for entry in schema if _is_nested(entry.type)]
            texts = {name for name in needed if is_text(schema.field(name).type)}
            texts &= self._with_dictionary(file, texts)
            num_rows, num_groups = _count_batch_rows(file, needed), file.num_row_groups
            if any(uses_delta for *_, uses_delta in _encodings(file, {*needed})):
                num_rows = min(num_rows, _DELTA_ROWS)
        with parquet.ParquetFile(
            self.path, pre_buffer=False, buffer_size=_BUFFER_BYTES, read_dictionary=[*texts]
        ) as file:
            for group in range(num_groups):  # each by itself, so that its dictionaries are freed
                for batch in file.iter_batches(
                    batch_size=num_rows, row_groups=[group], columns=[*needed], use_threads=False
                ):
                    yield from self._cut(batch)
        num_bytes = self.path.stat().st_size
        self._source = SourceFile(
            path=self.path, num_bytes=num_bytes, sha256=compute_file_sha256(self.path, on_bytes)
        )

    def _with_dictionary(self, file: parquet.ParquetFile, texts: set[str]) -> set[str]:
        """Return the names of those text columns of a Parquet file that pyarrow is to return dictionary-encoded.
        These are the columns that are dictionary-encoded in all of the file, and nowhere delta-encoded. Raises
        DatasetError if a column has too many bytes in a row group."""
        found: dict[str, bool] = {}
        for name, num_bytes, uses_dictionary, uses_delta in _encodings(file, texts):
            found[name] = found.get(name, True) and uses_dictionary and not uses_delta
            if uses_dictionary and num_bytes > _MAX_PART_BYTES:
                raise DatasetError(
                    f"{self.path}: column {name!r:.80} has {num_bytes:,} bytes in one row group, expected at most "
                    f"{_MAX_PART_BYTES:,}. Write smaller row groups."
                )
        return {name for name, has_dictionary in found.items() if has_dictionary}

    def _cut(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield slices of a Parquet batch, each of bounded size once decoded, even if the longest value of a column's
        dictionary is in every row. Raises DatasetError for a cell of more than MAX_CELL_BYTES."""
        row_bytes = 0
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            cells = column.dictionary if pa.types.is_dictionary(column.type) else column
            if is_text(cells.type):
                if pa.types.is_string_view(cells.type) or pa.types.is_binary_view(cells.type):
                    cells = cells.cast(pa.large_binary())
                most = compute.max(compute.binary_length(cells)).as_py() or 0
                if most > MAX_CELL_BYTES:
                    raise DatasetError(
                        f"{self.path}: column {name!r:.80} has a cell of {most:,} bytes, expected at most "
                        f"{MAX_CELL_BYTES:,}. Leave the column out of the definition, or shorten it."
                    )
                row_bytes += most
        num_rows = max(1, _PIECE_BYTES // max(1, row_bytes))
        for start in range(0, max(1, batch.num_rows), num_rows):
            yield batch.slice(start, num_rows)

    def _check_names(self, names: Sequence[str]) -> Sequence[str]:
        known: dict[str, int] = {}
        for name in names:
            known[name] = known.get(name, 0) + 1
        for name in known if self.needed is None else self.needed:
            if name not in known:
                other = find_delimiter(names[0]) if len(names) == 1 and self.form is not None else None
                if other is not None and name in names[0].split(other):
                    raise ConfigError(
                        f"{self.path}: has one column {names[0]!a:.80}, with {other!a} in its name. Say "
                        f"delimiter = {json.dumps(other)} in data.parameters if that is between its columns."
                    )
                raise ConfigError(f"{self.path}: has no column {name!r:.80}.{did_you_mean(name, [*names][:1000])}")
            if known[name] > 1:
                raise DatasetError(f"{self.path}: has {known[name]} columns {name!r:.80}. Rename all but one.")
        return [*known] if self.needed is None else self.needed


def _count_batch_rows(file: parquet.ParquetFile, needed: Sequence[str]) -> int:
    """Return the number of a Parquet file's rows to decode at a time, chosen for the row group that has the most
    bytes per row."""
    row_bytes = 8 * len(needed)
    wanted = {*needed}
    for group in range(file.num_row_groups):
        part = file.metadata.row_group(group)
        part_bytes = sum(
            max(chunk.total_uncompressed_size, _VALUE_BYTES * chunk.num_values)
            for chunk in map(part.column, range(part.num_columns))
            if chunk.path_in_schema.partition(".")[0] in wanted or chunk.path_in_schema in wanted
        )
        row_bytes = max(row_bytes, part_bytes // max(1, part.num_rows))
    return num_rows_within(row_bytes, _BATCH_ROWS)


def _encodings(file: parquet.ParquetFile, names: set[str]) -> Iterator[tuple[str, int, bool, bool]]:
    """Yield, for each column chunk of the named Parquet columns, the column's name, the chunk's uncompressed bytes,
    whether it is dictionary-encoded, and whether it is delta-encoded."""
    parts = map(file.metadata.row_group, range(file.num_row_groups))
    for chunk in (part.column(place) for part in parts for place in range(part.num_columns)):
        if chunk.path_in_schema in names:
            used = chunk.encodings
            is_delta = chunk.physical_type == "BYTE_ARRAY" and any("DELTA" in name for name in used)
            yield (
                chunk.path_in_schema,
                chunk.total_uncompressed_size,
                any("DICTIONARY" in name for name in used),
                is_delta,
            )


def _is_nested(kind: pa.DataType) -> bool:
    """Return whether an Arrow type is nested deeper than a list of values."""
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        kind = kind.value_type
    return bool(pa.types.is_nested(kind))


def is_list(kind: pa.DataType) -> bool:
    """Return whether an Arrow type is a list of values."""
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _read_begin(path: Path) -> bytes:
    """Return a file's first 4096 bytes, uncompressed, which tell its format."""
    with TextSource(path).opened() as file:
        return file.read(4096)

"""Batches of the columns that are needed, from CSV, gzipped CSV or Parquet, in bounded memory."""

import csv as text_rows
import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import csv, parquet

from reference_models.data.columns.parameters import ColumnsParameters
from reference_models.data.prepared.lines import BLOCK_BYTES, SourceFile, TextSource
from reference_models.data.prepared.pipeline import num_rows_within
from reference_models.data.store.manifest import file_sha256
from reference_models.process.errors import ConfigError, DatasetError, did_you_mean

PARQUET_MAGIC = b"PAR1"
_BATCH_ROWS = 1 << 16
_HEADER_BYTES = 1 << 20
_MAX_WRONG = 100_000
"""Rows of another number of columns in one block: beyond it the file has another form."""
# While it reads, pyarrow would catch SIGINT and SIGTERM itself, and it loses some. A block takes milliseconds only.
pa.enable_signal_handlers(False)


@dataclass(slots=True)
class ColumnFile:
    """One file: iterate over `batches` once; then `source` is what was read."""

    path: Path
    parameters: ColumnsParameters
    _num_rows: int = 0
    """The number of the last row that was numbered."""
    _wrong: list[str] = field(default_factory=list)
    """What is wrong with rows of text that have another number of columns; not reported yet."""
    _unpassed: list[int] = field(default_factory=list)
    """Numbers of such rows, below which no row was numbered yet."""
    _source: SourceFile | None = None

    def batches(self, on_bytes: Callable[[int], None]) -> Iterator[pa.RecordBatch]:
        """Yield the needed columns; those of text as strings, in which an empty cell is null.

        Raises ConfigError for a column that is not there, DatasetError for a file that cannot be read.
        """
        try:
            read = self._read_parquet if is_parquet(self.path) else self._read_text
            yield from read(on_bytes)
        except (pa.ArrowException, OSError) as error:
            if isinstance(error, OSError) and error.filename is not None:
                raise
            raise DatasetError(f"{self.path}: cannot be read: {str(error).splitlines()[0]:.200}") from None

    def number_rows(self, num_rows: int) -> NDArray[np.int64]:
        """Return the numbers of the next rows of a batch [num_rows], from 1 below the header."""
        first = self._num_rows + 1
        wrong = np.array(sorted(self._unpassed), np.int64)
        numbers = np.setdiff1d(np.arange(first, first + num_rows + len(wrong)), wrong)[:num_rows]
        if num_rows:
            self._num_rows = int(numbers[-1])
            self._unpassed = [number for number in self._unpassed if number > self._num_rows]
        return numbers

    def take_wrong_rows(self) -> list[str]:
        """Return what is wrong with the rows that have another number of columns, each once."""
        taken, self._wrong = self._wrong, []
        return taken

    @property
    def source(self) -> SourceFile:
        """The file as it was read. Only after all batches."""
        assert self._source is not None, "all batches were read before"
        return self._source

    def _read_text(self, on_bytes: Callable[[int], None]) -> Iterator[pa.RecordBatch]:
        given = self.parameters
        self._check_names(given.names or read_header(self.path, given.delimiter))
        text = TextSource(self.path, on_bytes)
        convert = csv.ConvertOptions(
            include_columns=[*given.needed],
            column_types={name: pa.string() for name in given.needed},
            null_values=[""],
            strings_can_be_null=True,
            check_utf8=False,
        )
        parse = csv.ParseOptions(
            delimiter=given.delimiter, newlines_in_values=True, invalid_row_handler=self._leave_out
        )
        read = csv.ReadOptions(use_threads=False, block_size=BLOCK_BYTES, column_names=[*given.names] or None)
        with text.opened() as file:
            yield from csv.open_csv(pa.PythonFile(file, mode="r"), read, parse, convert)
        self._source = text.source

    def _leave_out(self, row: csv.InvalidRow) -> str:
        if len(self._unpassed) >= _MAX_WRONG:
            return "error"
        number = row.number - (0 if self.parameters.names else 1)
        self._unpassed.append(number)
        self._wrong.append(f"row {number}: {row.actual_columns} columns, expected {row.expected_columns}")
        return "skip"

    def _read_parquet(self, on_bytes: Callable[[int], None]) -> Iterator[pa.RecordBatch]:
        needed = [*self.parameters.needed]
        with parquet.ParquetFile(self.path, pre_buffer=False) as file:
            schema = file.schema_arrow
            self._check_names(schema.names)
            for name in needed:
                if pa.types.is_nested(kind := schema.field(name).type):
                    raise DatasetError(
                        f"{self.path}: column {name!r} is nested ({kind}), expected one value a cell. Write several "
                        "ids as text with a separator between them."
                    )
            num_rows = num_rows_within(8 * len(needed), _BATCH_ROWS)
            yield from file.iter_batches(batch_size=num_rows, columns=needed, use_threads=False)
        num_bytes = self.path.stat().st_size
        self._source = SourceFile(path=self.path, num_bytes=num_bytes, sha256=file_sha256(self.path, on_bytes))

    def _check_names(self, names: Sequence[str]) -> None:
        for name in self.parameters.needed:
            if name not in names:
                raise ConfigError(f"{self.path}: has no column {name!r:.80}.{did_you_mean(name, [*names])}")
            if names.count(name) > 1:
                raise DatasetError(f"{self.path}: has {names.count(name)} columns {name!r:.80}. Rename all but one.")


def is_parquet(path: Path) -> bool:
    """Return whether a file begins as Parquet does. Raises DatasetError for one that cannot be read."""
    with TextSource(path).opened() as file:
        return file.read(len(PARQUET_MAGIC)) == PARQUET_MAGIC


def read_header(path: Path, delimiter: str) -> list[str]:
    """Read the names in a text file's first line. Raises DatasetError where there is none."""
    with TextSource(path).opened() as file:
        head = file.read(_HEADER_BYTES)
    if not head:
        raise DatasetError(f"{path}: is empty. Give a file with a header and one sample per line.")
    text = io.StringIO(head.decode("utf-8-sig", errors="replace"), newline="")
    try:
        return next(text_rows.reader(text, delimiter=delimiter), [])
    except text_rows.Error as error:
        raise DatasetError(f"{path}: its first line is no header: {error}.") from None

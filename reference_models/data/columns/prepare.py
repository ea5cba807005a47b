"""Files with columns of the user's own to a dataset: what `prepared.pipeline` needs to know of them."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import compute

from reference_models.config.sections import DataConfig
from reference_models.data.columns.convert import MISSING, Batch, convert
from reference_models.data.columns.files import ColumnFile
from reference_models.data.columns.parameters import ColumnsParameters, read_parameters
from reference_models.data.prepared.lines import SourceFile
from reference_models.data.prepared.pipeline import (
    Feature,
    PreparedDataset,
    Rows,
    num_rows_within,
    prepare_files,
)
from reference_models.process.errors import ConfigError, DatasetError

_MOST_ROWS = 1 << 20


def prepare_columns(
    train_files: Sequence[Path], eval_files: Sequence[Path], data: DataConfig, folder: Path, **options: Any
) -> PreparedDataset:
    """Make the dataset `data` in `folder` from CSV or Parquet; raises and takes `options` as `prepare_files`.

    Raises ConfigError also for a column that a file lacks.
    """
    parameters = read_parameters(data)
    if (parameters.split == "files") != bool(eval_files):
        how = (
            "give the evaluation files with --eval" if not eval_files else "leave --eval out, or say split = 'files'"
        )
        raise ConfigError(f"data.parameters.split is {parameters.split!r}: {how}.")
    reader = _Reader(parameters)
    return prepare_files(train_files, eval_files, data, folder, reader, data.parameters, **options)


class _Reader:
    """Columns as the pipeline reads them."""

    dense_dtype, category_dtype = "float64", "uint64"

    def __init__(self, parameters: ColumnsParameters) -> None:
        self._parameters = parameters
        self._times = _Times(parameters) if parameters.time is not None else None
        self._file: ColumnFile | None = None
        self.features = [
            Feature(
                name=f"column {column.column!r}",
                width=column.max_ids,
                min_count=column.min_count,
                num_hashed=column.rows,
                missing=MISSING,
                remedy="hash it with rows = N in data.parameters.sparse",
            )
            for column in parameters.sparse
        ]

    def read(self, path: Path, on_bytes: Callable[[int], None]) -> Iterator[Rows]:
        file = self._file = ColumnFile(path, self._parameters)
        for columns in self._pieces(file.batches(on_bytes)):
            batch = Batch(path, columns, file.number_rows(columns.num_rows))
            labels, dense, categories = convert(batch, self._parameters)
            keep = ~batch.is_wrong
            if self._times is not None:
                times, numbers = batch.times_of(self._times.name), batch.numbers
                keep = ~batch.is_wrong
                self._times.add(path, times.filter(pa.array(keep)), numbers[keep])
            wrong = file.take_wrong_rows()
            if not keep.all():
                labels, dense, categories = labels[keep], dense[keep], [values[keep] for values in categories]
            yield Rows(
                labels=labels,
                dense=dense,
                categories=categories,
                num_malformed=int((~keep).sum()) + len(wrong),
                malformed=[*wrong, *batch.reasons.values()],
            )
        if wrong := file.take_wrong_rows():
            nothing = [np.empty((0, feature.width), np.uint64) for feature in self.features]
            dense = np.empty((0, max(1, len(self._parameters.dense))))
            yield Rows(
                labels=np.empty(0, np.uint8),
                dense=dense,
                categories=nothing,
                num_malformed=len(wrong),
                malformed=wrong,
            )

    def _pieces(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Cut batches where their rows are wide: a short cell takes as many ids as its column may have."""
        num_rows = num_rows_within(8 * sum(feature.width for feature in self.features), _MOST_ROWS)
        for batch in batches:
            yield from (batch.slice(start, num_rows) for start in range(0, max(1, batch.num_rows), num_rows))

    def source(self) -> SourceFile:
        assert self._file is not None, "a file was read before"
        return self._file.source

    def split(self, file_rows: Sequence[int], num_train_files: int) -> dict[str, range]:
        total = sum(file_rows)
        if self._parameters.split == "files":
            num_train = sum(file_rows[:num_train_files])
        elif self._times is not None:
            num_train = self._times.find_split()
        else:
            num_train = total - max(1, round(self._parameters.eval_fraction * total))
        return {"train": range(num_train), "eval": range(num_train, total)}

    def finish_dense(self, pieces: Iterator[NDArray[Any]]) -> Callable[[NDArray[Any]], NDArray[np.float32]]:
        transforms = [column.transform for column in self._parameters.dense] or ["as_is"]
        is_log, is_standard = (
            np.array([transform == name for transform in transforms]) for name in ("log1p", "standardised")
        )
        mean, deviation = np.zeros(len(transforms)), np.ones(len(transforms))
        if is_standard.any():
            found_mean, found_deviation = _moments(pieces, len(transforms))
            mean, deviation = np.where(is_standard, found_mean, 0), np.where(is_standard, found_deviation, 1)

        def finish(values: NDArray[Any]) -> NDArray[np.float32]:
            result = np.where(
                is_log, np.log1p(np.where(is_log, np.maximum(values, 0), 0)), (values - mean) / deviation
            )
            return np.nan_to_num(result, nan=0).astype(np.float32)

        return finish


def _moments(pieces: Iterator[NDArray[Any]], width: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return mean and standard deviation (of the population) of the numbers there are; 0 and 1 where they are alike.

    Pieces are merged as Chan, Golub and LeVeque do (Updating formulae and a pairwise algorithm for computing sample
    variances, 1979).
    """
    count, mean, squares = np.zeros(width), np.zeros(width), np.zeros(width)
    for piece in pieces:
        is_there = ~np.isnan(piece)
        added = is_there.sum(axis=0)
        safe = np.maximum(added, 1)
        piece_mean = np.where(is_there, piece, 0).sum(axis=0) / safe
        deviations = np.where(is_there, piece - piece_mean, 0)
        total = np.maximum(count + added, 1)
        step = piece_mean - mean
        squares += (deviations**2).sum(axis=0) + np.where(added > 0, step**2 * count * added / total, 0)
        mean += np.where(added > 0, step * added / total, 0)
        count += added
    deviation = np.sqrt(squares / np.maximum(count, 1))
    return mean, np.where(deviation > 0, deviation, 1)


class _Times:
    """Where the time changes, row by row, of all files: one bit each."""

    def __init__(self, parameters: ColumnsParameters) -> None:
        assert parameters.time is not None
        self.name, self._given = parameters.time, parameters
        self._changes: list[tuple[int, NDArray[np.uint8]]] = []
        self._kind: pa.DataType | None = None
        self._last: Any = None
        self._num_rows = 0
        self._first_eval: int | None = None

    def add(self, path: Path, times: pa.Array, numbers: NDArray[np.int64]) -> None:
        """Add the times of rows; DatasetError where one is before the one above it."""
        if not len(times):
            return
        if (kind := _sortable_type(times, self._kind)) is None:
            raise DatasetError(
                f"{path}: column {self.name!r} holds text from row {numbers[0]} on, numbers before it."
            )
        times, self._kind = times.cast(kind), kind
        before = times if self._last is None else pa.concat_arrays([pa.array([self._last], self._kind), times])
        falls = compute.less(before[1:], before[:-1]).to_numpy(zero_copy_only=False)
        if falls.any():
            position = int(np.flatnonzero(falls)[0]) + (1 if self._last is None else 0)
            found = ascii(times[position].as_py())
            raise DatasetError(
                f"{path}:row {numbers[position]}: column {self.name!r} is {found:.40}, before the row above it. "
                "Sort the file by time, or say split = 'fraction'."
            )
        changes = compute.not_equal(before[1:], before[:-1]).to_numpy(zero_copy_only=False)
        if self._last is None:
            changes = np.concatenate(([True], changes))
        if self._first_eval is None and self._given.eval_from is not None:
            self._find_first(times)
        self._changes.append((len(times), np.packbits(changes)))
        self._last, self._num_rows = times[-1].as_py(), self._num_rows + len(times)

    def _find_first(self, times: pa.Array) -> None:
        given = self._given.eval_from
        if isinstance(given, str) != pa.types.is_string(times.type):
            raise ConfigError(f"data.parameters.eval_from is {given!r}, but column {self.name!r} holds {times.type}.")
        late = np.flatnonzero(compute.greater_equal(times, pa.scalar(given)).to_numpy(zero_copy_only=False))
        if len(late):
            self._first_eval = self._num_rows + int(late[0])

    def find_split(self) -> int:
        """Return the number of training rows. Raises DatasetError where no time divides the rows so."""
        if self._given.eval_from is not None:
            if not self._first_eval:
                where = "after the last" if self._first_eval is None else "not after the first"
                raise DatasetError(
                    f"data.parameters.eval_from is {self._given.eval_from!r}, {where} time of the files."
                )
            return self._first_eval
        wanted = self._num_rows - max(1, round(self._given.eval_fraction * self._num_rows))
        start, last = 0, 0
        for length, bits in self._changes:
            changes = start + np.flatnonzero(np.unpackbits(bits, count=length))
            if len(late := changes[changes >= max(1, wanted)]):
                return int(late[0])
            last, start = int(changes[-1]) if len(changes) else last, start + length
        if not last:
            raise DatasetError(f"column {self.name!r} is the same in all {self._num_rows} rows: no time to split at.")
        return last


def _sortable_type(times: pa.Array, known: pa.DataType | None) -> pa.DataType | None:
    """Return the type that times are compared as: whole numbers, numbers, text. None for text after numbers."""
    if known == pa.string():
        return known
    for kind in (pa.int64(), pa.float64())[known == pa.float64() :]:
        try:
            times.cast(kind)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            continue
        return kind
    return pa.string() if known is None else None

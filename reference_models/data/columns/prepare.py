"""Prepare a dataset from files with a user's own columns: the reader of such files that `prepared.pipeline` needs."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from reference_models.config.sections import DataConfig
from reference_models.data.columns.cells import EXPECTED_TIME, names_zone, parse_time
from reference_models.data.columns.convert import MISSING, ColumnBatch, Times, convert, hash_texts
from reference_models.data.columns.files import ColumnFile
from reference_models.data.columns.parameters import ColumnsParameters, SparseColumn, read_parameters
from reference_models.data.prepared.lines import SourceFile
from reference_models.data.prepared.pipeline import (
    Feature,
    FileRows,
    PreparedDataset,
    num_rows_within,
    prepare_files,
)
from reference_models.process.errors import ConfigError, DatasetError

_MOST_ROWS = 1 << 20
_JOINED_BYTES = 1 << 22
"""Number of bytes of cells up to which small batches of rows are joined to a larger one."""


def prepare_columns(
    train_files: Sequence[Path], eval_files: Sequence[Path], data: DataConfig, folder: Path, **options: Any
) -> PreparedDataset:
    """Make the dataset `data` in `folder` from a user's files; `options` and errors are those of `prepare_files`.

    Raises ConfigError also for a column that a file lacks.
    """
    parameters = read_parameters(data)
    if (parameters.split == "files") != bool(eval_files):
        how = (
            "give the evaluation files with --eval" if not eval_files else "leave --eval out, or say split = 'files'"
        )
        raise ConfigError(f"data.parameters.split is {parameters.split!r}: {how}.")
    reader = _ColumnReader(parameters)
    return prepare_files(train_files, eval_files, data, folder, reader, data.parameters, **options)


class _ColumnReader:
    """Reader of files with a user's own columns, for the preparation of a dataset by `prepared.pipeline`."""

    dense_dtype, category_dtype = "float64", "uint64"
    keeps_dictionaries = True

    def __init__(self, parameters: ColumnsParameters) -> None:
        self._parameters = parameters
        self.has_times = parameters.time is not None
        self._known: Times | None = None
        """Times of the rows read last. All later times must be of the same kind (numbers or dates, with or without a
        zone)."""
        self._num_before = 0
        """Number of rows in all files before the current file."""
        self._file: ColumnFile | None = None
        self.moments: NDArray[np.float64] | None = None
        self.numbers = [f"column {column.column!r}" for column in parameters.dense]
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

    def read(self, path: Path, on_bytes: Callable[[int], None]) -> Iterator[FileRows]:
        given = self._parameters
        file = self._file = ColumnFile(path, given.needed, given.delimiter, given.names)
        most = None if given.rows is None else given.rows - self._num_before
        """Row number of the last row to read in the file; None to read all rows."""
        if most == 0:
            self._file = None
            return
        for columns in self._pieces(file.batches(on_bytes)):
            numbers, num_others = file.number_rows(columns.num_rows), 0
            is_last = False
            if most is not None and bool((numbers >= most).any()):
                is_last, numbers = True, numbers[numbers <= most]
                columns = columns.slice(0, len(numbers))
            if given.share is not None:
                is_in = self._choose(ColumnBatch(path, columns, numbers), given.share)
                columns, numbers, num_others = columns.filter(pa.array(is_in)), numbers[is_in], int((~is_in).sum())
            rows = self._convert(ColumnBatch(path, columns, numbers), file, file.take_wrong_rows(most))
            yield replace(rows, num_others=num_others)
            if is_last:
                file.stop()
                break
        else:
            if wrong := file.take_wrong_rows(most):
                nothing = pa.RecordBatch.from_pylist([], pa.schema([(name, pa.string()) for name in given.needed]))
                yield self._convert(ColumnBatch(path, nothing, np.empty(0, np.int64)), file, wrong)
        self._num_before += file.num_numbered if most is None else min(most, file.num_numbered)

    def _choose(self, batch: ColumnBatch, share: float) -> NDArray[np.bool_]:
        """Return a mask [n] of the batch's rows that the dataset uses: those whose hash, as a fraction of 2^64, is
        below `share`."""
        column = self._parameters.share_by
        if column is None:
            hashes = hash_texts([str(number).encode() for number in (self._num_before + batch.numbers).tolist()])
        else:
            hashes = batch.values_of(SparseColumn(column=column))
        is_in: NDArray[np.bool_] = (hashes < np.uint64(share * 2.0**64)) & (hashes != MISSING)
        return is_in

    def _convert(self, batch: ColumnBatch, file: ColumnFile, wrong: Sequence[str]) -> FileRows:
        """Return the well-formed rows of a batch. `wrong` has the reasons of malformed rows that the reader already
        left out."""
        given = self._parameters
        if file.has_bad_text:
            batch.leave_out_bad_text(given.needed)
        labels, dense, categories = convert(batch, given)
        times = None if given.time is None else self._read_times(batch, given.time)
        keep = ~batch.is_wrong
        if not keep.all():
            labels, dense, categories = labels[keep], dense[keep], [values[keep] for values in categories]
            times = None if times is None else times[keep]
        return FileRows(
            labels=labels,
            dense=dense,
            categories=categories,
            num_malformed=int((~keep).sum()) + len(wrong),
            malformed=[*wrong, *batch.reasons.values()],
            times=times,
        )

    def _read_times(self, batch: ColumnBatch, name: str) -> NDArray[np.longdouble]:
        times = batch.times_of(name, self._known)
        if not batch.is_wrong.all():
            if self._known is not None and (times.is_date, times.has_zone) != (
                self._known.is_date,
                self._known.has_zone,
            ):
                kinds = ["dates" if found.is_date else "numbers" for found in (times, self._known)]
                raise DatasetError(
                    f"{batch.path}: column {name!r} holds {kinds[0]} from row {batch.numbers[0]} on, {kinds[1]} "
                    "before it; or some with a zone and some without. Write all alike."
                )
            self._known = times
        return times.values.astype(np.longdouble)

    def _pieces(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield slices of the batches, so short that the ids of a slice fit in memory even if every cell of each
        category column holds `max_ids` ids."""
        num_rows = num_rows_within(8 * sum(feature.width for feature in self.features), _MOST_ROWS)
        for batch in joined(batches):
            yield from (batch.slice(start, num_rows) for start in range(0, max(1, batch.num_rows), num_rows))

    def state(self) -> dict[str, Any]:
        known = None if self._known is None else [self._known.is_date, self._known.has_zone]
        return {"num_before": self._num_before, "known": known}

    def restore(self, state: Mapping[str, Any]) -> None:
        self._num_before = state.get("num_before", 0)
        if (known := state.get("known")) is not None:
            self._known = Times(np.empty(0), *known)

    def source(self) -> SourceFile | None:
        return None if self._file is None else self._file.source

    def split(
        self, file_rows: Sequence[int], num_train_files: int, times: Callable[[], Iterator[NDArray[Any]]]
    ) -> dict[str, range]:
        total = sum(file_rows)
        if self._parameters.split == "files":
            num_train = sum(file_rows[:num_train_files])
        elif self._parameters.split == "time":
            num_train = self._find_time(total, times())
        else:
            num_train = total - max(1, round(self._parameters.eval_fraction * total))
        return {"train": range(num_train), "eval": range(num_train, total)}

    def _find_time(self, num_rows: int, times: Iterator[NDArray[Any]]) -> int:
        """Return the number of training rows, which are those before the first evaluation time, given the rows'
        sorted times. Raises DatasetError if no time divides the rows."""
        given, name = self._parameters, self._parameters.time
        if given.eval_from is not None and num_rows:
            first = np.longdouble(self._read_eval_from(given.eval_from))
            num_train = sum(int(np.searchsorted(piece, first)) for piece in times)
            if num_train in (0, num_rows):
                where = "after the last" if num_train else "not after the first"
                raise DatasetError(f"data.parameters.eval_from is {given.eval_from!r}, {where} time of the files.")
            return num_train
        wanted = num_rows - max(1, round(given.eval_fraction * num_rows))
        start, last_change, last = 0, 0, np.empty(0, np.longdouble)
        for piece in times:
            before = np.concatenate([last, piece])
            changes = start - len(last) + 1 + np.flatnonzero(before[1:] != before[:-1])
            if len(late := changes[changes >= max(1, wanted)]):
                return int(late[0])
            last_change = int(changes[-1]) if len(changes) else last_change
            start, last = start + len(piece), piece[-1:]
        if not last_change:
            raise DatasetError(f"column {name!r} is the same in all {num_rows} rows: no time to split at.")
        return last_change

    def _read_eval_from(self, given: str | float) -> float | int:
        """Return eval_from, the first time of evaluation, as a value of the kind that the rows' times have. Raises
        ConfigError if `given` is a number but the rows have dates, if `given` is a date but the rows have numbers, or
        if `given` names a time zone but the rows' times have none."""
        assert self._known is not None, "rows were read before"
        if isinstance(given, str) == self._known.is_date:
            instant = parse_time(given) if isinstance(given, str) else given
            if instant is not None and (not isinstance(given, str) or self._known.has_zone or not names_zone(given)):
                return instant
        kind = "times without a zone" if self._known.is_date and not self._known.has_zone else "times"
        raise ConfigError(
            f"data.parameters.eval_from is {given!r}, but column {self._parameters.time!r} holds "
            f"{kind if self._known.is_date else 'numbers'}. Expected {EXPECTED_TIME}."
        )

    def finish_dense(self, pieces: Iterator[NDArray[Any]]) -> Callable[[NDArray[Any]], NDArray[np.float32]]:
        is_standard = np.array([column.transform == "standardised" for column in self._parameters.dense] or [False])
        self.moments = np.stack([np.zeros(len(is_standard)), np.ones(len(is_standard))])
        if is_standard.any():
            mean, deviation = _moments(pieces, len(is_standard))
            self.moments = np.stack([np.where(is_standard, mean, 0), np.where(is_standard, deviation, 1)])
        return finish_numbers(self._parameters, *self.moments)


def finish_numbers(
    given: ColumnsParameters, mean: NDArray[np.float64], deviation: NDArray[np.float64]
) -> Callable[[NDArray[Any]], NDArray[np.float32]]:
    """Return the function that transforms dense features as parsed, float64 [n, D], to those stored, float32 [n, D].
    `mean` and `deviation` [D] are those of the training rows, 0 and 1 for columns that are not standardised."""
    is_log = np.array([column.transform == "log1p" for column in given.dense] or [False])

    def finish(values: NDArray[Any]) -> NDArray[np.float32]:
        result = np.where(is_log, np.log1p(np.where(is_log, np.maximum(values, 0), 0)), (values - mean) / deviation)
        return np.nan_to_num(result, nan=0).astype(np.float32)

    return finish


def joined(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield successive small batches of rows joined to larger ones, so that a value in many small batches is hashed
    once."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        is_full = sum(piece.nbytes for piece in waiting) >= _JOINED_BYTES
        if waiting and (is_full or batch.schema != waiting[0].schema):
            yield _join(waiting)
            waiting = []
        waiting.append(batch)
        if any(pa.types.is_dictionary(kind) for kind in batch.schema.types):
            yield waiting.pop()
    if waiting:
        yield _join(waiting)


def _join(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    joined = pa.Table.from_batches(batches).combine_chunks().to_batches() if len(batches) > 1 else []
    return joined[0] if joined else batches[0]


def _moments(pieces: Iterator[NDArray[Any]], width: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the mean and the population standard deviation [D] of each dense feature; missing numbers are not
    counted. The deviation is 1 if all numbers of a feature are equal.

    The statistics of pieces of the data are merged as in Chan, Golub and LeVeque (Updating formulae and a pairwise
    algorithm for computing sample variances, 1979).
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

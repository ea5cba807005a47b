"""Encode a new file's rows as a trained model expects them, by the dictionaries stored with its training data."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reference_models.config.sections import DataConfig
from reference_models.data.columns.convert import MISSING, ColumnBatch, read_dense
from reference_models.data.columns.files import ColumnFile
from reference_models.data.columns.parameters import ColumnsParameters, read_parameters
from reference_models.data.columns.prepare import finish_numbers, joined
from reference_models.data.prepared.kept import read_dictionary, read_numbers
from reference_models.data.prepared.pipeline import MAX_MALFORMED, HashedIds, num_rows_within
from reference_models.data.store.manifest import read_manifest
from reference_models.process.errors import DatasetError

_MOST_ROWS = 1 << 16
_NUM_NAMED = 10
"""Maximum number of malformed rows of a file whose reasons are recorded; all malformed rows are counted."""


@dataclass(frozen=True, slots=True)
class EncodedRows:
    """Well-formed rows of an encoded file: row numbers from 1 int64 [n], dense features float32 [n, D], the L ids of
    each row int32 [n, L]."""

    rows: NDArray[np.int64]
    dense: NDArray[np.float32]
    ids: NDArray[np.int32]


def encode_file(
    path: Path, data: DataConfig, folder: Path, on_bytes: Callable[[int], None] = lambda count: None
) -> Iterator[EncodedRows]:
    """Yield the rows of a file, with category values replaced by the ids of the dataset in `folder`. The file needs
    no label and no time.

    Values that were not seen in training have id 0, as in evaluation. Malformed rows are left out; if their share of
    all rows exceeds MAX_MALFORMED, DatasetError is raised at the end. Raises DatasetError also if the dataset's
    dictionaries are missing or damaged, and ConfigError if the file lacks a column.
    """
    given = read_parameters(data)
    manifest = read_manifest(folder)
    coders = [
        HashedIds(column.rows, MISSING) if column.rows is not None else read_dictionary(folder, manifest, number)
        for number, column in enumerate(given.sparse)
    ]
    finish = finish_numbers(given, *read_numbers(folder, manifest))
    names = (*(column.column for column in given.dense), *(column.column for column in given.sparse))
    needed = tuple(dict.fromkeys(names))
    file = ColumnFile(path, needed, given.delimiter, given.names)
    wide = num_rows_within(8 * sum(column.max_ids for column in given.sparse), _MOST_ROWS)
    num_rows, reasons, num_wrong = 0, list[str](), 0
    for whole in joined(file.batches(on_bytes)):
        for piece in (whole.slice(start, wide) for start in range(0, whole.num_rows, wide)):
            batch = ColumnBatch(path, piece, file.number_rows(piece.num_rows))
            others = file.take_wrong_rows()  # at each piece: only malformed rows would fill the memory
            if file.has_bad_text:
                batch.leave_out_bad_text(needed)
            yield _encode(batch, given, coders, finish)
            num_rows += piece.num_rows + len(others)
            num_wrong += len(others) + int(batch.is_wrong.sum())
            reasons += [*others, *batch.reasons.values()][: _NUM_NAMED - len(reasons)]
    others = file.take_wrong_rows()  # after the last piece, or in a file without any
    num_rows, num_wrong = num_rows + len(others), num_wrong + len(others)
    reasons += others[: _NUM_NAMED - len(reasons)]
    if not num_rows:
        raise DatasetError(f"{path}: has no rows. Give a file with one sample per line.")
    if num_wrong > MAX_MALFORMED * num_rows:
        raise DatasetError(
            f"{path}:{reasons[0]}; {num_wrong:,} of {num_rows:,} rows are malformed, more than "
            f"{100 * MAX_MALFORMED:g} %. Repair the file."
        )


def _encode(
    batch: ColumnBatch,
    given: ColumnsParameters,
    coders: Sequence[Any],
    finish: Callable[[NDArray[Any]], NDArray[np.float32]],
) -> EncodedRows:
    num_rows = len(batch.numbers)
    dense = read_dense(batch, given)
    ids = [
        coder.encode(batch.values_of(column).reshape(-1)).reshape(num_rows, column.max_ids)
        for coder, column in zip(coders, given.sparse, strict=True)
    ]
    keep = ~batch.is_wrong
    return EncodedRows(batch.numbers[keep], finish(dense[keep]), np.concatenate(ids, axis=1)[keep])

"""Make dictionaries from category values to ids, one per feature, from the training rows only.

Id 0 stands for values rarer than `min_count` in training, for values that only evaluation has, and for a value that
marks empty cells; all others are numbered from 1 in the order of first appearance, as in facebookresearch/dlrm's
data_utils.py. (That code also numbers values that only the evaluation day has; their embedding rows are never
trained.)
"""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

RARE_ID = 0
BYTES_PER_VALUE = {"uint32": 84, "uint64": 122}
"""Dict from the type of a column's category values to the peak memory, in bytes per distinct value, while a
dictionary is made; measured at 8 million values."""


@dataclass(frozen=True, slots=True)
class ValueCounts:
    """Counts of the u distinct values of a column: the sorted values unsigned [u], the index of each value's first
    occurrence among all values of the column int64 [u], and the number of occurrences int64 [u]."""

    values: NDArray[Any]
    first_rows: NDArray[np.int64]
    counts: NDArray[np.int64]

    @classmethod
    def empty(cls, dtype: Any = np.uint32) -> Self:
        return cls(np.empty(0, dtype), np.empty(0, np.int64), np.empty(0, np.int64))

    def add(self, column: NDArray[Any], first_row: int) -> "ValueCounts":
        """Return new counts: those so far plus those of `column`, the next values of the same feature. `first_row` is
        the row number of the first value in `column`."""
        values, codes = factorize(column)
        merged = np.concatenate([self.values, values])
        order = np.argsort(merged, kind="stable")
        merged = merged[order]
        starts = np.flatnonzero(np.concatenate(([True], merged[1:] != merged[:-1])))
        appeared = first_row + np.flatnonzero(np.diff(np.maximum.accumulate(codes), prepend=-1))
        # The sort is stable and earlier rows come first, so a group's first element appeared first.
        first_rows = np.concatenate([self.first_rows, appeared])[order[starts]]
        added = np.concatenate([self.counts, np.bincount(codes, minlength=len(values))])[order]
        return ValueCounts(merged[starts], first_rows, np.add.reduceat(added, starts))


@dataclass(frozen=True, slots=True)
class Dictionary:
    """Dictionary from category values to ids. `values` has the u sorted values that have an id of their own, unsigned
    [u]; `ids` has their ids, from 1, int32 [u]. All other values have id 0."""

    values: NDArray[Any]
    ids: NDArray[np.int32]

    @property
    def num_embeddings(self) -> int:
        return len(self.values) + 1

    def encode(self, column: NDArray[Any]) -> NDArray[np.int32]:
        """Return the ids of a column's category values; RARE_ID (0) for values that the dictionary lacks."""
        if not len(self.values):
            return np.full(len(column), RARE_ID, np.int32)
        values, codes = factorize(column)
        places = np.minimum(np.searchsorted(self.values, values), len(self.values) - 1)
        ids: NDArray[np.int32] = np.where(self.values[places] == values, self.ids[places], np.int32(RARE_ID))
        return ids[codes]


def number_values(counted: ValueCounts, min_count: int, without: int | None = None) -> Dictionary:
    """Return the dictionary of the category values that occur at least `min_count` times, without the value
    `without`, which marks empty cells."""
    is_kept = counted.counts >= min_count
    if without is not None:
        is_kept &= counted.values != without
    kept = np.flatnonzero(is_kept)
    ids = np.empty(len(kept), np.int32)
    ids[np.argsort(counted.first_rows[kept])] = np.arange(1, len(kept) + 1, dtype=np.int32)
    return Dictionary(counted.values[kept], ids)


def factorize(column: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int32]]:
    """Return a column's distinct values [u] in the order of first appearance, and each cell's index into these."""
    encoded = pa.array(column).dictionary_encode()
    return encoded.dictionary.to_numpy(), encoded.indices.to_numpy()

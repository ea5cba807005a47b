"""From category values to ids: a dictionary per feature, made from the training rows alone.

Id 0 stands for what is rarer than `min_frequency` in training and for what only evaluation has; the others are
numbered from 1 in the order of their first appearance, as facebookresearch/dlrm's data_utils.py numbers them. (That
code also numbers what only the evaluation day has; such rows are never trained.)
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

RARE_ID = 0
BYTES_PER_VALUE = 72
"""Peak memory per distinct value while a stretch of rows is merged in (65 by tracemalloc at 8 million values)."""
_U32 = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)


@dataclass(frozen=True, slots=True)
class ValueCounts:
    """Distinct values, sorted: uint32 [u], row of first appearance int64 [u], occurrences int64 [u]."""

    values: NDArray[np.uint32]
    first_rows: NDArray[np.int64]
    counts: NDArray[np.int64]

    @classmethod
    def empty(cls) -> Self:
        return cls(np.empty(0, np.uint32), np.empty(0, np.int64), np.empty(0, np.int64))

    def add(self, column: NDArray[np.uint32], first_row: int) -> "ValueCounts":
        """Add the values of one more stretch of rows, which starts at `first_row`."""
        values, rows, _, counts = _group(column)
        merged = np.concatenate([self.values, values])
        order = np.argsort(merged, kind="stable")
        merged = merged[order]
        starts = np.flatnonzero(np.concatenate(([True], merged[1:] != merged[:-1])))
        # The sort is stable and earlier stretches come first, so a group's first element appeared first.
        first_rows = np.concatenate([self.first_rows, rows + first_row])[order[starts]]
        added = np.add.reduceat(np.concatenate([self.counts, counts])[order], starts)
        return ValueCounts(merged[starts], first_rows, added)


@dataclass(frozen=True, slots=True)
class Dictionary:
    """Values that have an id of their own: sorted uint32 [u], their ids int32 [u], each from 1 to u."""

    values: NDArray[np.uint32]
    ids: NDArray[np.int32]

    @property
    def num_embeddings(self) -> int:
        return len(self.values) + 1

    def encode(self, column: NDArray[np.uint32]) -> NDArray[np.int32]:
        """Return ids of a column; RARE_ID for what the dictionary does not hold."""
        result = np.empty(len(column), np.int32)
        if not len(self.values):
            result[:] = RARE_ID
            return result
        values, _, positions, counts = _group(column)
        places = np.minimum(np.searchsorted(self.values, values), len(self.values) - 1)
        ids = np.where(self.values[places] == values, self.ids[places], np.int32(RARE_ID))
        result[positions] = np.repeat(ids, counts)
        return result


def number_values(counted: ValueCounts, min_frequency: int) -> Dictionary:
    """Number the values that occur at least `min_frequency` times by first appearance."""
    kept = np.flatnonzero(counted.counts >= min_frequency)
    ids = np.empty(len(kept), np.int32)
    ids[np.argsort(counted.first_rows[kept])] = np.arange(1, len(kept) + 1, dtype=np.int32)
    return Dictionary(counted.values[kept], ids)


def _group(
    column: NDArray[np.uint32],
) -> tuple[NDArray[np.uint32], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Find sorted distinct values, position of each one's first occurrence, all positions in value order, counts.

    Value and position are packed into one word: numpy sorts words several times faster than it argsorts.
    """
    words = (column.astype(np.uint64) << _U32) | np.arange(len(column), dtype=np.uint64)
    words.sort()
    values = (words >> _U32).astype(np.uint32)
    positions = (words & _LOW).astype(np.int64)
    starts = np.flatnonzero(np.concatenate((np.full(min(1, len(values)), True), values[1:] != values[:-1])))
    return values[starts], positions[starts], positions, np.diff(starts, append=len(values))

"""Sort parsed rows on disk (a spool) by one of their columns: an external merge sort in bounded memory."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reference_models.data.prepared.spool import Spool

_SOURCE = "source"
_MERGED_ROWS = 1 << 20

Read = Callable[[int, int], NDArray[Any]]
"""Type of functions that return the sort keys of the rows start to stop - 1, given start and stop."""


def sort_rows(spool: Spool, key: str, num_rows_of_run: int) -> None:
    """Sort the rows of all columns of a spool (parsed rows on disk) by the column `key`, stably.

    Runs of `num_rows_of_run` rows are sorted in memory, and merged by reading each run once from begin to end.
    """
    runs = [
        range(start, min(start + num_rows_of_run, spool.num_rows))
        for start in range(0, spool.num_rows, num_rows_of_run)
    ]
    for run in runs:
        order = np.argsort(spool.read(key, run.start, run.stop), kind="stable")
        if (np.diff(order) != 1).any():
            for name in spool.names:
                spool.write(name, run.start, spool.read(name, run.start, run.stop)[order])
    if len(runs) < 2:
        return
    buffer_rows = max(1, _MERGED_ROWS // len(runs))
    spool.add(_SOURCE, merge_runs(lambda start, stop: spool.read(key, start, stop), runs, buffer_rows))
    for name in [name for name in spool.names if name != _SOURCE]:
        spool.replace(name, spool.column(name), _gather(spool, name, runs, num_rows_of_run))
    spool.drop(_SOURCE)


def merge_runs(read: Read, runs: Sequence[range], buffer_rows: int) -> Iterator[NDArray[np.uint32]]:
    """Merge sorted runs of rows. Yield for each row of the merged order the number of the run from which it comes, in
    pieces of any length. `read` returns the sort keys of rows; `buffer_rows` rows of each run are read at a time."""
    buffers = [read(run.start, min(run.start + buffer_rows, run.stop)) for run in runs]
    nexts = [run.start + len(buffer) for run, buffer in zip(runs, buffers, strict=True)]

    def take(which: int, count: int) -> None:
        buffers[which] = buffers[which][count:]
        if not len(buffers[which]) and nexts[which] < runs[which].stop:
            start, stop = nexts[which], min(nexts[which] + buffer_rows, runs[which].stop)
            buffers[which], nexts[which] = read(start, stop), stop

    while any(map(len, buffers)):
        unread = [buffers[which][-1] for which, run in enumerate(runs) if nexts[which] < run.stop]
        below = [len(buffer) if not unread else np.searchsorted(buffer, min(unread)) for buffer in buffers]
        ends = [*map(int, below)]
        if any(ends):  # keys below all keys that are not read yet
            keys = np.concatenate([buffer[:end] for buffer, end in zip(buffers, ends, strict=True)])
            sources = np.repeat(np.arange(len(runs), dtype=np.uint32), ends)
            yield sources[np.argsort(keys, kind="stable")]
            for which, end in enumerate(ends):
                take(which, end)
            continue
        least = min(unread)
        for which in range(len(runs)):  # equal keys, run by run
            while len(buffers[which]) and buffers[which][0] == least:
                count = int(np.searchsorted(buffers[which], least, side="right"))
                yield np.full(count, which, np.uint32)
                take(which, count)


def _gather(spool: Spool, name: str, runs: Sequence[range], num_rows: int) -> Iterator[NDArray[Any]]:
    nexts = [run.start for run in runs]
    for start in range(0, spool.num_rows, num_rows):
        sources = spool.read(_SOURCE, start, min(start + num_rows, spool.num_rows))
        counts = np.bincount(sources, minlength=len(runs))
        parts = [
            spool.read(name, nexts[which], nexts[which] + int(counts[which])) for which in np.flatnonzero(counts)
        ]
        nexts = [first + int(count) for first, count in zip(nexts, counts, strict=True)]
        merged = np.concatenate(parts)
        result = np.empty_like(merged)
        result[np.argsort(sources, kind="stable")] = merged
        yield result

"""Compute stack distances: the distance of an access is the number of other rows accessed since the last access of
the same row (Mattson et al., 1970).

An LRU cache of c rows hits exactly the accesses whose distance is below c. One pass over the trace therefore gives
the miss ratios of caches of every size. Long traces are sampled by rows (SHARDS: Waldspurger et al., FAST'15). Here
rows are sampled within groups of about equally many lookups, so that the sample has all of the few rows looked up
most.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reference_models.data.traces.trace import CHUNK, Ids

Floats = NDArray[np.float64]
LEAST_OF_GROUP = 1_000
"""Least number of rows that a trace's sample takes of each group of similarly frequent rows; of a smaller group it
takes all rows."""
_GOLDEN = 0x9E3779B97F4A7C15


class StackDistances:
    """Calculator of the stack distances (number of other rows accessed in between) of a stream of row accesses.

    Memory grows with the number of distinct rows, not with the length of the stream.
    """

    def __init__(self) -> None:
        self._keys, self._weights = np.empty(0, np.int64), np.empty(0)  # the stack, its oldest row first

    def update(self, keys: Ids, weights: Floats) -> Floats:
        """Return the stack distances of the next row accesses [N], infinite for the first access of a row.

        In a sample, `weights` [N] is the number of rows that each accessed row stands for; accesses with equal keys
        have equal weights. Without sampling all weights are 1, and distances are whole numbers.
        """
        parts = range(0, len(keys), CHUNK)
        found = [self._update(keys[at : at + CHUNK], weights[at : at + CHUNK]) for at in parts]
        return np.concatenate([np.empty(0), *found])

    def _update(self, keys: Ids, weights: Floats) -> Floats:
        """Return the stack distances of one chunk of row accesses, and put the chunk's rows on the LRU stack."""
        num_old = len(self._keys)
        keys, weights = np.concatenate((self._keys, keys)), np.concatenate((self._weights, weights))
        order = np.argsort(keys, kind="stable")
        is_again = np.diff(keys[order]) == 0
        last, is_top = np.full(len(keys), -1), np.ones(len(keys), dtype=bool)
        last[order[1:][is_again]] = order[:-1][is_again]
        is_top[order[:-1][is_again]] = False
        sums, previous = np.concatenate(([0.0], np.cumsum(weights))), last[num_old:]
        # Of the accesses since the row's last access, only the first of each other row counts.
        distances = sums[num_old:-1] - sums[previous + 1] - _sum_earlier_above(previous, weights[num_old:])
        self._keys, self._weights = keys[is_top], weights[is_top]
        return np.where(previous < 0, np.inf, distances)


def _sum_earlier_above(values: Ids, weights: Floats) -> Floats:
    """Return, for each value, the sum of the weights of those earlier values that are larger. All values differ,
    except for repeated -1; the sums of these are not used.

    The method counts as a merge sort does, without a loop over values: ranks are split by their highest bit, then by
    the next. In each group, weights of earlier ranks with bit 1 are added to the sums of ranks with bit 0.
    """
    num_bits = max(1, (len(values) - 1).bit_length())
    size = 1 << num_bits
    of_value = np.empty(len(values), np.int64)
    of_value[np.argsort(values, kind="stable")] = np.arange(len(values))
    ranks = np.concatenate((of_value, np.arange(len(values), size)))
    weights, above = np.concatenate((weights, np.zeros(size - len(weights)))), np.zeros(size)
    for bit in reversed(range(num_bits)):
        half = 1 << bit
        is_upper = (ranks & half) != 0
        is_lower = ~is_upper
        sums = np.cumsum(np.where(is_upper, weights, 0.0)).reshape(-1, 2 * half)
        sums[1:] -= sums[:-1, -1:].copy()
        above[is_lower] += sums.reshape(-1)[is_lower]
        ranks, weights, above = (
            np.concatenate((each[is_lower].reshape(-1, half), each[is_upper].reshape(-1, half)), axis=1).reshape(-1)
            for each in (ranks, weights, above)
        )
    return above[of_value]


@dataclass(frozen=True, kw_only=True, slots=True)
class MissRatioCurve:
    """Miss-ratio curve: the number of misses, for one trace of row accesses, of LRU caches of every size."""

    num_lookups: int
    num_cold: float
    """Number of first accesses of rows, which miss in caches of every size."""
    distances: Ids
    """Distinct stack distances in the trace, in rising order [D]. They are in rows or, if tables differ in row size,
    in a unit of bytes that divides all row sizes."""
    hits: Floats
    """Number of lookups that hit an LRU cache, for every size of cache [D + 1]. Entry i is for sizes above
    `distances[i - 1]` and up to `distances[i]`."""

    def misses(self, num_rows: NDArray[np.int64]) -> Floats:
        """Return the number of accesses that miss an LRU cache of each size in `num_rows`, which is in the unit of
        `distances` (rows, or a number of bytes)."""
        return np.asarray(self.num_lookups - self.hits[np.searchsorted(self.distances, num_rows)])

    def find_size(self, hit_rate: float) -> int | None:
        """Return the size of the smallest LRU cache whose hit rate is at least `hit_rate`, in the unit of `distances`
        (rows, or a number of bytes); None if there is no such cache."""
        number = int(np.searchsorted(self.hits, hit_rate * self.num_lookups))
        if number == 0:
            return 0
        return int(self.distances[number - 1]) + 1 if number < len(self.hits) else None

    def miss_ratio(self, num_rows: int) -> float:
        """Return the share of a trace's accesses that miss an LRU cache of size `num_rows`, which is in the unit of
        `distances` (rows, or a number of bytes)."""
        return float(self.misses(np.array([num_rows]))[0]) / max(1, self.num_lookups)


class TracedRows(NamedTuple):
    """Distinct rows that an access trace looks up, and which of them, counted from 0, each lookup accesses."""

    keys: Ids
    """Keys (row numbers counted through all tables) of the distinct rows looked up, rising [rows]."""
    counts: Ids
    """Number of lookups of each distinct row in the trace [rows]."""
    numbers: Ids
    """Index in `keys` of the row that each lookup of the trace accesses [lookups]."""


class RowSample(NamedTuple):
    """Sample of a trace's rows. It has two weights for each row of the trace [rows], which say how many rows and how
    many lookups the row stands for. Both are 0 for rows outside the sample."""

    rows: Floats
    """Number of the trace's rows that each sampled row stands for [rows]; the sum is the number of all rows."""
    lookups: Floats
    """Weight of the lookups of each row [rows]: how many lookups of the trace one of the row's lookups stands for.
    First lookups of rows have other weights (`rows`)."""

    @property
    def share(self) -> float:
        """Return the share of the trace's distinct rows that are in the sample."""
        return float((self.rows > 0).mean())


def find_rows(keys: Ids) -> TracedRows:
    """Number the distinct rows of a trace from 0, and count each row's lookups; `keys` [lookups] identifies the row
    of each lookup."""
    rows, numbers, counts = np.unique(keys, return_inverse=True, return_counts=True)
    return TracedRows(rows, counts, numbers)


def sample_rows(touched: TracedRows, rate: float, seed: int) -> RowSample:
    """Choose a sample of a trace's rows: in each group of similarly frequent rows, the rows with the smallest hashes.

    The groups are the rows that are looked up once, twice, 3 to 4 times, 5 to 8 times, and so on. The sample takes a
    share `rate` of each group, but at least LEAST_OF_GROUP rows. Each group's rows and lookups are counted exactly,
    so estimates never exceed them.
    """
    counts, groups = touched.counts, np.ceil(np.log2(touched.counts)).astype(np.int64)
    rows, lookups = np.zeros(len(counts)), np.zeros(len(counts))
    hashes = hash_keys(touched.keys, seed)
    for group in np.unique(groups):
        members = np.flatnonzero(groups == group)
        number = min(len(members), max(LEAST_OF_GROUP, round(rate * len(members))))
        taken = members[np.argpartition(hashes[members], number - 1)[:number]]
        rows[taken] = len(members) / number
        lookups[taken] = (counts[members] - 1).sum() / max(1, (counts[taken] - 1).sum())
    return RowSample(rows, lookups)


def measure_curve(
    stream: Iterable[Ids], sample: RowSample | None = None, units_of: Callable[[Ids], Ids] | None = None
) -> MissRatioCurve:
    """Measure the LRU miss-ratio curve of a stream of row keys: exactly, or approximately from a `sample` of rows. If
    there is a sample, keys must be row numbers as `find_rows` returns them.

    All rows have size 1, unless `units_of` returns the size of each key's row in some unit. Cache sizes are in the
    same unit. A lookup hits if the cache has room for its row and all other rows looked up since the last lookup of
    the row.
    """
    stack, counted = StackDistances(), (np.empty(0, np.int64), np.empty(0))
    num_lookups, num_cold = 0, 0.0
    for keys in stream:
        num_lookups += len(keys)
        rows = lookups = np.ones(len(keys))
        own: Ids | int = 1
        if sample is not None:
            keys = keys[sample.rows[keys] > 0]
            rows, lookups = sample.rows[keys], sample.lookups[keys]
        if units_of is not None:
            own = units_of(keys)
        distances = stack.update(keys, rows * own) + (own - 1)
        is_again = np.isfinite(distances)
        counted = _add_up(counted, distances[is_again].astype(np.int64), lookups[is_again])
        num_cold += float(rows[~is_again].sum())
    return _sum_hits(num_lookups, num_cold, *counted)


def make_curve(distances: Floats, num_lookups: int) -> MissRatioCurve:
    """Return the miss-ratio curve of accesses with stack distances [N], infinite at first accesses. If `num_lookups`
    is more than N, the other lookups hit in every cache."""
    is_again = np.isfinite(distances)
    found, counts = np.unique(distances[is_again].astype(np.int64), return_counts=True)
    num_others = num_lookups - len(distances)
    return _sum_hits(num_lookups, float((~is_again).sum()), found, counts.astype(np.float64), num_others)


def _add_up(counted: tuple[Ids, Floats], distances: Ids, lookups: Floats) -> tuple[Ids, Floats]:
    """Merge two counts of lookups by stack distance: those `counted` so far, and new ones. Return the distances in
    rising order, and the number of lookups at each."""
    found, places = np.unique(np.concatenate((counted[0], distances)), return_inverse=True)
    return found, np.asarray(np.bincount(places, np.concatenate((counted[1], lookups))), dtype=np.float64)


def _sum_hits(
    num_lookups: int, num_cold: float, distances: Ids, lookups: Floats, num_others: int = 0
) -> MissRatioCurve:
    """Return the miss-ratio curve of rising stack distances [D], given the number of lookups at each; `num_others`
    more lookups hit in every cache."""
    hits = np.concatenate(([0.0], np.cumsum(lookups))) + num_others
    return MissRatioCurve(num_lookups=num_lookups, num_cold=num_cold, distances=distances, hits=hits)


def hash_keys(keys: Ids, seed: int) -> Floats:
    """Return a hash in [0, 1) of each row key, by SplitMix64 of key and seed."""
    mixed = keys.astype(np.uint64) + np.uint64((seed + 1) * _GOLDEN % (1 << 64))
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(((mixed ^ (mixed >> np.uint64(31))) >> np.uint64(11)) * 2.0**-53)

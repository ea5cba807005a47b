"""Stack distances: how many other rows are accessed before a row is accessed again (Mattson et al., 1970).

An LRU cache of c rows hits exactly where the distance is below c, so that one pass gives the miss ratios of caches of
every size. Long traces are sampled by rows (SHARDS: Waldspurger et al., FAST'15), here in groups of rows with about
equally many lookups, so that the few rows looked up most are all in the sample.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reference_models.data.traces.trace import CHUNK, Ids

Floats = NDArray[np.float64]
LEAST_OF_GROUP = 1_000
"""Fewest rows that a sample takes of a group of rows with about equally many lookups; all of a smaller group."""
_GOLDEN = 0x9E3779B97F4A7C15


class StackDistances:
    """Stack distances of a stream of accesses; memory grows with distinct rows, not with the stream."""

    def __init__(self) -> None:
        self._keys, self._weights = np.empty(0, np.int64), np.empty(0)  # the stack, its oldest row first

    def update(self, keys: Ids, weights: Floats) -> Floats:
        """Return the stack distances of the next accesses [N], infinite where a row is accessed for the first time.

        `weights` [N], equal for equal keys, say how many rows each row stands for. Without sampling they are 1, and
        distances are whole numbers.
        """
        parts = range(0, len(keys), CHUNK)
        found = [self._update(keys[at : at + CHUNK], weights[at : at + CHUNK]) for at in parts]
        return np.concatenate([np.empty(0), *found])

    def _update(self, keys: Ids, weights: Floats) -> Floats:
        """Return the stack distances of one chunk of accesses, and put its rows on the stack."""
        num_old = len(self._keys)
        keys, weights = np.concatenate((self._keys, keys)), np.concatenate((self._weights, weights))
        order = np.argsort(keys, kind="stable")
        is_again = np.diff(keys[order]) == 0
        last, is_top = np.full(len(keys), -1), np.ones(len(keys), dtype=bool)
        last[order[1:][is_again]] = order[:-1][is_again]
        is_top[order[:-1][is_again]] = False
        sums, previous = np.concatenate(([0.0], np.cumsum(weights))), last[num_old:]
        # Of the accesses since the row's last one, only each other row's first counts.
        distances = sums[num_old:-1] - sums[previous + 1] - _sum_earlier_above(previous, weights[num_old:])
        self._keys, self._weights = keys[is_top], weights[is_top]
        return np.where(previous < 0, np.inf, distances)


def _sum_earlier_above(values: Ids, weights: Floats) -> Floats:
    """Sum for each value the weights of earlier values above it; values differ, or are -1 (without a useful sum).

    Ranks are sorted bit by bit, the highest first: among ranks with equal higher bits, one whose bit is 0 is below
    the earlier ones whose bit is 1. That is a merge sort's count without a loop over values.
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
    """Misses of LRU caches of every size on one trace."""

    num_lookups: int
    num_cold: float
    """First accesses of rows, which every cache misses."""
    distances: Ids
    """Distances that occur, rising, in rows or units [D]."""
    hits: Floats
    """Hits of a cache larger than the first d `distances` and no larger than the next, by d [D + 1]."""

    def misses(self, num_rows: NDArray[np.int64]) -> Floats:
        """Return how many accesses miss caches of `num_rows` rows."""
        return np.asarray(self.num_lookups - self.hits[np.searchsorted(self.distances, num_rows)])

    def find_size(self, hit_rate: float) -> int | None:
        """Return the fewest rows of a cache with at least `hit_rate`; None where no cache has it."""
        number = int(np.searchsorted(self.hits, hit_rate * self.num_lookups))
        if number == 0:
            return 0
        return int(self.distances[number - 1]) + 1 if number < len(self.hits) else None

    def miss_ratio(self, num_rows: int) -> float:
        """Return the share of accesses that miss a cache of `num_rows` rows."""
        return float(self.misses(np.array([num_rows]))[0]) / max(1, self.num_lookups)


class TracedRows(NamedTuple):
    """Rows that a trace looks up, numbered from 0."""

    keys: Ids
    """Keys of the rows, rising [rows]."""
    counts: Ids
    """Lookups of each row [rows]."""
    numbers: Ids
    """Number of each lookup's row [lookups]."""


class RowSample(NamedTuple):
    """Sample of a trace's rows, as weights of rows and lookups; rows outside the sample have 0."""

    rows: Floats
    """Rows that each row stands for, in all the number of rows [rows]."""
    lookups: Floats
    """Lookups that each lookup of a row but its first stands for [rows]."""

    @property
    def share(self) -> float:
        """Return the share of the rows in the sample."""
        return float((self.rows > 0).mean())


def find_rows(keys: Ids) -> TracedRows:
    """Number the rows of a trace of `keys` [lookups], and count their lookups."""
    rows, numbers, counts = np.unique(keys, return_inverse=True, return_counts=True)
    return TracedRows(rows, counts, numbers)


def sample_rows(touched: TracedRows, rate: float, seed: int) -> RowSample:
    """Choose a sample of rows: those of the smallest hashes in each group.

    A group has the rows that are looked up once, twice, 3 to 4, 5 to 8 times, and so on. The sample takes a share
    `rate` of each group, and at least LEAST_OF_GROUP rows. Since each group's rows and lookups are counted exactly,
    estimates never exceed them.
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
    """Measure the miss-ratio curve of a stream of keys: exactly, or from a sample with row numbers as keys.

    Rows are of one size, or of the sizes that `units_of` gives for keys; caches are in units then, and a row is hit
    where it fits together with the rows looked up since.
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
    """Return the curve of accesses with stack distances [N], infinite at first accesses; the rest of `num_lookups`
    hit."""
    is_again = np.isfinite(distances)
    found, counts = np.unique(distances[is_again].astype(np.int64), return_counts=True)
    num_others = num_lookups - len(distances)
    return _sum_hits(num_lookups, float((~is_again).sum()), found, counts.astype(np.float64), num_others)


def _add_up(counted: tuple[Ids, Floats], distances: Ids, lookups: Floats) -> tuple[Ids, Floats]:
    """Add lookups by distance to those counted so far; return distinct distances, rising, and the lookups of each."""
    found, places = np.unique(np.concatenate((counted[0], distances)), return_inverse=True)
    return found, np.asarray(np.bincount(places, np.concatenate((counted[1], lookups))), dtype=np.float64)


def _sum_hits(
    num_lookups: int, num_cold: float, distances: Ids, lookups: Floats, num_others: int = 0
) -> MissRatioCurve:
    """Return the curve of rising distances [D] and the lookups of each; `num_others` more hit in every cache."""
    hits = np.concatenate(([0.0], np.cumsum(lookups))) + num_others
    return MissRatioCurve(num_lookups=num_lookups, num_cold=num_cold, distances=distances, hits=hits)


def hash_keys(keys: Ids, seed: int) -> Floats:
    """Return a hash in [0, 1) of each key, by SplitMix64 of key and seed."""
    mixed = keys.astype(np.uint64) + np.uint64((seed + 1) * _GOLDEN % (1 << 64))
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(((mixed ^ (mixed >> np.uint64(31))) >> np.uint64(11)) * 2.0**-53)

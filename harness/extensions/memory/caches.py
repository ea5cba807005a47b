"""Compute the misses of caches of embedding rows: when a cache is warm, how large it must be, and how tables share
its memory.

Misses of LRU caches are exact, from stack distances; caches of other policies are simulated.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from harness.extensions.memory.policies import LRU, POLICIES, Flags, number_rows
from reference_models.data.traces.stack_distances import MissRatioCurve, StackDistances, make_curve
from reference_models.data.traces.trace import AccessTrace

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]

_FINEST, _STEPS = 2.0**-8, 33
_MOST_UNITS = 1 << 12
"""Maximum number of steps into which `fit_sizes` divides a memory budget in rows; in larger budgets table sizes are
rounded up to a step."""
TENTHS = 5
"""Maximum length of the warm-up that is chosen where the user gives none, in tenths of a trace's samples. In the
warm-up, lookups fill the caches and misses are not counted."""
_FLAT = 0.005
"""Largest absolute difference between the miss ratios of a warm cache and of the trace's second half at which the
cache counts as warmed up."""
_FLAT_SHARE = 0.02
"""Largest difference between the miss ratios of a warm cache and of the trace's second half, as a fraction of the
latter, at which the cache counts as warmed up. `_FLAT` must hold, too."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Cache:
    """A cache of embedding rows in DRAM: one for all tables, or a cache of its own for each table."""

    num_rows: int
    """Capacity in embedding rows; in units of AccessTrace.unit_bytes bytes where rows of tables differ in size."""
    share: float | None
    """Capacity as a share of the rows of the tables that a slower memory holds; None where there is no cache."""
    words: str = ""
    """Name of the cache in tables and sentences, such as 'cache of 5 % of the rows'; empty without a cache."""
    of_tables: tuple[int, ...] | None = None
    """Rows of the cache that each table has for itself [tables]; None where one cache serves all tables."""
    policy: str = LRU
    """Replacement policy of the cache, a key of POLICIES, such as 'lru'."""

    @property
    def phrase(self) -> str:
        """Return the name of the cache with its article, such as 'a cache of 5 % of the rows'."""
        return f"a {self.words}" if self.of_tables is None else self.words


class MissCurve(Protocol):
    """Misses of one embedding table's lookups as a function of the size of its row cache."""

    @property
    def num_lookups(self) -> int: ...

    def misses(self, num_rows: Ids) -> Floats:
        """Return the number of lookups that miss a cache, for each of several sizes `num_rows` in rows [sizes]."""
        ...

    def miss_ratio(self, num_rows: int) -> float:
        """Return the share of lookups that miss a cache of `num_rows` rows."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class SimulatedCurve:
    """Misses of one embedding table's lookups under one replacement policy, simulated for each cache size asked
    for."""

    num_lookups: int
    count_misses: Callable[[int], int]
    """Simulate a cache of the given number of rows, and return the number of lookups that miss it."""

    def misses(self, num_rows: Ids) -> Floats:
        return np.array([self.count_misses(size) for size in num_rows.tolist()], dtype=np.float64)

    def miss_ratio(self, num_rows: int) -> float:
        return float(self.misses(np.array([num_rows]))[0]) / max(1, self.num_lookups)


class RemoteLookups:
    """Lookups of embedding rows on devices of a slower memory, in the order of the trace, with their stack distances.

    Rows in local DRAM have device -1 and reach no cache. A sample is here one query of the trace. `are_below` says
    for each table whether its rows are in the slower memory; None means all tables. Only lookups of these tables
    count in miss ratios, and all lookups of other tables must have device -1. If rows differ in size between tables,
    distances and capacities are in the trace's units of bytes.
    """

    def __init__(
        self,
        trace: AccessTrace,
        keys: Ids,
        tables: Ids,
        samples: Ids,
        devices: Ids,
        are_below: Sequence[bool] | None = None,
    ) -> None:
        is_remote = devices >= 0
        per_query = trace.samples_per_query
        self.num_tables, self.num_samples = len(trace.num_rows), trace.num_bags // per_query
        self.num_bags = self.num_tables * per_query
        self.keys, self.tables, self.samples, self.devices = (
            each[is_remote] for each in (keys, tables, samples // per_query, devices)
        )
        self.bags = samples[is_remote] % per_query * self.num_tables + self.tables
        self.units = np.array(trace.row_units)[self.tables]
        self._of_tables = np.diff(trace.offsets).reshape(self.num_tables, self.num_samples, per_query).sum(axis=2)
        if are_below is not None:
            self._of_tables *= np.asarray(are_below)[:, None]
        self._simulated = dict[tuple[Cache, int], Flags]()
        self._numbered = dict[int, tuple[list[int], list[int]]]()

    @cached_property
    def distances(self) -> Floats:
        """Stack distance of each lookup in one cache for the rows of all tables [lookups]."""
        distances = StackDistances().update(self.keys, self.units.astype(np.float64))
        return np.asarray(distances + (self.units - 1))

    @cached_property
    def own_distances(self) -> Floats:
        """Stack distance of each lookup in a cache that only its own table uses [lookups]."""
        found = np.empty(len(self.keys))
        for table in range(self.num_tables):
            is_own = self.tables == table
            found[is_own] = StackDistances().update(self.keys[is_own], np.ones(int(is_own.sum())))
        return found

    def missed(self, cache: Cache, first: int) -> Flags:
        """Return whether each lookup misses a cache [lookups]; samples before `first` choose the rows of a static
        cache."""
        if cache.policy != LRU:
            if (cache, first) not in self._simulated:
                self._simulated[cache, first] = self._simulate(cache, first)
            return self._simulated[cache, first]
        if cache.of_tables is not None:
            return np.asarray(self.own_distances >= np.asarray(cache.of_tables, dtype=np.float64)[self.tables])
        return self.distances >= cache.num_rows if cache.num_rows else np.ones(len(self.keys), dtype=bool)

    def _simulate(self, cache: Cache, first: int) -> Flags:
        if cache.of_tables is None:
            find_misses, start = POLICIES[cache.policy].find_misses, int(np.searchsorted(self.samples, first))
            return find_misses(*number_rows(self.keys, self.units), cache.num_rows, start)
        found = np.ones(len(self.keys), dtype=bool)
        for table, size in enumerate(cache.of_tables):
            found[self.tables == table] = self._simulate_table(table, cache.policy, size, first)
        return found

    def _simulate_table(self, table: int, policy: str, size: int, first: int) -> Flags:
        """Return whether each lookup of a table misses the table's own cache of `size` rows [lookups of the
        table]."""
        is_own = self.tables == table
        if table not in self._numbered:
            self._numbered[table] = number_rows(self.keys[is_own], np.ones(int(is_own.sum()), np.int64))
        start = int(np.searchsorted(self.samples[is_own], first))
        return POLICIES[policy].find_misses(*self._numbered[table], size, start)

    def simulated_curve(self, first: int, table: int, policy: str) -> SimulatedCurve:
        """Return a table's misses by cache size under a replacement policy, counted from sample `first` on; lookups
        of rows in local DRAM count as hits."""
        num_before = int(np.searchsorted(self.samples[self.tables == table], first))

        @cache
        def count(size: int) -> int:
            return int(self._simulate_table(table, policy, size, first)[num_before:].sum())

        return SimulatedCurve(num_lookups=int(self._of_tables[table, first:].sum()), count_misses=count)

    def miss_ratio(self, missed: Flags, first: int = 0, stop: int | None = None) -> float:
        """Return the share of lookups of samples `first` to `stop` that miss; lookups of rows in local DRAM count as
        hits."""
        num_lookups = int(self._of_tables[:, first:stop].sum())
        begin, end = np.searchsorted(self.samples, (first, self.num_samples if stop is None else stop))
        return float(missed[begin:end].sum()) / max(1, num_lookups)

    def curve(self, first: int, table: int | None = None) -> MissRatioCurve:
        """Return the LRU miss ratio by cache size, of one table, or of all if `table` is None. Only samples from
        `first` on are counted. Lookups of rows in local DRAM count as hits."""
        is_counted = self.samples >= first
        if table is not None:
            is_counted &= self.tables == table
        of_samples = self._of_tables if table is None else self._of_tables[table : table + 1]
        num_lookups = int(of_samples[:, first:].sum())
        distances = (self.distances if table is None else self.own_distances)[is_counted]
        return make_curve(distances, num_lookups)

    def first_of(self, tenths: int) -> int:
        """Return the index of the first sample after `tenths` tenths of the trace."""
        return self.num_samples * tenths // 10

    def is_flat(self, missed: Flags, tenths: int) -> bool:
        """Return whether the miss ratio after `tenths` tenths of the trace is near enough to the miss ratio of the
        trace's second half."""
        half = self.miss_ratio(missed, self.first_of(TENTHS))
        return abs(self.miss_ratio(missed, self.first_of(tenths)) - half) <= min(_FLAT, _FLAT_SHARE * half)

    def late_ratios(self, missed: Flags) -> tuple[float, float] | None:
        """Return the miss ratios of the trace's third and fourth quarter if the fourth is clearly lower, so that the
        cache is not yet warm; None otherwise."""
        half, last = self.first_of(TENTHS), self.num_samples * 3 // 4
        third, fourth = self.miss_ratio(missed, half, last), self.miss_ratio(missed, last)
        return (third, fourth) if third - fourth > max(_FLAT, 2 * _FLAT_SHARE * third) else None


def grid_sizes(num_rows: int, load_factor: float) -> NDArray[np.int64]:
    """Return the sizes to try for the row cache of a table of `num_rows` rows, in rows, rising: 0, the share
    `load_factor` of the rows, all rows, and sizes between."""
    factors = np.geomspace(_FINEST * load_factor, 1.0, _STEPS) if load_factor else [0.0, 1.0]
    return np.unique((np.array([0.0, load_factor, *factors]) * num_rows).astype(np.int64))


def fit_sizes(
    sizes: Sequence[NDArray[np.int64]], misses: Sequence[NDArray[np.float64]], max_rows: int
) -> tuple[int, ...]:
    """Choose a cache size for each table, so that the sum of misses is minimal and all caches together have at most
    `max_rows` rows.

    `sizes` [tables][choices] are the sizes in rows from which each table can choose, rising from 0; `misses`
    [tables][choices] has the misses at each size. The sizes are found by dynamic programming, which is exact if
    `max_rows` is at most 4,096.
    """
    unit = -(-max_rows // _MOST_UNITS) or 1
    left = max_rows // unit
    best, chosen, costs = np.zeros(left + 1), [], [-(-each // unit) for each in sizes]
    for of_table, missed in zip(costs, misses, strict=True):
        options = np.full((len(of_table), len(best)), np.inf)
        for option, cost in zip(options, of_table.tolist(), strict=True):
            option[cost:] = best[: max(0, len(best) - cost)]
        options += missed[:, None]
        chosen.append(np.argmin(options, axis=0))
        best = options.min(axis=0)
    found = []
    for table in reversed(range(len(sizes))):
        choice = chosen[table][left]
        found.append(int(sizes[table][choice]))
        left -= int(costs[table][choice])
    return tuple(reversed(found))


def fit_caches(
    curves: Sequence[MissCurve], num_rows: Sequence[int], max_rows: int, units: Sequence[int] | None = None
) -> tuple[tuple[int, ...], ...]:
    """Divide a cache among tables in two ways: with fewest misses, and with the same share of each table's rows.
    Return both divisions, each as the number of rows in each table's cache [tables].

    `max_rows` is the cache's size in rows. If tables differ in row size, `units` [tables] has the size of a row of
    each table, and `max_rows` is in the unit of `units`.
    """
    sizes_of = [1] * len(num_rows) if units is None else units
    factor = min(1.0, max_rows / sum(num * size for num, size in zip(num_rows, sizes_of, strict=True)))
    uniform = tuple(int(factor * num) for num in num_rows)
    if factor == 1.0:  # all rows fit
        return uniform, uniform
    sizes = [grid_sizes(num, factor) for num in num_rows]
    misses = [curve.misses(each) for curve, each in zip(curves, sizes, strict=True)]
    in_units = fit_sizes([each * size for each, size in zip(sizes, sizes_of, strict=True)], misses, max_rows)
    fitted = tuple(each // size for each, size in zip(in_units, sizes_of, strict=True))
    return min(fitted, uniform, key=lambda chosen: count_misses(curves, chosen)), uniform


def count_misses(curves: Sequence[MissCurve], sizes: Sequence[int]) -> float:
    """Return the number of misses of all tables together, each table with a cache of its own of the size in
    `sizes`."""
    return sum(float(curve.misses(np.array([size]))[0]) for curve, size in zip(curves, sizes, strict=True))

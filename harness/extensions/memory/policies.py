"""Simulate row caches of several replacement policies over a trace of embedding lookups, lookup by lookup.

A cache sees the whole trace, but its misses are counted only after a warm-up; in the command `trace`, the warm-up is
the first half of the trace. The policy of a fixed set of rows chooses the set by the lookups of the warm-up, so it is
not judged by the lookups from which it chose.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reference_models.data.traces.trace import Ids

Flags = NDArray[np.bool_]


class CachePolicy(NamedTuple):
    """Replacement policy of a cache of embedding rows: its name in tables and sentences, and the function that
    simulates it."""

    title: str
    find_misses: Callable[[Sequence[int], Sequence[int], int, int], Flags]
    """Function that simulates a cache and returns for each lookup whether it misses [lookups]. Its arguments are the
    rows' keys [lookups], the size in units of the row of each key, the capacity in units, and the first lookup that
    counts."""


def find_lru_misses(keys: Sequence[int], units: Sequence[int], capacity: int, start: int) -> Flags:
    """Return whether each lookup misses an LRU cache, which evicts the row looked up longest ago [lookups].

    `units` has each row's size by its key, `capacity` is in the same units; `start` is not used.
    """
    cache, used, missed = OrderedDict[int, None](), 0, bytearray(len(keys))
    for number, key in enumerate(keys):
        if key in cache:
            cache.move_to_end(key)
            continue
        missed[number] = 1
        if (own := units[key]) > capacity:
            continue
        used += own
        while used > capacity:
            used -= units[cache.popitem(last=False)[0]]
        cache[key] = None
    return np.frombuffer(missed, dtype=np.bool_)


def find_lfu_misses(keys: Sequence[int], units: Sequence[int], capacity: int, start: int) -> Flags:
    """Return whether each lookup misses a cache of LFU with dynamic ageing (Arlitt et al., 2000) [lookups].

    A row's priority is its number of lookups since it entered the cache, plus the cache's age at the row's last
    lookup. The row of least priority is evicted; among equals, the row that has had this priority longest. The
    priority of the evicted row becomes the cache's age. `start` is not used.
    """
    uses, priorities, rows_of = dict[int, int](), dict[int, int](), dict[int, dict[int, None]]()
    age, used, missed = 0, 0, bytearray(len(keys))

    def take(key: int) -> None:
        priority = priorities.pop(key)
        del rows_of[priority][key]
        if not rows_of[priority]:
            del rows_of[priority]

    for number, key in enumerate(keys):
        if key in priorities:
            take(key)
        else:
            missed[number] = 1
            if (own := units[key]) > capacity:
                continue
            used += own
            while used > capacity:
                while age not in rows_of:
                    age += 1
                victim = next(iter(rows_of[age]))
                take(victim)
                used -= units[victim]
            uses[key] = 0
        uses[key] += 1
        priorities[key] = age + uses[key]
        rows_of.setdefault(priorities[key], {})[key] = None
    return np.frombuffer(missed, dtype=np.bool_)


def find_static_misses(keys: Sequence[int], units: Sequence[int], capacity: int, start: int) -> Flags:
    """Return whether each lookup misses a cache with a fixed content [lookups]. The cache is filled at lookup
    `start`; all lookups before it miss.

    Its content is the rows that the lookups before `start` use most per unit of size, as many as fit the `capacity`.
    """
    whole, sizes = np.asarray(keys), np.asarray(units)
    rows, counts = np.unique(whole[:start], return_counts=True)
    rows = rows[np.argsort(-counts / sizes[rows], kind="stable")]
    kept = rows[np.cumsum(sizes[rows]) <= capacity]
    return np.concatenate((np.ones(start, dtype=bool), ~np.isin(whole[start:], kept)))


LRU = "lru"
POLICIES: Mapping[str, CachePolicy] = {
    LRU: CachePolicy("LRU", find_lru_misses),
    "lfu": CachePolicy("LFU with ageing", find_lfu_misses),
    "static": CachePolicy("static", find_static_misses),
}


def number_rows(keys: Ids, units: Ids) -> tuple[list[int], list[int]]:
    """Number the distinct rows of `keys` [lookups] from 0. Return the number of each lookup's row [lookups], and the
    size of each row [rows]. `units` [lookups] has the sizes of the looked-up rows."""
    _, first, numbers = np.unique(keys, return_index=True, return_inverse=True)
    return numbers.tolist(), units[first].tolist()


def miss_ratios(keys: Ids, units: Ids, capacities: Sequence[int], names: Sequence[str]) -> dict[str, list[float]]:
    """Simulate a cache for each policy in `names` and each capacity (in units). Return a dict from policy to the miss
    ratios in the second half of the lookups, one for each capacity.

    `keys` [lookups] are the rows in the order of lookups, `units` [lookups] their sizes.
    """
    start, (order, sizes) = len(keys) // 2, number_rows(keys, units)
    return {
        name: [float(POLICIES[name].find_misses(order, sizes, each, start)[start:].mean()) for each in capacities]
        for name in names
    }

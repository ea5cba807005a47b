"""What caches of several policies miss: each kept over a trace, lookup by lookup.

A cache sees the whole trace, and the misses after its start count (of `trace` those of the second half), so that none
is empty then and a static set is judged by lookups that it was not chosen by.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reference_models.data.traces.trace import Ids

Flags = NDArray[np.bool_]


class Policy(NamedTuple):
    """A rule by which a cache gives up rows."""

    title: str
    find_misses: Callable[[Sequence[int], Sequence[int], int, int], Flags]
    """(keys [lookups], units of the row of each key, units of the cache, the first lookup that counts) -> whether
    each lookup misses [lookups]."""


def find_lru_misses(keys: Sequence[int], units: Sequence[int], capacity: int, start: int) -> Flags:
    """Find the misses of a cache that gives up the row whose last lookup is longest ago; `start` changes nothing."""
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
    """Find the misses of LFU with dynamic ageing (Arlitt et al., 2000); `start` changes nothing.

    A row's priority is how often it was looked up since it came, and the cache's age when it was last; the row of the
    least, and of these the one that has had it longest, is given up, and its priority is the cache's age then.
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
    """Find the misses of rows that are in the cache from lookup `start` on and never given up; all before it miss.

    They are those of the most lookups a unit before `start`, as many as there is room for.
    """
    whole, sizes = np.asarray(keys), np.asarray(units)
    rows, counts = np.unique(whole[:start], return_counts=True)
    rows = rows[np.argsort(-counts / sizes[rows], kind="stable")]
    kept = rows[np.cumsum(sizes[rows]) <= capacity]
    return np.concatenate((np.ones(start, dtype=bool), ~np.isin(whole[start:], kept)))


LRU = "lru"
POLICIES: Mapping[str, Policy] = {
    LRU: Policy("LRU", find_lru_misses),
    "lfu": Policy("LFU with ageing", find_lfu_misses),
    "static": Policy("static", find_static_misses),
}


def number_rows(keys: Ids, units: Ids) -> tuple[list[int], list[int]]:
    """Number the rows of `keys` [lookups] from 0: the number of each lookup's row, and the units of each row.

    `units` [lookups] are how many the row of each lookup has.
    """
    _, first, numbers = np.unique(keys, return_index=True, return_inverse=True)
    return numbers.tolist(), units[first].tolist()


def miss_ratios(keys: Ids, units: Ids, capacities: Sequence[int], names: Sequence[str]) -> dict[str, list[float]]:
    """Simulate caches of so many units each; return by policy which share of the second half each misses.

    `keys` [lookups] are in their order, `units` [lookups] are how many the row of each has.
    """
    start, (order, sizes) = len(keys) // 2, number_rows(keys, units)
    return {
        name: [float(POLICIES[name].find_misses(order, sizes, each, start)[start:].mean()) for each in capacities]
        for name in names
    }

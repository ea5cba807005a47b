"""What caches of other policies than LRU miss: each kept over a trace, lookup by lookup.

A cache sees the whole trace, and the misses of its second half count, so that none is empty then and a static set is
judged by lookups that it was not chosen by.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from reference_models.data.traces.trace import Ids


class Policy(NamedTuple):
    """A rule by which a cache gives up rows."""

    title: str
    count_misses: Callable[[Sequence[int], Sequence[int], int, int], int]
    """(keys, units of the row of each key, units of the cache, the first lookup that counts) -> misses."""


def count_lru(keys: Sequence[int], units: Sequence[int], capacity: int, start: int) -> int:
    """Count the misses from lookup `start` on of a cache that gives up the row whose last lookup is longest ago."""
    cache, used, misses = OrderedDict[int, None](), 0, 0
    for number, key in enumerate(keys):
        if key in cache:
            cache.move_to_end(key)
            continue
        misses += number >= start
        if (own := units[key]) > capacity:
            continue
        used += own
        while used > capacity:
            used -= units[cache.popitem(last=False)[0]]
        cache[key] = None
    return misses


def count_lfu(keys: Sequence[int], units: Sequence[int], capacity: int, start: int) -> int:
    """Count the misses from lookup `start` on of LFU with dynamic ageing (Arlitt et al., 2000).

    A row's priority is how often it was looked up since it came, and the cache's age when it was last; the row of the
    least, and of these the one that has had it longest, is given up, and its priority is the cache's age then.
    """
    uses, priorities, rows_of = dict[int, int](), dict[int, int](), dict[int, dict[int, None]]()
    age = used = misses = 0

    def take(key: int) -> None:
        priority = priorities.pop(key)
        del rows_of[priority][key]
        if not rows_of[priority]:
            del rows_of[priority]

    for number, key in enumerate(keys):
        if key in priorities:
            take(key)
        else:
            misses += number >= start
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
    return misses


def count_static(keys: Sequence[int], units: Sequence[int], capacity: int, start: int) -> int:
    """Count the misses from lookup `start` on of rows that are never given up.

    They are those of the most lookups a unit before `start`, as many as there is room for.
    """
    whole, sizes = np.asarray(keys), np.asarray(units)
    rows, counts = np.unique(whole[:start], return_counts=True)
    rows = rows[np.argsort(-counts / sizes[rows], kind="stable")]
    kept = rows[np.cumsum(sizes[rows]) <= capacity]
    return int((~np.isin(whole[start:], kept)).sum())


POLICIES: Mapping[str, Policy] = {
    "lru": Policy("LRU", count_lru),
    "lfu": Policy("LFU with ageing", count_lfu),
    "static": Policy("static", count_static),
}


def miss_ratios(keys: Ids, units: Ids, capacities: Sequence[int], names: Sequence[str]) -> dict[str, list[float]]:
    """Simulate caches of so many units each; return by policy which share of the second half each misses.

    `keys` [lookups] are in their order, `units` [lookups] are how many the row of each has.
    """
    start = len(keys) // 2
    _, first, listed = np.unique(keys, return_index=True, return_inverse=True)
    sizes, order = units[first].tolist(), listed.tolist()
    return {
        name: [POLICIES[name].count_misses(order, sizes, each, start) / (len(keys) - start) for each in capacities]
        for name in names
    }

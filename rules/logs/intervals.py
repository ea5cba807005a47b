"""Arithmetic on time intervals: unions and differences of (start, stop) pairs."""

from collections.abc import Iterable

Interval = tuple[float, float]


def union(intervals: Iterable[Interval], *, low: float, high: float) -> tuple[Interval, ...]:
    """Disjoint sorted intervals that cover the same time within [low, high]."""
    merged: list[Interval] = []
    for start, stop in sorted((max(a, low), min(b, high)) for a, b in intervals):
        if stop <= start:
            continue
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], stop))
        else:
            merged.append((start, stop))
    return tuple(merged)


def length(intervals: Iterable[Interval]) -> float:
    return sum(stop - start for start, stop in intervals)


def overlap(some: tuple[Interval, ...], others: tuple[Interval, ...]) -> float:
    """Time that lies in both; each argument is disjoint and sorted, as `union` returns."""
    total, i, j = 0.0, 0, 0
    while i < len(some) and j < len(others):
        start, stop = max(some[i][0], others[j][0]), min(some[i][1], others[j][1])
        total += max(0.0, stop - start)
        if some[i][1] <= others[j][1]:
            i += 1
        else:
            j += 1
    return total

"""Measure service times: the seconds of calls of the model while no query waits, from which queues are simulated."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from math import gcd
from typing import TypeAlias

import numpy as np

from harness.extensions.serving.worker_pool import Answer, QueryPart, split_query, switching_often
from harness.foundation.queue_simulation import ServiceTimes, Workers

NUM_SIZES = 6
"""Number of query sizes (items in a query, from the smallest to the largest of the pool) whose calls of the model are
timed."""
MIN_CALLS = 5
"""Minimum number of timed calls of each size on each worker, however long the calls take."""
_GOLDEN_SECTION = 0.618
"""Stride, as a share of a list's length, with which elements of the list are taken so that they are spread evenly
over the list."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TimedSize:
    """Timed calls of one size: the items and the queries (or parts of queries) of a call, and the seconds of each
    call."""

    items: int
    num_queries: int
    seconds: tuple[float, ...]

    @property
    def mean_s(self) -> float:
        return sum(self.seconds) / len(self.seconds)


Calls: TypeAlias = Sequence[tuple[QueryPart, ...]]


def choose_calls(sizes: Sequence[int], workers: Workers) -> Calls:
    """Choose the calls of the model to time, for queries of `sizes` items (candidates to rank). Some have a part of a
    single query; others have parts of several, merged up to the maximum number of items in a call."""
    max_items = workers.max_items
    parts = [part for place, items in enumerate(sizes) for part in split_query(place, items, workers)]
    in_order = sorted(parts, key=lambda part: part.items)
    places = np.linspace(0, len(parts) - 1, min(NUM_SIZES, len(parts))).round().astype(int)
    alone: dict[int, tuple[QueryPart, ...]] = {}
    for place in places.tolist():
        alone.setdefault(in_order[place].items, (in_order[place],))
    calls, most = list(alone.values()), 2 * in_order[0].items
    while max_items is not None and most <= max_items:
        most = max_items if 2 * most > max_items else most  # the last call is as full as allowed
        calls.append(_merge_parts(in_order, most))
        most *= 2
    return [call for number, call in enumerate(calls) if number < len(alone) or len(call) > 1]


def choose_all_calls(sizes: Sequence[int], most: int) -> Calls:
    """Choose calls of the model to time, of 1, 2, 4 … items (candidates to rank) up to `most`, from which the times
    of all merged and split calls follow."""
    in_order = sorted((QueryPart(place, 0, items) for place, items in enumerate(sizes)), key=lambda part: part.items)
    largest = in_order[-1]
    counts = [1 << power for power in range(most.bit_length()) if 1 << power < most] + [most]
    return [
        (replace(largest, stop=count),) if count <= largest.items else _merge_parts(in_order, count)
        for count in counts
    ]


def _merge_parts(in_order: Sequence[QueryPart], most: int) -> tuple[QueryPart, ...]:
    """Merge queries of different sizes into one call of at most `most` items, and return their parts. Queries are
    taken evenly from all sizes, repeatedly if there are too few to fill the call."""
    merged: list[QueryPart] = []
    stride = max(1, round(len(in_order) * _GOLDEN_SECTION))
    while gcd(stride, len(in_order)) != 1:
        stride += 1
    place, left = 0, most
    while in_order[place].items <= left:
        merged.append(in_order[place])
        left -= in_order[place].items
        place = (place + stride) % len(in_order)
    return tuple(merged)


def time_calls(
    answer: Answer,
    calls: Calls,
    num_workers: int,
    duration_s: float,
    now_s: Callable[[], float] = time.perf_counter,
) -> list[TimedSize]:
    """Time every call of the model repeatedly for `duration_s` seconds, on all workers at once, after a warm-up.

    Calls of different sizes alternate, so that noise of the system affects all sizes alike.
    """
    took: list[list[float]] = [[] for _ in calls]

    def work() -> None:
        for call in calls:
            answer(call)
        started_s, rounds = now_s(), 0
        while rounds < MIN_CALLS or now_s() - started_s < duration_s:
            rounds += 1
            for call, seconds in zip(calls, took, strict=True):
                begin_s = now_s()
                answer(call)
                seconds.append(now_s() - begin_s)

    with switching_often(), ThreadPoolExecutor(num_workers) as crew:
        for done in [crew.submit(work) for _ in range(num_workers)]:
            done.result()
    return [
        TimedSize(items=sum(part.items for part in call), num_queries=len(call), seconds=tuple(seconds))
        for call, seconds in zip(calls, took, strict=True)
    ]


def fit_service(timed: Sequence[TimedSize], max_items: int) -> ServiceTimes:
    """Return how long calls of the model take, in two parts. The first part is the mean seconds of a call for each
    number of items (candidates to rank). The second part is the variation: the seconds of each timed call, divided by
    the mean of all timed calls with as many items.

    Means between timed numbers of items are interpolated. Means beyond the largest timed number are extrapolated from
    the two largest ones.
    """
    by_items: dict[int, list[float]] = {}
    for size in timed:
        by_items.setdefault(size.items, []).extend(size.seconds)
    items = np.array(sorted(by_items), dtype=np.float64)
    means = np.array([float(np.mean(by_items[int(number)])) for number in items])
    asked = np.arange(max_items + 1, dtype=np.float64)
    table = np.interp(asked, items, means)
    if len(items) > 1:
        slope = max(0.0, (means[-1] - means[-2]) / (items[-1] - items[-2]))
        table = np.where(asked > items[-1], means[-1] + slope * (asked - items[-1]), table)
    factors = np.concatenate([np.asarray(size.seconds) / size.mean_s for size in timed])
    return ServiceTimes(by_items_s=table, factors=factors)

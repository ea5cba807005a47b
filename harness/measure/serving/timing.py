"""Service times: how long calls take while no query waits, which is all that the virtual clock needs to know."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from harness.measure.serving.queue import ServiceTimes, Workers

NUM_SIZES = 6
"""Sizes of queries that are timed, from the smallest to the largest of the pool."""
MIN_CALLS = 5
"""Of each size and worker, however long they take."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TimedSize:
    """Calls of one size: what `queries` of the pool hold together, and how long each call took."""

    items: int
    num_queries: int
    seconds: tuple[float, ...]

    @property
    def mean_s(self) -> float:
        return sum(self.seconds) / len(self.seconds)


def choose_calls(sizes: Sequence[int], max_batch: int) -> list[tuple[int, ...]]:
    """Choose the calls to time, as places in a pool of queries of `sizes` items: single queries and merged ones."""
    in_order = sorted(range(len(sizes)), key=lambda place: sizes[place])
    places = np.linspace(0, len(sizes) - 1, min(NUM_SIZES, len(sizes))).round().astype(int)
    calls: list[tuple[int, ...]] = [(in_order[place],) for place in dict.fromkeys(places.tolist())]
    merged = 2
    while max_batch > 1:
        merged = min(merged, max_batch)
        step = max(1, len(sizes) // merged)
        calls.append(tuple(in_order[(step // 2 + index * step) % len(sizes)] for index in range(merged)))
        if merged == max_batch:
            calls.append((in_order[-1],) * max_batch)
            break
        merged *= 2
    return calls


def time_calls(
    answer: Callable[[Sequence[int]], object],
    sizes: Sequence[int],
    workers: Workers,
    duration_s: float,
    now_s: Callable[[], float] = time.perf_counter,
) -> list[TimedSize]:
    """Time every call of `choose_calls` again and again for `duration_s`, on all workers at once; after a warm-up.

    The calls take turns, so that whatever the system does meanwhile weighs on all sizes alike.
    """
    calls = choose_calls(sizes, workers.max_batch)
    took: list[list[float]] = [[] for _ in calls]
    failures: list[BaseException] = []

    def work() -> None:
        try:
            for call in calls:
                answer(call)
            started_s, rounds = now_s(), 0
            while rounds < MIN_CALLS or now_s() - started_s < duration_s:
                rounds += 1
                for call, seconds in zip(calls, took, strict=True):
                    begin_s = now_s()
                    answer(call)
                    seconds.append(now_s() - begin_s)
        except BaseException as error:
            failures.append(error)

    crew = [threading.Thread(target=work, daemon=True) for _ in range(workers.count)]
    for worker in crew:
        worker.start()
    for worker in crew:
        worker.join()
    if failures:
        raise failures[0]
    return [
        TimedSize(items=sum(sizes[place] for place in call), num_queries=len(call), seconds=tuple(seconds))
        for call, seconds in zip(calls, took, strict=True)
    ]


def fit_service(timed: Sequence[TimedSize], max_items: int) -> ServiceTimes:
    """Interpolate the mean time over the items of a call; the factors are what each call took over its size's mean.

    Beyond the largest call that was timed the time grows as between the last two.
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

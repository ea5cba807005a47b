"""Simulate a queue of queries, without a real clock, to find when each query is answered. A query asks a model to
rank a number of items. The simulation starts from given arrival times and service times.

The simulation is exact for one first-come-first-served queue with identical workers. One call of the model may have a
largest number of items. Then queries are merged into a call up to this number, while the first of them has waited
less than a time limit. A larger query is split into parts, which any worker takes. A split query is answered when its
last part is.
"""

import heapq
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Times = NDArray[np.float64]
_LONELY = 1e-4
"""Mean number of queries that arrive during the longest call of the model, in a simulation in which queries
practically never wait for one another."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Workers:
    """Workers, `count` of them, that answer a queue of queries by calling a model. If `max_items` is None, a call
    holds a single query. Otherwise a call holds several queries, with at most `max_items` items (samples for the
    model) in all.

    A call is full when it has `max_items` items, or when the next query in the queue (or part of a query) no longer
    fits. A free worker waits until its call is full, but no longer than until the first query of the call is `wait_s`
    seconds old. A query of at least `split_from` items is split into a part for each worker, even if one call could
    hold the whole query. Parts of one query are never in the same call.
    """

    count: int = 1
    max_items: int | None = None
    wait_s: float = 0.0
    split_from: int | None = None

    def split(self, items: int) -> list[int]:
        """Return the numbers of items of the parts into which a query of `items` items is split; one number where it
        is not split. Parts are as few as possible, and their sizes differ by one item at most."""
        num_parts = 1 if self.max_items is None else -(-items // self.max_items)
        if self.split_from is not None and items >= self.split_from:
            num_parts = min(items, max(num_parts, self.count))
        return [items // num_parts + (number < items % num_parts) for number in range(num_parts)]


@dataclass(frozen=True, kw_only=True, slots=True)
class ServiceTimes:
    """Duration of a call of the model: `by_items_s[n]` is the mean duration in seconds for n items. It is multiplied
    by one of the `factors`, which describe how the durations of calls of equal size vary."""

    by_items_s: Times
    factors: Times
    """Measured durations of calls of the model, each divided by the mean duration of calls with as many items; a
    simulation draws from these values."""

    def of(self, items: NDArray[np.int64], factors: Times) -> Times:
        """Return the seconds that each query would take in a call of its own: the mean for its number of items, times
        the query's factor (variation of that time)."""
        return np.asarray(self.by_items_s[items] * factors, dtype=np.float64)


@dataclass(frozen=True, kw_only=True, slots=True)
class Traffic:
    """Queries of a simulation, with arrival times and numbers of items, at a mean rate of one query per second. For
    another rate the same queries are used with scaled arrival times."""

    arrivals_s: Times
    items: NDArray[np.int64]
    factors: Times
    """Factor for each query by which the call that begins with it lasts longer than the mean of calls with as many
    items."""


def draw_traffic(num_queries: int, sizes: Sequence[int], service: ServiceTimes, seed: int) -> Traffic:
    """Draw the queries of a simulation: Poisson arrivals, a random order of the `sizes` (items per query), and a
    random order of the measured factors (duration of a call divided by the mean for its size).

    The offered load must be exactly the requested one, since its random deviations would dominate the result. So the
    times between arrivals are scaled to a mean of exactly one second, and every size and every factor occurs equally
    often.
    """
    arrivals, items, factors = (np.random.default_rng((seed, stream)) for stream in range(3))
    gaps_s = arrivals.exponential(size=num_queries)
    return Traffic(
        arrivals_s=np.cumsum(gaps_s / gaps_s.mean()),
        items=items.permutation(np.resize(np.asarray(sizes, dtype=np.int64), num_queries)),
        factors=factors.permutation(np.resize(service.factors, num_queries)),
    )


def replay_traffic(items: Sequence[int], arrivals_s: Sequence[float], service: ServiceTimes, seed: int) -> Traffic:
    """Return a simulation's queries with the recorded arrival times `arrivals_s`, scaled to a mean rate of one query
    per second. Service times vary by factors, each the duration of a call divided by the mean for its size; `seed`
    gives them a random order."""
    moments_s = np.asarray(arrivals_s, dtype=np.float64)
    moments_s -= moments_s[0]
    factors = np.random.default_rng((seed, 2)).permutation(np.resize(service.factors, len(items)))
    return Traffic(
        arrivals_s=moments_s * (len(items) - 1) / moments_s[-1],
        items=np.asarray(items, dtype=np.int64),
        factors=factors,
    )


def simulate(traffic: Traffic, rate: float, service: ServiceTimes, workers: Workers) -> Times:
    """Return the seconds from each query's arrival to its answer in a simulation at `rate` queries per second."""
    arrivals_s = traffic.arrivals_s / rate
    if workers.max_items is None:
        finished_s = finish_singly(arrivals_s, service.of(traffic.items, traffic.factors), workers.count)
    else:
        finished_s = finish_batches(arrivals_s, traffic.items, traffic.factors, service, workers)
    return finished_s - arrivals_s


def answer_alone(traffic: Traffic, service: ServiceTimes, workers: Workers) -> Times:
    """Return the seconds from each query's arrival to its answer where the rate of queries is so low that they
    practically never wait for one another."""
    return simulate(traffic, _LONELY / float(service.by_items_s.max()), service, workers)


def finish_singly(arrivals_s: Times, service_s: Times, num_workers: int) -> Times:
    """Return the time in seconds at which each query is answered, where each query is one call, made by the worker
    that becomes free first."""
    if num_workers == 1:  # Lindley's recursion, unrolled: finish[k] = max over j <= k of arrive[j] + work[j..k]
        done_s = np.cumsum(service_s)
        return np.asarray(done_s + np.maximum.accumulate(arrivals_s - (done_s - service_s)), dtype=np.float64)
    free_s = [0.0] * num_workers
    finished_s = []
    for arrival_s, took_s in zip(arrivals_s.tolist(), service_s.tolist(), strict=True):
        end_s = max(free_s[0], arrival_s) + took_s
        heapq.heapreplace(free_s, end_s)
        finished_s.append(end_s)
    return np.asarray(finished_s)


def finish_batches(
    arrivals_s: Times, items: NDArray[np.int64], factors: Times, service: ServiceTimes, workers: Workers
) -> Times:
    """Return the time in seconds at which each query is answered, where one call may hold several queries or parts of
    queries; all of them are answered when the call ends.

    A call begins when a worker is free and either the call is full or its first query (or part) has waited `wait_s`.
    """
    assert workers.max_items is not None
    by_size = {size: workers.split(size) for size in np.unique(items).tolist()}
    parts = [by_size[size] for size in items.tolist()]
    num_parts = np.array([len(of_query) for of_query in parts])
    first_part = np.cumsum(num_parts) - num_parts
    owners = np.repeat(np.arange(len(items)), num_parts)
    # Each part of a query is a call of its own, with a factor of its own.
    slower = factors[(owners + np.arange(len(owners)) - first_part[owners]) % len(factors)].tolist()
    arrived = arrivals_s[owners].tolist()
    ends = np.concatenate(([0], np.cumsum([size for of_query in parts for size in of_query]))).tolist()
    by_items_s, free_s, number = service.by_items_s.tolist(), [0.0] * workers.count, len(owners)
    before_siblings = [*(np.flatnonzero(owners[1:] == owners[:-1]) + 1).tolist(), number]
    sibling = 0
    finished_s = np.empty(number)
    first = 0
    while first < number:
        fitting = bisect_right(ends, ends[first] + workers.max_items, first + 1, number + 1) - 1
        while before_siblings[sibling] <= first:
            sibling += 1
        fitting = min(fitting, before_siblings[sibling])
        ready_s = max(free_s[0], arrived[first])
        begin_s = max(ready_s, arrived[first] + workers.wait_s)
        # The call is full with its last part, or when the next part arrives that does not fit.
        is_full = ends[fitting] - ends[first] == workers.max_items
        known_full = fitting - 1 if is_full else fitting
        if known_full < number:
            begin_s = min(begin_s, max(ready_s, arrived[known_full]))
        end = bisect_right(arrived, begin_s, first + 1, fitting)
        end_s = begin_s + by_items_s[ends[end] - ends[first]] * slower[first]
        heapq.heapreplace(free_s, end_s)
        finished_s[first:end] = end_s
        first = end
    return np.maximum.reduceat(finished_s, first_part)


def percentile_of(latencies_s: Times, share: float) -> float:
    """Return the latency in seconds within which a `share` of the queries is answered: the order statistic that
    LoadGen uses."""
    index = min(int(len(latencies_s) * share), len(latencies_s) - 1)
    return float(np.partition(latencies_s, index)[index])

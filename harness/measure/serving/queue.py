"""The virtual clock: when queries of a queue are answered, computed from their arrivals and service times.

Exact for what it is given, and without a clock: one queue, first come first served, several workers that are alike,
and queries that are merged into batches while the first of them waits no longer than a time limit.
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Times = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, slots=True)
class Workers:
    """What answers the queue: so many workers, each taking up to `max_batch` queries at once.

    A free worker waits for a full batch until the first query of it is `wait_s` old, then takes what is there.
    """

    count: int = 1
    max_batch: int = 1
    wait_s: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class ServiceTimes:
    """How long a call takes: `by_items_s[n]` for n items, times a factor that varies from call to call."""

    by_items_s: Times
    factors: Times
    """What calls of equal size took over their mean: their distribution, from which a simulation draws."""

    def of(self, items: NDArray[np.int64], factors: Times) -> Times:
        """Return the seconds that queries take which are answered alone."""
        return np.asarray(self.by_items_s[items] * factors, dtype=np.float64)


@dataclass(frozen=True, kw_only=True, slots=True)
class Traffic:
    """Queries of a simulation at the rate of one a second; equal ones at every rate: only the rate differs."""

    arrivals_s: Times
    items: NDArray[np.int64]
    factors: Times
    """By which a call takes longer than the mean whose first query it is."""


def draw_traffic(num_queries: int, sizes: Sequence[int], service: ServiceTimes, seed: int) -> Traffic:
    """Draw Poisson arrivals, and in random order sizes in items out of `sizes` and factors out of the measured ones.

    Arrivals take one second each on average, and every size and factor comes equally often, so that the load is what
    was asked for: of all that chance does to a queue, a load that differs by itself weighs most.
    """
    arrivals, items, factors = (np.random.default_rng((seed, stream)) for stream in range(3))
    gaps_s = arrivals.exponential(size=num_queries)
    return Traffic(
        arrivals_s=np.cumsum(gaps_s / gaps_s.mean()),
        items=items.permutation(np.resize(np.asarray(sizes, dtype=np.int64), num_queries)),
        factors=factors.permutation(np.resize(service.factors, num_queries)),
    )


def simulate(traffic: Traffic, rate: float, service: ServiceTimes, workers: Workers) -> Times:
    """Return the seconds from each query's arrival to its answer, at `rate` queries a second."""
    arrivals_s = traffic.arrivals_s / rate
    if workers.max_batch == 1:
        finished_s = finish_singly(arrivals_s, service.of(traffic.items, traffic.factors), workers.count)
    else:
        finished_s = finish_batches(arrivals_s, traffic.items, traffic.factors, service, workers)
    return finished_s - arrivals_s


def finish_singly(arrivals_s: Times, service_s: Times, num_workers: int) -> Times:
    """Return when each query is answered; each goes to the worker that is free first."""
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
    """Return when each query is answered where queries are merged; all of a batch are answered at its end.

    A batch begins when a worker is free and either it is full or its first query has waited `wait_s`.
    """
    arrived, sizes, slower = arrivals_s.tolist(), np.concatenate(([0], np.cumsum(items))).tolist(), factors.tolist()
    by_items_s, num_queries = service.by_items_s.tolist(), len(arrivals_s)
    free_s = [0.0] * workers.count
    finished_s = np.empty(num_queries)
    first = 0
    while first < num_queries:
        ready_s = max(free_s[0], arrived[first])
        begin_s = max(ready_s, arrived[first] + workers.wait_s)
        full = first + workers.max_batch
        if full <= num_queries:
            begin_s = min(begin_s, max(ready_s, arrived[full - 1]))
        end = first + 1
        while end < min(full, num_queries) and arrived[end] <= begin_s:
            end += 1
        end_s = begin_s + by_items_s[sizes[end] - sizes[first]] * slower[first]
        heapq.heapreplace(free_s, end_s)
        finished_s[first:end] = end_s
        first = end
    return finished_s


def percentile_of(latencies_s: Times, share: float) -> float:
    """Return the latency that `share` of the queries stay within: the order statistic that LoadGen takes."""
    index = min(int(len(latencies_s) * share), len(latencies_s) - 1)
    return float(np.partition(latencies_s, index)[index])

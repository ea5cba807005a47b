"""Simulate the latency bound: the highest rate at which a given share of the queries is answered within a limit."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from harness.foundation.queue_simulation import (
    ServiceTimes,
    Traffic,
    Workers,
    answer_alone,
    finish_batches,
    percentile_of,
    simulate,
)

NUM_RATES = 24
"""Number of simulated rates of a curve of latency against rate, from a twentieth of the workers' capacity to all of
it."""
_NUM_RATES_FAST = 8
"""Number of simulated rates where only the highest rate within the latency limit is wanted."""
RESOLUTION = 0.002
"""Relative width of the bracket at which a bisection for the highest rate ends."""
MIN_CALL = 16
"""Smallest value tried as the limit to the number of items (candidates to rank) in one call of the model."""
MAX_CALL = 1024
"""Largest value tried as the limit to the number of items (candidates to rank) in one call of the model."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Limit:
    """Latency limit of a service: `share` of its queries must be answered within `seconds`."""

    seconds: float
    share: float


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelledBound:
    """Simulated latency bound of a service: the highest rate within the latency limit, and latency against rate."""

    rate: float | None
    """Highest rate within the limit in steady state, in queries per second; None if no rate is within the limit."""
    curve: tuple[tuple[float, float], ...]
    """Points of latency against rate, in ascending order of rates: queries per second, and latency in seconds at the
    limit's percentile."""


def model_bound(
    traffic: Traffic,
    service: ServiceTimes,
    workers: Workers,
    limit: Limit,
    num_rates: int = NUM_RATES,
) -> ModelledBound:
    """Simulate the highest rate of queries within the latency limit, with the same random numbers at every rate.

    Where queries are merged into one call of the model, latency may first fall and then rise as the rate rises.
    Higher rates are therefore tried even after a rate has missed the limit. The highest rate within the limit is the
    result.
    """

    def is_met(rate: float) -> bool:
        return percentile_of(simulate(traffic, rate, service, workers), limit.share) <= limit.seconds

    most = most_per_s(traffic, service, workers)
    rates = np.concatenate(
        (
            np.geomspace(most / 20, most * 0.6, num_rates // 2, endpoint=False),
            np.linspace(most * 0.6, most, num_rates - num_rates // 2),
        )
    )
    curve, within = [], []
    for position, rate in enumerate(rates.tolist()):
        latencies_s = simulate(traffic, rate, service, workers)
        curve.append((rate, percentile_of(latencies_s, limit.share)))
        if curve[-1][1] <= limit.seconds:
            within.append(position)
    if not within:
        found = bisect_rate(rates[0] / 1e4, rates[0], is_met)
    elif within[-1] == len(rates) - 1:
        found = rates[-1]
    else:
        found = bisect_rate(rates[within[-1]], rates[within[-1] + 1], is_met)
    return ModelledBound(rate=None if found is None else float(found), curve=tuple(curve))


def highest_rate(
    scenario: str, traffic: Traffic, service: ServiceTimes, workers: Workers, limit: Limit
) -> float | None:
    """Return the highest simulated rate of a scenario in queries per second, without the curve of latency against
    rate.

    Server: the highest rate within the latency limit; None if no rate is. Offline: the rate of workers that are never
    idle. Single stream: the rate if each query is issued when the one before it has been answered.
    """
    if scenario == "server":
        return model_bound(traffic, service, workers, limit, num_rates=_NUM_RATES_FAST).rate
    if scenario == "offline":
        return most_per_s(traffic, service, workers)
    return 1 / float(answer_alone(traffic, service, workers).mean())


def climb(rate_of: Callable[[Workers], float | None], workers: Workers, sizes: Sequence[int]) -> dict[Workers, float]:
    """Search by hill climbing for the two settings that give the highest rate of queries: the maximum number of items
    (candidates to rank) in one call of the model, and the number of items from which a query is split. (Gupta et al.,
    "DeepRecSys", ISCA 2020, section 4.)

    The maximum is a power of two. It begins at the size of a median query; first doubling and then halving is
    continued as long as the rate rises. The number from which a query is split starts at the largest query, and is
    halved as long as the rate rises. Return a dict from each tried setting that meets the latency limit to its rate;
    the setting that neither merges nor splits queries is first.
    """
    rates: dict[Workers, float] = {}

    def follow(ways: Iterable[Workers]) -> None:
        last = 0.0
        for way in ways:
            rate = rate_of(way) or 0.0
            if rate > 0:
                rates[way] = rate
            if rate < last:
                return
            last = rate

    plain, most = replace(workers, max_items=None, split_from=None), max(sizes)
    follow([plain])
    usual = sorted(sizes)[len(sizes) // 2].bit_length()
    follow(replace(plain, max_items=1 << power) for power in range(usual, MAX_CALL.bit_length()))
    follow(replace(plain, max_items=1 << power) for power in range(usual - 1, MIN_CALL.bit_length() - 2, -1))
    best = max(rates, key=lambda way: rates[way], default=plain)
    if workers.count > 1 and best.max_items is not None:
        follow(replace(best, split_from=most >> power) for power in range((most // MIN_CALL).bit_length()))
    return rates


def bisect_rate(low: float, high: float, is_met: Callable[[float], bool]) -> float | None:
    """Find by bisection the highest rate between `low` and `high` for which `is_met` holds, to a relative width of
    `RESOLUTION`; None where it does not hold for `low`. It must not hold for `high`."""
    if not is_met(low):
        return None
    while high / low > 1 + RESOLUTION:
        middle = (low * high) ** 0.5
        if is_met(middle):
            low = middle
        else:
            high = middle
    return low


def most_per_s(traffic: Traffic, service: ServiceTimes, workers: Workers) -> float:
    """Return the queries per second of workers that are never idle; at higher rates a queue grows without end."""
    if workers.max_items is None:
        return float(workers.count / service.of(traffic.items, traffic.factors).mean())
    at_once = np.zeros(len(traffic.items))
    finished_s = finish_batches(at_once, traffic.items, traffic.factors, service, workers)
    return float(len(traffic.items) / finished_s.max())

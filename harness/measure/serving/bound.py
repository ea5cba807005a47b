"""The latency bound: the highest rate at which a share of the queries is answered within a limit."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from harness.measure.serving.queue import ServiceTimes, Traffic, Workers, percentile_of, simulate

NUM_RATES = 24
"""At which the curve is computed, from a twentieth of what the workers can do to all of it."""
RESOLUTION = 0.002
"""Of the rate that bisection finds."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Limit:
    """What a service promises: `share` of its queries within `seconds`."""

    seconds: float
    share: float


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelledBound:
    """What the virtual clock says: the highest rate within the limit, None where there is none, and the curve."""

    rate: float | None
    curve: tuple[tuple[float, float], ...]
    """(queries a second, latency in seconds at the limit's share), rates rising."""


def model_bound(traffic: Traffic, service: ServiceTimes, workers: Workers, limit: Limit) -> ModelledBound:
    """Find the highest rate within the limit on the virtual clock, with equal random numbers at every rate.

    Merging makes the latency fall before it rises, so the rates are looked at from the highest down.
    """

    def latency_s(rate: float) -> float:
        return percentile_of(simulate(traffic, rate, service, workers), limit.share)

    most = most_per_s(traffic, service, workers)
    rates = np.concatenate((np.geomspace(most / 20, most * 0.6, NUM_RATES // 2, endpoint=False),
                            np.linspace(most * 0.6, most, NUM_RATES - NUM_RATES // 2)))  # fmt: skip
    curve = tuple((float(rate), latency_s(float(rate))) for rate in rates)
    within = [position for position, (_, seconds) in enumerate(curve) if seconds <= limit.seconds]
    if not within:
        return ModelledBound(rate=_bisect(curve[0][0] / 1e4, curve[0][0], latency_s, limit.seconds), curve=curve)
    last = within[-1]
    if last == len(curve) - 1:
        return ModelledBound(rate=curve[last][0], curve=curve)
    return ModelledBound(rate=_bisect(curve[last][0], curve[last + 1][0], latency_s, limit.seconds), curve=curve)


def _bisect(low: float, high: float, latency_s: Callable[[float], float], limit_s: float) -> float | None:
    if latency_s(low) > limit_s:
        return None
    while high / low > 1 + RESOLUTION:
        middle = (low * high) ** 0.5
        if latency_s(middle) <= limit_s:
            low = middle
        else:
            high = middle
    return low


def most_per_s(traffic: Traffic, service: ServiceTimes, workers: Workers) -> float:
    """Return the queries a second of workers that are never idle: no queue is stable beyond."""
    if workers.max_batch == 1:
        return float(workers.count / service.of(traffic.items, traffic.factors).mean())
    full = len(traffic.items) // workers.max_batch * workers.max_batch
    sums = traffic.items[:full].reshape(-1, workers.max_batch).sum(axis=1)
    factors = traffic.factors[:full].reshape(-1, workers.max_batch)[:, 0]
    return float(workers.count * workers.max_batch / service.of(sums, factors).mean())

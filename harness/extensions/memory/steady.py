"""Bring simulated queries to the steady state: draw from them such that their waits have the known distribution.

Near a resource's ceiling, a few long busy periods decide the mean and the p99, so that both vary by chance even with
200,000 queries. Each simulated query is therefore also sent through a second, simpler queue: a single server with the
service times of the busiest resource. This is an M/G/1 queue, whose waits in the steady state are known exactly
(Pollaczek and Khinchine: Asmussen 2003, "Applied probability and queues", VIII.5). Queries are drawn such that their
waits in this queue are distributed as in the steady state (post-stratification: Asmussen and Glynn 2007, "Stochastic
simulation", V.7). All other delays of the drawn queries stay as simulated.

If other resources are nearly as busy, each has such a queue. Queries are then weighted until their waits in all of
these queues are distributed as in the steady state (raking: Deming and Stephan 1940, Annals of Mathematical
Statistics 11).
"""

from collections.abc import Sequence

import numpy as np

from harness.foundation.queue_simulation import Times
from reference_models.data.traces.trace import Ids

_CELLS = 1 << 17
"""Number of cells of the tabulated distribution of waiting times."""
_MEANS = 40.0
"""Upper end of the tabulated distribution of waiting times, as a multiple of the mean wait of those queries that
wait."""
_STRATA = 200
"""Number of classes into which waits at a resource are divided for raking: queries are weighted until each class has
its known share."""
_ROUNDS = 8
"""Number of rounds of raking. In a round, simulated queries are weighted anew for each resource in turn, until the
shares of its classes of waiting times are as in the steady state."""


def find_wait_quantiles(service_s: Times, rate: float, number: int) -> Times:
    """Return `number` equally likely waiting times of an M/G/1 queue, rising, in seconds.

    Service times are drawn from `service_s` [samples], all equally likely; arrivals are Poisson at `rate` a second,
    at a load below 1. A waiting time is the sum of a geometric number of residual service times.
    """
    mean_s = float(service_s.mean())
    load = rate * mean_s
    residual_s = float(np.square(service_s).mean()) / (2.0 * mean_s)
    cell_s = (_MEANS * residual_s / (1.0 - load) + float(service_s.max())) / _CELLS
    ordered = np.sort(service_s)
    edges = (np.arange(_CELLS) + 0.5) * cell_s
    shorter = np.searchsorted(ordered, edges)
    below = np.concatenate(([0.0], np.cumsum(ordered)))[shorter] + edges * (len(ordered) - shorter)
    residual = np.diff(below / (mean_s * len(ordered)), prepend=0.0)
    transform = np.fft.rfft(residual)
    waits = np.fft.irfft((1.0 - load) / (1.0 - load * transform), _CELLS)
    shares = np.cumsum(np.maximum(waits, 0.0))
    wanted = (np.arange(number) + 0.5) / number
    found = np.interp(wanted * shares[-1], shares, np.arange(_CELLS) * cell_s)
    return np.asarray(np.where(wanted < 1.0 - load, 0.0, found))


def rake_queries(waits_s: Sequence[Times], quantiles_s: Sequence[Times]) -> Times:
    """Return a weight for each simulated query [queries], 1 on average. With these weights, the queries' waits at
    each resource are distributed as in the steady state (raking).

    `waits_s` has for each resource the waits of the simulated queries in seconds [queries]; `quantiles_s` has for
    each resource quantiles of the waits in the steady state. The intervals between quantiles are the classes of
    raking; those without a simulated query are left out.
    """
    strata, shares = list[Ids](), list[Times]()
    for waits, quantiles in zip(waits_s, quantiles_s, strict=True):
        edges = np.unique(quantiles[:: max(1, len(quantiles) // _STRATA)])
        strata.append(np.searchsorted(edges, waits))
        shares.append(np.bincount(np.searchsorted(edges, quantiles), minlength=len(edges) + 1) / len(quantiles))
    weights = np.ones(len(waits_s[0]))
    for _ in range(_ROUNDS):
        for stratum, share in zip(strata, shares, strict=True):
            found = np.bincount(stratum, weights, len(share))
            weights *= np.divide(share * len(weights), found, out=np.zeros(len(share)), where=found > 0)[stratum]
    return np.asarray(weights * (len(weights) / weights.sum()))


def choose_weighted(waits_s: Times, weights: Times, number: int) -> Ids:
    """Choose `number` queries in the order of their `waits_s` [queries], each as often as its weight says; return the
    indices of the chosen queries."""
    order = np.argsort(waits_s, kind="stable")
    shares = np.cumsum(weights[order])
    places = np.searchsorted(shares, (np.arange(number) + 0.5) / number * shares[-1])
    return np.asarray(order[places])


def choose_steady(waits_s: Times, quantiles_s: Times) -> Ids:
    """Return the index of a simulated query for each given quantile of the waits in the steady state: the query with
    the nearest wait.

    `waits_s` [queries] has the waits of the simulated queries. For quantiles of zero seconds, queries that did not
    wait are chosen, evenly spread over all such queries. If no query waited, each query is chosen once.
    """
    idle, waiting = np.flatnonzero(waits_s <= 0.0), np.flatnonzero(waits_s > 0.0)
    num_idle = int((quantiles_s <= 0.0).sum())
    if not len(waiting):
        return np.arange(len(waits_s))
    waiting = waiting[np.argsort(waits_s[waiting], kind="stable")]
    places = np.minimum(np.searchsorted(waits_s[waiting], quantiles_s[num_idle:]), len(waiting) - 1)
    return np.concatenate((idle[np.arange(num_idle) * len(idle) // max(1, num_idle)], waiting[places]))

"""Queries that stand for the steady state of a simulation: post-stratified by a wait whose distribution is known.

Near a resource's ceiling few long busy times set a mean and a p99, and 200,000 queries leave both to chance. So each
simulated query is also sent, at its arrival, to one server that its busiest resource would be if it were alone: an
M/G/1 queue, whose waits are known exactly (Pollaczek and Khinchine: Asmussen 2003, "Applied probability and queues",
VIII.5). Queries are then taken such that these waits are distributed as they are in the long run, by
post-stratification (Asmussen and Glynn 2007, "Stochastic simulation", V.7); all else that they wait for is as it was
simulated.
"""

import numpy as np

from harness.foundation.virtual_clock import Times
from reference_models.data.traces.trace import Ids

_CELLS, _MEANS = 1 << 17, 40.0
"""Cells of the distribution of waits, and how many mean waits of those who wait they reach."""


def find_wait_quantiles(service_s: Times, rate: float, number: int) -> Times:
    """Return `number` equally likely waits of an M/G/1 queue, rising, in seconds.

    Service times are equally likely those of `service_s` [samples], arrivals Poisson of `rate` a second, which must
    leave the server some time. A wait is the sum of a geometric number of residual service times.
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


def choose_steady(waits_s: Times, quantiles_s: Times) -> Ids:
    """Choose as many simulated queries as there are quantiles, so that their `waits_s` [queries] are these, nearly.

    Queries that wait for none, as the first does, are taken evenly. All are taken once where none waits.
    """
    idle, waiting = np.flatnonzero(waits_s <= 0.0), np.flatnonzero(waits_s > 0.0)
    num_idle = int((quantiles_s <= 0.0).sum())
    if not len(waiting):
        return np.arange(len(waits_s))
    waiting = waiting[np.argsort(waits_s[waiting], kind="stable")]
    places = np.minimum(np.searchsorted(waits_s[waiting], quantiles_s[num_idle:]), len(waiting) - 1)
    return np.concatenate((idle[np.arange(num_idle) * len(idle) // max(1, num_idle)], waiting[places]))

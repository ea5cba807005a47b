"""Rows in devices behind a link: where they are, what crosses each link, and how long a query waits for them.

Simulated on serving's virtual clock. A query is one sample: a bag of every table. Each device is a queue, first come
first served, that takes a constant time a read; rows are added up by the host, by each device for its own rows, or by
the switch between them (PIFS-Rec, MICRO'24), and what is added up crosses the links that remain as one row.
"""

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness.extensions.memory.tier import Tier
from harness.foundation.virtual_clock import ServiceTimes, Times, draw_traffic, finish_singly

Ids = NDArray[np.int64]
Pool = Literal["host", "device", "switch"]
Placement = Literal["interleave", "hot-local"]
NUM_QUERIES, NUM_UNLOADED = 200_000, 20_000
"""Queries of a simulation, and of one in which none waits for another."""


class RemoteReads(NamedTuple):
    """What samples read from devices: rows, and bags that have any, of each device and of all."""

    rows: Ids
    """[samples, devices]"""
    partials: Ids
    """[samples, devices]: bags that have a row on the device."""
    bags: Ids
    """[samples]"""


class Waits(NamedTuple):
    """What each simulated query [queries] waits for, by part, in seconds: on the device that answers it last."""

    queue: Times
    device: Times
    link: Times
    adds: Times

    @property
    def total(self) -> Times:
        """Return what rows outside DRAM add to each query."""
        return self.queue + self.device + self.link + self.adds


def place_rows(keys: Ids, num_rows: int, num_local: int, num_devices: int, placement: Placement) -> Ids:
    """Return the device of the row of each access, -1 for one of the `num_local` in local DRAM.

    `hot-local` keeps the rows there that the trace accesses most; `interleave` spreads them over all rows.
    """
    if placement == "hot-local":
        _, row, counts = np.unique(keys, return_inverse=True, return_counts=True)
        is_local = np.zeros(len(counts), dtype=bool)
        is_local[np.argsort(-counts, kind="stable")[:num_local]] = True
        return np.where(is_local[row], -1, keys % num_devices)
    before, after = (np.floor(each * (num_local / num_rows)).astype(np.int64) for each in (keys, keys + 1))
    return np.where(after > before, -1, (keys - before) % num_devices)


def count_reads(
    samples: Ids, tables: Ids, devices: Ids, *, num_samples: int, num_tables: int, num_devices: int
) -> RemoteReads:
    """Count what each sample reads from each device, and for how many of its bags."""
    bags, shape = samples * num_tables + tables, (num_samples, num_devices)
    pairs = np.unique(bags * num_devices + devices)
    owners = pairs // (num_tables * num_devices) * num_devices + pairs % num_devices
    return RemoteReads(
        rows=np.bincount(samples * num_devices + devices, minlength=num_samples * num_devices).reshape(shape),
        partials=np.bincount(owners, minlength=num_samples * num_devices).reshape(shape),
        bags=np.bincount(np.unique(bags) // num_tables, minlength=num_samples),
    )


def link_bytes(reads: RemoteReads, tier: Tier, pool: Pool, row_bytes: int) -> tuple[Ids, Ids]:
    """Return the bytes over each device's link [samples, devices] and over the host's [samples]."""
    row = tier.granules(row_bytes) * int(tier.granule_bytes.value)
    of_devices = (reads.partials if pool == "device" else reads.rows) * row
    return of_devices, reads.bags * row if pool == "switch" else of_devices.sum(axis=1)


def service_s(reads: RemoteReads, tier: Tier, pool: Pool, row_bytes: int) -> Times:
    """Return how long each sample occupies each device [samples, devices]: its reads, or its link."""
    read = reads.rows * tier.granules(row_bytes) / tier.reads_per_s.value
    return np.maximum(read, link_bytes(reads, tier, pool, row_bytes)[0] / tier.link_bytes_per_s.value)


def simulate_waits(
    reads: RemoteReads, tier: Tier, pool: Pool, row_bytes: int, *, rate: float | None, seed: int
) -> Waits:
    """Simulate queries that are samples in random order, Poisson arrivals of `rate` a second; None: none waits.

    Whoever adds up has so many reads in flight: a query takes at least reads x latency / in flight, and the latency
    of its slowest read. Equal seeds give equal arrivals and draws, whatever the rest.
    """
    nothing = ServiceTimes(by_items_s=np.zeros(1), factors=np.ones(1))
    num_queries = NUM_UNLOADED if rate is None else NUM_QUERIES
    traffic = draw_traffic(num_queries, range(len(reads.rows)), nothing, seed)
    chosen, granules = traffic.items, tier.granules(row_bytes)
    rows, occupied = reads.rows[chosen], service_s(reads, tier, pool, row_bytes)[chosen]
    is_read, queue = rows > 0, np.zeros(rows.shape)
    if rate is not None:
        arrivals = traffic.arrivals_s / rate
        for at, service in enumerate(occupied.T):
            waited = finish_singly(arrivals, service, 1) - arrivals - service
            queue[:, at] = np.maximum(0.0, waited) * is_read[:, at]
    hop = tier.switch_latency_s.value
    in_flight = (tier.host_reads_in_flight if pool == "host" else tier.pool_reads_in_flight).value
    issued = rows if pool == "device" else np.where(is_read, rows.sum(axis=1, keepdims=True), 0)
    latency = tier.read_latency_s.value + (hop if pool == "host" else 0.0)
    drawn = np.random.default_rng((seed, 3)).random(rows.shape)
    slowest = tier.slowest_s(rows * granules, drawn) + hop * is_read * (pool == "host")
    device = np.maximum(occupied, issued * granules * latency / in_flight) + slowest
    last = np.arange(num_queries), np.argmax(queue + device, axis=1)
    over_host = link_bytes(reads, tier, pool, row_bytes)[1][chosen] / tier.link_bytes_per_s.value
    added = rows.max(axis=1) + reads.partials[chosen].sum(axis=1) if pool == "device" else rows.sum(axis=1)
    return Waits(
        queue=queue[last],
        device=device[last],
        link=over_host + hop * is_read.any(axis=1) * (pool != "host"),
        adds=added * row_bytes / tier.add_bytes_per_s.value,
    )

"""Rows in devices behind a link: where they are, what crosses each link, and how long a query waits for them.

Simulated on serving's virtual clock. A query is one sample: a bag of every table. Its reads are issued together, wait
for the channels of their devices, first come first served, and overlap; a thread that has fewer in flight than a
query needs issues them in waves. When its last device is done, what a query moves crosses the link that all devices
share to the host, one query after another. Rows are added up by the host, by each device for its own rows, or by the
switch between them (PIFS-Rec, MICRO'24), and what is added up crosses the links that remain as one row. Drives
without a switch share no link: each answers over its own, while it reads.
"""

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness.extensions.memory.channels import answer_reads, draw_latencies
from harness.extensions.memory.steady import choose_steady, find_wait_quantiles
from harness.extensions.memory.tier import Tier
from harness.foundation.virtual_clock import ServiceTimes, Times, draw_traffic, finish_singly

Ids = NDArray[np.int64]
Pool = Literal["host", "device", "switch"]
Placement = Literal["interleave", "hot-local"]
NUM_QUERIES, NUM_UNLOADED = 200_000, 20_000
"""Queries of a simulation, and of one in which none waits for another."""
_MOST_STEPS, _LEAST_QUERIES = 12_000_000, 10_000
"""Queries of a simulation times channels of all devices: of more, fewer queries, but so many."""
_SHARED_LINK = "the host's link"
_ALIKE = 1e-6
"""Queries are ready for the shared link at once where it is by so much of a crossing, and wait for none where it is
for so much of a service, which is what rounding does."""


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
    link_queue: Times
    """For the link that all devices share to the host."""
    link: Times
    adds: Times
    depth: float
    """Reads in flight at a device when one is issued, on average: the most of any device."""
    alone: Times
    """What it would wait if the busiest resource were one server and all there is; 0 where none waits."""

    def steady(self, most: "Resource", rate: float) -> "Waits":
        """Return as many queries as stand for the long run at a rate, of which `most` is the busiest resource.

        By what a query's wait for one server differs from that of the long run, its own wait for that resource does.
        """
        alone = find_wait_quantiles(most.of_samples_s, rate, len(self.alone))
        chosen = choose_steady(self.alone, alone)
        more = np.where(self.alone[chosen] > 0.0, alone - self.alone[chosen], 0.0)
        queue, device, link_queue, link, adds = (each[chosen] for each in self.parts)
        if most.name == _SHARED_LINK:
            link_queue = np.maximum(0.0, link_queue + more)
        else:
            queue = np.maximum(0.0, queue + more)
        return Waits(queue, device, link_queue, link, adds, self.depth, alone)

    @property
    def parts(self) -> tuple[Times, ...]:
        """Return what makes up the total: queue, device, queue for the link, link, adding up."""
        return self.queue, self.device, self.link_queue, self.link, self.adds

    @property
    def total(self) -> Times:
        """Return what rows outside DRAM add to each query."""
        return np.asarray(sum(self.parts))


class Resource(NamedTuple):
    """The reads of a device, its link, or the shared link: too slow for a rate at which it is always busy."""

    name: str
    busy_s: float
    """How long a query occupies it, on average, in seconds."""
    amount: float
    """Reads, or bytes, that a query asks of it."""
    per_s: float
    """How much of it there is a second."""
    unit: str
    of_samples_s: Times
    """How long each sample occupies it [samples], in seconds."""


def place_rows(
    keys: Ids, num_rows: int, num_local: int, num_devices: int, placement: Placement, units: Ids | None = None
) -> Ids:
    """Return the device of the row of each access, -1 for one of the `num_local` in local DRAM.

    `hot-local` keeps the rows there that the trace accesses most; `interleave` spreads them over all rows. With
    `units` [accesses], how large each row is, both numbers are of units; `hot-local` is then by accesses a unit.
    """
    if placement == "hot-local":
        _, at, row, counts = np.unique(keys, return_index=True, return_inverse=True, return_counts=True)
        sizes = np.ones(len(counts), np.int64) if units is None else units[at]
        order = np.argsort(-counts / sizes, kind="stable")
        is_local = np.zeros(len(counts), dtype=bool)
        is_local[order[np.cumsum(sizes[order]) <= num_local]] = True
        return np.where(is_local[row], -1, keys % num_devices)
    before, after = (np.floor(each * (num_local / num_rows)).astype(np.int64) for each in (keys, keys + 1))
    return np.where(after > before, -1, (keys - before) % num_devices)


def count_reads(
    samples: Ids,
    tables: Ids,
    devices: Ids,
    *,
    num_samples: int,
    num_tables: int,
    num_devices: int,
    granules: Ids | None = None,
) -> RemoteReads:
    """Count what each sample reads from each device, and for how many of its bags.

    Rows are counted, and sums of rows; with `granules` [tables], where rows of tables differ in size, those of each.
    """
    bags, shape = samples * num_tables + tables, (num_samples, num_devices)
    pairs, whole = np.unique(bags * num_devices + devices), np.unique(bags)
    owners = pairs // (num_tables * num_devices) * num_devices + pairs % num_devices
    of_each = np.ones(num_tables, np.int64) if granules is None else granules

    def count(at: Ids, of_tables: Ids, number: int) -> Ids:
        return np.bincount(at, of_each[of_tables], number).astype(np.int64)

    return RemoteReads(
        rows=count(samples * num_devices + devices, tables, num_samples * num_devices).reshape(shape),
        partials=count(owners, pairs // num_devices % num_tables, num_samples * num_devices).reshape(shape),
        bags=count(whole // num_tables, whole % num_tables, num_samples),
    )


def link_bytes(reads: RemoteReads, tier: Tier, pool: Pool, row_bytes: int) -> tuple[Ids, Ids]:
    """Return the bytes over each device's link [samples, devices] and over the host's [samples]."""
    row = tier.granules(row_bytes) * int(tier.granule_bytes.value)
    of_devices = (reads.partials if pool == "device" else reads.rows) * row
    return of_devices, reads.bags * row if pool == "switch" else of_devices.sum(axis=1)


def service_s(reads: RemoteReads, tier: Tier, pool: Pool, row_bytes: int) -> Times:
    """Return how long each sample occupies each device [samples, devices], all channels at work: or its link."""
    read = reads.rows * tier.granules(row_bytes) / tier.reads_per_s.value
    return np.maximum(read, link_bytes(reads, tier, pool, row_bytes)[0] / tier.link_bytes_per_s.value)


def busiest(reads: RemoteReads, tier: Tier, pool: Pool, row_bytes: int) -> Resource:
    """Return what queries occupy longest: the reads or the link of one device, or the link that all devices share."""
    of_devices, of_host = link_bytes(reads, tier, pool, row_bytes)
    occupied_s = service_s(reads, tier, pool, row_bytes)
    device = int(occupied_s.mean(axis=0).argmax())
    its_s = occupied_s[:, device]
    num_reads = float(reads.rows[:, device].mean()) * tier.granules(row_bytes)
    crossing = float(of_devices[:, device].mean())
    by_reads = num_reads / tier.reads_per_s.value >= crossing / tier.link_bytes_per_s.value
    found = Resource("a device's link", float(its_s.mean()), crossing, tier.link_bytes_per_s.value, "B/s", its_s)
    if by_reads:
        found = Resource("a device's reads", float(its_s.mean()), num_reads, tier.reads_per_s.value, "reads/s", its_s)
    if (shared := tier.shared_link(pool)) is not None and (mean := float(of_host.mean())) / shared > found.busy_s:
        found = Resource(_SHARED_LINK, mean / shared, mean, shared, "B/s", of_host / shared)
    return found


def simulate_waits(
    reads: RemoteReads, tier: Tier, pool: Pool, row_bytes: int, *, rate: float | None, seed: int
) -> Waits:
    """Simulate queries that are samples in random order, Poisson arrivals of `rate` a second; None: none waits.

    Whoever adds up has so many reads in flight: of more, a query takes a latency for each wave of them. Equal seeds
    give equal arrivals and draws, whatever the rest.
    """
    nothing = ServiceTimes(by_items_s=np.zeros(1), factors=np.ones(1))
    most = max(_LEAST_QUERIES, _MOST_STEPS // (tier.num_channels * reads.rows.shape[1]))
    num_queries = min(most, NUM_UNLOADED if rate is None else NUM_QUERIES)
    traffic = draw_traffic(num_queries, range(len(reads.rows)), nothing, seed)
    chosen, granules = traffic.items, tier.granules(row_bytes)
    rows = reads.rows[chosen]
    occupied = service_s(reads, tier, pool, row_bytes)[chosen]
    if rate is None:  # each after the one before it
        apart_s = 2.0 * float(occupied.max(initial=0.0)) * tier.num_channels
        arrivals = np.arange(num_queries, dtype=np.float64) * apart_s
    else:
        arrivals = traffic.arrivals_s / rate
    queue, device, depth = np.zeros(rows.shape), np.zeros(rows.shape), 0.0
    hop = tier.switch_latency_s.value
    host_hop = hop if pool == "host" else 0.0
    in_flight = (tier.host_reads_in_flight if pool == "host" else tier.pool_reads_in_flight).value
    for at, drawn in enumerate(draw_latencies(num_queries, rows.shape[1], seed)):
        num_reads = rows[:, at] * granules
        answers = answer_reads(arrivals, num_reads, occupied[:, at], tier, drawn, is_alone=rate is None)
        issued = (rows[:, at] if pool == "device" else rows.sum(axis=1)) * granules
        waves = np.ceil(issued / in_flight)
        in_waves = np.where(waves > 1, waves * (answers.mean_read_s + host_hop), 0.0)
        is_read = rows[:, at] > 0
        queue[:, at] = answers.queue
        device[:, at] = np.maximum(answers.device + host_hop, in_waves) * is_read
        depth = max(depth, answers.depth)
    last = np.arange(num_queries), np.argmax(queue + device, axis=1)
    link_wait, link = np.zeros(num_queries), np.zeros(num_queries)
    if (shared := tier.shared_link(pool)) is not None:
        link = link_bytes(reads, tier, pool, row_bytes)[1][chosen] / shared
        if rate is not None:
            link_wait = _wait_for_link(arrivals + queue[last] + device[last], link)
    alone = np.zeros(num_queries)
    if rate is not None:
        taken_s = busiest(reads, tier, pool, row_bytes).of_samples_s[chosen]
        alone = finish_singly(arrivals, taken_s, 1) - arrivals - taken_s
        alone[alone <= _ALIKE * float(taken_s.mean())] = 0.0
    added = rows.max(axis=1) + reads.partials[chosen].sum(axis=1) if pool == "device" else rows.sum(axis=1)
    return Waits(
        queue=queue[last],
        device=device[last],
        link_queue=link_wait,
        link=link + hop * (rows > 0).any(axis=1) * (pool != "host"),
        adds=added * row_bytes / tier.add_bytes_per_s.value,
        depth=depth,
        alone=alone,
    )


def _wait_for_link(ready_s: Times, crossing_s: Times) -> Times:
    """Return how long each query waits for the link that all share: first ready first served, one after another."""
    tick_s, waits = _ALIKE * float(crossing_s.mean()), np.zeros(len(ready_s))
    if not tick_s:
        return waits
    order = np.argsort(np.rint(ready_s / tick_s), kind="stable")  # of those ready at once, who arrived first
    finished = finish_singly(ready_s[order], crossing_s[order], 1)
    waits[order] = np.maximum(0.0, finished - ready_s[order] - crossing_s[order])
    return np.where(crossing_s > 0, waits, 0.0)

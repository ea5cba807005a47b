"""Simulate embedding rows on memory devices behind links: placement, bytes over each link, and latency added to
queries.

Time is simulated. A query is one sample, which looks up a bag of rows in every table. All reads of a query are issued
together. They wait for the channels of their devices, first come first served, and overlap. A thread that can have
fewer reads in flight than a query needs issues the reads in waves.

When the last device of a query is done, the query's bytes cross the link to the host, which all devices share;
queries cross it one after another. Rows are summed by the host, by each device for its own rows, or by the switch
between devices and host (PIFS-Rec, MICRO'24). From there on, a sum takes the bytes of one row. Drives without a
switch share no link: each drive answers over its own link while it reads.
"""

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness.extensions.memory.channels import answer_reads, draw_latencies
from harness.extensions.memory.steady import choose_steady, choose_weighted, find_wait_quantiles, rake_queries
from harness.extensions.memory.tier import Tier
from harness.foundation.queue_simulation import ServiceTimes, Times, draw_traffic, finish_singly

Ids = NDArray[np.int64]
Pool = Literal["host", "device", "switch"]
Placement = Literal["interleave", "hot-local"]
NUM_QUERIES = 200_000
"""Number of queries in a simulation at a given rate."""
NUM_UNLOADED = 20_000
"""Number of queries in a simulation without a rate, where queries are so far apart that none waits for another."""
_MOST_STEPS = 12_000_000
"""Maximum of the number of simulated queries times the number of channels of all memory devices; it reduces the
number of queries."""
_LEAST_QUERIES = 10_000
"""Minimum number of simulated queries, which also holds where it exceeds the limit `_MOST_STEPS`."""
_SHARED_LINK = "the host's link"
_ALIKE = 1e-6
"""Largest difference of times that counts as rounding, as a share of the mean time for which a query occupies the
device or link."""
MORE_NEAR_CEILING = 3
"""Factor by which NUM_QUERIES is multiplied if several devices are near their highest rate. A query then waits for
its slowest device, and more queries are needed to measure the mean."""
_NEARLY = 0.9
"""Load (busy share of the time) above which several devices count as near their highest rate. It is also the smallest
ratio of a resource's load to the busiest resource's at which the resource counts as nearly as busy."""


class RemoteReads(NamedTuple):
    """Number of embedding rows of each sample that are on each memory device, and number of bags (a sample's rows of
    one table) to which they belong."""

    rows: Ids
    """Number of embedding rows that each sample reads from each memory device [samples, devices]. If tables differ in
    row size, it is the number of reads of the device's smallest size (granules)."""
    partials: Ids
    """Bags of each sample with at least one row on the device [samples, devices]."""
    bags: Ids
    """Number of bags of each sample (a bag is a sample's rows of one table) that have at least one row on a memory
    device [samples]."""


class Waits(NamedTuple):
    """Latency that rows outside DRAM add to each simulated query, in parts, each in seconds [queries]. The parts
    `queue` and `device` are of the device that answers the query last."""

    queue: Times
    device: Times
    link_queue: Times
    """Time in the queue for the link that all devices share to the host, in seconds [queries]."""
    link: Times
    adds: Times
    depth: float
    """Largest queue depth of the devices: the mean number of reads in flight at the device when a read is issued."""
    alone: Times
    """Wait of each query if the busiest resource were the only server, in seconds [queries]; 0 where no rate is
    given."""
    others: tuple[tuple[Times, Times], ...] = ()
    """Two arrays for each resource nearly as busy as the busiest one, in seconds. The first is each query's wait for
    the resource if no other resource were ever busy [queries]. The second is the time for which each sample occupies
    the resource [samples]."""

    def steady(self, most: "Resource", rate: float) -> "Waits":
        """Return the latencies that rows outside DRAM add to queries in the steady state at `rate` queries/s. `most`
        is the busiest resource.

        A short simulation shows too few long waits. So queries are drawn from it, with repeats, until their waits for
        `most` are distributed as queueing theory says for the steady state. What is then still missing in a query's
        wait is added to it.
        """
        alone = find_wait_quantiles(most.of_samples_s, rate, len(self.alone))
        if self.others:
            waits, taken_s = zip(*self.others, strict=True)
            known = [find_wait_quantiles(each_s, rate, len(alone)) for each_s in taken_s]
            chosen = choose_weighted(self.alone, rake_queries([*waits, self.alone], [*known, alone]), len(alone))
        else:
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
        """Return the parts of the latency added to each query, in seconds [queries]: queue, device, queue for the
        link, link, adding up."""
        return self.queue, self.device, self.link_queue, self.link, self.adds

    @property
    def total(self) -> Times:
        """Return the latency that rows outside DRAM add to each query [queries], in seconds."""
        return np.asarray(sum(self.parts))


class Resource(NamedTuple):
    """A resource that limits the rate of queries: a device's reads, a device's link, or the link that devices
    share."""

    name: str
    busy_s: float
    """Mean time for which a query occupies the device or link (the resource), in seconds."""
    amount: float
    """Mean number of reads, or of bytes, of a query at the device or link (the resource). `unit` ('reads/s' or 'B/s')
    says which of the two is counted."""
    per_s: float
    """Capacity of the resource, in reads or bytes per second."""
    unit: str
    of_samples_s: Times
    """Time for which each sample occupies the device or link (the resource), in seconds [samples]."""


def place_rows(
    keys: Ids, num_rows: int, num_local: int, num_devices: int, placement: Placement, units: Ids | None = None
) -> Ids:
    """Return the device that holds the row of each lookup [lookups]; -1 for the `num_local` rows in local DRAM.

    Placement `hot-local` keeps those rows in DRAM that the trace looks up most. Placement `interleave` spreads the
    rows in DRAM evenly over all rows. `units` [lookups] is the size of each lookup's row, if rows differ in size:
    then `num_rows` and `num_local` are in units, and `hot-local` keeps the rows with most lookups per unit.
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
    """Count the rows that each sample reads from each memory device, and the bags (the rows that a sample looks up in
    one table) to which these rows belong.

    A row may take several reads of the smallest size that the device can read. If `granules` [tables] gives their
    number for a row of each table, reads are counted in place of rows.
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
    """Return the bytes of each sample over each device's link [samples, devices] and over the host's link
    [samples]."""
    row = tier.granules(row_bytes) * int(tier.granule_bytes.value)
    of_devices = (reads.partials if pool == "device" else reads.rows) * row
    return of_devices, reads.bags * row if pool == "switch" else of_devices.sum(axis=1)


def service_s(reads: RemoteReads, tier: Tier, pool: Pool, row_bytes: int) -> Times:
    """Return the seconds for which each sample occupies each memory device [samples, devices].

    They are the longer of two times: of the sample's reads, with all channels at work, and of crossing the device's
    link.
    """
    read = reads.rows * tier.granules(row_bytes) / tier.reads_per_s.value
    return np.maximum(read, link_bytes(reads, tier, pool, row_bytes)[0] / tier.link_bytes_per_s.value)


def busiest(reads: RemoteReads, tier: Tier, pool: Pool, row_bytes: int) -> Resource:
    """Return the resource that a query occupies longest on average: the reads or the link of one device, or the link
    that all devices share."""
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
    """Simulate the latency added to queries that arrive as a Poisson process of `rate` per second. Queries are the
    samples of the trace in random order.

    If `rate` is None, queries are so far apart that none waits for another. The place where rows are summed (host,
    device or switch) can have a limited number of reads in flight. A query with more reads issues them in waves, and
    takes one read latency for each wave. Equal seeds give equal arrivals and draws, whatever the other arguments.
    """
    nothing = ServiceTimes(by_items_s=np.zeros(1), factors=np.ones(1))
    limit = max(_LEAST_QUERIES, _MOST_STEPS // (tier.num_channels * reads.rows.shape[1]))
    num_queries = min(
        limit, NUM_UNLOADED if rate is None else NUM_QUERIES * _count_repeats(reads, tier, row_bytes, rate)
    )
    traffic = draw_traffic(num_queries, range(len(reads.rows)), nothing, seed)
    chosen, granules = traffic.items, tier.granules(row_bytes)
    rows = reads.rows[chosen]
    occupied = service_s(reads, tier, pool, row_bytes)[chosen]
    if rate is None:  # each query after the end of the one before
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
    alone, others = np.zeros(num_queries), tuple[tuple[Times, Times], ...]()
    if rate is not None:
        most = busiest(reads, tier, pool, row_bytes)
        alone = _wait_alone(arrivals, most.of_samples_s[chosen])
        nearly = _nearly_busiest(reads, tier, pool, row_bytes, most)
        others = tuple((_wait_alone(arrivals, taken_s[chosen]), taken_s) for taken_s in nearly)
    added = rows.max(axis=1) + reads.partials[chosen].sum(axis=1) if pool == "device" else rows.sum(axis=1)
    return Waits(
        queue=queue[last],
        device=device[last],
        link_queue=link_wait,
        link=link + hop * (rows > 0).any(axis=1) * (pool != "host"),
        adds=added * row_bytes / tier.add_bytes_per_s.value,
        depth=depth,
        alone=alone,
        others=others,
    )


def _count_repeats(reads: RemoteReads, tier: Tier, row_bytes: int, rate: float) -> int:
    """Return the factor by which the number of simulated queries is multiplied. It is above 1 if several devices are
    near their highest rate, since their joint waits vary more. It is the same whether host, device or switch adds
    rows up."""
    load = rate * float(service_s(reads, tier, "host", row_bytes).mean(axis=0).max())
    return MORE_NEAR_CEILING if reads.rows.shape[1] > 1 and load >= _NEARLY else 1


def _nearly_busiest(reads: RemoteReads, tier: Tier, pool: Pool, row_bytes: int, most: Resource) -> list[Times]:
    """Return, for each other resource nearly as busy as `most`, the seconds for which each sample occupies it
    [samples]."""
    found = [*service_s(reads, tier, pool, row_bytes).T]
    if (shared := tier.shared_link(pool)) is not None:
        found.append(link_bytes(reads, tier, pool, row_bytes)[1] / shared)
    least_s = _NEARLY * most.busy_s
    return [each for each in found if each.mean() >= least_s and not np.array_equal(each, most.of_samples_s)]


def _wait_alone(arrivals_s: Times, taken_s: Times) -> Times:
    """Return the seconds that each query waits [queries] for a single server, which it occupies for `taken_s`; waits
    as small as rounding errors count as 0."""
    waits = finish_singly(arrivals_s, taken_s, 1) - arrivals_s - taken_s
    waits[waits <= _ALIKE * float(taken_s.mean())] = 0.0
    return waits


def _wait_for_link(ready_s: Times, crossing_s: Times) -> Times:
    """Return the seconds that each query waits [queries] for the link that devices share: first ready first served,
    one query after another."""
    tick_s, waits = _ALIKE * float(crossing_s.mean()), np.zeros(len(ready_s))
    if not tick_s:
        return waits
    order = np.argsort(np.rint(ready_s / tick_s), kind="stable")  # of queries ready at once, the first to arrive
    finished = finish_singly(ready_s[order], crossing_s[order], 1)
    waits[order] = np.maximum(0.0, finished - ready_s[order] - crossing_s[order])
    return np.where(crossing_s > 0, waits, 0.0)

"""Costs of a set of embedding tables on one device, in seconds per step: lookups, updates, and exchange of pooled
rows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from reference_models.distributed.planner_estimate import Devices
from reference_models.distributed.search.task import FLOAT_BYTES, NUM_REUSE_BINS, EmbeddingTable, TablePart

ID_BYTES = 8
LINE_BYTES = 64
"""Least number of bytes that memory moves for an access to an embedding row: a cache line, or a burst of HBM."""
TABLE_S = 2e-6
"""Fixed seconds that each table on a device adds to a step; assumed, not measured."""
DEVICE_S = 50e-6
"""Fixed seconds of a step on a device that holds tables: some ten kernel launches of 5 us; assumed, not measured."""
BIN_LOOKUPS = np.array([1.0, 2.0, *(0.75 * 2.0 ** np.arange(2, NUM_REUSE_BINS))])
"""Assumed number of lookups of a row in a batch, for each reuse bin k (lookups up to 2^k): 1, 2, then the middle of
2^(k-1) and 2^k."""

Seconds = NDArray[np.float64]
Sets = Sequence[Sequence[EmbeddingTable]]
SetCost = Callable[[Sets], Seconds]
"""Type of functions that compute the cost of sets of tables, each set on a device of its own: seconds per step,
float64 [sets]. A set without tables costs 0."""


def over_sets(sets: Sets, values_of: Callable[[Sequence[EmbeddingTable]], NDArray[Any]]) -> Seconds:
    """Return, for each set of tables, the sum of a value over its tables: [sets, ...]. `values_of` returns the value
    of each table, [tables, ...]; it is called once, for the tables of all sets."""
    tables = {id(table): table for each in sets for table in each}
    if not tables:
        return np.zeros(len(sets))
    places = {key: place for place, key in enumerate(tables)}
    numbers = [places[id(table)] for each in sets for table in each]
    ends = np.cumsum([0, *map(len, sets)])
    members = csr_array((np.ones(len(numbers)), numbers, ends), (len(sets), len(tables)))
    return np.asarray(members @ values_of([*tables.values()]))


def count_moved_bytes(tables: Sequence[EmbeddingTable], batch_size: int) -> NDArray[np.float64]:
    """Return the bytes of memory traffic that a training step causes for each table: float64 [tables].

    The forward pass moves the ids, each distinct row once, and a sum per sample. The backward pass and the update
    move the ids and a gradient per sample, and read and write each distinct row and its optimizer state. Memory moves
    whole cache lines of a row. A row that the batch looks up again is assumed to be in a cache.

    A table that is copied to each device has a dense gradient, so its update reads and writes all rows, with gradient
    and optimizer state. Each copy looks up at most as many rows as the whole batch has distinct ones.
    """
    rows, pooling = np.array([(table.num_embeddings, table.pooling) for table in tables]).T
    lookups_per_row = 1 / (np.array([table.reuse for table in tables]) @ (1 / BIN_LOOKUPS))
    distinct = np.minimum(batch_size * pooling / lookups_per_row, rows)
    kept_bytes = FLOAT_BYTES * np.array([(table.dim, table.state_floats) for table in tables])
    in_lines = -(-kept_bytes // LINE_BYTES) * LINE_BYTES
    samples = batch_size * np.array([table.sample_share if isinstance(table, TablePart) else 1.0 for table in tables])
    of_rows = distinct * (in_lines @ [3, 2])
    if any(copied := [isinstance(table, TablePart) and table.layout == "copy" for table in tables]):
        looked_up = np.minimum(samples * pooling, distinct) * in_lines[:, 0]
        of_rows = np.where(copied, looked_up + rows * (kept_bytes @ [4, 2]), of_rows)
    return np.asarray(of_rows + 2 * samples * (kept_bytes[:, 0] + ID_BYTES * pooling))


@dataclass(frozen=True, kw_only=True, slots=True)
class Bandwidth:
    """Model of the seconds per step of the tables on a device: bytes moved divided by memory bandwidth, plus a fixed
    time for each table and one for the device.

    The model is affine. The sum of the costs of n tables, each alone on a device, therefore exceeds the cost of the n
    tables on one device by (n - 1) times `device_s`.
    """

    batch_size: int
    """Number of samples of a training step over all devices together; each device looks up its own tables for all of
    them."""
    memory_bandwidth: float
    """Bandwidth of each device's memory, in bytes/s."""
    table_s: float = TABLE_S
    device_s: float = DEVICE_S

    def __call__(self, sets: Sets, /) -> Seconds:
        moved = over_sets(sets, lambda tables: count_moved_bytes(tables, self.batch_size))
        fixed_s = [bool(each) * self.device_s + len(each) * self.table_s for each in sets]
        return np.asarray(moved / self.memory_bandwidth + fixed_s)


@dataclass(frozen=True, kw_only=True, slots=True)
class Exchange:
    """Model of the seconds per step for exchanging pooled rows and their gradients between devices (all-to-all).

    The model is affine: a sum over the device's tables, plus a fixed time of the device. A device sends the sums of
    its own tables to the devices that hold the samples, and receives gradients of equal size. Sums of other devices'
    tables arrive over the same links in the other direction at the same time, so they cost nothing. Links within a
    host and links between hosts work in parallel: the slower of them determines the time.

    If a table is cut by rows, its partial sums are added up where they arrive. If its rows are cut over the devices
    of one host, the sums are first added up within the host and then sent to the other hosts. Gradients of a table
    that is copied to each device are added up by a ring over the slowest link. Each of the two exchanges (pooled
    rows, gradients) adds a link's latency if the device holds tables.
    """

    batch_size: int
    """Number of samples of a training step over all devices together."""
    devices: Devices

    @property
    def device_s(self) -> float:
        """Fixed seconds per step of a device that holds tables: twice the slowest link's latency; 0 with a single
        device."""
        of = self.devices
        if of.num_devices == 1:
            return 0.0
        return 2 * (of.inter_host_latency_s if of.num_devices > of.devices_per_host else of.intra_host_latency_s)

    def __call__(self, sets: Sets, /) -> Seconds:
        fixed_s = [bool(each) * self.device_s for each in sets]
        return over_sets(sets, lambda tables: np.array([self._send(table) for table in tables])) + fixed_s

    def _send(self, table: EmbeddingTable) -> float:
        """Return the seconds in which a device sends a table's pooled rows and receives the rows' gradients."""
        of, layout = self.devices, table.layout if isinstance(table, TablePart) else None
        local = min(of.devices_per_host, of.num_devices)
        peers, others = local - 1, of.num_devices - local
        if layout == "copy":
            slowest = of.inter_host_bandwidth if others else of.intra_host_bandwidth
            ring_bytes = 2 * FLOAT_BYTES * table.num_embeddings * table.dim * (of.num_devices - 1) / of.num_devices
            return ring_bytes / slowest
        near, far = peers / of.intra_host_bandwidth, others / of.inter_host_bandwidth
        s_per_byte = near * of.num_devices / local + far / local if layout == "host_rows" else max(near, far)
        return 2 * FLOAT_BYTES * table.dim * (self.batch_size / of.num_devices * s_per_byte)


@dataclass(frozen=True, slots=True)
class Sum:
    """Cost of a set of tables as the sum of costs that follow one another on a device, such as compute and
    exchange."""

    parts: tuple[SetCost, ...]

    def __call__(self, sets: Sets, /) -> Seconds:
        return np.asarray(np.sum([part(sets) for part in self.parts], axis=0))


@dataclass(frozen=True, slots=True)
class Additive:
    """Cost of a set of tables as the sum of the costs of its single tables. `cost` computes the cost of each table
    alone on a device; the device's fixed time `device_s`, which each of these costs includes, is counted only
    once."""

    cost: SetCost
    device_s: float = 0.0
    """Fixed seconds per step of a device that holds any table, which the cost of each single table includes."""

    def __call__(self, sets: Sets, /) -> Seconds:
        added = over_sets(sets, lambda tables: self.cost([[table] for table in tables]))
        return added - self.device_s * np.maximum([len(each) - 1 for each in sets], 0)


def add_up(cost: SetCost, tables: Sequence[EmbeddingTable]) -> tuple[Seconds, float] | None:
    """Return the seconds that each table adds to a device, and the fixed seconds of a device with tables.

    Returns None if the cost of a set of tables, as computed by `cost`, is not the sum of these seconds.
    """
    if isinstance(cost, Sum):
        found = [add_up(part, tables) for part in cost.parts]
        parts = [part for part in found if part is not None]
        alone, of_device = np.sum([part[0] for part in parts], axis=0), sum(part[1] for part in parts)
        return (np.asarray(alone), of_device) if len(parts) == len(found) else None
    if not isinstance(cost, Additive | Exchange | Bandwidth):
        return None
    of_device = cost.device_s
    return cost([[table] for table in tables]) - of_device, of_device

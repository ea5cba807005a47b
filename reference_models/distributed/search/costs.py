"""What the tables of a device cost per step, in seconds: their lookups and updates, and the exchange of their rows.

A set cost takes many sets of tables at once and returns float64 [sets]; no tables cost nothing. A plan costs its
slowest device. `Bandwidth` and `Exchange` are modelled; nothing here is measured.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from reference_models.costs import FLOAT_BYTES, ID_BYTES
from reference_models.distributed.placement import Devices
from reference_models.distributed.search.task import NUM_REUSE_BINS, Plan, Table, Task

LINE_BYTES = 64
"""What a memory moves at least when one row is accessed: a cache line, or a burst of HBM."""
TABLE_S = 2e-6
"""Fixed time of a table; assumed, not measured."""
DEVICE_S = 50e-6
"""Fixed time of a device that holds tables: some ten launches of kernels of 5 us; assumed, not measured."""
BIN_LOOKUPS: NDArray[np.float64] = np.array([1.0, 2.0, *(0.75 * 2.0 ** np.arange(2, NUM_REUSE_BINS))])
"""Lookups that a row of each reuse bin is taken to have: 1, 2, then the middle of 2^(k-1) to 2^k."""

Seconds = NDArray[np.float64]
Sets = Sequence[Sequence[Table]]


class SetCost(Protocol):
    """What each of several sets of tables costs a device per step."""

    def __call__(self, sets: Sets, /) -> Seconds:
        """Return seconds, float64 [sets]; 0 for a set without tables."""


def over_sets(sets: Sets, values_of: Callable[[Sequence[Table]], Seconds]) -> Seconds:
    """Add up, over each set, what `values_of` says of each table: [tables, ...] to [sets, ...]. It is asked once."""
    tables = {id(table): table for each in sets for table in each}
    if not tables:
        return np.zeros(len(sets))
    places = {key: place for place, key in enumerate(tables)}
    numbers = [places[id(table)] for each in sets for table in each]
    ends = np.cumsum([0, *map(len, sets)])
    members = csr_array((np.ones(len(numbers)), numbers, ends), shape=(len(sets), len(tables)))
    added: Seconds = members @ values_of(list(tables.values()))
    return added


def distinct_rows(tables: Sequence[Table], batch_size: int) -> NDArray[np.float64]:
    """Return how many different rows of each table a batch looks up, as its reuse bins have it: [tables]."""
    lookups = batch_size * np.array([table.pooling for table in tables])
    rows = np.array([table.num_embeddings for table in tables])
    shares = np.array([table.reuse for table in tables]).reshape(len(tables), NUM_REUSE_BINS)
    return np.asarray(np.minimum(lookups * (shares @ (1 / BIN_LOOKUPS)), rows))


@dataclass(frozen=True, kw_only=True, slots=True)
class Bandwidth:
    """Bytes over the rate of a device's memory, a fixed time per table, and one per device.

    Forward: ids, each different row once, a sum per sample. Backward and update: a gradient per sample, ids, each
    different row and its optimizer state read and written. Rows move whole lines of memory; a row that is looked up
    again in the batch is in a cache. The cost of a set is that of its tables added up plus `device_s`: affine, so
    costs of single tables add up to (number of tables - 1) `device_s` more than their set costs.
    """

    batch_size: int
    """Samples of all devices together: a device looks its tables up for all of them."""
    memory_bandwidth: float
    """Bytes/s."""
    table_s: float = TABLE_S
    device_s: float = DEVICE_S

    def __call__(self, sets: Sets, /) -> Seconds:
        return over_sets(sets, self._of_tables) + self.device_s * np.array([bool(each) for each in sets])

    def _of_tables(self, tables: Sequence[Table]) -> Seconds:
        row_bytes = FLOAT_BYTES * np.array([table.dim for table in tables])
        state = {"sgd": 0, "rowwise_adagrad": FLOAT_BYTES}
        state_bytes = np.array([state.get(table.optimizer, FLOAT_BYTES * table.dim) for table in tables])
        per_row = 3 * _in_lines(row_bytes) + 2 * _in_lines(state_bytes)
        ids = 2 * ID_BYTES * np.array([table.pooling for table in tables])
        num_bytes = distinct_rows(tables, self.batch_size) * per_row + self.batch_size * (2 * row_bytes + ids)
        return np.asarray(num_bytes / self.memory_bandwidth + self.table_s)


def _in_lines(num_bytes: NDArray[np.int64]) -> NDArray[np.int64]:
    return -(-num_bytes // LINE_BYTES) * LINE_BYTES


@dataclass(frozen=True, kw_only=True, slots=True)
class Exchange:
    """The all-to-all of pooled rows, and of their gradients: additive, by a device's columns.

    A device sends the sums of its own tables to those whose samples they are, and gets as many bytes of gradients.
    What it gets of other tables goes the other way over the same links at the same time. Links within a host and
    between hosts work side by side: the slower one counts.
    """

    batch_size: int
    """Samples of all devices together."""
    devices: Devices

    def __call__(self, sets: Sets, /) -> Seconds:
        of = self.devices
        peers = min(of.devices_per_host, of.num_devices) - 1
        others = of.num_devices - 1 - peers
        s_per_byte = max(peers / of.intra_host_bandwidth, others / of.inter_host_bandwidth)
        num_bytes = 2 * FLOAT_BYTES * self.batch_size / of.num_devices * over_sets(sets, _columns)
        return np.asarray(num_bytes * s_per_byte)


def _columns(tables: Sequence[Table]) -> Seconds:
    return np.array([float(table.dim) for table in tables])


@dataclass(frozen=True, slots=True)
class Sum:
    """Costs that a device has one after the other, such as compute and exchange."""

    parts: tuple[SetCost, ...]

    def __call__(self, sets: Sets, /) -> Seconds:
        return np.asarray(np.sum([part(sets) for part in self.parts], axis=0))


@dataclass(frozen=True, slots=True)
class Additive:
    """The costs of single tables added up, whatever a cost says of sets."""

    cost: SetCost

    def __call__(self, sets: Sets, /) -> Seconds:
        return over_sets(sets, lambda tables: self.cost([[table] for table in tables]))


@dataclass(frozen=True, kw_only=True, slots=True)
class PlanCost:
    """What a plan costs each device per step, in seconds."""

    compute_s: tuple[float, ...]
    exchange_s: tuple[float, ...]

    @property
    def device_s(self) -> tuple[float, ...]:
        return tuple(map(sum, zip(self.compute_s, self.exchange_s, strict=True)))

    @property
    def seconds(self) -> float:
        """Those of the slowest device."""
        return max(self.device_s)

    @property
    def balance(self) -> float:
        """Those of the slowest device over the mean; 1 where none costs anything."""
        mean = sum(self.device_s) / len(self.device_s)
        return self.seconds / mean if mean else 1.0


def plan_cost(task: Task, plan: Plan, cost: SetCost, exchange: SetCost) -> PlanCost:
    """Return what a plan of the task costs: its compute by `cost`, its exchange by `exchange`."""
    sets = plan.sets(task)
    return PlanCost(compute_s=tuple(cost(sets).tolist()), exchange_s=tuple(exchange(sets).tolist()))

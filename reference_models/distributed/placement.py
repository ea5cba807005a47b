"""Devices that need not be here, and where a planner would lay a model's tables on them. Torch-free."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from reference_models.config.sections import PLAN

OnProgress = Callable[[int, int], None]
"""Called with how many of how many tables have been looked at."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Devices:
    """The machines to plan for. Bandwidths in bytes/s; within a host between devices, and between hosts."""

    num_devices: int
    device_type: str
    memory_bytes: int
    memory_bandwidth: float
    devices_per_host: int
    intra_host_bandwidth: float
    inter_host_bandwidth: float
    intra_host_latency_s: float = 0.0
    inter_host_latency_s: float = 0.0
    """Seconds before the first byte of an exchange arrives."""
    reserve: float = 0.0
    """Share of a device's memory that tables leave free: for activations, buffers and the dense part."""

    @property
    def usable_bytes(self) -> int:
        """What tables and their optimizer's state may take of one device."""
        return int(self.memory_bytes * (1 - self.reserve))


def is_outside_devices(kernel: str) -> bool:
    """Return whether a kernel of TorchRec keeps its rows outside of devices: managed memory, SSD, a server."""
    return any(part in kernel for part in ("uvm", "key_value", "ssd", "dram"))


def describe_sharding(sharding: str, types: Mapping[str, str]) -> str:
    """Write what was asked for; of a plan the tables of each type as they were built: "table_wise: table_0, table_2".

    `types` has the type of each table by the table's name.
    """
    if not sharding.startswith(PLAN):
        return sharding
    kinds = sorted(set(types.values()))
    return "; ".join(f"{kind}: {', '.join(name for name in types if types[name] == kind)}" for kind in kinds)


@dataclass(frozen=True, kw_only=True, slots=True)
class TablePlacement:
    """One table: how it is cut, by which kernel it is looked up, on which devices its shards are."""

    table: int
    num_embeddings: int
    sharding: str
    kernel: str
    devices: tuple[int, ...]
    shard_shapes: tuple[tuple[int, int], ...]

    @property
    def is_outside_devices(self) -> bool:
        return is_outside_devices(self.kernel)


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceLoad:
    """What one device would hold (tables, their state, buffers) and how long its lookups would take per step.

    `host_memory_bytes` is what its tables would take of the host's memory, by kernels that keep rows there.
    """

    device: int
    memory_bytes: int
    host_memory_bytes: int
    step_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannerEstimate:
    """Where the tables would be and what that would take, as a planner estimates it; nothing is measured.

    `step_s` is the slowest device's, of the embeddings alone; `balance` is that over the devices' mean.

    `is_search_cut`: plans were left that nobody compared.
    """

    devices: Devices
    sharding: str
    global_batch_size: int
    tables: tuple[TablePlacement, ...]
    loads: tuple[DeviceLoad, ...]
    step_s: float
    balance: float
    is_search_cut: bool

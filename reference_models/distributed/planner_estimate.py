"""Descriptions of devices to plan for, which need not exist, and a planner's placement of a model's tables on them.

Torch-free.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from reference_models.config.sections import PLAN

OnProgress = Callable[[int, int], None]
"""Function that reports a planner's progress: it is called with the number of tables examined, and of all tables."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Devices:
    """Devices that tables are to be placed on. Bandwidths, in bytes/s, are of memory, within a host, and between
    hosts."""

    num_devices: int
    device_type: str
    memory_bytes: int
    memory_bandwidth: float
    devices_per_host: int
    intra_host_bandwidth: float
    inter_host_bandwidth: float
    intra_host_latency_s: float = 0.0
    inter_host_latency_s: float = 0.0
    """Latency between hosts: seconds before the first byte of an exchange between their devices arrives."""
    reserve: float = 0.0
    """Share of a device's memory kept free of tables, for activations, buffers and the model's dense part."""

    @property
    def usable_bytes(self) -> int:
        """Bytes of each device's memory that tables and their optimizer state may take."""
        return int(self.memory_bytes * (1 - self.reserve))


def is_outside_devices(kernel: str) -> bool:
    """Return whether a TorchRec kernel stores a table's rows outside of the device's memory: in managed memory, on
    SSD, or on a server."""
    return any(part in kernel for part in ("uvm", "key_value", "ssd", "dram"))


def describe_sharding(sharding: str, types: Mapping[str, str]) -> str:
    """Return the requested sharding in words; for a plan, the tables by sharding type: "table_wise: table_0,
    table_2".

    `types` has each table's sharding type by name.
    """
    if not sharding.startswith(PLAN):
        return sharding
    kinds = sorted(set(types.values()))
    return "; ".join(f"{kind}: {', '.join(name for name in types if types[name] == kind)}" for kind in kinds)


@dataclass(frozen=True, kw_only=True, slots=True)
class TablePlacement:
    """Placement of a table by a planner: its sharding type, the kernel of its lookups, and the devices of its
    shards."""

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
    """A device's load under a placement: bytes of tables, optimizer state and buffers; seconds of lookups per step.

    `host_memory_bytes` are the bytes of its tables in the host's memory, for kernels that store rows there.
    """

    device: int
    memory_bytes: int
    host_memory_bytes: int
    step_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannerEstimate:
    """A planner's placement of tables, with estimated memory and time; nothing is measured.

    `step_s` are the slowest device's seconds per step, of embeddings only; `balance` is `step_s` divided by the mean
    over devices.

    `is_search_cut`: the search ended before all plans were compared.
    """

    devices: Devices
    sharding: str
    global_batch_size: int
    tables: tuple[TablePlacement, ...]
    loads: tuple[DeviceLoad, ...]
    step_s: float
    balance: float
    is_search_cut: bool

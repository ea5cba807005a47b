"""Descriptions of devices, which need not exist, and a planner's placement of a model's embedding tables on them.

Torch-free.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from reference_models.config.sections import PLAN

OnProgress = Callable[[int, int], None]
"""Type of functions that report a planner's progress: called with the number of tables examined so far and the number
of all tables."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Devices:
    """Devices on which embedding tables are to be placed. Bandwidths, in bytes/s, are of a device's memory, of links
    within a host, and of links between hosts."""

    num_devices: int
    device_type: str
    memory_bytes: int
    memory_bandwidth: float
    devices_per_host: int
    intra_host_bandwidth: float
    inter_host_bandwidth: float
    intra_host_latency_s: float = 0.0
    inter_host_latency_s: float = 0.0
    """Latency between hosts: seconds until the first byte of an exchange between devices of two hosts arrives."""
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
    """Return a sharding as text: the requested sharding or, if that is a plan, the tables of each sharding type, such
    as "table_wise: table_0, table_2".

    `types` is a dict from each table's name to its sharding type.
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
    """Load of one device under a placement of tables: bytes of tables, optimizer state and buffers, and seconds of
    lookups per step.

    `host_memory_bytes` are the bytes of the device's tables in the host's memory, for kernels that store rows there.
    """

    device: int
    memory_bytes: int
    host_memory_bytes: int
    step_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannerEstimate:
    """Placement of embedding tables by a planner, with estimated memory and time; nothing is measured.

    `step_s` is the time per step, for embeddings only, of the slowest device. `balance` is `step_s` divided by the
    mean of that time over devices.

    `is_search_cut` is true if the search ended before all plans were compared.
    """

    devices: Devices
    sharding: str
    global_batch_size: int
    tables: tuple[TablePlacement, ...]
    loads: tuple[DeviceLoad, ...]
    step_s: float
    balance: float
    is_search_cut: bool

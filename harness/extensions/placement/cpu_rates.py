"""Measure, for devices that are CPUs, the rates that the user does not give: bandwidth and fixed times of a step, on
one thread of this machine."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from harness.system.resources import read_resources
from reference_models.distributed.planner_estimate import Devices
from reference_models.distributed.search.costs import DEVICE_S, TABLE_S
from reference_models.distributed.search.task import NUM_REUSE_BINS, EmbeddingTable

CPU = "cpu"
_COPY_BYTES = 1 << 26
"""Bytes that the timed memory copy reads and writes: more than the caches of a core hold."""
_NUM_TABLES = 9
_COPIES = ("memory_bandwidth", "intra_host_bandwidth")
"""Fields of Devices that hold a bandwidth; the bandwidth of the timed memory copy is used for them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FixedTimes:
    """Times of a step that do not depend on bytes, in seconds: one for each table, one for each device that holds
    tables."""

    table_s: float = TABLE_S
    device_s: float = DEVICE_S
    is_measured: bool = False


ASSUMED = FixedTimes()


def rate_cpu(devices: Devices, given: Collection[str], seed: int) -> tuple[Devices, tuple[str, ...], FixedTimes]:
    """Measure on this CPU the rates and fixed times from which plans are costed. Return `devices` with the measured
    bandwidths, the names of the measured fields, and the fixed times of a step.

    The bandwidths of memory and of links within a host are measured, except those named in `given`. Both are the
    bytes/s of a memory copy, since ranks on one host exchange data by copies in memory. The bandwidth of links
    between hosts is not measured. The fixed times follow from lookups of one row in nine tables and in one table.
    """
    import torch

    from harness.measure.profile.measure_ceilings import measure_copy
    from reference_models.distributed.search.measured import MeasuredCost
    from reference_models.distributed.search.net import repeatable

    with repeatable(seed):
        bytes_per_s = measure_copy(_COPY_BYTES, torch.device(CPU)).bytes_per_s.median
    reuse = tuple(float(number == 0) for number in range(NUM_REUSE_BINS))
    table = EmbeddingTable(num_embeddings=1, dim=4, pooling=1.0, reuse=reuse, optimizer="sgd")
    free = read_resources().available_memory_bytes
    of_one, of_all = MeasuredCost(batch_size=1, available_bytes=free)([[table], [table] * _NUM_TABLES]).tolist()
    table_s = max(of_all - of_one, 0.0) / (_NUM_TABLES - 1)
    rates: dict[str, Any] = {name: bytes_per_s for name in _COPIES if name not in given}
    fixed = FixedTimes(table_s=table_s, device_s=max(of_one - table_s, 0.0), is_measured=True)
    return replace(devices, **rates), tuple(rates), fixed

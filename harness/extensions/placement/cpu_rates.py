"""Measure rates of devices that are CPUs, where the user gives none: bandwidth and fixed times of one thread here."""

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
"""Fields of Devices whose bandwidth is taken to be that of the timed memory copy."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FixedTimes:
    """Times of a step that do not depend on bytes, in seconds: one for each table, one for each device that holds
    tables."""

    table_s: float = TABLE_S
    device_s: float = DEVICE_S
    is_measured: bool = False


ASSUMED = FixedTimes()


def rate_cpu(devices: Devices, given: Collection[str], seed: int) -> tuple[Devices, tuple[str, ...], FixedTimes]:
    """Return the devices with the bandwidths in _COPIES that are not in `given` measured on this CPU, the names of
    these fields, and the fixed times of a step.

    The bytes/s of a copy stand for the memory, and for links within a host, over which ranks copy. Fixed times follow
    from lookups of one row each in nine tables and in one table. Rates of links between hosts stay assumed.
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

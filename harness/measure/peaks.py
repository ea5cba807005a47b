"""Record the peak memory of each rank of a process that trains, with the host of each rank."""

import socket
from collections.abc import Mapping
from typing import Any

from harness.measure.companions import Companion
from harness.system.resources import peak_rss_bytes
from reference_models.training.workload import peak_reserved_bytes


class PeaksCompanion(Companion):
    """Companion (observer of a process that trains) that reads peak memory when the measurement is over: of the
    processes of all ranks, and of rank 0's device."""

    def after(self) -> Mapping[str, Any]:
        world, workload = self.process.world, self.process.workload
        mine = {
            "rank": world.rank,
            "host": socket.gethostname(),
            "peak_rss_bytes": peak_rss_bytes(),
            "peak_device_bytes": workload.peak_device_bytes(),
            "peak_reserved_bytes": peak_reserved_bytes(workload),
        }
        ranks = world.gather(mine) or [mine]
        return {
            "peak_rss_bytes": sum(rank["peak_rss_bytes"] for rank in ranks),
            "peak_device_bytes": mine["peak_device_bytes"],
            "peak_reserved_bytes": mine["peak_reserved_bytes"],
            "ranks": ranks if world.size > 1 else [],
        }

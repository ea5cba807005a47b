"""Record the energy of a process's timed region, as a field of the process's record."""

from collections.abc import Mapping
from typing import Any

from harness.measure.companions import Companion
from harness.system.energy import EnergyMeter, join_ranks


class EnergyCompanion(Companion):
    """Companion (observer of a process that trains) that reads the energy counters of all ranks, or the user's power
    command, from start to stop of the timed region."""

    def before_build(self) -> None:
        process = self.process
        self._meter = EnergyMeter(process.config.runtime.device, power_command=process.job.power_command)

    def start(self) -> None:
        self._meter.start()

    def stop(self) -> None:
        self._energy = join_ranks(self.process.world, self._meter.stop())

    def after(self) -> Mapping[str, Any]:
        return {"energy": self._energy}

"""Count and time the exchanges of data between ranks, in extra training steps after the measurement."""

from collections.abc import Mapping
from typing import Any

from harness.measure.companions import Companion
from reference_models.training.workload import MeasuresTraffic

NUM_STEP_PAIRS = 5
"""Number of pairs of extra training steps. In one step of a pair the traffic between ranks is counted; the other is
timed."""


class TrafficCompanion(Companion):
    """Companion (observer of a process that trains) that counts and times the data that several ranks exchange: in
    training steps and, for a run, also in an evaluation. Does nothing if the process's record has no field for
    traffic."""

    def after(self) -> Mapping[str, Any]:
        process, workload = self.process, self.process.workload
        if "traffic" not in process.record.__struct_fields__:
            return {}
        traffic = None
        if process.world.size > 1 and isinstance(workload, MeasuresTraffic):
            traffic = workload.measure_traffic(NUM_STEP_PAIRS, with_evaluation=process.is_run)
        return {"exchange": traffic}

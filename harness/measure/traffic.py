"""What the ranks of a process send to each other, counted and timed in steps of their own, after all else."""

from collections.abc import Mapping
from typing import Any

from harness.measure.companions import Companion
from reference_models.training.workload import MeasuresTraffic

NUM_STEP_PAIRS = 5
"""Pairs of steps that are trained for it."""


class TrafficCompanion(Companion):
    """Counts the traffic of several ranks where the record has a member for it; of a run an evaluation's too."""

    def after(self) -> Mapping[str, Any]:
        process, workload = self.process, self.process.workload
        if "traffic" not in process.record.__struct_fields__:
            return {}
        traffic = None
        if process.world.size > 1 and isinstance(workload, MeasuresTraffic):
            traffic = workload.measure_traffic(NUM_STEP_PAIRS, with_evaluation=process.is_run)
        return {"exchange": traffic}

"""Describe the job and the kind of measurement of a profile, without the code that measures, which imports torch."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from harness.config.catalog import WorkloadConfig
from harness.measure.kinds import Job, Kind, OnEvent
from harness.measure.refusals import refuse_unprofilable, refuse_untrainable
from reference_models.process.world import World
from rules.records.codec import convert
from rules.records.profile import ProfileRecord
from rules.records.run_set import RunSetRecord


@dataclass(frozen=True, kw_only=True, slots=True)
class ProfileJob(Job):
    """Job that profiles a training step. `num_steps` is the number of steps to time; where it is None, as many as fit
    into a time budget."""

    num_steps: int | None
    trace: str | None


def _run(job: ProfileJob, world: World, on_event: OnEvent) -> ProfileRecord:
    from harness.measure.profile.worker import profile

    trace = None if job.trace is None else Path(job.trace)
    record = profile(job, world, on_event, num_steps=job.num_steps, trace=trace)
    return convert(msgspec.to_builtins(record), ProfileRecord)  # which checks the bounds of every number


class ProfileKind(Kind):
    """Measurement of the time of each phase of a training step, in one process."""

    def check(self, workload: WorkloadConfig) -> None:
        refuse_unprofilable(workload)
        refuse_untrainable(workload)

    def make_job(self, record: RunSetRecord, index: int, members: Mapping[str, Any], more: Mapping[str, Any]) -> Job:
        return ProfileJob(**{"num_steps": None, "trace": None, **members, **more})


KIND = ProfileKind(
    name="profile",
    job=ProfileJob,
    record=ProfileRecord,
    run=_run,
    file="profile.json",
    keeper="record",
    max_repetitions=1,
)

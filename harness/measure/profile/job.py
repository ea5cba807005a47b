"""What a profile is asked, apart from the work itself, which needs torch."""

from dataclasses import dataclass
from pathlib import Path

import msgspec

from harness.measure.kinds import Job, MeasurementKind, OnEvent
from reference_models.process.world import World
from rules.records.codec import convert
from rules.records.profile import ProfileRecord


@dataclass(frozen=True, kw_only=True, slots=True)
class ProfileJob(Job):
    """What to profile. `num_steps` None is as many as fit in a budget."""

    num_steps: int | None
    trace: str | None


def _run(job: ProfileJob, world: World, on_event: OnEvent) -> ProfileRecord:
    from harness.measure.profile.worker import profile

    trace = None if job.trace is None else Path(job.trace)
    record = profile(job, world, on_event, num_steps=job.num_steps, trace=trace)
    return convert(msgspec.to_builtins(record), ProfileRecord)  # which checks the bounds of every number


KIND = MeasurementKind(name="profile", job=ProfileJob, record=ProfileRecord, run=_run, file="profile.json")

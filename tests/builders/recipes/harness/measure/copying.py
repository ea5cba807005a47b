"""Copying: bytes per second of one large copy in memory."""

from dataclasses import dataclass
from time import perf_counter

from harness.measure.kinds import Job, Kind, OnEvent, Option
from reference_models.process.world import World
from rules.records.copying import CopyingProcess, CopyingRecord


@dataclass(frozen=True, kw_only=True, slots=True)
class CopyingJob(Job):
    """One process's measurement."""

    num_bytes: int


def copy_memory(job: CopyingJob, world: World, on_event: OnEvent) -> CopyingRecord:
    """Copy zeros that were written before."""
    source = bytearray(job.num_bytes)
    start_s = perf_counter()
    copy = bytes(source)
    rate = len(copy) / (perf_counter() - start_s)
    return CopyingRecord(processes=(CopyingProcess(num_bytes=len(copy), bytes_per_s=rate),))


KIND = Kind(
    name="copying", job=CopyingJob, record=CopyingRecord, run=copy_memory, min_repetitions=5,
    option=Option(verbs=("run", "sweep"), help="Measure copies of BYTES instead.", member="num_bytes", unit="BYTES"),
)  # fmt: skip

"""Sorting: numbers per second of one large list."""

import random
from dataclasses import dataclass
from time import perf_counter

from harness.extensions.sorting.records import SortingProcess, SortingRecord
from harness.extensions.sorting.section import SORTING
from harness.measure.kinds import Job, Kind, OnEvent, Option
from reference_models.process.world import World


@dataclass(frozen=True, kw_only=True, slots=True)
class SortingJob(Job):
    """One process's measurement."""

    num_values: int


def sort_values(job: SortingJob, world: World, on_event: OnEvent) -> SortingRecord:
    """Sort numbers that are drawn before."""
    drawn, order = random.Random(job.seed), SORTING.read(job.tables.get("sorting", {})).order
    values = [drawn.random() for _ in range(job.num_values)]
    if order != "random":
        values.sort(reverse=order == "falling")
    start_s = perf_counter()
    values.sort()
    rate = len(values) / (perf_counter() - start_s)
    return SortingRecord(processes=(SortingProcess(num_values=len(values), values_per_s=rate),))


KIND = Kind(
    name="sorting", job=SortingJob, record=SortingRecord, run=sort_values, min_repetitions=5, sections=("sorting",),
    option=Option(verbs=("run", "sweep"), help="Measure sorts of N numbers instead.", member="num_values", unit="N"),
)  # fmt: skip

"""Measure training throughput: samples per second of a fixed number of steps in one fresh process; never a score."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.config.catalog import WorkloadConfig
from harness.config.run_config import RunConfig
from harness.config.synthetic import hold_in_memory
from harness.measure.clock import Clock
from harness.measure.companions import measuring
from harness.measure.kinds import Job, Kind, OnEvent, Option, Work
from harness.system.page_cache import clear_page_cache
from reference_models.costs import ComputedCosts
from reference_models.process.errors import ConfigError
from reference_models.process.world import World
from rules.records.codec import VERSION, convert
from rules.records.measured.throughput import ModelCosts, ProcessRecord, ThroughputRecord

MIN_PROCESSES = 5
WARM_UP_STEPS = 10


@dataclass(frozen=True, kw_only=True, slots=True)
class ThroughputJob(Job):
    """Job that measures training throughput in one process."""

    num_steps: int
    warm_up_steps: int = WARM_UP_STEPS


def measure_throughput(job: ThroughputJob, world: World, on_event: OnEvent) -> ThroughputRecord | None:
    """Warm up, train `num_steps`, and return the record of throughput on rank 0, None on other ranks.

    The measured time includes reading the dataset. It does not include making synthetic data, which is in memory
    after the warm-up. With several ranks, the samples of all ranks are counted, and the time lasts until the last
    rank is done.
    """

    def reshape(config: WorkloadConfig) -> WorkloadConfig:
        return hold_in_memory(config, job.warm_up_steps + job.num_steps)

    with measuring(job, world, on_event, ProcessRecord, reshape=reshape) as process:
        workload, dataset, config = process.workload, process.dataset, process.config
        cache = clear_page_cache([Path(path) for path in dataset.files])
        workload.build()
        clock = Clock(workload.synchronize)
        train_steps(workload.train, job.warm_up_steps)
        process.start()
        world.barrier()
        start_s = clock.elapsed_s()
        num_samples = train_steps(workload.train, job.num_steps)
        world.barrier()
        duration_s = clock.elapsed_s() - start_s
        process.stop()
        hyperparameters = dict(workload.hyperparameters())
    if world.rank != 0:
        return None
    measured = {
        "num_steps": job.num_steps,
        "num_samples": num_samples,
        "duration_s": duration_s,
        "samples_per_s": num_samples / duration_s,
        "cache_cleared": cache.cleared,
        "hyperparameters": hyperparameters,
    }
    content = {
        "schema_version": VERSION,
        "warm_up_steps": job.warm_up_steps,
        "data_kind": config.data.kind,
        "computed": describe_costs(config.costs(dataset.train.num_embeddings)),
        "processes": [process.members | measured],
    }
    return convert(content, ThroughputRecord)


def describe_costs(costs: ComputedCosts) -> dict[str, int]:
    """Return the model's size and its work per sample, as fields of measurement records."""
    return {member: getattr(costs, member) for member in ModelCosts.__struct_fields__}


def train_steps(train: Callable[[int], Any], num_steps: int) -> int:
    """Train exactly `num_steps`, across the end of an epoch where needed; return the number of trained samples."""
    done, num_samples = 0, 0
    while done < num_steps:
        counts = train(num_steps - done)
        if counts.num_steps == 0:
            raise ConfigError(
                "the training split holds less than one batch. Give more data, or a smaller train.global_batch_size."
            )
        done, num_samples = done + counts.num_steps, num_samples + counts.num_samples
    return num_samples


class ThroughputKind(Kind):
    """Measurement of training throughput: samples per second over a fixed number of steps."""

    def work(self, options: Mapping[str, int], config: RunConfig, sizes: tuple[int, int] | None) -> Work:
        return Work(num_steps=WARM_UP_STEPS + options["num_steps"], num_evals=0, eval_samples=0)


KIND = ThroughputKind(
    name="throughput",
    job=ThroughputJob,
    record=ThroughputRecord,
    run=measure_throughput,
    min_repetitions=MIN_PROCESSES,
    sections=("checkpoint",),
    option=Option(
        verbs=("run", "sweep"),
        member="num_steps",
        unit="STEPS",
        help="Measure samples/s over STEPS training steps, in at least 5 processes, instead of the time to train; "
        "any configuration key may be changed, and there is no score.",
    ),
)

"""Throughput: samples per second of a fixed number of steps in one fresh process; never a score."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from msgspec import to_builtins

from harness.config.run_config import RunConfig
from harness.config.synthetic import hold_in_memory
from harness.measure.checkpoints import begin_checkpoints, end_checkpoints
from harness.measure.clock import Clock
from harness.measure.kinds import Job, Kind, OnEvent, Option, Work
from harness.measure.read_data import refuse_other_data
from harness.measure.training import EXCHANGE_STEPS, describe_rank
from harness.system.energy import EnergyMeter, join_ranks
from harness.system.page_cache import clear_page_cache
from reference_models.costs import ModelCosts as Costs
from reference_models.data.registry import open_dataset
from reference_models.process.errors import ConfigError
from reference_models.process.world import World
from reference_models.training.workload import MeasuresTraffic, Workload, peak_reserved_bytes
from rules.records.codec import VERSION, convert
from rules.records.kept.checkpoint import CHECKPOINTS_FOLDER
from rules.records.measured.throughput import ModelCosts, ThroughputRecord

MIN_PROCESSES = 5
WARM_UP_STEPS = 10


@dataclass(frozen=True, kw_only=True, slots=True)
class ThroughputJob(Job):
    """One process's measurement."""

    num_steps: int
    warm_up_steps: int = WARM_UP_STEPS


def measure_throughput(job: ThroughputJob, world: World, on_event: OnEvent) -> ThroughputRecord | None:
    """Warm up, train `num_steps`, return what was measured on rank 0.

    Reading the dataset is part of the time; synthetic data is in memory once the warm-up has touched it. Of several
    ranks the samples are those of all, and the time lasts until the last one is done.
    """
    started = datetime.now(UTC)
    benchmark, config = job.parse()
    config = hold_in_memory(config, job.warm_up_steps + job.num_steps)
    spec = job.spec(config)
    dataset = open_dataset(spec.data_dir, config.data)
    cache = clear_page_cache([Path(path) for path in dataset.files])
    workload = config.implementation.load(spec, world)
    root = Path(job.folder) / CHECKPOINTS_FOLDER
    made = begin_checkpoints(workload, config, job, benchmark, dataset, root)
    meter = EnergyMeter(config.runtime.device, power_command=job.power_command)
    workload.build()
    clock = Clock(workload.synchronize)
    train_steps(workload.train, job.warm_up_steps)
    meter.start()
    world.barrier()
    start_s = clock.elapsed_s()
    num_samples = train_steps(workload.train, job.num_steps)
    world.barrier()
    duration_s = clock.elapsed_s() - start_s
    energy = join_ranks(world, meter.stop())
    refuse_other_data(workload, dataset, world, on_event)
    process = describe_process(workload, world, started, energy)
    exchange = None
    if world.size > 1 and isinstance(workload, MeasuresTraffic):
        exchange = workload.measure_traffic(EXCHANGE_STEPS, with_evaluation=False)
    if process is None:
        return None
    checkpoints = end_checkpoints(made, root)
    process |= {
        "num_steps": job.num_steps,
        "num_samples": num_samples,
        "duration_s": duration_s,
        "samples_per_s": num_samples / duration_s,
        "cache_cleared": cache.cleared,
        "exchange": exchange,
        "checkpoints": None if checkpoints is None else to_builtins(checkpoints),
    }
    content = {
        "schema_version": VERSION,
        "warm_up_steps": job.warm_up_steps,
        "data_kind": config.data.kind,
        "computed": describe_costs(config.costs(dataset.train.num_embeddings)),
        "processes": [process],
    }
    return convert(content, ThroughputRecord)


def describe_process(
    workload: Workload, world: World, started: datetime, energy: Mapping[str, Any] | None
) -> dict[str, Any] | None:
    """Describe what every kind records of a process beside what it measures; None except on rank 0. It ends now."""
    ended = datetime.now(UTC)
    ranks = world.gather(describe_rank(workload, world))
    if ranks is None:
        return None
    return {
        "started_utc": started.isoformat(timespec="milliseconds"),
        "ended_utc": ended.isoformat(timespec="milliseconds"),
        "hyperparameters": dict(workload.hyperparameters()),
        "peak_device_bytes": workload.peak_device_bytes(),
        "peak_reserved_bytes": peak_reserved_bytes(workload),
        "peak_rss_bytes": sum(rank["peak_rss_bytes"] for rank in ranks),
        "energy": energy,
        "ranks": ranks if world.size > 1 else [],
    }


def describe_costs(costs: Costs) -> dict[str, int]:
    """Describe what the model holds and does per sample, as the records of measurements have it."""
    return {member: getattr(costs, member) for member in ModelCosts.__struct_fields__}


def train_steps(train: Callable[[int], Any], num_steps: int) -> int:
    """Train exactly `num_steps`, over the end of an epoch where need be; returns the samples."""
    done, num_samples = 0, 0
    while done < num_steps:
        counts = train(num_steps - done)
        if counts.num_steps == 0:
            raise ConfigError("the dataset holds less than one batch.")
        done, num_samples = done + counts.num_steps, num_samples + counts.num_samples
    return num_samples


class ThroughputKind(Kind):
    """Samples per second of a number of steps."""

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
        help="Measure samples/s over STEPS in at least 5 processes instead; any key may vary, nothing is scored.",
    ),
)

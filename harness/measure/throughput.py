"""Throughput: samples per second of a fixed number of steps in one fresh process; never a score."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.config.catalog import parse_workload
from harness.config.synthetic import hold_in_memory
from harness.measure.clock import Clock
from harness.measure.kinds import Job, MeasurementKind, OnEvent
from harness.measure.training import EXCHANGE_STEPS, describe_rank
from harness.system.energy import EnergyMeter
from harness.system.page_cache import clear_page_cache
from reference_models.costs.model import ModelCosts
from reference_models.data.registry import open_dataset
from reference_models.process.errors import ConfigError
from reference_models.process.world import World
from reference_models.training.workload import MeasuresTraffic
from rules.benchmarks.loader import parse_benchmark
from rules.records.codec import VERSION, convert
from rules.records.throughput import ThroughputRecord

MIN_PROCESSES = 5
WARM_UP_STEPS = 10


@dataclass(frozen=True, kw_only=True, slots=True)
class ThroughputJob(Job):
    """One process's measurement."""

    num_steps: int
    warm_up_steps: int = WARM_UP_STEPS


def measure_throughput(spec: ThroughputJob, world: World, on_event: OnEvent) -> ThroughputRecord | None:
    """Warm up, train `num_steps`, return what was measured on rank 0.

    Reading the dataset is part of the time; synthetic data is in memory once the warm-up has touched it. Of several
    ranks the samples are those of all, and the time lasts until the last one is done.
    """
    benchmark = parse_benchmark(spec.tables, Path(spec.definition_path))
    config = hold_in_memory(parse_workload(benchmark, benchmark.sections), spec.warm_up_steps + spec.num_steps)
    workload_spec = config.spec(Path(spec.data_dir), spec.seed)
    dataset = open_dataset(workload_spec.data_dir, config.data)
    cache = clear_page_cache([Path(path) for path in dataset.files])
    workload = config.implementation.load(workload_spec, world)
    meter = EnergyMeter(config.runtime.device)
    workload.build()
    clock = Clock(workload.synchronize)
    train_steps(workload.train, spec.warm_up_steps)
    meter.start()
    world.barrier()
    start_s = clock.elapsed_s()
    num_samples = train_steps(workload.train, spec.num_steps)
    world.barrier()
    duration_s = clock.elapsed_s() - start_s
    energy = meter.stop()
    ranks = world.gather(describe_rank(workload, world))
    peak_device_bytes = workload.peak_device_bytes()
    exchange = None
    if world.size > 1 and isinstance(workload, MeasuresTraffic):
        exchange = workload.measure_traffic(EXCHANGE_STEPS, with_evaluation=False)
    if ranks is None:
        return None
    counts = config.costs(dataset.train.num_embeddings)
    process = {
        "num_steps": spec.num_steps,
        "num_samples": num_samples,
        "duration_s": duration_s,
        "samples_per_s": num_samples / duration_s,
        "cache_cleared": cache.cleared,
        "hyperparameters": dict(workload.hyperparameters()),
        "peak_device_bytes": peak_device_bytes,
        "peak_rss_bytes": sum(rank["peak_rss_bytes"] for rank in ranks),
        "energy": energy,
        "ranks": ranks if world.size > 1 else [],
        "exchange": exchange,
    }
    content = {
        "schema_version": VERSION,
        "warm_up_steps": spec.warm_up_steps,
        "data_kind": config.data.kind,
        "computed": describe_counts(counts),
        "processes": [process],
    }
    return convert(content, ThroughputRecord)


def describe_counts(counts: ModelCosts) -> dict[str, int]:
    """What the model holds and does per sample, as throughput.json says it."""
    return {
        "num_parameters": counts.num_parameters,
        "embedding_bytes": counts.embedding_bytes,
        "num_lookups_per_sample": counts.num_lookups_per_sample,
        "embedding_bytes_per_sample": counts.embedding_bytes_per_sample,
        "forward_flop_per_sample": counts.forward_flop_per_sample,
        "training_flop_per_sample": counts.training_flop_per_sample,
    }


def train_steps(train: Callable[[int], Any], num_steps: int) -> int:
    """Train exactly `num_steps`, over the end of an epoch where need be; returns the samples."""
    done, num_samples = 0, 0
    while done < num_steps:
        counts = train(num_steps - done)
        if counts.num_steps == 0:
            raise ConfigError("the dataset holds less than one batch.")
        done, num_samples = done + counts.num_steps, num_samples + counts.num_samples
    return num_samples


KIND = MeasurementKind(
    name="throughput",
    job=ThroughputJob,
    record=ThroughputRecord,
    run=measure_throughput,
    min_processes=MIN_PROCESSES,
)

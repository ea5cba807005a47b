"""Throughput mode: samples per second of a fixed number of steps, in fresh processes; never a score.

The child is started as `python -m harness.run_sets.throughput SPEC.json` and answers by one event on its stdout.
"""

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from harness.config.catalog import parse_workload
from harness.config.synthetic import hold_in_memory
from harness.foundation.errors import ExitCode, HarnessError, exit_code_of, is_out_of_memory, message_of
from harness.foundation.files import read_json, write_json
from harness.launch.process import explain_end, launch_worker
from harness.measure.clock import Clock
from harness.measure.training import EXCHANGE_STEPS, describe_rank, interrupt, watch_parent
from harness.run_sets.folder import RunSet
from harness.system.energy import EnergyMeter
from harness.system.page_cache import clear_page_cache
from reference_models.costs.model import ModelCosts
from reference_models.data.registry import open_dataset
from reference_models.dlrm.costs import model_costs
from reference_models.process.errors import ConfigError
from reference_models.process.world import SingleProcess, World
from reference_models.registry import find_implementation
from reference_models.training.workload import Exchanges
from rules.benchmarks.loader import parse_benchmark

MIN_PROCESSES = 5
WARM_UP_STEPS = 10
SCHEMA_VERSION = 1
MEASURED_FILE = "measured.json"
"""One process's answer, written when it has one: what a resumed sweep need not measure again."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ThroughputSpec:
    """One process's measurement; travels as JSON."""

    tables: dict[str, Any]
    definition_path: str
    data_dir: str
    seed: int
    num_steps: int
    warm_up_steps: int


def measure(spec: ThroughputSpec, world: World | None = None) -> dict[str, Any]:
    """Warm up, train `num_steps`, return what was measured.

    Reading the dataset is part of the time; made-up data is in memory once the warm-up has touched it. Of several
    ranks the samples are those of all, and the time lasts until the last one is done.
    """
    world = SingleProcess() if world is None else world
    benchmark = parse_benchmark(spec.tables, Path(spec.definition_path))
    config = hold_in_memory(parse_workload(benchmark, benchmark.sections), spec.warm_up_steps + spec.num_steps)
    workload_spec = config.spec(Path(spec.data_dir), spec.seed)
    dataset = open_dataset(workload_spec.data_dir, config.data)
    cache = clear_page_cache([Path(path) for path in dataset.files])
    workload = find_implementation(config.runtime.implementation)(workload_spec, world)
    meter = EnergyMeter(config.runtime.device)
    workload.build()
    clock = Clock(workload.synchronize)
    _train(workload.train, spec.warm_up_steps)
    meter.start()
    world.barrier()
    start_s = clock.elapsed_s()
    num_samples = _train(workload.train, spec.num_steps)
    world.barrier()
    duration_s = clock.elapsed_s() - start_s
    energy = meter.stop()
    ranks = world.gather(describe_rank(workload, world)) or [describe_rank(workload, world)]
    peak_device_bytes = workload.peak_device_bytes()
    exchange = None
    if world.size > 1 and isinstance(workload, Exchanges):
        exchange = workload.measure_exchange(EXCHANGE_STEPS, with_evaluation=False)
    counts = model_costs(config.model, config.data, dataset.train.num_embeddings)
    return {
        "num_steps": spec.num_steps,
        "num_samples": num_samples,
        "duration_s": duration_s,
        "samples_per_s": num_samples / duration_s,
        "cache_cleared": cache.cleared,
        "hyperparameters": dict(workload.hyperparameters()),
        "peak_device_bytes": peak_device_bytes,
        "peak_rss_bytes": sum(one["peak_rss_bytes"] for one in ranks),
        "energy": energy,
        "data_kind": config.data.kind,
        "computed": describe_counts(counts),
        **({"ranks": ranks, "exchange": exchange} if world.size > 1 else {}),
    }


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


def _train(train: Callable[[int], Any], num_steps: int) -> int:
    """Train exactly `num_steps`, over the end of an epoch where need be; returns the samples."""
    done, num_samples = 0, 0
    while done < num_steps:
        counts = train(num_steps - done)
        if counts.num_steps == 0:
            raise ConfigError("the dataset holds less than one batch.")
        done, num_samples = done + counts.num_steps, num_samples + counts.num_samples
    return num_samples


def measure_set(
    run_set: RunSet,
    content: Mapping[str, Any],
    tables: Mapping[str, Any],
    *,
    num_steps: int,
    on_process: Callable[[int, float], None],
) -> Path:
    """Measure in `num_runs` fresh processes and write extra/throughput.json. Raises HarnessError."""
    for index in range(content["num_runs"]):
        measured = measure_process(run_set, content, tables, index, num_steps=num_steps)
        on_process(index, measured["samples_per_s"])
    return collect_processes(run_set, content)


def measure_process(
    run_set: RunSet, content: Mapping[str, Any], tables: Mapping[str, Any], index: int, *, num_steps: int
) -> dict[str, Any]:
    """Measure in one fresh process, unless it was measured before. Raises HarnessError."""
    folder = _process_folder(run_set, index)
    if (folder / MEASURED_FILE).exists():
        return read_json(folder / MEASURED_FILE)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    spec = ThroughputSpec(
        tables={**tables, "runtime": {**tables.get("runtime", {}), "threads": content["num_threads"]}},
        definition_path=str(run_set.extra / "definition.toml"),
        data_dir=content["dataset"]["dir"],
        seed=content["seeds"][index],
        num_steps=num_steps,
        warm_up_steps=WARM_UP_STEPS,
    )
    write_json(folder / "spec.json", asdict(spec))
    answers: list[Mapping[str, Any]] = []
    end = launch_worker(
        folder / "spec.json",
        num_threads=content["num_threads"],
        on_event=answers.append,
        module="harness.run_sets.throughput",
        num_ranks=content["config"].get("runtime.ranks", {"value": 1})["value"],
        rank_module="harness.launch.throughput_rank",
    )
    if not answers:
        reason, code = explain_end(end)
        raise HarnessError(f"process {index + 1} measured nothing: {reason}", code)
    measured = {key: value for key, value in answers[0].items() if key != "event"}
    write_json(folder / MEASURED_FILE, measured)
    return measured


def is_measured(run_set: RunSet, index: int) -> bool:
    return (_process_folder(run_set, index) / MEASURED_FILE).exists()


def collect_processes(run_set: RunSet, content: Mapping[str, Any]) -> Path:
    """extra/throughput.json from what every process has measured."""
    processes = [read_json(_process_folder(run_set, index) / MEASURED_FILE) for index in range(content["num_runs"])]
    common = {key: processes[0][key] for key in ("data_kind", "computed")}
    path = run_set.extra / "throughput.json"
    write_json(
        path,
        {
            "schema_version": SCHEMA_VERSION,
            "warm_up_steps": WARM_UP_STEPS,
            **common,
            "processes": [{k: v for k, v in process.items() if k not in common} for process in processes],
        },
    )
    return path


def _process_folder(run_set: RunSet, index: int) -> Path:
    return run_set.extra / f"throughput_{index}"


def main(spec_path: str) -> int:
    signal.signal(signal.SIGTERM, interrupt)
    watch_parent()
    try:
        measured = measure(ThroughputSpec(**read_json(Path(spec_path))))
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except Exception as error:
        code = exit_code_of(error)
        if is_out_of_memory(error):
            code, error = ExitCode.RESOURCES, MemoryError()
        if code is None:
            raise
        sys.stderr.write(f"{message_of(error)}\n")
        return code
    answer(measured)
    return ExitCode.DONE


def answer(measured: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps({"event": "throughput", **measured}) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    os._exit(main(sys.argv[1]))

"""Throughput mode: samples per second of a fixed number of steps, in fresh processes; never a score.

The child is started as `python -m harness.throughput SPEC.json` and answers by one event on its stdout.
"""

import json
import os
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from harness.cache import clear_page_cache
from harness.catalog import parse_workload
from harness.clock import Clock
from harness.errors import ExitCode, HarnessError, exit_code_of, message_of
from harness.files import read_json, write_json
from harness.launch import explain_end, launch_worker
from harness.run_set import RunSet
from harness.worker import interrupt, watch_parent
from reference_models.datasets import open_dataset
from reference_models.errors import ConfigError
from reference_models.implementations import find_implementation
from reference_models.world import SingleProcess
from rules.benchmarks import parse_benchmark

MIN_PROCESSES = 5
WARM_UP_STEPS = 10
SCHEMA_VERSION = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class ThroughputSpec:
    """One process's measurement; travels as JSON."""

    tables: dict[str, Any]
    definition_path: str
    data_dir: str
    seed: int
    num_steps: int
    warm_up_steps: int


def measure(spec: ThroughputSpec) -> dict[str, Any]:
    """Warm up, train `num_steps`, return what was measured. Reading the dataset is part of the time."""
    benchmark = parse_benchmark(spec.tables, Path(spec.definition_path))
    config = parse_workload(benchmark, benchmark.sections)
    workload_spec = config.spec(Path(spec.data_dir), spec.seed)
    dataset = open_dataset(workload_spec.data_dir, config.data)
    cache = clear_page_cache([Path(path) for path in dataset.files])
    workload = find_implementation(config.runtime.implementation)(workload_spec, SingleProcess())
    workload.build()
    clock = Clock(workload.synchronize)
    _train(workload.train, spec.warm_up_steps)
    start_s = clock.elapsed_s()
    num_samples = _train(workload.train, spec.num_steps)
    duration_s = clock.elapsed_s() - start_s
    return {
        "num_steps": spec.num_steps,
        "num_samples": num_samples,
        "duration_s": duration_s,
        "samples_per_s": num_samples / duration_s,
        "cache_cleared": cache.cleared,
        "hyperparameters": dict(workload.hyperparameters()),
        "peak_device_bytes": workload.peak_device_bytes(),
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
    measured = []
    runtime = {**tables.get("runtime", {}), "threads": content["num_threads"]}
    for index, seed in enumerate(content["seeds"]):
        folder = run_set.extra / f"throughput_{index}"
        folder.mkdir()
        spec = ThroughputSpec(
            tables={**tables, "runtime": runtime},
            definition_path=str(run_set.extra / "definition.toml"),
            data_dir=content["dataset"]["dir"],
            seed=seed,
            num_steps=num_steps,
            warm_up_steps=WARM_UP_STEPS,
        )
        write_json(folder / "spec.json", asdict(spec))
        answers: list[Mapping[str, Any]] = []
        end = launch_worker(
            folder / "spec.json", num_threads=content["num_threads"], on_event=answers.append, module=__name__
        )
        if not answers:
            reason, code = explain_end(end)
            raise HarnessError(f"process {index + 1} measured nothing: {reason}", code)
        measured.append({key: value for key, value in answers[0].items() if key != "event"})
        on_process(index, measured[-1]["samples_per_s"])
    path = run_set.extra / "throughput.json"
    write_json(path, {"schema_version": SCHEMA_VERSION, "warm_up_steps": WARM_UP_STEPS, "processes": measured})
    return path


def main(spec_path: str) -> int:
    signal.signal(signal.SIGTERM, interrupt)
    watch_parent()
    try:
        answer = measure(ThroughputSpec(**read_json(Path(spec_path))))
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except Exception as error:
        if (code := exit_code_of(error)) is None:
            raise
        sys.stderr.write(f"{message_of(error)}\n")
        return code
    sys.stdout.write(json.dumps({"event": "throughput", **answer}) + "\n")
    sys.stdout.flush()
    return ExitCode.DONE


if __name__ == "__main__":
    os._exit(main(sys.argv[1]))

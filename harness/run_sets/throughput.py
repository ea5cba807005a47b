"""The parent of a measurement in several fresh processes: launches them, keeps what each found, gathers it."""

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from harness.foundation.errors import HarnessError
from harness.foundation.files import read_json, write_json
from harness.launch.process import explain_end, launch_worker
from harness.measure.job import write_job
from harness.measure.throughput import KIND, ThroughputJob
from harness.run_sets.folder import RunSet

WARM_UP_STEPS = 10
SCHEMA_VERSION = 1


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
    if not (folder / KIND.file).exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        job = ThroughputJob(
            tables={**tables, "runtime": {**tables.get("runtime", {}), "threads": content["num_threads"]}},
            definition_path=str(run_set.extra / "definition.toml"),
            data_dir=content["dataset"]["dir"],
            seed=content["seeds"][index],
            folder=str(folder),
            num_steps=num_steps,
            warm_up_steps=WARM_UP_STEPS,
        )
        end = launch_worker(
            write_job(KIND, job),
            num_threads=content["num_threads"],
            num_ranks=content["config"].get("runtime.ranks", {"value": 1})["value"],
        )
        if not (folder / KIND.file).exists():
            reason, code = explain_end(end)
            raise HarnessError(f"process {index + 1} measured nothing: {reason}", code)
    return read_json(folder / KIND.file)


def is_measured(run_set: RunSet, index: int) -> bool:
    return (_process_folder(run_set, index) / KIND.file).exists()


def collect_processes(run_set: RunSet, content: Mapping[str, Any]) -> Path:
    """extra/throughput.json from what every process has measured."""
    processes = [read_json(_process_folder(run_set, index) / KIND.file) for index in range(content["num_runs"])]
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

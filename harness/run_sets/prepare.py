"""Before anything is written: what run, sweep and profile refuse alike, and their data and threads made ready."""

import shlex
from collections.abc import Collection, Mapping
from pathlib import Path

from harness.config.catalog import WorkloadConfig
from harness.config.run_config import RunConfig
from harness.config.synthetic import hold_in_memory, refuse_synthetic_target
from harness.foundation.errors import ExitCode, HarnessError
from harness.measure.kinds import MeasurementKind
from harness.run_sets.dataset import ensure_dataset
from harness.run_sets.progress import generation_progress
from harness.system.preflight import run_checks
from harness.system.resources import read_resources
from reference_models.config.sections import parse_runtime
from reference_models.data.registry import open_dataset
from reference_models.registry import outside_names, refuse_impossible_runtime
from rules.benchmarks.loader import parse_benchmark, read_toml


def prepare_data(workload: WorkloadConfig, data_root: Path | None, *, quiet: bool) -> tuple[Path, int]:
    """The folder of the dataset, made where it can be, and the threads of one process. Raises DatasetError."""
    runtime = workload.runtime
    num_threads = runtime.threads or max(1, read_resources().num_cores // runtime.ranks)
    with generation_progress(workload.data, quiet=quiet) as on_progress:
        folder = ensure_dataset(workload.data, data_root, num_threads=num_threads, on_progress=on_progress)
    return folder, num_threads


def num_processes(kind: MeasurementKind, num_runs: int | None) -> int:
    """Of a measurement in several processes, by -n. Raises HarnessError (exit 2)."""
    if num_runs is not None and num_runs < kind.min_processes:
        raise HarnessError(
            f"-n is {num_runs}, but --{kind.name} measures in at least {kind.min_processes} processes, to tell what "
            "they differ by. Leave -n out, or give more.",
            ExitCode.USAGE,
        )
    return num_runs or kind.min_processes


def refuse_without_target(config: RunConfig) -> None:
    """A workload, or data with nothing to learn in it, is for throughput only."""
    _ = config.benchmark.quality  # raises for a workload
    refuse_synthetic_target(config.workload.data)


def refuse_impossible(workload: WorkloadConfig) -> None:
    """Fail before anything is written: a device, an implementation or CPUs that are not there."""
    runtime = workload.runtime
    workload.implementation.require_installed()
    refuse_impossible_runtime(workload.model_name, workload.train, runtime)
    num_cpus = read_resources().num_affinity_cpus
    if runtime.threads is not None and runtime.threads > num_cpus:
        raise HarnessError(
            f"runtime.threads is {runtime.threads}, but this process may use {num_cpus} CPUs. "
            "More threads than CPUs wait for one another; give at most that many.",
            ExitCode.USAGE,
        )
    if runtime.device != "cpu":
        from reference_models.training.devices import find_device  # imports torch

        find_device(runtime.device)


def refuse_outside_code(folder: Path, allowed: Mapping[str, Collection[str]]) -> None:
    """Before a stored set runs code of another package, its name has to be given again: a set may be anyone's."""
    missing: dict[str, None] = {}
    for path in sorted((*folder.glob("extra/definition.toml"), *folder.glob("*/extra/definition.toml"))):
        tables = read_toml(path)
        model = parse_benchmark(tables, path).model
        names = outside_names(model, parse_runtime(tables.get("runtime", {})).implementation)
        missing |= {
            f"--{what} {shlex.quote(name)}": None for what, name in names.items() if name not in allowed[what]
        }
    if missing:
        raise HarnessError(
            f"{folder}: was made with what is not dlrmbench's own. To run that code, give its names: "
            f"dlrmbench resume {shlex.quote(str(folder))} {' '.join(missing)}",
            ExitCode.USAGE,
        )


def refuse_unprofilable(workload: WorkloadConfig) -> None:
    """Before anything is written: an implementation whose step has no phases to time."""
    if workload.implementation.reports_phases:
        return
    others = [repr(name) for name, other in workload.model_spec.implementations.items() if other.reports_phases]
    raise HarnessError(
        f"implementation {workload.runtime.implementation!r} does not report its phases and cannot be profiled. "
        + (f"Use {' or '.join(others)}." if others else ""),
        ExitCode.USAGE,
    )


def refuse_too_large_batch(data_dir: Path, workload: WorkloadConfig) -> tuple[int, int]:
    """An epoch must hold at least one batch; returns the global batch size and the training samples."""
    workload = hold_in_memory(workload, 1)
    num_samples = open_dataset(data_dir, workload.data).train.num_samples
    if workload.train.global_batch_size > num_samples:
        raise HarnessError(
            f"train.global_batch_size is {workload.train.global_batch_size}, but {data_dir} has only {num_samples} "
            "training samples. Use a smaller batch.",
            ExitCode.USAGE,
        )
    return workload.train.global_batch_size, num_samples


def refuse_disturbed_environment(data_root: Path | None, output: Path) -> None:
    """Under --strict-env a warning of the environment check is an error (exit 6)."""
    warnings = [check for check in run_checks(data_root, output) if check.status == "warning"]
    if warnings:
        lines = "\n".join(f"  {check.name}: {check.value}. {check.why}" for check in warnings)
        raise HarnessError(f"the environment check warns and --strict-env stops here:\n{lines}", ExitCode.ENVIRONMENT)

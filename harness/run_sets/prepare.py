"""What run, sweep and profile do alike before anything is written: resolve, refuse, make data and threads ready."""

import errno
import os
import shlex
import stat
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.config.catalog import MODEL_KEY, WorkloadConfig
from harness.config.run_config import SERVE, Override, RunConfig, command_name, resolve
from harness.config.synthetic import hold_in_memory, refuse_synthetic_target
from harness.foundation.errors import ExitCode, HarnessError
from harness.launch.launcher_env import launcher_of_many
from harness.measure.kinds import MeasurementKind
from harness.run_sets.dataset import ensure_dataset
from harness.run_sets.progress import generation_progress
from harness.system.preflight import run_checks
from harness.system.resources import free_disk_bytes, read_resources
from reference_models.config.sections import RuntimeConfig, parse_runtime
from reference_models.costs import FLOAT_BYTES
from reference_models.data.registry import open_dataset
from reference_models.registry import (
    label_of,
    outside_names,
    pin_code,
    refuse_impossible_runtime,
    refuse_impossible_serving,
    without_digest,
)
from reports.text.formatting import num_bytes, plural
from rules.benchmarks.loader import parse_benchmark, read_toml
from rules.records.run_set import ChoiceRecord, PreflightCheck, RunSetRecord


@dataclass(frozen=True, kw_only=True, slots=True)
class Prepared:
    """What one configuration's processes find ready: their data and their threads."""

    data_dir: Path
    num_threads: int
    size: tuple[int, int]
    """Global batch size and training samples."""
    choice: ChoiceRecord | None = None
    """How steps are computed, where that was chosen by timing."""


def prepare(config: RunConfig, data_root: Path | None, *, quiet: bool) -> Prepared:
    """Make the dataset where it can be made. Raises DatasetError; HarnessError where it holds not one batch."""
    workload = config.workload
    runtime = workload.runtime
    num_processes = config.serve.colocate if SERVE in config.tables else runtime.ranks
    num_threads = runtime.threads or max(1, read_resources().num_cores // num_processes)
    with generation_progress(workload.data, quiet=quiet) as on_progress:
        folder = ensure_dataset(
            workload.data,
            data_root,
            num_threads=num_threads,
            on_progress=on_progress,
            benchmark=command_name(config.benchmark),
        )
    num_samples = open_dataset(folder, hold_in_memory(workload, 1).data).train.num_samples
    batch_size = workload.train.global_batch_size
    if batch_size > num_samples:
        raise HarnessError(
            f"train.global_batch_size is {batch_size}, but {folder} has only {num_samples} training samples. "
            "Use a smaller batch."
        )
    return Prepared(data_dir=folder, num_threads=num_threads, size=(batch_size, num_samples))


def resolve_for(kind: MeasurementKind, benchmark: str, overrides: Iterable[Override], label: str | None) -> RunConfig:
    """Resolve a benchmark as the kind may change it: to train to the target, it must have one."""
    suffix = None if kind.is_scored else f"_{kind.name}"
    config = resolve(
        benchmark,
        overrides,
        label,
        derived_suffix=suffix,
        needs_labels=kind.needs_labels,
        is_served=kind.is_served,
    )
    if kind.is_scored:
        _ = config.benchmark.quality  # raises for a workload
        refuse_synthetic_target(config.workload.data)
    return config


def num_runs_of(kind: MeasurementKind, config: RunConfig, num_runs: int | None) -> int:
    """Return -n, or the runs that the benchmark, or the processes that the kind, asks for.

    Raises HarnessError (exit 2) for too few processes, and for more runs than an official benchmark has.
    """
    if kind.is_scored:
        needed = config.benchmark.score.num_runs
        if config.benchmark.status == "official" and num_runs is not None and num_runs > needed:
            raise HarnessError(
                f"-n is {num_runs}, but {config.benchmark.name} is an official benchmark, and its score is over "
                f"exactly {needed} runs. Give -n {needed} at most; start another set for more."
            )
        return num_runs or needed
    if num_runs is not None and num_runs < kind.min_processes:
        raise HarnessError(
            f"-n is {num_runs}, but --{kind.name} measures in at least {kind.min_processes} processes, to tell what "
            "they differ by. Leave -n out, or give more."
        )
    return num_runs or kind.usual_processes or kind.min_processes


def refuse_impossible(workload: WorkloadConfig, *, is_served: bool = False) -> None:
    """Fail before anything is written: a device, an implementation or CPUs that are not there."""
    runtime = workload.runtime
    workload.implementation.require_installed()
    if is_served:
        refuse_impossible_serving(workload.model_name, runtime)
    else:
        refuse_impossible_runtime(workload.model_name, workload.train, runtime)
        refuse_emulation(runtime)
    refuse_threads(runtime.threads)
    refuse_device(runtime)


def refuse_device(runtime: RuntimeConfig) -> None:
    """Raise DeviceError for a device that is not here, and for more ranks on this machine than it has GPUs.

    Ranks that a launcher has started look for themselves when they begin: they may be on several machines.
    """
    if runtime.device != "cpu":
        from reference_models.training.devices import refuse_shared_gpus  # imports torch

        refuse_shared_gpus(runtime.device, 1 if launcher_of_many(os.environ) else runtime.ranks)


def refuse_emulation(runtime: RuntimeConfig) -> None:
    """Raise ConfigError for training in a precision that this system's CPU lacks."""
    if runtime.device == "cpu" and runtime.precision != "fp32":
        from reference_models.training.devices import refuse_precision  # imports torch

        refuse_precision(runtime.device, runtime.precision)


def refuse_threads(num_threads: int | None) -> None:
    """Raise HarnessError for more threads than this process may have CPUs for."""
    num_cpus = read_resources().num_affinity_cpus
    if num_threads is not None and num_threads > num_cpus:
        raise HarnessError(
            f"runtime.threads is {num_threads}, but this process may use {num_cpus} CPUs. "
            "More threads than CPUs wait for one another; give at most that many."
        )


def refuse_output(output: Path) -> None:
    """Raise OSError, before data is made, where no folder can be made at `output`, or nothing be written into it."""
    for place in (output, *output.parents):
        try:
            place.lstat()
        except FileNotFoundError:
            continue
        if not stat.S_ISDIR(place.stat().st_mode):  # a link that leads nowhere, or to itself, is an error of its own
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(place))
        if not os.access(place, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(place))
        return


def refuse_small_disk(sets: Sequence[tuple[RunConfig, Path]], output: Path, num_runs: int) -> None:
    """Raise HarnessError (exit 9) where the weights of all runs do not fit beside what the disk holds.

    `sets` are the configurations with the folders of their data, each run `num_runs` times.
    """
    each = [_weights_bytes(config, data_dir) for config, data_dir in sets]
    needed, free = num_runs * sum(each), free_disk_bytes(output)
    if needed > free:
        raise HarnessError(
            f"{output}: --keep-weights writes {num_bytes(needed)}, {num_bytes(max(each))} for each of "
            f"{plural(num_runs * len(each), 'run')}, and {num_bytes(free)} are free. Free some space, choose another "
            "--output, or make fewer runs.",
            ExitCode.RESOURCES,
        )


def _weights_bytes(config: RunConfig, data_dir: Path) -> int:
    """Computed: the weights of one run."""
    workload = config.workload
    return workload.costs(open_dataset(data_dir, workload.data).train.num_embeddings).num_parameters * FLOAT_BYTES


def resume_outside_code(folder: Path, missing: Sequence[tuple[str, str]]) -> str:
    """Say how to resume a set with what only it names."""
    words = " ".join(f"--{what} {shlex.quote(name)}" for what, name in missing)
    return (
        f"{folder}: was made with what is not dlrmbench's own. To run that code, give its names: "
        f"dlrmbench resume {shlex.quote(str(folder))} {words}"
    )


def refuse_outside_code(
    folder: Path,
    allowed: Mapping[str, Collection[str]],
    explain: Callable[[Path, Sequence[tuple[str, str]]], str] = resume_outside_code,
) -> None:
    """Refuse to run code of another package or a file that only the set names: a set may be anyone's.

    `explain` makes the message of the folder and of what was not given: ("model" or "implementation", name).
    """
    allowed = {what: [without_digest(pin_code(name)) for name in names] for what, names in allowed.items()}
    missing: dict[tuple[str, str], None] = {}
    for path in sorted((*folder.glob("extra/definition.toml"), *folder.glob("*/extra/definition.toml"))):
        tables = read_toml(path)
        runtime = dict(tables.get("runtime", {}))
        model = runtime.pop(MODEL_KEY, None) or parse_benchmark(tables, path).model
        names = outside_names(str(model), parse_runtime(runtime).implementation)
        for what, name in names.items():
            if without_digest(name) in allowed[what]:
                pin_code(name)  # raises where its file has changed since
            else:
                missing[what, without_digest(name)] = None
    if missing:
        raise HarnessError(explain(folder, tuple(missing)))


def refuse_unprofilable(workload: WorkloadConfig) -> None:
    """Refuse, before anything is written, an implementation whose step has no phases to time."""
    if workload.implementation.reports_phases:
        return
    others = [repr(name) for name, other in workload.model_spec.implementations.items() if other.reports_phases]
    name = label_of(workload.runtime.implementation)
    raise HarnessError(
        f"implementation {name!r} does not report its phases and cannot be profiled. "
        + (f"Use {' or '.join(others)}." if others else "")
    )


def describe_warnings(checks: Iterable[PreflightCheck]) -> list[str]:
    """Say in a sentence each what the environment check warns of."""
    return [f"{check.name}: {check.value}. {check.why}" for check in checks if check.status == "warning"]


def check_again(folder: Path, record: RunSetRecord) -> tuple[PreflightCheck, ...]:
    """Check the environment before a set goes on. HarnessError (exit 6) where it warns of one of --strict-env."""
    data_dir = Path(record.dataset.dir)
    if "--strict-env" in record.command.split():
        refuse_disturbed_environment(data_dir, folder)
    return run_checks(data_dir, folder)


def refuse_disturbed_environment(data_root: Path | None, output: Path) -> None:
    """Raise HarnessError (exit 6) where the environment check warns, for --strict-env."""
    lines = "\n".join(f"  {text}" for text in describe_warnings(run_checks(data_root, output)))
    if lines:
        raise HarnessError(f"the environment check warns and --strict-env stops here:\n{lines}", ExitCode.ENVIRONMENT)

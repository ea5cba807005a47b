"""A sweep: the run sets of a matrix of configurations, their runs interleaved in time with shared seeds.

<sweep>/sweep.json          axes, configurations, seeds; what failed
<sweep>/<NN>-<values>/      one ordinary run set per configuration; with profile.json where that was asked for

Round k makes run k of every configuration, with the same seed in all. Rounds go forwards and backwards in turn
(A B, B A, A B …), so that a drift of the system that is even in time weighs on all configurations alike.
"""

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from harness.config.axes import Axis, Point
from harness.config.run_config import RunConfig
from harness.foundation.errors import ExitCode, HarnessError
from harness.foundation.files import read_json, write_json
from harness.run_sets.folder import hold_lock, locked, open_run_set
from harness.run_sets.profile import PROFILE_FILE, profile_set
from harness.run_sets.runner import RunRequest, complete_set, refuse_other_system, start_set, unique_folder
from harness.run_sets.throughput import collect_processes, is_measured, measure_process
from rules.benchmarks.loader import read_toml

SWEEP_FILE = "sweep.json"
SCHEMA_VERSION = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Configuration:
    """One point of the matrix, ready to be run; `problem` is why it cannot be, with its exit code."""

    point: Point
    config: RunConfig
    num_threads: int
    data_dir: Path
    problem: tuple[str, ExitCode] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Progress:
    """What is about to be done: position among all runs of the sweep, and whose run it is."""

    number: int
    total: int
    label: str
    run_index: int | None


OnRun = Callable[[Progress], None]


def start_sweep(
    axes: Sequence[Axis], configurations: Sequence[Configuration], request: RunRequest, *, with_profile: bool = False
) -> Path:
    """Create the sweep's folder with a run set per configuration; sweep.json comes last, so one with it is whole.

    `request` holds for all; its data folder and threads are each configuration's own. Its base seed must be drawn.
    `with_profile` says that each configuration is profiled once, when all runs are made.
    """
    first = configurations[0].config
    created = datetime.now(UTC)
    name = request.name or f"sweep-{first.benchmark.name}-{created:%Y%m%dT%H%M%SZ}"
    folder = unique_folder(request.output, name)
    folder.mkdir(parents=True)
    content = {
        "schema_version": SCHEMA_VERSION,
        "name": folder.name,
        "created_utc": created.isoformat(timespec="seconds"),
        "harness_version": version("dlrmbench"),
        "command": shlex.join(request.command),
        "mode": "to_target" if request.throughput_steps is None else "throughput",
        "throughput_steps": request.throughput_steps,
        "num_runs": request.num_runs,
        "base_seed": request.base_seed,
        "with_profile": with_profile,
        "axes": [{"key": axis.key, "values": list(axis.texts)} for axis in axes],
        "configurations": [
            _create(folder, index, configuration, request) for index, configuration in enumerate(configurations)
        ],
    }
    write_json(folder / SWEEP_FILE, content)
    return folder


def _create(folder: Path, index: int, configuration: Configuration, request: RunRequest) -> dict[str, Any]:
    point = configuration.point
    record: dict[str, Any] = {
        "label": point.label,
        "values": point.texts,
        "folder": None,
        "failure": None,
        "profile_failure": None,
    }
    if configuration.problem is not None:
        reason, code = configuration.problem
        return {**record, "failure": {"reason": reason, "exit_code": int(code), "run_index": None}}
    own = replace(
        request,
        output=folder,
        name=f"{index + 1:02d}-{point.folder_name}",
        num_threads=configuration.num_threads,
        data_dir=configuration.data_dir,
    )
    return {**record, "folder": start_set(configuration.config, own).folder.name}


def is_sweep(folder: Path) -> bool:
    return (folder / SWEEP_FILE).is_file()


def read_sweep(folder: Path) -> dict[str, Any]:
    """sweep.json. Raises HarnessError (exit 8) when it is missing, damaged or of another version."""
    content = read_json(folder / SWEEP_FILE)
    if content.get("schema_version") != SCHEMA_VERSION:
        raise HarnessError(
            f"{folder / SWEEP_FILE}: schema_version is {content.get('schema_version')!r}, this version reads "
            f"{SCHEMA_VERSION}.",
            ExitCode.INPUT,
        )
    return content


def complete_sweep(folder: Path, *, quiet: bool = False, on_run: OnRun | None = None) -> dict[str, Any]:
    """Run whatever is missing, round by round; returns sweep.json's final content.

    A configuration that fails (out of memory, say) is recorded and left out of the following rounds; the others go
    on. A second call tries it again. Raises HarnessError where the sweep itself cannot go on.
    """
    with hold_lock(folder / "lock", folder):
        content = read_sweep(folder)
        for record in content["configurations"]:
            if record["folder"] is not None:
                record["failure"] = None
                _refuse_elsewhere(folder / record["folder"])
        for progress, record in _rounds(content):
            set_folder, run_index = folder / record["folder"], progress.run_index
            if record["failure"] is not None or run_index is None or _is_done(set_folder, run_index):
                continue
            if on_run is not None:
                on_run(progress)
            try:
                _advance(set_folder, content, run_index, quiet=quiet)
            except HarnessError as error:
                record["failure"] = {
                    "reason": str(error).partition("\n")[0],
                    "exit_code": int(error.exit_code),
                    "run_index": run_index,
                }
                write_json(folder / SWEEP_FILE, content)
        if content["mode"] == "throughput":
            for record in content["configurations"]:
                if record["folder"] is not None and record["failure"] is None:
                    run_set, set_content = open_run_set(folder / record["folder"])
                    collect_processes(run_set, set_content)
        if content["with_profile"]:
            _profile(folder, content, on_run)
        write_json(folder / SWEEP_FILE, content)
    return content


def _profile(folder: Path, content: Mapping[str, Any], on_run: OnRun | None) -> None:
    """Profile every configuration that was measured and has no profile yet; what fails is recorded beside it."""
    records = [one for one in content["configurations"] if one["folder"] is not None and one["failure"] is None]
    for number, record in enumerate(records, start=1):
        run_set, set_content = open_run_set(folder / record["folder"])
        if (run_set.extra / PROFILE_FILE).exists():
            continue
        if on_run is not None:
            on_run(Progress(number=number, total=len(records), label=f"profile {record['label']}", run_index=None))
        record["profile_failure"] = None
        try:
            profile_set(run_set, set_content, num_steps=None, trace=None, on_progress=lambda doing: None)
        except HarnessError as error:
            record["profile_failure"] = str(error).partition("\n")[0]


def _rounds(content: Mapping[str, Any]) -> Iterator[tuple[Progress, dict[str, Any]]]:
    """Every run of the sweep in the order in which it is made."""
    records = [record for record in content["configurations"] if record["folder"] is not None]
    total, number = content["num_runs"] * len(records), 0
    for run_index in range(content["num_runs"]):
        for record in records if run_index % 2 == 0 else reversed(records):
            number += 1
            yield Progress(number=number, total=total, label=record["label"], run_index=run_index), record


def _refuse_elsewhere(set_folder: Path) -> None:
    refuse_other_system(*open_run_set(set_folder))


def _is_done(set_folder: Path, run_index: int) -> bool:
    run_set, content = open_run_set(set_folder)
    if content["throughput_steps"] is not None:
        return is_measured(run_set, run_index)
    return run_set.result(run_index).exists()


def _advance(set_folder: Path, content: Mapping[str, Any], run_index: int, *, quiet: bool) -> None:
    """Make one run of one configuration."""
    if content["mode"] == "to_target":
        complete_set(set_folder, quiet=quiet, indices=[run_index])
        return
    run_set, set_content = open_run_set(set_folder)
    with locked(run_set):
        tables = read_toml(run_set.extra / "definition.toml")
        measure_process(run_set, set_content, tables, run_index, num_steps=content["throughput_steps"])

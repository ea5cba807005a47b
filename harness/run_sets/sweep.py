"""A sweep: the run sets of a matrix of configurations, their runs interleaved in time with shared seeds.

<sweep>/sweep.json          axes, configurations, seeds; what failed
<sweep>/<NN>-<values>/      one ordinary run set per configuration; with profile.json where that was asked for

Round k makes run k of every configuration, with the same seed in all. Rounds go forwards and backwards in turn
(A B, B A, A B …), so that a drift of the system that is even in time weighs on all configurations alike.
"""

import shlex
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from msgspec.structs import replace as change

from harness.config.axes import Axis, Point, make_points, overrides_of, read_axis, refuse_other_problems
from harness.config.matmul import GivenMatmul, give_matmul
from harness.config.run_config import Override, RunConfig
from harness.foundation.errors import HarnessError
from harness.foundation.files import read_record, write_record
from harness.measure.kinds import MeasurementKind, find_kind
from harness.run_sets.choice import choose
from harness.run_sets.folder import RunSet, hold_lock, locked, open_run_set
from harness.run_sets.installation import Installation
from harness.run_sets.measurement import gather_processes, is_measured, measure_process
from harness.run_sets.prepare import (
    Prepared,
    prepare,
    refuse_impossible,
    refuse_small_disk,
    refuse_unprofilable,
    resolve_for,
)
from harness.run_sets.profile import PROFILE_FILE, profile_set
from harness.run_sets.runner import RunRequest, complete_set, refuse_other_system, start_set, unique_folder
from rules.records.run_set import ChoiceRecord, RunSetRecord
from rules.records.sweep import AxisRecord, ConfigurationRecord, FailureRecord, SweepRecord

SWEEP_FILE = "sweep.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class Configuration:
    """One point of the matrix, ready to be run; `failure` is why it cannot be."""

    point: Point
    config: RunConfig
    prepared: Prepared | None
    failure: FailureRecord | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Progress:
    """What is about to be done: position among all runs of the sweep, whose run it is, and how long all that is left
    may take, by the runs made so far; None before the first."""

    number: int
    total: int
    label: str
    run_index: int | None
    left_s: float | None = None


OnRun = Callable[[Progress], None]


def prepare_configuration(
    point: Point,
    config: RunConfig,
    data_root: Path | None,
    known: MutableMapping[str, ChoiceRecord] | None,
    given: GivenMatmul | None,
    *,
    quiet: bool,
) -> Configuration:
    """Make a configuration's data, and choose how its steps are computed, unless `known` has that of an earlier one;
    nothing is chosen without `known`.

    What only one cannot do becomes its failure. Raises DatasetError.
    """
    try:
        prepared = prepare(config, data_root, quiet=quiet)
        if known is not None:
            prepared = choose(config, prepared, known=known, given=given, quiet=quiet)
    except HarnessError as error:
        return Configuration(point=point, config=config, prepared=None, failure=_failure(error, None))
    return Configuration(point=point, config=config, prepared=prepared)


def prepare_sweep(
    kind: MeasurementKind,
    benchmark: str,
    overrides: Sequence[Override],
    axis_texts: Iterable[str],
    name: str | None,
    data_root: Path | None,
    *,
    with_profile: bool = False,
    matmul: Path | None = None,
    quiet: bool,
) -> tuple[RunConfig, list[Axis], list[Configuration]]:
    """Resolve the matrix of `--axis` texts and make its data: what holds for all, the axes, every configuration.

    `matmul` is a file that says how those compute their products that have a choice.
    """
    base, axes, configs = resolve_sweep(kind, benchmark, overrides, axis_texts, name, with_profile=with_profile)
    given = give_matmul(matmul, [config.workload for _, config in configs])
    # Ranks share the cores among them, in every number that is compared; and it is training that is timed.
    is_open = not kind.is_served and all(axis.key != "runtime.ranks" for axis in axes)
    known: dict[str, ChoiceRecord] | None = {} if is_open else None
    ready = [prepare_configuration(point, config, data_root, known, given, quiet=quiet) for point, config in configs]
    return base, axes, ready


def resolve_sweep(
    kind: MeasurementKind,
    benchmark: str,
    overrides: Sequence[Override],
    axis_texts: Iterable[str],
    name: str | None,
    *,
    with_profile: bool = False,
) -> tuple[RunConfig, list[Axis], list[tuple[Point, RunConfig]]]:
    """Resolve the matrix of `--axis` texts: what holds for all, the axes, every point with its configuration.

    Raises ConfigError for an axis that cannot be, or that the kind may not vary; HarnessError for what cannot be run.
    """
    base = resolve_for(kind, benchmark, overrides, name)
    axes = [read_axis(text, base.workload.model_spec.width_keys) for text in axis_texts]
    points = make_points(axes)
    for override in overrides:
        if override.key in {axis.key for axis in axes}:
            raise HarnessError(f"{override.key} is set by {override.source} and by --axis; give it once.")
    if kind.is_scored:
        refuse_other_problems(axes, base.benchmark)
    configs = [resolve_for(kind, benchmark, [*overrides, *overrides_of(point)], name) for point in points]
    for config in configs:
        refuse_impossible(config.workload, is_served=kind.is_served)
        if with_profile:
            refuse_unprofilable(config.workload)
    return base, axes, list(zip(points, configs, strict=True))


def start_sweep(
    axes: Sequence[Axis],
    configurations: Sequence[Configuration],
    request: RunRequest,
    *,
    with_profile: bool = False,
    with_fit: bool = False,
) -> Path:
    """Create the sweep's folder with a run set per configuration; sweep.json comes last, so one with it is whole.

    `request` holds for all; data folder and threads are each configuration's own. Its base seed must be drawn.
    `with_profile` says that each configuration is profiled once, when all runs are made; `with_fit` that a law of
    quality over computed FLOP is shown of them all.
    """
    if request.keep_weights:
        ready = [(each.config, each.prepared.data_dir) for each in configurations if each.prepared is not None]
        refuse_small_disk(ready, request.output, request.num_runs)
    first = configurations[0].config
    created = datetime.now(UTC)
    name = request.name or f"sweep-{first.label or first.benchmark.name}-{created:%Y%m%dT%H%M%SZ}"
    folder = unique_folder(request.output, name)
    folder.mkdir(parents=True)
    assert request.base_seed is not None
    record = SweepRecord(
        name=folder.name,
        created_utc=created.isoformat(timespec="seconds"),
        harness_version=version("dlrmbench"),
        command=shlex.join(request.command),
        kind=request.kind,
        options=dict(request.options),
        num_runs=request.num_runs,
        base_seed=request.base_seed,
        with_profile=with_profile,
        with_fit=with_fit,
        axes=tuple(AxisRecord(key=axis.key, values=axis.texts) for axis in axes),
        configurations=tuple(
            _create(folder, index, configuration, request) for index, configuration in enumerate(configurations)
        ),
    )
    write_record(folder / SWEEP_FILE, record)
    return folder


def _create(folder: Path, index: int, configuration: Configuration, request: RunRequest) -> ConfigurationRecord:
    point, name = configuration.point, None
    if configuration.prepared is not None:
        own = replace(request, output=folder, name=f"{index + 1:02d}-{point.folder_name}")
        name = start_set(configuration.config, configuration.prepared, own).folder.name
    return ConfigurationRecord(
        label=point.label, values=point.texts, folder=name, failure=configuration.failure, profile_failure=None
    )


def is_sweep(folder: Path) -> bool:
    return (folder / SWEEP_FILE).is_file()


def complete_sweep(folder: Path, *, quiet: bool = False, on_run: OnRun | None = None) -> SweepRecord:
    """Run whatever is missing, round by round; returns sweep.json's final content.

    A configuration that fails (out of memory, say) is recorded and left out of the following rounds; the others go
    on. A second call tries it again. Raises HarnessError where the sweep itself cannot go on, or where sweep.json is
    missing or damaged (exit 8).
    """
    with hold_lock(folder / "lock", folder):
        sweep = read_record(folder / SWEEP_FILE, SweepRecord)
        configurations = list(sweep.configurations)
        for position, configuration in enumerate(configurations):
            if configuration.folder is not None:
                configurations[position] = change(configuration, failure=None)
                refuse_other_system(*open_run_set(folder / configuration.folder))
        waiting = [
            (progress, position)
            for progress, position in take_turns(
                sweep.num_runs, {i: entry.label for i, entry in enumerate(configurations) if entry.folder is not None}
            )
            if not is_done(*open_run_set(folder / str(configurations[position].folder)), progress.run_index)
        ]
        took_s: dict[int, list[float]] = {}
        for number, (progress, position) in enumerate(waiting):
            configuration = configurations[position]
            if configuration.failure is not None:
                continue
            left = [later for _, later in waiting[number:] if configurations[later].failure is None]
            if on_run is not None:
                on_run(replace(progress, left_s=estimate_left_s(took_s, left)))
            started_s = time.monotonic()
            try:
                advance(folder / str(configuration.folder), progress.run_index, quiet=quiet)
                took_s.setdefault(position, []).append(time.monotonic() - started_s)
            except HarnessError as error:
                configurations[position] = change(configuration, failure=_failure(error, progress.run_index))
                write_record(folder / SWEEP_FILE, change(sweep, configurations=tuple(configurations)))
        measured = [
            (position, folder / entry.folder)
            for position, entry in enumerate(configurations)
            if entry.folder is not None and entry.failure is None
        ]
        if not find_kind(sweep.kind).is_scored:
            for _, set_folder in measured:
                gather_processes(*open_run_set(set_folder))
        for number, (position, set_folder) in enumerate(measured if sweep.with_profile else (), start=1):
            label = f"profile {configurations[position].label}"
            progress = Progress(number=number, total=len(measured), label=label, run_index=None)
            failed = _why_not_profiled(set_folder, progress, on_run)
            configurations[position] = change(configurations[position], profile_failure=failed)
        sweep = change(sweep, configurations=tuple(configurations))
        write_record(folder / SWEEP_FILE, sweep)
    return sweep


def _why_not_profiled(folder: Path, progress: Progress, on_run: OnRun | None) -> str | None:
    """Profile a configuration that has no profile yet; returns what failed."""
    run_set, record = open_run_set(folder)
    if (run_set.extra / PROFILE_FILE).exists():
        return None
    if on_run is not None:
        on_run(progress)
    try:
        profile_set(run_set, record, num_steps=None, trace=None, on_progress=lambda doing: None)
    except HarnessError as error:
        return _first_line(error)
    return None


def _failure(error: HarnessError, run_index: int | None) -> FailureRecord:
    return FailureRecord(reason=_first_line(error), exit_code=int(error.exit_code), run_index=run_index)


def _first_line(error: HarnessError) -> str:
    return str(error).partition("\n")[0]


def take_turns(num_runs: int, labels: Mapping[int, str]) -> Iterator[tuple[Progress, int]]:
    """Yield every run in the order in which it is made, with its configuration's position, a key of `labels`."""
    total, number = num_runs * len(labels), 0
    for run_index in range(num_runs):
        for position in list(labels) if run_index % 2 == 0 else reversed(list(labels)):
            number += 1
            yield Progress(number=number, total=total, label=labels[position], run_index=run_index), position


def estimate_left_s(took_s: Mapping[int, Sequence[float]], left: Iterable[int]) -> float | None:
    """Seconds that the runs of these configurations may take, by the mean of each one's own runs; None before any.

    A configuration that has not run yet is taken to be like the mean of the others.
    """
    means = {position: sum(times) / len(times) for position, times in took_s.items()}
    if not means:
        return None
    usual = sum(means.values()) / len(means)
    return sum(means.get(position, usual) for position in left)


def is_done(run_set: RunSet, record: RunSetRecord, run_index: int | None) -> bool:
    """Return whether a set has that run, or what its process measured."""
    assert run_index is not None
    if find_kind(record.kind).is_scored:
        return run_set.result(run_index).exists()
    return is_measured(run_set, record, run_index)


def advance(
    folder: Path,
    run_index: int | None,
    *,
    quiet: bool,
    installation: Installation | None = None,
    resume: str | None = None,
) -> None:
    """Make one run of one configuration; what it measured is in the set's own file at once. As `complete_set`."""
    assert run_index is not None
    run_set, record = open_run_set(folder)
    if find_kind(record.kind).is_scored:
        complete_set(folder, quiet=quiet, indices=[run_index], installation=installation, resume=resume)
        return
    with locked(run_set):
        interpreter = None if installation is None else installation.interpreter
        measure_process(run_set, record, run_index, interpreter, quiet=quiet)
        gather_processes(run_set, record)

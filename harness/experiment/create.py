"""The folder of a new experiment: a run set for each configuration, and, of several, experiment.json beside them."""

import shlex
from collections.abc import Mapping
from dataclasses import asdict, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec
import tomli_w
from msgspec import structs

from harness.autotune.precision import check_precision
from harness.config.axes import Axis, overrides_of
from harness.config.catalog import WorkloadConfig
from harness.config.run_config import default_division
from harness.experiment.expand import Configuration, Experiment
from harness.experiment.prepare import prepare
from harness.experiment.request import Request
from harness.experiment.search.space import make_point
from harness.experiment.sides import Source, read_source, resolve_beside
from harness.experiment.store import parts_of
from harness.foundation.errors import ExitCode, HarnessError, exit_code_of, first_line
from harness.foundation.files import write_record
from harness.measure.gpu_kernels import check_kernels
from harness.measure.refusals import refuse_id_map
from harness.run_sets.dataset import dataset_record, find_recorded
from harness.run_sets.folder import RunSet, create_run_set
from harness.run_sets.hooks import Hooks
from harness.run_sets.installation import describe_here
from harness.run_sets.names import link_latest
from harness.run_sets.output import unique_folder
from harness.system.preflight import run_checks
from harness.system.resources import free_disk_bytes
from harness.system.software import spin_variables
from harness.system.submission import SubmissionValue
from reference_models.costs import FLOAT_BYTES
from reference_models.data.registry import open_dataset
from reference_models.process.atomic_write import remove
from reference_models.process.errors import ConfigError, DatasetError, DeviceError
from reports.text.formatting import num_bytes, plural
from rules.benchmarks.seeds import derive_seeds, draw_base_seed, reserved_seeds
from rules.errors import DefinitionError
from rules.records.codec import VERSION, convert
from rules.records.experiment import (
    EXPERIMENT_FILE,
    PROFILE_STAGE,
    AxisRecord,
    ExperimentRecord,
    FailureRecord,
    MemberRecord,
    StageRecord,
    group_file,
)
from rules.records.run_set import ChoiceRecord, RunSetRecord

_PREFIXES = {"sides": "beside", "matrix": "sweep", "suite": "suite", "search": "tune"}
"""What the folder of a group is called, before its name and moment."""


def create(experiment: Experiment) -> Path:
    """Make the folder of a prepared experiment, of which `latest` beside it is then a link; returns the folder.

    The file that says what it is comes last, so that a folder with it is whole. Raises HarnessError (exit 9) where
    kept weights would not fit on the disk.
    """
    folder = _create_alone(experiment) if experiment.relation == "one" else create_group(experiment)
    # One of which nothing is compared is not looked for, and in a group a link would be a stray one.
    if experiment.kind.max_repetitions is None and group_file(folder.parent) is None:
        link_latest(folder)
    return folder


def _create_alone(experiment: Experiment) -> Path:
    (configuration,) = experiment.configurations
    benchmark, config = configuration.config.benchmark, configuration.config
    refuse_small_disk(experiment)
    created = datetime.now(UTC)
    name = f"{benchmark.name}-{config.label or config.digest()}-{created:%Y%m%dT%H%M%SZ}"
    return create_set(experiment, configuration, experiment.request.output, name, created).folder


def create_group(experiment: Experiment) -> Path:
    """Make the folder of several configurations, as `create` does, to which no link leads."""
    request, first = experiment.request, experiment.configurations[0].config
    refuse_small_disk(experiment)
    created = datetime.now(UTC)
    label = request.name if experiment.relation in ("sides", "suite") else first.label
    if request.suite is not None:
        label = _file_name(label or request.suite.name)
    name = f"{_PREFIXES[experiment.relation]}-{label or first.benchmark.name}-{created:%Y%m%dT%H%M%SZ}"
    folder = unique_folder(request.output, name)
    folder.mkdir(parents=True)
    base_seed = draw_base_seed() if request.seed is None else request.seed
    members = []
    for each in experiment.configurations:
        made = (
            None if each.prepared is None else create_set(experiment, each, folder, each.folder, created, base_seed)
        )
        members.append(
            MemberRecord(
                label=each.label,
                values=dict(each.values),
                folder=None if made is None else made.folder.name,
                python=None if each.installation is None else each.installation.python,
                failure=each.failure,
                notes={},
            )
        )
    record = ExperimentRecord(
        name=folder.name,
        created_utc=created.isoformat(timespec="seconds"),
        harness_version=version("dlrmbench"),
        command=shlex.join(request.command()),
        relation=experiment.relation,
        on_other_code="warn" if experiment.relation == "matrix" else "refuse",
        base_seed=base_seed,
        stages=_stages(experiment),
        axes=_axes(experiment),
        configurations=tuple(members),
        with_fit=request.with_fit,
        source=None if request.beside is None else str(request.beside.absolute()),
        stop=request.stop,
    )
    write_record(folder / EXPERIMENT_FILE, record)
    return folder


def _axes(experiment: Experiment) -> tuple[AxisRecord, ...]:
    """Return what the configurations differ in: of a suite benchmark and side."""
    if experiment.relation != "suite":
        return tuple(AxisRecord(key=axis.key, values=axis.texts) for axis in experiment.axes)
    values = [each.values for each in experiment.configurations]
    return tuple(AxisRecord(key=key, values=tuple({each[key]: None for each in values})) for key in values[0])


def _file_name(text: str) -> str:
    """Return a label with only characters that every file system takes."""
    return "".join(char if char.isascii() and (char.isalnum() or char in "_.-") else "-" for char in text)[:80]


def _stages(experiment: Experiment) -> tuple[StageRecord, ...]:
    first = StageRecord(
        kind=experiment.kind.name,
        options=dict(experiment.options),
        repetitions=experiment.repetitions,
        order=experiment.request.order,
        on_failure="leave_out" if experiment.leaves_out or experiment.relation == "search" else "stop",
    )
    return (first, PROFILE_STAGE) if experiment.request.with_profile else (first,)


def create_trial(folder: Path, record: ExperimentRecord, values: Mapping[str, str]) -> MemberRecord:
    """Make the run set of the next trial of the search in `folder`: its default's configuration with other values.

    What these values cannot be, or what cannot be prepared, is a trial that failed.
    """
    number = len(record.configurations) + 1
    made = MemberRecord(label="", values=dict(values), folder=None, python=None, failure=None, notes={})
    try:
        planned = _expand_trial(read_source(parts_of(folder)[0]), record, values, number)
        experiment = prepare(planned)
        if experiment.options != planned.options:
            raise HarnessError("it does not train whole batches of the samples that all trials train.")
        (trial,) = experiment.configurations
        remove(folder / trial.folder)  # what was not written down before a crash
        run_set = create_set(experiment, trial, folder, trial.folder, datetime.now(UTC), record.base_seed)
    except (HarnessError, ConfigError, DatasetError, DefinitionError, DeviceError) as error:
        failure = FailureRecord(reason=first_line(error), exit_code=int(exit_code_of(error) or 2), run_index=None)
        return structs.replace(made, label=f"trial {number}", failure=failure)
    return structs.replace(made, label=trial.label, folder=run_set.folder.name)


def _expand_trial(default: Source, record: ExperimentRecord, values: Mapping[str, str], number: int) -> Experiment:
    """Resolve a trial. Raises ConfigError, DefinitionError, DeviceError or HarnessError where it cannot be run."""
    point = make_point(values, default.config.workload.model_spec)
    dataset = find_recorded(default.config.workload.data, default.record.dataset, default.folder)
    hooks: dict[str, Any] = {name.replace("-", "_"): command for name, command in default.record.hooks.items()}
    request = Request(
        verb="tune", beside=default.folder, overrides=overrides_of(point), output=default.folder.parent, quiet=True,
        typed=shlex.split(record.command), **hooks,
    )  # fmt: skip
    config = resolve_beside(request, default)
    default.kind.check(config.workload)
    refuse_id_map(config.workload.data, default.kind.takes_id_maps)
    is_alike = config.workload.data == default.config.workload.data
    name = f"{number:02d}-{point.folder_name}"
    return Experiment(
        request=replace(request, data=dataset if is_alike or dataset is None else dataset.parent),
        kind=default.kind,
        options=record.options,
        relation="search",
        configurations=(Configuration(label=point.label, config=config, folder=name, values=point.texts),),
        repetitions=1,
        axes=tuple(Axis(key=key, values=(value,), texts=(values[key],)) for key, value in point.values.items()),
        division=default.record.division if default.is_division_given else None,
        timeout_s=default.record.timeout_s,
    )


def create_set(
    experiment: Experiment,
    configuration: Configuration,
    output: Path,
    name: str,
    created: datetime,
    base_seed: int | None = None,
) -> RunSet:
    """Create the folder of a run set below `output`, with all that its repetitions need."""
    request, config, prepared = experiment.request, configuration.config, configuration.prepared
    assert prepared is not None
    benchmark = config.benchmark
    division = experiment.division or default_division(benchmark)
    given = {
        **config.submission,
        "division": SubmissionValue(division, "option --division" if experiment.division else "benchmark"),
    }
    installation = configuration.installation
    if installation is None:
        about = describe_here(benchmark, config.workload.runtime.device, given)
    else:
        about = installation.about
    if base_seed is None:
        base_seed = draw_base_seed() if request.seed is None else request.seed
    num_runs = experiment.repetitions
    own = [check_precision(prepared, config.workload.runtime)]
    own += [] if installation else [check_kernels(config.workload)]
    checks = (*run_checks(prepared.data_dir, output), *(check for check in own if check is not None))
    content = {
        "schema_version": VERSION,
        "name": name,
        "created_utc": created.isoformat(timespec="seconds"),
        "harness_version": about.harness_version,
        "command": shlex.join(request.command()),
        "benchmark": {
            "name": benchmark.name,
            "version": benchmark.version,
            "status": benchmark.status,
            "definition_sha256": benchmark.definition_sha256,
        },
        "config": config.values(),
        "num_runs": num_runs,
        "base_seed": base_seed,
        "seeds": derive_seeds(base_seed, num_runs, reserved_seeds(benchmark.name)),
        "division": division,
        "timeout_s": experiment.timeout_s,
        "kind": experiment.kind.name,
        "options": dict(experiment.options),
        "num_threads": prepared.num_threads,
        "choice": None if prepared.choice is None else msgspec.to_builtins(prepared.choice),
        "dataset": dataset_record(prepared.data_dir),
        "id_map_sha256": prepared.id_map_sha256,
        "submission": {field: asdict(entry) for field, entry in given.items()},
        "system": structs.asdict(about.system),
        "environment": _with_spinning(about.environment, prepared.choice),
        "code_sha256": about.code_sha256,
        "until": None if experiment.until is None else structs.asdict(experiment.until),
        "keep_weights": request.keep_weights,
        "hooks": Hooks.asked_by(request).asked,
        "preflight": [structs.asdict(check) for check in checks],
    }
    definition = tomli_w.dumps(dict(config.tables))
    return create_run_set(unique_folder(output, name), convert(content, RunSetRecord), definition)


def _with_spinning(environment: Mapping[str, Any], choice: ChoiceRecord | None) -> dict[str, Any]:
    """Return a set's environment with the variables that its choice gives to its runs."""
    variables = environment.get("variables")
    if choice is None or not isinstance(variables, Mapping):
        return dict(environment)
    return {**environment, "variables": {**variables, **spin_variables(choice.spin_count)}}


def refuse_small_disk(experiment: Experiment) -> None:
    """Raise HarnessError (exit 9) where the weights of all runs do not fit beside what the disk holds."""
    request = experiment.request
    if not request.keep_weights:
        return
    sizes = [
        _weights_bytes(each.config.workload, each.prepared.data_dir)
        for each in experiment.configurations
        if each.prepared is not None
    ]
    needed, free = experiment.repetitions * sum(sizes), free_disk_bytes(request.output)
    if needed > free:
        raise HarnessError(
            f"{request.output}: --keep-weights writes {num_bytes(needed)}, {num_bytes(max(sizes))} for each of "
            f"{plural(experiment.repetitions * len(sizes), 'run')}, and {num_bytes(free)} are free. Free some space, "
            "choose another --output, or make fewer runs.",
            ExitCode.RESOURCES,
        )


def _weights_bytes(workload: WorkloadConfig, data_dir: Path) -> int:
    """Return the computed size of the weights of one run."""
    num_embeddings = open_dataset(data_dir, workload.data).train.num_embeddings
    return workload.costs(num_embeddings).num_parameters * FLOAT_BYTES

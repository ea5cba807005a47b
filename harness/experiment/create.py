"""Create the folder of a new experiment: a run set for each configuration and, for several, experiment.json."""

import shlex
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec
import tomli_w
from msgspec import structs

from harness.autotune.precision import check_precision
from harness.autotune.tuning import check_choice
from harness.config.catalog import WorkloadConfig
from harness.config.run_config import default_division
from harness.experiment.experiment import Configuration, Experiment
from harness.experiment.relation import Relation, find_relation
from harness.foundation.errors import ExitCode, HarnessError
from harness.foundation.files import write_record
from harness.measure.gpu_kernels import check_kernels
from harness.run_sets.dataset import dataset_record
from harness.run_sets.folder import RunSet, create_run_set
from harness.run_sets.hooks import Hooks
from harness.run_sets.installation import describe_here
from harness.run_sets.names import link_latest
from harness.run_sets.output import find_unique_folder
from harness.system.preflight import run_checks
from harness.system.resources import free_disk_bytes
from harness.system.software import make_spin_variables
from harness.system.submission import SubmissionValue
from reference_models.costs import FLOAT_BYTES
from reference_models.data.registry import open_dataset
from reports.text.formatting import num_bytes, plural
from rules.benchmarks.seeds import derive_seeds, draw_base_seed, reserved_seeds
from rules.records.codec import VERSION, convert
from rules.records.experiment import (
    EXPERIMENT_FILE,
    PROFILE_STAGE,
    AxisRecord,
    ExperimentRecord,
    MemberRecord,
    StageRecord,
    group_file,
)
from rules.records.run_set import ChoiceRecord, RunSetRecord


def create(experiment: Experiment) -> Path:
    """Create the folder of a prepared experiment and return it. The link `latest` in the parent folder is pointed to
    it, unless the experiment has a single record, such as a profile, or lies in another experiment's folder.

    The file that describes the folder is written last, so that a folder with it is complete. Raises HarnessError
    (exit 9) where kept weights would not fit on the disk.
    """
    is_group = find_relation(experiment.relation).is_group
    folder = create_group(experiment) if is_group else _create_alone(experiment)
    # Kinds with a single record are not compared, so nobody looks for the latest; in a group a link would be stray.
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
    """Create and return the folder of an experiment of several configurations, without pointing the link `latest` to
    it."""
    request, relation = experiment.request, find_relation(experiment.relation)
    refuse_small_disk(experiment)
    created = datetime.now(UTC)
    folder = find_unique_folder(request.output, f"{relation.prefix}-{experiment.name}-{created:%Y%m%dT%H%M%SZ}")
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
        relation=relation.name,
        reads_as=relation.reads_as,
        on_other_code=relation.on_other_code,
        base_seed=base_seed,
        stages=_stages(experiment, relation),
        axes=tuple(AxisRecord(key=axis.key, values=axis.texts) for axis in experiment.axes),
        configurations=tuple(members),
        with_fit=request.with_fit,
        source=None if request.beside is None else str(request.beside.absolute()),
        stop=experiment.stop or request.stop,
    )
    write_record(folder / EXPERIMENT_FILE, record)
    return folder


def _stages(experiment: Experiment, relation: Relation) -> tuple[StageRecord, ...]:
    first = StageRecord(
        kind=experiment.kind.name,
        options=dict(experiment.options),
        repetitions=experiment.repetitions,
        order=experiment.request.order,
        on_failure=relation.on_failure,
    )
    return (first, PROFILE_STAGE) if experiment.request.with_profile else (first,)


def create_set(
    experiment: Experiment,
    configuration: Configuration,
    output: Path,
    name: str,
    created: datetime,
    base_seed: int | None = None,
) -> RunSet:
    """Create the folder of a run set below `output`, with the definition, seeds and system that its repetitions
    need."""
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
    own = [check_precision(prepared, config.workload.runtime), check_choice(prepared.choice)]
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
        "is_chained": experiment.kind.keeper == "logs",
        "preflight": [structs.asdict(check) for check in checks],
    }
    definition = tomli_w.dumps(dict(config.tables))
    return create_run_set(find_unique_folder(output, name), convert(content, RunSetRecord), definition)


def _with_spinning(environment: Mapping[str, Any], choice: ChoiceRecord | None) -> dict[str, Any]:
    """Return a run set's environment variables together with the OpenMP spin variables that autotuning chose for
    it."""
    variables = environment.get("variables")
    if choice is None or not isinstance(variables, Mapping):
        return dict(environment)
    return {**environment, "variables": {**variables, **make_spin_variables(choice.spin_count)}}


def refuse_small_disk(experiment: Experiment) -> None:
    """Raise HarnessError (exit 9) where the kept weights (final parameters) of all planned runs do not fit on the
    disk."""
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
    """Return the computed size in bytes of the weights (final parameters) that one run keeps."""
    num_embeddings = open_dataset(data_dir, workload.data).train.num_embeddings
    return workload.costs(num_embeddings).num_parameters * FLOAT_BYTES

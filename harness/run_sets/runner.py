"""The parent: N runs of one benchmark into one run set, complete whatever happens in between."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec
import tomli_w
from msgspec import structs

from harness.config.matmul import as_choice
from harness.config.run_config import WORLD_SOURCE, RunConfig, default_division
from harness.config.seeds import derive_seeds, draw_base_seed, reserved_seeds
from harness.foundation.errors import ExitCode, HarnessError
from harness.foundation.files import read_json, read_record, write_text
from harness.launch.process import Interpreter, WorkerEnd, explain_end, launch_worker
from harness.measure.job import write_job
from harness.measure.kinds import Job, MeasurementKind, OnEvent, find_kind
from harness.measure.training import KIND, TrainingJob
from harness.run_sets.folder import RUN_SET_FILE, RunSet, create_run_set, locked, open_run_set, record_interrupted
from harness.run_sets.installation import Installation, describe_here
from harness.run_sets.prepare import Prepared, refuse_small_disk
from harness.run_sets.progress import RunProgress
from harness.system.code import code_sha256
from harness.system.description import SystemDescription, describe_system, system_slug, write_system_json
from harness.system.preflight import run_checks
from harness.system.software import spin_variables
from harness.system.submission import LOGGED_STATUS, UNSPECIFIED, Given
from rules.benchmarks.loader import Benchmark, parse_benchmark, read_toml
from rules.records.codec import VERSION, convert
from rules.records.metrics import Metric
from rules.records.run import RunRecord
from rules.records.run_set import ChoiceRecord, RunSetRecord, UntilRecord


@dataclass(frozen=True, kw_only=True, slots=True)
class RunRequest:
    """What the user asks beyond the benchmark's own configuration."""

    num_runs: int
    base_seed: int | None
    division: str | None
    timeout_s: float | None
    output: Path
    command: list[str]
    quiet: bool = False
    kind: str = "training"
    options: Mapping[str, int] = field(default_factory=dict)
    """What the kind was asked, as its job names it."""
    until: UntilRecord | None = None
    """When the set stops growing, where its number of runs is not given."""
    name: str | None = None
    """Of the set and its folder, where not made of benchmark, configuration and time."""
    keep_weights: bool = False
    """Whether each run leaves its weights."""


def start_set(
    config: RunConfig, prepared: Prepared, request: RunRequest, installation: Installation | None = None
) -> RunSet:
    """Create the folder of a new run set with everything that `complete_set` needs.

    `installation` is the one that will make its runs, where it is another than this process's.
    """
    benchmark = config.benchmark
    division = request.division or default_division(benchmark)
    given = {
        **config.submission,
        "division": Given(division, "option --division" if request.division else "benchmark"),
    }
    if installation is None:
        about = describe_here(benchmark, config.workload.runtime.device, given)
    else:
        about = installation.about
    if request.keep_weights:
        refuse_small_disk([(config, prepared.data_dir)], request.output, request.num_runs)
    created = datetime.now(UTC)
    name = request.name or f"{benchmark.name}-{config.label or config.digest()}-{created:%Y%m%dT%H%M%SZ}"
    base_seed = draw_base_seed() if request.base_seed is None else request.base_seed
    content = {
        "schema_version": VERSION,
        "name": name,
        "created_utc": created.isoformat(timespec="seconds"),
        "harness_version": about.harness_version,
        "command": shlex.join(request.command),
        "benchmark": {
            "name": benchmark.name,
            "version": benchmark.version,
            "status": benchmark.status,
            "definition_sha256": benchmark.definition_sha256,
        },
        "config": config.values(),
        "num_runs": request.num_runs,
        "base_seed": base_seed,
        "seeds": derive_seeds(base_seed, request.num_runs, reserved_seeds(benchmark.name)),
        "division": division,
        "timeout_s": request.timeout_s,
        "kind": request.kind,
        "options": dict(request.options),
        "num_threads": prepared.num_threads,
        "choice": None if prepared.choice is None else msgspec.to_builtins(prepared.choice),
        "dataset": dataset_record(prepared.data_dir),
        "submission": {field: asdict(entry) for field, entry in given.items()},
        "system": structs.asdict(about.system),
        "environment": with_choice(about.environment, prepared.choice),
        "code_sha256": about.code_sha256,
        "until": None if request.until is None else structs.asdict(request.until),
        "keep_weights": request.keep_weights,
        "preflight": [structs.asdict(check) for check in run_checks(prepared.data_dir, request.output)],
    }
    run_set = create_run_set(unique_folder(request.output, name), convert(content, RunSetRecord))
    system = SystemDescription(fields=about.system.fields, provenance=about.system.provenance)
    write_system_json(run_set.folder / "systems", system, name=about.system.name)
    write_text(run_set.definition, tomli_w.dumps(dict(config.tables)))
    return run_set


def with_choice(environment: Mapping[str, Any], choice: ChoiceRecord | None) -> dict[str, Any]:
    """Return a set's environment with the variables that its choice gives to its runs."""
    variables = environment.get("variables")
    if choice is None or not isinstance(variables, Mapping):
        return dict(environment)
    return {**environment, "variables": {**variables, **spin_variables(choice.spin_count)}}


def unique_folder(output: Path, name: str) -> Path:
    """Find a folder below `output` that does not exist yet; two sets of one second get a counter."""
    folder, number = output / name, 1
    while folder.exists():
        number += 1
        folder = output / f"{name}-{number}"
    return folder


def dataset_record(data_dir: Path) -> dict[str, Any]:
    """Return where the data is, and the digest that its manifest says, as run_set.json has it."""
    manifest = data_dir / "manifest.json"
    digest = read_json(manifest).get("dataset_sha256") if manifest.is_file() else None
    return {"dir": str(data_dir.resolve()), "dataset_sha256": digest}


def complete_set(
    folder: Path,
    *,
    quiet: bool = False,
    indices: Sequence[int] | None = None,
    installation: Installation | None = None,
    resume: str | None = None,
) -> RunSet:
    """Run whatever run of the set is missing, or of `indices`, with this or another installation.

    Raises HarnessError when an attempt is interrupted, with the command to `resume`, by default the set's own.
    """
    run_set, record = open_run_set(folder)
    if not find_kind(record.kind).is_scored:
        raise HarnessError(
            f"{folder}: holds a {record.kind} measurement, which has no runs to complete. Measure again with "
            f"{record.command}"
        )
    with locked(run_set):
        benchmark = parse_benchmark(read_toml(run_set.definition), run_set.definition)
        if benchmark.definition_sha256 != record.benchmark.definition_sha256:
            raise HarnessError(
                f"{run_set.definition}: differs from the definition that the set began with.", ExitCode.INPUT
            )
        refuse_other_system(run_set, record, installation)
        interpreter = None if installation is None else installation.interpreter
        for index in range(record.num_runs) if indices is None else indices:
            if not run_set.recover(index):
                refuse_externally_launched(run_set, record, index)
                command = resume or resume_command(run_set.folder)
                _run(run_set, record, benchmark, index, interpreter, command, quiet=quiet)
    return run_set


def describe_other_code(folder: Path, record: RunSetRecord) -> str | None:
    """Say that the set was begun by other code than this process runs; None where it was not, or nobody knows."""
    if record.code_sha256 in (None, code_sha256()):
        return None
    begun, here = (
        f"digest {str(digest)[:12]}, dlrmbench {number}"
        for digest, number in ((record.code_sha256, record.harness_version), (code_sha256(), version("dlrmbench")))
    )
    return f"{folder}: was begun by other code ({begun}) than this ({here})."


def refuse_externally_launched(run_set: RunSet, record: RunSetRecord, index: int) -> None:
    """Refuse a run whose ranks an external launcher starts: it is started there again."""
    if "runtime.ranks" in record.config and record.config["runtime.ranks"].source == WORLD_SOURCE:
        raise HarnessError(
            f"{run_set.folder}: run {index} is missing, and the ranks of this set are started by torchrun or srun. "
            f"Start it there again, with --run-index {index}."
        )


def resume_command(folder: Path) -> str:
    """Return the command line that completes the set or sweep in `folder`."""
    return shlex.join(["dlrmbench", "resume", str(folder)])


def refuse_other_system(run_set: RunSet, record: RunSetRecord, installation: Installation | None = None) -> None:
    """Refuse to continue a set on another system than it began on."""
    if installation is None:
        found = describe_system(given_fields(record), device=record.config["runtime.device"].value)
        name, framework = system_slug(found), found.fields["framework"]
    else:
        system = installation.about.system
        name, framework = system.name, system.fields["framework"]
    # A name that was given says nothing of the software.
    begun = record.system.fields.get("framework", framework)
    for was, here in ((run_set.system, name), (begun, framework)):
        if was != here:
            raise HarnessError(f"{run_set.folder}: was begun on {was!r}, this is {here!r}. Start a new set here.")


def given_fields(record: RunSetRecord) -> dict[str, Given]:
    """Return what was given of a set's submission and system."""
    return {field: Given(entry.value, entry.source) for field, entry in record.submission.items()}


def _run(
    run_set: RunSet,
    record: RunSetRecord,
    benchmark: Benchmark,
    index: int,
    interpreter: Interpreter | None,
    command: str,
    *,
    quiet: bool,
) -> None:
    attempt = run_set.new_attempt(index)
    label = f"run {index + 1} of {record.num_runs}"
    progress = RunProgress(label, benchmark.quality, quiet=quiet)
    try:
        job = make_training_job(run_set, record, index, attempt)
        end = launch_job(KIND, job, record, progress.on_event, interpreter)
    except BaseException as error:
        if not _commit_if_finished(run_set, index, attempt):
            reason = type(error).__name__ if str(error) == "" else str(error)
            record_interrupted(attempt, index=index, reason=reason, exit_code=None)
        progress.finish("interrupted")
        raise
    if not _commit_if_finished(run_set, index, attempt):
        reason, code = explain_end(end)
        record_interrupted(attempt, index=index, reason=reason, exit_code=end.exit_code)
        progress.finish("interrupted")
        raise HarnessError(
            f"{label} was interrupted: {reason}\nThe attempt is kept in {attempt}. Complete the set with: {command}",
            code,
        )
    ended = read_record(attempt / "run.json", RunRecord)
    progress.finish(_describe_end(ended, benchmark.metric))
    if lost := explain_lost_weights(ended):
        raise HarnessError(f"{label} {lost} Complete the set with: {command}", lost_code(ended))


def _commit_if_finished(run_set: RunSet, index: int, attempt: Path) -> bool:
    return (attempt / "log.txt").exists() and run_set.recover(index)


def make_training_job(run_set: RunSet, record: RunSetRecord, index: int, attempt: Path) -> TrainingJob:
    """Make the job of run `index` of a set, in the folder of its attempt."""
    given = {field: entry.value for field, entry in record.submission.items()}
    return TrainingJob(
        **job_members(run_set, record, index, attempt),
        run_index=index,
        attempt=int(attempt.name.removeprefix("attempt_")),
        division=record.division,
        submission_org=given.get("submitter") or UNSPECIFIED,
        submission_platform=given.get("platform") or UNSPECIFIED,
        submission_status=LOGGED_STATUS[record.system.fields["status"]],
        timeout_s=record.timeout_s,
        keep_weights=record.keep_weights,
    )


def job_members(run_set: RunSet, record: RunSetRecord, index: int, folder: Path) -> dict[str, Any]:
    """Collect what a job of any kind is asked, from the set's definition and record.

    Raises HarnessError (exit 8) where the record's choice of matrix products is none.
    """
    tables = read_toml(run_set.definition)
    matmul = None if record.choice is None else record.choice.matmul
    if matmul is not None:
        as_choice(matmul, f"{run_set.extra / RUN_SET_FILE}: choice.matmul")
    return {
        "tables": {**tables, "runtime": {**tables.get("runtime", {}), "threads": record.num_threads}},
        "definition_path": str(run_set.definition),
        "data_dir": record.dataset.dir,
        "seed": record.seeds[index],
        "folder": str(folder),
        **({} if matmul is None else {"matmul": msgspec.to_builtins(matmul)}),
    }


def launch_job(
    kind: MeasurementKind,
    job: Job,
    record: RunSetRecord,
    on_event: OnEvent,
    interpreter: Interpreter | None = None,
) -> WorkerEnd:
    """Do a job of the set in fresh processes, as many as it has ranks, of another interpreter where one is given."""
    path = write_job(kind, job)
    return launch_worker(
        path,
        num_threads=record.num_threads,
        on_event=on_event,
        num_ranks=kind.num_ranks(job),
        interpreter=interpreter,
        variables=None if record.choice is None else spin_variables(record.choice.spin_count),
    )


def explain_lost_weights(ended: RunRecord) -> str | None:
    """Say why a run that is complete has no weights; None where it has them, or nobody asked."""
    kept = ended.weights
    if kept is None or kept.error is None:
        return None
    return f"is complete and kept, its weights are not: {kept.error}"


def lost_code(ended: RunRecord) -> ExitCode:
    """Return the exit code of what kept the weights from being written."""
    code = 0 if ended.weights is None else ended.weights.exit_code
    return ExitCode(code) if code in set(ExitCode) else ExitCode.RESOURCES


def _describe_end(record: RunRecord, metric: Metric) -> str:
    last = record.evaluations[-1] if record.evaluations else None
    quality = "no evaluation" if last is None else f"{metric.label} {last.quality:.5f}"
    samples = f"{0 if last is None else last.samples_count:,} samples"
    if record.status == "success":
        return f"target met, {quality} after {samples}"
    return f"not converged ({record.reason}), {quality} after {samples}"

"""One run inside a world that others have started: torchrun or Slurm's srun, on one machine or several.

Every process of that world is a rank of the run. Rank 0 keeps the run set: it makes it when run 0 begins, locks it,
and commits the run. The loop over runs is outside, one launch per run; `dlrmbench resume SET` then judges and
reports.
"""

import os
import signal
from collections.abc import Mapping, MutableMapping
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from harness.agreement import agree, refuse_difference
from harness.catalog import parse_workload
from harness.config import RunConfig
from harness.errors import ExitCode, HarnessError, exit_code_of, message_of
from harness.files import write_json
from harness.heartbeat import Heartbeat
from harness.progress import RunProgress
from harness.rank import COLLECTIVE_TIMEOUT_S
from harness.run_set import RunSet, locked, open_run_set, write_record
from harness.runner import RunRequest, make_spec, start_set
from harness.worker import RunSpec, run_attempt
from reference_models.distributed import ProcessGroup, join_world
from rules.benchmarks import parse_benchmark, read_toml

_SLURM = {"RANK": "SLURM_PROCID", "WORLD_SIZE": "SLURM_NTASKS", "LOCAL_RANK": "SLURM_LOCALID"}


def world_size(environ: Mapping[str, str]) -> int | None:
    """How many ranks the world has that this process was started in; None outside of one."""
    for name in ("WORLD_SIZE", _SLURM["WORLD_SIZE"]):
        if environ.get(name, "").isdecimal():
            return int(environ[name])
    return None


def adopt_slurm(environ: MutableMapping[str, str]) -> None:
    """Give torchrun's names to what Slurm tells its tasks; torchrun's own come first."""
    for name, slurm in _SLURM.items():
        if name not in environ and slurm in environ:
            environ[name] = environ[slurm]


def run_in_world(config: RunConfig, request: RunRequest, folder: Path, index: int) -> str:
    """Be one rank of run `index` of the set in `folder`. The text says how it ended; empty but on rank 0."""
    # The main thread may wait inside a collective call, where no Python handler runs: end at once.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    adopt_slurm(os.environ)
    runtime = config.workload.runtime
    world = join_world(runtime.device.partition(":")[0], COLLECTIVE_TIMEOUT_S, num_ranks=runtime.ranks)
    with Heartbeat(world), ExitStack() as held:
        refuse_difference(world, {"run_index": index, **{key: one["value"] for key, one in config.values().items()}})
        prepared = _prepare(world, config, request, folder, index, held)
        given: Any = world.broadcast(prepared.told if isinstance(prepared, Prepared) else prepared)
        if isinstance(given, str):
            return given if world.rank == 0 else ""
        if isinstance(given, HarnessError):
            raise given
        spec = replace(RunSpec(**given), data_dir=str(request.data_dir.resolve()))
        benchmark = parse_benchmark(spec.tables, Path(spec.definition_path))
        agree(world, spec, parse_workload(benchmark, benchmark.sections))
        progress = RunProgress(
            f"run {index}", benchmark.quality.max_epochs, benchmark.quality.target, quiet=request.quiet
        )
        attempt = prepared.attempt if isinstance(prepared, Prepared) else Path()
        try:
            outcome = run_attempt(spec, attempt, world, progress.on_event)
            world.barrier()
        except BaseException as error:
            if isinstance(prepared, Prepared):
                code = exit_code_of(error)
                reason = message_of(error) if code is not None else type(error).__name__
                write_record(attempt, index=index, status="interrupted", reason=reason, exit_code=code)
            raise
        if isinstance(prepared, Prepared):
            prepared.run_set.recover(index)
    world.leave()
    if world.rank != 0:
        return ""
    return f"run {index}: {outcome.status}, in {folder}. After the last run: dlrmbench resume {folder}"


class Prepared:
    """What rank 0 keeps to itself of a run that is about to begin, and what it tells the others."""

    def __init__(self, run_set: RunSet, attempt: Path, spec: RunSpec) -> None:
        self.run_set, self.attempt, self.told = run_set, attempt, asdict(spec)


def _prepare(
    world: ProcessGroup, config: RunConfig, request: RunRequest, folder: Path, index: int, held: ExitStack
) -> "Prepared | str | HarnessError | None":
    """On rank 0 the run to begin, a text when there is nothing to do, or why it cannot; None elsewhere."""
    if world.rank != 0:
        return None
    try:
        if not (folder / "extra").exists():
            start_set(config, replace(request, output=folder.parent, name=folder.name))
        run_set, content = open_run_set(folder)
        held.enter_context(locked(run_set))
        _refuse_other(content, config, request, folder, index)
        if run_set.recover(index):
            return f"run {index} is there already, in {folder}."
        attempt = run_set.new_attempt(index)
        tables = read_toml(run_set.extra / "definition.toml")
        spec = make_spec(run_set, content, tables, index, attempt)
        write_json(attempt / "spec.json", asdict(spec))
        return Prepared(run_set, attempt, spec)
    except HarnessError as error:
        return error
    except OSError as error:
        return HarnessError(message_of(error), exit_code_of(error) or ExitCode.INPUT)


def _refuse_other(
    content: Mapping[str, Any], config: RunConfig, request: RunRequest, folder: Path, index: int
) -> None:
    """The set's runs are all of one configuration, and there are as many as it began with."""
    stored = {key: entry["value"] for key, entry in content["config"].items()}
    here = {key: entry["value"] for key, entry in config.values().items()}
    for key in sorted({*stored, *here}):
        if stored.get(key) != here.get(key):
            raise HarnessError(
                f"{folder}: was begun with {key} = {stored.get(key)!r}, this run has {here.get(key)!r}. Give every "
                "run of a set the same values, or another -o.",
                ExitCode.USAGE,
            )
    if index >= content["num_runs"]:
        raise HarnessError(
            f"{folder}: --run-index is {index}, but the set has {content['num_runs']} runs, counted from 0.",
            ExitCode.USAGE,
        )

"""One run inside a world that others have started: torchrun or Slurm's srun, on one machine or several.

Every process of that world is a rank of the run. Rank 0 keeps the run set: it makes it when run 0 begins, locks it,
and commits the run. The loop over runs is outside, one launch per run; `dlrmbench resume SET` then judges and
reports.
"""

import logging
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from harness.config.catalog import parse_workload
from harness.config.run_config import RunConfig
from harness.foundation.errors import ExitCode, HarnessError, RefusedByAllError, exit_code_of, message_of
from harness.launch.consistency import agree, refuse_difference
from harness.launch.heartbeat import Heartbeat
from harness.launch.launcher_env import adopt_slurm
from harness.launch.rank import COLLECTIVE_TIMEOUT_S
from harness.measure.job import measure, write_job
from harness.measure.training import KIND, TrainingJob
from harness.run_sets.folder import RunSet, locked, open_run_set, record_interrupted
from harness.run_sets.progress import RunProgress
from harness.run_sets.runner import RunRequest, make_spec, start_set
from reference_models.distributed.process_group import ProcessGroup, join
from reference_models.distributed.rendezvous import rendezvous
from rules.benchmarks.loader import parse_benchmark, read_toml
from rules.records.run import RunRecord
from rules.records.run_set import RunSetRecord


def run_in_world(config: RunConfig, request: RunRequest, folder: Path, index: int) -> str:
    """Be one rank of run `index` of the set in `folder`. The text says how it ended; empty but on rank 0."""
    if index >= request.num_runs:
        raise HarnessError(
            f"--run-index is {index}, but the set has {request.num_runs} runs, counted from 0.", ExitCode.USAGE
        )
    adopt_slurm(os.environ)
    runtime = config.workload.runtime
    meeting = rendezvous(num_ranks=runtime.ranks, on_waiting=_tell)
    with ExitStack() as held, Heartbeat(meeting) as heartbeat:  # the set is locked until the reason is on record
        world = join(meeting, runtime.device.partition(":")[0], COLLECTIVE_TIMEOUT_S)
        refuse_difference(world, _asked(config, request, folder, index))
        prepared = _prepare(world, config, request, folder, index, held)
        if isinstance(prepared, Prepared):
            heartbeat.on_end = prepared.record
        given: Any = world.broadcast(prepared.told if isinstance(prepared, Prepared) else prepared)
        if isinstance(given, HarnessError):
            raise RefusedByAllError(str(given), given.exit_code)
        told = given if isinstance(given, str) else _train(world, TrainingJob(**given), request, prepared)
        world.barrier()
        if isinstance(prepared, Prepared):
            prepared.run_set.recover(index)
            told = f"run {index}: {told}, in {folder}. After the last run: dlrmbench resume {folder}"
    world.leave()
    return told if world.rank == 0 else ""


def _tell(line: str) -> None:
    sys.stderr.write(f"{line}\n")


def _train(
    world: ProcessGroup, given: TrainingJob, request: RunRequest, prepared: "Prepared | str | HarnessError | None"
) -> str:
    """The run itself; its status."""
    attempt = prepared.attempt if isinstance(prepared, Prepared) else Path()
    spec = replace(given, data_dir=str(request.data_dir.resolve()), folder=str(attempt))
    benchmark = parse_benchmark(spec.tables, Path(spec.definition_path))
    agree(world, spec, parse_workload(benchmark, benchmark.sections))
    quality = benchmark.quality
    progress = RunProgress(f"run {spec.run_index}", quality.max_epochs, quality.target, quiet=request.quiet)
    with _quiet_libraries():
        record = measure(KIND, spec, world, progress.on_event)
    return record.status if isinstance(record, RunRecord) else ""


@contextmanager
def _quiet_libraries() -> Iterator[None]:
    """Without what TorchRec's planner, torch.fx and autograd say to their own developers, on the user's console."""

    def is_news(record: logging.LogRecord) -> bool:
        return not record.getMessage().startswith("Sharding spec not found")

    root, tracing = logging.getLogger(), logging.getLogger("torch.fx._symbolic_trace")
    level = tracing.level
    root.addFilter(is_news)
    tracing.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="fbgemm::.*autograd kernel was not registered")
            yield
    finally:
        root.removeFilter(is_news)
        tracing.setLevel(level)


def _asked(config: RunConfig, request: RunRequest, folder: Path, index: int) -> dict[str, Any]:
    """What the command line asks for, which must be the same on all ranks."""
    return {
        "--run-index": index,
        "--output": str(folder),
        "--runs": request.num_runs,
        "--seed": request.base_seed,
        "--name": config.label,
        "--division": request.division,
        "--timeout": request.timeout_s,
        **{key: one["value"] for key, one in config.values().items()},
    }


class Prepared:
    """What rank 0 keeps to itself of a run that is about to begin, and what it tells the others."""

    def __init__(self, run_set: RunSet, attempt: Path, spec: TrainingJob) -> None:
        self.run_set, self.attempt, self.told = run_set, attempt, asdict(spec)
        self._index = spec.run_index

    def record(self, reason: str, exit_code: int) -> None:
        """Keep why the attempt was interrupted, unless its log was finished before."""
        if not ((self.attempt / "log.txt").exists() and self.run_set.recover(self._index)):
            record_interrupted(self.attempt, index=self._index, reason=reason, exit_code=exit_code)


def _prepare(
    world: ProcessGroup, config: RunConfig, request: RunRequest, folder: Path, index: int, held: ExitStack
) -> "Prepared | str | HarnessError | None":
    """On rank 0 the run to begin, a text when there is nothing to do, or why it cannot; None elsewhere."""
    if world.rank != 0:
        return None
    try:
        if not (folder / "extra").exists():
            start_set(config, replace(request, output=folder.parent, name=folder.name))
        run_set, record = open_run_set(folder)
        held.enter_context(locked(run_set))
        _refuse_other(record, config, request, folder)
        if run_set.recover(index):
            return f"run {index} is there already, in {folder}."
        attempt = run_set.new_attempt(index)
        tables = read_toml(run_set.extra / "definition.toml")
        spec = make_spec(run_set, record, tables, index, attempt)
        write_job(KIND, spec)
        return Prepared(run_set, attempt, spec)
    except HarnessError as error:
        return error
    except OSError as error:
        return HarnessError(message_of(error), exit_code_of(error) or ExitCode.INPUT)


def _refuse_other(record: RunSetRecord, config: RunConfig, request: RunRequest, folder: Path) -> None:
    """The set's runs are all of one configuration, and there are as many as it began with."""
    stored = {key: entry.value for key, entry in record.config.items()}
    here = {key: entry["value"] for key, entry in config.values().items()}
    for key in sorted({*stored, *here}):
        if stored.get(key) != here.get(key):
            raise HarnessError(
                f"{folder}: was begun with {key} = {stored.get(key)!r}, this run has {here.get(key)!r}. Give every "
                "run of a set the same values, or another -o.",
                ExitCode.USAGE,
            )
    begun = {"--runs": record.num_runs, "--seed": record.base_seed}
    asked = {"--runs": request.num_runs, "--seed": request.base_seed}
    for option, value in asked.items():
        if value is not None and value != begun[option]:
            raise HarnessError(
                f"{folder}: was begun with {option} {begun[option]}, this run has {value}. Give every run of a set "
                "the same, or another -o.",
                ExitCode.USAGE,
            )

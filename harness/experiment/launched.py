"""Run as one rank of an externally launched run: torchrun or Slurm's srun started the ranks, on one or more machines.

Every process that the launcher started is a rank of the run. Rank 0 alone writes the run set: it creates the set when
run 0 begins, locks it, and stores the finished run. Each launch makes one run, so the loop over runs is in the user's
script; `dlrmbench resume SET` then judges and reports.
"""

import logging
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from harness.experiment.create import create_set, refuse_small_disk
from harness.experiment.executors import job_members
from harness.experiment.experiment import Experiment
from harness.foundation.errors import ExitCode, HarnessError, RefusedByAllError, compose_message, exit_code_of
from harness.foundation.files import read_record
from harness.launch.consistency import agree, refuse_difference
from harness.launch.heartbeat import Heartbeat
from harness.launch.rank import COLLECTIVE_TIMEOUT_S
from harness.measure.job import measure, write_job
from harness.measure.training import KIND, TrainingJob
from harness.run_sets.folder import RunSet, describe_other_code, locked, open_run_set, record_interrupted
from harness.run_sets.keepers import Keeper, find_keeper, find_lost
from harness.run_sets.progress import RunProgress
from harness.system.code import describe_code
from harness.system.launcher_env import adopt_slurm
from reference_models.distributed.process_group import ProcessGroup, join
from reference_models.distributed.rendezvous import rendezvous
from reference_models.training.devices import describe_gpu, local_device
from rules.records.run import RunRecord
from rules.records.run_set import RunSetRecord


def run_in_world(experiment: Experiment) -> str:
    """Do one rank's part of a run of a prepared experiment; the experiment's output folder is the run set's own
    folder.

    Returns on rank 0 how the run ended; an empty string on other ranks.
    """
    request, (configuration,) = experiment.request, experiment.configurations
    index, config, prepared = request.run_index, configuration.config, configuration.prepared
    assert index is not None and prepared is not None
    if index >= experiment.repetitions:
        raise HarnessError(f"--run-index is {index}, but the set has {experiment.repetitions} runs, counted from 0.")
    adopt_slurm(os.environ)
    describe_code()
    runtime, folder = config.workload.runtime, request.output
    device = local_device(runtime.device, runtime.ranks)
    meeting = rendezvous(num_ranks=runtime.ranks, on_waiting=_report_waiting, gpu=describe_gpu(device))
    with ExitStack() as held, Heartbeat(meeting) as heartbeat:  # the set is locked until the reason is on record
        world = join(meeting, device, COLLECTIVE_TIMEOUT_S)
        refuse_difference(world, _asked(experiment))
        begun = _begin(experiment, index, held) if world.rank == 0 else None
        if isinstance(begun, BegunRun):
            heartbeat.on_end = begun.record
        shared: Any = world.broadcast(asdict(begun.job) if isinstance(begun, BegunRun) else begun)
        if isinstance(shared, HarnessError):
            raise RefusedByAllError(str(shared), shared.exit_code)
        summary = (
            shared
            if isinstance(shared, str)
            else _train(world, TrainingJob(**shared), prepared.data_dir, quiet=request.quiet)
        )
        world.barrier()
        ended = None
        if isinstance(begun, BegunRun):
            begun.keeper.recover(index)
            ended = read_record(Path(begun.job.folder) / "run.json", RunRecord)
            summary = f"run {index}: {summary}, in {folder}. After the last run: dlrmbench resume {folder}"
    world.leave()
    if ended is not None and (lost := find_lost(ended, f"run {index}")):
        raise lost
    return summary if world.rank == 0 else ""


def _report_waiting(line: str) -> None:
    sys.stderr.write(f"{line}\n")


def _train(world: ProcessGroup, job: TrainingJob, data_dir: Path, *, quiet: bool) -> str:
    """Train on this rank, with the dataset's path on this rank's machine; return the run's status on rank 0, else
    ""."""
    job = replace(job, data_dir=str(data_dir.resolve()))
    benchmark, workload = job.parse()
    agree(world, job, workload)
    progress = RunProgress(f"run {job.run_index}", benchmark.quality, quiet=quiet)
    with _quiet_libraries():
        record = measure(KIND, job, world, progress.on_event)
    return record.status if isinstance(record, RunRecord) else ""


@contextmanager
def _quiet_libraries() -> Iterator[None]:
    """Hide messages of TorchRec's planner, torch.fx and autograd that only their developers need."""

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


def _asked(experiment: Experiment) -> dict[str, Any]:
    """Return the values of the command line that must be the same on all ranks of an externally launched run. The
    keys are options and configuration keys."""
    request, config = experiment.request, experiment.configurations[0].config
    return {
        "--run-index": request.run_index,
        "--output": str(request.output),
        "--runs": experiment.repetitions,
        "--seed": request.seed,
        "--name": config.label,
        "--division": request.division,
        "--timeout": request.timeout_s,
        "--keep-weights": request.keep_weights,
        **{key: entry["value"] for key, entry in config.values().items()},
    }


@dataclass(frozen=True, kw_only=True, slots=True)
class BegunRun:
    """Externally launched run that rank 0 has prepared and is about to begin: its run set, its job, and the keeper
    that stores the result. The other ranks receive only the job."""

    run_set: RunSet
    keeper: Keeper
    job: TrainingJob

    def record(self, reason: str, exit_code: int) -> None:
        """Record why the attempt at a run was interrupted, unless the attempt's log is already complete."""
        attempt, index = Path(self.job.folder), self.job.run_index
        if not ((attempt / "log.txt").exists() and self.keeper.recover(index)):
            record_interrupted(attempt, index=index, reason=reason, exit_code=exit_code)


def _begin(experiment: Experiment, index: int, held: ExitStack) -> BegunRun | str | HarnessError:
    """Prepare an externally launched run on rank 0. Returns the prepared run, a message where the run exists already,
    or the error that prevents it."""
    (configuration,), folder = experiment.configurations, experiment.request.output
    try:
        if not (folder / "extra").exists():
            refuse_small_disk(experiment)
            create_set(experiment, configuration, folder.parent, folder.name, datetime.now(UTC))
        run_set, record = open_run_set(folder)
        held.enter_context(locked(run_set))
        _refuse_other(record, experiment)
        if other := describe_other_code(folder, record):
            raise HarnessError(f"{other} Start every run of a set with the same code, or give another -o.")
        keeper = find_keeper(KIND, run_set, record)
        if keeper.recover(index):
            return f"run {index} exists already, in {folder}."
        job = KIND.make_job(record, index, job_members(run_set, record, index, keeper.open(index)), {})
        write_job(KIND, job)
        return BegunRun(run_set=run_set, keeper=keeper, job=job)
    except HarnessError as error:
        return error
    except OSError as error:
        return HarnessError(compose_message(error), exit_code_of(error) or ExitCode.INPUT)


def _refuse_other(record: RunSetRecord, experiment: Experiment) -> None:
    """Raise HarnessError where this launch's configuration, seed or number of runs differs from the run set's."""
    request, config = experiment.request, experiment.configurations[0].config
    begun = {key: entry.value for key, entry in record.config.items()}
    begun |= {"--runs": record.num_runs, "--seed": record.base_seed}
    asked = {key: entry["value"] for key, entry in config.values().items()}
    asked |= {"--runs": experiment.repetitions}
    asked |= {"--seed": record.base_seed if request.seed is None else request.seed}
    for key in sorted(begun.keys() | asked.keys(), key=lambda key: (key.startswith("--"), key)):
        if begun.get(key) != asked.get(key):
            of = " " if key.startswith("--") else " = "
            raise HarnessError(
                f"{request.output}: was begun with {key}{of}{begun.get(key)!r}, this run has {asked.get(key)!r}. "
                "Give every run of a set the same values, or another -o."
            )

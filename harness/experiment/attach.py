"""Attach a profile to a run set: a record of where a training step spends its time, for the configuration of the
runs."""

import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.config.run_config import RunConfig
from harness.experiment.create import create
from harness.experiment.executors import RepetitionTask, WorkerExecutor, refuse_other_definition
from harness.experiment.expand import expand
from harness.experiment.loop import perform
from harness.experiment.prepare import prepare, prepare_data
from harness.experiment.request import Request
from harness.experiment.sides import given_code
from harness.foundation.errors import HarnessError
from harness.measure.profile.job import KIND
from harness.run_sets.commands import resume_command
from harness.run_sets.folder import RUN_SET_FILE, locked, open_run_set
from harness.run_sets.keepers import OnlyRecordKeeper
from harness.run_sets.output import refuse_output
from harness.run_sets.outside_code import refuse_outside_code
from rules.records.run_set import RunSetRecord


def open_or_create(request: Request) -> Path:
    """Return the folder of the run set at the request's output, to which a profile is to be added. If there is no run
    set, create an autotuned one below the request's output and return its folder.

    Raises HarnessError, before anything is written, if the configuration cannot be profiled, or if the existing run
    set has another configuration than the request.
    """
    experiment = expand(request)
    (configuration,) = experiment.configurations
    if not (request.output / "extra" / RUN_SET_FILE).is_file():
        return create(prepare(experiment))
    refuse_output(request.output)
    refuse_outside_code(request.output, given_code(request), _explain_outside_code)
    prepared = prepare_data(experiment.kind, configuration.config, request.data, quiet=request.quiet)
    run_set, record = open_run_set(request.output)
    refuse_other_definition(run_set, record)
    refuse_other_configuration(request.output, configuration.config, prepared.num_threads, record)
    return request.output


def _explain_outside_code(folder: Path, missing: Sequence[tuple[str, str]]) -> str:
    words = " and ".join(f"--{what} {shlex.quote(name)}" for what, name in missing)
    return f"{folder}: was made with code that is not dlrmbench's own, which runs only if you name it: give {words}."


def refuse_other_configuration(folder: Path, config: RunConfig, num_threads: int, record: RunSetRecord) -> None:
    """Raise HarnessError (exit 2) where the profile's configuration differs from the configuration of the run set's
    runs."""
    chosen = {"runtime.threads", *(["runtime.precision"] if config.workload.runtime.precision == "auto" else [])}
    here = {key: entry["value"] for key, entry in config.values().items() if key not in chosen}
    there = {key: entry.value for key, entry in record.config.items() if key not in chosen}
    other = sorted(key for key in here.keys() | there.keys() if here.get(key) != there.get(key))
    if record.num_threads != num_threads and (record.choice is None or config.workload.runtime.threads is not None):
        other.append("runtime.threads")
    if other:
        raise HarnessError(
            f"{folder}: is a run set of another configuration ({', '.join(other[:5])} differ). Give the same "
            "values, or the folder above it for a set of its own."
        )


def attach_profile(
    folder: Path, *, num_steps: int | None, trace: Path | None, on_progress: Callable[[str], None]
) -> Path:
    """Profile the configuration of the run set in `folder` in a fresh process; return the path of extra/profile.json.

    Raises HarnessError where the profile fails.
    """
    options: Mapping[str, Any] = {"num_steps": num_steps, "trace": None if trace is None else str(trace.absolute())}
    run_set, _ = open_run_set(folder)
    with locked(run_set):
        record = open_run_set(folder)[1]
        keeper = OnlyRecordKeeper(run_set, record, KIND)
        repetition = RepetitionTask(
            kind=KIND,
            keeper=keeper,
            run_set=run_set,
            record=record,
            index=0,
            more=options,
            resume=resume_command(folder),
        )
        perform(repetition, WorkerExecutor(), _ProgressRelay(on_progress))
    return keeper.path


class _ProgressRelay:
    """Receiver of a profile process's events that passes progress messages on to a callback."""

    def __init__(self, on_progress: Callable[[str], None]) -> None:
        self._on_progress = on_progress

    def on_event(self, event: Mapping[str, Any]) -> None:
        if event["event"] == "progress":
            self._on_progress(str(event.get("doing")))

    def finish(self, text: str) -> None:
        """Do nothing at the end of a profile: the record, not the progress display, has its result."""

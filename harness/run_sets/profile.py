"""The parent of `dlrmbench profile`: one worker, its answer kept as extra/profile.json of a run set."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from harness.config.run_config import RunConfig
from harness.foundation.errors import HarnessError
from harness.measure.profile.job import KIND
from harness.run_sets.choice import choose
from harness.run_sets.folder import RUN_SET_FILE, RunSet, locked, open_run_set
from harness.run_sets.measurement import launch
from harness.run_sets.prepare import Prepared
from harness.run_sets.runner import RunRequest, start_set
from rules.records.run_set import RunSetRecord

PROFILE_FILE = "profile.json"


def find_or_start_set(config: RunConfig, prepared: Prepared, request: RunRequest) -> tuple[RunSet, RunSetRecord]:
    """Open the run set that `output` is, where it is one of the same configuration; else a new one below it.

    A new one chooses how its steps are computed; the other one has chosen.
    """
    if (request.output / "extra" / RUN_SET_FILE).is_file():
        run_set, record = open_run_set(request.output)
        refuse_other_configuration(request.output, config, prepared.num_threads, record)
        return run_set, record
    prepared = choose(config, prepared, known={}, quiet=request.quiet)
    return open_run_set(start_set(config, prepared, request).folder)


def refuse_other_configuration(folder: Path, config: RunConfig, num_threads: int, record: RunSetRecord) -> None:
    """Refuse (HarnessError, exit 2) a profile of something else than what the runs beside it did."""
    here = {key: entry["value"] for key, entry in config.values().items() if key != "runtime.threads"}
    there = {key: entry.value for key, entry in record.config.items() if key != "runtime.threads"}
    other = sorted(key for key in here.keys() | there.keys() if here.get(key) != there.get(key))
    if record.num_threads != num_threads and (record.choice is None or config.workload.runtime.threads is not None):
        other.append("runtime.threads")
    if other:
        raise HarnessError(
            f"{folder}: is a run set of another configuration ({', '.join(other[:5])} differ). Give the same "
            "values, or the folder above it for a set of its own."
        )


def profile_set(
    run_set: RunSet,
    record: RunSetRecord,
    *,
    num_steps: int | None,
    trace: Path | None,
    on_progress: Callable[[str], None],
) -> Path:
    """Profile the set's configuration in a fresh process and write extra/profile.json. Raises HarnessError."""

    def on_event(event: Mapping[str, Any]) -> None:
        if event["event"] == "progress":
            on_progress(str(event.get("doing")))

    options = {"num_steps": num_steps, "trace": None if trace is None else str(trace.absolute())}
    with locked(run_set):
        folder = run_set.extra / "profile"
        launch(KIND, run_set, record, folder, 0, "nothing was profiled", options, on_event)
        return (folder / KIND.file).replace(run_set.extra / PROFILE_FILE)

"""The parent of a measurement in several fresh processes: launches them, keeps what each found, gathers it."""

from collections.abc import Callable, Mapping
from itertools import takewhile
from pathlib import Path
from typing import Any

import msgspec

from harness.foundation.errors import HarnessError
from harness.foundation.files import read_record, write_record
from harness.launch.process import Interpreter, explain_end
from harness.measure.kinds import MeasurementKind, OnEvent, find_kind
from harness.run_sets.folder import RunSet
from harness.run_sets.progress import MeasuringProgress
from harness.run_sets.runner import job_members, launch_job
from reference_models.process.whole import remove
from rules.records.codec import Damage, decode
from rules.records.measure import Measurement
from rules.records.run_set import RunSetRecord


def measure_set(
    run_set: RunSet, record: RunSetRecord, on_process: Callable[[int, Measurement], None], *, quiet: bool
) -> Measurement:
    """Measure in those of `num_runs` fresh processes that are missing, and gather what all found.

    `on_process` is called with each new one's place and what it found. Raises HarnessError.
    """
    for index in range(record.num_runs):
        if not is_measured(run_set, record, index):
            on_process(index, measure_process(run_set, record, index, quiet=quiet))
            gather_processes(run_set, record)
    return gather_processes(run_set, record)


def measure_process(
    run_set: RunSet, record: RunSetRecord, index: int, interpreter: Interpreter | None = None, *, quiet: bool
) -> Measurement:
    """Measure in one fresh process, unless it was measured before. Raises HarnessError."""
    kind, folder = find_kind(record.kind), _process_folder(run_set, record, index)
    measured = decode(folder / kind.file, kind.record)
    if not isinstance(measured, Damage):
        return measured
    failure = f"process {index + 1} measured nothing"
    progress = MeasuringProgress(f"process {index + 1}", quiet=quiet)
    try:
        return launch(kind, run_set, record, folder, index, failure, record.options, progress.on_event, interpreter)
    finally:
        progress.finish()


def launch(
    kind: MeasurementKind,
    run_set: RunSet,
    record: RunSetRecord,
    folder: Path,
    index: int,
    failure: str,
    options: Mapping[str, Any],
    on_event: OnEvent = lambda event: None,
    interpreter: Interpreter | None = None,
) -> Measurement:
    """Do the kind's job for the set's configuration in a fresh process, in a folder that is made anew.

    `failure` begins the error's message.
    """
    remove(folder)
    folder.mkdir()
    job = kind.job(**job_members(run_set, record, index, folder), **options)
    end = launch_job(kind, job, record, on_event, interpreter)
    if not (folder / kind.file).exists():
        reason, code = explain_end(end)
        raise HarnessError(f"{failure}: {reason}", code)
    return read_record(folder / kind.file, kind.record)


def is_measured(run_set: RunSet, record: RunSetRecord, index: int) -> bool:
    """Return whether a process has left its record."""
    kind = find_kind(record.kind)
    return not isinstance(decode(_process_folder(run_set, record, index) / kind.file, kind.record), Damage)


def gather_processes(run_set: RunSet, record: RunSetRecord) -> Measurement:
    """Write extra/<kind>.json: the first process's record with the processes of all that have measured so far.

    Those after a gap wait for it: the seed of a process is known by its place. Raises HarnessError without a first.
    """
    kind = find_kind(record.kind)
    done = takewhile(lambda index: is_measured(run_set, record, index), range(1, record.num_runs))
    measured = [read_record(_process_folder(run_set, record, index) / kind.file, kind.record) for index in (0, *done)]
    processes = tuple(process for part in measured for process in part.repetitions())
    code = measured[0].code if len({part.code for part in measured}) == 1 else None
    whole = msgspec.structs.replace(measured[0], processes=processes, code=code)
    write_record(measured_path(run_set, record), whole)
    return whole


def measured_path(run_set: RunSet, record: RunSetRecord) -> Path:
    """Return extra/<kind>.json, where all processes' records are gathered."""
    return run_set.extra / f"{record.kind}.json"


def _process_folder(run_set: RunSet, record: RunSetRecord, index: int) -> Path:
    return run_set.extra / f"{record.kind}_{index}"

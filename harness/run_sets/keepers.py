"""Store the results of repetitions in run sets, in one of three ways: logs of runs, several records, or a single
record."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Protocol

import msgspec

from harness.foundation.errors import ExitCode, HarnessError
from harness.foundation.files import read_record, write_record
from harness.launch.process import STDERR_FILE, WorkerEnd, explain_end
from harness.measure.kinds import Kind
from harness.run_sets.folder import LOAD_FILE, RunSet, add_load, record_interrupted
from harness.run_sets.progress import ALONE, MeasuringProgress, Outlook, ProgressDisplay, RunProgress
from reference_models.process.atomic_write import remove
from rules.benchmarks.loader import parse_benchmark, read_toml
from rules.records.codec import Damage, Document, decode
from rules.records.measure import Measurement
from rules.records.metrics import Metric
from rules.records.run import RunRecord
from rules.records.run_set import RunSetRecord


@dataclass(frozen=True, kw_only=True, slots=True)
class KeptOutcome:
    """Outcome of a repetition whose files have been stored: a record, an error, or both; neither after an
    interruption."""

    words: str
    """Words with which the progress display of a repetition ends, such as its quality; empty if nothing is to be
    added to its record."""
    record: Document | None = None
    """Record of the kept repetition; None where the repetition has no result."""
    error: HarnessError | None = None
    """Error of the repetition. If `record` is None, the repetition has no result. Otherwise the error came after the
    result, which is kept; the repetition is then not measured again."""


class Keeper(Protocol):
    """Keeper: stores the repetitions of one kind of measurement in one run set. The run set's lock must be held for
    all methods but `is_done`."""

    def is_done(self, index: int) -> bool:
        """Return whether repetition `index` is complete; changes nothing."""

    def recover(self, index: int) -> bool:
        """Finish the storing of repetition `index` if a crash left it half done; for a run that did not finish,
        record the interruption instead. Return whether the repetition is complete."""

    def open(self, index: int) -> Path:
        """Create the folder for a repetition that is about to run; return its path."""

    def close(self, index: int, folder: Path, end: WorkerEnd | BaseException, resume: str) -> KeptOutcome:
        """Store the results that a repetition's worker process left in `folder`; return the outcome. `end` says how
        the worker ended. `resume` is the command that completes the experiment, for messages."""

    def gather(self) -> None:
        """Combine the results of all repetitions of the run set in one file, where its kind of measurement has
        one."""

    def progress(self, index: int, *, quiet: bool, outlook: Outlook = ALONE) -> ProgressDisplay:
        """Return the progress display of repetition `index`. `outlook` says which of all repetitions of the command
        it is, and estimates their times."""


class LogKeeper:
    """Keeper of runs to the target. Every attempt at a run stays in its folder. An attempt becomes the run when its
    finished log is renamed to result_<i>.txt."""

    def __init__(self, run_set: RunSet, record: RunSetRecord, kind: Kind) -> None:
        self._set, self._record = run_set, record
        self._benchmark = parse_benchmark(read_toml(run_set.definition), run_set.definition)

    def is_done(self, index: int) -> bool:
        return self._set.result(index).exists()

    def recover(self, index: int) -> bool:
        return self._set.recover(index)

    def open(self, index: int) -> Path:
        return self._set.new_attempt(index)

    def close(self, index: int, folder: Path, end: WorkerEnd | BaseException, resume: str) -> KeptOutcome:
        is_finished = (folder / "log.txt").exists() and self._set.recover(index)
        if not is_finished:
            return self._interrupted(index, folder, end, resume)
        if isinstance(end, BaseException):
            return KeptOutcome(words="interrupted")
        ended = read_record(folder / "run.json", RunRecord)
        return KeptOutcome(
            words=_describe_end(ended, self._benchmark.metric),
            record=ended,
            error=find_lost(ended, self._label(index), f" Complete the set with: {resume}"),
        )

    def _interrupted(self, index: int, folder: Path, end: WorkerEnd | BaseException, resume: str) -> KeptOutcome:
        (folder / LOAD_FILE).unlink(missing_ok=True)
        if isinstance(end, BaseException):
            reason = str(end).partition("\n")[0] or type(end).__name__
            record_interrupted(folder, index=index, reason=reason, exit_code=None)
            return KeptOutcome(words="interrupted")
        reason, code = explain_end(end)
        record_interrupted(folder, index=index, reason=reason, exit_code=end.exit_code)
        frames = _show_frames(end)
        more = f"; {STDERR_FILE} has the whole traceback" if frames else ""
        error = HarnessError(
            f"{self._label(index)} was interrupted: {reason}{frames}\nThe attempt is kept in {folder}{more}. "
            f"Complete the set with: {resume}",
            code,
        )
        return KeptOutcome(words="interrupted", error=error)

    def gather(self) -> None:
        """Do nothing: runs to the target need no file that combines them."""

    def progress(self, index: int, *, quiet: bool, outlook: Outlook = ALONE) -> ProgressDisplay:
        return RunProgress(self._label(index), self._benchmark.quality, quiet=quiet, outlook=outlook)

    def _label(self, index: int) -> str:
        """Return the name of a run for messages: its number, from 0 as in its log's file name, and its position, from
        1."""
        return f"run {index} ({index + 1} of {self._record.num_runs})"


def _show_frames(end: WorkerEnd) -> str:
    """Return the traceback lines of the user's own code, each after a line feed; empty where that code did not
    fail."""
    return "".join(f"\n{frame}" for frame in end.own_frames)


def find_lost(ended: RunRecord, label: str, remedy: str = "") -> HarnessError | None:
    """Return an error where a complete run lacks its weights or checkpoints, which could not be written; None where
    it has all that was requested."""
    for kept, name in ((ended.weights, "weights"), (ended.checkpoints, "checkpoints")):
        if kept is not None and kept.error is not None:
            code = ExitCode(kept.exit_code) if kept.exit_code in set(ExitCode) else ExitCode.RESOURCES
            return HarnessError(f"{label} is complete and kept, its {name} are not: {kept.error}{remedy}", code)
    return None


def _describe_end(record: RunRecord, metric: Metric) -> str:
    last = record.evaluations[-1] if record.evaluations else None
    quality = "no evaluation" if last is None else f"{metric.label} {last.quality:.5f}"
    samples = f"{0 if last is None else last.samples_count:,} samples"
    if record.status == "success":
        return f"target met, {quality} after {samples}"
    return f"not converged ({record.reason}), {quality} after {samples}"


class RecordKeeper:
    """Keeper of a measurement in several processes: each process's record is in a folder of its own, and all records
    together are in extra/<kind>.json.

    A process that was interrupted measures again from the beginning.
    """

    def __init__(self, run_set: RunSet, record: RunSetRecord, kind: Kind) -> None:
        self._set, self._kind, self._num_runs = run_set, kind, record.num_runs

    @property
    def path(self) -> Path:
        """Path of the file with the combined records of all measuring processes."""
        return self._set.extra / f"{self._kind.name}.json"

    def folder(self, index: int) -> Path:
        """Return the folder of one measuring process."""
        return self._set.extra / f"{self._kind.name}_{index}"

    def is_done(self, index: int) -> bool:
        return not isinstance(decode(self.folder(index) / self._kind.file, self._kind.record), Damage)

    def recover(self, index: int) -> bool:
        is_done = self.is_done(index)
        if is_done:
            self._add_load(self.folder(index))
        return is_done

    def _add_load(self, folder: Path) -> None:
        if (folder / LOAD_FILE).exists() and (folder / self._kind.file).exists():
            add_load(folder / self._kind.file, self._kind.record)

    def open(self, index: int) -> Path:
        folder = self.folder(index)
        remove(folder)
        folder.mkdir()
        return folder

    def close(self, index: int, folder: Path, end: WorkerEnd | BaseException, resume: str) -> KeptOutcome:
        path = folder / self._kind.file
        if isinstance(end, BaseException):
            return KeptOutcome(words="")
        if not path.exists():
            reason, code = explain_end(end)
            if frames := _show_frames(end):
                frames += f"\n{folder / STDERR_FILE} has the whole traceback."
            return KeptOutcome(words="", error=HarnessError(f"{self._failure(index)}: {reason}{frames}", code))
        self._add_load(folder)
        found = read_record(path, self._kind.record)
        self.gather()
        return KeptOutcome(words="", record=found)

    def _failure(self, index: int) -> str:
        return f"process {index} measured nothing"

    def gather(self) -> None:
        """Write the combined record of the processes that have measured, from the first process up to the first one
        whose record is missing.

        Records after the missing one are left out for now: the seed of a process is known by the position of its
        record, so there may be no gap. Raises HarnessError if the first process has no record.
        """
        done = takewhile(self.is_done, range(1, self._num_runs))
        found = [read_record(self.folder(index) / self._kind.file, self._kind.record) for index in (0, *done)]
        measured = [part for part in found if isinstance(part, Measurement)]
        processes = tuple(process for part in measured for process in part.repetitions())
        code = measured[0].code if len({part.code for part in measured}) == 1 else None
        loads = tuple(part.loads[0] if part.loads else None for part in measured)
        kept = loads if any(loads) else ()
        write_record(self.path, msgspec.structs.replace(measured[0], processes=processes, code=code, loads=kept))

    def progress(self, index: int, *, quiet: bool, outlook: Outlook = ALONE) -> ProgressDisplay:
        return MeasuringProgress(f"process {index}", quiet=quiet, outlook=outlook)


class OnlyRecordKeeper(RecordKeeper):
    """Keeper of a measurement in a single process: its record is extra/<kind>.json, and its folder is beside that
    file."""

    def folder(self, index: int) -> Path:
        return self._set.extra / self._kind.name

    def is_done(self, index: int) -> bool:
        return self.path.exists()

    def _failure(self, index: int) -> str:
        return f"nothing was {self._kind.name}d"

    def progress(self, index: int, *, quiet: bool, outlook: Outlook = ALONE) -> ProgressDisplay:
        return MeasuringProgress(self._kind.name, quiet=quiet, outlook=outlook)

    def gather(self) -> None:
        """Move the measurement's only record to its final path."""
        (self.folder(0) / self._kind.file).replace(self.path)


KEEPERS: Mapping[str, type[LogKeeper] | type[RecordKeeper]] = {
    "logs": LogKeeper,
    "records": RecordKeeper,
    "record": OnlyRecordKeeper,
}


def find_keeper(kind: Kind, run_set: RunSet, record: RunSetRecord) -> Keeper:
    """Return the keeper for a kind of measurement in a run set: the object that stores the results of repetitions."""
    return KEEPERS[kind.keeper](run_set, record, kind)

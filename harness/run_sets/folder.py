"""Keep a run set on disk: its folders, its lock, and the state of each run, derived from the run's files.

Files of a run set, where <i> is the number of a run and <k> the number of an attempt at this run:

<set>/systems/<system>.json
<set>/results/<system>/<benchmark>/result_<i>.txt
<set>/extra/run_set.json, definition.toml, last_run, run_<i>/attempt_<k>/{spec.json,log.txt,run.json,stderr.txt}
<set>/extra/run_<i>/weights/{manifest.json,<tensor>.npy}, of run --keep-weights
"""

import fcntl
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import msgspec

from harness.foundation.errors import ExitCode, HarnessError
from harness.foundation.files import (
    open_lock,
    read_json,
    read_record,
    refuse_links,
    write_json,
    write_record,
)
from harness.launch.process import CLOCK_FILE
from harness.run_sets.names import refuse_missing
from harness.system.code import code_sha256
from harness.system.description import SystemDescription, write_system_json
from harness.system.submission import SubmissionValue
from reference_models.process.atomic_write import remove_drafts, sync_folder, write_atomically
from rules.logs import keys
from rules.logs.log import RunLog, read_log
from rules.records.chain import LAST_FILE, digest_record, first_link, follow, read_link
from rules.records.codec import Damage, DamageError, Record, convert, decode, read_object
from rules.records.experiment import is_plain_name
from rules.records.kept.weights import WEIGHTS_FOLDER
from rules.records.load import LoadRecord
from rules.records.run import RunRecord
from rules.records.run_set import RunSetRecord
from rules.tree.attempts import RECORD_FILE

RUN_SET_FILE = "run_set.json"
LOCK_FILE = "lock"
LOAD_FILE = "load.json"
"""Name of the file that holds the system's load during a repetition until the load is added to the repetition's
record."""
_ATTEMPT = re.compile("attempt_(0|[1-9][0-9]{0,8})")


@dataclass(frozen=True, kw_only=True, slots=True)
class RunSet:
    """Paths of the files and folders of one run set."""

    folder: Path
    system: str
    benchmark: str

    @property
    def extra(self) -> Path:
        return self.folder / "extra"

    @property
    def results(self) -> Path:
        return self.folder / "results" / self.system / self.benchmark

    @property
    def definition(self) -> Path:
        return self.extra / "definition.toml"

    def result(self, index: int) -> Path:
        return self.results / f"result_{index}.txt"

    def attempts(self, index: int) -> list[Path]:
        return [path for path in self._numbered(index).values() if path.is_dir()]

    def new_attempt(self, index: int) -> Path:
        """Create an empty folder for the next attempt at run `index`, numbered after all existing attempts; return
        its path."""
        folder = self.extra / f"run_{index}" / f"attempt_{max(self._numbered(index), default=-1) + 1}"
        folder.mkdir(parents=True)
        return folder

    def _numbered(self, index: int) -> dict[int, Path]:
        """Return files and folders named like attempts at run `index`, by their attempt's number, in order."""
        found = (self.extra / f"run_{index}").glob("attempt_*")
        named = {path: _ATTEMPT.fullmatch(path.name) for path in found}
        return dict(sorted((int(match[1]), path) for path, match in named.items() if match))

    def commit(self, index: int, attempt: Path) -> Path:
        """Make a run permanent: rename its finished log to result_<i>.txt."""
        target = self.result(index)
        (attempt / "log.txt").rename(target)
        sync_folder(target.parent)
        return target

    def recover(self, index: int) -> bool:
        """Finish or mark what an earlier process left of run `index`. Return True if the run is complete.

        If the log of an attempt is finished, it becomes the run's result. Any other attempt without a record is
        recorded as interrupted. Incomplete weights are removed.
        """
        remove_drafts(self.extra / f"run_{index}" / WEIGHTS_FOLDER)
        for attempt in self.attempts(index):
            log_path = attempt / "log.txt"
            if not self.result(index).exists() and log_path.exists() and is_finished(log := read_log(log_path)):
                if not (attempt / RECORD_FILE).exists():
                    _record_finished(attempt, index, log)
                self._add_observation(attempt)
                add_load(attempt / RECORD_FILE, RunRecord)
                self._link(attempt / RECORD_FILE)
                self.commit(index, attempt)
            self._complete_record(index, attempt)
            (attempt / CLOCK_FILE).unlink(missing_ok=True)
        return self.result(index).exists()

    def _add_observation(self, attempt: Path) -> None:
        """Add the times that the timekeeper process observed to a run's record; do nothing where they are missing or
        damaged."""
        seen = read_object(attempt / CLOCK_FILE) if (attempt / CLOCK_FILE).exists() else {}
        if isinstance(seen, Damage) or not seen:
            return
        path, observed_s = attempt / RECORD_FILE, seen.pop("observed_s", None)
        observation = {"observed_s": observed_s, "observed_by": "timekeeper", "observed": seen}
        _add_members(path, observation, RunRecord)

    def _link(self, path: Path) -> None:
        """Append the record of a run to the run set's hash chain, in which each record has the digest of the one
        before it; do nothing in a run set of an earlier version, which has no chain."""
        last = self.extra / LAST_FILE
        if not last.is_file():
            return
        next_of: dict[str, list[str]] = {}
        for other in sorted(self.extra.glob(f"run_*/attempt_*/{RECORD_FILE}")):
            if not isinstance(found := read_object(other), Damage) and isinstance(
                previous := found.get("previous_sha256"), str
            ):
                next_of.setdefault(previous, []).append(digest_record(other.read_bytes()))
        # A crash may have happened between linking a record and updating the file.
        link = follow(read_link(last), next_of)
        content = read_json(path)
        if content.get("previous_sha256") is None:
            write_json(path, {**content, "previous_sha256": link})
            link = digest_record(path.read_bytes())
        write_atomically(last, f"{link}\n")

    def _complete_record(self, index: int, attempt: Path) -> None:
        if (attempt / RECORD_FILE).exists():
            return
        result = self.result(index)
        committed = result.exists() and not (attempt / "log.txt").exists() and attempt == self.attempts(index)[-1]
        if not committed:
            record_interrupted(attempt, index=index, reason="the process ended before the run did", exit_code=None)
            return
        _record_finished(attempt, index, read_log(result))


def add_load(path: Path, record: type[Record]) -> None:
    """Move the system's load during a repetition from LOAD_FILE into the process's record in the same folder; do
    nothing where that file is missing or damaged."""
    beside = path.with_name(LOAD_FILE)
    found = decode(beside, LoadRecord)
    if not isinstance(found, Damage):
        _add_members(path, {"loads": [msgspec.to_builtins(found)]}, record)
    beside.unlink(missing_ok=True)


def _add_members(path: Path, members: Mapping[str, Any], record: type[Record]) -> None:
    content = {**read_json(path), **members}
    with suppress(DamageError):
        convert(dict(content), record)
        write_json(path, content)


def given_fields(record: RunSetRecord) -> dict[str, SubmissionValue]:
    """Return the fields of the submission and the system description that were given for a run set."""
    return {field: SubmissionValue(entry.value, entry.source) for field, entry in record.submission.items()}


def describe_other_code(folder: Path, record: RunSetRecord) -> str | None:
    """Return a warning where the run set was begun by another version of dlrmbench's code than this process runs;
    None where it was the same, or is unknown."""
    if record.code_sha256 in (None, code_sha256()):
        return None
    begun, here = (
        f"digest {str(digest)[:12]}, dlrmbench {number}"
        for digest, number in ((record.code_sha256, record.harness_version), (code_sha256(), version("dlrmbench")))
    )
    return f"{folder}: was begun by other code ({begun}) than this ({here})."


def record_interrupted(attempt: Path, *, index: int, reason: str, exit_code: int | None) -> None:
    """Write run.json of an attempt at a run that did not finish."""
    _write_run(attempt, index=index, status="interrupted", reason=reason, exit_code=exit_code)


def _record_finished(attempt: Path, index: int, log: RunLog) -> None:
    """Write run.json of a run whose process ended between writing its log and writing its record."""
    stop = log.last(keys.RUN_STOP)
    reason = None if stop is None else stop.metadata.get(keys.REASON)
    _write_run(attempt, index=index, status="success" if reason is None else "not_converged", reason=reason)


def _write_run(
    attempt: Path,
    *,
    index: int,
    status: Literal["success", "not_converged", "interrupted"],
    reason: str | None,
    exit_code: int | None = None,
) -> None:
    """Write run.json of an attempt at a run that could not write its own; unmeasured values are null."""
    spec_path = attempt / "spec.json"
    record = RunRecord(
        run_index=index,
        attempt=int(attempt.name.removeprefix("attempt_")),
        seed=read_json(spec_path).get("seed") if spec_path.exists() else None,
        status=status,
        reason=reason,
        exit_code=exit_code,
        started_utc=None,
        ended_utc=None,
        peak_rss_bytes=None,
        peak_device_bytes=None,
        energy=None,
        cache_clear=None,
        code=None,
        blocks=(),
        evaluations=(),
        log_sha256=None,
        ranks=(),
        traffic=None,
    )
    write_record(attempt / RECORD_FILE, record)


def is_finished(log: RunLog) -> bool:
    """Return whether a log shows that the run ended by itself, with success or without having converged, and was not
    interrupted."""
    stop = log.last(keys.RUN_STOP)
    if stop is None or log.num_unparsed:
        return False
    return stop.metadata.get(keys.STATUS) == keys.SUCCESS or stop.metadata.get(keys.REASON) != "interrupted"


def open_run_set(folder: Path) -> tuple[RunSet, RunSetRecord]:
    """Return an existing run set and its record, run_set.json. Raises HarnessError (exit 8) where the folder is no
    run set or the record is damaged."""
    path = folder / "extra" / RUN_SET_FILE
    if not folder.is_dir():
        refuse_missing([folder])
        raise HarnessError(f"{folder}: no such run set.", ExitCode.INPUT)
    if not path.is_file():
        raise HarnessError(
            f"{folder}: not a run set (no extra/{RUN_SET_FILE}). Give the folder that 'dlrmbench run' made.",
            ExitCode.INPUT,
        )
    record = read_record(path, RunSetRecord)
    for what, name in (("system.name", record.system.name), ("benchmark.name", record.benchmark.name)):
        if not is_plain_name(name):
            raise HarnessError(f"{path}: {what} is {name!r}, expected a name of a folder.", ExitCode.INPUT)
    return RunSet(folder=folder, system=record.system.name, benchmark=record.benchmark.name), record


def create_run_set(folder: Path, record: RunSetRecord, definition: str) -> RunSet:
    """Create the folders of a new run set and return it; run_set.json is written last, so that a set with that file
    is complete."""
    run_set = RunSet(folder=folder, system=record.system.name, benchmark=record.benchmark.name)
    run_set.extra.mkdir(parents=True)
    run_set.results.mkdir(parents=True)
    (folder / "systems").mkdir()
    system = SystemDescription(fields=record.system.fields, provenance=record.system.provenance)
    write_system_json(folder / "systems", system, name=record.system.name)
    write_atomically(run_set.definition, definition)
    if record.is_chained:
        write_atomically(run_set.extra / LAST_FILE, f"{first_link(record)}\n")
    write_record(run_set.extra / RUN_SET_FILE, record)
    return run_set


@contextmanager
def locked(run_set: RunSet) -> Iterator[None]:
    """Hold the run set's lock while the caller's block runs; the operating system releases the lock however this
    process ends. Raises HarnessError: exit 2 where another process holds the lock, 8 where links inside the folder
    would redirect writes to another place."""
    with hold_lock(run_set.extra / LOCK_FILE, run_set.folder):
        yield


@contextmanager
def hold_lock(path: Path, folder: Path) -> Iterator[None]:
    """Hold the lock file `path` of `folder` while the folder is written.

    Raises HarnessError: exit 2 when another process holds it, 8 where links would redirect writes to another place.
    """
    refuse_links(folder)
    with hold_alone(path, f"{folder}: another process is writing this run set."):
        yield


@contextmanager
def hold_alone(path: Path, words: str) -> Iterator[None]:
    """Hold the lock of the lock file `path` while the caller's block runs. Raises HarnessError: exit 2, with the
    message `words`, where another process holds it; 8 where the file is a link."""
    descriptor = open_lock(path)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise HarnessError(f"{words} Wait for it or stop it.", ExitCode.USAGE) from None
        yield
    finally:
        os.close(descriptor)

"""Compare the digest of the dataset that a run of this harness read with the digests in the run's log and in the
benchmark's definition. The first digest is computed after the run, from the files that the run had open."""

import shlex
from collections.abc import Iterator
from pathlib import Path

from msgspec.structs import replace

from rules.checks.result_set.records import has_records, record_of
from rules.checks.rule import Problem, rule
from rules.checks.subject import SetSubject
from rules.logs import keys
from rules.logs.log import RunLog
from rules.logs.text import plural, printable, show
from rules.records.run import ReadDatasetRecord, RunRecord
from rules.records.run_set import RunSetRecord

_AGAIN = (
    "Compare the dataset with its manifest ('dlrmbench data verify {folder}'), make it again ('dlrmbench data"
    " generate' or 'data prepare') where it differs, and run again."
)
_CTIME = (
    "Its size and mtime are as before. What links to its files (a backup that copies by hard links), or changes their"
    " rights, moves ctime as writing does, and cannot be told from it: keep that away from data that is in use. "
)
_MAX_FOLDER = 1000


@rule(
    "RS118",
    "the dataset that a run read must be the one that its log names",
    source="a rule of dlrmbench, not of MLPerf, based on run.json, which has the sha256 of files that a run opened",
    remedy=_AGAIN.format(folder="DIR"),
    applies=has_records,
)
def read_data_is_named_data(subject: SetSubject) -> Iterator[Problem]:
    """Each run read the benchmark's data: the digest of the files that it read (`read_data` in its run.json) equals
    the digest that the definition states, or the digest in the log if the definition states none.

    - The size, mtime and ctime of each file show no change between its opening and the computing of the digest.
    - Every rank's files were hashed, and all runs read the same data.
    - Two gaps of this proof are reported (info). No definition states a digest of MLPerf's own files. If a dataset
      has more than 16 GiB, only sixteen blocks of 1 MiB of each file are hashed.
    - A run without a digest is a warning: an earlier version made it, or it was cut off after its run_stop.
    """
    root = subject.result_set.root
    assert root is not None
    unproven: list[RunLog] = []
    in_blocks: list[tuple[Path, ReadDatasetRecord]] = []
    again = _how_to_mend(subject)
    seen: dict[str, tuple[str, Path]] = {}
    for log in subject.logs:
        place = record_of(subject, log)
        record = None if place is None else subject.files.run_record(place)
        if place is None or not isinstance(record, RunRecord):
            continue  # RS116 and RS119 report it
        if not record.read_data:
            unproven.append(log)
            continue
        hashed_of = {rank for copy in record.read_data for rank in copy.ranks}
        if missing := sorted({part.rank for part in record.ranks} - hashed_of):
            yield Problem(
                "what some ranks read was not hashed", place, found=f"nothing of rank {missing[0]}", remedy=again
            )
        for copy in record.read_data:
            named = _named_digest(subject, log) if copy.scope == "whole" else None
            yield from _judge_copy(copy, place, named, again)
            if copy.scope == "blocks":
                in_blocks.append((place, copy))
            first, where = seen.setdefault(copy.scope, (copy.sha256, place))
            if first != copy.sha256:
                yield Problem(
                    "the runs did not read the same data",
                    place,
                    found=f"SHA-256 {copy.sha256[:12]}…",
                    expected=f"{first[:12]}… as in {where.relative_to(root)}",
                    remedy=again,
                )
    if in_blocks:
        place, copy = in_blocks[0]
        num_bytes = sum(file.opened.num_bytes for file in copy.files)
        yield Problem(
            "the dataset is too large to be hashed whole after every run: blocks of its files were",
            place,
            found=f"{copy.hashed_bytes / 1e9:.3g} of {num_bytes / 1e9:.3g} GB hashed",
            severity="info",
            remedy="Nothing; 'dlrmbench data verify' reads the whole of a prepared dataset.",
        )
    if unproven:
        yield Problem(
            "what runs read was not hashed: their dataset is named, not proven",
            unproven[0].path,
            found=f"{plural(len(unproven), 'run')} of {len(subject.logs)} without read_data",
            expected="the digest of what each run read, in its run.json",
            severity="warning",
            remedy="Run again: an earlier version made these runs, or they were cut off behind their run_stop.",
        )


def _named_digest(subject: SetSubject, log: RunLog) -> tuple[str, str] | None:
    """Return the digest that the dataset read by a log's run must have, and the place that states it (the definition
    or the log); None where neither does."""
    pinned = subject.benchmark.sections.get("data", {}).get("sha256") if subject.benchmark is not None else None
    if isinstance(pinned, str):
        return pinned, "the definition pins"
    named = log.value(keys.DATASET_SHA256)
    return (named, "the log names") if isinstance(named, str) else None


def _how_to_mend(subject: SetSubject) -> str:
    """Return the advice on how to restore the dataset, with the folder that the run set's record (extra/run_set.json)
    names for it."""
    record = subject.files.run_set
    folder = record.dataset.dir if isinstance(record, RunSetRecord) else ""
    return _AGAIN.format(folder=printable(shlex.quote(folder)) if 0 < len(folder) <= _MAX_FOLDER else "DIR")


def _judge_copy(
    copy: ReadDatasetRecord, place: Path, named: tuple[str, str] | None, remedy: str
) -> Iterator[Problem]:
    """Yield the problems of one copy of the dataset that some ranks of a run read: a file changed during the run, or
    a digest other than the one expected."""
    for file in copy.files:
        if file.opened != file.hashed:
            is_ctime_alone = replace(file.hashed, ctime_ns=file.opened.ctime_ns) == file.opened
            yield Problem(
                f"{show(file.name)} was changed while the run was under way",
                place,
                found=_times(file.hashed.mtime_ns, file.hashed.ctime_ns),
                expected=_times(file.opened.mtime_ns, file.opened.ctime_ns) + ", as when it was opened",
                remedy=_CTIME + remedy if is_ctime_alone else remedy,
            )
    if named is not None and copy.sha256 != named[0]:
        yield Problem(
            f"the run read other data than {named[1]}",
            place,
            found=f"SHA-256 {copy.sha256[:12]}…",
            expected=f"{named[0][:12]}…",
            remedy=remedy,
        )


def _times(mtime_ns: int, ctime_ns: int) -> str:
    return f"mtime {mtime_ns} ns, ctime {ctime_ns} ns"


def _is_own(subject: SetSubject) -> str | None:
    return None if subject.is_ours and subject.is_own else "the set is not of an own benchmark of this harness"


@rule(
    "RS119",
    "the set must have the records of its runs, in extra/",
    source="a rule of dlrmbench, not of MLPerf, based on extra/run_<i>/attempt_<k>/run.json of each run",
    remedy="Ask for the run set as it was made, with its extra/; logs alone can be changed without a trace.",
    severity="warning",
    applies=_is_own,
)
def records_are_there(subject: SetSubject) -> Iterator[Problem]:
    """A set of an own benchmark has extra/ beside its results, with the record of at least one run, since RS116,
    RS117 and RS118 compare the logs with records. In a submission tree the harness puts the records into
    benchmarks/<benchmark>/<system>/. If only some runs lack a record, RS116 reports it."""
    root = subject.result_set.root
    if root is None:
        yield Problem("the records that this harness writes are missing", found="no extra/", expected="the run set")
    elif subject.logs and all(record_of(subject, log) is None for log in subject.logs):
        yield Problem(
            "the records that this harness writes are missing",
            found="no record of any run",
            expected="extra/run_<i>/attempt_<k>/run.json",
        )

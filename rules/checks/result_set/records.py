"""Compare logs of this harness with the record that each attempt left beside them:
extra/run_<i>/attempt_<k>/run.json."""

import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from rules.checks.rule import Problem, Severity, rule
from rules.checks.subject import SetSubject
from rules.logs import keys
from rules.logs.log import LogLine, RunLog, as_number
from rules.logs.text import show
from rules.records.codec import Damage
from rules.records.run import RunRecord
from rules.tree.attempts import RECORD_FILE

_RESULT = re.compile(r"result_(\d{1,6})\.txt\Z")
_ROUNDING_S = 0.005
"""Tolerance in seconds between a log's stamps, which are whole milliseconds, and a record's durations, which are
not."""
_STATUSES = {"success": keys.SUCCESS, "not_converged": keys.ABORTED}
"""Map from the status in a run's record to the status that run_stop must state in the run's log. The record of an
interrupted attempt implies nothing about its log."""


def damage_problem(damage: Damage, severity: Severity | None = None) -> Problem:
    """Return the problem of a JSON file that is damaged: the member at fault, the value found, the value expected."""
    return Problem(
        f"{damage.member} is not as expected" if damage.member else "cannot be read",
        damage.path,
        found=damage.found,
        expected=damage.expected,
        remedy=damage.remedy and f"{damage.remedy[0].upper()}{damage.remedy[1:]}.",
        severity=severity,
    )


def has_records(subject: SetSubject) -> str | None:
    """Return the reason why a set's logs cannot be compared with records of its runs' attempts; None for a run set of
    this harness, which keeps such records."""
    root = subject.result_set.root
    return None if root is not None and subject.is_ours else "the set is no run set of this harness"


@rule(
    "RS116",
    "the log must agree with the run's record (run.json)",
    source="a rule of dlrmbench, not of MLPerf, based on extra/run_<i>/attempt_<k>/run.json of each log",
    remedy="Logs are never edited: restore what the run wrote, or run again.",
    applies=has_records,
)
def logs_match_records(subject: SetSubject) -> Iterator[Problem]:
    """If a log has the run.json of its attempt, the two agree. They name the same run, seed, status, reason, cache
    clearing and evaluations with their qualities. By the log's stamps, each block and evaluation takes at least as
    long as the record states. The log has the SHA-256 that was recorded when it was closed. A record that cannot be
    read is a warning. In a set that has records, a log without a record is a warning, too."""
    root = subject.result_set.root
    assert root is not None
    places = [(log, record_of(subject, log)) for log in subject.logs]
    has_any = any(place is not None for _, place in places)
    for log, place in places:
        if place is None:
            if has_any and run_number(log) is not None:
                yield Problem(
                    "no record of this run",
                    log.path,
                    severity="warning",
                    expected=f"extra/run_<i>/attempt_<k>/{RECORD_FILE}",
                )
            continue
        record = subject.files.run_record(place)
        if isinstance(record, Damage):
            yield damage_problem(record, "warning")
        else:
            yield from _compare(log, record, place, root)


def run_number(log: RunLog) -> int | None:
    """Return the number i of the run in the name of its log, result_<i>.txt; None for any other name."""
    match = _RESULT.match(log.path.rpartition("/")[2])
    return None if match is None else int(match[1])


def record_of(subject: SetSubject, log: RunLog) -> Path | None:
    """Return the path of the run.json of the attempt whose log became the log `log` of the result set; None where
    there is no such attempt."""
    folder = subject.files.run_folders.by_name.get(f"run_{run_number(log)}")
    return folder.made_result if folder is not None else None


def root_of(subject: SetSubject) -> Path:
    """Return the folder of the run set of this harness whose logs are judged: the folder that holds extra/."""
    assert subject.result_set.root is not None
    return subject.result_set.root


def recorded(subject: SetSubject) -> Iterator[tuple[RunLog, RunRecord, Path]]:
    """Yield each log of the set whose run has a readable run.json, with that record and its path."""
    for log in subject.logs:
        place = record_of(subject, log)
        record = None if place is None else subject.files.run_record(place)
        if place is not None and isinstance(record, RunRecord):
            yield log, record, place


def read_ms(text: str | None) -> int | None:
    """Return the milliseconds since 1970 at a time that a record states as ISO 8601 text; None for a text that is not
    a time with its time zone."""
    try:
        moment = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return None if moment.tzinfo is None else round(moment.timestamp() * 1e3)


def _is_in_tree(subject: SetSubject) -> str | None:
    result_set = subject.result_set
    is_run_set = result_set.root is not None and result_set.system is not None
    return None if is_run_set else "the set is no run set of this harness"


@rule(
    "RS117",
    "every run that finished must have its log in the set",
    source='training_rules.adoc, "Scoring": a submitter may not choose among the runs; this harness records'
    " each in extra/run_<i>/attempt_<k>/run.json",
    remedy="A run may not be discarded: put its log back ('dlrmbench resume DIR' does where it is still in its"
    " attempt), or make a new set.",
    applies=_is_in_tree,
)
def finished_runs_are_kept(subject: SetSubject) -> Iterator[Problem]:
    """Every completed attempt is in the set: each attempt whose run.json has status success or not_converged became
    one result_<i>.txt. An interrupted or failed attempt counts as no run. If a record cannot be read and its log
    exists, RS116 reports the record."""
    present = {path.name for path in (*subject.result_set.logs, *(path for path, _ in subject.result_set.unread))}
    for folder in subject.files.run_folders.by_name.values():
        number, result = folder.number, f"result_{folder.number}.txt"
        finished = [
            (attempt, record.status)
            for attempt in folder.attempts
            if attempt.record is not None
            if isinstance(record := subject.files.run_record(attempt.record), RunRecord) and record.is_finished
        ]
        taken = [attempt for attempt, _ in finished if not attempt.has_log][-1:]
        for attempt, status in finished:
            if result not in present or attempt not in taken:
                yield Problem(
                    f"run {number} finished ({status}), and its log is not in the set",
                    attempt.record,
                    found=f"no {result}" if result not in present else f"{result} of another attempt",
                    expected=f"{result}: a run may not be discarded",
                )


def _compare(log: RunLog, record: RunRecord, place: Path, root: Path) -> Iterator[Problem]:
    problems = [*_settings(log, record), *_evaluations(log, record), *_durations(log, record)]
    digest = record.log_sha256
    if not problems and digest is not None and digest != log.sha256:
        problems = [("the log", None, f"SHA-256 {log.sha256[:12]}…", f"{digest[:12]}…")]
    for what, line, found, expected in problems:
        where = f"{expected} as in {place.relative_to(root)}"
        yield Problem(f"{what} is not as recorded", line or log.path, found=found, expected=where)


_Contradiction = tuple[str, LogLine | None, str, str]


def _settings(log: RunLog, record: RunRecord) -> Iterator[_Contradiction]:
    number = run_number(log)
    if number not in (None, record.run_index):
        yield "the number of the run", None, str(number), show(record.run_index)
    seed, stop, clear = log.first(keys.SEED), log.last(keys.RUN_STOP), log.first(keys.CACHE_CLEAR)
    if record.seed is not None and seed is not None and seed.value != record.seed:
        yield "the seed", seed, show(seed.value), show(record.seed)
    if stop is not None and record.is_finished:
        said, expected = stop.metadata.get(keys.STATUS), _STATUSES[record.status]
        if said != expected:
            yield "the status", stop, show(said), expected
        elif stop.metadata.get(keys.REASON) != record.reason:
            yield "the reason", stop, show(stop.metadata.get(keys.REASON)), show(record.reason)
    if record.cache_clear is not None and clear is not None and clear.value != record.cache_clear.cleared:
        yield "cache_clear", clear, show(clear.value), show(record.cache_clear.cleared)


def _evaluations(log: RunLog, record: RunRecord) -> Iterator[_Contradiction]:
    lines = log.all(keys.EVAL_ACCURACY)
    if not record.is_finished or record.started_utc is None:
        return  # the attempt could not write its own record
    if len(record.evaluations) != len(lines):
        yield "the number of evaluations", lines[-1] if lines else None, str(len(lines)), str(len(record.evaluations))
    for line, evaluation in zip(lines, record.evaluations, strict=False):
        if evaluation.quality != as_number(line.value):
            yield "the quality", line, show(line.value), show(evaluation.quality)


def _durations(log: RunLog, record: RunRecord) -> Iterator[_Contradiction]:
    """Yield contradictions between a log and its run's record: a training block or an evaluation that takes less time
    by the log's stamps than a monotonic clock measured inside it."""
    for name, start_key, stop_key, measured in (
        ("block", keys.BLOCK_START, keys.BLOCK_STOP, [block.duration_s for block in record.blocks]),
        ("evaluation", keys.EVAL_START, keys.EVAL_STOP, [evaluation.duration_s for evaluation in record.evaluations]),
    ):
        for start, stop, took_s in zip(log.all(start_key), log.all(stop_key), measured, strict=False):
            said_s = (stop.time_ms - start.time_ms) / 1e3
            if said_s < took_s - _ROUNDING_S:
                yield f"the time of {name}", stop, f"{said_s:.3f} s", f"at least {took_s:.3f} s"
                break

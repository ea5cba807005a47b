"""Compare the time of runs in their logs with the time that a second clock (usually a separate process's) measured,
and judge what happened in the runs' processes before run_start."""

import re
from collections.abc import Iterator
from pathlib import Path

from rules.checks.result_set.records import has_records, read_ms, recorded, root_of
from rules.checks.rule import Problem, rule
from rules.checks.subject import SetSubject
from rules.logs import keys
from rules.logs.log import LogLine
from rules.logs.text import plural, show
from rules.records.run import ObservedRecord, RunRecord, StartupRecord
from rules.records.run_set import RunSetRecord

LATE_S = 0.25
"""Seconds by which a run may be longer by the clock of its timekeeper (a separate process) than by its log, in
addition to the fraction LATE. Both are well above what honest runs need: in 376 of them, on two cores with up to 25
busy processes, the time measured by the parent process was from 54 ms shorter to 18 ms longer than the log's."""
LATE = 0.01
"""Fraction of its time by which a run may be longer by the clock of its timekeeper than by its log, in addition to
LATE_S seconds."""
_OLD_LATE_S = 1.0
"""Seconds by which a run that no timekeeper timed may be longer by its second clock than by its log, if this is more
than the fraction _OLD_LATE. It is also the limit of the excess of all runs of a set together, if every run exceeds
_ALL_LATE."""
_OLD_LATE = 0.02
"""Fraction of its time by which a run that no timekeeper timed may be longer by its second clock than by its log, if
this is more than _OLD_LATE_S seconds."""
_ALL_LATE = 0.1
"""Fraction of a run's time. A set is at fault if every run is longer by its second clock than by its log by more than
this fraction, and the differences add up to more than _OLD_LATE_S."""
_CLOSED_LATE_S = 2.0
"""Seconds that may pass from run_stop until the log was closed, if this is more than the fraction _CLOSED_LATE of the
run. They are by the system's wall clock, which may be set meanwhile."""
_CLOSED_LATE = 0.05
"""Fraction of a run's time that may pass from run_stop until the log was closed, if this is more than _CLOSED_LATE_S
seconds."""
LAUNCHED = "the world's size"
"""Text in run_set.json that states the source of the number of ranks, if torchrun or srun started the ranks."""
_OF_PYTHON = re.compile(r"/lib(64)?/python3\.\d+/sitecustomize\.py\Z")
"""Pattern of the paths of sitecustomize files (executed when Python starts) that distributions of Python ship."""


def _has_observed(subject: SetSubject) -> str | None:
    if (reason := has_records(subject)) is not None:
        return reason
    is_any = any(record.observed_s is not None for _, record, _ in recorded(subject))
    if is_any or is_of_this_version(subject):
        return None
    return "no run was timed by a second clock: an earlier version made the runs"


def is_of_this_version(subject: SetSubject) -> bool:
    """Return whether a result set was made by a version of this harness that times each run with a second process
    (timekeeper) and chains the runs' records by digests."""
    run_set = subject.files.run_set
    if isinstance(run_set, RunSetRecord) and run_set.is_chained:
        return True
    return any(record.previous_sha256 is not None for _, record, _ in recorded(subject))


def is_launched(subject: SetSubject) -> bool:
    """Return whether torchrun or srun started the set's runs, which then have no second process that times them
    (timekeeper) and may be in any order."""
    run_set = subject.files.run_set
    ranks = run_set.config.get("runtime.ranks") if isinstance(run_set, RunSetRecord) else None
    return ranks is not None and ranks.source == LAUNCHED


@rule(
    "RS121",
    "a run must not be longer by an independent clock than by its log",
    source="a rule of dlrmbench, not of MLPerf: a run is started by a process that runs no code of the user's and "
    "stamps, by its own clock, when run_start and run_stop reach it",
    remedy="A run's clock is not changed: run again, with an implementation that leaves the clock alone.",
    applies=_has_observed,
)
def clocks_agree(subject: SetSubject) -> Iterator[Problem]:
    """A run takes as long by its log (run_start to run_stop) as by a second clock, outside of the process that writes
    the log. The run's record holds the second clock's time as observed_s. Usually the second clock is a timekeeper: a
    separate process that receives run_start and run_stop as they are written.

    - By the timekeeper, a run may be longer than by its log by at most 0.25 s plus 1 % of the run.
    - The same tolerance limits how long after its time stamp a line reaches the timekeeper. It also limits how much
      longer a run is by its log than its process lived.
    - A timekeeper that was itself delayed by more than the tolerance is reported (info).
    - In a set with timekeepers, a run that no timekeeper saw is an error. It is only a warning if the run's process
      left no record of its own, or was of an earlier version.
    - Runs that torchrun or srun started, and sets of earlier versions, have no timekeeper but another second clock.
      For them the tolerance is 1 s or 2 % of the run, whichever is larger.
    - It is an error in any set if every log is shorter than its second clock's time by more than a tenth, and these
      differences add up to more than 1 s.
    - A run without observed_s is a warning if other runs of the set have it.
    - A log is a warning if, by the system's calendar, it was closed later than its run_stop by more than 2 s and by
      more than 5 % of the run.
    """
    missing: list[tuple[float, float]] = []
    is_any_late, is_watched, root = False, is_of_this_version(subject), root_of(subject)
    has_timekeepers = is_watched and not is_launched(subject)
    for log, record, place in recorded(subject):
        start, stop = log.first(keys.RUN_START), log.last(keys.RUN_STOP)
        if not record.is_finished or start is None or stop is None:
            continue
        said_s = (stop.time_ms - start.time_ms) / 1e3
        # A run that could not write its own record needs no more than its timekeeper left.
        if record.started_utc is not None or record.observed is not None or is_watched:
            # Runs of another interpreter, with an earlier version, may have sent no events; they lack `closed_utc`.
            must_be_seen = has_timekeepers and record.closed_utc is not None
            problems = [*_seen(record, start, stop, place.relative_to(root), place, must_be_seen=must_be_seen)]
            is_any_late = is_any_late or any(problem.severity is None for problem in problems)
            yield from problems
            if record.observed_s is not None:
                observed_s = record.observed_s
                missing.append((observed_s - said_s, 1 - said_s / observed_s if observed_s else 0.0))
    all_s = sum(seconds for seconds, _ in missing)
    if not is_any_late and all_s > _OLD_LATE_S and min(share for _, share in missing) > _ALL_LATE:
        yield Problem(
            "every log states a shorter run than the second clock measured",
            found=f"{all_s:.3f} s less in total, in {plural(len(missing), 'run')}",
            expected="what observed_s in the runs' records says",
        )


def _seen(
    record: RunRecord, start: LogLine, stop: LogLine, name: Path, place: Path, *, must_be_seen: bool
) -> Iterator[Problem]:
    """Yield the problems that a run's second clock (outside of the process that writes the log) shows. The problems
    are: no second clock timed the run; the log states a shorter time than the second clock measured; the log's lines
    reached the timekeeper late; the log was closed late. `name` is the path of the run's record in the set."""
    said_s, where = (stop.time_ms - start.time_ms) / 1e3, f"as in {name}"
    has_timekeeper = record.observed_by == "timekeeper"
    if record.observed_s is None or (must_be_seen and not has_timekeeper):
        yield Problem(
            "the run was timed by no second clock",
            place,
            found="no run_start or run_stop was seen"
            if has_timekeeper
            else f"observed_by {show(record.observed_by)}",
            expected="observed_s of the run's timekeeper" if must_be_seen else "observed_s, as other runs",
            severity=None if must_be_seen or has_timekeeper else "warning",
        )
        return
    observed_s = record.observed_s
    late_s = LATE_S + LATE * observed_s if has_timekeeper else max(_OLD_LATE_S, _OLD_LATE * observed_s)
    if observed_s - said_s > late_s:
        yield Problem(
            "the log states a shorter run than the second clock measured",
            stop,
            found=f"{said_s:.3f} s from run_start to run_stop",
            expected=f"{observed_s:.3f} s, {where}",
        )
    elif has_timekeeper and record.observed is not None:
        yield from _arrivals(record.observed, start, stop, late_s, where)
    closed_ms = read_ms(record.closed_utc)
    if closed_ms is not None and (closed_ms - stop.time_ms) / 1e3 > max(_CLOSED_LATE_S, _CLOSED_LATE * said_s):
        yield Problem(
            "the log was closed long after its run_stop",
            stop,
            found=f"{(closed_ms - stop.time_ms) / 1e3:.3f} s by the system's calendar",
            expected=f"none, {where}: a clock that is slow, or was set meanwhile",
            severity="warning",
        )


def _arrivals(
    observed: ObservedRecord, start: LogLine, stop: LogLine, late_s: float, where: str
) -> Iterator[Problem]:
    """Yield a problem if the timekeeper (the separate process that times a run) shows that a log's times are wrong.
    Either run_start or run_stop reached it much later than the line's time stamp, or the run is longer by its log
    than its process lived. Yield a report (info) if the timekeeper itself was delayed."""
    for line, seen_ms in ((start, observed.run_start_ms), (stop, observed.run_stop_ms)):
        if seen_ms is not None and seen_ms - line.time_ms > late_s * 1e3:
            yield Problem(
                f"{line.key} was seen later than its stamp",
                line,
                found=f"{(seen_ms - line.time_ms) / 1e3:.3f} s later",
                expected=f"at most {late_s:.3f} s, {where}",
            )
            return
    said_s = (stop.time_ms - start.time_ms) / 1e3
    if observed.process_s is not None and said_s > observed.process_s + late_s:
        yield Problem(
            "the log states a longer run than its process lived",
            stop,
            found=f"{said_s:.3f} s from run_start to run_stop",
            expected=f"at most {observed.process_s:.3f} s, {where}",
        )
    elif observed.uncertain_s > late_s:
        yield Problem(
            "the run's timekeeper was delayed",
            line,
            found=f"run_start and run_stop are known within {observed.uncertain_s:.3f} s",
            expected=f"within {late_s:.3f} s",
            severity="info",
        )


@rule(
    "RS133",
    "a run must not read its dataset before run_start",
    source='training_rules.adoc, "Run Results": the clock starts before any training data is touched',
    remedy="Leave the data alone until the first call of train or evaluate; warm up with synthetic batches.",
    applies=has_records,
)
def data_waits_for_the_clock(subject: SetSubject) -> Iterator[Problem]:
    """samples_before_start in each run's record is 0: training before run_start would cost no time. Code that reads
    the files itself, or opens the dataset a second time, goes unnoticed."""
    for log, record, _ in recorded(subject):
        if record.samples_before_start:
            yield Problem(
                "samples were read before the clock started",
                log.first(keys.RUN_START) or log.path,
                found=f"{record.samples_before_start:,} samples",
                expected="none",
            )


@rule(
    "RS134",
    "no start-up file of Python should run in a run's process",
    source="a rule of dlrmbench, not of MLPerf, based on each run.json, which lists start-up files; "
    "docs.python.org, module site",
    remedy="Look at what the start-up files do, or run without them: python -I -m venv, an empty PYTHONPATH.",
    severity="info",
    applies=has_records,
)
def starts_alone(subject: SetSubject) -> Iterator[Problem]:
    """No run's process began with a sitecustomize or usercustomize, which Python executes at its start; one that
    comes with Python itself is allowed. Start-up files of installed packages (.pth) are recorded by the harness but
    are no finding. It is a warning if the runs of one set had different start-up files."""
    known = [(record, place) for _, record, place in recorded(subject)]
    named = {(file.kind, file.path, file.sha256) for record, _ in known for file in record.startup if _is_added(file)}
    for kind, path, sha256 in sorted(named, key=str)[:5]:
        place = next(place for record, place in known if any(file.path == path for file in record.startup))
        digest = "" if sha256 is None else f", SHA-256 {sha256[:12]}…"
        yield Problem(f"{kind} ran before the harness", place, found=f"{show(path)}{digest}")
    files = {tuple(sorted((file.kind, file.sha256 or "") for file in record.startup)) for record, _ in known}
    if len(files) > 1 and all(record.closed_utc is not None for record, _ in known):
        yield Problem("runs began with different start-up files", known[0][1], severity="warning")


def _is_added(file: StartupRecord) -> bool:
    return file.kind != "pth" and _OF_PYTHON.search(file.path) is None

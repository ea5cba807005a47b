"""Judge a log's time stamps, and the content of the timed part of its run."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from rules.benchmarks.rounds import max_init_s
from rules.checks.rule import Problem, Severity, rule
from rules.checks.subject import LogSubject, applies_to_ours
from rules.logs import keys
from rules.logs.log import LogLine, RunLog
from rules.logs.text import show
from rules.scoring.results import binding_target, late_allowance_ms, met_outside
from rules.scoring.results import evaluations_inside_run as timed_evaluations

_RUN_RESULTS = 'training_rules.adoc, "Run Results"'
_DATA_STATE = 'training_rules.adoc, "Data State at Start of Run"'
_CLOCK_STEP_MS = 1000
_MAX_GAP_S = 1.0
BEGIN_MS = 1_514_764_800_000
NO_MILLISECONDS = 1e12
"""Value (September 2001) below which a log's time stamps cannot be milliseconds since 1970: most such stamps are
seconds."""
END_MS = 4_102_444_800_000
_METHOD_CHARS = 240
"""Maximum number of characters that a message shows of a log's text on how a cache was cleared, or why it was not."""


@rule(
    "TI101",
    "time stamps of a log must not run backwards",
    source="a rule of dlrmbench, not of MLPerf: time stamps come from a monotonic clock",
    remedy="Keep the lines in the order in which they were written; take stamps from one monotonic clock.",
    requires={"ST101"},
)
def stamps_in_order(subject: LogSubject) -> Iterator[Problem]:
    """Time stamps do not go back: each record's time_ms is at least that of the record before.

    - In official logs several nodes, each with its own clock, write into one file. A step back from one rank's record
      to another rank's is only reported (info).
    - A step back between records of one rank of an official log is a warning if it is more than a second, else
      reported (info). Before round 3.0 it is a warning only from run_start to run_stop, since formatters of that time
      sorted the lines outside of the run.
    - cache_clear may be anywhere in official logs: TI104 judges its stamp.
    """
    lines = subject.log.lines
    if subject.is_ours:
        for before, line in pairwise(lines):
            if line.time_ms < before.time_ms:
                yield _inverted(before, line, "error")
        return
    lines = tuple(line for line in lines if line.key != keys.CACHE_CLEAR)
    inversions = [(a, b) for a, b in pairwise(lines) if b.time_ms < a.time_ms]
    if not inversions:
        return
    last: dict[int | None, LogLine] = {}
    disorder = []
    for line in lines if subject.round is None or subject.is_at_least("3.0") else _timed(subject.log, lines):
        latest = last.get(line.rank)
        if latest is None or line.time_ms >= latest.time_ms:
            last[line.rank] = line
        elif line.time_ms < latest.time_ms - _CLOCK_STEP_MS:
            disorder.append((latest, line))
    if disorder:
        yield _inverted(*disorder[0], "warning", len(disorder))
    else:
        yield _inverted(*inversions[0], "info", len(inversions))


def _timed(log: RunLog, lines: Sequence[LogLine]) -> Sequence[LogLine]:
    """Return those records in `lines` that are between run_start and run_stop in the file, without tracked_stats.
    Return all of `lines` if the log lacks run_start or run_stop."""
    start, stop = log.first(keys.RUN_START), log.last(keys.RUN_STOP)
    if start is None or stop is None:
        return lines
    inside = range(start.line_num, stop.line_num + 1)
    return [line for line in lines if line.line_num in inside and line.key != keys.TRACKED_STATS]


def _inverted(before: LogLine, line: LogLine, severity: Severity, num_places: int = 1) -> Problem:
    more = "" if num_places == 1 else f"; {num_places} such places"
    return Problem(
        f"{line.key} is stamped before a record above it ({before.key}){more}",
        line,
        found=show(line.time_ms),
        expected=f"at least {show(before.time_ms)}",
        severity=severity,
    )


@rule(
    "TI102",
    "initialisation must not take longer than the division allows",
    source=f"{_RUN_RESULTS}: 30 minutes in Closed, 4 hours in Open",
    remedy="Initialise faster, or count the time above the limit into the run.",
    requires={"ST101", "ST104", "ST107"},
    reads=(keys.INIT_START, keys.INIT_STOP, keys.RUN_START),
)
def init_within_limit(subject: LogSubject) -> Iterator[Problem]:
    """Initialisation (from init_start to init_stop) takes less than 30 minutes in Closed (20 in round 0.7), and less
    than 4 hours in Open (from round 2.0 on). It is limited since it is not part of the measured time. From round 2.0
    on the log must name its division before init_stop: the official checker reads from top to bottom, and allows no
    time before it knows the division. Time between init_stop and run_start is not measured either, so it counts
    towards the limit, and more than 1 s of it is a warning."""
    starts, stop = subject.log.all(keys.INIT_START), subject.log.last(keys.INIT_STOP)
    if not starts or stop is None:
        return
    run_start = subject.log.first(keys.RUN_START)
    gap_s = 0.0 if run_start is None else max(0.0, run_start.time_s - stop.time_s)
    took_s = stop.time_s - min(line.time_s for line in starts) + gap_s
    limit_s = max_init_s(subject.division, subject.round)
    if took_s >= limit_s:
        yield Problem(
            "initialisation took too long",
            stop,
            found=f"{took_s:.0f} s",
            expected=f"under {limit_s:.0f} s in the {subject.division} division",
        )
    elif gap_s > _MAX_GAP_S:
        yield Problem(
            "time passes between init_stop and run_start, where none is counted",
            run_start,
            found=f"{gap_s:.3f} s",
            expected=f"at most {_MAX_GAP_S:g} s",
            remedy="Log init_stop last of all that is not timed, and run_start right after it.",
            severity="warning",
        )
    named = subject.log.first(keys.SUBMISSION_DIVISION)
    if named is not None and named.line_num > stop.line_num and subject.is_at_least("2.0"):
        yield Problem("submission_division is below init_stop", named, expected=f"above line {stop.line_num}")


@rule(
    "TI109",
    "training must not begin before run_start",
    source=f'{_RUN_RESULTS}: "The clock must start before any part of the system touches the dataset"',
    remedy="Log run_start before the first step; a run without it has not been timed whole, run again.",
    requires={"ST101"},
)
def training_starts_with_clock(subject: LogSubject) -> Iterator[Problem]:
    """No block or epoch begins, and nothing is evaluated, before run_start by the stamps of one rank. In other logs
    than this harness's the tolerance is a second, for clocks that were set meanwhile."""
    start = subject.log.first(keys.RUN_START)
    if start is None:
        return
    allowed_ms = 0 if subject.is_ours else _CLOCK_STEP_MS
    of_training = (keys.BLOCK_START, keys.EPOCH_START, keys.EVAL_START)
    firsts = [
        line
        for key in of_training
        for line in subject.log.all(key)[:1]
        if line.rank == start.rank and line.time_ms < start.time_ms - allowed_ms
    ]
    if firsts:
        first = min(firsts, key=lambda line: line.time_ms)
        yield Problem(
            "run_start is stamped after training began: what came before is not timed",
            start,
            found=f"{(start.time_ms - first.time_ms) / 1e3:.3f} s after {first.key}",
            expected=f"before {first.key} in line {first.line_num}",
        )


@rule(
    "TI103",
    "run_stop must be later than run_start",
    source=f"{_RUN_RESULTS}: a wall-clock timing measurement",
    remedy="A run that ends when it starts has not been timed; run again.",
    requires={"ST101", "ST107"},
    reads=(keys.RUN_START, keys.RUN_STOP),
)
def run_takes_time(subject: LogSubject) -> Iterator[Problem]:
    """run_stop is later than run_start: their difference is the result."""
    start, stop = subject.log.first(keys.RUN_START), subject.log.last(keys.RUN_STOP)
    if start is not None and stop is not None and stop.time_ms <= start.time_ms:
        yield Problem(
            "the run takes no time", stop, found=f"{stop.time_s - start.time_s:.3f} s", expected="more than 0 s"
        )


@rule(
    "TI104",
    "the cache must be cleared before run_start",
    source=f'{_DATA_STATE}: "You must flush the cache or restart the system prior to benchmarking"',
    remedy="Clear the page cache before each run and log cache_clear then.",
    requires={"ST101", "ST107"},
    reads=(keys.CACHE_CLEAR, keys.RUN_START),
)
def cache_cleared_before(subject: LogSubject) -> Iterator[Problem]:
    """At least one cache_clear is stamped before run_start; its place in the file does not matter in official logs,
    whose nodes often log it last. Stamps that are not milliseconds since 1970 (TI108) are not compared."""
    lines, start = subject.log.all(keys.CACHE_CLEAR), subject.log.first(keys.RUN_START)
    if not lines or start is None or any(line.time_ms < NO_MILLISECONDS for line in (*lines, start)):
        return
    if min(line.time_ms for line in lines) > start.time_ms:
        yield Problem(
            "cache_clear comes after run_start", lines[0], found=show(lines[0].time_ms), expected="before run_start"
        )


@rule(
    "TI105",
    "every evaluation must be inside the timed run (run_start to run_stop)",
    source=f'{_RUN_RESULTS}: "The clock may be stopped as soon as any part of the system determines target accuracy '
    'has been reached"',
    remedy="Stamp every evaluation when it ends, between run_start and run_stop.",
    requires={"ST101", "ST107"},
    reads=(keys.RUN_START, keys.RUN_STOP, keys.EVAL_ACCURACY),
)
def evaluations_inside_run(subject: LogSubject) -> Iterator[Problem]:
    """Every eval_accuracy is between run_start and run_stop, by its time stamp and by its place in the file. An
    evaluation elsewhere cannot meet the target.

    - In official logs an evaluation after run_stop is only a warning, unless no other evaluation met the target.
    - An evaluation before run_start is an error, since it shows training outside of the timed run. It is before
      run_start by its stamp or, from round 3.0 on, by its place among the records of the same rank.
    - In rounds 0.7 to 1.0 an evaluation above run_stop in the file counts as inside of the run if its stamp is at
      most 10 ms after run_stop; this is reported (info).
    """
    start, stop = subject.log.first(keys.RUN_START), subject.log.last(keys.RUN_STOP)
    if start is None or stop is None:
        return
    decides = _decisive(subject)
    late_ms, is_strict = late_allowance_ms(subject.round), subject.round is None or subject.is_at_least("3.0")
    for line in subject.log.all(keys.EVAL_ACCURACY):
        is_late = line.line_num > stop.line_num
        is_early = line.line_num < start.line_num
        is_untimed = line.time_ms < start.time_ms or (is_early and line.rank == start.rank and is_strict)
        is_rounded = not is_late and stop.time_ms < line.time_ms <= stop.time_ms + late_ms
        if is_late or is_early or not start.time_ms <= line.time_ms <= stop.time_ms:
            yield Problem(
                "eval_accuracy is outside the timed run",
                line,
                found=f"{line.time_s - start.time_s:.3f} s after run_start"
                + (", below run_stop" if is_late else ", above run_start" if is_early else ""),
                expected=f"from 0 to {stop.time_s - start.time_s:.3f} s",
                severity="error"
                if subject.is_ours or is_untimed or line is decides
                else "info"
                if is_rounded and not is_early
                else "warning",
            )


def _decisive(subject: LogSubject) -> LogLine | None:
    """Return the evaluation outside the timed run on which a log's claim of success rests, where no evaluation inside
    met the target; else None."""
    target = None if subject.benchmark is None else binding_target(subject.log, subject.benchmark)
    stop = subject.log.last(keys.RUN_STOP)
    if target is None or stop is None or stop.metadata.get(keys.STATUS) != keys.SUCCESS:
        return None
    if any(target <= quality <= 1.0 for _, quality in timed_evaluations(subject.log, subject.round)):
        return None
    met = met_outside(subject.log, target, subject.round)
    return None if met is None else met[0]


@rule(
    "TI106",
    "the cache must have been cleared (cache_clear must be true)",
    source=f"{_DATA_STATE}; mlcommons/training reference logs true without clearing",
    remedy="Let no other process, such as another dlrmbench, read the same dataset; run where page caches can be "
    "dropped; or restart before the run.",
    severity="warning",
    requires={"ST101"},
    reads=(keys.CACHE_CLEAR,),
)
def cache_clear_is_true(subject: LogSubject) -> Iterator[Problem]:
    """cache_clear is true. False is honest, and matters when times are compared; any other value has no meaning."""
    for line in subject.log.all(keys.CACHE_CLEAR)[:1]:
        if line.value is not True:
            what = (
                "the cache was not cleared"
                if line.value is False
                else "cache_clear does not state whether the cache was cleared"
            )
            method = line.metadata.get("method")
            yield Problem(
                what + (f" ({show(method, _METHOD_CHARS)})" if method else ""),
                line,
                found=show(line.value),
                expected="true",
            )


@rule(
    "TI107",
    "cache_clear must state by which method the cache was cleared",
    source="dlrmbench: cache_clear is logged as what was done",
    remedy="Log the method in cache_clear's metadata.",
    requires={"ST101"},
    reads=(keys.CACHE_CLEAR,),
    applies=applies_to_ours,
)
def cache_clear_method(subject: LogSubject) -> Iterator[Problem]:
    """The metadata of cache_clear names the method by which the cache was cleared."""
    for line in subject.log.all(keys.CACHE_CLEAR):
        method = line.metadata.get("method")
        if not isinstance(method, str) or not method:
            yield Problem(
                "cache_clear does not state the method",
                line,
                found=show(method),
                expected="metadata 'method', a string",
            )


@rule(
    "TI108",
    "time stamps must be plausible dates, from 2018 to 2100",
    source="mllog: time_ms counts milliseconds since 1970",
    remedy="Stamp records in milliseconds since 1970, by a clock that is set.",
    requires={"ST101"},
)
def stamps_plausible(subject: LogSubject) -> Iterator[Problem]:
    """No record is stamped before MLPerf began (2018) or after 2100: the clock of such a record was not set.

    - In official logs such a stamp is a warning.
    - It is an error from round 2.0 on if it cannot be milliseconds (before 2001): seconds taken for milliseconds make
      the result a thousandth of the true time.
    - Above init_start or below run_stop it is only a warning, and a stamp of 0 there is only reported (info).
    """
    for line in subject.log.lines:
        if not BEGIN_MS <= line.time_ms <= END_MS:
            yield Problem(
                f"{line.key} has an impossible time stamp",
                line,
                found=show(line.time_ms),
                expected=f"milliseconds since 1970, from {BEGIN_MS} to {END_MS}",
                severity=_severity_of_stamp(subject, line),
            )


def _severity_of_stamp(subject: LogSubject, line: LogLine) -> Severity:
    """Return the severity of an impossible time stamp in a log. In official logs a stamp of 0 before init_start or
    after run_stop is info only: it means that no time was taken, and no rule needs one there."""
    if subject.is_ours or (line.time_ms < NO_MILLISECONDS and not subject.is_forgiving(line)):
        return "error"
    return "info" if line.time_ms == 0 and subject.is_outside(line) else "warning"

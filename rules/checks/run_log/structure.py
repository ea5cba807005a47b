"""Judge the structure of a log: every record can be read, is of the right type, occurs once, and is in its place."""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from functools import partial
from itertools import pairwise

from rules.checks.rule import ANYTHING, Problem, Severity, rule
from rules.checks.run_log.required_keys import (
    EITHER_OR,
    EVENT_TYPES,
    POINT,
    TENSORS_OF_DLRM,
    kinds_of,
    lost_in_crash,
    required_keys_of,
    seed_number,
)
from rules.checks.subject import LogSubject, applies_to_ours
from rules.logs import keys
from rules.logs.log import FOUND, LogLine, RunLog, UnparsedText
from rules.logs.text import plural, show

CRASHED = "ST116"
"""Code of the rule on crashed runs, whose error is forgiven in one run of a result set: one run of the set may
crash."""
_LOGGING = 'submission_rules.adoc, "Logging requirements"; mlperf_logging compliance_checker'
_CLOCK_SKEW_MS = 1000
_DIFFERENT = " with different values"
_BOUNDS = (keys.INIT_START, keys.INIT_STOP, keys.RUN_START, keys.RUN_STOP)
_KEY = re.compile(r'"key": *"(\w+)"')
_COMMON = "compliance_checker training_*/common.yaml"
_PLAIN_KEY = re.compile(r"[a-z0-9_]+")
_MAX_KEY_CHARS = 60
_NEAR = 0.85
_KNOWN_KEYS = sorted(value for name, value in vars(keys).items() if name.isupper() and isinstance(value, str))
_METADATA_READ = frozenset({*EVENT_TYPES, keys.EVAL_ACCURACY, keys.SEED, keys.WEIGHTS_INITIALIZATION})
"""mllog keys of the records whose metadata the rules read: training progress, status, tensors, and the source line
that logged a seed."""
_rule = partial(rule, requires={"ST101"}, reads=())
"""Decorator of the rules on a log's structure. They are judged even if other rules fail, unless no key of the log can
be relied on."""


@rule(
    "ST101",
    "every record that a line of the log announces must be readable",
    source=_LOGGING,
    remedy="Keep the file as the run wrote it: one JSON object after ':::MLLOG ', nothing behind it.",
)
def records_can_be_read(subject: LogSubject) -> Iterator[Problem]:
    """A line that announces a record (:::MLLOG) must hold one JSON object with key, time_ms, value, event_type and
    metadata. A cut, glued or edited line loses a record for every tool that reads the log."""
    log = subject.log
    points = (*((log.unread,) if log.unread is not None else ()), *log.unparsed)
    for point in points:
        yield Problem(point.reason, point, found=point.excerpt, expected="a record", keys=_named_keys(point))
    if num_more := log.num_unparsed - len(points):
        yield Problem(f"{num_more} more records that cannot be read", expected="records", number=num_more)
    if not subject.log.lines:
        yield Problem(
            "the file holds no MLLOG record" if subject.log.num_bytes else "the file is empty",
            expected=":::MLLOG lines",
            remedy="Give a log that was written by mllog; check that the file is the right one.",
        )


def _named_keys(point: UnparsedText) -> tuple[str, ...] | None:
    """Return the mllog keys that the excerpt of an unreadable record names; None where it names none."""
    return tuple(_KEY.findall(point.excerpt)) or None


@rule(
    "ST102",
    "a line of the log must hold one record at most",
    source=_LOGGING,
    remedy="Let one process write the log, or flush every line; the official checker reads only the last record.",
)
def one_record_per_line(subject: LogSubject) -> Iterator[Problem]:
    """No line holds two records. Several processes that write at once can put two records on one line, and the
    official parser silently loses all but the last."""
    for line in subject.log.lines:
        if line.is_glued:
            yield Problem(f"{line.key} follows another record", line, found="2 records", expected="1 record")


@_rule(
    "ST117",
    "a blank must follow ':::MLLOG' in every record",
    source="mlperf_logging compliance_checker mlp_parser: ':::MLLOG ' announces a record",
    remedy="Write ':::MLLOG ' and the record, as mllog does.",
)
def token_is_whole(subject: LogSubject) -> Iterator[Problem]:
    """A record begins with ':::MLLOG' and a blank. Where a brace or a tab follows the token, every official tool
    passes over the line; dlrmbench reads it and judges it with the others."""
    lines = [line for line in subject.log.lines if line.lacks_blank]
    if lines:
        yield Problem(
            f"{plural(len(lines), 'record')} without a blank behind ':::MLLOG', which official tools pass over",
            lines[0],
            found=lines[0].key,
            expected="':::MLLOG ' and a JSON object",
            number=len(lines),
        )


@_rule(
    "ST118",
    "the log's keys must be spelled as mllog spells them",
    source="mlperf_logging mllog constants: keys are lower case letters of ASCII, digits and _",
    remedy="Log the key letter by letter: tools pass over one that they do not know.",
    severity="warning",
)
def keys_are_spelled(subject: LogSubject) -> Iterator[Problem]:
    """A key that differs from a known one by capitals, a blank or a letter of another alphabet is another key to
    every tool: its record counts as missing."""
    for key in subject.log.by_key:
        if not _PLAIN_KEY.fullmatch(key) and (meant := _meant_key(key)) is not None:
            line = subject.log.by_key[key][0]
            yield Problem(f"{show(key)} is no key; {meant} may be meant", line, found=show(key), expected=meant)


def _meant_key(key: str) -> str | None:
    """Return the known mllog key from which a given key differs only by capitals, blanks and look-alike letters; None
    where there is none."""
    plain = unicodedata.normalize("NFKC", key[:_MAX_KEY_CHARS]).strip().lower()
    return next(iter(get_close_matches(plain, _KNOWN_KEYS, n=1, cutoff=_NEAR)), None)


@_rule(
    "ST103",
    "every record of the log must have its value, metadata and event type",
    source=_LOGGING,
    remedy="Write logs with mllog, which always gives value, event_type and metadata.",
)
def records_are_complete(subject: LogSubject) -> Iterator[Problem]:
    """Every record has a value, metadata and an event type, the last two of the right JSON type. In logs of this
    harness every defect is an error. In official logs a record without value or metadata is an error, since it
    crashes the official checker, which then reports nothing. A missing event type is only a warning, since no tool
    reads it. Missing metadata is only a warning before round 2.0. Metadata or an event type of another JSON type is a
    warning if a rule reads it, else only reported (info)."""
    optional = subject.optional_parts
    for line in subject.log.lines:
        for problem in line.problems:
            is_optional = problem in optional
            is_error = subject.is_ours or (problem.startswith("no ") and not is_optional)
            is_read = line.key in _METADATA_READ
            severity: Severity = "error" if is_error else "warning" if is_optional or is_read else "info"
            what, _, found = problem.partition(FOUND)
            yield Problem(
                f"{line.key}: {what}", line, found=found or what, expected="a complete record", severity=severity
            )


@_rule(
    "ST104",
    "the log must hold every required key, as often as required",
    source=f"{_COMMON}, closed_common.yaml, closed_<benchmark>.yaml (EXACTLY_ONE, AT_LEAST_ONE)",
    remedy="Log the key; a key cannot be added to a log afterwards.",
)
def required_keys(subject: LogSubject) -> Iterator[Problem]:
    """Every required key occurs, and those required once occur once.

    - A key that is repeated with the same value is a warning, as in the official checker.
    - A key that is repeated with another value is an error, since the result would depend on which value counts. So
      is a second run_start or run_stop with another time or status.
    - If a second run begins in the log, as after a relaunch that wrote into the same file, only that is reported.
    - Keys that are missing because the run crashed are reported by ST116.
    """
    again = _second_run(subject.log)
    unread = {key for point in subject.log.unparsed for key in _named_keys(point) or ()}
    if again is not None:
        yield Problem(
            f"a second run begins at line {again.line_num}: one log per run",
            again,
            found="init_start and run_start below run_start",
            expected="one run",
            remedy="Give each run a log of its own. A run that crashed counts as one that did not converge.",
            keys=(ANYTHING,),
        )
    for key, required in required_keys_of(subject).items():
        lines = subject.log.all(key)
        if again is not None:
            lines = tuple(line for line in lines if line.line_num < again.line_num)[:1] or lines[:1]
        if not lines and key in unread:
            continue
        if not lines:
            yield Problem(
                f"{key} is missing", found="no record", expected=f"{key}: {required.kind.name}", keys=(key,)
            )
        elif required.is_once and len(lines) > 1:
            same = len({repr(line.value) for line in lines}) == 1
            differ = key in (keys.RUN_START, keys.RUN_STOP) and len(set(map(_says, lines))) > 1
            is_event = key in EVENT_TYPES
            yield Problem(
                f"{key} occurs {len(lines)} times"
                + (" with different times or statuses" if differ else "" if is_event or same else _DIFFERENT),
                lines[1],
                found=", ".join(dict.fromkeys(_says(line) if differ else show(line.value) for line in lines[:5])),
                expected="exactly one record",
                severity="warning" if same and not differ and not (is_event and subject.is_ours) else "error",
                remedy="Let only rank 0 log settings.",
            )
    if not subject.is_ours:
        lost = lost_in_crash(subject)
        for some in EITHER_OR:
            if not any(subject.log.all(key) for key in some) and some[0] not in lost:
                what = " or ".join(some)
                yield Problem(f"{what} is missing", found="no record", expected=f"at least one {what}", keys=some)


def _second_run(log: RunLog) -> LogLine | None:
    """Return the record at which a second run begins in a log: an init_start or run_start of the same rank that comes
    after run_start, both in the file and by its stamp. None if there is only one run."""
    first = log.first(keys.RUN_START)
    if first is None or len(log.all(keys.RUN_START)) < 2:
        return None

    def is_later(line: LogLine) -> bool:
        is_below = line.rank == first.rank and line.line_num > first.line_num
        return is_below and line.time_ms > first.time_ms + _CLOCK_SKEW_MS

    begins = next((line for line in log.all(keys.INIT_START) if is_later(line)), None)
    starts = next((line for line in log.all(keys.RUN_START) if is_later(line)), None)
    return begins if starts is not None else None


def _says(line: LogLine) -> str:
    """Return, as text, the parts of a run_start or run_stop record on which the result depends: its time stamp, and
    its status where it has one."""
    status = line.metadata.get(keys.STATUS)
    return show(line.time_ms) if status is None else f"{show(line.time_ms)} {show(status)}"


@_rule(
    "ST105",
    "the value of every required key must be of the key's type",
    source=f"{_COMMON}; mllog's usage",
    remedy="Log the value itself, as the type named here.",
)
def value_types(subject: LogSubject) -> Iterator[Problem]:
    """The value of every required key has the key's type. A boolean, or a number in quotes, does not count as a
    number. If the division fixes a key's value, HP101 reports a wrong type instead. In official logs a seed that
    Python's int() converts, such as one in quotes, is only a warning, since MLPerf's rules accept it."""
    for key, kind in kinds_of(subject).items():
        holds = kind.holds
        for line in subject.log.all(key):
            if not holds(line.value) and not subject.is_refused_by_division(line):
                is_converted = key == keys.SEED and not subject.is_ours and seed_number(line.value) is not None
                yield Problem(
                    f"{key} has a value of the wrong type or range",
                    line,
                    found=show(line.value),
                    expected=kind.name,
                    severity="warning" if is_converted else "error",
                )


@_rule(
    "ST106",
    "the event type of every record must fit its key",
    source="mllog: start, end and event",
    remedy="Use mllog.start for *_start, mllog.end for *_stop and mllog.event for all else.",
)
def event_types(subject: LogSubject) -> Iterator[Problem]:
    """*_start is an INTERVAL_START, *_stop an INTERVAL_END, everything else a POINT_IN_TIME. No official rule demands
    it and no official tool checks it: in official logs a difference is a warning."""
    wrong = [
        line
        for line in subject.log.lines
        if line.event_type != EVENT_TYPES.get(line.key, POINT) and "no 'event_type'" not in line.problems
    ]  # ST103 reports a missing event type
    required = {*kinds_of(subject), *EVENT_TYPES, keys.WEIGHTS_INITIALIZATION} if wrong else set()
    for line in wrong:
        if line.key in required:
            yield Problem(
                f"{line.key} is logged as {show(line.event_type)}",
                line,
                found=show(line.event_type),
                expected=EVENT_TYPES.get(line.key, POINT),
                severity="error" if subject.is_ours else "warning",
            )


@rule(
    "ST107",
    "init_start, init_stop, run_start and run_stop must follow one another",
    source=f"{_COMMON}: PRE and CHECK of init_start, init_stop, run_start, block_start, run_stop",
    remedy="Keep the order init_start, init_stop, run_start, blocks, run_stop in the file.",
    requires={"ST101", "ST104"},
    reads=(*_BOUNDS, keys.BLOCK_START),
)
def phases_in_order(subject: LogSubject) -> Iterator[Problem]:
    """init_start, init_stop, run_start and run_stop come in this order, in the file and by time. In official logs,
    times in the wrong order by up to a second are only a warning, since the clocks of several nodes differ. In
    official logs no block begins before run_start in the file; CA103 reports this for logs of this harness."""
    log = subject.log
    start, block = log.first(keys.RUN_START), log.first(keys.BLOCK_START)
    if not subject.is_ours and start is not None and block is not None and _is_after(start, block, log):
        yield Problem(
            "a block begins above run_start",
            block,
            found=f"line {block.line_num}",
            expected=f"below line {start.line_num}",
        )
    for before, after in pairwise(_BOUNDS):
        earlier, other = log.last(before), log.first(after)
        if earlier is None or other is None:
            continue
        if _is_after(earlier, other, log):
            yield Problem(
                f"{before} is after {after}",
                earlier,
                found=f"line {earlier.line_num}",
                expected=f"before {after}",
                keys=(before, after),
            )
        elif (late_ms := earlier.time_ms - other.time_ms) > 0:
            yield Problem(
                f"{after} is earlier than {before}",
                other,
                found=f"{after} {late_ms / 1e3:.3f} s before {before}",
                expected=f"{before} first",
                keys=(before, after),
                severity="warning" if not subject.is_ours and late_ms <= _CLOCK_SKEW_MS else "error",
            )


def _is_after(earlier: LogLine, other: LogLine, log: RunLog) -> bool:
    if earlier.line_num != other.line_num:
        return earlier.line_num > other.line_num
    return next(line for line in log.lines if line is earlier or line is other) is other


def _only_dlrm(subject: LogSubject) -> str | None:
    if subject.benchmark is None or subject.benchmark.name != "dlrm":
        return "only logs of benchmark dlrm name their tensors"
    if not (subject.is_official and subject.is_closed and subject.is_at_least("1.1")):
        return "required only of official Closed logs of dlrm from round 1.1 on"
    return None


@_rule(
    "ST112",
    "weights_initialization must be logged once for each of DLRM's nine tensors",
    source="compliance_checker training_1.1.0 to 2.1.0/closed_dlrm.yaml",
    remedy="Log weights_initialization once for each of the nine tensors.",
    applies=_only_dlrm,
)
def weights_initialization(subject: LogSubject) -> Iterator[Problem]:
    """weights_initialization names exactly the nine tensors of DLRM in its metadata; for a run that crashed before
    its first evaluation, at most these."""
    lines = subject.log.all(keys.WEIGHTS_INITIALIZATION)
    named = [line.metadata.get("tensor") for line in lines]
    allowed = (0, 1) if keys.EVAL_ACCURACY in lost_in_crash(subject) else (1,)
    for tensor in TENSORS_OF_DLRM:
        if named.count(tensor) not in allowed:
            yield Problem(
                f"tensor {tensor} is initialised {named.count(tensor)} times",
                found=f"{named.count(tensor)} records",
                expected="1 record",
            )
    for line in lines:
        if line.metadata.get("tensor") not in TENSORS_OF_DLRM:
            yield Problem(
                "unknown tensor", line, found=show(line.metadata.get("tensor")), expected=", ".join(TENSORS_OF_DLRM)
            )


@_rule(
    "ST113",
    "the log's organisation and platform must be names, not placeholders",
    source="mlcommons/logging#241",
    remedy="Set the submission's organisation and platform before running.",
    severity="warning",
)
def no_placeholders(subject: LogSubject) -> Iterator[Problem]:
    """Templates of other vendors leave placeholders in submission_org and submission_platform; no official tool
    notices. Harmless to the score, confusing to every reader."""
    for key in (keys.SUBMISSION_ORG, keys.SUBMISSION_PLATFORM):
        for line in subject.log.all(key)[:1]:
            if is_placeholder(line.value):
                yield Problem(f"{key} is a placeholder", line, found=show(line.value), expected="a name")


def is_placeholder(value: object) -> bool:
    """Return whether the value of submission_org or submission_platform is a template's placeholder."""
    return isinstance(value, str) and ("PLACEHOLDER" in value.upper() or value == "reference_implementation")


@rule(
    "ST114",
    "settings must be logged between init_start and init_stop",
    source="dlrmbench: values are read from what was built, before the clock starts",
    remedy="Log settings between init_start and init_stop.",
    requires={"ST101", "ST104"},
    reads=(keys.CACHE_CLEAR, keys.INIT_START, keys.INIT_STOP),
    applies=applies_to_ours,
)
def settings_inside_init(subject: LogSubject) -> Iterator[Problem]:
    """cache_clear comes before init_start; every setting is between init_start and init_stop, so that it describes
    the model as built, and nothing is changed afterwards."""
    lines = subject.log.lines
    start, stop = subject.log.first(keys.INIT_START), subject.log.first(keys.INIT_STOP)
    if start is None or stop is None:
        return
    first, last = _position(start, lines), _position(stop, lines)
    settings = {*required_keys_of(subject), keys.DATASET_SHA256} - set(EVENT_TYPES)
    settings -= {keys.CACHE_CLEAR, keys.EVAL_ACCURACY}
    outside = (*lines[: first + 1], *lines[last:]) if first < last else lines
    for line in outside:
        if line.key in settings:
            yield Problem(f"{line.key} is outside initialisation", line, expected="between init_start and init_stop")
    for line in lines[first + 1 :]:
        if line.key == keys.CACHE_CLEAR:
            yield Problem("cache_clear is after init_start", line, expected="before init_start")


def _position(wanted: LogLine, lines: Sequence[LogLine]) -> int:
    return next(index for index, line in enumerate(lines) if line is wanted)


def _of_others(subject: LogSubject) -> str | None:
    return "rule ST104 requires the end of this harness's own runs" if subject.is_ours else None


@_rule(
    CRASHED,
    "the log must reach the end of its run (run_stop)",
    source='training_rules.adoc, "Scoring": failed runs count as infinity time; mlperf_logging'
    " package_checker accepts one log of a set that does not comply",
    remedy="Nothing, if no other run of its set failed: the run counts as the dropped slowest run. Else run again.",
    applies=_of_others,
)
def run_ended(subject: LogSubject) -> Iterator[Problem]:
    """The log of a run that crashed ends without run_stop, before the target is met. Judged alone, such a log is
    rejected. A set may hold one: the run counts as infinitely slow, and scoring drops it as the slowest. If a log
    without run_stop met its target, or lacks settings or a record of an earlier phase, its run did not crash: the log
    is damaged, and ST104 reports it."""
    if lost_in_crash(subject):
        yield Problem(
            "the log ends before its run does, as after a crash",
            subject.log.lines[-1],
            found="no run_stop",
            expected="run_stop with a status",
        )

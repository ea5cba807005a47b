"""Compare the records in a set's extra/ with one another and with the logs, and report training code that is not the
harness's."""

import re
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from rules.benchmarks.seeds import derive_seed, reserved_seeds
from rules.checks.result_set.records import has_records, read_ms, recorded, root_of, run_number
from rules.checks.rule import Problem, rule
from rules.checks.subject import SetSubject
from rules.logs import keys
from rules.logs.log import RunLog
from rules.logs.text import plural, printable, show
from rules.records.run import RunRecord
from rules.records.run_set import RunSetRecord

_STAMPS_S = 2.0
"""Tolerance in seconds between the times in a run's record and the stamps of its log, both from the system's
calendar. By this much the recorded start may be later than the log's first stamp, and the recorded end earlier than
run_stop."""
_DIGEST = re.compile(r"@([0-9a-f]{12})[0-9a-f]{52}\Z")
_GIVEN_LATER = ("submitter", "division", "status", "system_name", "hw_notes", "sw_notes")
"""Fields of a system description that its submitter may complete after the runs were made."""
SHIPPED_CODE = ("reference", "optimized", "torchrec", "dlrm", "wukong", "hstu", "d2nn")
"""Names of this harness's own implementations and models; any other name is code that is not the harness's."""


def _has_set_record(subject: SetSubject) -> str | None:
    if (reason := has_records(subject)) is not None:
        return reason
    return None if isinstance(subject.files.run_set, RunSetRecord) else "no extra/run_set.json that can be read"


@rule(
    "RS122",
    "the records of a set must agree with each other and with the logs",
    source="a rule of dlrmbench, not of MLPerf, based on run_set.json, systems/<system>.json and each run.json",
    remedy="Records are never edited: restore what the harness wrote, or make a new set.",
    severity="warning",
    applies=_has_set_record,
)
def records_agree(subject: SetSubject) -> Iterator[Problem]:
    """The set's record (extra/run_set.json) agrees with the logs and the other files.

    - The set's seeds are derived from its base seed, leaving out the seeds of reference runs, and the log of run
      number i has seed number i. Any other seed is an error.
    - The set's record states the same number of threads, batch size and implementation as the logs, the same system
      as systems/<system>.json, and the same digest of the code as each run's record.
    - The stamps of a run's log are later than created_utc of the set's record, and between started_utc and ended_utc
      of the run's record, within 2 s.
    - Differences other than in seeds are only warnings, since they may be honest: a newer version may complete a set,
      a submitter may complete a description, and a calendar may be set.
    """
    record = subject.files.run_set
    assert isinstance(record, RunSetRecord)
    place = root_of(subject) / "extra" / "run_set.json"
    if (wrong := _underived(record)) is not None:
        yield Problem(
            f"seed {wrong} is not the one that the base seed gives",
            place,
            found=show(record.seeds[wrong]),
            expected=f"seeds derived from base_seed {record.base_seed}",
            severity="error",
        )
    for log in subject.logs:
        index, seed, threads = run_number(log), log.first(keys.SEED), log.first(keys.NUM_THREADS)
        planned = record.seeds[index] if index is not None and index < len(record.seeds) else None
        if seed is not None and index is not None and seed.value != planned:
            expected = "no such run" if planned is None else f"{planned} as in extra/run_set.json"
            yield Problem(
                "the seed is not the set's", seed, found=show(seed.value), expected=expected, severity="error"
            )
        if threads is not None and threads.value != record.num_threads:
            expected = f"{record.num_threads} as in extra/run_set.json"
            yield Problem(
                "the number of threads is not the set's", threads, found=show(threads.value), expected=expected
            )
        yield from _settings(log, record)
    for log, run, path in recorded(subject):
        yield from _moments(log, record, run, path.relative_to(root_of(subject)))
    others = [(run.code.sha256, path) for _, run, path in recorded(subject) if run.code is not None]
    others = [(digest, path) for digest, path in others if record.code_sha256 not in (None, digest)]
    if others:
        yield Problem(
            f"{plural(len(others), 'run')} of other code than the set began with",
            others[0][1],
            found=f"digest {others[0][0][:12]}…",
            expected=f"{str(record.code_sha256)[:12]}… as in extra/run_set.json",
        )
    for name, said in record.system.fields.items():
        now = subject.system_fields.get(name, said)
        if said and name not in _GIVEN_LATER and now != said:
            yield Problem(
                f"{printable(name)} is not what the harness found",
                subject.result_set.system_json,
                found=show(now),
                expected=f"{show(said)} as in extra/run_set.json",
            )


def _settings(log: RunLog, record: RunSetRecord) -> Iterator[Problem]:
    """Yield a problem if the batch size or the implementation in a log is not the one in the set's record:
    comparisons identify a set by these two settings."""
    given = {key: entry.value for key, entry in record.config.items()}
    code, model = given.get("runtime.implementation"), given.get("runtime.model")
    name = None if code is None else _label(code) + ("" if model is None else f" of {_label(model)}")
    for what, key, expected in (
        ("the batch size", keys.GLOBAL_BATCH_SIZE, given.get("train.global_batch_size")),
        ("the implementation", keys.IMPLEMENTATION, name),
    ):
        line = log.first(key)
        if line is not None and expected is not None and line.value != expected:
            where = f"{show(expected)} as in extra/run_set.json"
            yield Problem(f"{what} is not the set's", line, found=show(line.value), expected=where)


def _label(code: object) -> str:
    """Return the name of an implementation or a model as logs write it: for an object in a Python file, the file's
    name without its folder, and 12 digits of the file's digest."""
    text = str(code)
    return _DIGEST.sub(r"@\1", text.rpartition("/")[2]) if ".py:" in text else text


def _moments(log: RunLog, record: RunSetRecord, run: RunRecord, where: Path) -> Iterator[Problem]:
    """Yield problems where the first or last stamp of a run's log contradicts the times in the run's and the set's
    records."""
    first, stop = log.first(keys.INIT_START), log.last(keys.RUN_STOP)
    for what, line, said, sign in (
        ("created_utc in extra/run_set.json", first, record.created_utc, 1),
        (f"started_utc in {where}", first, run.started_utc, 1),
        (f"ended_utc in {where}", stop, run.ended_utc, -1),
    ):
        said_ms = read_ms(said)
        if line is not None and said_ms is not None and sign * (said_ms - line.time_ms) / 1e3 > _STAMPS_S:
            late = f"{abs(said_ms - line.time_ms) / 1e3:.3f} s {'before' if sign > 0 else 'after'} it"
            yield Problem(
                "the stamp is outside of the time in the records", line, found=late, expected=f"{what}: {show(said)}"
            )
            return


def _names_code(subject: SetSubject) -> str | None:
    return None if subject.is_ours else "the set is no run set of this harness"


@rule(
    "RS123",
    "the code that trained should be the harness's own",
    source="a rule of dlrmbench, not of MLPerf, based on the logged implementation and file of the model",
    remedy="Nothing; whoever reviews the result reads the code that trained, whose digest is in the log.",
    severity="info",
    applies=_names_code,
)
def code_is_shipped(subject: SetSubject) -> Iterator[Problem]:
    """Only the harness's own implementations and models trained; any other is named in the finding. Such code runs in
    the process that writes the log and computes the quality, so it could change either. It cannot change the time
    measured by a separate process (RS121). If known, the finding also states the processor time used before run_start
    (from opening the data on) and after it."""
    named = {
        str(log.value(keys.IMPLEMENTATION)) for log in subject.logs if log.first(keys.IMPLEMENTATION) is not None
    }
    benchmark = subject.benchmark
    if benchmark is not None and benchmark.status == "own":
        named.add(benchmark.model)
    own = sorted(name for name in named if not set(name.split(" of ")) <= {*SHIPPED_CODE})
    if own:
        yield Problem(
            f"own code trained in the process that writes the log and computes the quality{_off_the_clock(subject)}",
            found=", ".join(map(show, own[:3])),
        )


def _off_the_clock(subject: SetSubject) -> str:
    seen = [record.observed for _, record, _ in recorded(subject) if record.observed is not None]
    before = [each.processor_before_s for each in seen if each.processor_before_s is not None]
    during = [each.processor_run_s for each in seen if each.processor_run_s is not None]
    if not before or not during:
        return ""
    return f", with up to {max(before):.2f} s of processor time before run_start and {max(during):.2f} s after it"


def _underived(record: RunSetRecord) -> int | None:
    """Return the index of the set's first seed that is not derived from its base seed; None if all are.

    Derived seeds skip the seeds of the benchmark's reference runs. A derived seed that became a reference run's seed
    only after the set was made was not skipped then, so it is accepted, too.
    """
    reserved, counter = reserved_seeds(record.benchmark.name), count()
    for index, seed in enumerate(record.seeds):
        passed = {*reserved, *record.seeds[:index]}
        while (derived := derive_seed(record.base_seed, next(counter))) != seed:
            if derived not in passed:
                return index
    return None

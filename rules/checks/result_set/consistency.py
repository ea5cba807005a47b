"""The records in a set's extra/ against one another and against a second clock; and whose code trained."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path

from rules.benchmarks.seeds import derive_seed, reserved_seeds
from rules.checks.result_set.records import has_records, record_of, run_number
from rules.checks.rule import Problem, rule
from rules.checks.subject import SetSubject
from rules.logs import keys
from rules.logs.log import RunLog
from rules.logs.text import plural, printable, show
from rules.records.run import RunRecord
from rules.records.run_set import RunSetRecord

_LATE_S, _LATE, _ALL_LATE = 1.0, 0.02, 0.1
"""How much more the second clock may say than the log: the larger of seconds and a share of the run, or, of all runs
together, of the same seconds and a larger share of the shortest."""
_GIVEN_LATER = ("submitter", "division", "status", "system_name", "hw_notes", "sw_notes")
"""Fields of a system's description that its submitter may complete after the runs."""
SHIPPED_CODE = ("reference", "optimized", "torchrec", "dlrm", "wukong", "hstu", "d2nn")
"""Names of this harness's implementations and models."""


def _has_observed(subject: SetSubject) -> str | None:
    if (reason := has_records(subject)) is not None:
        return reason
    is_any = any(record.observed_s is not None for _, record, _ in _recorded(subject))
    return None if is_any else "no run was timed by a second clock: they are of an earlier version"


@rule(
    "RS121",
    "a second clock saw no longer run than the log says",
    source="none: the process that starts a run stamps the arrival of run_start and run_stop by its own clock",
    remedy="A run's clock is not changed: run again, with an implementation that leaves the clock alone.",
    applies=_has_observed,
)
def clocks_agree(subject: SetSubject) -> Iterator[Problem]:
    """run_stop - run_start of the log is not shorter, by more than 1 s and more than 2 %, than `observed_s` in the
    run's record: the time between the two lines by the clock of the process that started the run, or, where another
    launcher did or that process was held up, by the clock of the energy's meter. Of short runs, not every one is
    shorter by more than a tenth and all together by more than 1 s. A run without it, in a set where others have it,
    is a warning."""
    missing: list[tuple[float, float]] = []
    is_any_late = False
    for log, record, place in _recorded(subject):
        start, stop = log.first(keys.RUN_START), log.last(keys.RUN_STOP)
        if not record.is_finished or record.started_utc is None or start is None or stop is None:
            continue
        said_s = (stop.time_ms - start.time_ms) / 1e3
        if record.observed_s is None:
            yield Problem(
                "the run was timed by no second clock",
                place,
                expected="observed_s, as other runs",
                severity="warning",
            )
            continue
        missing.append((record.observed_s - said_s, 1 - said_s / record.observed_s if record.observed_s else 0.0))
        if missing[-1][0] > max(_LATE_S, _LATE * record.observed_s):
            is_any_late = True
            yield Problem(
                "the log says a shorter run than a second clock saw",
                stop,
                found=f"{said_s:.3f} s from run_start to run_stop",
                expected=f"{record.observed_s:.3f} s, as in {place.relative_to(_root(subject))}",
            )
    all_s = sum(seconds for seconds, _ in missing)
    if not is_any_late and all_s > _LATE_S and min(share for _, share in missing) > _ALL_LATE:
        yield Problem(
            "every log says a shorter run than a second clock saw",
            found=f"{all_s:.3f} s less, in {plural(len(missing), 'run')}",
            expected="what observed_s in the runs' records says",
        )


def _has_set_record(subject: SetSubject) -> str | None:
    if (reason := has_records(subject)) is not None:
        return reason
    return None if isinstance(subject.files.run_set, RunSetRecord) else "no extra/run_set.json that can be read"


@rule(
    "RS122",
    "the set's records say the same",
    source="none: this harness writes extra/run_set.json, systems/<system>.json and a run.json for each run",
    remedy="Records are never edited: restore what the harness wrote, or make a new set.",
    severity="warning",
    applies=_has_set_record,
)
def records_agree(subject: SetSubject) -> Iterator[Problem]:
    """The seeds in extra/run_set.json are those that its base seed gives, without those of reference convergence
    points, and run i's log has the i-th of them: anything else is an error. Its number of threads is that of the
    logs, its system's fields are those of systems/<system>.json, its code's digest is that of each run's record:
    anything else is a warning, since a set may be completed by a newer version, and a description by its submitter.
    """
    record = subject.files.run_set
    assert isinstance(record, RunSetRecord)
    place = _root(subject) / "extra" / "run_set.json"
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
    others = [(run.code.sha256, path) for _, run, path in _recorded(subject) if run.code is not None]
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


def _names_code(subject: SetSubject) -> str | None:
    return None if subject.is_ours else "not a run set of this harness"


@rule(
    "RS123",
    "the code that trained is the harness's",
    source="none: this harness logs the implementation, and the model's file where there is one",
    remedy="Nothing; whoever reviews the result reads that code, whose digest the log has.",
    severity="info",
    applies=_names_code,
)
def code_is_shipped(subject: SetSubject) -> Iterator[Problem]:
    """An implementation or a model of somebody's own is named: it runs in the process that keeps the time and
    computes the quality, and could change either."""
    named = {
        str(log.value(keys.IMPLEMENTATION)) for log in subject.logs if log.first(keys.IMPLEMENTATION) is not None
    }
    benchmark = subject.benchmark
    if benchmark is not None and benchmark.status == "own":
        named.add(benchmark.model)
    own = sorted(name for name in named if not set(name.split(" of ")) <= {*SHIPPED_CODE})
    if own:
        yield Problem(
            "own code trained in the process that keeps the time and computes the quality",
            found=", ".join(map(show, own[:3])),
        )


def _root(subject: SetSubject) -> Path:
    assert subject.result_set.root is not None
    return subject.result_set.root


def _recorded(subject: SetSubject) -> Iterator[tuple[RunLog, RunRecord, Path]]:
    """Yield each log that has a readable record, with the record and its place."""
    for log in subject.logs:
        place = record_of(subject, log)
        record = None if place is None else subject.files.run_record(place)
        if place is not None and isinstance(record, RunRecord):
            yield log, record, place


def _underived(record: RunSetRecord) -> int | None:
    """Return the place of the first seed that the base seed does not give; None where there is none.

    A seed that was reserved only after the set was made is right, and so is one that is passed over for being so.
    """
    reserved, counter = reserved_seeds(record.benchmark.name), count()
    for index, seed in enumerate(record.seeds):
        passed = {*reserved, *record.seeds[:index]}
        while (derived := derive_seed(record.base_seed, next(counter))) != seed:
            if derived not in passed:
                return index
    return None

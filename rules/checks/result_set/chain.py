"""Judge whether runs of a result set were removed after they were made: by the order of the runs in time, and by the
digest of the previous run's record that each run's record holds (the chain)."""

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from rules.checks.result_set.clocks import is_launched
from rules.checks.result_set.records import has_records, root_of, run_number
from rules.checks.rule import Problem, rule
from rules.checks.subject import SetSubject
from rules.logs import keys
from rules.logs.text import show
from rules.records.chain import LAST_FILE, digest_record, first_link, read_link
from rules.records.run import RunRecord
from rules.records.run_set import RunSetRecord

_RESULTS = 'training_rules.adoc, "Benchmark Results": a submitter may not choose among the runs'
_REMEDY = "A run may not be discarded: put back what was taken away or changed, or make a new set."


def _has_chain(subject: SetSubject) -> str | None:
    if (reason := has_records(subject)) is not None:
        return reason
    if isinstance(subject.files.run_set, RunSetRecord) or _traces(subject):
        return None
    return "no extra/run_set.json that can be read"


@rule(
    "RS131",
    "the record of a run must hold the digest of the previous one",
    source=f"{_RESULTS}; each run.json of this harness holds the digest of that of the run before",
    remedy=_REMEDY,
    applies=_has_chain,
)
def runs_are_chained(subject: SetSubject) -> Iterator[Problem]:
    """The records of a set's runs form a chain without gaps, so that a removed run shows even if it was made again.
    Each run's record holds the digest of the previous run's record, as previous_sha256. The first run's record holds
    a digest made from the set's record. The file extra/last_run holds the digest of the last run's record.

    - A run without previous_sha256 is an error. It is only a warning if the run's code differs from the code that
      began the set, since a version that keeps no chain may have made the run.
    - A set whose record states no chain is reported (info), since an earlier version may have begun it.
    - It is an error instead if there is evidence that the set was begun with a chain: extra/last_run, a run with
      previous_sha256, or a run with a timekeeper made by the code that began the set.
    """
    run_set, root = subject.files.run_set, root_of(subject)
    if not isinstance(run_set, RunSetRecord) or not run_set.is_chained:
        yield _no_chain(subject)
        return
    finished = list(_finished(subject))
    known = {first_link(run_set), *(_digest(place) for place, _ in finished)}
    uses = Counter(run.previous_sha256 for _, run in finished)
    for place, run in finished:
        if run.previous_sha256 is None:
            is_other = run.code is not None and run.code.sha256 != run_set.code_sha256
            yield Problem(
                f"run {run.run_index} is not in the chain of its set",
                place,
                found="no previous_sha256",
                expected="the digest of the record of the run before",
                severity="warning" if is_other else None,
            )
        elif run.previous_sha256 not in known:
            yield Problem(
                f"the run before run {run.run_index} is not in the set, or its record was changed",
                place,
                found=f"no record of digest {run.previous_sha256[:12]}…",
                expected="every run that was made",
            )
        elif uses[run.previous_sha256] > 1:
            yield Problem(
                f"run {run.run_index} follows the same run as another",
                place,
                found=f"{uses[run.previous_sha256]} records with digest {run.previous_sha256[:12]}…",
                expected="one",
            )
    last = _read_last(root / "extra" / LAST_FILE)
    if last not in known or last in uses:
        yield Problem(
            "the run that was made last is not in the set, or its record was changed",
            root / "extra" / LAST_FILE,
            found="nothing"
            if last is None
            else f"the digest {show(last[:12])}…, which is not that of the last record",
            expected="the digest of the record of the run that was made last",
        )


def _no_chain(subject: SetSubject) -> Problem:
    """Return the problem of a set without a chain: its record, extra/run_set.json, is missing, or states that the
    runs' records do not hold the digest of the previous run's record."""
    place, traces = root_of(subject) / "extra" / "run_set.json", _traces(subject)
    if traces:
        is_there = isinstance(subject.files.run_set, RunSetRecord)
        what = "run_set.json says that the set has no chain" if is_there else "the chain's first link is not there"
        return Problem(what, place, found=traces, expected="is_chained true")
    is_timed = any(run.observed_s is not None for _, run in _finished(subject))
    return Problem(
        "the set's runs are in no chain, so that the removal of a run would go unnoticed",
        place,
        found="no is_chained" + ("" if is_timed else ", and no second clock in the records of its runs"),
        expected="is_chained true, as this version writes it: an earlier one began the set",
        remedy="Make a new set where a removed run must be noticed.",
        severity="info",
    )


def _traces(subject: SetSubject) -> str:
    """Return the evidence that a set's runs are chained by digests of their records, whatever the set's record states
    about a chain; empty if there is no evidence."""
    run_set, last = subject.files.run_set, root_of(subject) / "extra" / LAST_FILE
    began = run_set.code_sha256 if isinstance(run_set, RunSetRecord) else None
    for _, run in _finished(subject):
        if run.previous_sha256 is not None:
            return "previous_sha256 in the records of its runs"
        if run.observed_by == "timekeeper" and run.code is not None and run.code.sha256 == began:
            return "runs with a timekeeper, of the code that began the set"
    return f"extra/{LAST_FILE}" if last.exists() or last.is_symlink() else ""


def _finished(subject: SetSubject) -> Iterator[tuple[Path, RunRecord]]:
    """Yield the run.json of every attempt of the set that became a run: its path and its record."""
    for folder in subject.files.run_folders.by_name.values():
        for attempt in folder.attempts:
            if attempt.record is not None and not attempt.has_log:
                record = subject.files.run_record(attempt.record)
                if isinstance(record, RunRecord) and record.is_finished:
                    yield attempt.record, record


def _digest(place: Path) -> str:
    try:
        return digest_record(place.read_bytes())
    except OSError:
        return ""


def _read_last(place: Path) -> str | None:
    """Return the digest of the last run's record that the file extra/last_run (`place`) holds; None where the file is
    missing, is a symbolic link (which may lead elsewhere), or cannot be read."""
    try:
        return read_link(place) if place.is_file() and not place.is_symlink() else None
    except OSError:
        return None


def _has_order(subject: SetSubject) -> str | None:
    if (reason := has_records(subject)) is not None:
        return reason
    return "torchrun or srun started its runs, in any order" if is_launched(subject) else None


@rule(
    "RS132",
    "runs of a set must be made in the order of their numbers",
    source=f"{_RESULTS}; this harness makes run 0 first",
    remedy=_REMEDY,
    severity="warning",
    applies=_has_order,
)
def runs_are_in_order(subject: SetSubject) -> Iterator[Problem]:
    """Each run begins after all runs of lower numbers, by the logs' stamps. A run out of order was removed and made
    again, or the system's calendar was set back between two runs; a set's chain (RS131) tells these cases apart."""
    numbered = [
        (number, start)
        for log in subject.logs
        if (number := run_number(log)) is not None and (start := log.first(keys.RUN_START)) is not None
    ]
    latest = None
    for (_, before), (number, start) in pairwise(sorted(numbered, key=lambda entry: entry[0])):
        latest = before if latest is None or before.time_ms > latest.time_ms else latest
        if start.time_ms < latest.time_ms:
            yield Problem(
                f"run {number} was made before one of a lower number",
                start,
                found=f"{(latest.time_ms - start.time_ms) / 1e3:.0f} s before that of {Path(latest.path).name}",
                expected="runs in the order of their numbers",
            )
            return

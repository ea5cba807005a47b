"""Lists past run sets and measurements in a directory: time, benchmark, system, and outcome of each."""

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from reports.comparison.records import PastSet
from reports.results.logs import make_result
from reports.results.measured import centre_of, find_measured, rate_summary
from reports.results.records import commit_of, read_set_records
from reports.statistics.intervals import log_summary
from reports.text.formatting import epoch_ms, printable
from rules.benchmarks.loader import canonical_sha256
from rules.errors import DefinitionError, InputError
from rules.judge.sets import judge_set
from rules.records.codec import Damage, decode
from rules.records.kinds import EXTRA_KINDS, is_in_processes, why_absent
from rules.records.run_set import RunSetRecord
from rules.tree.inventory import take_inventory
from rules.tree.result_set import ResultSet

_RECORD = Path("extra") / "run_set.json"
_MOMENT = re.compile(r"(.+)-\d{8}T\d{6}Z(?:-\d+)?")


def read_history(folder: Path, *, limit: int | None = None) -> tuple[tuple[PastSet, ...], int]:
    """Return the newest run sets at or below `folder`, newest first and at most `limit`; and the number of all run
    sets found.

    Only the returned sets are judged. Raises InputError if `folder` is missing.
    """
    if not folder.is_dir():
        raise InputError(f"{printable(folder)}: no such directory. Give the one that 'run' wrote its sets to.")
    inventory = take_inventory(folder)
    sets: dict[Path, list[ResultSet]] = {}
    for result_set in inventory.result_sets:
        if len(result_set.folder.parents) > 2:
            sets.setdefault(result_set.folder.parents[2], []).append(result_set)
    found = [(path, _record(path)) for path in inventory.run_sets]
    found.sort(key=lambda entry: _moment(entry[1]), reverse=True)
    shown = found if limit is None else found[:limit]
    return tuple(_past(path, record, sets.get(path, [])) for path, record in shown), len(found)


def _record(path: Path) -> RunSetRecord | str:
    """Return the record of the run set in a folder, or the reason why there is none."""
    if not (path / _RECORD).exists():
        return f"{_RECORD} is missing"
    record = decode(path / _RECORD, RunSetRecord)
    return printable(record) if isinstance(record, Damage) else record


def _moment(record: RunSetRecord | str) -> float:
    """Return the time at which a run set was made, in ms since 1970, for sorting; minus infinity where it is
    unknown."""
    moment = None if isinstance(record, str) else epoch_ms(record.created_utc)
    return -math.inf if moment is None else moment


def _past(path: Path, record: RunSetRecord | str, sets: Sequence[ResultSet]) -> PastSet:
    folder = printable(path, 300)
    if isinstance(record, str):
        return PastSet(folder=folder, kind="broken", problem=record)
    digest = _digest(record)
    known: dict[str, Any] = {
        "folder": folder,
        "created_utc": printable(record.created_utc),
        "benchmark": printable(record.benchmark.name),
        "name": _given_name(record.name, record.benchmark.name, digest),
        "config_digest": digest,
        "system": printable(record.system.name),
        "num_runs": record.num_runs,
        "harness_version": printable(record.harness_version),
        "commit": commit_of(record),
        "code": record.code_sha256[:12] if record.code_sha256 else None,
    }
    if why := why_absent(record.kind):
        return PastSet(**known, kind=record.kind, num_done=0, problem=why)
    if is_in_processes(record.kind):
        return _measured(path, record.kind, known)
    return _measured_once(path, record.kind, known) if record.kind in EXTRA_KINDS and not sets else _runs(sets, known)


def _measured_once(path: Path, kind: str, known: Mapping[str, Any]) -> PastSet:
    """Return the history row of a run set that one auxiliary process measured, such as a profile. A run set of this
    kind counts as complete."""
    is_done = (path / "extra" / f"{kind}.json").is_file()
    return PastSet(**known, kind=kind, num_done=int(is_done), problem=None if is_done else "not finished")


def _measured(path: Path, kind: str, known: Mapping[str, Any]) -> PastSet:
    problems: list[str] = []
    measured = find_measured(path, kind, problems)
    if measured is None:
        if problems:
            return PastSet(**known, kind="broken", problem=problems[0])
        return PastSet(**known, kind=kind, num_done=0, problem="not finished")
    measure, throughput = measured.measure, rate_summary(measured)
    return PastSet(
        **known,
        kind=kind,
        num_done=measured.num_runs,
        throughput_samples_per_s=throughput.geometric_mean if throughput else None,
        quantity=measure.name,
        unit=measure.unit,
        mean=centre_of(measured)[0],
    )


def _runs(sets: Sequence[ResultSet], known: Mapping[str, Any]) -> PastSet:
    if not sets:
        return PastSet(**known, kind="training", outcome="incomplete", num_done=0, problem="no run was finished")
    try:
        judged = judge_set(sets[0])
    except (InputError, DefinitionError, OSError) as error:
        return PastSet(**known, kind="broken", problem=printable(error))
    result = judged.result
    made = make_result(0, "", judged, read_set_records(judged.result_set, judged.files)).several_commits
    if made:
        known = {**known, "commit": f"several versions: {made}"}
    converged = [run for run in result.runs if run.converged]
    summary = log_summary(run.throughput_samples_per_s for run in converged)
    several = f"{len(sets)} result directories in one run set" if len(sets) > 1 else None
    return PastSet(
        **known,
        kind="training",
        outcome=judged.verdict.outcome,
        num_done=len(result.runs),
        num_converged=len(converged),
        score_s=result.score_s,
        throughput_samples_per_s=summary.geometric_mean if summary else None,
        problem=several or result.no_score_reason,
    )


def _digest(record: RunSetRecord) -> str | None:
    """Return the digest of a run set's resolved configuration, as used in names of folders."""
    try:
        return canonical_sha256({key: entry.value for key, entry in record.config.items()})[:8]
    except ValueError:  # a text is not valid UTF-8
        return None


def _given_name(folder: str, benchmark: str, digest: str | None) -> str | None:
    """Return the name that a user gave a run set: the part of its folder's name between benchmark and time. None if
    that part is the configuration's digest, since no name was given."""
    found = _MOMENT.fullmatch(folder.removeprefix(f"{benchmark}-"))
    return None if found is None or found[1] == digest else printable(found[1])

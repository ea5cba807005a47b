"""Past run sets and measurements below a directory: when, what, where, and how they ended."""

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pandas as pd

from reports.comparison.records import HistoryDocument, PastSet
from reports.facts.throughput_sets import read_throughput
from reports.facts.untrusted import as_mapping, items_of, read_json, text_of, whole_of
from reports.statistics.intervals import log_summary
from reports.tables.columns import record_frame
from reports.text.formatting import epoch_ms, printable
from rules.benchmarks.loader import canonical_sha256
from rules.errors import DefinitionError, InputError
from rules.judge.sets import judge_set
from rules.tree.inventory import take_inventory
from rules.tree.result_set import ResultSet

_RECORD = Path("extra") / "run_set.json"
_MOMENT = re.compile(r"(.+)-\d{8}T\d{6}Z(?:-\d+)?")


def read_history(folder: Path, *, limit: int | None = None) -> tuple[tuple[PastSet, ...], int]:
    """The run sets at or below `folder`, newest first, at most `limit`; and how many there are.

    Only those that are returned are judged. Raises InputError where `folder` is missing.
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


def history_to_json(past: Sequence[PastSet], num_found: int) -> dict[str, Any]:
    """The document of `history --format json`."""
    content: dict[str, Any] = msgspec.to_builtins(HistoryDocument(num_found=num_found, run_sets=tuple(past)))
    return content


def history_frame(past: Sequence[PastSet]) -> pd.DataFrame:
    """One row per set, as PastSet has them."""
    return record_frame(PastSet, past)


def _record(path: Path) -> tuple[Mapping[str, Any], list[str]]:
    problems: list[str] = []
    if not (path / _RECORD).exists():
        problems.append(f"{_RECORD} is missing")
    return read_json(path / _RECORD, problems), problems


def _moment(record: tuple[Mapping[str, Any], list[str]]) -> float:
    """Newest first; what does not know its time comes last."""
    moment = epoch_ms(text_of(record[0], "created_utc"))
    return -math.inf if moment is None else moment


def _past(path: Path, record: tuple[Mapping[str, Any], list[str]], sets: Sequence[ResultSet]) -> PastSet:
    content, problems = record
    known: dict[str, Any] = {
        "folder": printable(path, 300),
        "created_utc": text_of(content, "created_utc"),
        "benchmark": text_of(as_mapping(content.get("benchmark")), "name"),
        "config_digest": (digest := _digest(content)),
        "system": text_of(as_mapping(content.get("system")), "name"),
        "num_runs": whole_of(content, "num_runs"),
        "harness_version": text_of(content, "harness_version"),
        "commit": _commit(as_mapping(content.get("environment"))),
    }
    known["name"] = _given_name(text_of(content, "name"), known["benchmark"], digest)
    if problems or not content:
        return PastSet(**known, kind="broken", problem=problems[0] if problems else "run_set.json is empty")
    if content.get("kind") == "throughput" or content.get("throughput_steps") is not None:
        return _measurement(path, known)
    return _runs(sets, known)


def _measurement(path: Path, known: Mapping[str, Any]) -> PastSet:
    if not (path / "extra" / "throughput.json").exists():
        return PastSet(**known, kind="throughput", num_done=0, problem="not finished")
    try:
        measured = read_throughput(path)
    except InputError as error:
        return PastSet(**known, kind="broken", problem=str(error))
    summary = log_summary(measured.rates)
    return PastSet(
        **known,
        kind="throughput",
        num_done=len(measured.rates),
        throughput_samples_per_s=summary.geometric_mean if summary else None,
    )


def _runs(sets: Sequence[ResultSet], known: Mapping[str, Any]) -> PastSet:
    if not sets:
        return PastSet(**known, kind="runs", outcome="incomplete", num_done=0, problem="no run was finished")
    try:
        judged = judge_set(sets[0])
    except (InputError, DefinitionError, OSError) as error:
        return PastSet(**known, kind="broken", problem=printable(error))
    result = judged.result
    converged = [run for run in result.runs if run.converged]
    summary = log_summary(run.throughput_samples_per_s for run in converged)
    several = f"{len(sets)} result directories in one run set" if len(sets) > 1 else None
    return PastSet(
        **known,
        kind="runs",
        outcome=judged.verdict.outcome,
        num_done=len(result.runs),
        num_converged=len(converged),
        score_s=result.score_s,
        throughput_samples_per_s=summary.geometric_mean if summary else None,
        problem=several or result.no_score_reason,
    )


def _digest(content: Mapping[str, Any]) -> str | None:
    """As the harness names folders: of the resolved values alone."""
    values = {key: as_mapping(entry).get("value") for key, entry in items_of(content.get("config"))}
    try:
        return canonical_sha256(values)[:8] if values else None
    except (TypeError, ValueError, RecursionError):
        return None


def _given_name(folder: str | None, benchmark: str | None, digest: str | None) -> str | None:
    """What stands between benchmark and moment in a set's name, unless that is the digest."""
    found = _MOMENT.fullmatch((folder or "").removeprefix(f"{benchmark}-")) if benchmark else None
    return None if found is None or found[1] == digest else found[1]


def _commit(environment: Mapping[str, Any]) -> str | None:
    commit = text_of(environment, "commit", 12)
    if commit is None:
        return None
    return f"{commit[:12]}{'+' if environment.get('commit_is_dirty') is True else ''}"

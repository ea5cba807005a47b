"""What lies beside the logs: a run set's records and the system description.

All of it is optional, and none of it is trusted: published logs have no such files, and the ones that exist may
hold anything. A wrong type reads as "not known"; a file that cannot be read becomes one problem to show.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reports.facts.energy import Energy, read_energy
from reports.facts.traffic import Exchange, Rank, read_exchange, read_ranks
from reports.facts.untrusted import (
    MAX_ITEMS,
    as_list,
    as_mapping,
    items_of,
    positive_of,
    read_json,
    text_of,
    whole_of,
)
from reports.text.formatting import printable
from rules.tree.result_set import ResultSet

_MAX_COUNT = 1e15
_RUN = re.compile(r"run_(\d{1,6})\Z")
_ATTEMPT = re.compile(r"attempt_(\d{1,6})\Z")


@dataclass(frozen=True, kw_only=True, slots=True)
class ConfigValue:
    """One resolved value and where it came from."""

    key: str
    value: str
    source: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class PreflightCheck:
    """One look at the system before the first run."""

    name: str
    value: str
    status: str
    why: str
    remedy: str


@dataclass(frozen=True, kw_only=True, slots=True)
class RunSetRecord:
    """extra/run_set.json."""

    name: str | None
    created_utc: str | None
    harness_version: str | None
    command: str | None
    base_seed: int | None
    num_runs: int | None
    num_threads: int | None
    definition_sha256: str | None
    config: tuple[ConfigValue, ...]
    environment: tuple[tuple[str, str], ...]
    dataset: tuple[tuple[str, str], ...]
    preflight: tuple[PreflightCheck, ...]
    provenance: Mapping[str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class MeasuredBlock:
    """Training between two evaluations."""

    first_sample: int
    num_samples: int
    duration_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Attempt:
    """extra/run_<i>/attempt_<k>/run.json; an attempt without a record has only its numbers."""

    run_index: int
    attempt: int
    path: str
    seed: int | None
    status: str | None
    reason: str | None
    exit_code: int | None
    started_utc: str | None
    ended_utc: str | None
    peak_rss_bytes: float | None
    peak_device_bytes: float | None
    energy: Energy | None
    blocks: tuple[MeasuredBlock, ...]
    ranks: tuple[Rank, ...] = ()
    exchange: Exchange | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Extras:
    """Everything beside the logs of one set. `problems` are sentences about files that could not be read."""

    run_set: RunSetRecord | None
    attempts: tuple[Attempt, ...]
    system: tuple[tuple[str, str], ...]
    problems: tuple[str, ...]


def read_extras(result_set: ResultSet) -> Extras:
    """Read what there is; never raises for what the files hold."""
    problems: list[str] = []
    system = read_json(result_set.system_json, problems)
    if result_set.root is None:
        return Extras(run_set=None, attempts=(), system=_pairs(system), problems=tuple(problems))
    extra = result_set.root / "extra"
    content = read_json(extra / "run_set.json", problems)
    attempts = tuple(_attempts(extra, problems))
    return Extras(
        run_set=read_run_set(content) if content else None,
        attempts=attempts,
        system=_pairs(system),
        problems=tuple(problems),
    )


# Of what a run set records of its surroundings, these are not software.
SURROUNDINGS = frozenset(
    {
        "num_cores", "num_logical_cpus", "num_affinity_cpus", "quota_cores", "physical_memory_bytes",
        "memory_limit_bytes", "architecture", "instruction_sets", "container", "virtualization",
    }
)  # fmt: skip


def software_of(record: RunSetRecord | None) -> tuple[tuple[str, str], ...]:
    """The code that made the set, and the software around it, as (name, value)."""
    if record is None:
        return ()
    code = (("dlrmbench", record.harness_version),) if record.harness_version is not None else ()
    return (*code, *((name, value) for name, value in record.environment if name not in SURROUNDINGS))


def read_run_set(content: Mapping[str, Any]) -> RunSetRecord:
    config = (
        ConfigValue(
            key=printable(key),
            value=_shown(as_mapping(entry).get("value")),
            source=text_of(as_mapping(entry), "source"),
        )
        for key, entry in items_of(content.get("config"))
    )
    preflight = (
        PreflightCheck(**{field: printable(check.get(field) or "") for field in PreflightCheck.__dataclass_fields__})
        for check in map(as_mapping, as_list(content.get("preflight")))
    )
    return RunSetRecord(
        name=text_of(content, "name"),
        created_utc=text_of(content, "created_utc"),
        harness_version=text_of(content, "harness_version"),
        command=text_of(content, "command", max_chars=4000),
        base_seed=whole_of(content, "base_seed"),
        num_runs=whole_of(content, "num_runs"),
        num_threads=whole_of(content, "num_threads"),
        definition_sha256=text_of(as_mapping(content.get("benchmark")), "definition_sha256"),
        config=tuple(config),
        environment=_pairs(content.get("environment")),
        dataset=_pairs(content.get("dataset")),
        preflight=tuple(preflight),
        provenance=dict(_pairs(as_mapping(content.get("system")).get("provenance"))),
    )


def _attempts(extra: Path, problems: list[str]) -> Iterator[Attempt]:
    for run, run_index in _numbered(extra, _RUN):
        for folder, number in _numbered(run, _ATTEMPT):
            content = read_json(folder / "run.json", problems)
            yield Attempt(
                run_index=run_index,
                attempt=number,
                path=str(folder),
                seed=whole_of(content, "seed"),
                status=text_of(content, "status"),
                reason=text_of(content, "reason"),
                exit_code=whole_of(content, "exit_code"),
                started_utc=text_of(content, "started_utc"),
                ended_utc=text_of(content, "ended_utc"),
                peak_rss_bytes=positive_of(content, "peak_rss_bytes"),
                peak_device_bytes=positive_of(content, "peak_device_bytes"),
                energy=read_energy(content.get("energy")),
                blocks=tuple(_blocks(content.get("blocks"))),
                ranks=read_ranks(content.get("ranks")),
                exchange=read_exchange(content.get("exchange")),
            )


def _numbered(folder: Path, pattern: re.Pattern[str]) -> list[tuple[Path, int]]:
    try:
        names = [(path, match[1]) for path in folder.iterdir() if (match := pattern.match(path.name))]
    except OSError:
        return []
    return sorted(((path, int(number)) for path, number in names), key=lambda one: one[1])[:MAX_ITEMS]


def _blocks(value: object) -> Iterator[MeasuredBlock]:
    for entry in map(as_mapping, as_list(value)):
        first, number = whole_of(entry, "first_sample"), whole_of(entry, "num_samples")
        took_s = positive_of(entry, "duration_s")
        if first is None or number is None or took_s is None:
            continue
        # Beyond these no computer counts; they would only make a chart of nothing.
        if 0 <= first < _MAX_COUNT and 0 < number < _MAX_COUNT and number / took_s < _MAX_COUNT:
            yield MeasuredBlock(first_sample=first, num_samples=number, duration_s=took_s)


def _pairs(value: object) -> tuple[tuple[str, str], ...]:
    """An object's members as printable texts, nested objects as 'key.inner'."""
    found: list[tuple[str, str]] = []
    for key, entry in items_of(value):
        if isinstance(entry, dict):
            found += [
                (f"{printable(key, 80)}.{printable(inner, 80)}", _shown(deep)) for inner, deep in items_of(entry)
            ]
        else:
            found.append((printable(key, 80), _shown(entry)))
    return tuple(found[:MAX_ITEMS])


def _shown(value: object) -> str:
    if isinstance(value, str) or value is None:
        return "" if value is None else printable(value)
    try:
        return printable(json.dumps(value, ensure_ascii=False))
    except (ValueError, RecursionError):
        return "not shown: too deeply nested"

"""Reads the files stored with logs, for display: the records of a run set and the MLPerf system description.

All files are optional, since published logs have none. No file is trusted, since it may hold anything. A damaged file
is not used; one sentence that can be shown to the user says so. Texts read from valid files are made printable, and
lists in them are cut to MAX_ITEMS.
"""

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from reports.text.formatting import MAX_TEXT, brief_code, plural, printable
from rules.checks.subject import SetFiles
from rules.records.codec import Damage, Record, decode, read_object
from rules.records.experiment import ExperimentRecord, read_experiment
from rules.records.run import RunRecord
from rules.records.run_set import ChoiceRecord, RunSetRecord, ServiceChoice, ServiceWayRecord
from rules.records.study import STUDY_FILE, StudyRecord
from rules.tree.attempts import RECORD_FILE
from rules.tree.result_set import ResultSet

MAX_ITEMS = 500
_MAX_COMMAND = 4000
_RUN = re.compile(r"run_(\d{1,6})\Z")
_ATTEMPT = re.compile(r"attempt_(\d{1,6})\Z")
# Keys of a run set's recorded environment that are not software.
SURROUNDINGS = frozenset(
    {
        "num_cores", "num_logical_cpus", "num_affinity_cpus", "quota_cores", "physical_memory_bytes",
        "memory_limit_bytes", "architecture", "processor", "instruction_sets", "container", "virtualization",
    }
)  # fmt: skip
THREADS = "runtime.threads"
"""Name of a run set's setting: its number of threads."""
THREADS_TIMED = "runtime.threads, timed"
"""Name of a run set's setting: the step time with each number of threads tried, from which the number was chosen."""
_WITHOUT_TEXT = (
    msgspec.inspect.IntType,
    msgspec.inspect.FloatType,
    msgspec.inspect.BoolType,
    msgspec.inspect.NoneType,
    msgspec.inspect.LiteralType,
)
T = TypeVar("T", bound=Record)


@dataclass(frozen=True, kw_only=True, slots=True)
class Attempt:
    """Attempt to make a run, in the folder extra/run_<i>/attempt_<k>; `record` is None where its run.json is missing
    or damaged."""

    run_index: int
    attempt: int
    path: str
    record: RunRecord | None


@dataclass(frozen=True, kw_only=True, slots=True)
class SetRecords:
    """Records stored with the logs of one result set. `problems` are sentences about files that are not used."""

    run_set: RunSetRecord | None
    attempts: tuple[Attempt, ...]
    system: tuple[tuple[str, str], ...]
    problems: tuple[str, ...]


def read_record(path: Path, record_type: type[T], problems: list[str]) -> T | None:
    """Read the record in a file and make its texts printable. None if the file is missing or damaged; damage is added
    to `problems`."""
    try:
        path.lstat()
    except (OSError, ValueError):
        return None
    record = decode(path, record_type, _printable)
    if not isinstance(record, Damage):
        return record
    problems.append(_sentence(record))
    return None


def read_experiment_record(folder: Path, problems: list[str]) -> ExperimentRecord | None:
    """Read the record of the group (pair, sweep, suite or search) in `folder`. None if it is missing or damaged;
    damage is added to `problems`."""
    record = read_experiment(folder, _printable)
    if not isinstance(record, Damage):
        return record
    problems.append(_sentence(record))
    return None


def read_study(path: Path) -> StudyRecord | None:
    """Read the study (a computed or measured analysis) in a file, or in study.json of a folder; None where the file
    is missing or damaged."""
    return read_record(path / STUDY_FILE if path.is_dir() else path, StudyRecord, [])


def read_run_set(folder: Path, problems: list[str]) -> RunSetRecord | None:
    """Read the record of the run set in a folder. None if it is missing or damaged; damage is added to `problems`."""
    return read_record(folder / "extra" / "run_set.json", RunSetRecord, problems)


def read_set_records(result_set: ResultSet, files: SetFiles | None = None) -> SetRecords:
    """Read the records stored with a result set's logs. Whatever they contain, no error is raised. Records that the
    reader `files` has already read are not read again."""
    problems: list[str] = []
    system = _read_system(result_set.system_json, problems)
    if result_set.root is None:
        return SetRecords(run_set=None, attempts=(), system=system, problems=tuple(problems))
    files = SetFiles(result_set.root) if files is None else files
    known = files.run_set
    if not isinstance(known, RunSetRecord) or not _is_printable(known):
        known = read_run_set(result_set.root, problems)
    return SetRecords(
        run_set=known,
        attempts=tuple(_attempts(result_set.root / "extra", files, problems)),
        system=system,
        problems=tuple(problems),
    )


def config_texts(record: RunSetRecord | None) -> dict[str, tuple[str, str]]:
    """Return a run set's resolved configuration as a dict from a setting's key to (value, source). Automatic values
    are replaced by the values that were chosen."""
    if record is None:
        return {}
    texts = {key: (brief_code(_shown(entry.value)), entry.source) for key, entry in record.config.items()}
    if texts.get(THREADS, ("", ""))[0] == "auto":
        origin = "the cores allowed"
        if record.choice is not None:
            origin = ": ".join(filter(None, ("chosen by timing", describe_times(record.choice))))
        texts[THREADS] = (str(record.num_threads), origin)
    if record.choice is not None and record.choice.service is not None:
        for key, value in record.choice.service.settings.items():
            if texts.get(key, ("auto", ""))[0] == "auto":
                texts[key] = (str(value), "chosen by timing")
    if record.choice is not None and (matmul := record.choice.matmul) is not None:
        source = record.choice.matmul_source
        texts["runtime.matmul"] = (matmul.label, "chosen by timing" if source == "measured" else source or "")
    return texts


def describe_times(choice: ChoiceRecord) -> str:
    """Return in words the time of a training step with the chosen number of threads and with each other number tried,
    and which of the others tie with the chosen one: '10.4 ms a step; 2 threads: 10.1 ms, a tie'. Return '' if nothing
    was timed.

    For a run set that answers inference queries, the words give the simulated queries/s instead.
    """
    if choice.service is not None:
        return _describe_services(choice.service)
    chosen = choice.chosen_way
    if chosen is None:
        return ""
    tied = {way.num_threads for way in choice.tied}
    least_s: dict[int, float] = {}
    for way in choice.tried:
        least_s[way.num_threads] = min(way.step_s, least_s.get(way.num_threads, way.step_s))
    others = (
        f"{plural(count, 'thread')}: {step_s * 1e3:.3g} ms{', a tie' if count in tied else ''}"
        for count, step_s in sorted(least_s.items())[:MAX_ITEMS]
        if count != chosen.num_threads
    )
    ways = [] if choice.in_fp32 is None else [choice.in_fp32]
    fp32 = (f"in fp32 {way.step_s * 1e3:.3g} ms on {plural(way.num_threads, 'thread')}" for way in ways)
    return "; ".join((f"{chosen.step_s * 1e3:.3g} ms a step", *others, *fp32))


def describe_way(way: ServiceWayRecord) -> str:
    """Return in words how an inference server answers queries: "2 workers, 2 threads, up to 256 items a call"."""
    parts = [plural(way.num_workers, "worker"), plural(way.num_threads, "thread")]
    parts += [] if way.batch_items is None else [f"up to {plural(way.batch_items, 'item')} a call"]
    parts += [] if way.split_items is None else [f"split from {way.split_items} items"]
    return ", ".join(parts)


def _describe_services(service: ServiceChoice) -> str:
    """Return in words how each setting (numbers of workers and threads) that was tried but not chosen compares with
    the chosen one. The words give its simulated queries/s, with its fastest way of batching, in percent of the
    simulated queries/s of the chosen setting.

    The rates themselves are left out, because a rate measured later under another load of the system would seem to
    contradict them.
    """
    best: dict[tuple[int, int], ServiceWayRecord] = {}
    for way in sorted(service.tried, key=lambda way: way.queries_per_s):
        best[way.setup[:2]] = way
    best.pop(service.chosen.setup[:2], None)
    plain = [way for way in service.tried if way.setup == (*service.chosen.setup[:2], None, None)]
    others = [("a call for each query", plain[0])] if plain and service.chosen.batch_items is not None else []
    others += [(describe_way(way), way) for _, way in sorted(best.items())[:MAX_ITEMS]]
    chosen = service.chosen.queries_per_s
    shares = [f"{name}: {way.queries_per_s / chosen * 100:.0f} % of its queries" for name, way in others]
    return "; ".join(("simulated", *shares)) if shares else ""


def environment_texts(record: RunSetRecord | None) -> dict[str, str]:
    """Return the recorded environment of a run set, software and system, as a dict from names to texts."""
    return dict(pairs(record.environment)) if record else {}


def software_of(record: RunSetRecord | None) -> tuple[tuple[str, str], ...]:
    """Return dlrmbench's version and the other software of a run set, as (name, value)."""
    if record is None:
        return ()
    around = ((name, value) for name, value in environment_texts(record).items() if name not in SURROUNDINGS)
    return (("dlrmbench", record.harness_version), *around)


def code_setting(codes: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Return the digests of the code that ran, shortened, as a setting (name, value); empty where they are
    unknown."""
    return (("code", ", ".join(code[:12] for code in codes)),) if codes else ()


def commit_of(record: RunSetRecord) -> str | None:
    """Return the first 12 characters of the code commit with which a run set was made, with a + where the code's
    files differed from the commit; None if unknown."""
    return brief_commit(record.environment.get("commit"), record.environment.get("commit_is_dirty"))


def brief_commit(commit: object, is_dirty: object) -> str | None:
    """Return the first 12 characters of a code commit, with a + where the code's files differed from the commit; None
    where the commit is unknown."""
    if not isinstance(commit, str) or not commit:
        return None
    return f"{printable(commit[:12])}{'+' if is_dirty is True else ''}"


def settings_of(record: RunSetRecord | None) -> tuple[tuple[str, str], ...]:
    """Return the settings of a run set as (name, value): its resolved configuration, then its software."""
    times = "" if record is None or record.choice is None else describe_times(record.choice)
    timed = ((THREADS_TIMED, times),) if times else ()
    return (*((name, value) for name, (value, _) in config_texts(record).items()), *timed, *software_of(record))


def pairs(content: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return a JSON object's members as a dict from names to texts, at most MAX_ITEMS. A member of a nested object
    has a name such as 'key.inner'."""
    found: list[tuple[str, str]] = []
    for key, entry in content.items():
        if isinstance(entry, dict):
            found += [(f"{key}.{inner}", _shown(deep)) for inner, deep in entry.items()]
        else:
            found.append((key, _shown(entry)))
    return tuple(found[:MAX_ITEMS])


def _read_system(path: Path | None, problems: list[str]) -> tuple[tuple[str, str], ...]:
    """Read an MLPerf system description with whatever fields it has, even wrong ones, which the rules report; empty
    where the file is missing or damaged."""
    content = read_object(path) if path is not None else {}
    if isinstance(content, Damage):
        problems.append(_sentence(content))
        return ()
    return pairs(_printable(content))


def _sentence(damage: Damage) -> str:
    return printable(f"{damage}; not used.")


def _attempts(extra: Path, files: SetFiles, problems: list[str]) -> Iterator[Attempt]:
    for run_index, number, folder, place in _attempt_folders(extra, files):
        record = files.known_run_record(place) if place is not None else None
        if record is None or not _is_printable(record):
            record = read_record(Path(folder) / RECORD_FILE, RunRecord, problems)
        yield Attempt(run_index=run_index, attempt=number, path=folder, record=record)


def _attempt_folders(extra: Path, files: SetFiles) -> Iterator[tuple[int, int, str, Path | None]]:
    """Yield (run, attempt, folder, record file) for every entry of extra/ that has the name of an attempt, links
    included."""
    listed = files.run_folders
    if listed.is_all and len(listed.by_name) <= MAX_ITEMS:
        for run in listed.by_name.values():
            for attempt in run.attempts[:MAX_ITEMS]:
                yield run.number, attempt.number, attempt.path, attempt.record
        return
    for run_folder, run_index in _numbered(extra, _RUN):
        for folder, number in _numbered(run_folder, _ATTEMPT):
            yield run_index, number, str(folder), folder / RECORD_FILE


def _numbered(folder: Path, pattern: re.Pattern[str]) -> list[tuple[Path, int]]:
    try:
        with os.scandir(folder) as entries:
            found = [(entry.name, int(match[1])) for entry in entries if (match := pattern.match(entry.name))]
    except OSError:
        return []
    return [(folder / name, number) for name, number in sorted(found, key=lambda entry: entry[1])[:MAX_ITEMS]]


def _printable(value: Any, key: str = "") -> Any:
    if isinstance(value, str):
        return printable(value, _MAX_COMMAND) if key == "command" else printable(value)
    if isinstance(value, list):
        return [_printable(entry) for entry in value[:MAX_ITEMS]]
    if isinstance(value, dict):
        return {printable(key, 80): _printable(entry, key) for key, entry in list(value.items())[:MAX_ITEMS]}
    return value


def _is_printable(value: Any, key: str = "") -> bool:
    """Return whether all texts of a record, or of a part of one, are printable and no list is longer than
    MAX_ITEMS."""
    if isinstance(value, str):
        return printable(value, _MAX_COMMAND if key == "command" else MAX_TEXT) == value
    if isinstance(value, msgspec.Struct):
        return all(_is_printable(getattr(value, name), name) for name in _members_with_text(type(value)))
    if isinstance(value, tuple | list):
        if value and isinstance(value[0], msgspec.Struct) and not _members_with_text(type(value[0])):
            return len(value) <= MAX_ITEMS  # all items are of one type, which holds only numbers
        return len(value) <= MAX_ITEMS and all(map(_is_printable, value))
    if isinstance(value, dict):
        return len(value) <= MAX_ITEMS and all(
            printable(name, 80) == name and _is_printable(entry, name) for name, entry in value.items()
        )
    return True


@cache
def _members_with_text(record_type: type[msgspec.Struct]) -> tuple[str, ...]:
    """Return the names of a record type's fields that may hold text of any content, which has to be made
    printable."""
    info = msgspec.inspect.type_info(record_type)
    assert isinstance(info, msgspec.inspect.StructType)
    return tuple(field.name for field in info.fields if _holds_text(field.type))


def _holds_text(info: msgspec.inspect.Type) -> bool:
    if isinstance(info, msgspec.inspect.Metadata):
        return _holds_text(info.type)
    if isinstance(info, msgspec.inspect.UnionType):
        return any(map(_holds_text, info.types))
    return not isinstance(info, _WITHOUT_TEXT)


def _shown(value: object) -> str:
    if isinstance(value, str) or value is None:
        return value or ""
    return printable(json.dumps(value, ensure_ascii=False))

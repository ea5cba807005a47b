"""Timelines: what sets of one benchmark, configuration and system measured, in their order, and what changed."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import numpy as np

from harness.extensions.history.change_points import Changes, find_changes
from reports.results.find import brief_name
from reports.results.measured import centre_of, find_measured
from reports.results.provenance import name_of
from reports.results.records import commit_of, read_run_set
from reports.results.result import HARDWARE, Result, System, make_runs
from reports.statistics.intervals import NOMINAL, Interval
from reports.statistics.ratios import Floats, factor_from, welch_difference
from reports.text.formatting import epoch_ms, printable
from rules.benchmarks.loader import canonical_sha256
from rules.errors import InputError
from rules.logs.log import read_log
from rules.records.measure import Measure
from rules.scoring.results import read_run_result
from rules.tree.inventory import find_in_processes, take_inventory
from rules.tree.result_set import ResultSet

_TRAINED = (
    Measure(title="Time to train", value="time_to_train_s", unit="s", scale="ratio", direction="lower", columns=()),
    Measure(
        title="Throughput",
        value="throughput_samples_per_s",
        unit="samples/s",
        scale="ratio",
        direction="higher",
        columns=(),
    ),
)
"""What is drawn of runs to a target; `value` is a member of RunResult."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Point:
    """One set: its mean over runs or processes, geometric where ratios are compared, with the mean's interval."""

    result: Result
    time_ms: float
    value: float
    interval: Interval | None
    code: str
    """First characters of the digest of the code that measured, of runs of that which began the set."""
    commit: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ChangePoint:
    """Between two sets: `step` is the mean after it over that before, or less it, with a 95 % interval (Welch) that
    takes its place as known; `at` is the place of the first set after it."""

    at: int
    step: float
    low: float
    high: float
    is_worse: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Timeline:
    """One quantity of sets that differ in time, code, software and defaults alone."""

    name: str
    measure: Measure
    points: tuple[Point, ...]
    found: Changes = field(default_factory=Changes)
    changes: tuple[ChangePoint, ...] = ()

    @property
    def is_ratio(self) -> bool:
        return self.measure.scale == "ratio"

    @property
    def values(self) -> Floats:
        """What is compared [sets]: logarithms where `is_ratio`."""
        values = np.asarray([point.value for point in self.points], dtype=np.float64)
        return np.log(values) if self.is_ratio else values

    @property
    def parts(self) -> tuple[tuple[int, int], ...]:
        """The place of the first set of each part between changes, and that behind its last."""
        return tuple(pairwise((0, *(change.at for change in self.changes), len(self.points))))

    @property
    def rise(self) -> float:
        """The last value over the first, or less it, of the straight line through all values."""
        slope = float(np.polyfit(np.arange(len(self.points)), self.values, 1)[0]) * (len(self.points) - 1)
        return float(factor_from(slope)) if self.is_ratio else slope

    @property
    def spread(self) -> float:
        """The standard deviation of sets of one code between two changes, of what is compared; 0 where no two are."""
        groups: dict[tuple[int, str], list[float]] = {}
        for start, stop in self.parts:
            for point, value in zip(self.points[start:stop], self.values[start:stop], strict=True):
                groups.setdefault((start, point.code), []).append(float(value))
        squares = sum(len(group) * float(np.var(group)) for group in groups.values())
        return float(np.sqrt(squares / max(sum(len(group) - 1 for group in groups.values()), 1)))


def read_timelines(folder: Path) -> tuple[tuple[Timeline, ...], int]:
    """Read all sets at or below `folder`, and find what changed; the timeline with the newest set first.

    Nothing is judged. Also returned is how many sets are on no timeline: without record, moment or value, not
    finished, or copies. Raises InputError where `folder` cannot be read.
    """
    inventory = take_inventory(folder)
    trained = [_read_runs(result_set) for result_set in inventory.result_sets]
    measured = [find_measured(place, kind, []) for place, kind in find_in_processes(inventory)]
    lines: dict[str, list[Timeline]] = {}
    seen: set[tuple[tuple[str, float, float], ...]] = set()
    for result in filter(None, (*trained, *measured)):
        made = list(_lines_of(result))
        mark = tuple((key, line.points[0].time_ms, line.points[0].value) for key, line in made)  # a copy has it, too
        for key, line in made if mark not in seen else ():
            lines.setdefault(key, []).append(line)
        seen.add(mark)
    joined = [
        replace(parts[-1], points=tuple(part.points[0] for part in parts))
        for parts in (sorted(line, key=lambda part: part.points[0].time_ms) for line in lines.values())
    ]
    joined.sort(key=lambda line: -line.points[-1].time_ms)
    joined = _tell_apart(joined)
    found = find_changes([line.values for line in joined])
    read = {result_set.root for result_set in inventory.result_sets}
    read |= {place for place, _ in find_in_processes(inventory)}
    num_bare = len(set(inventory.run_sets) - read)  # of which no run was finished
    num_left_out = len(trained) + len(measured) + num_bare - len(seen - {()})
    return tuple(map(_with_changes, joined, found)), num_left_out


def _read_runs(result_set: ResultSet) -> Result | None:
    """What the logs of a set of our own say; None of another, and where one cannot be read."""
    folder = result_set.root
    asked = None if folder is None else read_run_set(folder, [])
    if folder is None or asked is None:
        return None
    try:
        runs = make_runs([read_run_result(read_log(log)) for log in result_set.logs])
    except (InputError, OSError):
        return None
    system = System(name=asked.system.name, fields=tuple(asked.system.fields.items()))
    benchmark = asked.benchmark.name
    return Result(
        label=name_of(folder),
        source="logs",
        place=folder,
        benchmark=benchmark,
        repetitions=runs,
        system=system,
        asked=asked,
    )


def _lines_of(result: Result) -> Iterator[tuple[str, Timeline]]:
    """What a set says of each of its quantities, as a timeline of its own, with the digest of what makes it one."""
    asked = result.asked
    time_ms = epoch_ms(asked.created_utc) if asked is not None else None
    if asked is None or time_ms is None or (asked.until is None and result.num_runs < asked.num_runs):
        return
    code = ", ".join(code[:12] for code in result.codes or filter(None, (asked.code_sha256,))) or "unknown"
    fields = [asked.system.fields.get(name, "") for name in HARDWARE]
    shared = {
        "kind": [asked.kind, asked.options, asked.division, *(map(list, result.stated) if result.measured else ())],
        "benchmark": [asked.benchmark.definition_sha256, asked.dataset.dataset_sha256],
        # A version that has a new key, or another default, goes on.
        "config": {key: entry.value for key, entry in asked.config.items() if entry.source != "default"},
        "system": fields if any(fields) else asked.system.name,
    }
    for measure in _TRAINED if result.measured is None else (result.measure,):
        if result.measured is None:
            summary = result.summary(measure.value)
            value, interval = (summary.geometric_mean, summary.interval) if summary else (None, None)
        else:
            value, interval = centre_of(result)
        if value is None or not np.isfinite(value) or (measure.scale == "ratio" and value <= 0):
            continue
        several = result.several_commits
        commit = f"several: {several}" if several else commit_of(asked) or "unknown"
        point = Point(result=result, time_ms=time_ms, value=value, interval=interval, code=code, commit=commit)
        label = brief_name(result).removeprefix(f"{result.benchmark_name}, ")
        name = f"{measure.name} of {result.benchmark_name}, {printable(label, 60)}"
        try:
            key = canonical_sha256(shared | {"quantity": [measure.name, measure.unit]})
        except ValueError:  # text that is no UTF-8
            continue
        yield key, Timeline(name=name, measure=measure, points=(point,))


def _tell_apart(lines: list[Timeline]) -> list[Timeline]:
    """Name lines of one name by what sets them apart as well: at most two of their settings, else their first day."""
    groups: dict[str, list[int]] = {}
    for at, line in enumerate(lines):
        groups.setdefault(line.name, []).append(at)
    named = list(lines)
    for places in (group for group in groups.values() if len(group) > 1):
        facts = [_facts_of(lines[at]) for at in places]
        keys = [key for key in dict.fromkeys(key for each in facts for key in each) if _differs(key, facts)]
        for at, each in zip(places, facts, strict=True):
            told = [f"{key} {each.get(key, 'by default')}" for key in keys[:2]]
            since = f"since {datetime.fromtimestamp(lines[at].points[0].time_ms / 1e3, UTC):%Y-%m-%d}"
            named[at] = replace(lines[at], name=f"{lines[at].name}, {printable(', '.join(told) or since, 80)}")
    return named


def _facts_of(line: Timeline) -> dict[str, str]:
    """What may set a line apart from another of its name, by its newest set."""
    asked = line.points[-1].result.asked
    if asked is None:
        return {}
    given = {key: str(entry.value) for key, entry in asked.config.items() if entry.source != "default"}
    return {
        "system": asked.system.name,
        **{field: asked.system.fields.get(field, "") for field in HARDWARE},
        "division": asked.division,
        "definition": asked.benchmark.definition_sha256[:8],
        "data": (asked.dataset.dataset_sha256 or "")[:8],
        **{name: str(value) for name, value in asked.options.items()},
        **given,
    }


def _differs(key: str, facts: list[dict[str, str]]) -> bool:
    return len({each.get(key) for each in facts}) > 1


def _with_changes(line: Timeline, found: Changes) -> Timeline:
    bounds, values = (0, *found.places, len(line.points)), line.values
    changes = []
    for start, at, stop in zip(bounds, bounds[1:], bounds[2:], strict=False):
        difference = welch_difference(values[start:at], values[at:stop], step=0.0)
        mean, reach = float(difference.mean), float(difference.reach(1.0 - NOMINAL))
        ends = (mean, mean - reach, mean + reach)
        step, low, high = map(factor_from, ends) if line.is_ratio else ends
        is_worse = (mean > 0) == (line.measure.direction == "lower")
        changes.append(ChangePoint(at=at, step=step, low=low, high=high, is_worse=is_worse))
    return replace(line, found=found, changes=tuple(changes))

"""Sort run sets into series, one for each benchmark, configuration, system and measured quantity, in the order of
time, and find when the quantity changed."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
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
"""Quantities of runs that train to a target quality, such as throughput, of which the history makes a series over
time."""
NO_RECORD = "without an extra/run_set.json that can be read"
DAMAGED = "with logs or values that cannot be read"
UNFINISHED = "not finished"
NO_DATE = "without a date"
NO_VALUE = "without a value to compare"
IDENTICAL = "identical to another set"


class _OnNoSeriesError(Exception):
    """Error that a run set is part of no series; its text is the reason, in words that can follow a count of run
    sets: '3 sets without a date'."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SeriesPoint:
    """Point of a series, one run set: the mean of its quantity over runs or processes (the geometric mean where
    ratios are compared), with the mean's confidence interval."""

    result: Result
    time_ms: float
    value: float
    interval: Interval | None
    code: str
    """First 12 characters of the digest of the code that was measured; several digests are separated by commas. If
    the results have no digest, it is the digest of the code with which the run set was begun. It is 'unknown' if the
    run set has no digest either."""
    commit: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ChangePoint:
    """Change of the mean of a series between two neighbouring run sets. The 95 % interval (Welch) of the change's
    size assumes that the place of the change is right.

    `step` is the ratio of the mean after the change to the mean before it. For a quantity that is compared by
    differences, `step` is the mean after the change minus the mean before it. `at` is the index of the first set
    after the change.
    """

    at: int
    step: float
    low: float
    high: float
    is_worse: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class SetSeries:
    """Series of one quantity of run sets that differ only in time, code, software and default values."""

    name: str
    measure: Measure
    points: tuple[SeriesPoint, ...]
    found: Changes = field(default_factory=Changes)
    changes: tuple[ChangePoint, ...] = ()

    @property
    def is_ratio(self) -> bool:
        return self.measure.scale == "ratio"

    @property
    def values(self) -> Floats:
        """Values of the series that are compared [sets]: logarithms where `is_ratio`."""
        values = np.asarray([point.value for point in self.points], dtype=np.float64)
        return np.log(values) if self.is_ratio else values

    @property
    def parts(self) -> tuple[tuple[int, int], ...]:
        """Parts of the series between changes, each as the index of its first run set and the index that follows its
        last one."""
        return tuple(pairwise((0, *(change.at for change in self.changes), len(self.points))))

    @property
    def rise(self) -> float:
        """Ratio of the last to the first value of the straight line through all values of the series; their
        difference where not `is_ratio`."""
        slope = float(np.polyfit(np.arange(len(self.points)), self.values, 1)[0]) * (len(self.points) - 1)
        return float(factor_from(slope)) if self.is_ratio else slope

    @property
    def spread(self) -> float:
        """Standard deviation of `values` within groups of run sets that have the same code and no change between
        them; 0 where no group has two run sets."""
        groups: dict[tuple[int, str], list[float]] = {}
        for start, stop in self.parts:
            for point, value in zip(self.points[start:stop], self.values[start:stop], strict=True):
                groups.setdefault((start, point.code), []).append(float(value))
        squares = sum(len(group) * float(np.var(group)) for group in groups.values())
        return float(np.sqrt(squares / max(sum(len(group) - 1 for group in groups.values()), 1)))


def read_series(folder: Path) -> tuple[tuple[SetSeries, ...], Mapping[str, int]]:
    """Return the series of all run sets at or below `folder`, with their changes. The series with the newest run set
    comes first. Run sets are not checked against MLPerf's rules.

    Also return how many run sets belong to no series, as a dict from the reason to the number of sets; the most
    frequent reason comes first. Raises InputError if `folder` cannot be read.
    """
    inventory = take_inventory(folder)
    in_processes = find_in_processes(inventory)
    reads: list[Callable[[], Result]] = [
        *(partial(_read_runs, result_set) for result_set in inventory.result_sets),
        *(partial(_read_measured, place, kind) for place, kind in in_processes),
    ]
    begun: dict[str, list[SetSeries]] = {}
    seen: set[tuple[tuple[str, float, float], ...]] = set()
    left_out = Counter[str]()
    for read in reads:
        try:
            made = _series_of(read())
        except _OnNoSeriesError as reason:
            left_out[str(reason)] += 1
            continue
        mark = tuple((key, series.points[0].time_ms, series.points[0].value) for key, series in made)
        if mark in seen:
            left_out[IDENTICAL] += 1
            continue
        seen.add(mark)
        for key, series in made:
            begun.setdefault(key, []).append(series)
    joined = [
        replace(parts[-1], points=tuple(part.points[0] for part in parts))
        for parts in (sorted(parts, key=lambda part: part.points[0].time_ms) for parts in begun.values())
    ]
    joined.sort(key=lambda series: -series.points[-1].time_ms)
    joined = _tell_apart(joined)
    found = find_changes([series.values for series in joined])
    finished = {result_set.root for result_set in inventory.result_sets} | {place for place, _ in in_processes}
    left_out[UNFINISHED] += len(set(inventory.run_sets) - finished)
    return tuple(map(_with_changes, joined, found)), {why: num for why, num in left_out.most_common() if num}


def _read_runs(result_set: ResultSet) -> Result:
    """Return the result of a run set's logs. Raises _OnNoSeriesError if the run set has no readable
    extra/run_set.json, as those of other harnesses, or if a log is damaged."""
    folder = result_set.root
    asked = None if folder is None else read_run_set(folder, [])
    if folder is None or asked is None:
        raise _OnNoSeriesError(NO_RECORD)
    try:
        runs = make_runs([read_run_result(read_log(log)) for log in result_set.logs])
    except (InputError, OSError):
        raise _OnNoSeriesError(DAMAGED) from None
    return Result(
        label=name_of(folder),
        source="logs",
        place=folder,
        benchmark=asked.benchmark.name,
        repetitions=runs,
        system=System(name=asked.system.name, fields=tuple(asked.system.fields.items())),
        asked=asked,
    )


def _read_measured(folder: Path, kind: str) -> Result:
    """Return the result of a measurement in several processes. Raises _OnNoSeriesError where its file is damaged."""
    if (result := find_measured(folder, kind, [])) is None:
        raise _OnNoSeriesError(DAMAGED)
    return result


def _series_of(result: Result) -> list[tuple[str, SetSeries]]:
    """Return a series of one point for each quantity of a result, each with a digest. Results whose digests are equal
    belong to one series: the digest is of everything that run sets of a series must have in common. Raises
    _OnNoSeriesError if the result can belong to no series."""
    asked = result.asked
    if asked is None:
        raise _OnNoSeriesError(NO_RECORD)
    if (time_ms := epoch_ms(asked.created_utc)) is None:
        raise _OnNoSeriesError(NO_DATE)
    if asked.until is None and result.num_runs < asked.num_runs:
        raise _OnNoSeriesError(UNFINISHED)
    code = ", ".join(code[:12] for code in result.codes or filter(None, (asked.code_sha256,))) or "unknown"
    fields = [asked.system.fields.get(name, "") for name in HARDWARE]
    shared = {
        "kind": [asked.kind, asked.options, asked.division, *(map(list, result.stated) if result.measured else ())],
        "benchmark": [asked.benchmark.definition_sha256, asked.dataset.dataset_sha256],
        # A version that has a new key, or another default, goes on.
        "config": {key: entry.value for key, entry in asked.config.items() if entry.source != "default"},
        "system": fields if any(fields) else asked.system.name,
    }
    made = []
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
        point = SeriesPoint(result=result, time_ms=time_ms, value=value, interval=interval, code=code, commit=commit)
        label = brief_name(result).removeprefix(f"{result.benchmark_name}, ")
        name = f"{measure.name} of {result.benchmark_name}, configuration {printable(label, 60)}"
        try:
            key = canonical_sha256(shared | {"quantity": [measure.name, measure.unit]})
        except ValueError:  # text that is no UTF-8
            raise _OnNoSeriesError(DAMAGED) from None
        made.append((key, SetSeries(name=name, measure=measure, points=(point,))))
    if not made:
        raise _OnNoSeriesError(NO_VALUE)
    return made


def _tell_apart(every: list[SetSeries]) -> list[SetSeries]:
    """Make the names of all series distinct. Where series share a name, up to two settings in which they differ are
    added to each name; where no setting differs, the day of the first run set."""
    groups: dict[str, list[int]] = {}
    for at, series in enumerate(every):
        groups.setdefault(series.name, []).append(at)
    named = list(every)
    for places in (group for group in groups.values() if len(group) > 1):
        facts = [_facts_of(every[at]) for at in places]
        keys = [key for key in dict.fromkeys(key for each in facts for key in each) if _differs(key, facts)]
        for at, each in zip(places, facts, strict=True):
            told = [f"{key} {each.get(key, 'by default')}" for key in keys[:2]]
            since = f"since {datetime.fromtimestamp(every[at].points[0].time_ms / 1e3, UTC):%Y-%m-%d}"
            named[at] = replace(every[at], name=f"{every[at].name}, {printable(', '.join(told) or since, 80)}")
    return named


def _facts_of(series: SetSeries) -> dict[str, str]:
    """Return the settings of a series' newest run set by which series of equal name can be told apart. The keys are
    the settings' names."""
    asked = series.points[-1].result.asked
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


def _with_changes(series: SetSeries, found: Changes) -> SetSeries:
    bounds, values = (0, *found.places, len(series.points)), series.values
    changes = []
    for start, at, stop in zip(bounds, bounds[1:], bounds[2:], strict=False):
        difference = welch_difference(values[start:at], values[at:stop], step=0.0)
        mean, reach = float(difference.mean), float(difference.reach(1.0 - NOMINAL))
        ends = (mean, mean - reach, mean + reach)
        step, low, high = map(factor_from, ends) if series.is_ratio else ends
        is_worse = (mean > 0) == (series.measure.direction == "lower")
        changes.append(ChangePoint(at=at, step=step, low=low, high=high, is_worse=is_worse))
    return replace(series, found=found, changes=tuple(changes))

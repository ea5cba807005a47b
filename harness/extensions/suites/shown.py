"""Show the results of a suite: each benchmark's new configuration against its base, and the geometric mean of the
ratios."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import get_args

from reports.comparison.comparison import CONFIDENCE, compare_pairs
from reports.comparison.factor import factor_of, ratio_text
from reports.comparison.pairing import pair_runs
from reports.comparison.records import Comparison, FactorComparison
from reports.comparison.sweep import SweepRow, read_rows
from reports.kinds.details import Details
from reports.results.records import THREADS, read_experiment_record
from reports.results.result import Result
from reports.statistics.intervals import Interval
from reports.statistics.ratios import Verdict, factor_from, mean_difference
from reports.text.formatting import brief_code, capital, names, percent, plural, printable
from reports.text.formatting import interval as bounds
from rules.errors import InputError
from rules.records.experiment import BASE, NEW, SIDES
from rules.records.study import Cell, StudyColumn, StudyTable


@dataclass(frozen=True, kw_only=True, slots=True)
class SuiteRow:
    """One benchmark of a suite with its results in base and new settings. If it has a `failure`, the reason why it
    has no ratio, it is left out of the mean."""

    benchmark: str
    base: Result | None
    new: Result | None
    comparison: Comparison | None = None
    failure: str | None = None

    @property
    def whole(self) -> FactorComparison | None:
        """Comparison of base and new by the whole quantity, such as time to train, and not by its factors, such as
        epochs. None if the benchmark failed."""
        return self.comparison.whole if self.comparison is not None and self.failure is None else None


@dataclass(frozen=True, kw_only=True, slots=True)
class GeometricMean:
    """Geometric mean of the benchmarks' ratios new / base, with its confidence interval for these benchmarks. The
    interval is None if a benchmark has only one pair of runs."""

    ratio: float
    interval: Interval | None
    num_benchmarks: int


@dataclass(frozen=True, kw_only=True, slots=True)
class SuiteFacts:
    """Results of all benchmarks of a suite, in the suite's order, and the mean ratio of the benchmarks that did not
    fail. The mean is None if all failed."""

    name: str
    kind: str
    base_seed: int
    num_runs: int
    rows: tuple[SuiteRow, ...]
    mean: GeometricMean | None
    problems: tuple[str, ...]

    @property
    def failed(self) -> tuple[SuiteRow, ...]:
        return tuple(row for row in self.rows if row.failure is not None)

    @property
    def title(self) -> str:
        """Title that says the suite's results in one line: every verdict with its benchmarks, the mean, and the
        benchmarks that failed."""
        base, new = self.side_names
        verdicts = [words.removesuffix(".") for words in _verdict_words(self.rows, most=3)]
        parts = [
            *(words[:1].lower() + words[1:] for words in verdicts),
            _brief_ratio(self),
            *([f"failed: {names([row.benchmark for row in self.failed])}"] if self.failed else []),
        ]
        return f"{new} against {base}: {'; '.join(parts)}"

    @property
    def settings(self) -> dict[str, tuple[str, str]]:
        """Settings that differ between base and new in all benchmarks of the suite, by key: base's value and
        new's."""
        found: list[dict[str, tuple[str, str]]] = []
        for row in self.rows:
            asked = [side.asked.config for side in (row.base, row.new) if side is not None and side.asked is not None]
            if len(asked) == len(SIDES):
                base, new = ({key: brief_code(printable(of[key].value, 60)) for key in of} for of in asked)
                found.append({key: (base[key], new[key]) for key in base if base[key] != new.get(key, base[key])})
        shared = found[0] if found else {}
        return {key: values for key, values in shared.items() if all(each.get(key) == values for each in found)}

    @property
    def side_names(self) -> tuple[str, str]:
        """Names of base and new. If they differ in one setting only, they are named by its values, such as
        'threads=1' and 'threads=2'; otherwise 'base' and 'new'."""
        settings = {key: values for key, values in self.settings.items() if key != THREADS} or self.settings
        if len(settings) != 1:
            return BASE, NEW
        ((key, (base, new)),) = settings.items()
        name = "" if key == "runtime.implementation" else f"{key.partition('.')[2]}="
        return f"{name}{base}", f"{name}{new}"

    @property
    def findings(self) -> tuple[str, ...]:
        """Findings of the suite: the verdicts by name, failures, the mean, and the level of confidence."""
        return tuple(filter(None, (*_verdict_words(self.rows), _failed_words(self), _mean_words(self), _FAMILY)))

    @property
    def tables(self) -> tuple[StudyTable, ...]:
        """Table of all benchmarks of the suite, and table of their mean."""
        names = self.side_names
        return _rows_table(self.rows, names), *(() if self.mean is None else (_mean_table(self.mean, names),))


_FAMILY = (
    "Verdicts use significance levels adjusted by Holm's method over all benchmarks of the suite: if base and new do "
    f"not differ, at most {percent(1 - CONFIDENCE, 0)} of suites show a difference in any benchmark."
)
_INTERVAL = f"{percent(CONFIDENCE, 0)} interval"


def read_suite_facts(folder: Path, *, known: Sequence[Result] = ()) -> SuiteFacts:
    """Return the results of the suite in `folder`: read, judged and compared. Raises InputError if there is none.

    Results in `known` are not judged again.
    """
    problems: list[str] = []
    record = read_experiment_record(folder, problems)
    if record is None or record.relation != "suite":
        why = problems[0] if problems else f"{printable(folder)}: holds no suite."
        raise InputError(f"{why} Give the folder that 'dlrmbench suite' made.")
    sides = read_rows(folder, record, problems, known=known)
    rows = compare_suite([(base, new) for (base, new) in list(pairwise(sides))[::2]])
    return SuiteFacts(
        name=printable(record.name or folder.name, 120),
        kind=record.kind,
        base_seed=record.base_seed,
        num_runs=record.num_runs,
        rows=rows,
        mean=find_mean(rows),
        problems=tuple(problems),
    )


def compare_suite(pairs: Sequence[tuple[SweepRow, SweepRow]]) -> tuple[SuiteRow, ...]:
    """Return the comparison of base and new for each benchmark of a suite; all benchmarks are one family of tests."""
    rows = [
        SuiteRow(
            benchmark=base.values[0] if base.values else base.label,
            base=None if base.result is None else replace(base.result, label=base.label),
            new=None if new.result is None else replace(new.result, label=new.label),
            failure=next(filter(None, map(_why_failed, (base, new))), None),
        )
        for base, new in pairs
    ]
    whole = [(row.base, row.new) for row in rows if row.failure is None and row.base and row.new]
    compared = iter(compare_pairs(whole, explained=()))
    return tuple(row if row.failure is not None else _with_comparison(row, next(compared)) for row in rows)


def _with_comparison(row: SuiteRow, comparison: Comparison) -> SuiteRow:
    whole = comparison.whole
    lacks = None if whole is not None and whole.ratio is not None else "no ratio is known"
    return replace(row, comparison=comparison, failure=comparison.refusal or lacks)


def _why_failed(row: SweepRow) -> str | None:
    """Return the reason why a configuration, base or new, of a benchmark has no result that counts; None if it has a
    result that counts."""
    result = row.result
    if row.failure is not None:
        return f"{row.label}: {row.failure}"
    if result is None or not result.num_runs:
        return f"{row.label}: nothing was measured"
    if result.outcome == "invalid":
        return f"{row.label}: INVALID by the rules"
    if result.num_runs - result.num_converged > result.num_tolerated:
        return f"{row.label}: {result.num_converged} of {plural(result.num_runs, 'run')} reached the target"
    return None


def find_mean(rows: Sequence[SuiteRow], confidence: float = CONFIDENCE) -> GeometricMean | None:
    """Return the geometric mean of the ratios new / base of all benchmarks that did not fail; None if all failed."""
    logs, differences = [], []
    for row in rows:
        whole = row.whole
        if whole is not None and whole.ratio and row.base is not None and row.new is not None:
            logs.append(math.log(whole.ratio))
            differences.append(pair_runs(row.base.samples, row.new.samples).difference(whole.name))
    if not logs:
        return None
    middle, interval = sum(logs) / len(logs), None
    known = [each for each in differences if each is not None]
    if len(known) == len(logs):
        reach = float(mean_difference(known).reach(1.0 - confidence))
        interval = Interval(
            low=factor_from(middle - reach),
            high=factor_from(middle + reach),
            confidence=confidence,
            method="Student's t on the mean of the logarithms, Satterthwaite's degrees of freedom",
        )
    return GeometricMean(ratio=factor_from(middle), interval=interval, num_benchmarks=len(logs))


def _ratio_words(facts: SuiteFacts) -> str:
    """Return a sentence, without its full stop, on the mean ratio: 'Throughput of threads=2 / threads=1 is 1.75 (95 %
    interval 1.48 – 2.07), geometric mean of 2 benchmarks; above 1 is better'; or that no benchmark has a ratio."""
    mean, whole = facts.mean, next((row.whole for row in facts.rows if row.whole is not None), None)
    if mean is None or whole is None:
        return "No benchmark of the suite has a ratio"
    within = ""
    if (found := mean.interval) is not None:
        within = f" ({_INTERVAL} {bounds(ratio_text(found.low), ratio_text(found.high))})"
    factor = factor_of(whole.name)
    better = "above" if factor.sign < 0 or factor.more == "better" else "below"
    return (
        f"{capital(factor.title)} of {_ratio_name(facts.side_names)} is {ratio_text(mean.ratio)}{within}, geometric "
        f"mean of {plural(mean.num_benchmarks, 'benchmark')}; {better} 1 is better"
    )


def _brief_ratio(facts: SuiteFacts) -> str:
    """Return a phrase on the mean ratio: 'throughput 1.75 times that of base (95 % interval 1.48 – 2.07), geometric
    mean of 2 benchmarks'."""
    mean, whole = facts.mean, next((row.whole for row in facts.rows if row.whole is not None), None)
    if mean is None or whole is None:
        return "no benchmark of the suite has a ratio"
    found = mean.interval
    within = "" if found is None else f" ({_INTERVAL} {bounds(ratio_text(found.low), ratio_text(found.high))})"
    of = f"geometric mean of {plural(mean.num_benchmarks, 'benchmark')}"
    return f"{factor_of(whole.name).title} {ratio_text(mean.ratio)} times that of {facts.side_names[0]}{within}, {of}"


def _mean_words(facts: SuiteFacts) -> str:
    only = (
        " Each benchmark has equal weight in the mean. The mean is of this suite's benchmarks alone, and is not an "
        "MLPerf score."
    )
    return f"{_ratio_words(facts)}.{only if facts.mean is not None else ''}"


def _verdict_words(rows: Sequence[SuiteRow], most: int | None = None) -> list[str]:
    """Return a sentence for every verdict, with the benchmarks that have this verdict. Verdicts that state a
    difference come first. Each sentence names at most `most` benchmarks, or all if `most` is None."""
    by_verdict: dict[str, list[str]] = {verdict: [] for verdict in get_args(Verdict)}
    for row in rows:
        if row.comparison is not None and row.failure is None:
            by_verdict[row.comparison.verdict].append(row.benchmark)
    known = [(verdict, labels) for verdict, labels in by_verdict.items() if labels]
    return [f"{capital(verdict)} on {names(labels, most or len(labels))}." for verdict, labels in known]


def _failed_words(facts: SuiteFacts) -> str:
    if not facts.failed:
        return ""
    return f"Left out of the mean: {'; '.join(f'{row.benchmark} ({row.failure})' for row in facts.failed)}."


def _ratio_name(names: tuple[str, str]) -> str:
    """Return the name of the ratio of the new configuration to the base: 'new / base', 'threads=2 / threads=1'."""
    return f"{names[1]} / {names[0]}"


def _rows_table(rows: Sequence[SuiteRow], names: tuple[str, str]) -> StudyTable:
    unit = next((row.whole.unit for row in rows if row.whole is not None), None)
    columns = (
        StudyColumn(name="benchmark", unit=None, origin="given"),
        *(StudyColumn(name=name, unit=unit, origin="measured") for name in names),
        StudyColumn(name=_ratio_name(names), unit=None, origin="computed"),
        StudyColumn(name="from", unit=None, origin="computed"),
        StudyColumn(name="to", unit=None, origin="computed"),
        StudyColumn(name="runs of each", unit=None, origin="measured"),
        StudyColumn(name="verdict", unit=None, origin="computed"),
    )
    title = "Benchmarks: geometric means, their ratio, and the interval that decides the verdict"
    return StudyTable(title=title, columns=columns, rows=tuple(map(_cells, rows)))


def _cells(row: SuiteRow) -> tuple[Cell, ...]:
    whole = row.whole
    if whole is None or row.comparison is None:
        return (row.benchmark, None, None, None, None, None, None, "failed")
    shown = whole.shown_interval
    ends = (None, None) if shown is None else (shown.low, shown.high)
    runs = min(whole.num_base, whole.num_new)
    return (row.benchmark, whole.base_value, whole.new_value, whole.ratio, *ends, runs, row.comparison.verdict)


def _mean_table(mean: GeometricMean, names: tuple[str, str]) -> StudyTable:
    ends = (None, None, None)
    if (found := mean.interval) is not None:
        ends = (found.low, found.high, found.confidence)  # type: ignore[assignment]
    columns = (
        StudyColumn(name=_ratio_name(names), unit=None, origin="computed"),
        StudyColumn(name="from", unit=None, origin="computed"),
        StudyColumn(name="to", unit=None, origin="computed"),
        StudyColumn(name="confidence", unit="share", origin="given"),
        StudyColumn(name="benchmarks", unit=None, origin="computed"),
    )
    rows = ((mean.ratio, *ends, mean.num_benchmarks),)
    return StudyTable(title="Geometric mean of the ratios", columns=columns, rows=rows)


DETAILS = Details(is_answer=True)

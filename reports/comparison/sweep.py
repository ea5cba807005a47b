"""Reads a sweep: every configuration (combination of the varied settings) with the results of its runs or processes.

The sweep's record names the folders of configurations, which are subfolders of the sweep's folder. A configuration
without results is kept, and shown without them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from reports.comparison.comparison import GroupContext, compare_results
from reports.comparison.factor import factor_of
from reports.comparison.pairing import compared_values
from reports.comparison.records import Comparison
from reports.facts.energy import measured_j
from reports.facts.profile import PROFILE_FILE
from reports.facts.scaling_law import ScalingLaw, find_law
from reports.results.logs import gather
from reports.results.measured import find_measured, rate_summary
from reports.results.records import read_experiment_record, read_record
from reports.results.result import Result, Run
from reports.statistics.intervals import MIN_RUNS, LogSummary
from reports.statistics.multiple_testing import confidence_with_best, least_apart
from reports.statistics.ratios import factor_from
from reports.text.formatting import capital, percent, printable, throughput_text
from rules.errors import AbsentKindError, InputError
from rules.records.experiment import EXPERIMENT_FILE, ExperimentRecord, group_file
from rules.records.kinds import is_in_processes, is_logged, why_absent
from rules.records.measured.throughput import ModelCosts
from rules.records.profile import ProfileRecord
from rules.records.run import EnergyRecord
from rules.tree.result_set import real_path

BEST_CONFIDENCE = 0.98
"""Confidence that the list "not shown to differ" is complete: that it has every configuration which truly equals the
best in speed or quality."""

_BETTER_OF_TWO = {"faster": 1, "better": 1, "slower": 0, "worse": 0}
"""Dict from the verdict on the new one of two compared configurations to the index of the better one (0 base, 1
new)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SweepRow:
    """Configuration of a sweep with its outcome; `result` is None where nothing was measured.

    `num_runs` counts finished runs, or processes of a measurement; `num_planned` counts the runs or processes
    requested.
    """

    index: int
    label: str
    values: tuple[str, ...]
    failure: str | None
    num_planned: int | None
    result: Result | None = None
    comparison: Comparison | None = None
    profile: ProfileRecord | None = None
    profile_failure: str | None = None

    @property
    def is_refused(self) -> bool:
        """Whether the benchmark's rules reject the runs of the sweep's configuration (verdict INVALID)."""
        return self.result is not None and self.result.outcome == "invalid"

    @property
    def data_kind(self) -> str | None:
        return getattr(self.result.measured, "data_kind", None) if self.result else None

    @property
    def per_sample(self) -> tuple[float | None, float | None]:
        """Training FLOP and bytes of embedding rows per sample, computed from the model; None where unknown."""
        costs: ModelCosts | None = getattr(self.result.measured, "computed", None) if self.result else None
        if costs is None:
            return None, None
        return float(costs.training_flop_per_sample) or None, float(costs.embedding_bytes_per_sample) or None

    @property
    def num_runs(self) -> int:
        return self.result.num_runs if self.result else 0

    @property
    def num_converged(self) -> int:
        return self.result.num_converged if self.result else 0

    @property
    def _records(self) -> list[Any]:
        """Records of a configuration's runs or processes, in order; None for a run without a record. Records of
        different kinds of measurement have different fields."""
        return [repetition.record for repetition in self.result.repetitions] if self.result else []

    @property
    def score_s(self) -> float | None:
        return self.result.score.score_s if self.result else None

    @property
    def time_to_train(self) -> LogSummary | None:
        """Summary of the times to train of a configuration's runs that converged; None where no run did."""
        return self.result.summary("time_to_train_s") if self.result else None

    @property
    def throughput(self) -> LogSummary | None:
        if self.result is None:
            return None
        return self.result.summary("throughput_samples_per_s") if self.result.is_logged else rate_summary(self.result)

    @property
    def samples_to_converge(self) -> LogSummary | None:
        return self.result.summary("samples_to_converge") if self.result else None

    @property
    def peak_bytes(self) -> float | None:
        """Largest memory, in bytes, that any of a configuration's processes used: memory of the accelerator if there
        is one, else of the host."""
        peaks = (
            getattr(record, "peak_device_bytes", None) or getattr(record, "peak_rss_bytes", None)
            for record in self._records
        )
        return max((peak for peak in peaks if peak), default=None)

    @property
    def energies(self) -> tuple[EnergyRecord | None, ...]:
        """Energy records of a configuration's runs or processes, in their order."""
        return tuple(getattr(record, "energy", None) for record in self._records)

    @property
    def energy_per_sample_j(self) -> float | None:
        """Measured energy per trained sample, in joules, over all runs of a configuration together. None unless
        energy and number of samples are known for every run."""
        energies = [measured_j(energy) for energy in self.energies]
        repetitions = self.result.repetitions if self.result else ()
        samples = [
            _trained(each) if isinstance(each, Run) else getattr(each.record, "num_samples", None)
            for each in repetitions
        ]
        known, num_samples = [e for e in energies if e is not None], [number for number in samples if number]
        if not energies or len(known) < len(energies) or len(num_samples) < len(samples):
            return None
        return sum(known) / sum(num_samples)


@dataclass(frozen=True, kw_only=True, slots=True)
class BestSide:
    """Fastest (or best) configuration of a sweep or of a report page, with the configurations for which no test shows
    that they differ from it."""

    label: str
    value: str
    alike: Sequence[str]
    num_compared: int
    is_of_time: bool
    refused: Sequence[str]
    """Labels of INVALID configurations, which are not compared."""
    controls: Sequence[str] = ()
    """Labels of controls: configurations that no user can have, since they use the true classes of generated data.
    Controls cannot be the best configuration, unless fewer than two other configurations remain."""
    verdict: str = ""
    """Verdict of the comparison if only two configurations are compared; else empty."""
    so_far: str = ""
    """Word for the leading configuration, used instead of 'best' where the runs are too few to tell it from others:
    'lowest so far' or 'highest so far'; else empty."""

    @property
    def word(self) -> str:
        """Word for the leading configuration: 'fastest' or 'best'; with too few runs 'lowest so far' or 'highest so
        far'."""
        return self.so_far or ("fastest" if self.is_of_time else "best")

    def __str__(self) -> str:
        """Return a sentence on the best configuration: 'Fastest: threads=2 (21.4 k samples/s). Not shown to
        differ from the fastest: threads=4 (98 % confidence over all pairs).'"""
        worse = "slower" if self.is_of_time else "worse"
        alike = f"Not shown to differ from the {self.word}: {', '.join(self.alike)}"
        rest = alike if self.alike else f"All others are {worse}"
        rest += f" ({percent(BEST_CONFIDENCE, 0)} confidence over all pairs)."
        if self.verdict:
            rest = (
                f"{self.alike[0]} against {self.label}: {self.verdict}." if self.alike else f"The other is {worse}."
            )
        return (
            f"{capital(self.word)}: {self.label} ({self.value}). {rest}"
            + (f" INVALID: {', '.join(self.refused)}." if self.refused else "")
            + (f" Control, which no user can have: {', '.join(self.controls)}." if self.controls else "")
        )


_CONTROLS = {"id_map.kind": "classes"}
"""Setting that makes a configuration a control, with the setting's value. A control maps ids to embedding rows by the
latent classes from which the click log was generated; for real data no user knows such classes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SweepFacts:
    """Sweep with all its configurations. `axes` are the varied settings with their values as written; `rows` are the
    configurations in order."""

    name: str
    kind: str
    num_steps: int | None
    axes: tuple[tuple[str, tuple[str, ...]], ...]
    rows: tuple[SweepRow, ...]
    problems: tuple[str, ...]
    best: BestSide | None = None
    """Best configuration of the sweep; None without two configurations to compare."""
    benchmark: str | None = None
    """Benchmark that all the sweep's configurations share; None where they have several, or none is known."""
    law: ScalingLaw | None = None
    """Scaling law fitted to the sweep's quality over training FLOP; None where no fit was asked for."""

    @property
    def closing(self) -> str:
        """Sentence that names the sweep's fastest, or best, configuration; empty without two to compare."""
        return "" if self.best is None else str(self.best)

    @property
    def pair(self) -> tuple[Result, Result, Comparison] | None:
        """Results of the two configurations of the sweep that have any, and their comparison. None if the number of
        results is not two, or the comparison is refused."""
        return _find_pair(self.rows)

    @property
    def is_of_runs(self) -> bool:
        """True if the sweep's configurations were trained to a target quality, False if processes measured another
        quantity."""
        return not is_in_processes(self.kind)

    def at(self, values: Sequence[str]) -> SweepRow | None:
        return next((row for row in self.rows if row.values == tuple(values)), None)


def read_sweep_facts(folder: Path, *, known: Sequence[Result] = ()) -> SweepFacts:
    """Read the configurations and results of the sweep in `folder`. Results in `known` are not judged again.

    Raises InputError if there is no sweep, or its record is damaged. Raises AbsentKindError if its sets are of a kind
    of measurement that this copy of dlrmbench lacks.
    """
    problems: list[str] = []
    sweep = read_experiment_record(folder, problems)
    if sweep is None or sweep.reads_as != "table" or not sweep.axes:
        place = printable(group_file(folder) or folder / EXPERIMENT_FILE)
        why = f"{place}: no such file." if sweep is None else f"{place}: found a group that varies nothing."
        raise InputError(f"{problems[0] if problems else why} Give the folder that 'dlrmbench sweep' made.")
    if absent := why_absent(sweep.kind):
        raise AbsentKindError(f"{printable(folder)}: {absent}")
    rows = read_rows(folder, sweep, problems, known=known)
    compared = _compare(rows)
    pair = _find_pair(compared)
    return SweepFacts(
        name=sweep.name or folder.name,
        kind=sweep.kind,
        num_steps=sweep.options.get("num_steps"),
        axes=tuple((printable(axis.key, 80), tuple(printable(v, 60) for v in axis.values)) for axis in sweep.axes),
        rows=compared,
        problems=tuple(problems),
        best=find_best([side for row in rows if (side := _side(row)) is not None], pair and pair[2]),
        benchmark=_common_benchmark(rows),
        law=find_law([row.label for row in rows], [row.result for row in rows], sweep.base_seed)
        if sweep.with_fit
        else None,
    )


def read_rows(
    folder: Path, sweep: ExperimentRecord, problems: list[str], *, known: Sequence[Result] = ()
) -> list[SweepRow]:
    """Read the results of each configuration of a sweep or suite, and the configuration's values of the varied
    settings. The configurations are not compared yet."""
    folders = [_inside(folder, name) for name in sweep.folders]
    facts = _gather_sets(folders, known) if is_logged(sweep.kind) else {}
    rows = []
    for index, (configuration, set_folder) in enumerate(zip(sweep.configurations, folders, strict=True)):
        row = SweepRow(
            index=index,
            label=printable(configuration.label, 120) if configuration.label else f"configuration {index + 1}",
            values=tuple(printable(configuration.values.get(axis.key, "—"), 60) for axis in sweep.axes),
            failure=printable(configuration.failure.reason, 300) if configuration.failure else None,
            num_planned=sweep.num_runs,
            result=facts.get(set_folder) if set_folder else None,
            profile=read_record(set_folder / PROFILE_FILE, ProfileRecord, problems) if set_folder else None,
            profile_failure=printable(note, 300) if (note := configuration.notes.get("profile")) else None,
        )
        if is_in_processes(sweep.kind) and set_folder is not None:
            row = replace(row, result=find_measured(set_folder, sweep.kind, problems))
        rows.append(row)
    return rows


def _common_benchmark(rows: Sequence[SweepRow]) -> str | None:
    found = {row.result.benchmark for row in rows if row.result is not None}
    return found.pop() if len(found) == 1 else None


def _inside(folder: Path, name: str | None) -> Path | None:
    """Return the subfolder `name` of `folder`; None where there is none, or it is a link."""
    path = None if name is None else folder / name
    return path if path is not None and path.is_dir() and not path.is_symlink() else None


def _gather_sets(folders: Sequence[Path | None], known: Sequence[Result]) -> dict[Path, Result]:
    found: dict[Path, Result] = {}
    by_root: dict[Path, list[Result]] = {}
    for result in known:
        if result.place is not None:
            by_root.setdefault(real_path(result.place), []).append(result)
    for folder in folders:
        if folder is None or not any(folder.glob("results/*/*/result_*.txt")):
            continue
        sets = by_root.get(real_path(folder)) or gather([folder], second_opinion=False)
        if len(sets) == 1:
            found[folder] = sets[0]
    return found


def _compare(rows: Sequence[SweepRow]) -> tuple[SweepRow, ...]:
    """Compare each configuration of a sweep with the first one that has results. The tests of all comparisons are one
    family: Holm's method corrects their significance levels together."""
    sides = {row.index: side for row in rows if (side := _side(row)) is not None}
    if len(sides) < 2:
        return tuple(rows)
    (first, base), *others = sides.items()
    compared = dict(zip(dict(others), compare_results(base, list(dict(others).values())), strict=True))
    return tuple(row if row.index == first else replace(row, comparison=compared.get(row.index)) for row in rows)


def _find_pair(rows: Sequence[SweepRow]) -> tuple[Result, Result, Comparison] | None:
    found = [(side, row.comparison) for row in rows if (side := _side(row)) is not None]
    if len(found) != 2:
        return None
    (base, _), (new, comparison) = found
    is_known = comparison is not None and comparison.refusal is None and comparison.whole is not None
    return (base, new, comparison) if is_known and comparison is not None else None


def find_best(sides: Sequence[Result], pair: Comparison | None = None) -> BestSide | None:
    """Return the best result among those that are not INVALID. Return None if fewer than two of them have a value to
    compare, or if their benchmarks differ. Controls are left out if at least two other results remain: they use
    knowledge of the generator of their data, which no user has."""
    refused = [side.label for side in sides if side.outcome == "invalid"]
    sides = [side for side in sides if side.outcome != "invalid"]
    if len({side.benchmark_name for side in sides}) != 1:
        return None
    controls = [side.label for side in sides if _is_control(side)]
    if len(sides) - len(controls) > 1:
        sides = [side for side in sides if not _is_control(side)]
    whole = sides[0].quantities[0]
    factor = factor_of(whole)
    means = {
        index: float(values.mean())
        for index, side in enumerate(sides)
        if (values := compared_values(side.samples, whole)) is not None
    }
    if len(means) < 2:
        return None
    sign = factor.sign if factor.more in ("slower", "worse") else -factor.sign
    best = min(means, key=lambda index: sign * means[index])
    pair = pair if len(sides) == 2 else None
    if pair is None:
        alike = find_alike(sides[best], [sides[index] for index in means if index != best])
    else:
        best = _BETTER_OF_TWO.get(pair.verdict, best)
        alike = [] if pair.verdict in _BETTER_OF_TWO else [sides[1 - best].label]
    mean = factor_from(means[best]) if factor.is_ratio else means[best]
    is_open = bool(alike) and min(sides[index].num_converged for index in means) < MIN_RUNS
    return BestSide(
        label=sides[best].label,
        value=_value_text(whole, mean),
        alike=alike,
        num_compared=len(means),
        is_of_time=factor.is_of_time,
        refused=refused,
        controls=controls,
        verdict="" if pair is None else pair.verdict,
        so_far=f"{'lowest' if sign > 0 else 'highest'} so far" if is_open else "",
    )


def _value_text(name: str, value: float) -> str:
    """Format a mean of a measured quantity with its unit or, for quality, the metric's name: '21.4 k samples/s', 'AUC
    0.72153'."""
    factor = factor_of(name)
    if name == "throughput":
        return throughput_text(value)
    return factor.show(value) if factor.is_ratio else f"{factor.title} {factor.show(value)}"


def _is_control(side: Result) -> bool:
    """Return whether a result is a control: it used values that only the generator of its data knows, so that no user
    can have such a result."""
    config = {} if side.asked is None else side.asked.config
    return any(key in config and config[key].value == value for key, value in _CONTROLS.items())


def find_alike(best: Result, others: Sequence[Result], context: GroupContext | None = None) -> list[str]:
    """Return the labels of results in `others` that no test shows to be slower, or worse, than `best`. The tests take
    into account that `best` was chosen from the same data.

    The confidence is BEST_CONFIDENCE over all pairs together. A test uses the spread of the two results that it
    compares. If all results were measured alternately, a second test with the spread of all results must agree.
    """
    name, confidence = best.quantities[0], confidence_with_best(len(others) + 1, BEST_CONFIDENCE)
    compared = compare_results(best, others, confidence=confidence, context=context, is_described=False)
    values = [found for side in (best, *others) if (found := compared_values(side.samples, name)) is not None]
    apart = np.full(len(others), np.inf)
    is_whole = len(values) > len(others) and len(set(map(len, values))) == 1 < len(values[0])
    if is_whole and all(comparison.is_interleaved for comparison in compared):
        table = np.stack(values)
        apart = np.abs(table[1:].mean(axis=1) - table[0].mean()) - least_apart(table, BEST_CONFIDENCE)
    worse = ("slower", "worse")
    return [each.new for each, far in zip(compared, apart, strict=True) if far <= 0 or each.verdict not in worse]


def _side(row: SweepRow) -> Result | None:
    return None if row.result is None else replace(row.result, label=row.label)


def _trained(run: Run) -> float | None:
    """Return the samples that a run trained in its timed part, converged or not; None where unknown."""
    evaluations = run.log.evaluations
    last = evaluations[-1].samples_count if evaluations else None
    return float(last) if last else run.log.samples_to_converge

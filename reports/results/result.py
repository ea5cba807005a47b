"""Defines a result: one configuration with its runs or processes, from any source and kind of file.

Comparisons, tables, exports and the page all read results, so they cannot disagree. `reports.results.logs` makes
results from result directories, `reports.results.measured` from measurements, `reports.comparison.sources` from
exports.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import is_
from pathlib import Path
from typing import Any, Literal

from reports.results.records import Attempt, brief_commit, code_setting, settings_of
from reports.results.resolution import clock_step, mean_step, samples_step, time_step
from reports.results.sequential_stopping import StoppingRecord, stopping_of
from reports.statistics.intervals import AT_LEAST, NOMINAL, Interval, LogSummary, log_summary
from reports.statistics.outliers import find_outliers
from reports.text.formatting import plural, printable
from rules.checks.verdict import Verdict, VerdictOutcome
from rules.records.load import LoadRecord
from rules.records.measure import Measure, Measurement
from rules.records.metrics import Metric, metric_of, metric_of_member
from rules.records.run_set import RunSetRecord
from rules.scoring.results import BenchmarkResult, RunResult
from rules.tree.result_set import ResultSet

Fate = Literal["counted", "dropped", "failed"]
"""Use of a run in the score: counted, dropped (as fastest, as slowest, or beyond the runs that are scored), or failed
to converge."""
Status = Literal["own", "official", "unknown"]
Standing = Literal["own", "unknown", "unverified", "published"]
"""Standing of a result. 'own' is a result on a user's own benchmark, and 'unknown' a result on an unknown benchmark.
A result under an official MLPerf name is 'unverified' if this harness made its logs, else 'published'. Whether
MLCommons has verified a published result is not known."""
Source = Literal["logs", "records", "export"]
HARDWARE = (
    "number_of_nodes",
    "host_processors_per_node",
    "host_processor_model_name",
    "host_processor_core_count",
    "accelerators_per_node",
    "accelerator_model_name",
)
"""Fields of an MLPerf system description that describe the hardware."""
TRAINING = ("time_to_train", "samples_to_converge", "throughput", "overhead")
"""Names of the compared quantities of runs that train to a target quality: the time to train, then its factors (time
= samples to converge / throughput * overhead)."""
_GRIDS = {
    "time_to_train_s": (time_step, AT_LEAST),
    "samples_to_converge": (samples_step, AT_LEAST),
    "epochs_to_converge": (samples_step, AT_LEAST),
    "throughput_samples_per_s": (clock_step, NOMINAL),
}
"""Dict from a quantity of a run, named as in RunResult, to a function and a confidence. The function computes the
resolution of the quantity in a run; the confidence is that of intervals of its mean."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Repetition:
    """One run, or one process of a measurement, with its compared values: a dict from a quantity's name to the value.
    Unknown values are left out.

    `steps` has the resolution of each value, as a fraction of the value: times and samples have the resolution of the
    evaluations, other values have the resolution of the clock. `curve` has, for each evaluation, the training
    progress (in samples, else epochs) and the quality. `stopped_ms` is None where it is not known. `record` is
    run.json of a run, or a process's entry in extra/<kind>.json. Label, fate and record do not count when repetitions
    are compared for equality.
    """

    label: str = field(default="", compare=False)
    fate: Fate = field(default="counted", compare=False)
    seed: int | None
    values: Mapping[str, float]
    steps: Mapping[str, float] = field(default_factory=dict)
    started_ms: float | None = None
    stopped_ms: float | None = None
    curve: tuple[tuple[float | None, float], ...] = ()
    record: Any = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class Run(Repetition):
    """Run that left a log. `attempt` has the folder and the record of the attempt that made the run, if known.

    `repeats` is the label of an earlier configuration on the same page that holds the same run; else empty.
    """

    log: RunResult = field(compare=False, repr=False)
    is_dropped: bool = field(default=False, compare=False)
    attempt: Attempt | None = field(default=None, compare=False, repr=False)
    repeats: str = field(default="", compare=False)

    @property
    def time_s(self) -> float | None:
        """Time to train of a run that converged, in seconds; None for a run that did not."""
        return self.log.time_to_train_s if self.log.converged else None


@dataclass(frozen=True, kw_only=True, slots=True)
class System:
    """System that a result was measured on: its name, and the fields of its MLPerf description in their order; empty
    without one."""

    name: str | None = None
    fields: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Judgement:
    """Verdict of the rules on the logs in a result directory. `levels` are the verdicts on the submission and on the
    round that contain the directory, innermost first."""

    result_set: ResultSet
    verdict: Verdict
    levels: tuple[Verdict, ...] = ()


NO_SCORE = BenchmarkResult(
    benchmark=None, runs=(), num_runs_required=None, olympic_mean_s=None, dropped=(), no_score_reason=None,
    convergence=None, score_s=None, round=None, num_runs_scored=0, num_runs_dropped=1, metric="roc_auc",
    energy_j=None,
)  # fmt: skip
"""Empty score, for results that have no logs."""


@dataclass(frozen=True, kw_only=True)
class Result:
    """One configuration with its runs or processes.

    `judged` has the judged logs, `asked` the run set's record (run_set.json), `measured` the measurement
    (extra/<kind>.json); each is None if the result has no such files. `quantities` are the names of the compared
    quantities: first the whole, such as the time to train, then its factors. `stated` has settings that logs or
    measurements state, by name. `score` is the runs' score, `outcome` the rules' verdict. `unfinished` are attempts
    that left no result. `problems` are sentences about files that are not used.
    """

    label: str
    source: Source
    index: int = 0
    kind: str = "training"
    quantities: tuple[str, ...] = TRAINING
    place: Path | None = None
    """Folder of a result set of this harness; None for anyone else's logs, and for an export."""
    status: Status = "unknown"
    benchmark: str | None
    repetitions: tuple[Repetition, ...]
    unfinished: tuple[Attempt, ...] = ()
    system: System = System()
    stated: tuple[tuple[str, str], ...] = ()
    score: BenchmarkResult = NO_SCORE
    outcome: VerdictOutcome | None = None
    judged: Judgement | None = None
    asked: RunSetRecord | None = None
    measured: Measurement | None = None
    interval: Interval | None = None
    turns: str | None = None
    """Folder of the sweep or suite in which processes of several configurations were measured alternately. None for a
    measurement made by itself. None also for runs that train to a target quality: the start times in their logs
    already show whether they alternated."""
    repetition: str | None = None
    """Digest that is equal for results that repeat each other (same configuration, code and system). None where it is
    not known whether the result repeats another."""
    price_per_hour: float | None = None
    currency: str = ""
    """Currency of `price_per_hour`, which the user gives for a report; empty where no currency was given."""
    problems: tuple[str, ...] = ()
    known: dict[str, tuple[list[RunResult], LogSummary | None]] = field(
        default_factory=dict, compare=False, repr=False
    )
    """Cache of summaries: a dict from the name of a quantity to its summary and the runs that were summarised. Copies
    of the result with another label share the cache."""

    @cached_property
    def runs(self) -> tuple[Run, ...]:
        """All runs of the configuration that left a log."""
        return tuple(repetition for repetition in self.repetitions if isinstance(repetition, Run))

    @cached_property
    def samples(self) -> tuple[Repetition, ...]:
        """Repetitions that are compared: the runs that converged, or the processes of a measurement."""
        return tuple(repetition for repetition in self.repetitions if repetition.fate in ("counted", "dropped"))

    @cached_property
    def converged(self) -> tuple[Run, ...]:
        """Runs of the configuration that reached the target."""
        return tuple(run for run in self.runs if run.log.converged)

    @property
    def num_runs(self) -> int:
        """Number of all runs of the configuration, or of the processes of its measurement."""
        return len(self.repetitions)

    @property
    def num_converged(self) -> int:
        """Number of runs that reached the target; for a measurement, the number of processes that measured."""
        return len(self.samples)

    @cached_property
    def drawn(self) -> tuple[Run, ...]:
        """Runs of the configuration that charts draw: those that no earlier configuration on the page has."""
        return tuple(run for run in self.runs if not run.repeats)

    @property
    def is_repeat(self) -> bool:
        """Whether all runs of the configuration also belong to earlier configurations on the page."""
        return bool(self.runs) and not self.drawn

    @property
    def is_logged(self) -> bool:
        """Whether the repetitions are runs that left logs, here or on the machine where an export was made."""
        return self.source != "records"

    @property
    def first_run(self) -> RunResult | None:
        return self.score.runs[0] if self.score.runs else None

    @property
    def is_scaled(self) -> bool:
        """Whether a factor from reference convergence points (RCPs) changes the score."""
        return self.score.rcp_factor not in (None, 1.0)

    @property
    def num_tolerated(self) -> int:
        """Number of runs that may fail to converge and still leave a score: the number of slowest runs that Olympic
        scoring drops."""
        return self.score.num_runs_dropped

    @property
    def verdict(self) -> Verdict:
        """Verdict of the rules on the logs. Raises ValueError without logs, where `judged` is None."""
        if self.judged is None:
            raise ValueError(f"{self.label}: there are no logs to judge.")
        return self.judged.verdict

    @property
    def levels(self) -> tuple[Verdict, ...]:
        """Verdicts of the rules on the submission and on the round that contain the logs, innermost first."""
        return self.judged.levels if self.judged else ()

    @property
    def standing(self) -> Standing:
        """Owner of the benchmark ("own" or "unknown") for a name of our own or of a user. For an official MLPerf name
        it is the status of verification ("unverified" or "published")."""
        return standing_of(self.status, self.place, self.score)

    @property
    def benchmark_name(self) -> str:
        return printable(self.benchmark) if self.benchmark else "unnamed benchmark"

    @property
    def metric(self) -> Metric:
        """Quality metric of the evaluations, such as AUC."""
        found = None if self.measured is None else metric_of_member(self.measure.value)
        return metric_of(self.score.metric) if found is None else found

    @property
    def measure(self) -> Measure:
        """Quantity that a measurement compares. Raises ValueError where the result is no measurement."""
        if self.measured is None:
            raise ValueError(f"{self.label}: is no measurement.")
        return self.measured.measure

    @property
    def folder(self) -> Path:
        """Folder of the result set. Raises ValueError if this harness did not make the set here: for anyone else's
        logs, and for an export."""
        if self.place is None:
            raise ValueError(f"{self.label}: was not made by this harness.")
        return self.place

    @property
    def path(self) -> Path:
        """Path of the file extra/<kind>.json that holds a measurement. Raises ValueError where this harness did not
        make it."""
        return self.folder / "extra" / f"{self.kind}.json"

    @property
    def measured_values(self) -> tuple[float, ...]:
        """Values of the quantity that a measurement compares, as its file has them, one per process."""
        return tuple(float(getattr(process.record, self.measure.value)) for process in self.repetitions)

    def mean(self, member: str) -> float | None:
        """Return the mean of a recorded value over a measurement's processes; None where a process has no number."""
        found = [getattr(process.record, member) for process in self.repetitions]
        are_numbers = found and all(isinstance(value, int | float) for value in found)
        return float(sum(found) / len(found)) if are_numbers else None

    @cached_property
    def settings(self) -> tuple[tuple[str, str], ...]:
        """Settings and software of a result as (name, value)."""
        return (*self.stated, *settings_of(self.asked), *code_setting(self.codes))

    @cached_property
    def hardware(self) -> tuple[tuple[str, str], ...]:
        """Hardware fields of the MLPerf system description as (name, value)."""
        fields = dict(self.system.fields)
        return tuple((key, fields[key]) for key in HARDWARE if key in fields)

    @cached_property
    def codes(self) -> tuple[str, ...]:
        """Digests of the code that made the runs or processes, each once; none where it was not recorded."""
        recorded = [run.record for run in self.runs] if self.measured is None else [self.measured]
        return tuple(dict.fromkeys(record.code.sha256 for record in recorded if record and record.code))

    @property
    def several_commits(self) -> str:
        """Commits of the runs where several commits made them: 'd3a6e1eeb711 (2 runs), 4eaea90d2571 (3 runs)'; else
        empty."""
        if self.measured is not None:
            return ""
        recorded = [record.code for run in self.runs if (record := run.record) and record.code]
        made = Counter(brief_commit(code.commit, code.commit_is_dirty) or "no commit on record" for code in recorded)
        return ", ".join(f"{name} ({plural(num, 'run')})" for name, num in made.items()) if len(made) > 1 else ""

    @property
    def growth(self) -> StoppingRecord | None:
        """Record of how a set stopped growing, for a set that was to get runs until its mean time was known
        precisely. None where the number of runs was given."""
        return stopping_of(self.score, self.asked.until if self.asked and self.is_logged else None)

    def summary(self, member: str) -> LogSummary | None:
        """Summarize a quantity of RunResult over the runs that converged; None where no run converged."""
        runs = [run.log for run in self.converged]
        known_runs, summary = self.known.get(member, (None, None))
        if known_runs is None or len(known_runs) != len(runs) or not all(map(is_, known_runs, runs)):
            step, confidence = _GRIDS[member]
            values = [getattr(run, member) for run in runs]
            summary = log_summary(values, step=mean_step(step, runs), confidence=confidence)
            self.known[member] = runs, summary
        return summary

    @cached_property
    def speed(self) -> LogSummary | None:
        """Summary of the runs' training speed. The speed is computed twice, with the time of evaluations counted and
        with it left out, and the summary with less variation is used. The reason is logs whose blocks overlap
        evaluations: they do not separate the two times well. None for fewer than two runs."""
        logs = [run.log for run in self.converged]
        known = [(log.samples_to_converge, log.time_to_train_s) for log in logs]
        over_all = log_summary([num / time_s if num and time_s else None for num, time_s in known])
        found = [
            summary
            for summary in (self.summary("throughput_samples_per_s"), over_all)
            if summary is not None and summary.coefficient_of_variation is not None
        ]
        return min(found, key=lambda summary: summary.coefficient_of_variation or 0.0, default=None)

    @property
    def speed_cv(self) -> float | None:
        """Coefficient of variation of training speed between the runs; None for fewer than two runs."""
        return None if self.speed is None else self.speed.coefficient_of_variation

    @cached_property
    def outliers(self) -> tuple[tuple[Run, float], ...]:
        """Runs far slower or faster than all others, each with its speed as a ratio to the others' geometric mean."""
        logs = self.speed.logs if self.speed is not None else ()
        if len(logs) != len(self.converged):  # the speed of some runs is not known
            return ()
        total = sum(logs)
        ratios = {at: math.exp(logs[at] - (total - logs[at]) / (len(logs) - 1)) for at in find_outliers(logs)}
        return tuple((self.converged[at], ratio) for at, ratio in ratios.items())

    @cached_property
    def loads(self) -> tuple[LoadRecord | None, ...]:
        """Records of other use of the system during each run or process, in their order; None where unknown."""
        if self.measured is not None:
            found = self.measured.loads
            return (*found[: self.num_runs], *(None,) * (self.num_runs - len(found)))
        return tuple(load_of(each) for each in self.repetitions)

    @property
    def overhead(self) -> LogSummary | None:
        """Summary of the ratio of time to train to training time (the factor of evaluation and overhead), over
        converged runs."""
        return log_summary(overhead_ratio(run.log) for run in self.converged)


def standing_of(status: Status, place: Path | None, score: BenchmarkResult) -> Standing:
    """Return the owner of a result's benchmark or, under an official MLPerf name, the result's verification status:
    'unverified' if this harness made the result, else 'published'."""
    if status != "official":
        return status
    is_ours = place is not None or any(run.definition_sha256 for run in score.runs)
    return "unverified" if is_ours else "published"


def load_of(run: Repetition) -> LoadRecord | None:
    """Return the load record (other use of the system) of a run that left a log; None where it has none."""
    loads = getattr(run.record, "loads", ())
    return loads[0] if loads else None


def overhead_ratio(run: RunResult) -> float | None:
    """Return the overhead factor of a run: its time to train over its training time, that is, 1 plus the time of
    evaluations and other overhead over the training time; None where unknown."""
    return run.time_to_train_s / run.train_s if run.time_to_train_s is not None and run.train_s else None


def stated_by(runs: Sequence[RunResult]) -> tuple[tuple[str, str], ...]:
    """Return the settings that runs' logs state and that may differ in a comparison, as texts; empty without a
    run."""
    if not runs:
        return ()
    first = runs[0]
    named = (
        ("submission_org", first.organization),
        ("submission_platform", first.platform),
        ("global_batch_size", first.global_batch_size),
        ("opt_base_learning_rate", first.learning_rate),
    )
    return tuple((key, printable(value)) for key, value in named if value is not None)


def make_run(log: RunResult, **about: Any) -> Run:
    """Make a run of a result from the run's log. `about` has values that the log does not hold, such as `fate` (the
    run's use in the score).

    The factors of the time to train are computed from time to train, training time and samples to converge, so that
    the logarithms of the factors add up to the logarithm of the time to train.
    """
    return Run(
        log=log,
        seed=log.seed,
        values=factor_values(*map(_positive, (log.time_to_train_s, log.train_s, log.samples_to_converge))),
        steps={
            "time_to_train": time_step(log),
            "samples_to_converge": samples_step(log),
            "throughput": clock_step(log),
            "overhead": clock_step(log),
        },
        started_ms=log.started_ms,
        stopped_ms=log.timed_ms[1] if log.timed_ms else None,
        curve=tuple(
            (evaluation.samples_count or evaluation.epoch_num, evaluation.quality) for evaluation in log.evaluations
        ),
        **about,
    )


def make_runs(logs: Sequence[RunResult]) -> tuple[Run, ...]:
    """Make a result's runs from logs that have no records stored with them."""
    return tuple(
        make_run(log, label=str(index), fate="counted" if log.converged else "failed")
        for index, log in enumerate(logs)
    )


def factor_values(time_s: float | None, train_s: float | None, num_samples: float | None) -> dict[str, float]:
    """Return a dict from names to values: a run's time to train in seconds and the time's factors (samples to
    converge, throughput in samples/s, overhead as a ratio). Unknown values are left out."""
    values = {} if time_s is None else {"time_to_train": time_s}
    if train_s is not None and num_samples is not None:
        values["throughput"] = num_samples / train_s
        if time_s is not None:
            values |= {"samples_to_converge": num_samples, "overhead": time_s / train_s}
    return values


def _positive(value: float | None) -> float | None:
    return float(value) if value is not None and math.isfinite(value) and value > 0 else None

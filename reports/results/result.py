"""A result: one configuration with its repetitions, whoever measured it and in whatever kind of file it is.

Comparisons, tables, exports and the page all read results, so they cannot disagree. `reports.results.logs` makes them
of result directories, `reports.results.measured` of measurements, `reports.comparison.sources` of exports.
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
"""How a repetition enters the score."""
Status = Literal["own", "official", "unknown"]
Standing = Literal["own", "unknown", "unverified", "published"]
"""As Status; a result under an official name is unverified where this harness made its logs, else published: whether
MLCommons has verified that one is not known here."""
Source = Literal["logs", "records", "export"]
HARDWARE = (
    "number_of_nodes",
    "host_processors_per_node",
    "host_processor_model_name",
    "host_processor_core_count",
    "accelerators_per_node",
    "accelerator_model_name",
)
"""The fields of a system description that say what the system is."""
TRAINING = ("time_to_train", "samples_to_converge", "throughput", "overhead")
"""What is compared of runs to a target: the whole, then the factors that explain it."""
_GRIDS = {
    "time_to_train_s": (time_step, AT_LEAST),
    "samples_to_converge": (samples_step, AT_LEAST),
    "epochs_to_converge": (samples_step, AT_LEAST),
    "throughput_samples_per_s": (clock_step, NOMINAL),
}
"""The grid of a quantity of RunResult, and what its interval is said to hold."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Repetition:
    """One run or process: what is compared of it by name, what is not known left out.

    A step is the grid that a value is on, as a fraction of the value: samples and times on that of the evaluations,
    the rest on the clock's. `curve` has what was trained (in samples, else epochs) and the quality of each
    evaluation; `stopped_ms` is None where it is not known. `record` is what was recorded of it beside a log: run.json
    of a run, its entry in extra/<kind>.json of a process. Two are equal where they measured the same.
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
    """A repetition that left a log. `attempt` is where it was made, if that is known.

    `repeats` names the configuration on the same page that has this very run, too, and before.
    """

    log: RunResult = field(compare=False, repr=False)
    is_dropped: bool = field(default=False, compare=False)
    attempt: Attempt | None = field(default=None, compare=False, repr=False)
    repeats: str = field(default="", compare=False)

    @property
    def time_s(self) -> float | None:
        """Time to train of a run that converged; None otherwise, because such a run has none."""
        return self.log.time_to_train_s if self.log.converged else None


@dataclass(frozen=True, kw_only=True, slots=True)
class System:
    """The system by its name, and the fields of its description in their order; none where there is none."""

    name: str | None = None
    fields: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Judgement:
    """What the rules say of the logs in a result directory; `levels` are the verdicts on the submission and the round
    that it is in, innermost first."""

    result_set: ResultSet
    verdict: Verdict
    levels: tuple[Verdict, ...] = ()


NO_SCORE = BenchmarkResult(
    benchmark=None, runs=(), num_runs_required=None, olympic_mean_s=None, dropped=(), no_score_reason=None,
    convergence=None, score_s=None, round=None, num_runs_scored=0, num_runs_dropped=1, metric="roc_auc",
    energy_j=None,
)  # fmt: skip
"""The score of what is not scored."""


@dataclass(frozen=True, kw_only=True)
class Result:
    """One configuration with its repetitions. What does not exist is absent: `judged` is None without logs, `asked`
    without the run set's record, `measured` without extra/<kind>.json.

    `quantities` name what is compared, the whole first. `stated` is what logs or measurements say of how they were
    set, by name. `score` is that of the runs; `outcome` what the rules say of them. `unfinished` are attempts that
    left no result. `problems` are sentences about files that are not used.
    """

    label: str
    source: Source
    index: int = 0
    kind: str = "training"
    quantities: tuple[str, ...] = TRAINING
    place: Path | None = None
    """The folder of a set of this harness; None of anyone else's, and of an export."""
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
    """What its processes took turns in, with others of equal turns: a sweep's folder. None of a set of its own, and
    of runs, whose logs say when they were made."""
    repetition: str | None = None
    """Equal of results that repeat each other: one configuration, one code, one system; None where that is not
    known."""
    price_per_hour: float | None = None
    currency: str = ""
    """The price's, as it was given; empty where nobody said."""
    """Given by who asks for a report; what training costs follows from it and is called derived."""
    problems: tuple[str, ...] = ()
    known: dict[str, tuple[list[RunResult], LogSummary | None]] = field(
        default_factory=dict, compare=False, repr=False
    )
    """Summaries, with the runs that they are of: worked out once, also for copies with another label."""

    @cached_property
    def runs(self) -> tuple[Run, ...]:
        """All runs that left a log."""
        return tuple(repetition for repetition in self.repetitions if isinstance(repetition, Run))

    @cached_property
    def samples(self) -> tuple[Repetition, ...]:
        """What is compared: the runs that converged, or the processes of a measurement."""
        return tuple(repetition for repetition in self.repetitions if repetition.fate in ("counted", "dropped"))

    @cached_property
    def converged(self) -> tuple[Run, ...]:
        """The runs that reached the target."""
        return tuple(run for run in self.runs if run.log.converged)

    @property
    def num_runs(self) -> int:
        """All runs, or the processes of a measurement."""
        return len(self.repetitions)

    @property
    def num_converged(self) -> int:
        """The runs that reached the target, or the processes of a measurement."""
        return len(self.samples)

    @cached_property
    def drawn(self) -> tuple[Run, ...]:
        """The runs that no earlier configuration has."""
        return tuple(run for run in self.runs if not run.repeats)

    @property
    def is_repeat(self) -> bool:
        """Whether all of its runs are those of earlier configurations."""
        return bool(self.runs) and not self.drawn

    @property
    def is_logged(self) -> bool:
        """Whether its repetitions are runs that left logs, here or where an export was made."""
        return self.source != "records"

    @property
    def first_run(self) -> RunResult | None:
        return self.score.runs[0] if self.score.runs else None

    @property
    def is_scaled(self) -> bool:
        """Whether a factor of its reference convergence points changes the score."""
        return self.score.rcp_factor not in (None, 1.0)

    @property
    def num_tolerated(self) -> int:
        """How many runs may fail to converge: Olympic scoring drops as many."""
        return self.score.num_runs_dropped

    @property
    def verdict(self) -> Verdict:
        """What the rules say of its logs. Raises ValueError without logs, where `judged` is None."""
        if self.judged is None:
            raise ValueError(f"{self.label}: there are no logs to judge.")
        return self.judged.verdict

    @property
    def levels(self) -> tuple[Verdict, ...]:
        """The verdicts on the submission and the round that its logs are in."""
        return self.judged.levels if self.judged else ()

    @property
    def standing(self) -> Standing:
        """Who defines the benchmark, and what is known of a verification."""
        return standing_of(self.status, self.place, self.score)

    @property
    def benchmark_name(self) -> str:
        return printable(self.benchmark) if self.benchmark else "unnamed benchmark"

    @property
    def metric(self) -> Metric:
        """What its evaluations measure."""
        found = None if self.measured is None else metric_of_member(self.measure.value)
        return metric_of(self.score.metric) if found is None else found

    @property
    def measure(self) -> Measure:
        """What the processes of a measurement measured. Raises ValueError where it is none."""
        if self.measured is None:
            raise ValueError(f"{self.label}: is no measurement.")
        return self.measured.measure

    @property
    def folder(self) -> Path:
        """The folder that this harness made. Raises ValueError of anyone else's logs, and of an export."""
        if self.place is None:
            raise ValueError(f"{self.label}: was not made by this harness.")
        return self.place

    @property
    def path(self) -> Path:
        """The file of a measurement."""
        return self.folder / "extra" / f"{self.kind}.json"

    @property
    def measured_values(self) -> tuple[float, ...]:
        """What is compared of a measurement as its file says it, one per process."""
        return tuple(float(getattr(process.record, self.measure.value)) for process in self.repetitions)

    def mean(self, member: str) -> float | None:
        """Return the mean over a measurement's processes; None where one does not say it, or says no number."""
        found = [getattr(process.record, member) for process in self.repetitions]
        are_numbers = found and all(isinstance(value, int | float) for value in found)
        return float(sum(found) / len(found)) if are_numbers else None

    @cached_property
    def settings(self) -> tuple[tuple[str, str], ...]:
        """What was set, and the software, by name."""
        return (*self.stated, *settings_of(self.asked), *code_setting(self.codes))

    @cached_property
    def hardware(self) -> tuple[tuple[str, str], ...]:
        """The fields of the system description that say what the system is."""
        fields = dict(self.system.fields)
        return tuple((key, fields[key]) for key in HARDWARE if key in fields)

    @cached_property
    def codes(self) -> tuple[str, ...]:
        """Digests of the code that made the repetitions, each once; none where it was not recorded."""
        recorded = [run.record for run in self.runs] if self.measured is None else [self.measured]
        return tuple(dict.fromkeys(record.code.sha256 for record in recorded if record and record.code))

    @property
    def several_commits(self) -> str:
        """Return 'd3a6e1eeb711 (2 runs), 4eaea90d2571 (3 runs)' of runs that several commits made; else nothing."""
        if self.measured is not None:
            return ""
        recorded = [record.code for run in self.runs if (record := run.record) and record.code]
        made = Counter(brief_commit(code.commit, code.commit_is_dirty) or "no commit on record" for code in recorded)
        return ", ".join(f"{name} ({plural(num, 'run')})" for name, num in made.items()) if len(made) > 1 else ""

    @property
    def growth(self) -> StoppingRecord | None:
        """How a set ended that was to grow until it is precise; None where its number of runs was given."""
        return stopping_of(self.score, self.asked.until if self.asked and self.is_logged else None)

    def summary(self, member: str) -> LogSummary | None:
        """Summarize a quantity of RunResult, over the runs that converged."""
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
        """Return the summary of the runs' speed, in training or in all, whichever varies less: logs whose blocks
        overlap their evaluations tell the two badly apart. None of fewer than two runs."""
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
        """Return the coefficient of variation of `speed`."""
        return None if self.speed is None else self.speed.coefficient_of_variation

    @cached_property
    def outliers(self) -> tuple[tuple[Run, float], ...]:
        """Return each run that was far slower or faster than all others, and its speed over their geometric mean."""
        logs = self.speed.logs if self.speed is not None else ()
        if len(logs) != len(self.converged):  # of some the speed is not known
            return ()
        total = sum(logs)
        ratios = {at: math.exp(logs[at] - (total - logs[at]) / (len(logs) - 1)) for at in find_outliers(logs)}
        return tuple((self.converged[at], ratio) for at, ratio in ratios.items())

    @cached_property
    def loads(self) -> tuple[LoadRecord | None, ...]:
        """What else the system did during each repetition, in their order; None where that is not known."""
        if self.measured is not None:
            found = self.measured.loads
            return (*found[: self.num_runs], *(None,) * (self.num_runs - len(found)))
        return tuple(load_of(each) for each in self.repetitions)

    @property
    def overhead(self) -> LogSummary | None:
        """The time to train over the training time, over the runs that converged."""
        return log_summary(overhead_ratio(run.log) for run in self.converged)


def standing_of(status: Status, place: Path | None, score: BenchmarkResult) -> Standing:
    """Tell own results under an official name from those that somebody published, by the keys of our own log."""
    if status != "official":
        return status
    is_ours = place is not None or any(run.definition_sha256 for run in score.runs)
    return "unverified" if is_ours else "published"


def load_of(run: Repetition) -> LoadRecord | None:
    """Return what else the system did during a run that left a log, as its record says it."""
    loads = getattr(run.record, "loads", ())
    return loads[0] if loads else None


def overhead_ratio(run: RunResult) -> float | None:
    """Return 1 + overhead / training time, the factor of evaluation and overhead; None where it is not known."""
    return run.time_to_train_s / run.train_s if run.time_to_train_s is not None and run.train_s else None


def stated_by(runs: Sequence[RunResult]) -> tuple[tuple[str, str], ...]:
    """Return what every log says and a comparison may vary, as text; nothing where there is no run."""
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
    """Make the repetition of a log; `about` has what the log does not say, such as its fate.

    The factors of the time to train are from the same three measurements, so that their logarithms add up.
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
    """Make the repetitions of logs that nothing else is known of."""
    return tuple(
        make_run(log, label=str(index), fate="counted" if log.converged else "failed")
        for index, log in enumerate(logs)
    )


def factor_values(time_s: float | None, train_s: float | None, num_samples: float | None) -> dict[str, float]:
    """Return the factors of the time to train by name, as far as they are known."""
    values = {} if time_s is None else {"time_to_train": time_s}
    if train_s is not None and num_samples is not None:
        values["throughput"] = num_samples / train_s
        if time_s is not None:
            values |= {"samples_to_converge": num_samples, "overhead": time_s / train_s}
    return values


def _positive(value: float | None) -> float | None:
    return float(value) if value is not None and math.isfinite(value) and value > 0 else None

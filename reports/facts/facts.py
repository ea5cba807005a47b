"""Everything known about each result set, gathered once: results, verdict, files beside the logs, interval.

Tables, charts, exports and the page all read from here, so they cannot disagree.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import is_
from pathlib import Path
from typing import Literal

from reports.facts.grid import clock_step, mean_step, samples_step, time_step
from reports.facts.growth import Growth, growth_of
from reports.facts.origin import labels_of
from reports.facts.records import Attempt, SetRecords, read_set_records
from reports.statistics.growth import growth_interval
from reports.statistics.intervals import AT_LEAST, NOMINAL, Interval, LogSummary, log_summary, time_interval
from reports.text.formatting import printable
from rules.benchmarks.loader import shipped_names, shipped_versions
from rules.checks.subject import JudgedSet
from rules.checks.verdict import Verdict
from rules.judge.checker import judge_levels
from rules.judge.sets import judge_sets
from rules.official.opinion import OnProgress
from rules.records.metrics import Metric, metric_of
from rules.records.run import RunRecord
from rules.records.run_set import UntilRecord
from rules.scoring.results import BenchmarkResult, RunResult
from rules.tree.inventory import Inventory, result_sets_of, take_inventory
from rules.tree.result_set import ResultSet, real_path

Fate = Literal["counted", "dropped", "failed"]
Status = Literal["own", "official", "unknown"]
Order = Literal["files", "score"]
Standing = Literal["own", "unknown", "unverified", "published"]
"""As Status; a result under an official name is unverified where this harness made its logs, else published: whether
MLCommons has verified that one is not known here."""
_GRIDS: Mapping[str, tuple[Callable[[RunResult], float], float]] = {
    "time_to_train_s": (time_step, AT_LEAST),
    "samples_to_converge": (samples_step, AT_LEAST),
    "epochs_to_converge": (samples_step, AT_LEAST),
    "throughput_samples_per_s": (clock_step, NOMINAL),
}
"""The grid of a quantity of RunResult, and what its interval is said to hold."""
_RESULT_NUMBER = re.compile(r"result_(\d{1,6})\.txt\Z")


@dataclass(frozen=True, kw_only=True, slots=True)
class RunFacts:
    """One committed run. `fate` says how it enters the score; `attempt` is where it was made, if known; `repeats`
    names the configuration on the same page that has this very run, too, and before."""

    label: str
    result: RunResult
    fate: Fate
    is_dropped: bool
    attempt: Attempt | None
    repeats: str = ""

    @property
    def record(self) -> RunRecord | None:
        """Its run.json; None where there is none that can be used."""
        return self.attempt.record if self.attempt else None

    @property
    def time_s(self) -> float | None:
        """Time to train of a run that converged; None otherwise, because such a run has none."""
        return self.result.time_to_train_s if self.result.converged else None


@dataclass(frozen=True, kw_only=True, slots=True)
class SetFacts:
    """One configuration: a result set with its score, verdict, interval and records."""

    index: int
    label: str
    status: Status
    result_set: ResultSet
    result: BenchmarkResult
    verdict: Verdict
    records: SetRecords
    runs: tuple[RunFacts, ...]
    unfinished: tuple[Attempt, ...]
    interval: Interval | None
    levels: tuple[Verdict, ...] = ()
    """The verdicts on the submission and the round that it is in, innermost first."""
    price_per_hour: float | None = None
    """Given by who asks for a report; what training costs follows from it and is called derived."""
    known: dict[str, tuple[list[RunResult], LogSummary | None]] = field(
        default_factory=dict, compare=False, repr=False
    )
    """Summaries, with the runs that they are of: worked out once, also for copies with another label."""

    @property
    def drawn(self) -> tuple[RunFacts, ...]:
        """The runs that no earlier configuration has."""
        return tuple(run for run in self.runs if not run.repeats)

    @property
    def is_repeat(self) -> bool:
        """Whether all of its runs are those of earlier configurations."""
        return bool(self.runs) and not self.drawn

    @property
    def standing(self) -> Standing:
        return standing_of(self.status, self.result_set, self.result)

    @property
    def benchmark(self) -> str:
        return printable(self.result.benchmark) if self.result.benchmark else "unnamed benchmark"

    @property
    def metric(self) -> Metric:
        """What its evaluations measure."""
        return metric_of(self.result.metric)

    @property
    def converged(self) -> tuple[RunFacts, ...]:
        """The runs that reached the target."""
        return tuple(run for run in self.runs if run.result.converged)

    def summary(self, member: str) -> LogSummary | None:
        """Of a quantity of RunResult, over the runs that converged."""
        runs = [run.result for run in self.converged]
        of_runs, summary = self.known.get(member, (None, None))
        if of_runs is None or len(of_runs) != len(runs) or not all(map(is_, of_runs, runs)):
            step, confidence = _GRIDS[member]
            values = [getattr(run, member) for run in runs]
            summary = log_summary(values, step=mean_step(step, runs), confidence=confidence)
            self.known[member] = runs, summary
        return summary

    @property
    def overhead(self) -> LogSummary | None:
        """Of the time to train over the training time, over the runs that converged."""
        return log_summary(overhead_ratio(run.result) for run in self.converged)

    @property
    def growth(self) -> Growth | None:
        """How a set ended that was to grow until it is precise; None where its number of runs was given."""
        return growth_of(self.result, self.records.run_set.until if self.records.run_set else None)

    @property
    def codes(self) -> tuple[str, ...]:
        """Digests of the code that made the runs, each once; none where it was not recorded."""
        records = [run.record for run in self.runs]
        return tuple(dict.fromkeys(record.code.sha256 for record in records if record and record.code))

    @property
    def first_run(self) -> RunResult | None:
        return self.result.runs[0] if self.result.runs else None


def overhead_ratio(run: RunResult) -> float | None:
    """Return 1 + overhead / training time, the factor of evaluation and overhead; None where it is not known."""
    return run.time_to_train_s / run.train_s if run.time_to_train_s is not None and run.train_s else None


def gather(
    paths: Sequence[Path | Inventory],
    *,
    second_opinion: bool = True,
    benchmark_file: Path | None = None,
    on_opinion: OnProgress | None = None,
) -> tuple[SetFacts, ...]:
    """Facts of every set at or below `paths`, each folder once. Raises InputError where there is nothing to read.

    Without `second_opinion` the official checker is not asked; `on_opinion` is called with how many of how many
    questions it has answered. `benchmark_file` defines a benchmark of one's own.
    """
    found: dict[Path, ResultSet] = {}
    inventories = [path if isinstance(path, Inventory) else take_inventory(path, benchmark_file) for path in paths]
    for result_set in result_sets_of(inventories):
        is_one_log = len(result_set.logs) == 1
        key = real_path(result_set.logs[0] if is_one_log else result_set.folder)
        found.setdefault(key, result_set)
    judged = judge_sets(list(found.values()), benchmark_file, second_opinion=second_opinion, on_opinion=on_opinion)
    levels = _levels_above(inventories, judged, benchmark_file)
    return tuple(
        replace(
            make_set_facts(index, label, judged_set, read_set_records(judged_set.result_set, judged_set.files)),
            levels=levels.get(judged_set.verdict.subject, ()),
        )
        for index, (label, judged_set) in enumerate(zip(unique_labels(found.values()), judged, strict=True))
    )


def _levels_above(
    inventories: Sequence[Inventory], judged: Sequence[JudgedSet], benchmark_file: Path | None
) -> dict[str, tuple[Verdict, ...]]:
    """The verdicts on the levels above each set, by the subject of its own."""
    above: dict[str, tuple[Verdict, ...]] = {}
    for top in (verdict for inventory in inventories for verdict in judge_levels(inventory, judged, benchmark_file)):
        for submission in (part for part in top.walk() if part.level == "submission"):
            for part in submission.parts:
                above.setdefault(part.subject, (submission,) if submission is top else (submission, top))
    return above


def make_set_facts(index: int, label: str, judged: JudgedSet, records: SetRecords) -> SetFacts:
    """Join one set's parts; pure."""
    result = judged.result
    by_index = {
        attempt.run_index: attempt
        for attempt in records.attempts
        if attempt.record is None or attempt.record.is_finished
    }
    runs = []
    for position, run in enumerate(result.runs):
        match, is_dropped = _RESULT_NUMBER.search(run.path), position in result.dropped
        number = int(match[1]) if match else position
        is_beyond = result.olympic_mean_s is not None and position >= result.num_runs_scored
        fate: Fate = "failed" if not run.converged else "dropped" if is_dropped or is_beyond else "counted"
        attempt = by_index.get(number)
        runs.append(RunFacts(label=str(number), result=run, fate=fate, is_dropped=is_dropped, attempt=attempt))
    committed = {id(run.attempt) for run in runs if run.attempt is not None}
    return SetFacts(
        index=index,
        label=label,
        status=benchmark_status(result.benchmark, is_defined=result.num_runs_required is not None),
        result_set=judged.result_set,
        result=result,
        verdict=judged.verdict,
        records=records,
        runs=tuple(runs),
        unfinished=tuple(attempt for attempt in records.attempts if id(attempt) not in committed),
        interval=interval_of(result, records.run_set.until if records.run_set else None),
    )


def benchmark_status(name: str | None, *, is_defined: bool) -> Status:
    """Whether a name belongs to MLPerf; one that is not shipped is somebody's own where a definition came with it."""
    if name is not None and name in shipped_names():
        return "official" if shipped_versions(name)[-1].status == "official" else "own"
    return "own" if name is not None and is_defined else "unknown"


def with_repeats(sets: Sequence[SetFacts]) -> tuple[SetFacts, ...]:
    """Name at each run the earlier of these sets that has it, too, with the same time: it is drawn once."""
    seen: dict[object, str] = {}
    marked = []
    for facts in sets:
        keys = [[(identity, run.time_s) for identity in run.result.identities] for run in facts.runs]
        firsts = [next((seen[key] for key in of_run if key in seen), "") for of_run in keys]
        runs = tuple(replace(run, repeats=first) for run, first in zip(facts.runs, firsts, strict=True))
        marked.append(replace(facts, runs=runs))
        for key in (key for of_run in keys for key in of_run):
            seen.setdefault(key, facts.label)
    return tuple(marked)


def in_order(sets: Sequence[SetFacts], order: Order) -> tuple[SetFacts, ...]:
    """By score: INVALID sets after the others, sets without a score last."""
    if order == "files":
        return tuple(sets)

    def place(facts: SetFacts) -> tuple[bool, bool, float]:
        score_s = facts.result.score_s
        return score_s is None, facts.verdict.outcome == "invalid", score_s or 0.0

    return tuple(sorted(sets, key=place))


def standing_of(status: Status, result_set: ResultSet, result: BenchmarkResult) -> Standing:
    """Tell own results under an official name from those that somebody published, by the keys of our own log."""
    if status != "official":
        return status
    is_ours = result_set.root is not None or any(run.definition_sha256 for run in result.runs)
    return "unverified" if is_ours else "published"


def unique_labels(result_sets: Iterable[ResultSet]) -> tuple[str, ...]:
    """A short name per set: the run set's folder, or organisation, system and round; made distinct by `labels_of`."""
    return labels_of([(_label(result_set), result_set.root) for result_set in result_sets])


def _label(result_set: ResultSet) -> str:
    if result_set.root is not None and result_set.organization is None:
        return printable(real_path(result_set.root).name, 80)
    system = result_set.system or real_path(result_set.folder).name
    parts = [result_set.organization, system, f"v{result_set.round}" if result_set.round else None]
    return " · ".join(printable(part, 60) for part in parts if part)


def interval_of(result: BenchmarkResult, until: UntilRecord | None) -> Interval | None:
    """Make the interval beside a score that exists: of the geometric mean of all runs.

    None where one of them did not converge: an infinite time leaves no mean. Of a set that grew `until` its mean was
    known well enough, it is made at the level that allows for it.
    """
    if result.olympic_mean_s is None:
        return None
    times = [run.time_to_train_s if run.converged and run.time_to_train_s else math.inf for run in result.runs]
    step = mean_step(time_step, result.runs)
    return time_interval(times, step) if until is None else growth_interval(times, step)

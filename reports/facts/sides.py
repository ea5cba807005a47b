"""The sides of a comparison: what a result set or a measurement brings to it."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from reports.facts.facts import SetFacts, Status
from reports.facts.grid import clock_step, samples_step, time_step
from reports.facts.growth import Growth
from reports.facts.origin import repetition_key
from reports.facts.records import code_setting, settings_of
from reports.text.formatting import printable
from rules.scoring.results import RunResult

HARDWARE = (
    "number_of_nodes", "host_processors_per_node", "host_processor_model_name", "host_processor_core_count",
    "accelerators_per_node", "accelerator_model_name",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """One measured run or process: what is compared of it by name, what is not known left out.

    A step is the grid that a value is on, as a fraction of the value: samples and times on that of the evaluations,
    the rest on the clock's. `curve` has what was trained (in samples, else epochs) and the quality of each
    evaluation; `stopped_ms` is None where it is not known.
    """

    seed: int | None
    values: Mapping[str, float]
    steps: Mapping[str, float] = field(default_factory=dict)
    started_ms: float | None = None
    stopped_ms: float | None = None
    curve: tuple[tuple[float | None, float], ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Side:
    """One side. `samples` are the runs that converged, or the processes of a measurement.

    `runs` are all runs, `settings` what was set and the software, by name, `hardware` the fields of the
    system description that say what it is. `num_tolerated` runs may fail to converge: Olympic scoring drops as many.
    `outcome` is what the rules say of the set.
    """

    label: str
    kind: str
    """runs, or a kind of measurement."""
    status: Status
    benchmark: str | None
    samples: tuple[Sample, ...]
    runs: tuple[RunResult, ...]
    system: str | None
    hardware: tuple[tuple[str, str], ...]
    settings: tuple[tuple[str, str], ...]
    olympic_mean_s: float | None = None
    score_s: float | None = None
    round: str | None = None
    num_tolerated: int = 1
    outcome: str | None = None
    growth: Growth | None = None
    """How a set ended that was to grow until it is precise; None where the number of runs was given."""
    folder: Path | None = None
    """The folder of a set or measurement of this harness; None of anyone else's, and of an export."""
    turns: str | None = None
    """What it took turns in, with others of equal turns: a sweep's folder. None of a set of its own."""
    repetition: str | None = None
    """Equal of sets that repeat each other: one configuration, one code, one system; None where that is not known."""

    @property
    def num_runs(self) -> int:
        """All runs, or the processes of a measurement."""
        return len(self.runs) or len(self.samples)

    @property
    def num_converged(self) -> int:
        return len(self.samples)


def side_of(facts: SetFacts) -> Side:
    """The side that a gathered result set makes."""
    result, system = facts.result, dict(facts.records.system)
    return Side(
        label=facts.label,
        kind="runs",
        status=facts.status,
        benchmark=result.benchmark,
        samples=converged_samples(result.runs),
        runs=result.runs,
        system=facts.result_set.system,
        hardware=tuple((key, system[key]) for key in HARDWARE if key in system),
        settings=(*logged_settings(result.runs), *settings_of(facts.records.run_set), *code_setting(facts.codes)),
        olympic_mean_s=result.olympic_mean_s,
        score_s=result.score_s,
        round=result.round,
        num_tolerated=result.num_runs_dropped,
        outcome=facts.verdict.outcome,
        growth=facts.growth,
        folder=facts.result_set.root,
        repetition=repetition_key(facts.records.run_set),
    )


def logged_settings(runs: Sequence[RunResult]) -> tuple[tuple[str, str], ...]:
    """What every log says and a comparison may vary, as text; None where there is no run."""
    if not runs:
        return ()
    first = runs[0]
    named = (
        ("submission_org", first.organization), ("submission_platform", first.platform),
        ("global_batch_size", first.global_batch_size), ("opt_base_learning_rate", first.learning_rate),
    )  # fmt: skip
    return tuple((key, printable(value)) for key, value in named if value is not None)


def converged_samples(runs: Sequence[RunResult]) -> tuple[Sample, ...]:
    """The runs that reached the target, in their order."""
    return tuple(_sample(run) for run in runs if run.converged)


def _sample(run: RunResult) -> Sample:
    time_s, train_s, samples = run.time_to_train_s, run.train_s, run.samples_to_converge
    return Sample(
        seed=run.seed,
        values=factor_values(_positive(time_s), _positive(train_s), _positive(samples)),
        steps={
            "time_to_train": time_step(run),
            "samples_to_converge": samples_step(run),
            "throughput": clock_step(run),
            "overhead": clock_step(run),
        },
        started_ms=run.started_ms,
        stopped_ms=run.timed_ms[1] if run.timed_ms else None,
        curve=tuple(
            (evaluation.samples_count or evaluation.epoch_num, evaluation.quality) for evaluation in run.evaluations
        ),
    )


def factor_values(time_s: float | None, train_s: float | None, num_samples: float | None) -> dict[str, float]:
    """The factors of the time to train, each from the same three measurements, so that the logarithms add up."""
    values = {} if time_s is None else {"time_to_train": time_s}
    if train_s is not None and num_samples is not None:
        values["throughput"] = num_samples / train_s
        if time_s is not None:
            values |= {"samples_to_converge": num_samples, "overhead": time_s / train_s}
    return values


def _positive(value: float | None) -> float | None:
    return float(value) if value is not None and math.isfinite(value) and value > 0 else None

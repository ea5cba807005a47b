"""Count the epochs that a calibration of a target quality would train, and model their time from a few steps that are
timed now."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from harness.config.catalog import Entry, WorkloadConfig
from harness.extensions.calibration.calibrate import CalibrationPlan, count_epochs, count_runs
from harness.extensions.calibration.runs import REFERENCE, steps_to_evaluations
from harness.measure.kinds import Work
from harness.planning.memory import model_memory
from harness.planning.plan import TimeEstimate, estimate_work, read_sizes
from harness.run_sets.dataset import is_generated
from harness.system.resources import read_resources
from reference_models.data.registry import locate_dataset
from reports.document.blocks import Block, Heading, Prose, text_table
from reports.text.formatting import rough_duration


@dataclass(frozen=True, kw_only=True, slots=True)
class EpochTimes:
    """Modelled time of one training epoch of the reference implementation on one thread, at each batch size of a
    calibration, and the reasons why it cannot be modelled on this machine, such as missing data."""

    epochs: Mapping[int, TimeEstimate | None]
    """Modelled time of a training epoch, by batch size; None for a batch size whose epoch cannot be timed on this
    system."""
    problems: tuple[str, ...]

    def total_s(self, num_epochs: Mapping[int, int], num_workers: int) -> float | None:
        """Return the seconds to train all epochs of `num_epochs` (number of epochs by batch size), `num_workers`
        epochs at a time; None if the time of an epoch is not known at some batch size."""
        total_s = 0.0
        for size, estimate in self.epochs.items():
            if estimate is None:
                return None
            total_s += num_epochs[size] * estimate.run_s
        return total_s / num_workers


def look_ahead(entry: Entry, plan: CalibrationPlan, data_root: Path | None) -> EpochTimes:
    """Model the time of a calibration's epochs at each batch size. For this, ten steps and an evaluation of the
    reference implementation are timed on one thread now; their results are not stored."""
    config = entry.workload
    data_dir = locate_dataset(config.data, data_root)
    sizes, data_problem = read_sizes(config.data, data_dir)
    problems = [] if data_problem is None or is_generated(config.data, data_dir) else [data_problem]
    epochs: dict[int, TimeEstimate | None] = dict.fromkeys(plan.batch_sizes)
    if sizes is not None:
        train_samples, eval_samples, num_embeddings = sizes
        for size in plan.batch_sizes:
            workload = _of_calibration(config, size)
            steps = steps_to_evaluations(entry.benchmark, train_samples, size)
            needs = model_memory(workload, read_resources(), eval_samples, num_embeddings)
            lacking = [need.problem for need in needs if need.problem is not None]
            if not steps:
                lacking.append(f"batch size {size} leaves no evaluation in an epoch of {train_samples} samples.")
            problems += lacking
            if not lacking:
                work = Work(num_steps=sum(steps), num_evals=len(steps), eval_samples=eval_samples)
                epochs[size] = estimate_work(workload, num_embeddings, work, data_dir, 1)
    return EpochTimes(epochs=epochs, problems=tuple(dict.fromkeys(problems)))


def _of_calibration(config: WorkloadConfig, global_batch_size: int) -> WorkloadConfig:
    """Return `config`, the settings of a benchmark, changed to those of a calibration's run: the given batch size,
    the reference implementation and one thread."""
    train = replace(config.train, global_batch_size=global_batch_size)
    return replace(config, train=train, runtime=replace(config.runtime, implementation=REFERENCE, threads=1))


def outlook_blocks(entry: Entry, plan: CalibrationPlan, times: EpochTimes) -> tuple[Block, ...]:
    """Return the report blocks (heading, table, sentences) on a calibration's plan: for each batch size the epochs to
    train at most, computed, and the modelled time of an epoch; then the total number and time."""
    benchmark, counts = entry.benchmark, count_epochs(entry, plan)
    rows = []
    for size, estimate in times.epochs.items():
        shown = None if estimate is None else f"{estimate.run_s:.1f} s"
        rows.append((size, *counts[size], sum(counts[size]), shown))
    columns = ("batch size", "tuning", "seeds", "simpler models", "epochs", "an epoch, 1 thread, modelled")
    total_s = times.total_s({size: sum(each) for size, each in counts.items()}, plan.num_workers)
    methods = sorted({estimate.method for estimate in times.epochs.values() if estimate is not None})
    time = (
        "How long that takes cannot be modelled here."
        if total_s is None
        else f"All of them take about {total_s / 3600:.2g} hours ({rough_duration(total_s)}), {'; '.join(methods)}. "
        "Simpler models are taken to be as slow as the reference; the slowdown of simultaneous runs is left out."
    )
    kind = ", quick and uncalibrated" if plan.is_quick else ""
    rates = ", ".join(f"{rate:g}" for rate in plan.learning_rates)
    return (
        Heading(text=f"{benchmark.name} version {benchmark.version}: plan of a calibration{kind}"),
        text_table(columns, rows, numbers=columns),
        *([Prose(text=f"Learning rates to choose from: {rates}.")] if rates else []),
        Prose(
            text=f"At most {count_runs(entry, plan)} epochs, {plan.num_workers} at a time. Finished ones in "
            "runs.jsonl of --output are not trained again."
        ),
        Prose(text=time),
        *(Prose(text=f"Note: {problem}") for problem in times.problems),
    )

"""Calibrate one benchmark: tune, run every seed at every batch size, run the baselines, ask the oracle."""

import platform
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from harness.calibration.runs import (
    REFERENCE,
    CalibrationResult,
    CalibrationRun,
    RunStore,
    complete_runs,
)
from harness.calibration.table import (
    Calibration,
    calibration_blocks,
    propose_target,
    reference_convergence_points,
    summarise_baseline,
    summarise_batch_size,
    tuned_learning_rate,
    tuning_rows,
)
from harness.config.catalog import Entry
from harness.config.seeds import derive_seeds
from harness.foundation.files import write_json, write_text
from harness.system.resources import usable_cores
from reports.render.markdown import render_markdown

_RATE_FACTORS = (0.5, 0.7, 1.0, 1.4, 2.0)
_BASELINE_RATES = (0.01, 0.02, 0.05, 0.1, 0.2)
# Runs get seeds derived as those of any set are; tuning uses others.
_BASE_SEED = 20_000
_FIRST_TUNING_SEED, _BASELINE_SEED = 1001, 1

OnResult = Callable[[str, CalibrationResult, int], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class CalibrationPlan:
    """What to run. Tuning uses other seeds than the runs that become reference convergence points."""

    batch_sizes: tuple[int, ...]
    learning_rates: tuple[float, ...]
    num_runs: int
    num_tuning_runs: int
    num_workers: int


def plan_calibration(
    entry: Entry,
    *,
    batch_sizes: Sequence[int] = (),
    learning_rates: Sequence[float] = (),
    num_runs: int = 20,
    num_tuning_runs: int = 2,
    num_workers: int | None = None,
) -> CalibrationPlan:
    """Fill in what is not given: half, once and twice the definition's batch size; factors of its learning rate."""
    size, rate = entry.workload.train.global_batch_size, entry.workload.train.opt_base_learning_rate
    return CalibrationPlan(
        batch_sizes=tuple(sorted({*(batch_sizes or (max(1, size // 2), 2 * size)), size})),
        learning_rates=tuple(learning_rates) or tuple(float(f"{factor * rate:.4g}") for factor in _RATE_FACTORS),
        num_runs=num_runs,
        num_tuning_runs=num_tuning_runs,
        num_workers=num_workers or usable_cores(),
    )


def calibrate(
    entry: Entry, data_dir: Path, plan: CalibrationPlan, store: RunStore, on_result: OnResult | None = None
) -> Calibration:
    """Run what `store` lacks of the plan and summarise.

    `on_result` gets part, result and how many runs are left at most: what the store holds of later parts is not known
    before their learning rates are.
    """
    definition, train = entry.benchmark, entry.workload.train
    later = count_runs(entry, plan)

    def complete(part: str, runs: list[CalibrationRun]) -> list[CalibrationResult]:
        nonlocal later
        later -= len(runs)

        def on_part(result: CalibrationResult, left: int) -> None:
            if on_result is not None:
                on_result(part, result, left + later)

        return complete_runs(entry, data_dir, runs, store, num_workers=plan.num_workers, on_result=on_part)

    tuning = complete(
        "learning rates",
        [
            CalibrationRun(model=REFERENCE, global_batch_size=size, opt_base_learning_rate=rate, seed=seed)
            for size in plan.batch_sizes
            for rate in plan.learning_rates
            for seed in range(_FIRST_TUNING_SEED, _FIRST_TUNING_SEED + plan.num_tuning_runs)
        ],
    )
    summaries, of_default = [], list[CalibrationResult]()
    for size in plan.batch_sizes:
        at_size = [result for result in tuning if result.run.global_batch_size == size]
        # The definition's own batch size keeps its own learning rate: it is what a plain run uses.
        is_default = size == train.global_batch_size
        rate = train.opt_base_learning_rate if is_default else tuned_learning_rate(definition, at_size)
        runs = [
            CalibrationRun(model=REFERENCE, global_batch_size=size, opt_base_learning_rate=rate, seed=seed)
            for seed in derive_seeds(_BASE_SEED, plan.num_runs)
        ]
        results = complete(f"batch size {size}", runs)
        of_default = results if is_default else of_default
        summaries.append(summarise_batch_size(definition, results))
    size, rates = train.global_batch_size, _baseline_rates(entry)
    baselines = entry.workload.model_spec.baselines
    of_baselines = complete(
        "baselines",
        [
            CalibrationRun(model=model, global_batch_size=size, opt_base_learning_rate=rate, seed=_BASELINE_SEED)
            for model in baselines
            for rate in rates
        ],
    )
    oracle_quality = measure_oracle(entry)
    of_models = tuple(summarise_baseline([r for r in of_baselines if r.run.model == model]) for model in baselines)
    return Calibration(
        benchmark=definition.name,
        version=definition.version,
        target=definition.quality.target,
        oracle_quality=oracle_quality,
        default_batch_size=train.global_batch_size,
        batch_sizes=tuple(summaries),
        baselines=of_models,
        tuning=tuple(tuning_rows(definition, tuning)),
        proposal=propose_target(of_default, definition.quality.evals_per_epoch, of_models, oracle_quality),
    )


def count_runs(entry: Entry, plan: CalibrationPlan) -> int:
    """Count the epochs that a whole calibration trains."""
    of_reference = len(plan.batch_sizes) * (len(plan.learning_rates) * plan.num_tuning_runs + plan.num_runs)
    return of_reference + len(entry.workload.model_spec.baselines) * len(_baseline_rates(entry))


def _baseline_rates(entry: Entry) -> list[float]:
    return sorted({*_BASELINE_RATES, entry.workload.train.opt_base_learning_rate})


def measure_oracle(entry: Entry) -> float | None:
    """Measure the teacher's own AUC on the evaluation split, the best of any model; None without a teacher."""
    if entry.workload.data.kind != "click_log":
        return None
    from reference_models.data.click_log import oracle_scores
    from reference_models.training.metrics import roc_auc

    probabilities, labels = oracle_scores(entry.workload.data, "eval")
    return roc_auc(labels != 0, probabilities.astype(np.float32))


def write_calibration(folder: Path, entry: Entry, calibration: Calibration) -> tuple[Path, Path, Path]:
    """Write calibration.md, calibration.json and NAME.rcps.json; return their paths."""
    names = ("calibration.md", "calibration.json", f"{entry.benchmark.name}.rcps.json")
    paths = (folder / names[0], folder / names[1], folder / names[2])
    write_text(paths[0], render_markdown(calibration_blocks(calibration)) + "\n")
    write_json(paths[1], {**asdict(calibration), "conditions": calibration.conditions()})
    when = f"{datetime.now(UTC):%Y-%m-%d}"
    points = reference_convergence_points(entry.benchmark, calibration, when=when, platform=describe_platform())
    write_json(paths[2], points)
    return paths


def describe_platform() -> str:
    """Name processor and torch that the runs were made with, for the reference convergence points."""
    import torch

    from harness.system.hardware import read_processors

    return f"{read_processors().model_name or platform.machine()}, 1 thread per run, torch {torch.__version__}"

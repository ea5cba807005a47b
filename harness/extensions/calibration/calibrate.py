"""Calibrate the target quality of one benchmark: tune the learning rate, train every seed at every batch size, train
simpler models, and measure the oracle (the teacher that labelled generated data)."""

import json
import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import numpy as np

from harness.config.catalog import Entry
from harness.extensions.calibration.runs import (
    REFERENCE,
    RUNS_FILE,
    CalibrationResult,
    CalibrationRun,
    RunStore,
    complete_runs,
)
from harness.extensions.calibration.table import (
    calibration_blocks,
    in_logged_unit,
    judge_conditions,
    propose_target,
    reference_convergence_points,
    summarise_baseline,
    summarise_batch_size,
    tuned_learning_rate,
    tuning_rows,
)
from harness.foundation.files import refuse_irregular
from harness.system.resources import count_usable_cores
from reference_models.data.registry import find_data
from reference_models.process.atomic_write import write_atomically
from reference_models.process.errors import ConfigError
from reports.render.markdown import render_markdown
from rules.benchmarks.seeds import derive_seeds
from rules.records.calibration import CalibrationRecord
from rules.records.codec import decode, encode

_RATE_FACTORS = (0.5, 0.7, 1.0, 1.4, 2.0)
_BASELINE_RATES = (0.01, 0.02, 0.05, 0.1, 0.2)
QUICK_RUNS = 3
BASE_SEED = 20_000
"""Base seed from which the seeds of a calibration's runs are derived, as in any run set; runs that tune learning
rates have other seeds."""
_FIRST_TUNING_SEED, _BASELINE_SEED = 1001, 1

OnResult = Callable[[str, CalibrationResult, int], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class CalibrationPlan:
    """Runs that a calibration of a target quality trains. Runs that tune learning rates have other seeds than the
    runs by which the target is judged."""

    batch_sizes: tuple[int, ...]
    learning_rates: tuple[float, ...]
    num_runs: int
    """Number of seeds per batch size; the runs with these seeds become reference convergence points."""
    num_confirming_runs: int
    """Number of seeds trained at the benchmark definition's own batch size, at least `num_runs`; these runs show
    whether training reaches the target reliably (condition (a), convergence)."""
    base_seed: int
    num_tuning_runs: int
    num_workers: int
    is_quick: bool = False
    """Whether the calibration is a quick one: few runs at one batch size and learning rate, whose results are no
    reference for other runs."""

    @property
    def tuning_seeds(self) -> tuple[int, ...]:
        return tuple(range(_FIRST_TUNING_SEED, _FIRST_TUNING_SEED + self.num_tuning_runs))

    def seeds(self, *, is_default: bool) -> list[int]:
        """Derive the seeds of the runs at one batch size. `is_default` says that this is the batch size of the
        benchmark definition, for which there are more seeds."""
        num_runs = max(self.num_runs, self.num_confirming_runs) if is_default else self.num_runs
        return derive_seeds(self.base_seed, num_runs, frozenset(self.tuning_seeds))


def plan_calibration(
    entry: Entry,
    *,
    batch_sizes: Sequence[int] = (),
    learning_rates: Sequence[float] = (),
    num_runs: int = 20,
    num_confirming_runs: int = 60,
    base_seed: int | None = None,
    num_tuning_runs: int = 2,
    num_workers: int | None = None,
    is_quick: bool = False,
) -> CalibrationPlan:
    """Plan the runs of a calibration. The default batch sizes are 0.5, 1 and 2 times the benchmark definition's; the
    default learning rates are several multiples of the definition's.

    A quick calibration has QUICK_RUNS runs at the definition's batch size and learning rate; simpler models are
    trained at that learning rate, too. A quick calibration ignores the arguments for numbers of runs, batch sizes and
    learning rates.

    Raises ConfigError if the model has no reference implementation, which a calibration needs for training, or if the
    definition's section [id_map] maps ids onto fewer embedding rows. Raises DefinitionError if the benchmark's logs
    count convergence in a unit to which epochs cannot be converted.
    """
    if REFERENCE not in entry.workload.model_spec.implementations:
        raise ConfigError(
            f"{entry.benchmark.name}: its model has no implementation {REFERENCE!r}, which calibration trains."
        )
    if entry.workload.data.id_map.is_active:
        raise ConfigError(f"{entry.benchmark.name}: a target is calibrated without [id_map]. Leave that out.")
    in_logged_unit(entry.benchmark, 1.0)  # raises now rather than after training
    size, rate = entry.workload.train.global_batch_size, entry.workload.train.opt_base_learning_rate
    base_seed, num_workers = BASE_SEED if base_seed is None else base_seed, num_workers or count_usable_cores()
    if is_quick:
        return CalibrationPlan(
            batch_sizes=(size,),
            learning_rates=(),
            num_runs=QUICK_RUNS,
            num_confirming_runs=QUICK_RUNS,
            base_seed=base_seed,
            num_tuning_runs=0,
            num_workers=num_workers,
            is_quick=True,
        )
    return CalibrationPlan(
        batch_sizes=tuple(sorted({*(batch_sizes or (max(1, size // 2), 2 * size)), size})),
        learning_rates=tuple(learning_rates) or tuple(float(f"{factor * rate:.4g}") for factor in _RATE_FACTORS),
        num_runs=num_runs,
        num_confirming_runs=num_confirming_runs,
        base_seed=base_seed,
        num_tuning_runs=num_tuning_runs,
        num_workers=num_workers,
    )


def calibrate(
    entry: Entry, data_dir: Path, plan: CalibrationPlan, store: RunStore, on_result: OnResult | None = None
) -> CalibrationRecord:
    """Train the runs of a calibration's plan that `store` lacks, and return a summary of all runs of the plan.

    `on_result` is called for each newly trained run with the name of the part of the calibration (such as "learning
    rates"), the run's result, and an upper bound of the number of runs that are left. The exact number is not known:
    learning rates of later parts are still to be chosen, and `store` may hold some of their runs.
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
            for seed in plan.tuning_seeds
        ],
    )
    summaries, of_reference = [], dict[int, list[CalibrationResult]]()
    for size in plan.batch_sizes:
        at_size = [result for result in tuning if result.run.global_batch_size == size]
        # The definition's own batch size keeps the definition's learning rate, which `run` uses.
        is_default = size == train.global_batch_size
        rate = train.opt_base_learning_rate if is_default else tuned_learning_rate(definition, at_size)
        runs = [
            CalibrationRun(model=REFERENCE, global_batch_size=size, opt_base_learning_rate=rate, seed=seed)
            for seed in plan.seeds(is_default=is_default)
        ]
        results = complete(f"batch size {size}", runs)
        of_reference[size] = results
        summaries.append(summarise_batch_size(definition, results))
    size, rates = train.global_batch_size, _baseline_rates(entry, plan)
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
    target, default = definition.quality.target, summarise_batch_size(definition, of_reference[size])
    codes = {result.code_sha256 for results in (tuning, of_baselines, *of_reference.values()) for result in results}
    return CalibrationRecord(
        benchmark=definition.name,
        version=definition.version,
        definition_sha256=definition.definition_sha256,
        is_calibrated=not plan.is_quick,
        target=target,
        metric=definition.quality.metric,
        precision=entry.workload.runtime.precision,
        created_utc=f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
        platform=describe_platform(),
        code_sha256=tuple(sorted(codes, key=str)),
        base_seed=plan.base_seed,
        tuning_seeds=plan.tuning_seeds,
        num_reference_runs=plan.num_runs,
        oracle_quality=oracle_quality,
        default_batch_size=size,
        batch_sizes=tuple(summaries),
        baselines=of_models,
        tuning=tuning_rows(definition, tuning),
        proposal=propose_target(of_reference[size], definition.quality.evals_per_epoch, of_models, oracle_quality),
        conditions=judge_conditions(target, default, of_models, oracle_quality, is_quick=plan.is_quick),
    )


class EpochCounts(NamedTuple):
    """Numbers of epochs that a calibration trains at one batch size, for three purposes: tuning the learning rate,
    judging the target quality (one for each seed), and training simpler models."""

    of_tuning: int
    of_seeds: int
    of_simpler_models: int


def count_epochs(entry: Entry, plan: CalibrationPlan) -> dict[int, EpochCounts]:
    """Return a dict from batch size to the numbers of epochs that a calibration of a quality target trains. Simpler
    models train only at the batch size of the benchmark definition."""
    own = entry.workload.train.global_batch_size
    simpler = len(entry.workload.model_spec.baselines) * len(_baseline_rates(entry, plan))
    return {
        size: EpochCounts(
            of_tuning=len(plan.learning_rates) * plan.num_tuning_runs,
            of_seeds=len(plan.seeds(is_default=size == own)),
            of_simpler_models=simpler if size == own else 0,
        )
        for size in plan.batch_sizes
    }


def count_runs(entry: Entry, plan: CalibrationPlan) -> int:
    """Return the largest number of runs that a calibration of a quality target may make. Each run trains for one
    epoch."""
    return sum(map(sum, count_epochs(entry, plan).values()))


def _baseline_rates(entry: Entry, plan: CalibrationPlan) -> list[float]:
    own = entry.workload.train.opt_base_learning_rate
    return [own] if plan.is_quick else sorted({*_BASELINE_RATES, own})


def measure_oracle(entry: Entry) -> float | None:
    """Measure the best quality that any model can reach: the teacher's on the evaluation split. The teacher is the
    model that labelled generated data; None is returned for data without a teacher."""
    data = entry.workload.data
    if (oracle := find_data(data.kind).oracle) is None:
        return None
    from reference_models.training.metrics import find_metric

    scores, labels = oracle(data, "eval")
    return find_metric(entry.benchmark.quality.metric).value(labels, scores.astype(np.float32))


def written_files(folder: Path, entry: Entry) -> tuple[Path, Path, Path]:
    """Return the paths of a calibration's files: calibration.md, NAME.calibration.json and NAME.rcps.json, NAME being
    the benchmark's. Where training precision is not the one that the benchmark definition gives, the file names
    contain the precision, such as calibration.bf16.md and NAME.bf16.rcps.json."""
    own, precision = entry.benchmark.sections["runtime"].get("precision", "fp32"), entry.workload.runtime.precision
    infix = "" if precision == {"auto": "fp32"}.get(own, own) else f".{precision}"
    name = entry.benchmark.name + infix
    return folder / f"calibration{infix}.md", folder / f"{name}.calibration.json", folder / f"{name}.rcps.json"


def refuse_to_replace(folder: Path, entry: Entry, plan: CalibrationPlan) -> None:
    """Raise HarnessError (exit 8) if a file that a calibration writes exists and is a link or no regular file, since
    another user may have made the folder; ConfigError if a quick calibration would replace a complete one."""
    paths = written_files(folder, entry)
    for each in (folder / RUNS_FILE, *paths):
        refuse_irregular(each, "a calibration's file")
    path = paths[1]
    kept = decode(path, CalibrationRecord) if plan.is_quick and path.exists() else None
    if isinstance(kept, CalibrationRecord) and kept.is_calibrated:
        raise ConfigError(f"{path}: a whole calibration, which a quick one would replace. Give another --output.")


def write_calibration(folder: Path, entry: Entry, calibration: CalibrationRecord) -> tuple[Path, Path, Path]:
    """Write calibration.md, NAME.calibration.json and NAME.rcps.json (reference convergence points), where NAME is
    the benchmark's name; return their paths. Older files are replaced. The caller must hold the folder's lock."""
    paths = written_files(folder, entry)
    write_atomically(paths[0], render_markdown(calibration_blocks(calibration)) + "\n")
    write_atomically(paths[1], encode(calibration))
    points = reference_convergence_points(entry.benchmark, calibration)
    write_atomically(paths[2], json.dumps(points, indent=1) + "\n")
    return paths


def describe_platform() -> str:
    """Return the processor and torch version with which a calibration trains, in words, for the reference convergence
    points."""
    import torch

    from harness.system.hardware import read_processors

    return f"{read_processors().model_name or platform.machine()}, 1 thread per run, torch {torch.__version__}"

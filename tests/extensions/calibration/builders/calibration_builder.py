"""Results and tables of calibrations that nothing was trained for."""

from typing import Any

from harness.config.catalog import Entry
from harness.extensions.calibration.runs import REFERENCE, CalibrationResult, CalibrationRun
from harness.extensions.calibration.table import judge_conditions, summarise_batch_size
from reference_models.dlrm.spec import SPEC
from rules.records.calibration import BaselineSummary, CalibrationRecord, TuningRow


def result(
    qualities: tuple[float, ...], *, seed: int = 1, size: int = 64, rate: float = 0.1, model: str = REFERENCE
) -> CalibrationResult:
    return CalibrationResult(
        run=CalibrationRun(model=model, global_batch_size=size, opt_base_learning_rate=rate, seed=seed),
        samples_counts=tuple(256 * (i + 1) for i in range(len(qualities))),
        qualities=qualities,
        train_s=9.0,
        eval_s=1.0,
    )


def crossing_at(index: int, target: float, **options: Any) -> CalibrationResult:
    """20 evaluations that meet the target at `index` (from 0) and stay above it."""
    return result(tuple(target - 0.01 if i < index else target + 0.001 for i in range(20)), **options)


def calibration_of(entry: Entry, results: list[CalibrationResult], **changes: Any) -> CalibrationRecord:
    target = entry.benchmark.quality.target
    values: dict[str, Any] = {
        "benchmark": entry.benchmark.name,
        "version": 1,
        "definition_sha256": entry.benchmark.definition_sha256,
        "target": target,
        "created_utc": "2026-01-02T03:04:05Z",
        "platform": "this",
        "code_sha256": (None,),
        "base_seed": 1,
        "tuning_seeds": (1001,),
        "num_reference_runs": len(results),
        "oracle_quality": target + 0.05,
        "default_batch_size": 64,
        "batch_sizes": (summarise_batch_size(entry.benchmark, results),),
        "baselines": tuple(
            BaselineSummary(model=m, best_quality=target - 0.02, opt_base_learning_rate=0.1, learning_rates=(0.1,))
            for m in SPEC.baselines
        ),
        "tuning": (
            TuningRow(global_batch_size=64, opt_base_learning_rate=0.1, mean_epochs=0.7, mean_final_quality=target),
        ),
        "proposal": None,
    }
    values |= changes
    judged = judge_conditions(
        values["target"], values["batch_sizes"][0], values["baselines"], values["oracle_quality"]
    )
    return CalibrationRecord(**values, conditions=judged)

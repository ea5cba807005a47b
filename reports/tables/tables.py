"""Flat tables of facts, one row per run, per evaluation and per configuration: SI units, missing is missing.

Column names are those of the exports and do not change meaning; new columns go to the end.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from reports.facts.facts import RunFacts, SetFacts
from reports.statistics.intervals import log_summary
from reports.tables.columns import CONFIGURATION_COLUMNS, EVALUATION_COLUMNS, RUN_COLUMNS


@dataclass(frozen=True, kw_only=True, slots=True)
class Tables:
    """The three tables, dtype object, None where something is missing.

    `runs` has committed runs first, then the attempts that left no result, and is told apart by `configuration`.
    """

    configurations: pd.DataFrame
    runs: pd.DataFrame
    evaluations: pd.DataFrame


def tables_of(sets: Sequence[SetFacts]) -> Tables:
    return Tables(
        configurations=configurations_table(sets), runs=runs_table(sets), evaluations=evaluations_table(sets)
    )


def runs_table(sets: Sequence[SetFacts]) -> pd.DataFrame:
    """One row per run, committed ones first, then the attempts that left no result; dtype object, None is missing."""
    rows = [row for one in sets for row in _run_rows(one)]
    return make_frame(rows, RUN_COLUMNS)


def evaluations_table(sets: Sequence[SetFacts]) -> pd.DataFrame:
    rows = [
        {
            "configuration": one.label,
            "run": run.label,
            "evaluation": number,
            "epoch_num": evaluation.epoch_num,
            "samples_count": evaluation.samples_count,
            "elapsed_s": evaluation.elapsed_s,
            "quality": evaluation.quality,
            "path": run.result.path,
        }
        for one in sets
        for run in one.runs
        for number, evaluation in enumerate(run.result.evaluations, start=1)
    ]
    return make_frame(rows, EVALUATION_COLUMNS)


def configurations_table(sets: Sequence[SetFacts]) -> pd.DataFrame:
    """One row per configuration: score, interval, and geometric means of the factors over converged runs."""
    return make_frame([configuration_row(one) for one in sets], CONFIGURATION_COLUMNS)


def configuration_row(one: SetFacts) -> dict[str, Any]:
    result, first, converged = one.result, one.first_run, [run for run in one.runs if run.result.converged]
    epochs = log_summary(run.result.epochs_to_converge for run in converged)
    throughput = log_summary(run.result.throughput_samples_per_s for run in converged)
    return {
        "configuration": one.label,
        "benchmark": result.benchmark,
        "benchmark_version": first.benchmark_version if first else None,
        "status": one.status,
        "division": first.division if first else None,
        "system": one.result_set.system,
        "outcome": one.verdict.outcome,
        "num_errors": one.verdict.count("error"),
        "num_warnings": one.verdict.count("warning"),
        "num_runs": len(one.runs),
        "num_runs_required": result.num_runs_required,
        "num_converged": len(converged),
        "num_unfinished": len(one.unfinished),
        "score_s": result.score_s,
        "olympic_mean_s": result.olympic_mean_s,
        "low_s": one.interval.low if one.interval else None,
        "high_s": one.interval.high if one.interval else None,
        "confidence": one.interval.confidence if one.interval else None,
        "coverage": one.interval.coverage if one.interval else None,
        "rcp_outcome": result.rcp_outcome,
        "rcp_factor": result.rcp_factor,
        "no_score_reason": result.no_score_reason,
        "epochs_to_converge": epochs.geometric_mean if epochs else None,
        "epochs_cv": epochs.coefficient_of_variation if epochs else None,
        "throughput_samples_per_s": throughput.geometric_mean if throughput else None,
        "throughput_cv": throughput.coefficient_of_variation if throughput else None,
        "quality_target": first.quality_target if first else None,
        "final_quality": _mean(run.result.final_quality for run in converged),
        "global_batch_size": first.global_batch_size if first else None,
        "learning_rate": first.learning_rate if first else None,
        "peak_rss_bytes": _peak(run.attempt.peak_rss_bytes for run in one.runs if run.attempt),
        "peak_device_bytes": _peak(run.attempt.peak_device_bytes for run in one.runs if run.attempt),
        "definition_sha256": first.definition_sha256 if first else None,
        "dataset_sha256": first.dataset_sha256 if first else None,
        "organization": one.result_set.organization,
        "round": result.round,
        "num_runs_dropped": result.num_runs_dropped,
    }


def _run_rows(one: SetFacts) -> list[dict[str, Any]]:
    return [_run_row(one, run) for run in one.runs] + [
        {
            "configuration": one.label,
            "benchmark": one.result.benchmark,
            "run": str(attempt.run_index),
            "attempt": attempt.attempt,
            "status": attempt.status or "no record",
            "counted": "no",
            "reason": attempt.reason,
            "seed": attempt.seed,
            "peak_rss_bytes": attempt.peak_rss_bytes,
            "peak_device_bytes": attempt.peak_device_bytes,
            "path": attempt.path,
            "energy_j": attempt.energy.energy_j if attempt.energy else None,
        }
        for attempt in one.unfinished
    ]


def _run_row(one: SetFacts, run: RunFacts) -> dict[str, Any]:
    result, attempt = run.result, run.attempt
    return {
        "configuration": one.label,
        "benchmark": result.benchmark,
        "benchmark_version": result.benchmark_version,
        "division": result.division,
        "run": run.label,
        "attempt": attempt.attempt if attempt else None,
        "status": "success" if result.converged else "not_converged",
        "counted": "dropped" if run.is_dropped else "yes" if one.result.olympic_mean_s is not None else "no score",
        "reason": result.abort_reason,
        "seed": result.seed,
        "started_ms": result.started_ms,
        "time_to_train_s": result.time_to_train_s,
        "train_s": result.train_s,
        "eval_s": result.eval_s,
        "overhead_s": result.overhead_s,
        "init_s": result.init_s,
        "samples_to_converge": result.samples_to_converge,
        "epochs_to_converge": result.epochs_to_converge,
        "throughput_samples_per_s": result.throughput_samples_per_s,
        "final_quality": result.final_quality,
        "quality_target": result.quality_target,
        "num_evaluations": len(result.evaluations),
        "global_batch_size": result.global_batch_size,
        "learning_rate": result.learning_rate,
        "peak_rss_bytes": attempt.peak_rss_bytes if attempt else None,
        "peak_device_bytes": attempt.peak_device_bytes if attempt else None,
        "log_sha256": result.log_sha256,
        "path": result.path,
        "organization": result.organization,
        "platform": result.platform,
        "train_samples": result.train_samples,
        "eval_samples": result.eval_samples,
        "energy_j": attempt.energy.energy_j if attempt and attempt.energy else None,
    }


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _peak(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def make_frame(rows: Sequence[Mapping[str, Any]], columns: Iterable[str]) -> pd.DataFrame:
    """Column by column as objects: whole numbers stay whole where others of their column are missing."""
    return pd.DataFrame({name: pd.Series([row.get(name) for row in rows], dtype=object) for name in columns})

"""The rows that result sets make: one per configuration, per run or unfinished attempt, and per evaluation."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from reports.facts.energy import measured_j
from reports.facts.facts import RunFacts, SetFacts
from reports.statistics.intervals import log_summary
from reports.tables.records import EvaluationLists, ReportDocument, RunMember, SetMember, SetRow
from rules.records.run import RunRecord


def document_of(sets: Sequence[SetFacts]) -> ReportDocument:
    """Everything that the tables hold, per configuration."""
    return ReportDocument(
        configurations=tuple(SetMember(**msgspec.structs.asdict(set_row(one)), runs=run_members(one)) for one in sets)
    )


def set_row(one: SetFacts) -> SetRow:
    """A configuration's score, interval, and geometric means of the factors over converged runs."""
    result, first, converged = one.result, one.first_run, [run for run in one.runs if run.result.converged]
    epochs = log_summary(run.result.epochs_to_converge for run in converged)
    throughput = log_summary(run.result.throughput_samples_per_s for run in converged)
    return SetRow(
        configuration=one.label,
        benchmark=result.benchmark,
        benchmark_version=first.benchmark_version if first else None,
        status=one.status,
        division=first.division if first else None,
        system=one.result_set.system,
        outcome=one.verdict.outcome,
        num_errors=one.verdict.count("error"),
        num_warnings=one.verdict.count("warning"),
        num_runs=len(one.runs),
        num_runs_required=result.num_runs_required,
        num_converged=len(converged),
        num_unfinished=len(one.unfinished),
        score_s=result.score_s,
        olympic_mean_s=result.olympic_mean_s,
        low_s=one.interval.low if one.interval else None,
        high_s=one.interval.high if one.interval else None,
        confidence=one.interval.confidence if one.interval else None,
        coverage=one.interval.coverage if one.interval else None,
        rcp_outcome=result.rcp_outcome,
        rcp_factor=result.rcp_factor,
        no_score_reason=result.no_score_reason,
        epochs_to_converge=epochs.geometric_mean if epochs else None,
        epochs_cv=epochs.coefficient_of_variation if epochs else None,
        throughput_samples_per_s=throughput.geometric_mean if throughput else None,
        throughput_cv=throughput.coefficient_of_variation if throughput else None,
        quality_target=first.quality_target if first else None,
        final_quality=_mean(run.result.final_quality for run in converged),
        global_batch_size=first.global_batch_size if first else None,
        learning_rate=first.learning_rate if first else None,
        peak_rss_bytes=_peak(run.record.peak_rss_bytes for run in one.runs if run.record),
        peak_device_bytes=_peak(run.record.peak_device_bytes for run in one.runs if run.record),
        definition_sha256=first.definition_sha256 if first else None,
        dataset_sha256=first.dataset_sha256 if first else None,
        organization=one.result_set.organization,
        round=result.round,
        num_runs_dropped=result.num_runs_dropped,
    )


def run_members(one: SetFacts) -> tuple[RunMember, ...]:
    """A configuration's runs, committed ones first, then the attempts that left no result."""
    return (*(_run(one, run) for run in one.runs), *_unfinished(one))


def _run(one: SetFacts, run: RunFacts) -> RunMember:
    result = run.result
    return RunMember(
        benchmark=result.benchmark,
        benchmark_version=result.benchmark_version,
        division=result.division,
        run=run.label,
        attempt=run.attempt.attempt if run.attempt else None,
        status="success" if result.converged else "not_converged",
        counted="dropped" if run.is_dropped else "yes" if one.result.olympic_mean_s is not None else "no score",
        reason=result.abort_reason,
        seed=result.seed,
        started_ms=None if result.started_ms is None else round(result.started_ms),
        time_to_train_s=result.time_to_train_s,
        train_s=result.train_s,
        eval_s=result.eval_s,
        # A difference of stamps in ms: below a nanosecond there is only what subtracting floats leaves.
        overhead_s=None if result.overhead_s is None else round(result.overhead_s, 9),
        init_s=result.init_s,
        samples_to_converge=result.samples_to_converge,
        epochs_to_converge=result.epochs_to_converge,
        throughput_samples_per_s=result.throughput_samples_per_s,
        final_quality=result.final_quality,
        quality_target=result.quality_target,
        num_evaluations=len(result.evaluations),
        global_batch_size=result.global_batch_size,
        learning_rate=result.learning_rate,
        log_sha256=result.log_sha256,
        path=result.path,
        organization=result.organization,
        platform=result.platform,
        train_samples=result.train_samples,
        eval_samples=result.eval_samples,
        evaluations=EvaluationLists(
            epoch_num=tuple(evaluation.epoch_num for evaluation in result.evaluations),
            samples_count=tuple(evaluation.samples_count for evaluation in result.evaluations),
            elapsed_s=tuple(evaluation.elapsed_s for evaluation in result.evaluations),
            quality=tuple(evaluation.quality for evaluation in result.evaluations),
        ),
        **_measured(run.record),
    )


def _unfinished(one: SetFacts) -> Iterator[RunMember]:
    for attempt in one.unfinished:
        record = attempt.record
        yield RunMember(
            benchmark=one.result.benchmark,
            run=str(attempt.run_index),
            attempt=attempt.attempt,
            status=record.status if record else "no record",
            counted="no",
            reason=record.reason if record else None,
            seed=record.seed if record else None,
            path=attempt.path,
            evaluations=EvaluationLists(epoch_num=(), samples_count=(), elapsed_s=(), quality=()),
            **_measured(record),
        )


def _measured(record: RunRecord | None) -> dict[str, Any]:
    """What only the record of an attempt says."""
    if record is None:
        return {}
    return {
        "peak_rss_bytes": _peak((record.peak_rss_bytes,)),
        "peak_device_bytes": _peak((record.peak_device_bytes,)),
        "energy_j": measured_j(record.energy),
    }


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _peak(values: Iterable[float | None]) -> float | None:
    return max((float(value) for value in values if value), default=None)

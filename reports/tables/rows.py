"""Makes the table rows of result sets: one per configuration, per run or unfinished attempt, and per evaluation."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from reports.facts.energy import measured_j
from reports.results.resolution import smoothed_samples
from reports.results.result import Result, Run
from reports.statistics.intervals import mean_of_known
from reports.tables.columns import shared_members
from reports.tables.records import EvaluationLists, ReportDocument, RunMember, RunRow, SetMember, SetRow
from rules.records.run import RunRecord

_OF_THE_FIRST_RUN = (
    "benchmark_version",
    "division",
    "quality_target",
    "global_batch_size",
    "learning_rate",
    "definition_sha256",
    "dataset_sha256",
)


def document_of(sets: Sequence[Result]) -> ReportDocument:
    """Return the document of result sets: for each configuration its rows in all tables."""
    return ReportDocument(
        configurations=tuple(
            SetMember(**msgspec.structs.asdict(set_row(result)), runs=run_members(result)) for result in sets
        )
    )


def set_row(result: Result) -> SetRow:
    """Return a configuration's table row: its score with interval, and the geometric means of epochs to converge and
    of samples/s over converged runs."""
    first, interval, converged = result.first_run, result.interval, result.converged
    epochs, throughput = result.summary("epochs_to_converge"), result.summary("throughput_samples_per_s")
    members: dict[str, Any] = {
        **shared_members(result.score, SetRow),
        "system": result.system.name,
        "organization": result.judged.result_set.organization if result.judged else None,
        "outcome": result.outcome,
        "num_errors": result.verdict.count("error"),
        "num_warnings": result.verdict.count("warning"),
        "final_quality": mean_of_known(run.log.final_quality for run in converged),
        "peak_rss_bytes": _peak(run.record.peak_rss_bytes for run in result.runs if run.record),
        "peak_device_bytes": _peak(run.record.peak_device_bytes for run in result.runs if run.record),
    }
    if first is not None:
        members |= {name: getattr(first, name) for name in _OF_THE_FIRST_RUN}
    if interval is not None:
        members |= {"low_s": interval.low, "high_s": interval.high, "confidence": interval.confidence}
    return SetRow(
        **members,
        configuration=result.label,
        status=result.status,
        num_runs=len(result.runs),
        num_converged=len(converged),
        num_unfinished=len(result.unfinished),
        epochs_to_converge=epochs.geometric_mean if epochs else None,
        epochs_cv=epochs.coefficient_of_variation if epochs else None,
        throughput_samples_per_s=throughput.geometric_mean if throughput else None,
        throughput_cv=throughput.coefficient_of_variation if throughput else None,
    )


def run_members(result: Result) -> tuple[RunMember, ...]:
    """Return a configuration's runs as table rows: first the runs that left a log, then the attempts that left no
    result."""
    return (*(_run(result, run) for run in result.runs), *_unfinished(result))


def _run(result: Result, run: Run) -> RunMember:
    log = run.log
    members = shared_members(log, RunRow) | {
        "run": run.label,
        "attempt": run.attempt.attempt if run.attempt else None,
        "status": "success" if log.converged else "not_converged",
        "counted": "dropped" if run.is_dropped else "yes" if result.score.olympic_mean_s is not None else "no score",
        "reason": log.abort_reason,
        "started_ms": None if log.started_ms is None else round(log.started_ms),
        # A difference of time stamps in ms: digits below a nanosecond are rounding errors of floats.
        "overhead_s": None if log.overhead_s is None else round(log.overhead_s, 9),
        "num_evaluations": len(log.evaluations),
        "samples_to_converge_smoothed": smoothed_samples(log),
    }
    lists = {
        name: tuple(getattr(evaluation, name) for evaluation in log.evaluations)
        for name in EvaluationLists.__struct_fields__
    }
    return RunMember(**members, **_measured(run.record), evaluations=EvaluationLists(**lists))


def _unfinished(result: Result) -> Iterator[RunMember]:
    for attempt in result.unfinished:
        record = attempt.record
        yield RunMember(
            benchmark=result.score.benchmark,
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
    """Return the fields of a run's table row that are read from the record of the run's attempt; empty where there is
    no record."""
    if record is None:
        return {}
    return {
        "peak_rss_bytes": _peak((record.peak_rss_bytes,)),
        "peak_device_bytes": _peak((record.peak_device_bytes,)),
        "energy_j": measured_j(record.energy),
    }


def _peak(values: Iterable[float | None]) -> float | None:
    return max((float(value) for value in values if value), default=None)

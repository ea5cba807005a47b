"""Compute results from logs: one run's times and counts, and the score of a set of runs."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import geometric_mean
from typing import Any

from rules.benchmarks.loader import Benchmark
from rules.benchmarks.rounds import find_definition, is_before, may_log_trained_samples, named_in
from rules.logs import keys
from rules.logs.log import LogLine, RunLog, as_number, as_whole
from rules.logs.text import printable
from rules.scoring.rcp import Convergence, RcpStatus

MOST_LEFT_OUT = 0.01
"""Relative difference between a log's value and the definition's train_samples or eval_samples up to which rule HP103
only warns."""
_ROUNDING = 1e-3
"""Relative tolerance for comparing the samples trained with epochs times the dataset's size; logs state epoch_num
with few digits only."""
_COARSE = 1e-6
"""Tolerance within which a product counts as a whole number. A quality that has at most six decimals is whole times
1e6; an accuracy is whole times the number of evaluation samples."""
FEWEST_NEAR = 4
"""Minimum number of evaluations that each of two runs must have so that their qualities are compared and may be
called nearly equal."""
Interval = tuple[float, float]
"""Start and stop of an interval of a run, in milliseconds."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Evaluation:
    """Evaluation of a run on held-out data. `elapsed_s` is the number of seconds from run_start to the time stamp of
    eval_accuracy."""

    epoch_num: float | None
    samples_count: int | None
    elapsed_s: float
    quality: float


@dataclass(frozen=True, kw_only=True, slots=True)
class RunResult:
    """Result of one run: times, counts and quality from its log. None means "not known from the log", never zero.

    `time_to_train_s` is run_stop - run_start. `train_s` is the time inside blocks, from block_start to block_stop. If
    the log has no blocks, `train_s` is the time to train minus the time of evaluations. `throughput_samples_per_s` is
    samples_to_converge / train_s. `overhead_s` is time_to_train_s - train_s. `train_samples` is the size of the
    dataset, even if the log states the samples trained instead (`dataset_samples`). `epochs_to_converge` counts from
    the start of training, even if the log counts from 1 (dlrm v1).
    """

    path: str
    log_sha256: str
    benchmark: str | None
    benchmark_version: int | None
    definition_sha256: str | None
    dataset_sha256: str | None
    division: str | None
    organization: str | None
    platform: str | None
    seed: int | None
    status: str | None
    abort_reason: str | None
    converged: bool
    quality_target: float | None
    global_batch_size: int | None
    learning_rate: float | None
    train_samples: int | None
    eval_samples: int | None
    started_ms: float | None
    init_s: float | None
    time_to_train_s: float | None
    train_s: float | None
    eval_s: float | None
    overhead_s: float | None
    samples_to_converge: int | None
    epochs_to_converge: float | None
    throughput_samples_per_s: float | None
    final_quality: float | None
    evaluations: tuple[Evaluation, ...]
    cache_clear: str | None
    from_definition: tuple[str, ...] = ()
    """Names of the log's keys whose values in this result come from the benchmark definition: the log does not state
    them, or may state something else under the key."""

    @property
    def identities(self) -> tuple[object, ...]:
        """Return the keys by which copies of this run are recognised in other logs. One key is the digest of the
        log's bytes. Another, if known, is run_start to the millisecond together with the quality at each
        evaluation."""
        if self.started_ms is None or not self.evaluations:
            return (self.log_sha256,)
        return self.log_sha256, (self.started_ms, tuple(evaluation.quality for evaluation in self.evaluations))

    @property
    def qualities(self) -> tuple[float, ...]:
        """Return the quality at each evaluation of the run, in order of time."""
        return tuple([evaluation.quality for evaluation in self.evaluations])

    @property
    def fine_qualities(self) -> frozenset[float]:
        """Return the qualities of the run that identify it: a second training does not reach exactly the same value
        by chance. These qualities have more than six decimals. They are not a count divided by the number of
        evaluation samples, as an accuracy is."""
        samples, found = float(self.eval_samples or 1), []
        for evaluation in self.evaluations:
            quality = evaluation.quality
            if -1 <= quality <= 1:
                digits, count = quality * 1e6, quality * samples
                if abs(digits - round(digits)) > _COARSE < abs(count - round(count)):
                    found.append(quality)
        return frozenset(found)

    @property
    def timed_ms(self) -> Interval | None:
        """Return the time stamps of the run's run_start and run_stop, in milliseconds since 1970; None if one is
        unknown."""
        if self.started_ms is None or self.time_to_train_s is None:
            return None
        return self.started_ms, self.started_ms + self.time_to_train_s * 1e3


@dataclass(frozen=True, kw_only=True, slots=True)
class BenchmarkResult:
    """Score of one set of runs: the Olympic mean over exactly `num_runs_required` runs, or the reason why there is
    none.

    `score_s` is the normalised Olympic mean. `dropped` are the indices of the dropped runs in `runs`;
    `num_runs_dropped` is the number of runs dropped at each end. A run that did not converge counts as infinitely
    slow. One run may therefore fail to converge, since it is dropped as the slowest (training_rules.adoc, "Benchmark
    results"). `convergence` is the RCP test; it is None for an incomplete set.
    """

    benchmark: str | None
    runs: tuple[RunResult, ...]
    num_runs_required: int | None
    olympic_mean_s: float | None
    dropped: tuple[int, ...]
    no_score_reason: str | None
    convergence: Convergence | None
    score_s: float | None
    round: str | None
    num_runs_scored: int
    """Number of runs that are scored, counted from the first. Runs that a set has beyond the required number are left
    out if the benchmark is not MLPerf's."""
    num_runs_dropped: int
    metric: str
    """Quality metric of the runs' evaluations, as quality.metric in the definition names it."""
    energy_j: float | None
    """Olympic mean of the scored runs' energy (joules) from the files in power/; not normalised. None if it is
    unknown."""

    @property
    def final_quality(self) -> float | None:
        """Return the geometric mean of the scored runs' final qualities, which an Open result must report
        (training_rules.adoc, "Quality measure"). None if a run has no final quality, or one of 0 or less."""
        found = [run.final_quality for run in self.runs[: self.num_runs_scored]]
        known = [quality for quality in found if quality is not None and quality > 0]
        return geometric_mean(known) if known and len(known) == len(found) else None

    @property
    def rcp_outcome(self) -> RcpStatus | None:
        return self.convergence.status if self.convergence is not None else None

    @property
    def rcp_reason(self) -> str | None:
        return self.convergence.reason if self.convergence is not None else None

    @property
    def rcp_factor(self) -> float | None:
        """Return the factor by which reference convergence points (RCPs) multiply the Olympic mean; None where the
        set did not pass the test against these points."""
        return self.convergence.factor if self.rcp_outcome == "passed" and self.convergence is not None else None


def olympic_mean(values: Sequence[float], drop: int = 1) -> float:
    """Return the mean of values without the `drop` lowest and highest. Infinity stays infinite unless it is
    dropped."""
    kept = sorted(values)[drop : len(values) - drop]
    return math.fsum(kept) / len(kept) if kept else math.nan


def are_near(first: Sequence[float], other: Sequence[float], limit: float) -> bool:
    """Return whether two runs differ in quality by less than `limit` at every evaluation that both have; False if one
    of them has fewer than FEWEST_NEAR evaluations."""
    pairs = zip(first, other, strict=False)
    return min(len(first), len(other)) >= FEWEST_NEAR and all(abs(a - b) < limit for a, b in pairs)


def is_of_harness(log: RunLog, benchmark: Benchmark | None) -> bool:
    """Return whether this harness's own requirements apply to a log. They apply to logs of benchmarks that are not
    MLPerf's, and to logs that state a definition's digest or version, as the harness's logs do."""
    says_so = log.first(keys.DEFINITION_SHA256) is not None or log.first(keys.BENCHMARK_VERSION) is not None
    return says_so or (benchmark is not None and benchmark.status == "own")


def binding_target(log: RunLog, benchmark: Benchmark) -> float | None:
    """Return the quality target that a log's run must reach. None in the Open division of most official benchmarks,
    where "an arbitrary stopping criteria may be used" (training_rules.adoc, "Quality measure")."""
    is_open = log.value(keys.SUBMISSION_DIVISION) == keys.OPEN
    if is_open and not benchmark.quality.binds_open and not is_of_harness(log, benchmark):
        return None
    return benchmark.quality.target


def read_run_result(log: RunLog, benchmark: Benchmark | None = None, round_name: str | None = None) -> RunResult:
    """Return the result of the run in `log`: times, counts and quality. Never raises: values that cannot be read are
    None.

    `benchmark` supplies what the log leaves out (target, first epoch). If it is None, the shipped benchmark that the
    log names is used. In an Open division without a target, a run has converged if its log states success.
    `round_name` is the round by whose rules the log is judged; None if there is none.
    """
    name = _text(log.value(keys.SUBMISSION_BENCHMARK))
    benchmark = benchmark or find_definition(named_in(log), None, None)
    start, stop = log.first(keys.RUN_START), log.last(keys.RUN_STOP)
    status = _text(stop.metadata.get(keys.STATUS)) if stop is not None else None
    took_s = _elapsed_s(start, stop)
    evaluations = _evaluations(log, start, benchmark, round_name)
    train_samples = dataset_samples(log, benchmark, round_name)
    logged_target = as_number(log.value(keys.QUALITY_TARGET))
    target = binding_target(log, benchmark) if benchmark is not None else logged_target
    reached = target is None or any(target <= evaluation.quality <= 1.0 for evaluation in evaluations)
    train_s, eval_s = _train_and_eval_s(log, start, stop)
    samples, epochs = _trained(evaluations, train_samples, benchmark)
    stated = {keys.QUALITY_TARGET: target, keys.TRAIN_SAMPLES: train_samples}
    converged = status == keys.SUCCESS and reached and took_s is not None
    return RunResult(
        path=log.path,
        log_sha256=log.sha256,
        benchmark=name,
        benchmark_version=as_whole(log.value(keys.BENCHMARK_VERSION)),
        definition_sha256=_text(log.value(keys.DEFINITION_SHA256)),
        dataset_sha256=_text(log.value(keys.DATASET_SHA256)),
        division=_text(log.value(keys.SUBMISSION_DIVISION)),
        organization=_text(log.value(keys.SUBMISSION_ORG)),
        platform=_text(log.value(keys.SUBMISSION_PLATFORM)),
        seed=as_whole(log.value(keys.SEED)),
        status=status,
        abort_reason=_text(stop.metadata.get(keys.REASON)) if stop is not None else None,
        converged=converged,
        quality_target=target,
        global_batch_size=as_whole(log.value(keys.GLOBAL_BATCH_SIZE)),
        learning_rate=as_number(log.value(keys.OPT_BASE_LEARNING_RATE)),
        train_samples=train_samples,
        eval_samples=as_whole(log.value(keys.EVAL_SAMPLES)),
        started_ms=start.time_ms if start is not None else None,
        init_s=_elapsed_s(log.first(keys.INIT_START), log.last(keys.INIT_STOP)),
        time_to_train_s=took_s,
        train_s=train_s,
        eval_s=eval_s,
        overhead_s=max(took_s - train_s, 0.0) if took_s is not None and train_s is not None else None,
        samples_to_converge=samples if converged else None,
        epochs_to_converge=epochs if converged else None,
        throughput_samples_per_s=samples / train_s if samples and train_s else None,
        final_quality=evaluations[-1].quality if evaluations else None,
        evaluations=evaluations,
        cache_clear=_cache_clear(log.first(keys.CACHE_CLEAR)),
        from_definition=tuple(key for key, value in stated.items() if value != as_number(log.value(key))),
    )


def _text(value: Any) -> str | None:
    return printable(value) if isinstance(value, str) and value else None


def _elapsed_s(start: LogLine | None, stop: LogLine | None) -> float | None:
    if start is None or stop is None or stop.time_ms < start.time_ms:
        return None
    return (stop.time_ms - start.time_ms) / 1e3


_LATE_MS = 10


def late_allowance_ms(round_name: str | None) -> int:
    """Return by how many milliseconds an evaluation may be stamped later than run_stop if its line comes before
    run_stop's. This is above 0 only for rounds before 1.1, whose logs were assembled from stamps that had been
    rounded differently."""
    return _LATE_MS if is_before(round_name, "1.1") else 0


def evaluations_inside_run(log: RunLog, round_name: str | None = None) -> tuple[tuple[LogLine, float], ...]:
    """Return a log's evaluations of finite quality inside the timed run, in order of time.

    An evaluation is inside if its time stamp is from run_start to run_stop, and its line is no later than run_stop's.
    Its time stamp may be later than run_stop's by `late_allowance_ms`, which depends on `round_name`, the round by
    whose rules the log is judged. If there is no run_stop, all evaluations from run_start on are inside.
    """
    late_ms = late_allowance_ms(round_name)
    known = f"evaluations {late_ms}"
    if known not in log.known:
        log.known[known] = _evaluations_inside_run(log, late_ms)
    found: tuple[tuple[LogLine, float], ...] = log.known[known]
    return found


def _evaluations_inside_run(log: RunLog, late_ms: int) -> tuple[tuple[LogLine, float], ...]:
    start, stop = log.first(keys.RUN_START), log.last(keys.RUN_STOP)
    if start is None:
        return ()
    end_ms, last_line = (stop.time_ms, stop.line_num) if stop is not None else (math.inf, math.inf)
    found = [
        (line, quality)
        for line in log.all(keys.EVAL_ACCURACY)
        if (quality := as_number(line.value)) is not None
        and start.time_ms <= line.time_ms <= end_ms + late_ms
        and line.line_num <= last_line
    ]
    return tuple(sorted(found, key=lambda pair: pair[0].time_ms))


def met_outside(log: RunLog, target: float, round_name: str | None = None) -> tuple[LogLine, float] | None:
    """Return the best of a log's evaluations that reached the target quality outside the timed run: its record and
    its quality. None if there is no such evaluation."""
    inside = {id(line) for line, _ in evaluations_inside_run(log, round_name)}
    met = [
        (line, quality)
        for line in log.all(keys.EVAL_ACCURACY)
        if id(line) not in inside and (quality := as_number(line.value)) is not None and target <= quality <= 1.0
    ]
    return max(met, key=lambda pair: pair[1]) if met else None


def count_epochs_trained(log: RunLog, benchmark: Benchmark, round_name: str | None = None) -> float | None:
    """Return the number of epochs that a log's run had trained at its last evaluation, computed from that
    evaluation's epoch_num; None if the evaluation states none."""
    evaluations = evaluations_inside_run(log, round_name)
    epoch = as_number(evaluations[-1][0].metadata.get(keys.EPOCH_NUM)) if evaluations else None
    return None if epoch is None or (epochs := epoch - benchmark.quality.first_epoch_num) <= 0 else epochs


def is_trained_samples(value: object, epochs: float, size: int) -> bool:
    """Return whether `value`, a log's train_samples, states the number of samples trained: `epochs` times the
    dataset's `size`, within rounding."""
    number = as_number(value)
    return number is not None and math.isclose(number, epochs * size, rel_tol=_ROUNDING)


def epochs_by_samples(log: RunLog, benchmark: Benchmark, round_name: str | None = None) -> float | None:
    """Return the number of epochs that follows from a log's train_samples, if that is the number of samples trained
    and contradicts epoch_num: train_samples divided by the size of the dataset. This can be so only before round 3.0.

    None if the two keys agree, if train_samples is the size of the dataset, if a value is unknown, or for a later
    round.
    """
    number, epochs = as_number(log.value(keys.TRAIN_SAMPLES)), count_epochs_trained(log, benchmark, round_name)
    size = benchmark.data_samples(keys.TRAIN_SAMPLES)
    if number is None or epochs is None or size is None or not may_log_trained_samples(benchmark):
        return None
    agree = is_trained_samples(number, epochs, size) or abs(number - size) <= MOST_LEFT_OUT * size
    return None if agree else number / size


def dataset_samples(log: RunLog, benchmark: Benchmark | None, round_name: str | None = None) -> int | None:
    """Return the number of samples in a log's training data, which is its train_samples. Before round 3.0
    train_samples may be the number of samples trained; the size of the dataset in the benchmark's definition is then
    returned.

    In the Open division, where data may be chosen freely, the definition's size is returned only if train_samples
    certainly is the number of samples trained. None if train_samples is not logged.
    """
    logged = as_whole(log.value(keys.TRAIN_SAMPLES))
    if logged is None or benchmark is None or not may_log_trained_samples(benchmark):
        return logged
    size = benchmark.data_samples(keys.TRAIN_SAMPLES)
    if size is None or log.value(keys.SUBMISSION_DIVISION) != keys.OPEN:
        return size
    epochs = count_epochs_trained(log, benchmark, round_name)
    return size if epochs is not None and is_trained_samples(logged, epochs, size) else logged


def _evaluations(
    log: RunLog, start: LogLine | None, benchmark: Benchmark | None, round_name: str | None
) -> tuple[Evaluation, ...]:
    found = evaluations_inside_run(log, round_name)
    counts = [as_whole(line.metadata.get(keys.SAMPLES_COUNT)) for line, _ in found]
    epochs = [as_number(line.metadata.get(keys.EPOCH_NUM)) for line, _ in found]
    goes_by_epochs = benchmark is not None and benchmark.quality.convergence_unit == keys.EPOCH_NUM
    if goes_by_epochs and len(set(counts)) < len(counts) == len(set(epochs)):
        counts = [None] * len(counts)  # a constant value counts one block, not all samples trained so far
    return tuple(
        Evaluation(
            epoch_num=epoch,
            samples_count=count,
            elapsed_s=(line.time_ms - start.time_ms) / 1e3 if start is not None else 0.0,
            quality=quality,
        )
        for (line, quality), epoch, count in zip(found, epochs, counts, strict=True)
    )


def _train_and_eval_s(log: RunLog, start: LogLine | None, stop: LogLine | None) -> tuple[float | None, float | None]:
    if start is None or stop is None or stop.time_ms < start.time_ms:
        return None, None
    low, high = start.time_ms, stop.time_ms
    evals = union(_pairs(log, keys.EVAL_START, keys.EVAL_STOP, high), low=low, high=high)
    blocks = union(_pairs(log, keys.BLOCK_START, keys.BLOCK_STOP, high), low=low, high=high)
    either = union((*blocks, *evals), low=low, high=high) if blocks else ((low, high),)
    train_ms = length(either) - length(evals)
    return (train_ms / 1e3 if train_ms > 0 else None), (length(evals) / 1e3 if evals else None)


def _pairs(log: RunLog, start_key: str, stop_key: str, end_ms: float) -> tuple[Interval, ...]:
    """Return the intervals of a log, in milliseconds. Each lasts from a start to the next stop in order of time; an
    interval without a stop ends at `end_ms`."""
    stops = sorted([line.time_ms for line in log.all(stop_key)])
    found, position = [], 0
    for start_ms in sorted([line.time_ms for line in log.all(start_key)]):
        while position < len(stops) and stops[position] < start_ms:
            position += 1
        found.append((start_ms, stops[position] if position < len(stops) else end_ms))
        position += 1
    return tuple(found)


def _trained(
    evaluations: tuple[Evaluation, ...], train_samples: int | None, benchmark: Benchmark | None
) -> tuple[int | None, float | None]:
    """Return the number of samples and the number of epochs that a run had trained at its last evaluation. Each is
    None if the log does not tell it."""
    if not evaluations:
        return None, None
    last = evaluations[-1]
    epochs = last.epoch_num
    if epochs is not None and benchmark is not None:
        epochs -= benchmark.quality.first_epoch_num
    samples = last.samples_count
    if samples is None and epochs is not None and train_samples is not None:
        samples = as_whole(round(product)) if math.isfinite(product := epochs * train_samples) else None
    if epochs is None and samples is not None and train_samples:
        epochs = samples / train_samples
    return (samples if samples and samples > 0 else None), (epochs if epochs and epochs > 0 else None)


def _cache_clear(line: LogLine | None) -> str | None:
    if line is None:
        return None
    method = _text(line.metadata.get("method"))
    done = "cleared" if line.value is True else "not cleared" if line.value is False else "logged"
    return f"{done}: {method}" if method else done


def union(intervals: Iterable[Interval], *, low: float, high: float) -> tuple[Interval, ...]:
    """Return the union of `intervals` within [low, high], as disjoint sorted intervals."""
    merged: list[Interval] = []
    for start, stop in sorted(intervals):
        start, stop = start if start > low else low, stop if stop < high else high
        if stop <= start:
            continue
        if merged and start <= merged[-1][1]:
            if stop > merged[-1][1]:
                merged[-1] = (merged[-1][0], stop)
        else:
            merged.append((start, stop))
    return tuple(merged)


def length(intervals: Iterable[Interval]) -> float:
    return sum([stop - start for start, stop in intervals])

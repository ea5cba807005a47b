"""Score a result set: Olympic mean over exactly the benchmark's number of runs, normalised by reference convergence
points (RCPs)."""

import math
import re
from collections.abc import Sequence

from rules.benchmarks.loader import Benchmark, guess_meant_name, list_versions, shipped_versions
from rules.logs import keys
from rules.logs.log import as_number
from rules.logs.text import plural, printable
from rules.records.metrics import ROC_AUC
from rules.scoring.energy import SetPower, olympic_energy_j
from rules.scoring.rcp import judge_convergence
from rules.scoring.results import BenchmarkResult, RunResult, olympic_mean

_RESULT_NUMBER = re.compile(r"result_(\d{1,6})\.txt\Z")

_MIXED = "the runs differ in global_batch_size"
"""Reason why a set has no score if its runs differ in batch size. A set of one of MLPerf's benchmarks still gets an
Olympic mean, because MLPerf has published one for such a set."""


def scored_runs(runs: Sequence[RunResult], benchmark: Benchmark | None) -> Sequence[RunResult]:
    """Return the runs of a set that are scored: all of them; but if the set of a benchmark that is not MLPerf's has
    more runs than required, only the first ones by index."""
    if benchmark is None or benchmark.status == "official":
        return runs
    return runs[: benchmark.score.num_runs]


def score_runs(
    runs: Sequence[RunResult], benchmark: Benchmark | None, round_name: str | None, power: SetPower | None = None
) -> BenchmarkResult:
    """Return the score of a set's runs, or the reason why the set has none. `benchmark` is None if the benchmark has
    no definition.

    The score comes only from the logs, never from scaling.json, the official tool's file of factors. Energy comes
    from `power`, if it was measured. If runs of an official benchmark differ in batch size, the set has an Olympic
    mean but no score.
    """
    scored = scored_runs(runs, benchmark)
    drop = benchmark.score.drop if benchmark is not None else 1
    reason = _why_no_score(runs, scored, benchmark)
    convergence, mean_s = None, None
    dropped: tuple[int, ...] = ()
    if benchmark is not None and (reason is None or (reason == _MIXED and benchmark.status == "official")):
        if reason is None:
            convergence = judge_convergence(
                benchmark,
                round_name,
                runs[0].global_batch_size,
                [_convergence(run, benchmark) for run in scored],
                keys.OPEN if all(run.division == keys.OPEN for run in scored) else keys.CLOSED,
            )
        times = [_time_s(run) for run in scored]
        mean_s = as_number(olympic_mean(times, drop))
        order = sorted(range(len(scored)), key=lambda index: (times[index], index))
        dropped = tuple(sorted(order[:drop] + order[len(order) - drop :])) if drop else ()
        if convergence is not None and benchmark.status == "official" and convergence.status in ("failed", "missing"):
            reason = f"reference convergence points: {convergence.reason}"
    factor = convergence.factor if convergence is not None and convergence.status == "passed" else 1.0
    return BenchmarkResult(
        benchmark=benchmark.name if benchmark is not None else (runs[0].benchmark if runs else None),
        runs=tuple(runs),
        num_runs_required=benchmark.score.num_runs if benchmark is not None else None,
        olympic_mean_s=mean_s,
        dropped=dropped,
        no_score_reason=reason,
        convergence=convergence,
        score_s=mean_s * factor if mean_s is not None and reason is None else None,
        round=round_name,
        num_runs_scored=len(scored),
        num_runs_dropped=drop,
        metric=benchmark.quality.metric if benchmark is not None else ROC_AUC,
        energy_j=olympic_energy_j(power, (*dropped, *range(len(scored), len(runs))))
        if power is not None and dropped
        else None,
    )


def _time_s(run: RunResult) -> float:
    """Return the run's time to train in seconds; infinity for a run that did not converge."""
    return run.time_to_train_s if run.converged and run.time_to_train_s is not None else math.inf


def _why_no_score(runs: Sequence[RunResult], scored: Sequence[RunResult], benchmark: Benchmark | None) -> str | None:
    if benchmark is None:
        named = next((run.benchmark for run in runs if run.benchmark), None)
        if named is not None and shipped_versions(named):
            return f"its version of {named} is not known here; known: {list_versions(named)}. Update dlrmbench"
        if named is not None and (near := guess_meant_name(named)) is not None:
            return f"benchmark {printable(named)!r} is not defined here; the logs may mean {near}, letter by letter"
        what = f"benchmark {printable(named)!r} is not" if named else "the logs name no benchmark that is"
        return f"{what} defined here; give --benchmark FILE.toml"
    others = sorted({run.benchmark for run in runs if run.benchmark} - {benchmark.name})
    if others:
        return f"the set mixes benchmarks: {benchmark.name} and {', '.join(others)}"
    versions = sorted({run.benchmark_version for run in runs if run.benchmark_version is not None})
    if len(versions) > 1:
        return f"the set mixes versions of {benchmark.name}: {' and '.join(map(str, versions))}"
    needed, drop = benchmark.score.num_runs, benchmark.score.drop
    if len(runs) < needed:
        return f"incomplete: {len(runs)} of {plural(needed, 'run')}"
    if len(scored) > needed:
        return f"{plural(len(runs), 'run')}, and the score is over exactly {needed}"
    if len(runs) > needed and (missing := _why_not_first(scored)) is not None:
        return f"{missing}, and the score of {len(runs)} runs is over runs 0 to {needed - 1}"
    unnamed = sum(not run.benchmark for run in runs)
    without = f"{unnamed} of {plural(len(runs), 'log')} without a benchmark's name" if unnamed else None
    failed = sum(not run.converged for run in scored)
    if failed > drop:
        reason = f"{failed} of {plural(needed, 'run')} did not converge; at most {drop} may, as the dropped slowest"
        return f"{reason} ({without})" if without else reason
    if len({run.global_batch_size for run in runs if run.benchmark}) > 1:
        return _MIXED
    return without


def _why_not_first(scored: Sequence[RunResult]) -> str | None:
    """Return the reason why a set has no score if its scored runs are not its runs 0, 1, 2, …: nobody may choose
    which runs are scored. None if they are these runs."""
    for index, run in enumerate(scored):
        match = _RESULT_NUMBER.search(run.path)
        if match is None:
            return f"{printable(run.path)} has no number"
        if int(match[1]) != index:
            return f"run {index} is missing"
    return None


def _convergence(run: RunResult, benchmark: Benchmark) -> float | None:
    """Return the epochs or samples (the benchmark's unit) after which a run converged, as logged; None for a run that
    did not converge."""
    if not run.converged or not run.evaluations:
        return None
    last, quality = run.evaluations[-1], benchmark.quality
    if quality.convergence_unit == keys.SAMPLES_COUNT:
        return last.samples_count
    if last.epoch_num is not None:
        return last.epoch_num
    return run.epochs_to_converge + quality.first_epoch_num if run.epochs_to_converge is not None else None

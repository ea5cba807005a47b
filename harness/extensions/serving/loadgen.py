"""Run MLPerf LoadGen, which issues queries to a system under test in real time and judges the latencies of its
answers.

Needs the package mlcommons-loadgen, which the pip extra `serve` installs; nothing imports the package before `judge`
is called.
"""

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from harness.extensions.serving.rounds import ROUNDS
from harness.extensions.serving.worker_pool import (
    Answer,
    Query,
    RequestQueue,
    split_query,
    start_workers,
    switching_often,
)
from harness.foundation.errors import ExitCode, HarnessError
from harness.foundation.queue_simulation import Workers

MODULE = "mlperf_loadgen"
INSTALL = "pip install '.[serve]' in a checkout of dlrmbench"
DETAIL, SUMMARY = "mlperf_log_detail.txt", "mlperf_log_summary.txt"
_PREFIX = ":::MLLOG "
ACCURACY_LOG, TRACE = "mlperf_log_accuracy.json", "mlperf_log_trace.json"
_JOIN_S = 0.05

Scenario = Literal["server", "offline", "single_stream"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Seeds:
    """Random seeds of a run of LoadGen; MLPerf publishes new ones for every round."""

    library: int
    """LoadGen's seed of the choice of samples that are loaded from the sample library."""
    samples: int
    """LoadGen's seed of the order in which it asks for samples."""
    schedule: int
    """LoadGen's seed of the arrival times of queries in the scenario server."""

    def of_process(self, index: int) -> "Seeds":
        """Return LoadGen's seeds of process number `index` of a measurement, from 0: process 0 has LoadGen's own,
        each later process another seed of arrival times."""
        return replace(self, schedule=(self.schedule + index) % 2**64)


@dataclass(frozen=True, kw_only=True, slots=True)
class ScheduledRun:
    """Settings of one run of LoadGen. `rate`, in queries per second, is issued in the scenario server; in other
    scenarios it is the expected rate. `share` is the percentile as a fraction."""

    scenario: Scenario
    rate: float
    limit_s: float
    share: float
    min_queries: int
    min_duration_s: float
    seeds: Seeds


@dataclass(frozen=True, kw_only=True, slots=True)
class LoadGenVerdict:
    """LoadGen's verdict on one run, with counts, rate and latencies. `reason` is why the run is not VALID, None where
    it is VALID."""

    is_valid: bool
    reason: str | None
    num_queries: int
    num_late: int | None
    duration_s: float
    completed_per_s: float
    mean_s: float
    latencies_s: Mapping[str, float]
    """Latencies in seconds by percentile, as LoadGen names percentiles: "50.00", "95.00", "99.90"."""
    issued_s: tuple[float, ...] = ()
    """Time at which each query was issued, in seconds after the first one, by the monotonic clock."""


def require_loadgen() -> None:
    """Raise HarnessError (exit 2) if MLPerf LoadGen is missing; the message names the command to install it. Nothing
    is imported."""
    if find_spec(MODULE) is None:
        raise HarnessError(f"serving is judged by MLPerf LoadGen, which is not installed. Install it: {INSTALL}")


def published_seeds() -> Seeds:
    """Return the random seeds in the mlperf.conf that the installed LoadGen contains."""
    import mlperf_loadgen as loadgen

    settings = loadgen.TestSettings()
    settings.FromConfig("", "dlrm-v2", "Server", 0)
    return Seeds(
        library=settings.qsl_rng_seed, samples=settings.sample_index_rng_seed, schedule=settings.schedule_rng_seed
    )


def seeds_of_process(number: int, mlperf_round: str | None) -> Seeds:
    """Return LoadGen's seeds for process `number` of a measurement. With a round of MLPerf Inference, these are that
    round's seeds for all processes."""
    if mlperf_round is None:
        return published_seeds().of_process(number)
    asked = ROUNDS[mlperf_round]
    return Seeds(library=asked.library, samples=asked.samples, schedule=asked.schedule)


def judge(
    answer: Answer, sizes: Sequence[int], workers: Workers, trial: ScheduledRun, folder: Path
) -> LoadGenVerdict:
    """Let LoadGen issue queries to workers that call `answer`, and return LoadGen's verdict. `sizes` has the number
    of items of each query in the pool from which LoadGen draws.

    LoadGen's files go to `folder`. LoadGen runs in a thread of its own, so that the calling thread can be
    interrupted. After an interruption the process must end, since LoadGen cannot be stopped. Raises the error of a
    worker that failed. Raises HarnessError if LoadGen ended without a verdict.
    """
    issued_s: list[float] = []

    def note(samples: Sequence[Any], now_s: float) -> None:
        issued_s.extend([now_s] * len(samples))

    run_loadgen(answer, sizes, workers, _settings(trial), folder, note, _complete)
    for name in (ACCURACY_LOG, TRACE):  # both are empty after a performance run
        (folder / name).unlink(missing_ok=True)
    found = read_judgement(folder / DETAIL, trial)
    return replace(found, issued_s=tuple(moment_s - issued_s[0] for moment_s in issued_s))


def run_loadgen(
    answer: Answer,
    sizes: Sequence[int],
    workers: Workers,
    settings: Any,
    folder: Path,
    note: Callable[[Sequence[Any], float], None],
    complete: Callable[[Sequence[int]], None],
) -> None:
    """Run LoadGen against workers that call `answer`. `settings` is an object of LoadGen's type TestSettings.
    LoadGen's log files are written but not read.

    `note` is called each time LoadGen issues samples, with these samples and the time in seconds. `complete` is
    called with the ids of queries that have been answered.
    """
    folder.mkdir(parents=True, exist_ok=True)
    failures: list[BaseException] = []
    line = RequestQueue(workers)
    crew = start_workers(answer, line, workers.count, complete, failures)
    asked = (sizes, workers, settings, folder, line, note, failures)
    issuer = threading.Thread(target=_issue, args=asked, daemon=True)
    with switching_often():
        issuer.start()
        while issuer.is_alive() and not failures:
            issuer.join(_JOIN_S)
    if failures:
        raise failures[0]
    line.close()
    for worker in crew:
        worker.join()


def _issue(
    sizes: Sequence[int],
    workers: Workers,
    settings: Any,
    folder: Path,
    line: RequestQueue,
    note: Callable[[Sequence[Any], float], None],
    failures: list[BaseException],
) -> None:
    import mlperf_loadgen as loadgen

    parts = [split_query(place, items, workers) for place, items in enumerate(sizes)]

    def issue(samples: Sequence[Any]) -> None:
        now_s = time.perf_counter()
        note(samples, now_s)
        for sample in samples:
            of_query = parts[sample.index]
            line.put(Query(sample.id, now_s, len(of_query)), of_query)

    def ignore(*given: Any) -> None:
        return None

    try:
        system = loadgen.ConstructSUT(issue, ignore)
        library = loadgen.ConstructQSL(len(sizes), len(sizes), ignore, ignore)
        # LoadGen reads audit.config of the working folder by default, which would change the settings.
        audit = str(folder / "no_audit.config")
        loadgen.StartTestWithLogSettings(system, library, settings, _log_settings(folder), audit)
        loadgen.DestroyQSL(library)
        loadgen.DestroySUT(system)
    except BaseException as error:
        failures.append(error)


def _complete(response_ids: Sequence[int]) -> None:
    import mlperf_loadgen as loadgen

    loadgen.QuerySamplesComplete([loadgen.QuerySampleResponse(number, 0, 0) for number in response_ids])


def basic_settings(scenario: Scenario, seeds: Seeds) -> Any:
    """Return LoadGen's settings of a performance run, with the scenario and the seeds set and nothing else."""
    import mlperf_loadgen as loadgen

    settings, scenarios = loadgen.TestSettings(), loadgen.TestScenario
    settings.mode = loadgen.TestMode.PerformanceOnly
    settings.scenario = {
        "server": scenarios.Server,
        "offline": scenarios.Offline,
        "single_stream": scenarios.SingleStream,
    }[scenario]
    settings.qsl_rng_seed, settings.sample_index_rng_seed = seeds.library, seeds.samples
    settings.schedule_rng_seed = seeds.schedule
    return settings


def _settings(trial: ScheduledRun) -> Any:
    settings = basic_settings(trial.scenario, trial.seeds)
    settings.min_duration_ms = round(trial.min_duration_s * 1e3)
    settings.min_query_count = trial.min_queries
    settings.server_target_qps = settings.offline_expected_qps = trial.rate
    settings.server_target_latency_ns = round(trial.limit_s * 1e9)
    settings.server_target_latency_percentile = settings.single_stream_target_latency_percentile = trial.share
    settings.single_stream_expected_latency_ns = round(1e9 / trial.rate)
    return settings


def _log_settings(folder: Path) -> Any:
    import mlperf_loadgen as loadgen

    output, settings = loadgen.LogOutputSettings(), loadgen.LogSettings()
    output.outdir = str(folder)
    output.copy_summary_to_stdout = False
    settings.log_output = output
    settings.enable_trace = False
    return settings


def read_judgement(path: Path, trial: ScheduledRun) -> LoadGenVerdict:
    """Read the verdict on one run from LoadGen's detail log. Raises HarnessError (exit 7) for a log without a
    result."""
    found: dict[str, Any] = {}
    try:
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith(_PREFIX):
                entry = json.loads(line.removeprefix(_PREFIX))
                found[entry["key"]] = entry["value"]
        return _judgement(found, trial)
    except (OSError, ValueError, KeyError, TypeError) as error:
        said = [str(value) for key, value in found.items() if key.startswith("error")]
        why = said[0] if said else f"{type(error).__name__}: {error}"
        raise HarnessError(f"{path}: LoadGen ended without a result ({why}).", ExitCode.INCONCLUSIVE) from None


def _judgement(found: Mapping[str, Any], trial: ScheduledRun) -> LoadGenVerdict:
    latencies_s = {
        key.removeprefix("result_").removesuffix("_percentile_latency_ns"): float(value) / 1e9
        for key, value in found.items()
        if key.startswith("result_") and key.endswith("_percentile_latency_ns")
    }
    num_queries = int(found["result_query_count"]) * int(found["generated_samples_per_query"])
    rate = {
        "server": "result_completed_samples_per_sec",
        "offline": "result_samples_per_second",
        "single_stream": "result_qps_with_loadgen_overhead",
    }[trial.scenario]
    is_valid = found["result_validity"] == "VALID"
    completed_per_s = float(found[rate])
    return LoadGenVerdict(
        is_valid=is_valid,
        reason=None if is_valid else _why_invalid(found),
        num_queries=num_queries,
        num_late=found.get("result_overlatency_query_count"),
        duration_s=num_queries / completed_per_s,
        completed_per_s=completed_per_s,
        mean_s=float(found["result_mean_latency_ns"]) / 1e9,
        latencies_s=latencies_s,
    )


def _why_invalid(found: Mapping[str, Any]) -> str:
    """Return the reasons why a run is INVALID, from the flags of LoadGen's log."""
    flags = (
        ("result_perf_constraints_met", "too many queries were late"),
        ("early_stopping_met", "too few queries to be sure that enough are in time"),
        ("result_min_duration_met", "the run ended too soon"),
        ("result_min_queries_met", "too few queries"),
    )
    return "; ".join(words for key, words in flags if found.get(key) is False) or "LoadGen does not say why"

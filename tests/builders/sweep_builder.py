"""Workers that answer at once, so that whole sweeps run in milliseconds; every launch is noted."""

import json
import os
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from log_builder import usual_evals
from records_builder import (
    process_content,
    profile_content,
    quality_content,
    quality_process,
    serve_content,
    serve_process,
    throughput_content,
)
from scripted_workload import ScriptedWorkload, TickingClock

from harness.foundation.errors import ExitCode
from harness.launch.process import WorkerEnd
from harness.measure.run_log import RunLogWriter
from harness.measure.training import Monitor, TrainingJob, describe_run, run_once
from rules.benchmarks.loader import load_benchmark, parse_benchmark
from rules.logs import keys

COMPUTED = {
    "num_parameters": 100,
    "embedding_bytes": 400,
    "num_lookups_per_sample": 2,
    "embedding_bytes_per_sample": 64,
    "forward_flop_per_sample": 1000,
    "training_flop_per_sample": 3000,
}


def profile_answer() -> dict[str, Any]:
    """A profile as it was once measured, of a step that is bound by gathers."""
    content = profile_content()
    content["step"]["computed"]["bound_shares"] = {"gather": 0.61, "compute": 0.3, "overhead": 0.09}
    return content


@dataclass
class FastWorkers:
    """Stands in for `launch_worker`. `fail` says by the specification which launches run out of memory; with
    `kill_at` this process is killed while that launch is under way."""

    fail: Callable[[Mapping[str, Any]], bool] = lambda spec: False
    kill_at: int | None = None
    launches: list[Mapping[str, Any]] = field(default_factory=list)

    auc: Callable[[Mapping[str, Any]], float] = lambda spec: 0.75
    """Of a process that measures quality, beside a spread by its seed that all configurations share."""

    def quality_answer(self, spec: Mapping[str, Any], number: int) -> dict[str, Any]:
        """As a process would measure it."""
        samples, auc = spec["num_samples"], self.auc(spec) + spec["seed"] % 97 / 1e4
        return quality_content([quality_process(num_samples=samples, auc=auc, **stamps(number))])

    rate: Callable[[Mapping[str, Any]], float] = lambda spec: 100.0
    """Of a process that serves, beside a spread by its seed that all configurations share."""

    def serve_answer(self, spec: Mapping[str, Any], number: int) -> dict[str, Any]:
        """As a process would measure it."""
        serve, runtime = spec["tables"]["serve"], spec["tables"]["runtime"]
        copies, rate = serve.get("colocate", 1), self.rate(spec) * (1 + spec["seed"] % 97 / 1e4)
        quality = None
        if "weights" in serve:
            quality = {
                "auc": 0.9,
                "log_loss": 0.5,
                "normalised_entropy": 0.8,
                "auc_ratio": 1.0,
                "entropy_ratio": 1.0,
                "mlperf_class": "99.9 %",
            }
        process = serve_process(
            queries_per_s=rate * copies, alone_per_s=rate if copies > 1 else None, quality=quality, **stamps(number)
        )
        return serve_content(
            [process],
            scenario=serve.get("scenario", "server"),
            target_latency_s=serve["target_latency_ms"] / 1e3,
            percentile=serve["percentile"],
            queries=serve["queries"],
            num_copies=copies,
            precision=runtime.get("precision", "fp32"),
            weights="kept" if "weights" in serve else "random",
        )

    def __call__(self, spec_path: Path, **options: object) -> WorkerEnd:
        spec = json.loads(spec_path.read_text(encoding="utf-8"))
        self.launches.append(spec)
        if len(self.launches) - 1 == self.kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        if self.fail(spec):
            return WorkerEnd(exit_code=int(ExitCode.RESOURCES), last_words="out of memory.")
        folder = spec_path.parent
        if spec["kind"] == "profile":
            (folder / "profile.json").write_text(json.dumps(profile_answer()))
        elif spec["kind"] == "quality":
            (folder / "measured.json").write_text(json.dumps(self.quality_answer(spec, len(self.launches))))
        elif spec["kind"] == "serve":
            (folder / "measured.json").write_text(json.dumps(self.serve_answer(spec, len(self.launches))))
        elif spec["kind"] == "throughput":
            (folder / "measured.json").write_text(json.dumps(throughput_answer(spec, len(self.launches))))
        else:
            _train(spec, folder)
        return WorkerEnd(exit_code=0, last_words="")


def stamps(number: int) -> dict[str, str]:
    """When the process of that number began and ended: a second each, one after another."""
    began = datetime(2026, 11, 21, 3, tzinfo=UTC) + timedelta(seconds=number)
    ended = began + timedelta(seconds=0.9)
    return {"started_utc": began.isoformat("T", "milliseconds"), "ended_utc": ended.isoformat("T", "milliseconds")}


def throughput_answer(spec: Mapping[str, Any], number: int) -> dict[str, Any]:
    """As a process would measure it: half the threads, half the speed, and a little noise."""
    num_samples = spec["num_steps"] * spec["tables"]["train"]["global_batch_size"]
    duration_s = num_samples / (1e4 * spec["tables"]["runtime"]["threads"]) * (1 + 0.001 * (number % 3))
    process = process_content(
        num_steps=spec["num_steps"],
        num_samples=num_samples,
        duration_s=duration_s,
        samples_per_s=num_samples / duration_s,
        cache_cleared=True,
        hyperparameters={"global_batch_size": spec["tables"]["train"]["global_batch_size"]},
        peak_rss_bytes=2**28,
        **stamps(number),
    )
    return throughput_content([process], data_kind="made_up", computed=COMPUTED)


def _train(spec: Mapping[str, Any], folder: Path) -> None:
    benchmark = parse_benchmark(spec["tables"], Path(spec["definition_path"]))
    data, train = benchmark.sections["data"], benchmark.sections["train"]
    workload = ScriptedWorkload(
        benchmark,
        [*(0.6 for _ in range(usual_evals(benchmark) - 1)), min(1.0, benchmark.quality.target + 0.01)],
        global_batch_size=train["global_batch_size"],
        train_samples=data["train_samples"],
        eval_samples=data["eval_samples"],
    )
    values = {key: value for key, value in spec.items() if key not in ("job_version", "kind")}
    run_spec, clock = TrainingJob(**values, folder=str(folder)), TickingClock()
    log = RunLogWriter(folder / "log.txt", clock)
    log.event(keys.CACHE_CLEAR, True, {"method": "scripted"})
    describe = describe_run(run_spec, benchmark, data.get("sha256"), "scripted")
    try:
        run_once(workload, benchmark, describe, log, clock, Monitor(clock, run_spec.timeout_s))
    finally:
        log.close()


def use_fast_workers(monkeypatch: pytest.MonkeyPatch, workers: FastWorkers) -> None:
    """In place of a set's processes; nothing is chosen by timing, which would be of this system."""
    monkeypatch.setattr("harness.experiment.executors.launch_worker", workers)
    monkeypatch.setattr("harness.autotune.tuning.find_candidates", lambda *asked: None)


class _Split:
    num_samples = load_benchmark("dlrm_tiny").data_samples("train_samples")


class _Opened:
    train = _Split()


def use_fast_workers_of_dlrm_tiny(monkeypatch: pytest.MonkeyPatch, workers: FastWorkers, data: Path) -> None:
    """Put `workers` in place of processes, with no data that they would read and no check of the system."""
    use_fast_workers(monkeypatch, workers)
    monkeypatch.setattr("harness.experiment.create.run_checks", lambda data, output: [])
    monkeypatch.setattr("harness.experiment.prepare.ensure_dataset", lambda config, root, **options: data)
    monkeypatch.setattr("harness.experiment.prepare.open_dataset", lambda folder, config: _Opened())

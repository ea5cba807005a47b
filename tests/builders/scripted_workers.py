"""Workers that follow a script: they leave what a worker leaves, the same for the same job, or fail as told."""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from log_builder import usual_evals
from observed import leave_observation
from records_builder import run_content
from scripted_workload import ScriptedWorkload, TickingClock
from sweep_builder import FastWorkers, profile_answer, throughput_answer

from harness.foundation.errors import ExitCode
from harness.foundation.study import Columns, make_study, make_table
from harness.launch.process import Interpreter, WorkerEnd
from harness.launch.slots import Slot
from harness.measure.run_log import RunLogWriter
from harness.measure.training import Monitor, TrainingJob, describe_end, describe_run, run_once
from harness.measure.weights import keep_weights
from rules.benchmarks.loader import Benchmark, parse_benchmark
from rules.logs import keys
from rules.records.codec import convert, encode
from rules.records.run import RunRecord
from rules.records.study import StudyRecord

CODE, OTHER_CODE = "c" * 64, "0" * 64
"""Digests of this dlrmbench's code, and of another interpreter's."""
BEGIN = datetime(2026, 11, 21, 3, tzinfo=UTC)
JOB_S = 2.0
"""What every job takes by the scripted clock."""


@dataclass
class Moment:
    """The time of day and of the monotonic clock, which go on only when they are told to."""

    passed_s: float = 0.0

    @property
    def now(self) -> datetime:
        return BEGIN + timedelta(seconds=self.passed_s)


class LogClock(TickingClock):
    """Stamps that differ by `step_s`, without waiting, from a beginning that is given."""

    def __init__(self, began: datetime, step_s: float) -> None:
        super().__init__()
        self._began_ms, self._step_s = round(began.timestamp() * 1000), step_s

    def elapsed_s(self) -> float:
        self.synchronize()
        self.ticks += 1
        return self.ticks * self._step_s

    def time_ms(self) -> int:
        return self._began_ms + round(self.elapsed_s() * 1000)


@dataclass(frozen=True, kw_only=True)
class Ending:
    """How a job ends before it is done: what it leaves, its exit code and last words, or what the parent meets."""

    exit_code: int = int(ExitCode.RESOURCES)
    words: str = "out of memory."
    leaves: str = "nothing"
    """"nothing"; "half a log", of a run; "log", finished, without its record; "record", complete."""
    raises: type[BaseException] | None = None


@dataclass
class ScriptedWorkers:
    """Stands in for `launch_worker`. Jobs are counted from 0 for each command line."""

    moment: Moment
    endings: Mapping[int, Ending] = field(default_factory=dict)
    """By the job's number."""
    num_evals: int | None = None
    """Evaluations of a run that reaches the target; as the reference takes, where not said."""
    missing: frozenset[int] = frozenset()
    """Runs that do not reach the target, by their index."""
    launches: list[str] = field(default_factory=list)

    on_work: Callable[[bool], object] = lambda is_working: None
    """Called with True before a worker leaves anything, and with False when it is done."""

    def __call__(
        self,
        spec_path: Path,
        *,
        num_threads: int,
        on_event: Callable[[Mapping[str, Any]], None] = lambda event: None,
        num_ranks: int = 1,
        interpreter: Interpreter | None = None,
        variables: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
        slot: Slot | None = None,
    ) -> WorkerEnd:
        spec = json.loads(spec_path.read_text(encoding="utf-8"))
        ending = self.endings.get(len(self.launches))
        who = "" if interpreter is None else f", by {interpreter.python}"
        where = "a temporary folder" if spec["kind"].endswith("choice") else os.path.relpath(spec_path.parent)
        ranks = "" if num_ranks == 1 else f", {num_ranks} ranks"
        more = "" if not variables else f", variables {dict(variables)}"
        self.launches.append(
            f"{spec['kind']} in {where}: seed {spec['seed']}, threads {num_threads}{ranks}{more}{who}"
        )
        code = {"sha256": CODE if interpreter is None else OTHER_CODE, "commit": None, "commit_is_dirty": None}
        leaves = "record" if ending is None else ending.leaves
        if leaves != "nothing":
            self.on_work(True)
            self._work(spec, spec_path.parent, code, leaves, on_event)
            self.on_work(False)
        self.moment.passed_s += JOB_S
        if ending is None:
            return WorkerEnd(exit_code=0, last_words="")
        if ending.raises is not None:
            raise ending.raises
        return WorkerEnd(exit_code=ending.exit_code, last_words=ending.words)

    def _work(
        self,
        spec: Mapping[str, Any],
        folder: Path,
        code: Mapping[str, Any],
        leaves: str,
        on_event: Callable[[Mapping[str, Any]], None],
    ) -> None:
        kind, name = spec["kind"], "measured.json"
        # The same for the same job, whenever and after whatever it is done.
        number = int(folder.name.rpartition("_")[2]) if kind in ("throughput", "quality", "serve") else 0
        if kind == "training":
            is_met = spec["run_index"] not in self.missing
            train(spec, folder, code, self.moment.now, leaves, on_event, is_met=is_met, num_evals=self.num_evals)
            return
        if kind in ("queue", "forward"):
            (folder / "study.json").write_text(encode(queue_answer()), encoding="utf-8")
            return
        if kind == "profile":
            on_event({"event": "progress", "doing": "timing steps"})
            content, name = profile_answer(), "profile.json"
        elif kind == "choice":
            content = tuning_answer(spec)
        elif kind == "service_choice":
            content = service_answer(spec)
        elif kind == "throughput":
            content = throughput_answer(spec, number)
        elif kind == "quality":
            content = FastWorkers().quality_answer(spec, number)
        else:
            content = FastWorkers().serve_answer(spec, number)
        (folder / name).write_text(json.dumps({**content, "code": code}), encoding="utf-8")


def queue_answer() -> StudyRecord:
    """What a process finds that simulates a queue: one rate, and what waits at it. Of any study it is the answer."""
    columns: Columns = (("Queries/s", None, "simulated"), ("p99", "s", "simulated"))
    table = make_table("Latency", columns, [(100.0, 0.01)])
    return make_study("queue", "a queue", None, tables=[table], parameters=(), findings=("It waits.",))


def tuning_answer(spec: Mapping[str, Any]) -> dict[str, Any]:
    """What a process that times ways finds: two threads take 0.6 of one's time, whatever they spin."""
    seconds = {1: 0.01, 2: 0.006}
    ways = [
        {"num_threads": count, "spin_count": spec["spin_count"], "step_s": seconds.get(count, 0.006)}
        for count in spec["thread_counts"]
    ]
    return {"schema_version": run_content()["schema_version"], "tried": ways, "matmuls": []}


def service_answer(spec: Mapping[str, Any]) -> dict[str, Any]:
    """What a process that times ways to answer finds: workers add up, and threads gain a tenth."""
    ways = [
        {
            "num_workers": workers,
            "num_threads": threads,
            "batch_items": None,
            "split_items": None,
            "queries_per_s": 100 * workers * (1.1 if threads > workers else 1),
        }
        for workers, threads in spec["ways"]
    ]
    return {"schema_version": run_content()["schema_version"], "tried": ways}


def train(
    spec: Mapping[str, Any],
    folder: Path,
    code: Mapping[str, Any],
    began: datetime,
    leaves: str,
    on_event: Callable[[Mapping[str, Any]], None],
    *,
    is_met: bool,
    num_evals: int | None,
) -> None:
    """Write what a run leaves: its log, its weights where they are asked for, its record."""
    benchmark = parse_benchmark(spec["tables"], Path(spec["definition_path"]))
    values = {key: value for key, value in spec.items() if key not in ("job_version", "kind")}
    job = TrainingJob(**values, folder=str(folder))
    data, digest = benchmark.sections["data"], json.loads((Path(job.data_dir) / "manifest.json").read_text())
    # No two seeds take equally long, so that a mean has an interval.
    clock = LogClock(began, 0.01 * (1 + job.seed % 11 / 40))
    path = folder / "log.txt"
    log = RunLogWriter(path, clock)
    monitor = Monitor(clock, job.timeout_s, on_event=on_event)
    monitor.send("start", run_index=job.run_index, train_samples=data["train_samples"])
    log.event(keys.CACHE_CLEAR, True, {"method": "scripted"})
    describe = describe_run(job, benchmark, digest["dataset_sha256"], "reference")
    try:
        outcome = run_once(_workload(benchmark, num_evals, is_met=is_met), benchmark, describe, log, clock, monitor)
    finally:
        log.close()
    _hide_callers(path, is_half=leaves == "half a log")
    if leaves != "half a log":
        leave_observation(folder)
    if leaves != "record":
        return
    ended = describe_end(job, benchmark, digest["dataset_sha256"], "reference", outcome, monitor)
    weights = None
    if job.keep_weights:
        import torch

        kept = keep_weights(folder.parent, {"layer.weight": torch.arange(4.0)}, ended)
        weights = {"num_bytes": kept.num_bytes, "duration_s": 0.1, "error": kept.error, "exit_code": kept.exit_code}
    content = run_content(
        run_index=job.run_index,
        attempt=job.attempt,
        seed=job.seed,
        status=ended["status"],
        reason=outcome.reason,
        started_utc=began.isoformat(timespec="milliseconds"),
        ended_utc=(began + timedelta(seconds=clock.ticks / 100)).isoformat(timespec="milliseconds"),
        peak_rss_bytes=2**28,
        cache_clear={
            "cleared": True,
            "method": "scripted",
            "resident_bytes_before": None,
            "resident_bytes_after": None,
        },
        blocks=monitor.blocks,
        evaluations=monitor.evaluations,
        log_sha256=ended["log_sha256"],
        weights=weights,
        code=code,
    )
    (folder / "run.json").write_text(encode(convert(content, RunRecord)))


def _workload(benchmark: Benchmark, num_evals: int | None, *, is_met: bool) -> ScriptedWorkload:
    data, train_section, target = benchmark.sections["data"], benchmark.sections["train"], benchmark.quality.target
    last = [min(1.0, target + 0.01)] if is_met else [target - 0.01] * 1000
    return ScriptedWorkload(
        benchmark,
        [*(0.6 for _ in range((num_evals or usual_evals(benchmark)) - 1)), *last],
        global_batch_size=train_section["global_batch_size"],
        train_samples=data["train_samples"],
        eval_samples=data["eval_samples"],
    )


def _hide_callers(path: Path, *, is_half: bool) -> None:
    """Replace the lines of code that a log names, which change with the code; of half a log keep the first half."""
    lines = path.read_text(encoding="utf-8").splitlines()
    if is_half:
        lines = lines[: len(lines) // 2]
    changed = []
    for line in lines:
        content = json.loads(line.removeprefix(":::MLLOG "))
        content["metadata"] |= {"file": "scripted.py", "lineno": 1}
        changed.append(f":::MLLOG {json.dumps(content)}\n")
    path.write_text("".join(changed), encoding="utf-8")

"""Make one run to the quality target, from an empty attempt folder to a finished log."""

import hashlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from harness.config.axes import Axis, refuse_other_problems
from harness.config.catalog import has_implementation
from harness.config.run_config import Override, RunConfig, resolve
from harness.config.synthetic import refuse_synthetic_target
from harness.foundation.errors import ExitCode, HarnessError
from harness.measure.clock import Clock
from harness.measure.companions import measuring
from harness.measure.kinds import Job, Kind, OnEvent, Work
from harness.measure.run_log import RunLogWriter, RunOutcome, TrainingBlock, log_built, make_schedule
from harness.system.page_cache import clear_page_cache
from harness.system.startup import find_startup_files
from harness.system.submission import LOGGED_STATUS, UNSPECIFIED
from reference_models.process.errors import NotFiniteError
from reference_models.process.world import SingleProcess, World
from reference_models.registry import find_model
from reference_models.training.workload import NamesDataset, Workload
from rules.benchmarks.loader import Benchmark, load_benchmark
from rules.logs import keys
from rules.records.codec import VERSION, convert
from rules.records.metrics import ROC_AUC
from rules.records.run import RunRecord
from rules.records.run_set import RunSetRecord

_PROGRESS_EVERY_S = 0.5
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingJob(Job):
    """Job of one run to the quality target, with all values resolved by the parent process."""

    run_index: int
    attempt: int
    division: str
    submission_org: str
    submission_platform: str
    submission_status: str
    timeout_s: float | None
    keep_weights: bool = False


class _GiveUp(Exception):  # noqa: N818 (an outcome, not an error)
    """Exception raised where a run cannot succeed any more; its reason goes into the run's log."""


class Monitor:
    """Sender of a run's progress to the parent process; it also enforces the run's deadline, and records the times of
    training blocks and evaluations."""

    def __init__(
        self,
        clock: Clock,
        timeout_s: float | None,
        on_start: Callable[[], None] = lambda: None,
        world: World | None = None,
        on_event: OnEvent = lambda event: None,
    ) -> None:
        self._clock, self._timeout_s, self._on_start = clock, timeout_s, on_start
        self._world = SingleProcess() if world is None else world
        self._on_event = on_event
        self._run_start_s: float | None = None
        self.samples_before_start: int | None = None
        self.blocks: list[dict[str, Any]] = []
        self.evaluations: list[dict[str, Any]] = []

    def send(self, event: str, **values: Any) -> None:
        if self._world.rank == 0:
            self._on_event({"event": event, **values})

    def start(self) -> None:
        self._run_start_s = self._clock.elapsed_s()
        self._on_start()

    def decide(self, value: T) -> T:
        """Return the value that rank 0 has, on every rank: a decision that depends on time must be the same on all
        ranks."""
        return self._world.broadcast(value)

    def check_deadline(self) -> None:
        if self._timeout_s is not None and self._run_start_s is not None:
            elapsed_s = self._clock.elapsed_s() - self._run_start_s
            if self.decide(elapsed_s > self._timeout_s):
                raise _GiveUp("timeout")


def run_once(
    workload: Workload,
    benchmark: Benchmark,
    describe: dict[str, Any],
    log: RunLogWriter,
    clock: Clock,
    monitor: Monitor,
) -> RunOutcome:
    """Train to the target in one run: init, run_start, train and evaluate until the target is met, run_stop
    (training_rules.adoc, "Run Results"); return how it ended."""
    with log.init():
        log.events(describe)
        workload.build()  # off the clock: may not touch the dataset
        clock.synchronize = workload.synchronize
        for tensor in initialized_tensors(benchmark):
            log.event(keys.WEIGHTS_INITIALIZATION, None, {"tensor": tensor})
        log_built(workload, log)
        schedule = make_schedule(benchmark, workload.train_samples, workload.global_batch_size)
    if isinstance(workload, NamesDataset):
        monitor.samples_before_start = workload.dataset().read_files.samples_read
    with log.run() as run:  # aborted unless it succeeds
        monitor.start()
        best = 0.0
        try:
            for index, block in enumerate(schedule):
                _train_block(workload, block, log, clock, monitor, run)
                quality = _evaluate(workload, block, log, clock, monitor)
                if benchmark.is_met_by(quality):
                    run.succeed()
                    return run
                best = max(best, quality)
                if index >= 1 and best < benchmark.metric.not_learning_below:
                    raise _GiveUp("not_learning")
                monitor.check_deadline()
            run.reason = "max_epochs"
        except NotFiniteError:
            run.reason = "not_finite"
        except _GiveUp as reason:
            run.reason = str(reason)
    return run


def initialized_tensors(benchmark: Benchmark) -> Sequence[str]:
    """Return the names of the weights whose initialisation an official log must state; empty for other benchmarks."""
    if benchmark.status != "official" or not has_implementation(benchmark):
        return ()
    model = find_model(benchmark.model)
    return model.weights(model.parse(benchmark.sections["model"]))


def _train_block(
    workload: Workload, block: TrainingBlock, log: RunLogWriter, clock: Clock, monitor: Monitor, run: RunOutcome
) -> None:
    """Train the steps up to the next evaluation in chunks of about half a second, to report progress and to check the
    deadline."""
    with log.block(block, run):
        started_s = clock.elapsed_s()
        remaining, chunk = block.num_steps, max(1, min(block.num_steps, 4))
        while remaining:
            chunk_started_s = clock.elapsed_s()
            counts = workload.train(min(chunk, remaining))
            if counts.num_steps == 0:
                raise RuntimeError("the workload trained no step")
            remaining -= counts.num_steps
            run.samples_count += counts.num_samples
            run.epoch_num = block.epoch_num(run.samples_count)
            took_s = clock.elapsed_s() - chunk_started_s
            monitor.send("train", samples=run.samples_count, samples_per_s=counts.num_samples / max(took_s, 1e-9))
            chunk = monitor.decide(max(1, round(chunk * min(4.0, _PROGRESS_EVERY_S / max(took_s, 1e-9)))))
            if remaining:
                monitor.check_deadline()
        duration_s = clock.elapsed_s() - started_s
    num_samples = run.samples_count - block.first_sample
    monitor.blocks.append({"first_sample": block.first_sample, "num_samples": num_samples, "duration_s": duration_s})
    log.throughput(num_samples / duration_s, block)


def _evaluate(workload: Workload, block: TrainingBlock, log: RunLogWriter, clock: Clock, monitor: Monitor) -> float:
    with log.eval(block):
        started_s = clock.elapsed_s()
        quality = workload.evaluate()
        duration_s = clock.elapsed_s() - started_s
        if not math.isfinite(quality):
            raise NotFiniteError("the evaluation's quality is not finite")
        log.accuracy(quality, block)
    monitor.evaluations.append({"samples_count": block.last_sample, "duration_s": duration_s, "quality": quality})
    monitor.send("eval", epoch_num=block.epoch_num(block.last_sample), quality=quality)
    return quality


def run_attempt(spec: TrainingJob, world: World, on_event: OnEvent) -> RunRecord | None:
    """Make one attempt at a run: clear the page cache, build, train to the target. Rank 0 writes log.txt and returns
    the record; other ranks return None."""
    with measuring(spec, world, on_event, RunRecord) as process:
        clock = Clock()
        benchmark, dataset, label = process.benchmark, process.dataset, process.config.code_label
        monitor = Monitor(clock, spec.timeout_s, process.start, world, on_event)
        log = RunLogWriter(process.folder / "log.txt" if world.rank == 0 else None, clock, monitor.send)
        monitor.send("start", run_index=spec.run_index, train_samples=dataset.train.num_samples)
        cache = clear_page_cache([Path(path) for path in dataset.files])
        log.event(keys.CACHE_CLEAR, cache.cleared, {"method": cache.method})
        describe = describe_run(spec, benchmark, dataset.dataset_sha256, label)
        outcome = run_once(process.workload, benchmark, describe, log, clock, monitor)
        process.stop()
        log.close()
        closed = datetime.now(UTC)
        process.trained = describe_end(spec, benchmark, dataset.dataset_sha256, label, outcome, monitor)
        samples_before_start = world.gather(monitor.samples_before_start)
    if samples_before_start is None:
        return None
    known = [number for number in samples_before_start if number is not None]
    energy = process.members["energy"]
    content = process.members | {
        "schema_version": VERSION,
        "run_index": spec.run_index,
        "attempt": spec.attempt,
        "seed": spec.seed,
        "status": process.trained["status"],
        "reason": outcome.reason,
        "exit_code": 0,
        "observed_s": None if energy is None else energy["duration_s"],
        "observed_by": None if energy is None else "itself",
        "closed_utc": closed.isoformat(timespec="milliseconds"),
        "samples_before_start": sum(known) if known else None,
        "startup": [asdict(file) for file in find_startup_files()],
        "cache_clear": asdict(cache),
        "blocks": monitor.blocks,
        "evaluations": monitor.evaluations,
        "log_sha256": process.trained["log_sha256"],
    }
    return convert(content, RunRecord)


def describe_end(
    spec: TrainingJob,
    benchmark: Benchmark,
    dataset_sha256: str | None,
    implementation: str,
    outcome: RunOutcome,
    monitor: Monitor,
) -> dict[str, Any]:
    """Return fields for the manifest of a run's weights: the run's identity, and how it ended. The run's log must be
    closed."""
    log, trained = Path(spec.folder) / "log.txt", outcome.samples_count
    return {
        "benchmark": benchmark.name,
        "benchmark_version": benchmark.version,
        "definition_sha256": benchmark.definition_sha256,
        "dataset_sha256": dataset_sha256,
        "implementation": implementation,
        "run_index": spec.run_index,
        "seed": spec.seed,
        "status": "success" if outcome.status == keys.SUCCESS else "not_converged",
        "samples_count": trained,
        "quality": next(
            (last["quality"] for last in monitor.evaluations[-1:] if last["samples_count"] == trained), None
        ),
        "log_sha256": hashlib.sha256(log.read_bytes()).hexdigest() if log.is_file() else None,
        "id_map_sha256": spec.id_map_sha256,
    }


def describe_run(
    spec: TrainingJob, benchmark: Benchmark, dataset_sha256: str | None, implementation: str
) -> dict[str, Any]:
    """Return the values that a run's log states before the model is built, by log key."""
    lines: dict[str, Any] = {
        keys.SUBMISSION_BENCHMARK: benchmark.name,
        keys.SUBMISSION_DIVISION: spec.division,
        keys.SUBMISSION_ORG: spec.submission_org,
        keys.SUBMISSION_PLATFORM: spec.submission_platform,
        keys.SUBMISSION_STATUS: spec.submission_status,
        keys.BENCHMARK_VERSION: benchmark.version,
        keys.DEFINITION_SHA256: benchmark.definition_sha256,
        keys.DATASET_SHA256: dataset_sha256,
        keys.QUALITY_TARGET: benchmark.quality.target,
        keys.QUALITY_METRIC: None if benchmark.quality.metric == ROC_AUC else benchmark.quality.metric,
        keys.SEED: spec.seed,
        keys.IMPLEMENTATION: implementation,
    }
    return {key: value for key, value in lines.items() if value is not None}


class TrainingKind(Kind):
    """Measurement that trains to the quality target and is scored; only keys outside of the training problem may
    vary."""

    @property
    def derived_suffix(self) -> None:
        return None

    def resolve(self, benchmark: str | Path, overrides: Iterable[Override], label: str | None) -> RunConfig:
        config = resolve(benchmark, overrides, label, sections=self.sections)
        _ = config.benchmark.quality  # raises for a definition without a quality target
        refuse_synthetic_target(config.workload.data)
        return config

    def check_axes(self, axes: Sequence[Axis], benchmark: Benchmark) -> None:
        refuse_other_problems(axes, benchmark)

    def is_comparable(self, base: Benchmark, new: Benchmark) -> bool:
        return base.definition_sha256 == new.definition_sha256

    def repetitions(self, config: RunConfig, asked: int | None) -> int:
        needed = config.benchmark.score.num_runs
        if config.benchmark.status == "official" and asked is not None and asked > needed:
            raise HarnessError(
                f"-n is {asked}, but {config.benchmark.name} is an official benchmark, and its score is over "
                f"exactly {needed} runs. Give -n {needed} at most; start another set for more."
            )
        return asked or needed

    def refuse_growth(self, folder: Path, record: RunSetRecord, definition: Path, num_runs: int) -> None:
        if record.benchmark.status != "official":
            return
        needed = load_benchmark(definition).score.num_runs
        if num_runs > needed:
            raise HarnessError(
                f"{folder}: {record.benchmark.name} is an official benchmark, and its score is over exactly {needed} "
                f"runs. Give --runs {needed} at most; start another set for more."
            )

    def make_job(
        self, record: RunSetRecord, index: int, members: Mapping[str, Any], more: Mapping[str, Any]
    ) -> TrainingJob:
        given = {field: entry.value for field, entry in record.submission.items()}
        status = record.system.fields.get("status")
        if status not in LOGGED_STATUS:
            raise HarnessError(
                f"{record.name}: its system's status is {status!r}, expected {', '.join(LOGGED_STATUS)}.",
                ExitCode.INPUT,
            )
        return TrainingJob(
            **members,
            run_index=index,
            attempt=int(Path(members["folder"]).name.removeprefix("attempt_")),
            division=record.division,
            submission_org=given.get("submitter") or UNSPECIFIED,
            submission_platform=given.get("platform") or UNSPECIFIED,
            submission_status=LOGGED_STATUS[status],
            timeout_s=record.timeout_s,
            keep_weights=record.keep_weights,
        )

    def remarks(self, config: RunConfig) -> list[str]:
        if "submitter" in config.submission:
            return []
        return ["note: no submitter is given (--submitter), so this set cannot be packaged as a submission."]

    def work(self, options: Mapping[str, int], config: RunConfig, sizes: tuple[int, int] | None) -> Work | None:
        if sizes is None:
            return None
        train_samples, eval_samples = sizes
        batch_size = config.workload.train.global_batch_size
        between = config.benchmark.steps_between_evals(train_samples, batch_size)
        num_evals = int(config.benchmark.quality.max_epochs * (train_samples // batch_size)) // between
        return Work(num_steps=between * num_evals, num_evals=num_evals, eval_samples=eval_samples)


KIND = TrainingKind(
    name="training",
    job=TrainingJob,
    record=RunRecord,
    run=run_attempt,
    file="run.json",
    keeper="logs",
    ends_early=True,
    takes=frozenset({"timeout_s", "until", "max_runs", "keep_weights", "run_index"}),
    sections=("checkpoint",),
)

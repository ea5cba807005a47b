"""Train and store the runs of a calibration: full epochs of the reference implementation and of simpler models,
stored as they finish.

Every run trains a whole epoch and keeps its quality at each evaluation, so that the same runs serve to judge any
target quality. Runs are appended to `runs.jsonl` one by one; a calibration that was interrupted goes on with the
missing runs.
"""

import json
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import IO, Any, Literal

import msgspec

from harness.config.catalog import Entry
from harness.foundation.errors import ExitCode, HarnessError
from harness.foundation.files import open_regular
from harness.system.code import code_sha256
from reference_models.process.errors import naming
from reference_models.registry import find_model, label_of, parse_place
from rules.benchmarks.loader import Benchmark, canonical_sha256
from rules.judge.parallel import belong_to_parent
from rules.records.codec import Amount, Index, PositiveAmount, PositiveCount, Share

REFERENCE = "reference"
RUNS_FILE = "runs.jsonl"
_MAX_BYTES = 1 << 25
"""Maximum size in bytes of runs.jsonl; thousands of runs take far less."""
_MAX_LINE_BYTES = 1 << 20
"""Maximum size in bytes of a line of runs.jsonl, which holds one run; a run with thousands of evaluations takes far
less."""
_BEGINNING = b'{"problem": "'


@dataclass(frozen=True, kw_only=True, slots=True)
class CalibrationRun:
    """Run of a calibration, which trains one epoch: model, batch size, learning rate and seed. Objects with equal
    values stand for the same run."""

    model: str
    global_batch_size: PositiveCount
    opt_base_learning_rate: PositiveAmount
    seed: Index


@dataclass(frozen=True, kw_only=True, slots=True)
class CalibrationResult:
    """Qualities in one trained epoch of a calibration: `qualities[i]` is the benchmark's metric at
    `samples_counts[i]` trained samples."""

    run: CalibrationRun
    samples_counts: tuple[PositiveCount, ...]
    qualities: tuple[Share, ...]
    train_s: Amount
    eval_s: Amount
    code_sha256: str | None = None
    """Digest of the code that trained the epoch; None for runs from before this digest was recorded."""
    train_samples: PositiveCount | None = None
    """Number of training samples of an epoch. None for old runs, which did not record it; their evaluations are at
    equal parts of an epoch."""

    def epochs_to_converge(self, benchmark: Benchmark) -> float | None:
        """Return the number of epochs trained until the first evaluation that met the benchmark's target quality, a
        fraction; None if no evaluation met the target."""
        for index, quality in enumerate(self.qualities):
            if benchmark.is_met_by(quality):
                return self.epochs_at(index, benchmark.quality.evals_per_epoch)
        return None

    def epochs_at(self, index: int, evals_per_epoch: int) -> float:
        """Return the number of epochs, a fraction, that the run had trained at evaluation `index`."""
        if self.train_samples is None:
            return (index + 1) / evals_per_epoch
        return self.samples_counts[index] / self.train_samples

    @property
    def final_quality(self) -> float:
        """Return the quality at the last evaluation of the epoch; 0 if training diverged before the first
        evaluation."""
        return self.qualities[-1] if self.qualities else 0.0

    @property
    def best_quality(self) -> float:
        return max(self.qualities, default=0.0)


def in_precision(entry: Entry, precision: Literal["fp32", "bf16"] | None) -> Entry:
    """Return the benchmark with training precision `precision`. None stands for the precision that the benchmark
    definition gives, or for fp32 where the definition says `auto`."""
    runtime = entry.workload.runtime
    own = "fp32" if runtime.precision == "auto" else runtime.precision
    return replace(entry, workload=replace(entry.workload, runtime=replace(runtime, precision=precision or own)))


def problem_digest(entry: Entry) -> str:
    """Compute the digest of all settings that decide the qualities of a calibration's runs. The target is left out,
    since it changes no quality. Batch size, learning rate and seed are left out, too: each run records them
    itself."""
    sections, train = entry.benchmark.sections, dict(entry.benchmark.sections["train"])
    for key in ("global_batch_size", "opt_base_learning_rate"):
        train.pop(key, None)
    content: dict[str, Any] = {
        "model": sections["model"],
        "data": {**sections["data"], "sha256": None},
        "train": train,
    }
    if parse_place(entry.workload.model_name) is not None:
        content["runtime"] = {"model": label_of(entry.workload.model_name)}
    precision = entry.workload.runtime.precision
    content |= {} if precision == "fp32" else {"precision": precision}
    return canonical_sha256({**content, "evals_per_epoch": entry.benchmark.quality.evals_per_epoch})


def train_epoch(entry: Entry, data_dir: Path, run: CalibrationRun) -> CalibrationResult:
    """Train one epoch on one thread, evaluating at the benchmark's evaluation points; return the qualities and
    times."""
    from reference_models.process.errors import NotFiniteError
    from reference_models.process.world import SingleProcess

    config = entry.workload
    train = replace(
        config.train, global_batch_size=run.global_batch_size, opt_base_learning_rate=run.opt_base_learning_rate
    )
    spec = replace(config, train=train, runtime=replace(config.runtime, threads=1)).spec(data_dir, run.seed)
    known = config.model_spec
    load = known.implementations[REFERENCE].load if run.model == REFERENCE else known.baselines[run.model]
    workload = load(spec, SingleProcess())
    workload.build()
    samples_counts: list[int] = []
    qualities: list[float] = []
    train_s = eval_s = 0.0
    for steps in steps_to_evaluations(entry.benchmark, workload.train_samples, run.global_batch_size):
        start_s = time.monotonic()
        try:
            num_samples = workload.train(steps).num_samples
            trained_s = time.monotonic()
            qualities.append(workload.evaluate())
        except NotFiniteError:
            break
        samples_counts.append(num_samples + (samples_counts[-1] if samples_counts else 0))
        train_s += trained_s - start_s
        eval_s += time.monotonic() - trained_s
    return CalibrationResult(
        run=run,
        samples_counts=tuple(samples_counts),
        qualities=tuple(qualities),
        train_s=train_s,
        eval_s=eval_s,
        code_sha256=code_sha256(),
        train_samples=workload.train_samples,
    )


def steps_to_evaluations(benchmark: Benchmark, train_samples: int, global_batch_size: int) -> list[int]:
    """Return the number of training steps before each evaluation of an epoch, counted from the evaluation before it;
    the first evaluation is where the benchmark's `first_eval` says."""
    interval = benchmark.steps_between_evals(train_samples, global_batch_size)
    first = benchmark.first_eval_samples(train_samples, global_batch_size) // global_batch_size
    num_steps, num_evals = train_samples // global_batch_size, benchmark.quality.evals_per_epoch
    ends = range(first, min(num_steps, num_evals * interval) + 1, interval)
    return [end - begin for begin, end in zip((0, *ends), ends, strict=False)]


class RunStore:
    """Finished runs of one calibration, in a file to which runs are only appended. Only the holder of the folder's
    lock may use this object.

    The folder may have been made by another user. No link is therefore followed, and lines that are not runs of a
    calibration stay as they are. Raises HarnessError (exit 8) if the file is not a regular file, is too large, or is
    damaged.
    """

    def __init__(self, folder: Path, digest: str) -> None:
        self.path, self._digest = folder / RUNS_FILE, digest
        folder.mkdir(parents=True, exist_ok=True)
        self._results = {result.run: result for result in self._read()}

    def get(self, run: CalibrationRun) -> CalibrationResult | None:
        return self._results.get(run)

    def add(self, result: CalibrationResult) -> None:
        line = json.dumps({"problem": self._digest, **asdict(result)}) + "\n"
        with naming(self.path), self._open(os.O_WRONLY | os.O_CREAT) as file:
            file.write(line.encode())
            file.flush()
            os.fsync(file.fileno())
        self._results[result.run] = result

    def _open(self, flags: int) -> IO[bytes]:
        """Open the file of a calibration's finished runs for reading, or for appending."""
        descriptor = open_regular(self.path, flags, "runs of a calibration")
        return os.fdopen(descriptor, "rb" if flags == os.O_RDONLY else "ab")

    def _read(self) -> Iterator[CalibrationResult]:
        try:
            with self._open(os.O_RDONLY) as file:
                data = file.read(_MAX_BYTES + 1)
        except FileNotFoundError:
            return
        if len(data) > _MAX_BYTES:
            raise HarnessError(
                f"{self.path}: more than {_MAX_BYTES:,} bytes, expected the runs of a calibration. Move it away, or "
                "give another --output.",
                ExitCode.INPUT,
            )
        *lines, rest = data.split(b"\n")
        for number, line in enumerate(lines, start=1):
            problem, result = self._parse(line, number)
            if problem == self._digest:
                yield result
        if rest and not rest.startswith(_BEGINNING[: len(rest)]):
            raise self._damaged(len(lines) + 1)
        if rest:  # part of a line, left by an interrupted write; its run is repeated
            with self._open(os.O_WRONLY) as file:
                file.truncate(len(data) - len(rest))

    def _parse(self, line: bytes, number: int) -> tuple[object, CalibrationResult]:
        try:
            if len(line) > _MAX_LINE_BYTES:
                raise ValueError(len(line))
            content = json.loads(line.decode())
            json.dumps(content, allow_nan=False)  # Python reads NaN, and a number above all doubles as infinity
            result = msgspec.convert(content, CalibrationResult)
            if [*result.samples_counts] != sorted({*result.samples_counts}) or len(result.samples_counts) != len(
                result.qualities
            ):
                raise ValueError("expected a quality for each of rising counts of samples")
            return content["problem"], result
        except (ValueError, KeyError, TypeError, RecursionError, msgspec.ValidationError):
            raise self._damaged(number) from None

    def _damaged(self, number: int) -> HarnessError:
        words = f"{self.path}:{number}: not a calibration run. Repair or remove the line."
        return HarnessError(words, ExitCode.INPUT)


def _begin_work(model_name: str) -> None:
    """Initialise a worker process: let it end when its parent ends, and import the file of the model, whose classes a
    task may contain."""
    belong_to_parent()
    find_model(model_name)


def complete_runs(
    entry: Entry,
    data_dir: Path,
    runs: Sequence[CalibrationRun],
    store: RunStore,
    *,
    num_workers: int,
    on_result: Callable[[CalibrationResult, int], None] | None = None,
) -> list[CalibrationResult]:
    """Return the results of a calibration's `runs` in their order; runs that `store` lacks are trained in worker
    processes.

    `on_result` gets each new result and the number of runs that are still missing.
    """
    missing = [run for run in dict.fromkeys(runs) if store.get(run) is None]
    pending, left = iter(missing), len(missing)
    # Workers are spawned: a process that has used torch must not be forked.
    with ProcessPoolExecutor(
        num_workers,
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_begin_work,
        initargs=(entry.workload.model_name,),
    ) as pool:

        def submit(run: CalibrationRun) -> Future[CalibrationResult]:
            return pool.submit(train_epoch, entry, data_dir, run)

        running = {submit(run) for run in islice(pending, num_workers)}
        try:
            while running:
                done, running = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    result = future.result()
                    store.add(result)
                    left -= 1
                    if on_result is not None:
                        on_result(result, left)
                    if (run := next(pending, None)) is not None:
                        running.add(submit(run))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in multiprocessing.active_children():
                process.terminate()
            raise
    found = (store.get(run) for run in runs)
    return [result for result in found if result is not None]

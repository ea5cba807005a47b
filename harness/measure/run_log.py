"""Write one run's log in MLPerf's format, by context managers, so that every start line has its stop line."""

import contextlib
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.measure.clock import Clock
from reference_models.process.errors import ConfigError
from reference_models.training.workload import ShowsOptimizers, Workload
from rules.benchmarks.loader import Benchmark
from rules.logs import keys

_ROOT = f"{Path(__file__).parents[2]}{os.sep}"  # with its links, as file names of frames are
_NOT_CALLERS = (__file__, contextlib.__file__)
_START, _END, _POINT = "INTERVAL_START", "INTERVAL_END", "POINT_IN_TIME"


def _plain(value: object) -> Any:
    """Return a number or an array of NumPy or torch as a JSON value. Raises ConfigError for any other object."""
    if callable(to_plain := getattr(value, "tolist", None)):
        return to_plain()
    raise ConfigError(f"the log: found {type(value).__name__} {value!r}, expected text or a number.")


_encode = json.JSONEncoder(default=_plain).encode


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingBlock:
    """Block of training steps between two evaluations. Its sample numbers are those of all ranks together, counted
    from the run's start."""

    num_steps: int
    first_sample: int
    last_sample: int
    train_samples: int
    first_epoch_num: int

    def metadata(self, sample: int) -> dict[str, Any]:
        return {
            keys.FIRST_EPOCH_NUM: self.epoch_num(self.first_sample),
            keys.EPOCH_COUNT: (self.last_sample - self.first_sample) / self.train_samples,
            keys.SAMPLES_COUNT: sample,
        }

    def epoch_num(self, sample: int) -> float:
        return self.first_epoch_num + sample / self.train_samples


@dataclass(slots=True)
class RunOutcome:
    """Progress of a run, in samples since its start and in epochs, and its final status with the reason: aborted
    until `succeed` is called."""

    status: str = keys.ABORTED
    reason: str | None = "interrupted"
    samples_count: int = 0
    epoch_num: float = 0.0

    def succeed(self) -> None:
        """Mark the run as successful: its quality target is met."""
        self.status, self.reason = keys.SUCCESS, None


class RunLogWriter:
    """Writer of a run's log file. Each line is written at once and in one piece; `close` syncs the file. Only rank 0
    has a path; without a path no log is written.

    `on_stamped` is called with the key of a line, if it is run_start or run_stop. The call comes after the line has
    its time stamp and before the line is written, so that a slow disk does not delay the call.
    """

    def __init__(self, path: Path | None, clock: Clock, on_stamped: Callable[[str], None] = lambda key: None) -> None:
        self._clock, self._on_stamped = clock, on_stamped
        self._file = path.open("xb", buffering=0) if path is not None else None

    def _write(self, event_type: str, key: str, value: Any, metadata: Mapping[str, Any]) -> None:
        """Write a log line in the form of mllog.MLLogger; a failed write (disk full) raises OSError."""
        time_ms = self._clock.time_ms()  # synchronises the device of every rank
        if key in (keys.RUN_START, keys.RUN_STOP):
            self._on_stamped(key)
        if self._file is None:
            return
        line = {
            "namespace": "",
            "time_ms": time_ms,
            "event_type": event_type,
            "key": key,
            "value": value,
            "metadata": {**_caller(), **metadata},
        }
        content = f":::MLLOG {_encode(line)}\n".encode()
        while content:
            content = content[self._file.write(content) :]

    def event(self, key: str, value: Any = None, metadata: Mapping[str, Any] | None = None) -> None:
        self._write(_POINT, key, value, metadata or {})

    def events(self, values: Mapping[str, Any]) -> None:
        for key, value in values.items():
            self._write(_POINT, key, value, {})

    def _start(self, key: str, metadata: Mapping[str, Any] | None = None) -> None:
        self._write(_START, key, None, metadata or {})

    def _end(self, key: str, metadata: Mapping[str, Any] | None = None) -> None:
        self._write(_END, key, None, metadata or {})

    @contextmanager
    def init(self) -> Iterator[None]:
        self._start(keys.INIT_START)
        yield
        self._end(keys.INIT_STOP)

    @contextmanager
    def run(self) -> Iterator[RunOutcome]:
        """Write run_start to the log before the caller's block and run_stop after it, also after an error in the
        block.

        The status is aborted unless the block calls `succeed`.
        """
        self._start(keys.RUN_START)
        outcome = RunOutcome()
        try:
            yield outcome
        finally:
            metadata = {
                keys.STATUS: outcome.status,
                keys.SAMPLES_COUNT: outcome.samples_count,
                keys.EPOCH_NUM: outcome.epoch_num,
            }
            if outcome.reason is not None:
                metadata[keys.REASON] = outcome.reason
            self._end(keys.RUN_STOP, metadata)

    @contextmanager
    def block(self, block: TrainingBlock, run: RunOutcome) -> Iterator[None]:
        """Write block_start to the log before the caller's block and block_stop after it, with the samples that the
        run reached."""
        run.samples_count = block.first_sample
        self._start(keys.BLOCK_START, block.metadata(run.samples_count))
        try:
            yield
        finally:
            self._end(keys.BLOCK_STOP, block.metadata(run.samples_count))

    @contextmanager
    def eval(self, block: TrainingBlock) -> Iterator[None]:
        self._start(keys.EVAL_START, self._place(block))
        try:
            yield
        finally:
            self._end(keys.EVAL_STOP, self._place(block))

    def accuracy(self, quality: float, block: TrainingBlock) -> float:
        self._write(_POINT, keys.EVAL_ACCURACY, quality, self._place(block))
        return quality

    def throughput(self, samples_per_s: float, block: TrainingBlock) -> None:
        self._write(_POINT, keys.TRACKED_STATS, {"throughput": samples_per_s}, self._place(block))

    def _place(self, block: TrainingBlock) -> dict[str, Any]:
        return {keys.EPOCH_NUM: block.epoch_num(block.last_sample), keys.SAMPLES_COUNT: block.last_sample}

    def close(self) -> None:
        """Sync the run's log to the disk and close it."""
        if self._file is not None:
            os.fsync(self._file.fileno())
            self._file.close()


def _caller() -> dict[str, str | int]:
    """Return file and line number of the code that asked for a log line, which the line must state: the first caller
    outside this file."""
    frame = sys._getframe(1)
    while frame.f_code.co_filename in _NOT_CALLERS and frame.f_back is not None:
        frame = frame.f_back
    return {"file": frame.f_code.co_filename.removeprefix(_ROOT), "lineno": frame.f_lineno}


def log_built(workload: Workload, log: RunLogWriter) -> None:
    """Log the hyperparameters of a workload that is built.

    The optimizer's name is read off the built optimizers; for a workload that shows none, the name that the workload
    claims is logged, and marked as claimed.
    """
    shown = workload.optimizers if isinstance(workload, ShowsOptimizers) else []
    for key, value in workload.hyperparameters().items():
        if key != keys.OPT_NAME:
            log.event(key, value)
        elif shown:
            from reference_models.training.optimizers import name_built

            log.event(key, name_built(str(value), shown))
        else:
            log.event(key, value, {keys.IS_CLAIMED: True})


def make_schedule(benchmark: Benchmark, train_samples: int, global_batch_size: int) -> list[TrainingBlock]:
    """Return the list of training blocks of FLOOR(train_samples / (GBS * evals_per_epoch)) steps until max_epochs
    (training_rules.adoc).

    The first block lasts until the first evaluation, where the definition says when that is.
    """
    num_steps = benchmark.steps_between_evals(train_samples, global_batch_size)
    max_steps = int(benchmark.quality.max_epochs * (train_samples // global_batch_size))
    first = benchmark.first_eval_samples(train_samples, global_batch_size) // global_batch_size
    ends = range(first, max_steps + 1, num_steps)
    return [
        TrainingBlock(
            num_steps=end - begin,
            first_sample=begin * global_batch_size,
            last_sample=end * global_batch_size,
            train_samples=train_samples,
            first_epoch_num=benchmark.quality.first_epoch_num,
        )
        for begin, end in zip((0, *ends), ends, strict=False)
    ]

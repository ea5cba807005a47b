"""A workload that replays a quality curve, so that run -> check -> score -> report takes milliseconds."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.measure.clock import Clock
from harness.measure.run_log import RunLogWriter, RunOutcome
from harness.measure.training import Monitor, TrainingJob, describe_run, run_once
from reference_models.process.errors import NotFiniteError
from reference_models.training.workload import TrainCounts
from rules.benchmarks.loader import Benchmark

NOT_FINITE = float("nan")


@dataclass
class TickingClock(Clock):
    """A clock that goes on by a millisecond per stamp, whatever the system does; never faster than time."""

    ticks: int = 0

    def elapsed_s(self) -> float:
        self.synchronize()
        time.sleep(0.001)
        self.ticks += 1
        return self.ticks / 1e3

    def time_ms(self) -> int:
        self.elapsed_s()
        return self._wall_ns // 1_000_000 + self.ticks


@dataclass
class ScriptedWorkload:
    """Reaches `qualities[k]` at evaluation k; a NaN is a loss that diverges in the block before it."""

    benchmark: Benchmark
    qualities: Sequence[float]
    global_batch_size: int = 1024
    train_samples: int = 40960
    eval_samples: int = 1000
    events: list[str] = field(default_factory=list)

    def build(self) -> None:
        self.events.append("build")

    def hyperparameters(self) -> Mapping[str, int | float | str]:
        train = self.benchmark.sections["train"]
        optimizer = {key: value for key, value in train.items() if "opt" in key or "decay" in key}
        return {
            "global_batch_size": self.global_batch_size,
            "gradient_accumulation_steps": 1,
            **optimizer,
            "train_samples": self.train_samples,
            "eval_samples": self.eval_samples,
            "precision": "fp32",
            "num_threads": self.benchmark.sections.get("runtime", {}).get("threads", 1),
            "world_size": 1,
        }

    @property
    def optimizers(self) -> list[Any]:
        """What the definition asks for, over nothing much."""
        import torch

        from reference_models.config.sections import parse_train
        from reference_models.training.optimizers import build_optimizers

        tables, layers = ([torch.nn.Parameter(torch.zeros(1, 1))] for _ in range(2))
        train = parse_train(self.benchmark.sections["train"])
        return build_optimizers(train, embedding_parameters=tables, dense_parameters=layers)

    def train(self, num_steps: int) -> TrainCounts:
        self.events.append(f"train {num_steps}")
        if self.qualities[self.num_evals] != self.qualities[self.num_evals]:
            raise NotFiniteError("the training loss is not finite")
        return TrainCounts(num_steps=num_steps, num_samples=num_steps * self.global_batch_size)

    @property
    def num_evals(self) -> int:
        return self.events.count("evaluate")

    def evaluate(self) -> float:
        quality = self.qualities[self.num_evals]
        self.events.append("evaluate")
        return quality

    def synchronize(self) -> None:
        self.events.append("synchronize")

    def peak_device_bytes(self) -> int | None:
        return None

    def state(self) -> dict[str, Any]:
        return {}


def run_spec(**changes: Any) -> TrainingJob:
    values: dict[str, Any] = {
        "tables": {},
        "definition_path": "definition.toml",
        "run_index": 0,
        "attempt": 0,
        "seed": 7,
        "data_dir": "data",
        "folder": "attempt_0",
        "division": "closed",
        "submission_org": "unspecified",
        "submission_platform": "unspecified",
        "submission_status": "research",
        "timeout_s": None,
    }
    return TrainingJob(**{**values, **changes})


def run_scripted(path: Path, workload: ScriptedWorkload, **changes: Any) -> RunOutcome:
    """Write the log of one scripted run to `path`."""
    spec, clock = run_spec(**changes), TickingClock()
    log = RunLogWriter(path, clock)
    monitor = Monitor(clock, spec.timeout_s)
    log.event("cache_clear", True, {"method": "scripted"})
    describe = describe_run(spec, workload.benchmark, "0" * 64, "scripted")
    try:
        return run_once(workload, workload.benchmark, describe, log, clock, monitor)
    finally:
        log.close()

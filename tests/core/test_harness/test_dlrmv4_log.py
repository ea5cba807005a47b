"""The log of HSTU's own workload, at the size of MLPerf's DLRMv4, passes the official checker of round 6.1."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import torch
from log_builder import DISCLOSED
from official_opinion import ask_official_checker
from scripted_workload import ScriptedWorkload, run_scripted
from sequence_builder import small_workload

from reference_models.config.sections import parse_train
from reference_models.data.store.read_files import ReadFiles
from reference_models.hstu.reference import ReferenceWorkload
from reference_models.process.world import SingleProcess
from reference_models.training.optimizers import build_learning_rate_policy
from reference_models.training.workload import TrainCounts, WorkloadSpec
from rules.benchmarks.loader import load_benchmark
from rules.judge.sets import check_log

V4 = load_benchmark("dlrmv4")


class FullSize(ReferenceWorkload):
    """Says what a small model's optimizers, built as the official definition says, are; learns by script."""

    def __init__(self, spec: WorkloadSpec, qualities: list[float]) -> None:
        super().__init__(spec, SingleProcess())
        self._qualities = iter(qualities)

    def build(self) -> None:
        self.device = torch.device("cpu")
        sizes = {
            split: SimpleNamespace(num_samples=V4.data_samples(f"{split}_samples")) for split in ("train", "eval")
        }
        self.data = cast(Any, SimpleNamespace(**sizes, read_files=ReadFiles()))
        self._policy = build_learning_rate_policy(self.spec.train)
        self.model, self.optimizers = self.build_model((10, 10, 10))

    def train(self, num_steps: int) -> TrainCounts:
        return TrainCounts(num_steps=num_steps, num_samples=num_steps * self.global_batch_size)

    def evaluate(self) -> float:
        return next(self._qualities)


def test_a_fake_run_at_full_size_passes_the_official_checker_and_ours(tmp_path: Path) -> None:
    config = small_workload(model={"max_sequence_length": 4096})
    tables = {key: value for key, value in V4.sections["train"].items() if key != "max_sequence_length"}
    spec = WorkloadSpec(
        model=config.model,
        data=config.data,
        train=parse_train(tables),
        runtime=config.runtime,
        data_dir=tmp_path,
        seed=1,
    )
    workload = FullSize(spec, [0.70, 0.74, 0.7501])
    setattr(workload, "benchmark", V4)  # noqa: B010 (what `run_scripted` asks for)
    path = tmp_path / "result_0.txt"
    described = {"submission_org": "Example", "submission_platform": "1x Example"}
    outcome = run_scripted(path, cast(ScriptedWorkload, workload), **described)
    assert outcome.status == "success"
    assert outcome.samples_count == 27 * 280 * 8192  # 25 blocks before the first evaluation
    (opinion,) = ask_official_checker([path], "6.1")
    assert opinion.outcome == "valid", opinion
    assert [finding for finding in check_log(path).findings if finding.severity == "error"] == []


def test_the_small_benchmark_binds_and_logs_what_the_official_one_does() -> None:
    small, config = load_benchmark("dlrmv4_small"), small_workload()
    assert set(V4.closed) <= set(small.closed)
    spec = config.spec(Path("nowhere"), 1)
    workload = FullSize(spec, [])
    workload.build()
    assert {*V4.closed, *DISCLOSED} <= workload.hyperparameters().keys()
    for key in ("opt_name", "opt_sparse_name", "opt_adam_beta_1", "opt_gradient_clip_norm", "convergence_unit"):
        assert (key in V4.closed and V4.closed[key] == small.closed[key]) or key == "convergence_unit"
    assert small.quality.convergence_unit == V4.quality.convergence_unit
    assert small.quality.interval_rounding == V4.quality.interval_rounding

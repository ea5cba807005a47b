"""A whole set of a benchmark that takes no time, trained in this process: what tests of cheats need, and no more."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from observed import leave_observation

from harness.config.catalog import load_entry
from harness.config.run_config import Override
from harness.experiment.create import create
from harness.experiment.executors import job_members
from harness.experiment.expand import expand
from harness.experiment.prepare import prepare
from harness.experiment.request import Request
from harness.measure.job import measure
from harness.measure.training import KIND
from harness.run_sets.dataset import ensure_dataset
from harness.run_sets.folder import RunSet, open_run_set
from reference_models.data.store.manifest import read_manifest
from reference_models.process.world import SingleProcess
from rules.benchmarks.loader import load_benchmark, read_definition_text
from rules.records.run_set import RunSetRecord

TRAIN_SAMPLES, EVAL_SAMPLES = 20_480, 1024
OnEvent = Callable[[Mapping[str, Any]], None]


def write_definition(path: Path, sha256: str | None = None, *, target: float = 0.5) -> Path:
    """dlrm_tiny's definition on few samples, met by any training, whose data is pinned where a digest is given."""
    changes = {
        "name": 'name = "mine"',
        "target": f"target = {target}",
        "evals_per_epoch": "evals_per_epoch = 4",
        "effect_scale": "effect_scale = 3.0",
        "train_samples": f"train_samples = {TRAIN_SAMPLES}",
        "eval_samples": f"eval_samples = {EVAL_SAMPLES}",
        "sha256": "" if sha256 is None else f'sha256 = "{sha256}"',
        "num_runs": "num_runs = 3",
    }
    lines, section = [], ""
    for line in read_definition_text(load_benchmark("dlrm_tiny").path).splitlines():
        section = line if line.startswith("[") else section
        key = line.partition(" = ")[0]
        lines.append(line if key == "name" and section != "[benchmark]" else changes.get(key, line))
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


@dataclass(frozen=True, kw_only=True, slots=True)
class SmallBenchmark:
    """A definition, the root of its data, and what a command is given to run it."""

    definition: Path
    data_root: Path

    @property
    def options(self) -> tuple[str, ...]:
        return (str(self.definition), "--data", str(self.data_root), "--threads", "1", "--seed", "1")


def make_small_benchmark(folder: Path, *, target: float = 0.785) -> SmallBenchmark:
    """The small definition, pinned, and its data; its own target is met at the third evaluation, in a tenth of a
    second, and at the second one by batches of 64, in half a second.
    """
    definition, root = write_definition(folder / "mine.toml"), folder / "data"
    data_dir = ensure_dataset(load_entry(definition).workload.data, root, num_threads=1)
    write_definition(definition, read_manifest(data_dir)["dataset_sha256"], target=target)
    return SmallBenchmark(definition=definition, data_root=root)


@dataclass(frozen=True, kw_only=True, slots=True)
class SmallSet:
    """A set that was begun, its definition and its data."""

    definition: Path
    data_dir: Path
    run_set: RunSet
    record: RunSetRecord

    @property
    def folder(self) -> Path:
        return self.run_set.folder

    def train(self, index: int, on_event: OnEvent = lambda event: None) -> None:
        """Make run `index` as its process does; `on_event` is called while it trains."""
        attempt = self.run_set.new_attempt(index)
        members = job_members(self.run_set, self.record, index, attempt)
        try:
            measure(KIND, KIND.make_job(self.record, index, members, {}), SingleProcess(), on_event)
        finally:
            leave_observation(attempt)
        assert self.run_set.recover(index)


def begin_small_set(folder: Path, monkeypatch: pytest.MonkeyPatch, *, is_pinned: bool = True) -> SmallSet:
    """Make data and definition, and begin a set of three runs; the system is not looked at."""
    monkeypatch.setattr("harness.experiment.create.run_checks", lambda data, output: [])
    root = folder / "data"
    definition = write_definition(folder / "mine.toml")
    data_dir = ensure_dataset(load_entry(definition).workload.data, root, num_threads=1)
    if is_pinned:
        write_definition(definition, read_manifest(data_dir)["dataset_sha256"])
    request = Request(
        benchmark=str(definition),
        overrides=[Override(key="runtime.threads", value=1, source="test")],
        runs=3,
        seed=1,
        data=root,
        output=folder / "out",
        quiet=True,
    )
    monkeypatch.setattr("harness.experiment.prepare.autotune", lambda config, prepared, **options: prepared)
    run_set, record = open_run_set(create(prepare(expand(request))))
    return SmallSet(definition=definition, data_dir=Path(record.dataset.dir), run_set=run_set, record=record)


def map_array(data_dir: Path, split: str, name: str) -> Any:
    """The samples of one file of the dataset, to be changed in place."""
    return np.lib.format.open_memmap(data_dir / f"{split}_{name}.npy", mode="r+")


def keeping_times(data_dir: Path, change: Callable[[Path], object]) -> None:
    """Change files of the dataset, and set their mtimes back."""
    before = {path: path.stat() for path in data_dir.glob("*.npy")}
    change(data_dir)
    for path, stat in before.items():
        assert path.stat().st_size == stat.st_size
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))

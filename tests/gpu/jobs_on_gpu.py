"""Workloads of shipped benchmarks' shapes on synthetic data in memory, for the steps that measure."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import torch

from reference_models.config.sections import parse_runtime, parse_train
from reference_models.data.registry import open_dataset, parse_data
from reference_models.data.store.dataset import Batch, OpenedDataset
from reference_models.dlrm.config import parse_model
from reference_models.process.world import SingleProcess
from reference_models.registry import find_implementation
from reference_models.training import loop
from reference_models.training.workload import WorkloadSpec
from rules.benchmarks.loader import load_benchmark

STEPS_PER_EPOCH = 10_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Shape:
    """A benchmark's model on tables of so many times its rows."""

    name: str
    benchmark: str
    opt_name: str
    batch_size: int
    row_scale: float = 1.0
    num_batches: int = 4


SMALL = Shape(name="dlrm_small", benchmark="dlrm_small", opt_name="adagrad", batch_size=2048, num_batches=64)
CAPPED = Shape(
    name="dcnv2_rows_x0.1", benchmark="dlrm_dcnv2", opt_name="rowwise_adagrad", batch_size=65536, row_scale=0.1
)
FULL = Shape(name="dcnv2_full", benchmark="dlrm_dcnv2", opt_name="rowwise_adagrad", batch_size=65536)
TINY = (
    Shape(name="dlrm_small", benchmark="dlrm_tiny", opt_name="adagrad", batch_size=64),
    Shape(name="dcnv2_rows_x0.1", benchmark="dlrm_dcnv2", opt_name="rowwise_adagrad", batch_size=16, row_scale=1e-5),
)


def make_spec(shape: Shape, **runtime: Any) -> WorkloadSpec:
    """Specify training of that shape; `runtime` is as definitions write it."""
    sections = load_benchmark(shape.benchmark).sections
    given = sections["data"]
    data = {
        "kind": "synthetic",
        "num_embeddings": list(given["num_embeddings"]),
        "num_dense": given.get("num_dense", 13),
        "train_samples": shape.batch_size * shape.num_batches,
        "eval_samples": shape.batch_size,
        "row_scale": shape.row_scale,
    }
    if "multi_hot" in given:
        data["multi_hot"] = list(given["multi_hot"])
    else:
        data["lookups_per_table"], data["num_tables"] = 1, len(data["num_embeddings"])
    train = {
        "global_batch_size": shape.batch_size,
        "eval_batch_size": shape.batch_size,
        "opt_name": shape.opt_name,
        "opt_base_learning_rate": 0.004,
    }
    return WorkloadSpec(
        model=parse_model(sections["model"]),
        data=parse_data(data),
        train=parse_train(train),
        runtime=parse_runtime(runtime),
        data_dir=Path(),
        seed=1,
    )


class Repeated:
    """A split whose few batches come over and over: an epoch that no measurement reaches the end of."""

    def __init__(self, split: Any, num_samples: int) -> None:
        self._split, self.num_samples = split, num_samples
        self.num_embeddings, self.multi_hot, self.num_dense = split.num_embeddings, split.multi_hot, split.num_dense

    def read(self, start: int, stop: int) -> Batch:
        first = start % self._split.num_samples
        return self._split.read(first, first + stop - start)

    def read_into(self, start: int, stop: int, batch: Batch) -> None:
        first = start % self._split.num_samples
        self._split.read_into(first, first + stop - start, batch)


def open_once(shape: Shape) -> OpenedDataset:
    """Make the shape's data, which several workloads then share: drawing ids takes seconds."""
    spec = make_spec(shape)
    opened = open_dataset(spec.data_dir, spec.data)
    opened.train.read(0, 1)
    return replace(opened, train=Repeated(opened.train, shape.batch_size * STEPS_PER_EPOCH))


@contextmanager
def on_data(opened: OpenedDataset) -> Iterator[None]:
    """Let workloads that are built meanwhile open `opened`."""
    before = loop.open_dataset
    loop.open_dataset = lambda *_: opened
    try:
        yield
    finally:
        loop.open_dataset = before


def build(shape: Shape, opened: OpenedDataset, implementation: str, **runtime: Any) -> Any:
    """Build the implementation for that shape on `opened`."""
    workload = find_implementation("dlrm", implementation).load(make_spec(shape, **runtime), SingleProcess())
    with on_data(opened):
        workload.build()
    return workload


def read_from_device(workload: Any, num_batches: int) -> None:
    """Let a workload train on batches that are on its device already, over and over."""
    data = workload.dataset().train
    size, device = workload.global_batch_size, workload.device
    batches = [data.read(number * size, (number + 1) * size) for number in range(num_batches)]
    # As its reader makes them: the graph's buffers hold ids of 32 bits where those suffice.
    ids = torch.int32 if device.type == "cuda" and max(data.num_embeddings) < 2**31 else torch.int64
    held = [Batch(each.dense.to(device), each.indices.to(device, ids), each.labels.to(device)) for each in batches]
    workload.read_batches = lambda split, name, starts, batch_size: islice(cycle(held), len(starts))
    workload._next_batch = -1

"""The two training jobs that peers are measured on, their batches, and the matrix products one step is made of."""

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch

from harness.system.software import WORKER_VARIABLES
from reference_models.config.sections import DataConfig, TrainConfig, parse_train
from reference_models.data.registry import parse_data
from reference_models.data.store.dataset import Batch
from reference_models.dlrm.config import DLRMConfig, parse_model
from reference_models.dlrm.costs import interaction_width

KAGGLE = [
    1460, 583, 10131227, 2202608, 305, 24, 12517, 633, 3, 93145, 5683, 8351593, 3194, 27, 14992, 5461306, 10, 5652,
    2173, 4, 7046547, 18, 15, 286181, 105, 142572,
]  # fmt: skip
CRITEO_MULTI_HOT = [
    40000000, 39060, 17295, 7424, 20265, 3, 7122, 1543, 63, 40000000, 3067956, 405282, 10, 2209, 11938, 155, 4, 976,
    14, 40000000, 40000000, 40000000, 590152, 12973, 108, 36,
]  # fmt: skip
HOT = [3, 2, 1, 2, 6, 1, 1, 1, 1, 7, 3, 8, 1, 6, 9, 5, 1, 1, 1, 12, 100, 27, 10, 3, 1, 1]
ZIPF_EXPONENT = 1.05
LEARNING_RATE = 1e-4
"""Keeps B's loss near its first value. At 0.01 it grows to hundreds and gradients become subnormal numbers, with
which an Intel CPU computes some steps ten times slower."""


@dataclass(frozen=True, slots=True)
class Job:
    """One configuration; ids follow a Zipf law, their ranks in random order."""

    title: str
    model: DLRMConfig
    data: DataConfig
    train: TrainConfig

    @property
    def num_embeddings(self) -> tuple[int, ...]:
        assert self.data.num_embeddings is not None
        return self.data.num_embeddings


def run_as_a_worker() -> None:
    """Start this command over, once, where its environment lacks what workers are given; all peers then have it."""
    if not WORKER_VARIABLES.keys() <= os.environ.keys():
        os.execve(sys.executable, [sys.executable, *sys.argv], {**WORKER_VARIABLES, **os.environ})


def make_job(name: str, opt_name: str) -> Job:
    """A: the DLRM paper's Kaggle configuration, tables capped at 100k. B: DCNv2, capped at 200k."""
    model: dict[str, Any]
    if name == "A":
        model = {
            "interaction": "dot",
            "embedding_dim": 16,
            "bottom_mlp": [512, 256, 64, 16],
            "top_mlp": [512, 256, 1],
        }
        rows, hot, batch_size = [min(n, 100_000) for n in KAGGLE], [1] * 26, 2048
        title = "A: DLRM paper, dim 16, 26 lookups"
    else:
        model = {
            "interaction": "dcn",
            "embedding_dim": 128,
            "bottom_mlp": [512, 256, 128],
            "top_mlp": [1024, 1024, 512, 256, 1],
            "dcn_num_layers": 3,
            "dcn_low_rank_dim": 512,
        }
        rows, hot, batch_size = [min(n, 200_000) for n in CRITEO_MULTI_HOT], HOT, 1024
        title = "B: DCNv2, dim 128, 214 lookups"
    data = {"kind": "mlperf_multi_hot", "name": name, "num_embeddings": rows, "multi_hot": hot}
    train = {"global_batch_size": batch_size, "opt_name": opt_name, "opt_base_learning_rate": LEARNING_RATE}
    if opt_name != "sgd":
        train["opt_adagrad_epsilon"] = 1e-8
    return Job(title, parse_model(model), parse_data(data), parse_train(train))


def make_batches(job: Job, num_batches: int) -> list[Batch]:
    rng = np.random.default_rng(0)
    size = job.train.global_batch_size * num_batches
    columns = []
    for rows, hot in zip(job.num_embeddings, job.data.multi_hot, strict=True):
        shares = np.cumsum(np.arange(1, rows + 1) ** -ZIPF_EXPONENT)
        ranks = np.searchsorted(shares, rng.random((size, hot)) * shares[-1])
        columns.append(rng.permutation(rows)[ranks.clip(max=rows - 1)])
    indices = torch.from_numpy(np.concatenate(columns, axis=1)).split(job.train.global_batch_size)
    dense = torch.from_numpy(rng.random((size, 13), dtype=np.float32)).split(job.train.global_batch_size)
    labels = torch.from_numpy((rng.random(size) < 0.25).astype(np.float32)).split(job.train.global_batch_size)
    return [Batch(*parts) for parts in zip(dense, indices, labels, strict=True)]


@dataclass(frozen=True, slots=True)
class Product:
    """[m, k] @ [k, n], `batch` of them at once."""

    m: int
    k: int
    n: int
    batch: int = 1

    @property
    def flop(self) -> int:
        return 2 * self.m * self.k * self.n * self.batch


def products_by_phase(job: Job) -> Iterator[tuple[str, Product]]:
    """Every matrix product of a training step, and the phase that it is in.

    Forward, and backward without the gradient of the dense input.
    """
    model, size = job.model, job.train.global_batch_size
    wide = interaction_width(model, job.data.num_sparse)
    num_features = 1 + job.data.num_sparse
    layers = [("bottom_mlp", pair) for pair in pairwise((job.data.num_dense, *model.bottom_mlp))]
    layers += [("top_mlp", pair) for pair in pairwise((wide, *model.top_mlp))]
    for _ in range(model.dcn_num_layers):
        layers += [("interaction", (wide, model.dcn_low_rank_dim)), ("interaction", (model.dcn_low_rank_dim, wide))]
    for i, (part, (num_in, num_out)) in enumerate(layers):
        yield f"{part}_forward", Product(size, num_in, num_out)
        yield f"{part}_backward", Product(num_in, size, num_out)
        if i:
            yield f"{part}_backward", Product(size, num_out, num_in)
    if model.interaction == "dot":
        yield "interaction_forward", Product(num_features, model.embedding_dim, num_features, size)
        yield "interaction_backward", Product(num_features, num_features, model.embedding_dim, size)


def step_products(job: Job) -> Iterator[Product]:
    """Every matrix product of a training step."""
    return (product for _, product in products_by_phase(job))

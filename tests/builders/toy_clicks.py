"""A toy dataset of clicks and specifications that train on it, for tests of implementations."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from reference_models.config.sections import parse_runtime, parse_train
from reference_models.data.registry import parse_data
from reference_models.data.store.layout import CLICKS
from reference_models.data.store.manifest import write_manifest
from reference_models.data.store.store import Chunk, SplitWriter
from reference_models.dlrm.config import parse_model
from reference_models.training.workload import WorkloadSpec

NUM_EMBEDDINGS, MULTI_HOT, NUM_DENSE, BATCH = (40, 3, 200), (1, 1, 2), 4, 128
TRAIN_SAMPLES, EVAL_SAMPLES = 50 * BATCH + 17, 3000
TABLE = {
    "kind": "click_log",
    "name": "toy",
    "train_samples": TRAIN_SAMPLES,
    "eval_samples": EVAL_SAMPLES,
    "num_dense": NUM_DENSE,
    "num_embeddings": list(NUM_EMBEDDINGS),
    "multi_hot": list(MULTI_HOT),
    "seed": 0,
}
MakeSpec = Callable[..., WorkloadSpec]
SMOOTH: dict[str, dict[str, Any]] = {
    "sgd": {"opt_name": "sgd"},
    "adagrad": {"opt_name": "adagrad", "opt_adagrad_initial_accumulator_value": 0.01},
    "rowwise_adagrad": {"opt_name": "rowwise_adagrad", "opt_adagrad_initial_accumulator_value": 0.01},
}
"""Sums that start above zero: else Adagrad's first steps are the gradient's sign alone, whatever it rounds to, and
where a gradient is none but for rounding, two implementations end a whole step apart."""


def write_dataset(folder: Path, *, damage: Callable[[np.ndarray, np.ndarray], None] | None = None) -> None:
    """Clicks that follow a logistic rule of one dense feature and two tables; `damage` may change train samples."""
    rng = np.random.default_rng(0)
    effects = [rng.normal(size=rows) for rows in NUM_EMBEDDINGS]
    for split, size in (("train", TRAIN_SAMPLES), ("eval", EVAL_SAMPLES)):
        dense = rng.normal(size=(size, NUM_DENSE)).astype(np.float32)
        columns = [rng.integers(0, rows, (size, hot)) for rows, hot in zip(NUM_EMBEDDINGS, MULTI_HOT, strict=True)]
        logits = dense[:, 0] + effects[0][columns[0][:, 0]] + effects[1][columns[1][:, 0]]
        labels = (rng.random(size) < 1 / (1 + np.exp(-logits))).astype(np.uint8)
        indices = np.concatenate(columns, axis=1).astype(np.int32)
        if damage is not None and split == "train":
            damage(indices, labels)
        writer = SplitWriter(folder, split, size, parse_data(TABLE))
        writer.write(0, Chunk(labels, dense, indices))
        writer.close()
    content = {
        "kind": "click_log",
        "name": "toy",
        "splits": {"train": TRAIN_SAMPLES, "eval": EVAL_SAMPLES},
        "num_dense": NUM_DENSE,
        "num_embeddings": list(NUM_EMBEDDINGS),
        "multi_hot": list(MULTI_HOT),
    }
    write_manifest(folder, CLICKS, content)


def spec_maker(data_dir: Path) -> MakeSpec:
    """Makes specifications of a small DLRM on the dataset in `data_dir`."""

    def make(
        *,
        seed: int = 1,
        train: dict[str, Any] | None = None,
        model: dict[str, Any] | None = None,
        runtime: dict[str, Any] | None = None,
        folder: Path = data_dir,
    ) -> WorkloadSpec:
        layers = {"interaction": "dot", "embedding_dim": 4, "bottom_mlp": [8, 4], "top_mlp": [16, 1]}
        base = {"global_batch_size": BATCH, "eval_batch_size": 1000, "opt_name": "adagrad"}
        return WorkloadSpec(
            model=parse_model(layers | (model or {})),
            data=parse_data(TABLE),
            train=parse_train(base | {"opt_base_learning_rate": 0.05} | (train or {})),
            runtime=parse_runtime({"threads": 1} | (runtime or {})),
            data_dir=folder,
            seed=seed,
        )

    return make


def flatten(value: Any) -> list[torch.Tensor]:
    """All tensors of a nested state, numbers as tensors, in order."""
    if isinstance(value, dict):
        return [tensor for key in sorted(value, key=str) for tensor in flatten(value[key])]
    if isinstance(value, list | tuple):
        return [tensor for item in value for tensor in flatten(item)]
    return [torch.as_tensor(value).clone()] if isinstance(value, int | float | torch.Tensor) else []


def is_same(first: list[torch.Tensor], second: list[torch.Tensor]) -> bool:
    return len(first) == len(second) and all(torch.equal(a, b) for a, b in zip(first, second, strict=True))

"""What the stack is for: on interactions of four features Wukong is ahead of DLRM's dot products at matched FLOP."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reference_models.config.sections import DataConfig, parse_runtime, parse_train
from reference_models.data.registry import generate_dataset, parse_data
from reference_models.process.world import SingleProcess
from reference_models.registry import find_implementation, find_model
from reference_models.training.workload import WorkloadSpec

SEEDS = (1, 2, 3, 4, 5)
MODELS: dict[str, dict[str, Any]] = {
    "wukong": {
        "embedding_dim": 16, "bottom_mlp": [32, 16], "top_mlp": [64, 1],
        "num_layers": 2, "num_fmb": 16, "num_lcb": 16, "rank": 16, "fmb_mlp": [64],
    },
    "dlrm": {
        "interaction": "dot", "init": "torchrec",
        "embedding_dim": 16, "bottom_mlp": [64, 16], "top_mlp": [1216, 64, 1],
    },
}  # fmt: skip
RATES = {"wukong": (0.02,), "dlrm": (0.01, 0.02, 0.05, 0.1)}
"""DLRM has the best of four for each seed."""
TRAIN_SAMPLES, BATCH_SIZE = 204_800, 256


def data_of(order: int) -> DataConfig:
    """Eight features in groups of `order`."""
    parameters = {
        "zipf_exponent": 0.75, "bias": -1.0, "effect_scale": 0.8, "interaction_scale": 3.0, "dense_scale": 0.3,
        "pairing": "matching", "interaction_order": order, "num_interactions": 8 // order,
        "interaction_rank": 1, "latent_mean": 0.75,
    }  # fmt: skip
    sizes = {"train_samples": TRAIN_SAMPLES, "eval_samples": 8192, "num_dense": 13, "num_embeddings": [3000] * 8}
    return parse_data({"kind": "click_log", "name": "x", "seed": 1, **sizes, "parameters": parameters})


def final_auc(name: str, data: DataConfig, folder: Path, rate: float, seed: int) -> float:
    train = {"global_batch_size": BATCH_SIZE, "eval_batch_size": 8192, "opt_name": "adagrad"}
    spec = WorkloadSpec(
        model=find_model(name).parse(MODELS[name]),
        data=data,
        train=parse_train({**train, "opt_base_learning_rate": rate}),
        runtime=parse_runtime({"threads": 1, "implementation": "optimized"}),
        data_dir=folder,
        seed=seed,
    )
    workload = find_implementation(name, "optimized").load(spec, SingleProcess())
    workload.build()
    workload.train(TRAIN_SAMPLES // BATCH_SIZE)
    return workload.evaluate()


def test_both_models_have_matched_flop() -> None:
    flop = [
        find_model(name).costs.model(find_model(name).parse(table), data_of(4)).training_flop_per_sample
        for name, table in MODELS.items()
    ]
    assert flop[1] / flop[0] == pytest.approx(1, abs=0.02)


def differences(order: int, folder: Path) -> np.ndarray[Any, Any]:
    """Wukong's AUC less DLRM's, per seed."""
    data = data_of(order)
    generate_dataset(folder, data)
    best = {
        name: [max(final_auc(name, data, folder, rate, seed) for rate in RATES[name]) for seed in SEEDS]
        for name in MODELS
    }
    return np.array(best["wukong"]) - np.array(best["dlrm"])


@pytest.mark.long
def test_on_interactions_of_order_four_wukong_is_ahead(tmp_path: Path) -> None:
    assert differences(4, tmp_path).mean() >= 0.01

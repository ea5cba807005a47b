"""A definition of few small images, whose quality is an accuracy."""

from copy import deepcopy
from typing import Any

from rules.benchmarks.loader import load_benchmark, read_toml


def small_tables() -> dict[str, Any]:
    tables = deepcopy(read_toml(load_benchmark("d2nn_small").path))
    tables["benchmark"]["name"] = "few_patterns"
    tables["model"]["grid"] = 16
    tables["data"] |= {
        "name": "few_patterns",
        "train_samples": 2560,
        "eval_samples": 64,
        "num_dense": 64,
        "num_embeddings": [4, 4],
    }
    tables["data"]["sha256"] = "ea15eb2d21ff3ca1c4eae9cdbe20006c983e25e60d2cf3d252346205ad1c0818"
    tables["closed"] |= {"train_samples": 2560, "eval_samples": 64, "global_batch_size": 32}
    tables["train"] |= {"global_batch_size": 32, "eval_batch_size": 32}
    return tables

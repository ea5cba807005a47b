"""What intermittent checkpoints of generated data weigh, held against the closed form of its Zipf ids."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from checkpointing import MemoryStore

from harness.config.run_config import Override
from harness.measure.kinds import find_kind
from harness.run_sets.dataset import ensure_dataset
from reference_models.config.checkpoint import CheckpointConfig
from reference_models.process.world import SingleProcess
from reference_models.training.checkpoints import Checkpoints, is_base_due, list_state

NUM = 20
"""Checkpoints of an epoch, one every 5 %."""


def predict(data: Any, row_bytes: int, sum_bytes: int, rest: int) -> tuple[float, float]:
    """Times fewer bytes written, and less to restore, than with all rows in 32 bits; of 4 bytes a value and sum.

    The expected rows touched after n samples are the sum of 1 - (1 - p)^n over rows of probability p.
    """
    total = sum(data.num_embeddings)
    weights = [np.arange(1, rows + 1) ** -data.parameters["zipf_exponent"] for rows in data.num_embeddings]
    every = data.train_samples // NUM
    full, base = total * sum_bytes + rest, total * row_bytes + rest
    written, most, shares = 0.0, 0.0, None
    for _ in range(NUM):
        if shares is None or is_base_due("intermittent", shares):
            shares, size = [], base
            most = max(most, base)
        else:
            after = (len(shares) + 1) * every
            share = sum(float((1 - (1 - each / each.sum()) ** after).sum()) for each in weights) / total
            shares = [*shares, share]
            size = share * total * row_bytes + total / 8 + rest
            most = max(most, base + size)
        written += size
    return NUM * full / written, full / most


@pytest.mark.parametrize(
    ("benchmark", "dim", "bits", "at_least"),
    [
        ("dlrm_tiny", 64, 4, (4.0, 1.0)),
        pytest.param("dlrm_small", 64, 4, (12.0, 4.0), marks=pytest.mark.long),
        pytest.param("dlrm_small", 64, 8, (7.0, 2.2), marks=pytest.mark.long),
    ],
)
def test_sizes_are_those_that_zipf_ids_predict(
    benchmark: str, dim: int, bits: int, at_least: tuple[float, float], data_root: Path
) -> None:
    """Which rows change is the data's matter: steps that learn nothing change as many."""
    given = {"model.embedding_dim": dim, "train.opt_name": "rowwise_adagrad", "runtime.threads": 1}
    overrides = [Override(key=key, value=value, source="test") for key, value in given.items()]
    config = find_kind("quality").resolve(benchmark, overrides, None).workload
    spec = config.spec(ensure_dataset(config.data, data_root, num_threads=1), seed=5)
    loop: Any = config.implementation.load(spec, SingleProcess())
    loop.checkpoints = made = Checkpoints(loop, CheckpointConfig(bits=bits), MemoryStore(bits), ())
    loop.build()
    loop.train_step = lambda *_: torch.zeros(())
    while loop.train(200).num_steps == 200:
        pass
    made.finish()
    _, others = list_state(loop)
    rest = sum(value.nbytes for name, value in others.items() if not name.startswith("state.embedding_bags."))
    row_bytes = {8: dim + 8, 4: dim // 2 + 4}[bits] + 4
    predicted = predict(config.data, row_bytes, 4 * dim + 4, rest)
    fewer = made.full_bytes * NUM / sum(each["num_bytes"] for each in made.taken)
    less = made.full_bytes / max(each["restore_bytes"] for each in made.taken)
    assert len(made.taken) == NUM and (fewer, less) == pytest.approx(predicted, rel=0.03)
    assert fewer >= at_least[0] and less >= at_least[1]

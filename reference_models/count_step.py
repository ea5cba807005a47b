"""Count what a training step of a model does where its author has not declared it: by doing one."""

import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from reference_models.config.sections import DataConfig, RuntimeConfig, parse_train
from reference_models.costs import PhaseCosts, Step, click_lookups
from reference_models.data.store.dataset import OpenedDataset
from reference_models.process.errors import ConfigError
from reference_models.process.world import SingleProcess
from reference_models.training.loop import WARM_UP_ROWS, TrainingLoop
from reference_models.training.phases import Phase
from reference_models.training.workload import WorkloadSpec


@dataclass(frozen=True, slots=True)
class _Shapes:
    """A split that has sizes and no samples."""

    num_dense: int
    num_embeddings: tuple[int, ...]
    multi_hot: tuple[int, ...]
    num_samples: int

    def read(self, start: int, stop: int) -> Any:
        raise AssertionError("counting reads no samples")

    def read_into(self, start: int, stop: int, batch: Any) -> None:
        raise AssertionError("counting reads no samples")


def count_step(load: Any, opt_name: str, model: Any, data: DataConfig, batch_size: int) -> Step:
    """Train one synthetic batch on the CPU, through tables of few rows, and count FLOP with torch's FlopCounterMode.

    `load` makes a `TrainingLoop`. FLOP are those of matrix products, forward and backward; of layers it counts their
    weights and no bytes, and its products have no shapes. Tables are `nn.EmbeddingBag` and `nn.Embedding`. Raises
    ConfigError for a workload that is no `TrainingLoop`.
    """
    counted = max(2, batch_size)  # since layers such as BatchNorm train on no single sample
    small = tuple(min(rows, WARM_UP_ROWS) for rows in data.num_embeddings or (WARM_UP_ROWS,) * data.num_sparse)
    train = {"global_batch_size": counted, "opt_name": opt_name, "opt_base_learning_rate": 0.01}
    spec = WorkloadSpec(
        model=model, data=data, train=parse_train(train), runtime=RuntimeConfig(), data_dir=Path(), seed=0
    )
    loop = load(spec, SingleProcess())
    if not isinstance(loop, TrainingLoop):
        raise ConfigError(f"{type(loop).__name__} is no TrainingLoop, so its ModelSpec has to say its costs.")
    shapes = _Shapes(data.num_dense, small, data.multi_hot, counted)
    loop.prepare_shapes(OpenedDataset(train=shapes, eval=shapes, dataset_sha256=None, files={}))
    with torch.random.fork_rng(devices=[]), redirect_stdout(sys.stderr):
        net, _ = loop.build_model(small)
        batch = loop.make_synthetic_batch(small, counted)
        with FlopCounterMode(display=False) as forward:
            logits = loop.compute_logits(net, batch)
        with FlopCounterMode(display=False) as backward:
            loss = nn.functional.binary_cross_entropy_with_logits(logits, batch.labels)
            loss.backward()  # type: ignore[no-untyped-call]
    table_weights = sum(
        _size(module) for module in net.modules() if isinstance(module, nn.EmbeddingBag | nn.Embedding)
    )
    return Step(
        layers=(),
        num_other_parameters=_size(net) - table_weights,
        beside={
            Phase.FORWARD: PhaseCosts(matmul_flop=forward.get_total_flops() * batch_size // counted),
            Phase.LOSS: PhaseCosts(matmul_flop=backward.get_total_flops() * batch_size // counted),
        },
        lookups=click_lookups(data, _width(table_weights, small), batch_size) if table_weights else None,
    )


def _size(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def _width(num_weights: int, rows: Sequence[int]) -> int:
    """Return the weights that a model holds for each id, in all of its tables."""
    return max(1, round(num_weights / sum(rows)))

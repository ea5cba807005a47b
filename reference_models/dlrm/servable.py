"""Serving of DLRM and DLRM-DCNv2: the forward pass only, in the precisions of `reference_models.serving`.

In fp32 every product, sum and interaction is the same call, on the same shapes, as in the reference implementation:
the logits of a batch are equal bit for bit. Only tables are read differently (see `serving.tables`), and nothing is
saved for a backward pass.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from reference_models.data.registry import open_dataset
from reference_models.data.store.dataset import Batch, ClickDataset, has_soft_labels
from reference_models.data.synthetic.config import has_signal
from reference_models.dlrm.config import DLRMConfig
from reference_models.dlrm.costs import served_bytes
from reference_models.dlrm.model import DLRM
from reference_models.dlrm.phases import DLRMPhase
from reference_models.fused.merged_embedding import split_tables
from reference_models.layers.interaction import LowRankCrossNet
from reference_models.serving.products import ServedLinear, make_linear
from reference_models.serving.queries import read_queries
from reference_models.serving.servable import (
    Weights,
    refuse_impossible_serving,
    refuse_other_weights,
    with_samples,
)
from reference_models.serving.tables import ServedTables
from reference_models.serving.weight_bytes import ServedBytes
from reference_models.training.devices import find_device
from reference_models.training.metrics import QualityMetrics, measure_quality
from reference_models.training.phases import Enter, ignore_phase
from reference_models.training.workload import WorkloadSpec

_WARM_UP_SIZES = (1, 64)
T = TypeVar("T")
Array = NDArray[np.generic]


class ServedDLRM:
    """DLRM that answers queries (batches to score), with the given `weights`, or with those that a run's seed
    draws."""

    def __init__(self, spec: WorkloadSpec, weights: Weights | None = None) -> None:
        """Build the DLRM and answer some queries to warm up.

        Raises ConfigError for a spec that cannot be served, or weights of another model.
        """
        refuse_impossible_serving(spec.runtime)
        self._spec, self._device = spec, find_device(spec.runtime.device)
        torch.set_float32_matmul_precision("high" if spec.runtime.precision == "tf32" else "highest")
        if spec.runtime.threads is not None:
            torch.set_num_threads(spec.runtime.threads)
        self._data = open_dataset(spec.data_dir, with_samples(spec).data)
        split, precision = self._data.eval, spec.runtime.precision
        with torch.inference_mode():
            model, tables = build_model(spec.model, split, spec.seed, weights)
            tables, model = tables.to(self._device), model.to(self._device)
            self._tables = ServedTables(tables, split.num_embeddings, split.multi_hot, spec.runtime.table_precision)
            self._bottom = make_mlp(model.bottom_mlp, precision)
            self._interact = make_interaction(model, precision)
            self._top = make_mlp(model.top_mlp, precision)
        # Cross layers add to their input, in float32.
        is_bf16 = precision == "bf16" and spec.model.interaction != "dcn"
        self._type = torch.bfloat16 if is_bf16 else torch.float32
        for size in _WARM_UP_SIZES:
            self.answer(Batch.synthetic(split, split.num_embeddings, size))

    @property
    def served_bytes(self) -> ServedBytes:
        runtime = self._spec.runtime
        return served_bytes(
            self._spec.model,
            self._spec.data.mapped,
            self._data.eval.num_embeddings,
            precision=runtime.precision,
            table_precision=runtime.table_precision,
        )

    def answer(self, batch: Batch) -> torch.Tensor:
        """Return the logits float32 [B] of a query (a batch) on the CPU, in memory that later calls do not
        overwrite."""
        return self.answer_in_phases(batch, ignore_phase)

    def answer_in_phases(self, batch: Batch, enter: Enter) -> torch.Tensor:
        """Return the logits of a query (a batch) as `answer` does; call `enter` with the name of each phase as it
        begins."""
        with torch.inference_mode():
            enter(DLRMPhase.BOTTOM_MLP_FORWARD)
            x = batch.dense.to(self._device)
            for layer in self._bottom:
                x = layer(x)
            enter(DLRMPhase.EMBEDDING_FORWARD)
            pooled = self._tables.read(batch.indices.to(self._device))
            enter(DLRMPhase.INTERACTION_FORWARD)
            features = torch.empty((len(x), 1 + len(pooled), x.shape[1]), dtype=self._type, device=self._device)
            features[:, 0] = x
            features[:, 1:] = pooled.transpose(0, 1)
            x = self._interact(features)
            enter(DLRMPhase.TOP_MLP_FORWARD)
            for layer in self._top:
                x = layer(x)
            return x.squeeze(1).float().cpu()

    def queries(self, sizes: Sequence[int]) -> list[Batch]:
        """Return a query (a batch) of each size, in order, from the evaluation split, which begins again at its
        end."""
        return read_queries(self._read, self._data.eval.num_samples, sizes)

    def quality(self) -> QualityMetrics | None:
        """Return the metrics of the whole evaluation split, as training computes them; None where labels are random,
        so that a model cannot learn them."""
        return self.evaluate_with(measure_quality) if has_signal(self._spec.data) else None

    def evaluate_with(self, metric: Callable[[Any, Any], T]) -> T:
        """Return what the function `metric` returns for the labels and logits of the whole evaluation split, answered
        in batches."""
        batches = list(self._answered())
        labels = np.concatenate([labels for labels, _ in batches])
        return metric(labels, np.concatenate([logits for _, logits in batches]))

    def _answered(self) -> Iterator[tuple[Array, Array]]:
        num_samples, size = self._data.eval.num_samples, self._spec.train.eval_batch_size
        for start in range(0, num_samples, size):
            batch = self._read(start, min(start + size, num_samples))
            labels = batch.labels.numpy()
            yield labels if has_soft_labels(self._data.eval) else labels != 0, self.answer(batch).numpy()

    def _read(self, start: int, stop: int) -> Batch:
        batch: Batch = self._data.eval.read(start, stop)
        batch.check(self._data.eval, f"{self._spec.data_dir}: eval sample", start)
        return batch


def build_model(
    config: DLRMConfig, split: ClickDataset, seed: int, weights: Weights | None
) -> tuple[DLRM, torch.Tensor]:
    """Return the reference implementation's DLRM, and the rows of all its tables as one tensor, float32
    [sum(rows), d].

    The model has the given `weights`; if they are None, initial weights drawn with `seed`. Raises ConfigError if the
    names or shapes of `weights` are not the model's. Torch's generators are restored afterwards.
    """
    tables = torch.empty(sum(split.num_embeddings), config.embedding_dim)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = DLRM(
            config,
            num_dense=split.num_dense,
            num_embeddings=split.num_embeddings,
            multi_hot=split.multi_hot,
            tables=split_tables(tables, split.num_embeddings),
        )
    if weights is not None:
        refuse_other_weights(weights, model.state_dict())
        model.load_state_dict(dict(weights))
    return model, tables


def make_mlp(mlp: nn.Sequential, precision: str) -> list[ServedLinear]:
    """Return the layers that serve an MLP made by `layers.build_mlp`, with matrix products in `precision`."""
    return [
        make_linear(module.weight, module.bias, precision, has_relu=isinstance(after, nn.ReLU))
        for module, after in pairwise([*mlp, None])
        if isinstance(module, nn.Linear)
    ]


def make_interaction(model: DLRM, precision: str) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return DLRM's interaction for serving in `precision`.

    Cross layers compute their matrix products in `precision`. Dot products of pairs of vectors are computed in the
    vectors' type: bf16 if `precision` is bf16, float32 if it is int8. All else is as in the reference implementation.
    """
    interaction = model.interaction
    if not isinstance(interaction, LowRankCrossNet):
        forward: Callable[[torch.Tensor], torch.Tensor] = interaction.forward
        return forward
    layers = [
        (make_linear(v, None, precision), make_linear(w, bias, precision))
        for w, v, bias in zip(interaction.w, interaction.v, interaction.bias, strict=True)
    ]

    def cross(features: torch.Tensor) -> torch.Tensor:
        x_0 = x_l = features.flatten(1)
        for low, wide in layers:
            x_l = x_0 * wide(low(x_l)) + x_l
        return x_l

    return cross

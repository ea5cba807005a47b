"""Parameters, lookups, FLOP and memory of a DLRM, from its configuration alone (no torch).

FLOP counts matrix products, two per multiply-add, as MLPerf and torch's FlopCounterMode do; embedding sums,
biases and activations are not in it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from reference_models.config.sections import DataConfig, TrainConfig
from reference_models.dlrm.config import DLRMConfig
from reference_models.process.errors import ConfigError

_FLOAT_BYTES = 4
_ID_BYTES = 8
_AUC_BYTES_PER_SAMPLE = 64
"""Score, label, key and the counts per group of ties when every score is its own group."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelCounts:
    """What one model holds, and does per sample."""

    num_embedding_rows: int
    num_embedding_parameters: int
    num_dense_parameters: int
    num_lookups_per_sample: int
    embedding_bytes_per_sample: int
    """fp32 bytes of the rows that one forward pass reads."""
    forward_flop_per_sample: int
    training_flop_per_sample: int
    """Forward and backward; the gradient of the dense input is not computed."""

    @property
    def num_parameters(self) -> int:
        return self.num_embedding_parameters + self.num_dense_parameters

    @property
    def embedding_bytes(self) -> int:
        """Bytes of all tables in fp32."""
        return self.num_embedding_parameters * _FLOAT_BYTES


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryEstimate:
    """Bytes that training in fp32 holds at its peak, beside the process itself (Python and torch)."""

    weights_bytes: int
    optimizer_bytes: int
    gradients_bytes: int
    activations_bytes: int
    evaluation_bytes: int
    """One evaluation batch, and the scores of the whole split with what their AUC takes."""

    @property
    def total_bytes(self) -> int:
        step_bytes = self.gradients_bytes + self.activations_bytes
        return self.weights_bytes + self.optimizer_bytes + max(step_bytes, self.evaluation_bytes)


def count_model(model: DLRMConfig, data: DataConfig, num_embeddings: Sequence[int] | None = None) -> ModelCounts:
    """Counts of `model` on `data`; `num_embeddings` stands in where only the prepared dataset knows it.

    Raises ConfigError when neither gives the tables' sizes.
    """
    rows = sum(_table_sizes(data, num_embeddings))
    mac = _macs_per_sample(model, data)
    return ModelCounts(
        num_embedding_rows=rows,
        num_embedding_parameters=rows * model.embedding_dim,
        num_dense_parameters=_num_dense_parameters(model, data),
        num_lookups_per_sample=data.num_lookups,
        embedding_bytes_per_sample=data.num_lookups * model.embedding_dim * _FLOAT_BYTES,
        forward_flop_per_sample=2 * mac,
        training_flop_per_sample=2 * (3 * mac - data.num_dense * model.bottom_mlp[0]),
    )


def estimate_memory(
    model: DLRMConfig, data: DataConfig, train: TrainConfig, *, eval_samples: int,
    num_embeddings: Sequence[int] | None = None,
) -> MemoryEstimate:  # fmt: skip
    """Peak memory of the reference: fp32, sparse gradients, one process."""
    counts = count_model(model, data, num_embeddings)
    states = {
        "sgd": 0,
        "adagrad": counts.num_parameters,
        "rowwise_adagrad": counts.num_embedding_rows + counts.num_dense_parameters,
    }
    gradient_row_bytes = model.embedding_dim * _FLOAT_BYTES + _ID_BYTES
    # All tables' gradients wait for the optimizer, which works on copies of one table's at a time.
    gradient_rows = data.num_lookups + 3 * max(data.multi_hot)
    input_bytes = data.num_dense * _FLOAT_BYTES + data.num_lookups * _ID_BYTES
    saved, widest = _activations_per_sample(model, data)
    eval_batch_size = min(train.eval_batch_size, eval_samples)
    return MemoryEstimate(
        weights_bytes=counts.num_parameters * _FLOAT_BYTES,
        optimizer_bytes=states[train.opt_name] * _FLOAT_BYTES,
        gradients_bytes=counts.num_dense_parameters * _FLOAT_BYTES
        + train.global_batch_size * gradient_rows * gradient_row_bytes,
        activations_bytes=train.global_batch_size * (input_bytes + (saved + 2 * widest) * _FLOAT_BYTES),
        evaluation_bytes=eval_batch_size * (input_bytes + 3 * widest * _FLOAT_BYTES)
        + eval_samples * _AUC_BYTES_PER_SAMPLE,
    )


def interaction_width(model: DLRMConfig, num_sparse: int) -> int:
    """Width of what enters the top MLP."""
    num_features = 1 + num_sparse
    if model.interaction == "dot":
        return model.embedding_dim + num_features * (num_features - 1) // 2
    return num_features * model.embedding_dim


def _table_sizes(data: DataConfig, num_embeddings: Sequence[int] | None) -> Sequence[int]:
    sizes = data.num_embeddings if num_embeddings is None else num_embeddings
    if sizes is None:
        raise ConfigError(
            f"data {data.name!r}: the sizes of its tables are known once it is prepared. "
            "Prepare it with 'dlrmbench data prepare', or name it with --data."
        )
    return sizes


def _mlps(model: DLRMConfig, data: DataConfig) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Widths of both MLPs with their inputs."""
    return (data.num_dense, *model.bottom_mlp), (interaction_width(model, data.num_sparse), *model.top_mlp)


def _num_dense_parameters(model: DLRMConfig, data: DataConfig) -> int:
    linears = sum((n + 1) * m for widths in _mlps(model, data) for n, m in pairwise(widths))
    if model.interaction != "dcn":
        return linears
    wide = interaction_width(model, data.num_sparse)
    return linears + model.dcn_num_layers * wide * (2 * model.dcn_low_rank_dim + 1)


def _macs_per_sample(model: DLRMConfig, data: DataConfig) -> int:
    """Multiply-adds of the forward pass; the dot interaction computes all F x F products."""
    linears = sum(n * m for widths in _mlps(model, data) for n, m in pairwise(widths))
    if model.interaction == "dot":
        return linears + (1 + data.num_sparse) ** 2 * model.embedding_dim
    wide = interaction_width(model, data.num_sparse)
    return linears + 2 * model.dcn_num_layers * wide * model.dcn_low_rank_dim


def _activations_per_sample(model: DLRMConfig, data: DataConfig) -> tuple[int, int]:
    """Floats kept for the backward pass, and the widest single tensor."""
    bottom, top = _mlps(model, data)
    features = (1 + data.num_sparse) * model.embedding_dim
    products = (1 + data.num_sparse) ** 2 if model.interaction == "dot" else 0
    # A cross layer keeps its input, its low-rank product and what it multiplies with x_0.
    cross = model.dcn_num_layers * (2 * features + model.dcn_low_rank_dim)
    saved = sum(bottom[1:]) + features + cross + (top[0] if model.interaction == "dot" else 0) + sum(top[1:])
    return saved, max(*bottom, *top, features, products)

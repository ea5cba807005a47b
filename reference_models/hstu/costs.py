"""Costs of an HSTU, computed from its configuration without torch: see `reference_models.costs`.

Costs are of full sequences: histories of the greatest length, each followed by all candidates of a time window. As in
the reference implementation, and as torch's FLOP counter counts, attention multiplies all pairs of positions of a
padded sequence, masked pairs included. Costs per sample are costs per candidate.
"""

from collections.abc import Sequence

from reference_models.config.sections import DataConfig, TrainConfig
from reference_models.costs import (
    AUC_BYTES_PER_SAMPLE,
    FLOAT_BYTES,
    ID_BYTES,
    Linear,
    Lookups,
    MemoryEstimate,
    PhaseCosts,
    Product,
    Step,
    count_model,
    mlp,
)
from reference_models.data.click_sequence.teacher import ARTIST, ITEM
from reference_models.hstu.config import NUM_ACTIONS, HSTUConfig, sequence_shape
from reference_models.hstu.phases import HSTUPhase

_LAYERS = (HSTUPhase.LAYERS_FORWARD, HSTUPhase.LAYERS_BACKWARD)
_HEAD = (HSTUPhase.HEAD_FORWARD, HSTUPhase.HEAD_BACKWARD)
_TOKEN_IDS = 4
"""Number of ids of a token (event of a sequence): item, artist, action and age."""
_TABLES = (ITEM, ARTIST)
"""Columns of a sequence log's ids that are looked up in embedding tables: item and artist."""


def declare_step(model: HSTUConfig, data: DataConfig, batch_size: int) -> Step:
    """Declare what a training step of HSTU on full sequences computes (layers, lookups, other work); its costs are
    computed from this.

    If the batch size is no multiple of a full sequence's candidates, the last sequence holds fewer. A layer's work
    outside matrix products reads and writes tokens, gates, queries, keys, values and attention scores.
    """
    shape = sequence_shape(model, data)
    num_sequences = -(-batch_size // shape.num_candidates)
    length, heads, width, dim = shape.length, model.num_heads, model.attention_dim, model.embedding_dim
    num_padded, num, inner = num_sequences * length, num_sequences * heads, heads * width
    layers: list[Linear | Product] = []
    for layer in range(model.num_layers):
        name = f"layers.{layer}"
        layers += [
            Linear(_LAYERS, f"{name}.uvqk", num_padded, dim, 4 * inner),
            Product(_LAYERS, f"{name}.qk", length, width, length, num=num),
            Product(_LAYERS, f"{name}.av", length, length, width, num=num),
            Linear(_LAYERS, f"{name}.output", num_padded, 3 * inner, dim, has_bias=False),
        ]
    for part, widths in (("item_mlp", (dim, model.item_mlp, dim)), ("head", (dim, model.head_mlp, 1))):
        layers += mlp(part, widths, batch_size, phases=_HEAD)
    tokens = num_sequences * shape.num_past + batch_size
    moved = 2 * model.num_layers * FLOAT_BYTES * (tokens * (2 * dim + 7 * inner) + num * length**2)
    num_lookups = len(_TABLES) * tokens
    return Step(
        layers=layers,
        num_other_parameters=(NUM_ACTIONS + model.max_sequence_length) * dim + _num_norm_parameters(model),
        beside={_LAYERS[0]: PhaseCosts(bytes=moved), _LAYERS[1]: PhaseCosts(bytes=2 * moved)},
        lookups=Lookups(
            tables=_TABLES,
            dim=dim,
            num=num_lookups,
            num_sums=tokens,
            num_added=(len(_TABLES) - 1) * tokens,
            gradient_bytes=num_lookups * dim * FLOAT_BYTES,
        ),
        input_bytes=tokens * _TOKEN_IDS * ID_BYTES + batch_size * FLOAT_BYTES,
    )


def _num_norm_parameters(model: HSTUConfig) -> int:
    """Return the number of weights of HSTU's norms: two norms of each layer, one of the layers' output, and the
    MLPs'."""
    dim, inner = model.embedding_dim, model.num_heads * model.attention_dim
    return 2 * (model.num_layers * (dim + inner) + dim + model.item_mlp + dim + model.head_mlp)


def estimate_memory(
    model: HSTUConfig,
    data: DataConfig,
    train: TrainConfig,
    *,
    eval_samples: int,
    num_embeddings: Sequence[int] | None = None,
) -> MemoryEstimate:
    """Estimate the peak memory of training HSTU by the reference implementation: in fp32, with padded sequences and
    the events of both dataset splits in memory."""
    shape = sequence_shape(model, data)
    costs = count_model(declare_step(model, data, 1), data, num_embeddings)
    inner, dim = model.num_heads * model.attention_dim, model.embedding_dim
    per_token = model.num_layers * (4 * dim + 12 * inner) + 4 * dim
    scores = 4 * model.num_heads * shape.length**2

    def sequences(num_samples: int) -> int:
        return -(-num_samples // shape.num_candidates)

    per_row = 2 * 6 * ID_BYTES  # item, artist, user, time, window, place in the order by user; and temporary arrays
    log_bytes = ((data.train_samples or 0) * 2 + eval_samples) * per_row
    eval_batch = sequences(min(train.eval_batch_size, eval_samples))
    lookups = len(_TABLES) * sequences(train.global_batch_size) * shape.length
    return MemoryEstimate(
        weights_bytes=costs.num_parameters * FLOAT_BYTES,
        optimizer_bytes=(costs.num_embedding_rows + 2 * costs.num_dense_parameters) * FLOAT_BYTES + log_bytes,
        gradients_bytes=costs.num_dense_parameters * FLOAT_BYTES + 3 * lookups * (dim * FLOAT_BYTES + ID_BYTES),
        activations_bytes=FLOAT_BYTES
        * sequences(train.global_batch_size)
        * (shape.length * per_token + model.num_layers * scores),
        evaluation_bytes=FLOAT_BYTES * eval_batch * (shape.length * (4 * dim + 12 * inner) + scores)
        + eval_samples * AUC_BYTES_PER_SAMPLE,
    )

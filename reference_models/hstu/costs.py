"""What an HSTU holds and does, from its configuration alone (no torch): see `reference_models.costs`.

Of full sequences: every history as long as it may be, every window's candidates together. The layers' products are
those of the reference, over all pairs of a padded sequence, whatever the mask leaves of them; that is what torch's
counter counts. Per sample is per candidate.
"""

from collections.abc import Collection, Sequence
from itertools import pairwise

from reference_models.config.sections import DataConfig, TrainConfig
from reference_models.costs import (
    AUC_BYTES_PER_SAMPLE,
    FLOAT_BYTES,
    ID_BYTES,
    OPTIMIZER_FLOP,
    Matmul,
    MemoryEstimate,
    ModelCosts,
    PhaseCosts,
    linear_matmuls,
    loop_costs,
    table_sizes,
)
from reference_models.data.click_sequence.teacher import ARTIST, ITEM
from reference_models.hstu.config import NUM_ACTIONS, HSTUConfig, SequenceShape, sequence_shape
from reference_models.hstu.phases import Phase

_LAYERS = (Phase.LAYERS_FORWARD, Phase.LAYERS_BACKWARD)
_HEAD = (Phase.HEAD_FORWARD, Phase.HEAD_BACKWARD)
_TOKEN_IDS = 4
"""Item, artist, action and age."""
_TABLES = (ITEM, ARTIST)
"""Columns whose ids name rows of a table."""


def model_costs(model: HSTUConfig, data: DataConfig, num_embeddings: Sequence[int] | None = None) -> ModelCosts:
    """Count those of `model` on `data`. Raises ConfigError when nobody knows how many items there are."""
    shape, sizes = sequence_shape(model, data), table_sizes(data, num_embeddings)
    rows = sum(sizes[column] for column in _TABLES)
    matmuls = list_matmuls(model, data, shape.num_candidates)
    lookups = -(-len(_TABLES) * shape.length // shape.num_candidates)
    return ModelCosts(
        num_embedding_rows=rows,
        num_embedding_parameters=rows * model.embedding_dim,
        num_dense_parameters=_num_dense_parameters(model),
        num_lookups_per_sample=lookups,
        embedding_bytes_per_sample=lookups * model.embedding_dim * FLOAT_BYTES,
        forward_flop_per_sample=_per_sample(matmuls, shape, {_LAYERS[0], _HEAD[0]}),
        training_flop_per_sample=_per_sample(matmuls, shape, {*_LAYERS, *_HEAD}),
    )


def _per_sample(matmuls: Sequence[Matmul], shape: SequenceShape, phases: Collection[str]) -> int:
    return sum(matmul.flop for matmul in matmuls if matmul.phase in phases) // shape.num_candidates


def list_matmuls(model: HSTUConfig, data: DataConfig, batch_size: int) -> tuple[Matmul, ...]:
    """List every matrix product of one training step on full sequences; the last one may hold fewer candidates."""
    shape = sequence_shape(model, data)
    num_sequences = -(-batch_size // shape.num_candidates)
    length, heads, width, dim = shape.length, model.num_heads, model.attention_dim, model.embedding_dim
    tokens, num, inner = num_sequences * length, num_sequences * heads, heads * width
    made: list[Matmul] = []
    for layer in range(model.num_layers):
        name = f"layers.{layer}"
        made += linear_matmuls(f"{name}.uvqk", _LAYERS, tokens, dim, 4 * inner, needs_input_gradient=True)
        for product, k, n in (("qk", width, length), ("av", length, width)):
            made.append(Matmul(_LAYERS[0], f"{name}.{product}", length, k, n, num=num))
            made.append(Matmul(_LAYERS[1], f"{name}.{product}", length, n, k, num=num))
            made.append(Matmul(_LAYERS[1], f"{name}.{product}", k, length, n, num=num))
        made += linear_matmuls(f"{name}.output", _LAYERS, tokens, 3 * inner, dim, needs_input_gradient=True)
    for part, widths in (("item_mlp", (dim, model.item_mlp, dim)), ("head", (dim, model.head_mlp, 1))):
        for index, (n, m) in enumerate(pairwise(widths)):
            made += linear_matmuls(f"{part}.{index}", _HEAD, batch_size, n, m, needs_input_gradient=True)
    return tuple(made)


def _num_dense_parameters(model: HSTUConfig) -> int:
    dim, inner = model.embedding_dim, model.num_heads * model.attention_dim
    layer = 2 * dim + (dim + 1) * 4 * inner + 2 * inner + 3 * inner * dim
    tables = (NUM_ACTIONS + model.max_sequence_length) * dim
    item_mlp = (dim + 1) * model.item_mlp + 2 * model.item_mlp + (model.item_mlp + 1) * dim + 2 * dim
    head = (dim + 1) * model.head_mlp + 2 * model.head_mlp + model.head_mlp + 1
    return tables + model.num_layers * layer + 2 * dim + item_mlp + head


def phase_costs(
    model: HSTUConfig, data: DataConfig, *, batch_size: int, opt_name: str, unique_rows: int,
    entered: Collection[str] = tuple(Phase),
) -> dict[str, PhaseCosts]:  # fmt: skip
    """Count those of every phase of a step on full sequences. `unique_rows`: rows that the step's ids name.

    Beside its products a layer reads and writes its tokens, gates, queries, keys and values, and its scores.
    """
    shape, d = sequence_shape(model, data), model.embedding_dim
    num_sequences = -(-batch_size // shape.num_candidates)
    tokens = num_sequences * shape.num_past + batch_size
    costs: dict[str, PhaseCosts] = {phase: PhaseCosts() for phase in Phase}
    for matmul in list_matmuls(model, data, batch_size):
        costs[matmul.phase] += PhaseCosts(matmul_flop=matmul.flop, bytes=matmul.bytes)
    moved = (
        2
        * model.num_layers
        * FLOAT_BYTES
        * (
            tokens * (2 * d + 7 * model.num_heads * model.attention_dim)
            + num_sequences * model.num_heads * shape.length**2
        )
    )
    costs[Phase.LAYERS_FORWARD] += PhaseCosts(bytes=moved)
    costs[Phase.LAYERS_BACKWARD] += PhaseCosts(bytes=2 * moved)
    lookups = len(_TABLES) * tokens
    read = lookups * (d * FLOAT_BYTES + ID_BYTES)
    costs |= loop_costs(
        data, batch_size=batch_size, opt_name=opt_name, num_dense_parameters=_num_dense_parameters(model)
    )
    costs[Phase.DATA] = PhaseCosts(bytes=2 * (tokens * _TOKEN_IDS * ID_BYTES + batch_size * FLOAT_BYTES))
    costs[Phase.EMBEDDING_FORWARD] = PhaseCosts(
        elementwise_flop=(len(_TABLES) - 1) * tokens * d, bytes=read + tokens * d * FLOAT_BYTES, rows=lookups
    )
    costs[Phase.EMBEDDING_BACKWARD] = PhaseCosts(
        elementwise_flop=max(0, lookups - unique_rows) * d, bytes=(lookups + unique_rows) * d * FLOAT_BYTES
    )
    costs[Phase.SPARSE_OPTIMIZER] = PhaseCosts(
        elementwise_flop=OPTIMIZER_FLOP["rowwise_adagrad"] * unique_rows * d,
        bytes=unique_rows * (3 * d + 2) * FLOAT_BYTES,
        rows=2 * unique_rows,
    )
    return {phase: made for phase, made in costs.items() if made != PhaseCosts()}


def estimate_memory(
    model: HSTUConfig, data: DataConfig, train: TrainConfig, *, eval_samples: int,
    num_embeddings: Sequence[int] | None = None,
) -> MemoryEstimate:  # fmt: skip
    """Estimate the peak memory of the reference: fp32, padded sequences, both splits' rows in memory."""
    costs, shape = model_costs(model, data, num_embeddings), sequence_shape(model, data)
    inner, dim = model.num_heads * model.attention_dim, model.embedding_dim
    per_token = model.num_layers * (4 * dim + 12 * inner) + 4 * dim
    scores = 4 * model.num_heads * shape.length**2

    def sequences(num_samples: int) -> int:
        return -(-num_samples // shape.num_candidates)

    per_row = 2 * 6 * ID_BYTES  # item, artist, user, time, window, place in the order by user; and what makes them
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

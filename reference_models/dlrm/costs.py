"""What a DLRM holds and does, from its configuration alone (no torch): see `reference_models.costs`."""

from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise

from reference_models.config.sections import DataConfig, TrainConfig
from reference_models.costs import (
    FLOAT_BYTES,
    ID_BYTES,
    OPTIMIZER_FLOP,
    Matmul,
    MemoryEstimate,
    ModelCosts,
    PhaseCosts,
    estimate_click_memory,
    linear_matmuls,
    loop_costs,
    mlp_matmuls,
    table_sizes,
)
from reference_models.dlrm.config import DLRMConfig
from reference_models.dlrm.phases import Phase
from reference_models.serving.weight_bytes import ServedBytes, is_kept, linear_bytes, row_bytes

HALF_BYTES = 2


def model_costs(model: DLRMConfig, data: DataConfig, num_embeddings: Sequence[int] | None = None) -> ModelCosts:
    """Count those of `model` on `data`; `num_embeddings` where only the prepared dataset knows it.

    Raises ConfigError when neither gives the tables' sizes.
    """
    rows = sum(table_sizes(data, num_embeddings))
    matmuls = list_matmuls(model, data, 1)
    return ModelCosts(
        num_embedding_rows=rows,
        num_embedding_parameters=rows * model.embedding_dim,
        num_dense_parameters=_num_dense_parameters(model, data),
        num_lookups_per_sample=data.num_lookups,
        embedding_bytes_per_sample=data.num_lookups * model.embedding_dim * FLOAT_BYTES,
        forward_flop_per_sample=sum(matmul.flop for matmul in matmuls if matmul.phase.endswith("_forward")),
        training_flop_per_sample=sum(matmul.flop for matmul in matmuls),
    )


def served_bytes(
    model: DLRMConfig, data: DataConfig, num_embeddings: Sequence[int] | None = None, *,
    precision: str, table_precision: str,
) -> ServedBytes:  # fmt: skip
    """Count the bytes of the weights that answer queries; `num_embeddings` where only the prepared data knows it."""
    layers = [pair for widths in _mlps(model, data) for pair in pairwise(widths)]
    dense = sum(linear_bytes(n, m, precision) for n, m in layers)
    if model.interaction == "dcn":
        wide, low = interaction_width(model, data.num_sparse), model.dcn_low_rank_dim
        cross = linear_bytes(wide, low, precision, has_bias=False) + linear_bytes(low, wide, precision)
        dense += model.dcn_num_layers * cross
    rows = sum(table_sizes(data, num_embeddings))
    return ServedBytes(table_bytes=rows * row_bytes(model.embedding_dim, table_precision), dense_bytes=dense)


def forward_costs(
    model: DLRMConfig, data: DataConfig, *, batch_size: int, precision: str, table_precision: str
) -> dict[str, PhaseCosts]:  # fmt: skip
    """Count those of answering one batch, by the phases of the forward pass, in the precisions that are served.

    A product reads weights and inputs in its precision and writes float32, or bf16; a sum of rows reads rows as they
    are kept, and ids.
    """
    bottom, top = _mlps(model, data)
    d, vectors = model.embedding_dim, (1 + data.num_sparse) * model.embedding_dim
    lookups = batch_size * data.num_lookups
    item = HALF_BYTES if precision == "bf16" and model.interaction != "dcn" else FLOAT_BYTES
    read, written = vectors, interaction_width(model, data.num_sparse)
    flop = elementwise = num_bytes = 0
    if model.interaction == "dot":
        flop = 2 * batch_size * (1 + data.num_sparse) * vectors
    for _ in range(model.dcn_num_layers if model.interaction == "dcn" else 0):
        low = model.dcn_low_rank_dim
        cross = _linear_costs(batch_size, vectors, low, precision, has_bias=False)
        cross += _linear_costs(batch_size, low, vectors, precision)
        flop, num_bytes = flop + cross.matmul_flop, num_bytes + cross.bytes
        elementwise += 2 * batch_size * vectors
    return {
        Phase.BOTTOM_MLP_FORWARD: _mlp_costs(batch_size, bottom, precision),
        Phase.EMBEDDING_FORWARD: PhaseCosts(
            elementwise_flop=lookups * d,
            bytes=lookups * (row_bytes(d, table_precision) + ID_BYTES)
            + batch_size * data.num_sparse * d * (HALF_BYTES if table_precision == "fp16" else FLOAT_BYTES),
            rows=lookups,
        ),
        Phase.INTERACTION_FORWARD: PhaseCosts(
            matmul_flop=flop, elementwise_flop=elementwise, bytes=num_bytes + item * batch_size * (read + written)
        ),
        Phase.TOP_MLP_FORWARD: _mlp_costs(batch_size, top, precision),
    }


def _mlp_costs(batch_size: int, widths: Sequence[int], precision: str) -> PhaseCosts:
    return sum((_linear_costs(batch_size, n, m, precision) for n, m in pairwise(widths)), PhaseCosts())


def _linear_costs(batch_size: int, n: int, m: int, precision: str, *, has_bias: bool = True) -> PhaseCosts:
    read, written = {"bf16": (HALF_BYTES, HALF_BYTES), "int8": (1, FLOAT_BYTES)}.get(precision, (FLOAT_BYTES,) * 2)
    if is_kept(n, m, precision):
        read = written = FLOAT_BYTES
    moved = batch_size * (n * read + m * written) + linear_bytes(n, m, precision, has_bias=has_bias)
    return PhaseCosts(matmul_flop=2 * batch_size * n * m, bytes=moved)


def estimate_memory(
    model: DLRMConfig, data: DataConfig, train: TrainConfig, *, eval_samples: int,
    num_embeddings: Sequence[int] | None = None,
) -> MemoryEstimate:  # fmt: skip
    """Estimate the peak memory of the reference: fp32, sparse gradients, one process."""
    costs = model_costs(model, data, num_embeddings)
    saved, widest = _activations_per_sample(model, data)
    return estimate_click_memory(costs, data, train, eval_samples=eval_samples, saved=saved, widest=widest)


def graph_step_bytes(model: DLRMConfig, data: DataConfig, train: TrainConfig) -> int:
    """Estimate what the optimized step takes on a GPU, fp32, beside weights and optimizer state, by Triton's kernels.

    Most is there when the interaction is differentiated: what its forward pass kept, and the gradients of its input
    and output; or, with many lookups, when the tables are updated. Within a tenth of what fake tensors count.
    """
    lookups, features = data.num_lookups, (1 + data.num_sparse) * model.embedding_dim
    bottom, top = _mlps(model, data)
    if model.interaction == "dcn":
        between = 2 * (model.dcn_num_layers + 1) * features + (model.dcn_num_layers + 1) * model.dcn_low_rank_dim
    elif model.interaction == "dot":
        # Two squares of products, pairs, the output and its gradient, features and their gradient.
        between = 2 * (1 + data.num_sparse) ** 2 + 3 * top[0] + 2 * features
    else:
        between = 3 * features
    differentiating = sum(bottom[1:]) + between + 2 * top[1]
    updating = features + 4 * lookups  # a key, a place of 8 bytes, a share of the pieces
    kept = 2 * (data.num_dense + 1 + lookups) + lookups  # two batches, and the rows of one
    step = train.global_batch_size * (max(differentiating, updating) + kept)
    return FLOAT_BYTES * (step + _num_dense_parameters(model, data))


def interaction_width(model: DLRMConfig, num_sparse: int) -> int:
    """Return the width of what enters the top MLP."""
    num_features = 1 + num_sparse
    if model.interaction == "dot":
        return model.embedding_dim + num_features * (num_features - 1) // 2
    return num_features * model.embedding_dim


def list_matmuls(model: DLRMConfig, data: DataConfig, batch_size: int) -> tuple[Matmul, ...]:
    """List every matrix product of one training step; the first layer's input needs no gradient.

    The dot interaction computes all F x F products.
    """
    bottom_widths, top_widths = _mlps(model, data)
    made = mlp_matmuls("bottom_mlp", bottom_widths, batch_size, needs_input_gradient=False)
    if model.interaction == "dot":
        f, d = 1 + data.num_sparse, model.embedding_dim
        made.append(Matmul(Phase.INTERACTION_FORWARD, "dot", f, d, f, num=batch_size, is_of_one_tensor=True))
        # x x' is differentiated by both of its factors.
        backward = Matmul(Phase.INTERACTION_BACKWARD, "dot", f, f, d, num=batch_size, is_of_one_tensor=True)
        made += [backward, backward]
    for layer in range(model.dcn_num_layers if model.interaction == "dcn" else 0):
        wide, low = top_widths[0], model.dcn_low_rank_dim
        phases = (Phase.INTERACTION_FORWARD, Phase.INTERACTION_BACKWARD)
        made += linear_matmuls(f"cross.{layer}.v", phases, batch_size, wide, low, needs_input_gradient=True)
        made += linear_matmuls(f"cross.{layer}.w", phases, batch_size, low, wide, needs_input_gradient=True)
    return (*made, *mlp_matmuls("top_mlp", top_widths, batch_size, needs_input_gradient=True))


def phase_costs(
    model: DLRMConfig, data: DataConfig, *, batch_size: int, opt_name: str, unique_rows: int,
    entered: Collection[str] = tuple(Phase),
) -> dict[str, PhaseCosts]:  # fmt: skip
    """Count those of every phase of a step that has something to do. `unique_rows`: rows that the step's ids name.

    An implementation that has not `entered` EMBEDDING_BACKWARD sums the gradients of equal rows and applies them in
    one phase, the sparse optimizer's.
    """
    costs: dict[str, PhaseCosts] = {phase: PhaseCosts() for phase in Phase}
    for matmul in list_matmuls(model, data, batch_size):
        costs[matmul.phase] += PhaseCosts(matmul_flop=matmul.flop, bytes=matmul.bytes)
    vectors = (1 + data.num_sparse) * model.embedding_dim
    for phase, floats in _interaction_floats(model, vectors, interaction_width(model, data.num_sparse)).items():
        costs[phase] += PhaseCosts(bytes=FLOAT_BYTES * batch_size * floats)
    costs |= embedding_costs(model.embedding_dim, data, batch_size, opt_name, unique_rows)
    costs |= loop_costs(
        data, batch_size=batch_size, opt_name=opt_name, num_dense_parameters=_num_dense_parameters(model, data)
    )
    return as_entered(costs, entered, unique_rows * model.embedding_dim)


def as_entered(costs: Mapping[str, PhaseCosts], entered: Collection[str], num_summed: int) -> dict[str, PhaseCosts]:
    """Leave out phases without work, and give EMBEDDING_BACKWARD's to the sparse optimizer where it is not entered.

    `num_summed`: numbers in the rows that a step updates, whose sums are then neither written nor read.
    """
    made = dict(costs)
    if Phase.EMBEDDING_BACKWARD not in entered:
        passed_on = PhaseCosts(bytes=-2 * num_summed * FLOAT_BYTES)
        made[Phase.SPARSE_OPTIMIZER] += made.pop(Phase.EMBEDDING_BACKWARD) + passed_on
    return {phase: of_phase for phase, of_phase in made.items() if of_phase != PhaseCosts()}


def _mlps(model: DLRMConfig, data: DataConfig) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the widths of both MLPs with their inputs."""
    return (data.num_dense, *model.bottom_mlp), (interaction_width(model, data.num_sparse), *model.top_mlp)


def _num_dense_parameters(model: DLRMConfig, data: DataConfig) -> int:
    linears = sum((n + 1) * m for widths in _mlps(model, data) for n, m in pairwise(widths))
    if model.interaction != "dcn":
        return linears
    wide = interaction_width(model, data.num_sparse)
    return linears + model.dcn_num_layers * wide * (2 * model.dcn_low_rank_dim + 1)


def _activations_per_sample(model: DLRMConfig, data: DataConfig) -> tuple[int, int]:
    """Count floats kept for the backward pass, and the widest single tensor."""
    bottom, top = _mlps(model, data)
    features = (1 + data.num_sparse) * model.embedding_dim
    products = (1 + data.num_sparse) ** 2 if model.interaction == "dot" else 0
    # A cross layer keeps its input, its low-rank product and what it multiplies with x_0.
    cross = model.dcn_num_layers * (2 * features + model.dcn_low_rank_dim)
    saved = sum(bottom[1:]) + features + cross + (top[0] if model.interaction == "dot" else 0) + sum(top[1:])
    return saved, max(*bottom, *top, features, products)


def _interaction_floats(model: DLRMConfig, vectors: int, width: int) -> dict[str, int]:
    """Count floats per sample that the interaction moves beside the operands of its matrix products."""
    if model.interaction == "dot":
        forward, backward = vectors + width, width + 2 * vectors
    elif model.interaction == "dcn":
        # Each layer multiplies by x_0; its gradient needs x_0 and what was multiplied with it.
        forward, backward = model.dcn_num_layers * vectors, 2 * model.dcn_num_layers * vectors
    else:
        forward = backward = 2 * vectors
    return {Phase.INTERACTION_FORWARD: forward, Phase.INTERACTION_BACKWARD: backward}


def embedding_costs(
    d: int, data: DataConfig, batch_size: int, opt_name: str, unique_rows: int
) -> dict[str, PhaseCosts]:
    """Read a row [d] per lookup, sum the gradients of equal rows in the backward pass, update each row once."""
    lookups = batch_size * data.num_lookups
    pooled = batch_size * data.num_sparse * d
    state = {"sgd": 0, "rowwise_adagrad": 1, "adagrad": d}[opt_name]
    return {
        Phase.EMBEDDING_FORWARD: PhaseCosts(
            elementwise_flop=lookups * d,
            bytes=(lookups * d + pooled) * FLOAT_BYTES + lookups * ID_BYTES,
            rows=lookups,
        ),
        Phase.EMBEDDING_BACKWARD: PhaseCosts(
            elementwise_flop=(lookups - unique_rows) * d,
            bytes=(pooled + unique_rows * d) * FLOAT_BYTES + lookups * ID_BYTES,
        ),
        Phase.SPARSE_OPTIMIZER: PhaseCosts(
            elementwise_flop=OPTIMIZER_FLOP[opt_name] * unique_rows * d,
            bytes=unique_rows * (3 * d + 2 * state) * FLOAT_BYTES,
            rows=unique_rows * (1 if state == 0 else 2),
        ),
    }

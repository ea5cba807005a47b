"""Costs of a DLRM, computed from its configuration without torch: see `reference_models.costs`."""

from collections.abc import Sequence

from reference_models.config.sections import DataConfig, TrainConfig
from reference_models.costs import (
    FLOAT_BYTES,
    ID_BYTES,
    Linear,
    PhaseCosts,
    Product,
    Step,
    find_table_sizes,
    make_click_lookups,
    mlp,
)
from reference_models.dlrm.config import DLRMConfig
from reference_models.dlrm.phases import DLRMPhase
from reference_models.serving.weight_bytes import ServedBytes, is_kept, linear_bytes, row_bytes

HALF_BYTES = 2
_INTERACTION = (DLRMPhase.INTERACTION_FORWARD, DLRMPhase.INTERACTION_BACKWARD)


def declare_step(model: DLRMConfig, data: DataConfig, batch_size: int) -> Step:
    """Declare what a training step of DLRM computes (layers, lookups, other work); its costs are computed from this.

    With the interaction `dot`, all F x F dot products of the F vectors are counted, although only the pairs below the
    diagonal are used. No gradient of the bottom MLP's input is counted, since training does not need it.
    """
    bottom, top = _mlps(model, data)
    f, wide, low = 1 + data.num_sparse, top[0], model.dcn_low_rank_dim
    layers: list[Linear | Product] = [*mlp("bottom_mlp", bottom, batch_size, needs_input_gradient=False)]
    if model.interaction == "dot":
        layers.append(Product(_INTERACTION, "dot", f, model.embedding_dim, f, num=batch_size, is_of_one_tensor=True))
    for layer in range(model.dcn_num_layers):
        layers.append(Linear(_INTERACTION, f"cross.{layer}.v", batch_size, wide, low, has_bias=False))
        layers.append(Linear(_INTERACTION, f"cross.{layer}.w", batch_size, low, wide))
    num_saved, num_widest = _activations_per_sample(model, data)
    return Step(
        layers=(*layers, *mlp("top_mlp", top, batch_size)),
        beside={
            phase: PhaseCosts(bytes=FLOAT_BYTES * batch_size * floats)
            for phase, floats in zip(_INTERACTION, _interaction_floats(model, data), strict=True)
        },
        lookups=make_click_lookups(data, model.embedding_dim, batch_size),
        num_saved=num_saved,
        num_widest=num_widest,
    )


def _interaction_floats(model: DLRMConfig, data: DataConfig) -> tuple[int, int]:
    """Return the numbers of floats per sample that the interaction reads and writes outside its matrix products, in
    its forward and in its backward pass."""
    vectors = (1 + data.num_sparse) * model.embedding_dim
    if model.interaction == "dot":
        width = interaction_width(model, data.num_sparse)
        return vectors + width, width + 2 * vectors
    if model.interaction == "dcn":
        # Each layer multiplies by x_0; the gradient needs x_0 and the other factor.
        return model.dcn_num_layers * vectors, 2 * model.dcn_num_layers * vectors
    return 2 * vectors, 2 * vectors


def _mlps(model: DLRMConfig, data: DataConfig) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the widths of the layers of bottom MLP and top MLP, each with its input width first."""
    return (data.num_dense, *model.bottom_mlp), (interaction_width(model, data.num_sparse), *model.top_mlp)


def served_bytes(
    model: DLRMConfig,
    data: DataConfig,
    num_embeddings: Sequence[int] | None = None,
    *,
    precision: str,
    table_precision: str,
) -> ServedBytes:
    """Return the bytes of the weights of a DLRM that answers queries: of dense layers in `precision`, of tables in
    `table_precision`.

    `num_embeddings` are the tables' numbers of rows; None where the definition states them.
    """
    dense = sum(
        linear_bytes(layer.n, layer.m, precision, has_bias=layer.has_bias)
        for layer in declare_step(model, data, 1).layers
        if isinstance(layer, Linear)
    )
    rows = sum(find_table_sizes(data, num_embeddings))
    return ServedBytes(table_bytes=rows * row_bytes(model.embedding_dim, table_precision), dense_bytes=dense)


def forward_costs(
    model: DLRMConfig, data: DataConfig, *, batch_size: int, precision: str, table_precision: str
) -> dict[str, PhaseCosts]:
    """Return the FLOP, bytes moved and row accesses of answering a batch of queries, by phase of the forward pass.

    A layer reads its weights and inputs in `precision`. It writes its outputs in bf16 if `precision` is bf16, else in
    float32. A sum of embedding rows reads the ids, and the rows in `table_precision`.
    """
    d, vectors = model.embedding_dim, (1 + data.num_sparse) * model.embedding_dim
    lookups = batch_size * data.num_lookups
    item = HALF_BYTES if precision == "bf16" and model.interaction != "dcn" else FLOAT_BYTES
    costs: dict[str, PhaseCosts] = {
        DLRMPhase.BOTTOM_MLP_FORWARD: PhaseCosts(),
        DLRMPhase.EMBEDDING_FORWARD: PhaseCosts(
            elementwise_flop=lookups * d,
            bytes=lookups * (row_bytes(d, table_precision) + ID_BYTES)
            + batch_size * data.num_sparse * d * (HALF_BYTES if table_precision == "fp16" else FLOAT_BYTES),
            rows=lookups,
        ),
        DLRMPhase.INTERACTION_FORWARD: PhaseCosts(
            elementwise_flop=2 * batch_size * vectors * model.dcn_num_layers,
            bytes=item * batch_size * (vectors + interaction_width(model, data.num_sparse)),
        ),
        DLRMPhase.TOP_MLP_FORWARD: PhaseCosts(),
    }
    for layer in declare_step(model, data, batch_size).layers:
        num_bytes = _linear_bytes(layer, precision) if isinstance(layer, Linear) else 0
        costs[layer.phases[0]] += PhaseCosts(matmul_flop=layer.matmuls()[0].flop, bytes=num_bytes)
    return costs


def _linear_bytes(layer: Linear, precision: str) -> int:
    """Return the bytes that a layer moves in the forward pass in `precision`: inputs read, outputs written, and
    weights with bias read."""
    read, written = {"bf16": (HALF_BYTES, HALF_BYTES), "int8": (1, FLOAT_BYTES)}.get(precision, (FLOAT_BYTES,) * 2)
    if is_kept(layer.n, layer.m, precision):
        read = written = FLOAT_BYTES
    weights = linear_bytes(layer.n, layer.m, precision, has_bias=layer.has_bias)
    return layer.num_rows * (layer.n * read + layer.m * written) + weights


def graph_step_bytes(
    model: DLRMConfig, data: DataConfig, train: TrainConfig, *, precision: str = "fp32", has_kernels: bool = True
) -> int:
    """Estimate the bytes that the optimized training step takes on a GPU, without weights and optimizer state.

    The estimate is the step's peak. It is reached in the interaction's backward pass (saved tensors, gradients of
    input and output) or, with many lookups, in the update of the tables. In bf16 these tensors take two bytes a
    number. Without Triton's kernels the update also holds a gradient for each lookup. The estimate differs by at most
    a tenth from the bytes counted when the step runs on torch's fake tensors, which have shapes and no memory.
    """
    lookups, features = data.num_lookups, (1 + data.num_sparse) * model.embedding_dim
    item = HALF_BYTES if precision == "bf16" else FLOAT_BYTES
    bottom, top = _mlps(model, data)
    # Dot interaction: two squares of products, pairs, the output and its gradient.
    dots = 2 * (1 + data.num_sparse) ** 2 + 3 * top[0] if model.interaction == "dot" else 0
    if model.interaction == "dcn":
        between = 2 * (model.dcn_num_layers + 1) * features + (model.dcn_num_layers + 1) * model.dcn_low_rank_dim
    elif model.interaction == "dot":
        between = dots + 2 * features
    else:
        between = 3 * features
    differentiating = item * (sum(bottom[1:]) + between + 2 * top[1])
    if has_kernels:
        updating = item * features + 4 * FLOAT_BYTES * lookups  # a key, a place of 8 bytes, a share of the pieces
    else:
        # For each lookup its gradient, the update, and twelve numbers of indices.
        num_copies = 4 if train.opt_name == "adagrad" else 2
        updating = item * (sum(bottom[1:]) + dots) + 2 * FLOAT_BYTES * features
        updating += FLOAT_BYTES * lookups * (num_copies * model.embedding_dim + 12)
    kept = FLOAT_BYTES * (2 * (data.num_dense + 1 + lookups) + lookups)  # two batches, and the rows of one
    step = train.global_batch_size * (max(differentiating, updating) + kept)
    return step + FLOAT_BYTES * declare_step(model, data, 1).num_dense_parameters


def interaction_width(model: DLRMConfig, num_sparse: int) -> int:
    """Return the width of the top MLP's input, which is the interaction's output."""
    num_features = 1 + num_sparse
    if model.interaction == "dot":
        return model.embedding_dim + num_features * (num_features - 1) // 2
    return num_features * model.embedding_dim


def _activations_per_sample(model: DLRMConfig, data: DataConfig) -> tuple[int, int]:
    """Return the number of floats per sample that DLRM saves for the backward pass, and the number in its widest
    tensor."""
    bottom, top = _mlps(model, data)
    features = (1 + data.num_sparse) * model.embedding_dim
    products = (1 + data.num_sparse) ** 2 if model.interaction == "dot" else 0
    # A cross layer saves its input, its low-rank product and the factor of x_0.
    cross = model.dcn_num_layers * (2 * features + model.dcn_low_rank_dim)
    saved = sum(bottom[1:]) + features + cross + (top[0] if model.interaction == "dot" else 0) + sum(top[1:])
    return saved, max(*bottom, *top, features, products)

"""FLOP, bytes and random rows of each phase of a training step, from the configuration alone (no torch).

Bytes are compulsory traffic in fp32: every matrix product reads its operands and writes its result once, every
other phase reads its inputs and writes its results once, and element-wise work is taken to be fused. What an
implementation moves beyond that is its own; what stays in a cache makes it faster than memory alone would allow.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from reference_models.config.sections import DataConfig
from reference_models.dlrm.config import DLRMConfig
from reference_models.dlrm.costs import interaction_width
from reference_models.training.phases import Phase

_FLOAT_BYTES = 4
_ID_BYTES = 8
_OPTIMIZER_FLOP: Mapping[str, int] = {"sgd": 2, "adagrad": 7, "rowwise_adagrad": 7}
"""Per element: g^2, add to the sum, square root, add epsilon, divide, times the learning rate, subtract."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MatrixProduct:
    """`num` independent products [m, k] x [k, n] of one layer: forward, or one of its two gradients."""

    phase: Phase
    layer: str
    num: int
    m: int
    k: int
    n: int

    @property
    def flop(self) -> int:
        return 2 * self.num * self.m * self.k * self.n

    @property
    def bytes(self) -> int:
        return _FLOAT_BYTES * self.num * (self.m * self.k + self.k * self.n + self.m * self.n)

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """(num, m, k, n) with m <= n: a product and its transpose are one shape, since layouts are free."""
        return (self.num, min(self.m, self.n), self.k, max(self.m, self.n))


@dataclass(frozen=True, kw_only=True, slots=True)
class PhaseCounts:
    """What one phase of one step has to do, whatever the implementation."""

    matmul_flop: int = 0
    """As MLPerf and torch's FlopCounterMode count: two per multiply-add of matrix products."""
    elementwise_flop: int = 0
    """Of phases without matrix products: adding rows up, and the optimizers' arithmetic."""
    bytes: int = 0
    rows: int = 0
    """Rows of embedding tables and of their optimizer state that are accessed at random."""

    @property
    def flop(self) -> int:
        return self.matmul_flop + self.elementwise_flop

    def __add__(self, other: "PhaseCounts") -> "PhaseCounts":
        return PhaseCounts(
            matmul_flop=self.matmul_flop + other.matmul_flop,
            elementwise_flop=self.elementwise_flop + other.elementwise_flop,
            bytes=self.bytes + other.bytes,
            rows=self.rows + other.rows,
        )


def matrix_products(model: DLRMConfig, data: DataConfig, batch_size: int) -> tuple[MatrixProduct, ...]:
    """Every matrix product of one training step; the first layer's input needs no gradient."""
    features = 1 + data.num_sparse
    top_widths = (interaction_width(model, data.num_sparse), *model.top_mlp)
    made = _mlp("bottom_mlp", (data.num_dense, *model.bottom_mlp), batch_size, needs_input_gradient=False)
    if model.interaction == "dot":
        f, d = features, model.embedding_dim
        made.append(_product(Phase.INTERACTION_FORWARD, "dot", f, d, f, num=batch_size))
        # x x' is differentiated by both of its factors.
        made += [_product(Phase.INTERACTION_BACKWARD, "dot", f, f, d, num=batch_size)] * 2
    for layer in range(model.dcn_num_layers if model.interaction == "dcn" else 0):
        wide, low = top_widths[0], model.dcn_low_rank_dim
        phases = (Phase.INTERACTION_FORWARD, Phase.INTERACTION_BACKWARD)
        made += _layer(f"cross.{layer}.v", phases, batch_size, wide, low, needs_input_gradient=True)
        made += _layer(f"cross.{layer}.w", phases, batch_size, low, wide, needs_input_gradient=True)
    return (*made, *_mlp("top_mlp", top_widths, batch_size, needs_input_gradient=True))


def _mlp(part: str, widths: Sequence[int], batch_size: int, *, needs_input_gradient: bool) -> list[MatrixProduct]:
    phases = (Phase(f"{part}_forward"), Phase(f"{part}_backward"))
    return [
        product
        for index, (n, m) in enumerate(pairwise(widths))
        for product in _layer(
            f"{part}.{index}", phases, batch_size, n, m, needs_input_gradient=needs_input_gradient or index > 0
        )
    ]


def _layer(
    name: str, phases: tuple[Phase, Phase], batch_size: int, n: int, m: int, *, needs_input_gradient: bool
) -> list[MatrixProduct]:
    """A linear layer from width n to m: its output, the gradient of its weight, the gradient of its input."""
    forward, backward = phases
    made = [_product(forward, name, batch_size, n, m), _product(backward, name, m, batch_size, n)]
    return [*made, _product(backward, name, batch_size, m, n)] if needs_input_gradient else made


def _product(phase: Phase, layer: str, m: int, k: int, n: int, *, num: int = 1) -> MatrixProduct:
    return MatrixProduct(phase=phase, layer=layer, num=num, m=m, k=k, n=n)


def count_phases(
    model: DLRMConfig, data: DataConfig, *, batch_size: int, opt_name: str, num_dense_parameters: int,
    unique_rows: int, is_update_fused: bool = False,
) -> dict[Phase, PhaseCounts]:  # fmt: skip
    """Counts of every phase of one step that has any. `unique_rows` is how many rows the step's ids name.

    A fused update sums the gradients of equal rows and applies them in one phase, the sparse optimizer's.
    """
    counts = {phase: PhaseCounts() for phase in Phase}
    for product in matrix_products(model, data, batch_size):
        # A dot product's operands are one tensor; its traffic is counted below.
        moved = 0 if product.layer == "dot" else product.bytes
        counts[product.phase] += PhaseCounts(matmul_flop=product.flop, bytes=moved)
    vectors = (1 + data.num_sparse) * model.embedding_dim
    for phase, floats in _interaction_floats(model, vectors, interaction_width(model, data.num_sparse)).items():
        counts[phase] += PhaseCounts(bytes=_FLOAT_BYTES * batch_size * floats)
    counts |= _embedding_counts(model, data, batch_size, opt_name, unique_rows)
    if is_update_fused:
        summed = counts.pop(Phase.EMBEDDING_BACKWARD)
        passed_on = PhaseCounts(
            bytes=-2 * unique_rows * model.embedding_dim * _FLOAT_BYTES
        )  # neither written nor read
        counts[Phase.SPARSE_OPTIMIZER] += summed + passed_on
    input_bytes = (data.num_dense + 1) * _FLOAT_BYTES + data.num_lookups * _ID_BYTES
    counts[Phase.DATA] += PhaseCounts(bytes=2 * batch_size * input_bytes)
    counts[Phase.LOSS] += PhaseCounts(bytes=3 * batch_size * _FLOAT_BYTES)
    arrays = 3 if opt_name == "sgd" else 5  # weight and state are read and written, the gradient is read
    counts[Phase.DENSE_OPTIMIZER] += PhaseCounts(
        elementwise_flop=_OPTIMIZER_FLOP[opt_name] * num_dense_parameters,
        bytes=arrays * _FLOAT_BYTES * num_dense_parameters,
    )
    return {phase: made for phase, made in counts.items() if made != PhaseCounts()}


def _interaction_floats(model: DLRMConfig, vectors: int, width: int) -> dict[Phase, int]:
    """Floats per sample that the interaction moves beside the operands of its matrix products."""
    if model.interaction == "dot":
        forward, backward = vectors + width, width + 2 * vectors
    elif model.interaction == "dcn":
        # Each layer multiplies by x_0; its gradient needs x_0 and what was multiplied with it.
        forward, backward = model.dcn_num_layers * vectors, 2 * model.dcn_num_layers * vectors
    else:
        forward = backward = 2 * vectors
    return {Phase.INTERACTION_FORWARD: forward, Phase.INTERACTION_BACKWARD: backward}


def _embedding_counts(
    model: DLRMConfig, data: DataConfig, batch_size: int, opt_name: str, unique_rows: int
) -> dict[Phase, PhaseCounts]:
    """Lookups read a row each; the backward pass sums the gradients of equal rows, and each row is updated once."""
    d, lookups = model.embedding_dim, batch_size * data.num_lookups
    pooled = batch_size * data.num_sparse * d
    state = {"sgd": 0, "rowwise_adagrad": 1, "adagrad": d}[opt_name]
    return {
        Phase.EMBEDDING_FORWARD: PhaseCounts(
            elementwise_flop=lookups * d,
            bytes=(lookups * d + pooled) * _FLOAT_BYTES + lookups * _ID_BYTES,
            rows=lookups,
        ),
        Phase.EMBEDDING_BACKWARD: PhaseCounts(
            elementwise_flop=(lookups - unique_rows) * d,
            bytes=(pooled + unique_rows * d) * _FLOAT_BYTES + lookups * _ID_BYTES,
        ),
        Phase.SPARSE_OPTIMIZER: PhaseCounts(
            elementwise_flop=_OPTIMIZER_FLOP[opt_name] * unique_rows * d,
            bytes=unique_rows * (3 * d + 2 * state) * _FLOAT_BYTES,
            rows=unique_rows * (1 if state == 0 else 2),
        ),
    }

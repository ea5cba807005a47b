"""What a model holds and what a training step of it has to do, as every model states it; computed, torch-free.

FLOP counts matrix products, two per multiply-add, as MLPerf and torch's FlopCounterMode do; embedding sums, biases
and activations are not in it. Bytes of a phase are compulsory traffic in fp32: every matrix product reads its
operands and writes its result once, every other phase reads its inputs and writes its results once, and element-wise
work is taken to be fused. What an implementation moves beyond that is its own; what stays in a cache makes it faster
than memory alone would allow.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from reference_models.config.sections import DataConfig, TrainConfig
from reference_models.process.errors import ConfigError
from reference_models.training.phases import Phase

FLOAT_BYTES = 4
ID_BYTES = 8
AUC_BYTES_PER_SAMPLE = 64
"""Score, label, key and the counts per group of ties when every score is its own group."""
OPTIMIZER_FLOP: Mapping[str, int] = {"sgd": 2, "adagrad": 7, "rowwise_adagrad": 7, "Adam": 12}
"""Per element: g^2, add to the sum, square root, add epsilon, divide, times the learning rate, subtract; with Adam
two decayed means, of which each takes two products and a sum."""
_OPTIMIZER_ARRAYS: Mapping[str, int] = {"sgd": 3, "Adam": 7}
"""Arrays read and written per weight: itself and each state twice, the gradient once; 5 where it is not here."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelCosts:
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
    def row_width(self) -> int:
        """Values in a row of a table; 1 where there is no table."""
        return self.num_embedding_parameters // self.num_embedding_rows if self.num_embedding_rows else 1

    @property
    def embedding_bytes(self) -> int:
        """Bytes of all tables in fp32."""
        return self.num_embedding_parameters * FLOAT_BYTES


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


def table_sizes(data: DataConfig, num_embeddings: Sequence[int] | None) -> Sequence[int]:
    """Return each table's rows. Raises ConfigError where only the prepared dataset knows them and was not asked."""
    sizes = data.num_embeddings if num_embeddings is None else num_embeddings
    if sizes is None:
        raise ConfigError(
            f"data {data.name!r}: the sizes of its tables are known once it is prepared. "
            "Prepare it with 'dlrmbench data prepare', or name it with --data."
        )
    return sizes


@dataclass(frozen=True, slots=True)
class Matmul:
    """`num` independent products [m, k] x [k, n] of one layer: forward, or one of its two gradients."""

    phase: str
    layer: str
    m: int
    k: int
    n: int
    num: int = 1
    is_of_one_tensor: bool = False
    """Whether its operands are one tensor, whose traffic its phase counts beside it."""

    @property
    def flop(self) -> int:
        return 2 * self.num * self.m * self.k * self.n

    @property
    def bytes(self) -> int:
        if self.is_of_one_tensor:
            return 0
        return FLOAT_BYTES * self.num * (self.m * self.k + self.k * self.n + self.m * self.n)

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """(num, m, k, n) with m <= n: a product and its transpose are one shape, since layouts are free."""
        return (self.num, min(self.m, self.n), self.k, max(self.m, self.n))


@dataclass(frozen=True, kw_only=True, slots=True)
class PhaseCosts:
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

    def __add__(self, other: "PhaseCosts") -> "PhaseCosts":
        return PhaseCosts(
            matmul_flop=self.matmul_flop + other.matmul_flop,
            elementwise_flop=self.elementwise_flop + other.elementwise_flop,
            bytes=self.bytes + other.bytes,
            rows=self.rows + other.rows,
        )


def mlp_matmuls(part: str, widths: Sequence[int], batch_size: int, *, needs_input_gradient: bool) -> list[Matmul]:
    """List those of an MLP with these widths, its input's first, in the phases `part`_forward and `part`_backward."""
    phases = (f"{part}_forward", f"{part}_backward")
    return [
        matmul
        for index, (n, m) in enumerate(pairwise(widths))
        for matmul in linear_matmuls(
            f"{part}.{index}", phases, batch_size, n, m, needs_input_gradient=needs_input_gradient or index > 0
        )
    ]


def linear_matmuls(
    name: str, phases: tuple[str, str], batch_size: int, n: int, m: int, *, needs_input_gradient: bool
) -> list[Matmul]:
    """List those of a linear layer from width n to m: its output, the gradients of its weight and its input."""
    forward, backward = phases
    made = [Matmul(forward, name, batch_size, n, m), Matmul(backward, name, m, batch_size, n)]
    return [*made, Matmul(backward, name, batch_size, m, n)] if needs_input_gradient else made


def estimate_click_memory(
    costs: ModelCosts, data: DataConfig, train: TrainConfig, *, eval_samples: int, saved: int, widest: int
) -> MemoryEstimate:
    """Estimate the peak memory of a reference with tables: fp32, sparse gradients, one process.

    `saved` floats of a sample are kept for the backward pass; its widest single tensor has `widest`.
    """
    states = {
        "sgd": 0,
        "adagrad": costs.num_parameters,
        "rowwise_adagrad": costs.num_embedding_rows + costs.num_dense_parameters,
    }
    gradient_row_bytes = costs.row_width * FLOAT_BYTES + ID_BYTES
    # All tables' gradients wait for the optimizer, which works on copies of one table's at a time.
    gradient_rows = data.num_lookups + 3 * max(data.multi_hot)
    input_bytes = data.num_dense * FLOAT_BYTES + data.num_lookups * ID_BYTES
    eval_batch_size = min(train.eval_batch_size, eval_samples)
    return MemoryEstimate(
        weights_bytes=costs.num_parameters * FLOAT_BYTES,
        optimizer_bytes=states[train.opt_name] * FLOAT_BYTES,
        gradients_bytes=costs.num_dense_parameters * FLOAT_BYTES
        + train.global_batch_size * gradient_rows * gradient_row_bytes,
        activations_bytes=train.global_batch_size * (input_bytes + (saved + 2 * widest) * FLOAT_BYTES),
        evaluation_bytes=eval_batch_size * (input_bytes + 3 * widest * FLOAT_BYTES)
        + eval_samples * AUC_BYTES_PER_SAMPLE,
    )


def loop_costs(
    data: DataConfig, *, batch_size: int, opt_name: str, num_dense_parameters: int
) -> dict[str, PhaseCosts]:
    """Count the phases that every model trained by the loop has: reading, loss, the dense weights' update."""
    input_bytes = (data.num_dense + 1) * FLOAT_BYTES + data.num_lookups * ID_BYTES
    arrays = _OPTIMIZER_ARRAYS.get(opt_name, 5)
    return {
        Phase.DATA: PhaseCosts(bytes=2 * batch_size * input_bytes),
        Phase.LOSS: PhaseCosts(bytes=3 * batch_size * FLOAT_BYTES),
        Phase.DENSE_OPTIMIZER: PhaseCosts(
            elementwise_flop=OPTIMIZER_FLOP[opt_name] * num_dense_parameters,
            bytes=arrays * FLOAT_BYTES * num_dense_parameters,
        ),
    }

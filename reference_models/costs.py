"""Costs of a model, computed from its configuration: the bytes that it holds, and the work of its training step. The
module imports no torch.

FLOP are counted for matrix products only, two per multiply-add, as MLPerf and torch's FlopCounterMode do; embedding
sums, biases and activations are not counted. The bytes of a phase are its least memory traffic in fp32. A matrix
product reads its operands and writes its result once. A phase without matrix products reads its inputs and writes its
results once. Element-wise work is assumed to be fused into other work. An implementation may move more bytes; on the
other hand, data that stays in a cache may make it faster than memory alone would allow.

A model declares its step as a `Step`: its layers, its lookups, and the work of its phases other than matrix products.
All costs that follow from a `Step` are computed here.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from reference_models.config.sections import DataConfig, TrainConfig
from reference_models.process.errors import ConfigError
from reference_models.training.phases import Phase

FLOAT_BYTES = 4
ID_BYTES = 8
AUC_BYTES_PER_SAMPLE = 64
"""Bytes that computing an AUC takes per sample: score, label, sort key, and counts where all scores differ."""
OPTIMIZER_FLOP: Mapping[str, int] = {"sgd": 2, "adagrad": 7, "rowwise_adagrad": 7, "Adam": 12}
"""FLOP of an optimizer's update per weight. Adagrad: g^2, add to the sum, square root, add epsilon, divide, times the
learning rate, subtract. Adam adds two decayed means, each of two products and a sum."""
_OPTIMIZER_ARRAYS: Mapping[str, int] = {"sgd": 3, "Adam": 7}
"""Number of times that an optimizer's update reads or writes an array as large as the weights: it reads and writes
the weights and each of its states, and reads the gradient. 5 for optimizers not listed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ComputedCosts:
    """Sizes of a model (rows, weights), and FLOP and bytes of its training. Members whose name says so are per
    sample."""

    num_embedding_rows: int
    num_embedding_parameters: int
    num_dense_parameters: int
    num_lookups_per_sample: int
    embedding_bytes_per_sample: int
    """Bytes, in fp32, of the embedding rows that the forward pass of a sample reads."""
    forward_flop_per_sample: int
    training_flop_per_sample: int
    """FLOP of the forward and backward pass per sample, without the unneeded gradient of the model's dense input."""

    @property
    def num_parameters(self) -> int:
        return self.num_embedding_parameters + self.num_dense_parameters

    @property
    def row_width(self) -> int:
        """Mean number of values of an embedding row; 1 where the model has no tables."""
        return self.num_embedding_parameters // self.num_embedding_rows if self.num_embedding_rows else 1

    @property
    def embedding_bytes(self) -> int:
        """Bytes of all embedding tables of the model in fp32."""
        return self.num_embedding_parameters * FLOAT_BYTES


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryEstimate:
    """Peak memory of training in fp32, in bytes by use, not counting the process itself (Python and torch)."""

    weights_bytes: int
    optimizer_bytes: int
    gradients_bytes: int
    activations_bytes: int
    evaluation_bytes: int
    """Bytes of one evaluation batch, of the scores of the whole evaluation split and, where the metric is the AUC, of
    computing it."""

    @property
    def total_bytes(self) -> int:
        step_bytes = self.gradients_bytes + self.activations_bytes
        return self.weights_bytes + self.optimizer_bytes + max(step_bytes, self.evaluation_bytes)


def find_table_sizes(data: DataConfig, num_embeddings: Sequence[int] | None) -> Sequence[int]:
    """Return the number of rows of each table: `num_embeddings` if given, else the numbers in the definition.

    Raises ConfigError if neither is given: the numbers are then only in the manifest of the prepared dataset.
    """
    sizes = data.num_embeddings if num_embeddings is None else num_embeddings
    if sizes is None:
        raise ConfigError(
            f"data {data.name!r}: the sizes of its tables are only known once it is prepared. "
            "Prepare it with 'dlrmbench data prepare', or name it with --data."
        )
    return sizes


@dataclass(frozen=True, slots=True)
class Matmul:
    """Matrix products of one layer's forward pass, or of one of its gradients: `num` independent products [m, k] x
    [k, n]."""

    phase: str
    layer: str
    m: int
    k: int
    n: int
    num: int = 1
    is_of_one_tensor: bool = False
    """Whether both operands of the product are the same tensor. The product's bytes are then counted in
    `Step.beside`, the costs of other work, and not here."""

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
        """Shape (num, m, k, n) of the matrix products with m <= n, so that a product and its transpose have the same
        shape."""
        return (self.num, min(self.m, self.n), self.k, max(self.m, self.n))


@dataclass(frozen=True, kw_only=True, slots=True)
class PhaseCosts:
    """FLOP, bytes moved and row accesses that one phase of a training step needs in any implementation."""

    matmul_flop: int = 0
    """FLOP of a phase's matrix products, two per multiply-add, as MLPerf and torch's FlopCounterMode count."""
    elementwise_flop: int = 0
    """FLOP other than matrix products: adding up embedding rows, Fourier transforms, the optimizers' arithmetic."""
    bytes: int = 0
    rows: int = 0
    """Number of random accesses to rows of embedding tables and of their optimizer state."""

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


@dataclass(frozen=True, slots=True)
class Linear:
    """Linear layer from n to m features, applied to `num_rows` rows (such as samples or tokens)."""

    phases: tuple[str, str]
    """Names of the phases in which the linear layer's forward and backward pass are timed."""
    name: str
    num_rows: int
    n: int
    m: int
    has_bias: bool = True
    is_trained: bool = True
    needs_input_gradient: bool = True

    @property
    def num_parameters(self) -> int:
        return (self.n + self.has_bias) * self.m if self.is_trained else 0

    def matmuls(self) -> list[Matmul]:
        """Return the matrix products of the linear layer: forward, weight gradient and, if needed, input gradient."""
        forward, backward = self.phases
        made = [Matmul(forward, self.name, self.num_rows, self.n, self.m)]
        if self.is_trained:
            made.append(Matmul(backward, self.name, self.m, self.num_rows, self.n))
        if self.needs_input_gradient:
            made.append(Matmul(backward, self.name, self.num_rows, self.m, self.n))
        return made


@dataclass(frozen=True, slots=True)
class Product:
    """Matrix products of two activations, without weights: `num` independent products [m, k] x [k, n], and the
    products that give the gradients of both activations."""

    phases: tuple[str, str]
    """Names of the phases in which the product's forward and backward pass are timed."""
    name: str
    m: int
    k: int
    n: int
    num: int = 1
    is_of_one_tensor: bool = False
    num_parameters = 0

    def matmuls(self) -> list[Matmul]:
        """Return the matrix product of two activations, and the two products that give the gradients of these
        activations."""
        (forward, backward), (m, k, n) = self.phases, (self.m, self.k, self.n)
        return [
            Matmul(phase, self.name, *shape, num=self.num, is_of_one_tensor=self.is_of_one_tensor)
            for phase, shape in ((forward, (m, k, n)), (backward, (m, n, k)), (backward, (k, m, n)))
        ]


def fft_flop(window: int) -> int:
    """Return the FLOP of a two-dimensional Fourier transform of a square window, 5 N log2 N for its N = window^2
    points."""
    return round(5 * window**2 * math.log2(window**2))


def mlp(
    part: str,
    widths: Sequence[int],
    num_rows: int,
    *,
    phases: tuple[str, str] | None = None,
    needs_input_gradient: bool = True,
) -> list[Linear]:
    """Return the linear layers of an MLP of the given widths, input width first.

    The phases are named after `part` (part_forward, part_backward) unless `phases` are given.
    """
    own_phases = phases or (f"{part}_forward", f"{part}_backward")
    return [
        Linear(own_phases, f"{part}.{index}", num_rows, n, m, needs_input_gradient=needs_input_gradient or index > 0)
        for index, (n, m) in enumerate(pairwise(widths))
    ]


@dataclass(frozen=True, kw_only=True, slots=True)
class Lookups:
    """Embedding rows that a training step on one batch reads, and the sums made of them (pooling)."""

    tables: Sequence[int] | None
    """Indices of the sparse features whose tables are looked up; None for all features."""
    dim: int
    """Number of values of an embedding row."""
    num: int
    """Number of embedding rows that the step reads, repeated rows included."""
    num_sums: int
    """Number of pooled vectors (sums of embedding rows) that the step makes, one per bag."""
    num_added: int
    """Number of additions of an embedding row to a pooled vector, over the whole step; each takes as many FLOP as a
    row has values."""
    gradient_bytes: int
    """Bytes that the backward pass reads to compute the gradients of the embedding rows."""

    def phases(self, opt_name: str, unique_rows: int) -> dict[str, PhaseCosts]:
        """Return the costs of the embedding phases of a step: forward, backward and sparse optimizer.

        Each lookup reads a row; gradients of equal rows are summed; each of the `unique_rows` rows is updated once.
        """
        d, opt_name = self.dim, "rowwise_adagrad" if opt_name == "Adam" else opt_name
        state = {"sgd": 0, "rowwise_adagrad": 1, "adagrad": d}[opt_name]
        return {
            Phase.EMBEDDING_FORWARD: PhaseCosts(
                elementwise_flop=self.num_added * d,
                bytes=(self.num + self.num_sums) * d * FLOAT_BYTES + self.num * ID_BYTES,
                rows=self.num,
            ),
            Phase.EMBEDDING_BACKWARD: PhaseCosts(
                elementwise_flop=max(0, self.num - unique_rows) * d,
                bytes=self.gradient_bytes + unique_rows * d * FLOAT_BYTES,
            ),
            Phase.SPARSE_OPTIMIZER: PhaseCosts(
                elementwise_flop=OPTIMIZER_FLOP[opt_name] * unique_rows * d,
                bytes=unique_rows * (3 * d + 2 * state) * FLOAT_BYTES,
                rows=unique_rows * (1 if state == 0 else 2),
            ),
        }


def make_click_lookups(data: DataConfig, dim: int, batch_size: int) -> Lookups:
    """Return the embedding lookups of a batch of clicks: all its ids, with rows added up by sample and feature."""
    num, num_sums = batch_size * data.num_lookups, batch_size * data.num_sparse
    return Lookups(
        tables=None,
        dim=dim,
        num=num,
        num_sums=num_sums,
        num_added=num,
        gradient_bytes=num_sums * dim * FLOAT_BYTES + num * ID_BYTES,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """Declaration of a model's training step on one batch, from which all its costs follow."""

    layers: Sequence[Linear | Product]
    num_other_parameters: int = 0
    """Number of weights that belong neither to embedding tables nor to `layers`."""
    beside: Mapping[str, PhaseCosts] = field(default_factory=dict)
    """Costs of the model's work that is neither in `layers` nor in `lookups`, such as element-wise work: a dict from
    phase to costs."""
    lookups: Lookups | None = None
    input_bytes: int | None = None
    """Bytes of the input batch; None for a batch of clicks, whose bytes follow from the data."""
    num_saved: int = 0
    """Number of floats per sample that the forward pass saves for the backward pass."""
    num_widest: int = 0
    """Number of floats per sample of the step's widest tensor."""

    @property
    def num_dense_parameters(self) -> int:
        return sum(layer.num_parameters for layer in self.layers) + self.num_other_parameters

    def matmuls(self) -> tuple[Matmul, ...]:
        return tuple(matmul for layer in self.layers for matmul in layer.matmuls())

    def layer_phases(self) -> dict[str, PhaseCosts]:
        """Return the costs by phase of a step's layers and of its other work (`beside`); embedding lookups are not
        included."""
        costs = dict(self.beside)
        for matmul in self.matmuls():
            added = PhaseCosts(matmul_flop=matmul.flop, bytes=matmul.bytes)
            costs[matmul.phase] = costs.get(matmul.phase, PhaseCosts()) + added
        return costs


def count_model(
    step: Step, data: DataConfig, num_embeddings: Sequence[int] | None = None, *, num_samples: int = 1
) -> ComputedCosts:
    """Return a model's sizes, and its costs per sample from a training `step` on `num_samples` samples.

    `num_embeddings` are the tables' numbers of rows; None where `data` states them. Raises ConfigError if neither is
    known.
    """
    flop = {phase: costs.flop for phase, costs in step.layer_phases().items()}
    num_rows = num_lookups = dim = 0
    if (lookups := step.lookups) is not None:
        sizes, dim = find_table_sizes(data, num_embeddings), lookups.dim
        num_rows = sum(sizes if lookups.tables is None else (sizes[table] for table in lookups.tables))
        num_lookups = -(-lookups.num // num_samples)
    return ComputedCosts(
        num_embedding_rows=num_rows,
        num_embedding_parameters=num_rows * dim,
        num_dense_parameters=step.num_dense_parameters,
        num_lookups_per_sample=num_lookups,
        embedding_bytes_per_sample=num_lookups * dim * FLOAT_BYTES,
        forward_flop_per_sample=sum(flop[phase] for phase in flop if phase.endswith("_forward")) // num_samples,
        training_flop_per_sample=sum(flop.values()) // num_samples,
    )


def count_phases(
    step: Step,
    data: DataConfig,
    *,
    batch_size: int,
    opt_name: str,
    unique_rows: int,
    entered: Collection[str] = (Phase.EMBEDDING_BACKWARD,),
) -> dict[str, PhaseCosts]:
    """Return the costs of a training step by phase, without phases that cost nothing.

    `unique_rows` is the number of distinct embedding rows that the batch looks up. `entered` has the names of the
    phases that the implementation reports. If EMBEDDING_BACKWARD is not among them, the sparse optimizer sums and
    applies gradients in one pass; the traffic of storing the sums is then left out.
    """
    costs = step.layer_phases()
    for phase, added in _loop_phases(step, data, batch_size, opt_name).items():
        costs[phase] = costs.get(phase, PhaseCosts()) + added
    if step.lookups is not None:
        costs |= step.lookups.phases(opt_name, unique_rows)
        if Phase.EMBEDDING_BACKWARD not in entered:
            sums = PhaseCosts(bytes=-2 * unique_rows * step.lookups.dim * FLOAT_BYTES)
            costs[Phase.SPARSE_OPTIMIZER] += costs.pop(Phase.EMBEDDING_BACKWARD) + sums
    return {phase: made for phase, made in costs.items() if made != PhaseCosts()}


def _loop_phases(step: Step, data: DataConfig, batch_size: int, opt_name: str) -> dict[str, PhaseCosts]:
    """Return the costs of the phases that every model has: reading the batch, loss, update of the dense weights."""
    input_bytes = step.input_bytes
    if input_bytes is None:
        input_bytes = batch_size * ((data.num_dense + 1) * FLOAT_BYTES + data.num_lookups * ID_BYTES)
    arrays = _OPTIMIZER_ARRAYS.get(opt_name, 5)
    return {
        Phase.DATA: PhaseCosts(bytes=2 * input_bytes),
        Phase.LOSS: PhaseCosts(bytes=3 * batch_size * FLOAT_BYTES),
        Phase.DENSE_OPTIMIZER: PhaseCosts(
            elementwise_flop=OPTIMIZER_FLOP[opt_name] * step.num_dense_parameters,
            bytes=arrays * FLOAT_BYTES * step.num_dense_parameters,
        ),
    }


def estimate_click_memory(
    step: Step,
    data: DataConfig,
    train: TrainConfig,
    *,
    eval_samples: int,
    num_embeddings: Sequence[int] | None = None,
) -> MemoryEstimate:
    """Estimate the peak memory of training a click model by the reference implementation, in fp32 with sparse
    gradients.

    `step` declares the model's training step on one sample.
    """
    costs = count_model(step, data, num_embeddings)
    states = {
        "sgd": 0,
        "adagrad": costs.num_parameters,
        "rowwise_adagrad": costs.num_embedding_rows + costs.num_dense_parameters,
    }
    gradient_row_bytes = costs.row_width * FLOAT_BYTES + ID_BYTES
    # All tables' gradients are held until the optimizer runs, which copies one table's gradients at a time.
    gradient_rows = data.num_lookups + 3 * max(data.multi_hot)
    input_bytes = data.num_dense * FLOAT_BYTES + data.num_lookups * ID_BYTES
    eval_batch_size = min(train.eval_batch_size, eval_samples)
    return MemoryEstimate(
        weights_bytes=costs.num_parameters * FLOAT_BYTES,
        optimizer_bytes=states[train.opt_name] * FLOAT_BYTES,
        gradients_bytes=costs.num_dense_parameters * FLOAT_BYTES
        + train.global_batch_size * gradient_rows * gradient_row_bytes,
        activations_bytes=train.global_batch_size
        * (input_bytes + (step.num_saved + 2 * step.num_widest) * FLOAT_BYTES),
        evaluation_bytes=eval_batch_size * (input_bytes + 3 * step.num_widest * FLOAT_BYTES)
        + eval_samples * AUC_BYTES_PER_SAMPLE,
    )

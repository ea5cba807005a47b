"""Torch-free configuration of data, training and runtime, parsed from a definition's opaque sections."""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Annotated, Any, Literal

from msgspec import Meta

from reference_models.config.exchange import COMM_PRECISIONS, SHARDING_TYPES
from reference_models.config.id_map import IdMapConfig
from reference_models.config.records import Amount, PositiveCount, read_section
from reference_models.process.errors import ConfigError, did_you_mean

PLAN = "plan:"
"""How `runtime.sharding` begins that says where each table is."""
_PLANNED = r"plan:\d{1,4}(\+\d{1,4})*(,\d{1,4}(\+\d{1,4})*)*"
_SHARDING = {
    "pattern": f"^({'|'.join(SHARDING_TYPES)}|{_PLANNED})$",
    "description": ", ".join(f"`{name}`" for name in sorted(SHARDING_TYPES)) + " or a plan",
}
_THREADS = {"anyOf": [{"type": "integer", "minimum": 1}, {"const": "auto"}]}
NUM_CRITEO_DENSE = 13
NUM_CRITEO_SPARSE = 26


@dataclass(frozen=True, kw_only=True)
class TrainSection:
    """[train] whatever the optimizer, in mllog keys."""

    global_batch_size: PositiveCount
    """Samples of a step, over all ranks."""
    eval_batch_size: PositiveCount | None = None
    """Samples that are evaluated at a time; the larger of the batch size and 16384 where it is left out."""
    opt_name: str
    """`adagrad` per element, `rowwise_adagrad` per row of a table, `sgd`, or `Adam` with `hstu` and `d2nn`."""
    opt_base_learning_rate: Amount
    """The learning rate before warm-up and decay."""


@dataclass(frozen=True, kw_only=True)
class AdagradSection(TrainSection):
    """[train] with Adagrad, element-wise or row-wise."""

    opt_name: Literal["adagrad", "rowwise_adagrad"]
    opt_adagrad_learning_rate_decay: Amount | None = None
    """Adagrad's own decay per step; 0 where it is left out."""
    opt_weight_decay: Amount | None = None
    """Must be 0: sparse gradients know no decay."""
    opt_adagrad_initial_accumulator_value: Amount | None = None
    """What the sums of squares begin with; 0 where it is left out."""
    opt_adagrad_epsilon: Amount | None = None
    """Added to the root of the sums; 1e-8 where it is left out."""
    opt_learning_rate_warmup_steps: Amount | None = None
    """Steps over which the rate grows; 0 where it is left out."""
    opt_learning_rate_decay_start_step: Amount | None = None
    """The step from which the rate falls."""
    opt_learning_rate_decay_steps: Amount | None = None
    """Steps over which it falls; 0, never, where it is left out."""


@dataclass(frozen=True, kw_only=True)
class SGDSection(TrainSection):
    """[train] with stochastic gradient descent."""

    opt_name: Literal["sgd"]
    opt_learning_rate_warmup_steps: Amount | None = None
    """Steps over which the rate grows; 0 where it is left out."""
    lr_decay_start_steps: Amount | None = None
    """The step from which the rate falls."""
    sgd_opt_base_learning_rate: Amount | None = None
    """The same as opt_base_learning_rate, as older rounds name it."""
    sgd_opt_learning_rate_decay_poly_power: Amount | None = None
    """Power of the decay; 2 where it is left out."""
    sgd_opt_learning_rate_decay_steps: Amount | None = None
    """Steps over which it falls; 0, never, where it is left out."""


@dataclass(frozen=True, kw_only=True)
class AdamSection(TrainSection):
    """[train] with Adam for the layers and row-wise Adagrad for the tables, as MLPerf's DLRMv4 names them."""

    opt_name: Literal["Adam"]
    opt_adam_beta_1: Annotated[float, Meta(ge=0, lt=1)] = 0.9
    """Decay of the mean of gradients."""
    opt_adam_beta_2: Annotated[float, Meta(ge=0, lt=1)] = 0.999
    """Decay of the mean of their squares."""
    opt_adam_epsilon: Amount = 1e-8
    """Added to the root of the latter."""
    opt_weight_decay: Amount = 0.0
    """Must be 0: sparse gradients know no decay."""
    opt_gradient_clip_norm: Amount | None = None
    """The length to which the layers' gradient is cut where it is longer; not where it is left out."""
    opt_sparse_name: Literal["RowWiseAdagrad"] = "RowWiseAdagrad"
    """The optimizer of the tables."""
    opt_sparse_base_learning_rate: Amount | None = None
    """The tables' learning rate; the base learning rate where it is left out."""
    opt_learning_rate_warmup_steps: Amount | None = None
    """Steps over which both rates grow; 0 where it is left out."""
    opt_learning_rate_warmup_start_lr: Amount | None = None
    """Must be 0: what they grow from."""
    eval_every_data_pct: Amount | None = None
    """The share of the samples between evaluations, which quality.evals_per_epoch says: one divided by it."""


TRAIN_SECTIONS: Mapping[str, type[TrainSection]] = {
    "adagrad": AdagradSection,
    "rowwise_adagrad": AdagradSection,
    "sgd": SGDSection,
    "Adam": AdamSection,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class DataConfig:
    """One dataset. `num_embeddings` is None where the prepared dataset's manifest decides (kind criteo).

    `parameters` belongs to the kind: the teacher's of a click log, the preprocessing of Criteo text, the ids'
    Zipf exponent of synthetic data.
    """

    kind: str
    name: str
    train_samples: int | None
    eval_samples: int | None
    num_dense: int
    num_embeddings: tuple[int, ...] | None
    multi_hot: tuple[int, ...]
    seed: int | None
    sha256: str | None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    id_map: IdMapConfig = field(default_factory=IdMapConfig)
    """How ids become rows where the splits are opened; what is stored are ids."""
    id_maps: Mapping[int, Any] | None = None
    """By table int32 [ids, k]: the k rows whose sum is an id's embedding. None until they are made."""

    @property
    def mapped(self) -> "DataConfig":
        """The sizes that a model meets: rows of tables, and rows per sample. Raises ConfigError."""
        if not self.id_map.is_active:
            return self
        plain = replace(self, id_map=IdMapConfig(), id_maps=None)
        if self.num_embeddings is None:
            if self.id_map.kind == "quotient_remainder":
                raise ConfigError("id_map.kind is 'quotient_remainder', which needs data.num_embeddings. Give them.")
            return plain
        rows, widths = zip(*self.id_map.shapes(self.num_embeddings), strict=True)
        multi_hot = tuple(num * width for num, width in zip(self.multi_hot, widths, strict=True))
        return replace(plain, num_embeddings=rows, multi_hot=multi_hot)

    @property
    def has_soft_labels(self) -> bool:
        """Whether labels are shares from 0 to 1 instead of 0 or 1: `soft_labels` of clicks with own columns."""
        return self.parameters.get("soft_labels") is True

    @property
    def num_sparse(self) -> int:
        return len(self.multi_hot)

    @property
    def num_lookups(self) -> int:
        """Embedding rows read per sample."""
        return sum(self.multi_hot)


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainConfig:
    """Batch sizes and optimizer; `optimizer` holds the remaining mllog keys of `opt_name`."""

    global_batch_size: int
    eval_batch_size: int
    opt_name: str
    opt_base_learning_rate: float
    optimizer: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class RuntimeConfig:
    """What may differ between systems without changing the problem. `threads` None is left to the harness.

    `ranks`, `sharding`, `comm` and `grad_comm` belong to implementations of several processes: how many there are,
    how tables are placed over them, and in which form embeddings and dense gradients travel.
    """

    device: str = "cpu"
    """`cpu`, `cuda` or `cuda:N`."""
    threads: Annotated[PositiveCount | None, Meta(extra_json_schema=_THREADS)] = None
    """CPU threads, or `auto`: as many as are fastest, by timing; of several ranks, the cores among them."""
    precision: Literal["fp32", "tf32", "bf16", "int8", "auto"] = "fp32"
    """Precision of matrix products; on CPUs `fp32`, `bf16`, which those without products in it emulate, and `int8` in
    serving alone. `auto` trains in bf16 where timing finds it faster and a calibration in it met the target, else in
    fp32."""
    table_precision: Literal["fp32", "fp16", "int8", "int4"] = "fp32"
    """Precision of the rows of embedding tables of a model that is served; training knows `fp32` alone."""
    graph: Literal["auto", "off"] = "auto"
    """Whether `optimized` captures its step on a GPU as a CUDA graph; `off` launches each operator, for diagnosis."""
    kernels: Literal["auto", "off"] = "auto"
    """Whether `optimized` uses its own compiled kernels, by Triton on a GPU and in C on a CPU, where they can be
    compiled; `off` leaves all to torch's operators."""
    implementation: str = "reference"
    """The code that trains: `reference`, `optimized` or `torchrec`, or one by entry point."""
    ranks: PositiveCount = 1
    """Processes of one run; more than one with `torchrec`."""
    sharding: Annotated[str, Meta(extra_json_schema=_SHARDING)] = "auto"
    """How tables are placed over ranks; `auto` is TorchRec's planner, `plan:0,1+2` has table 0 on rank 0 and halves
    of the columns of table 1 on ranks 1 and 2."""
    comm: str = "fp32"
    """Precision in which embeddings travel: `fp32`, `fp16`, `int8`, on GPUs `bf16`, `fp8`; or two, `fp16/bf16`."""
    grad_comm: str = "dense"
    """How dense gradients travel: `dense`, `fp16`, `powersgd:RANK` or `topk:DENSITY`."""


def parse_train(table: Mapping[str, Any]) -> TrainConfig:
    """Read [train] whatever the optimizer. Raises ConfigError naming the field."""
    opt_name = table.get("opt_name")
    if not isinstance(opt_name, str) or opt_name not in TRAIN_SECTIONS:
        given = opt_name if isinstance(opt_name, str) else repr(opt_name)
        raise ConfigError(f"train.opt_name is {given!r}.{did_you_mean(given, list(TRAIN_SECTIONS))}")
    section = asdict(read_section("train", table, TRAIN_SECTIONS[opt_name]))
    common = {key: section.pop(key) for key in TrainSection.__dataclass_fields__}
    eval_batch_size = common.pop("eval_batch_size") or max(common["global_batch_size"], 16384)
    optimizer = {key: value for key, value in section.items() if value is not None}
    return TrainConfig(**common, eval_batch_size=eval_batch_size, optimizer=optimizer)


def parse_runtime(table: Mapping[str, Any]) -> RuntimeConfig:
    is_auto = table.get("threads") == "auto"
    runtime = read_section("runtime", {**table, "threads": None} if is_auto else table, RuntimeConfig)
    parse_sharding(runtime.sharding)
    parse_comm(runtime.comm)
    parse_grad_comm(runtime.grad_comm)
    return runtime


def is_written_out(sharding: str) -> bool:
    """Return whether a plan says the rank of each table, and names no file."""
    return re.fullmatch(_PLANNED, sharding, re.ASCII) is not None


def parse_sharding(text: str) -> tuple[tuple[int, ...], ...] | None:
    """Read the ranks of each table of a plan, of the equal parts of its columns in their order; None for a type."""
    if text in SHARDING_TYPES:
        return None
    if not text.startswith(PLAN):
        raise ConfigError(f"runtime.sharding is {text!r}.{did_you_mean(text, [*SHARDING_TYPES])}")
    if not is_written_out(text):
        raise ConfigError(
            f"runtime.sharding is {text!r}, expected a plan's file that 'dlrmbench place -o' wrote, or the rank of "
            "each table such as plan:0,1,0+1, where a table's columns are shared by the ranks 0 and 1."
        )
    return tuple(tuple(map(int, ranks.split("+"))) for ranks in text.removeprefix(PLAN).split(","))


def parse_comm(text: str) -> tuple[str, str]:
    """Read the precisions in which embeddings travel forward and backward: "fp16" is both, "fp16/bf16" one each."""
    names = tuple(text.split("/"))
    if len(names) not in (1, 2) or any(name not in COMM_PRECISIONS for name in names):
        raise ConfigError(
            f"runtime.comm is {text!r}, expected one of {', '.join(COMM_PRECISIONS)}, or two of them as "
            "forward/backward, such as fp16/bf16."
        )
    return names[0], names[-1]


def parse_grad_comm(text: str) -> tuple[str, float]:
    """Read the scheme by which dense gradients travel and its parameter: rank of powersgd:R, density of topk:D."""
    scheme, _, parameter = text.partition(":")
    try:
        value = float(parameter) if parameter else 0.0
    except ValueError:
        value = -1.0
    fits = {
        "dense": not parameter,
        "fp16": not parameter,
        "powersgd": value >= 1 and value.is_integer(),
        "topk": 0.0 < value <= 1.0,
    }
    if not fits.get(scheme, False):
        raise ConfigError(
            f"runtime.grad_comm is {text!r}, expected dense, fp16, powersgd:RANK (a whole number of at least 1) or "
            "topk:DENSITY (above 0, at most 1)."
        )
    return scheme, value

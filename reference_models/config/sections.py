"""Torch-free records of a definition's sections [data], [train] and [runtime], parsed from TOML tables."""

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
"""Prefix of a value of `runtime.sharding` that is a plan: the ranks of each table, or the name of a plan's file."""
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
    """Keys of [train] that all optimizers share, named as in MLPerf's log format (mllog)."""

    global_batch_size: PositiveCount
    """Number of samples of a training step, over all ranks together."""
    eval_batch_size: PositiveCount | None = None
    """Number of samples evaluated at a time; if left out, the larger of global_batch_size and 16384."""
    opt_name: str
    """Optimizer: `adagrad` (element-wise), `rowwise_adagrad` (one sum per row of a table) or `sgd`; `Adam` only for
    the models `hstu` and `d2nn`."""
    opt_base_learning_rate: Amount
    """Base learning rate, before warm-up and decay."""


@dataclass(frozen=True, kw_only=True)
class AdagradSection(TrainSection):
    """Section [train] of a definition that trains with Adagrad, element-wise or row-wise."""

    opt_name: Literal["adagrad", "rowwise_adagrad"]
    opt_adagrad_learning_rate_decay: Amount | None = None
    """Decay of the learning rate per step within Adagrad; 0 if left out."""
    opt_weight_decay: Amount | None = None
    """Weight decay; must be 0, since sparse gradients do not support it."""
    opt_adagrad_initial_accumulator_value: Amount | None = None
    """Initial value of Adagrad's sums of squared gradients; 0 if left out."""
    opt_adagrad_epsilon: Amount | None = None
    """Number added to the root of Adagrad's sums of squared gradients; 1e-8 if left out."""
    opt_learning_rate_warmup_steps: Amount | None = None
    """Number of warm-up steps, over which the learning rate grows; 0 if left out."""
    opt_learning_rate_decay_start_step: Amount | None = None
    """Number of the step from which on the learning rate decays."""
    opt_learning_rate_decay_steps: Amount | None = None
    """Number of steps over which the learning rate decays; 0, no decay, if left out."""


@dataclass(frozen=True, kw_only=True)
class SGDSection(TrainSection):
    """Section [train] of a definition that trains with stochastic gradient descent."""

    opt_name: Literal["sgd"]
    opt_learning_rate_warmup_steps: Amount | None = None
    """Number of warm-up steps, over which the learning rate grows; 0 if left out."""
    lr_decay_start_steps: Amount | None = None
    """Number of the step from which on the learning rate decays."""
    sgd_opt_base_learning_rate: Amount | None = None
    """Base learning rate under the name of older MLPerf rounds; the same as opt_base_learning_rate."""
    sgd_opt_learning_rate_decay_poly_power: Amount | None = None
    """Power of the learning rate's polynomial decay; 2 if left out."""
    sgd_opt_learning_rate_decay_steps: Amount | None = None
    """Number of steps over which the learning rate decays; 0, no decay, if left out."""


@dataclass(frozen=True, kw_only=True)
class AdamSection(TrainSection):
    """Section [train] of a definition that trains the layers with Adam and the embedding tables with row-wise
    Adagrad; its keys are named as in MLPerf's DLRMv4."""

    opt_name: Literal["Adam"]
    opt_adam_beta_1: Annotated[float, Meta(ge=0, lt=1)] = 0.9
    """Decay of Adam's running mean of gradients."""
    opt_adam_beta_2: Annotated[float, Meta(ge=0, lt=1)] = 0.999
    """Decay of Adam's running mean of squared gradients."""
    opt_adam_epsilon: Amount = 1e-8
    """Number added to the root of Adam's mean of squared gradients."""
    opt_weight_decay: Amount = 0.0
    """Weight decay; must be 0, since sparse gradients do not support it."""
    opt_gradient_clip_norm: Amount | None = None
    """Maximum norm of the layers' gradient: a gradient of larger norm is scaled down to it. No clipping if left
    out."""
    opt_sparse_name: Literal["RowWiseAdagrad"] = "RowWiseAdagrad"
    """Optimizer of the embedding tables."""
    opt_sparse_base_learning_rate: Amount | None = None
    """Learning rate of the embedding tables; the base learning rate if left out."""
    opt_learning_rate_warmup_steps: Amount | None = None
    """Number of warm-up steps, over which both learning rates grow; 0 if left out."""
    opt_learning_rate_warmup_start_lr: Amount | None = None
    """Learning rate at which warm-up begins; must be 0."""
    eval_every_data_pct: Amount | None = None
    """Share of the epoch between evaluations; must be 1 / quality.evals_per_epoch."""


TRAIN_SECTIONS: Mapping[str, type[TrainSection]] = {
    "adagrad": AdagradSection,
    "rowwise_adagrad": AdagradSection,
    "sgd": SGDSection,
    "Adam": AdamSection,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class DataConfig:
    """Section [data] of a definition: the dataset. `num_embeddings` is None if only the manifest of the prepared
    dataset has the table sizes (kind criteo).

    The keys of `parameters` depend on the kind of data. Examples are the settings of the model (teacher) that labels
    a generated click log, the preprocessing of Criteo's text files, and the Zipf exponent of synthetic ids.
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
    """Section [id_map]: the map from ids to embedding rows, applied when the dataset's splits are opened, since
    stored data holds ids, not rows."""
    id_maps: Mapping[int, Any] | None = None
    """Built id map of each table, int32 [ids, k]: the k rows whose sum is an id's embedding. None until it is
    built."""

    @property
    def mapped(self) -> "DataConfig":
        """Return the data section after the id map, as training uses it: `num_embeddings` has the number of rows of
        each mapped table, `multi_hot` the number of rows that a sample looks up in each mapped table.

        Raises ConfigError if the map does not fit the tables.
        """
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
        """Whether labels are numbers from 0 to 1 (probabilities) instead of 0 or 1; set by the parameter
        `soft_labels` of a dataset of the user's own files."""
        return self.parameters.get("soft_labels") is True

    @property
    def num_sparse(self) -> int:
        return len(self.multi_hot)

    @property
    def num_lookups(self) -> int:
        """Number of embedding rows that a sample reads, over all tables."""
        return sum(self.multi_hot)


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainConfig:
    """Section [train] of a definition: batch sizes, learning rate and optimizer.

    `optimizer` holds the remaining keys of the optimizer `opt_name`, named as in MLPerf's logs (mllog).
    """

    global_batch_size: int
    eval_batch_size: int
    opt_name: str
    opt_base_learning_rate: float
    optimizer: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class RuntimeConfig:
    """Section [runtime]: settings that may differ between systems without changing the training problem. If `threads`
    is None (in the file: `auto`, or no value), the harness chooses the number of CPU threads.

    `ranks`, `sharding`, `comm` and `grad_comm` are for implementations of several processes. They set the number of
    processes, the placement of tables on the processes, the form in which embeddings are sent, and the form in which
    dense gradients are sent.
    """

    device: str = "cpu"
    """Device that computes: `cpu`, `cuda` or `cuda:N`."""
    threads: Annotated[PositiveCount | None, Meta(extra_json_schema=_THREADS)] = None
    """Number of CPU threads of a rank, or `auto`: the fastest number by timing; with several ranks, the CPU cores
    divided among the ranks."""
    precision: Literal["fp32", "tf32", "bf16", "int8", "auto"] = "fp32"
    """Precision of matrix products. `fp32` and `bf16` work on CPUs and GPUs; a CPU without bf16 instructions emulates
    them. `tf32` works on GPUs only. `int8` works on CPUs only, for serving only. `auto` trains in bf16 if bf16 is
    measured to be faster and a calibration in bf16 met the quality target, else in fp32."""
    table_precision: Literal["fp32", "fp16", "int8", "int4"] = "fp32"
    """Precision of the embedding rows of a model that answers queries (serving); training takes `fp32` alone."""
    graph: Literal["auto", "off"] = "auto"
    """Whether the implementation `optimized` captures its training step on a GPU as a CUDA graph; `off` launches each
    operator, for diagnosis."""
    kernels: Literal["auto", "off"] = "auto"
    """Whether the implementation `optimized` uses its own compiled kernels, by Triton on a GPU and in C on a CPU,
    where they can be compiled; `off` uses torch's operators alone."""
    implementation: str = "reference"
    """Code that trains: `reference`, `optimized`, `torchrec`, or an entry point of an installed package."""
    ranks: PositiveCount = 1
    """Number of processes of one run; more than one only with the implementation `torchrec`."""
    sharding: Annotated[str, Meta(extra_json_schema=_SHARDING)] = "auto"
    """Placement of tables on ranks; `auto` is TorchRec's planner, `plan:0,1+2` puts table 0 on rank 0 and halves of
    the columns of table 1 on ranks 1 and 2."""
    comm: str = "fp32"
    """Precision in which ranks send embeddings and their gradients: `fp32`, `fp16`, `int8`, on GPUs also `bf16`,
    `fp8`; or two of them as forward/backward, such as fp16/bf16."""
    grad_comm: str = "dense"
    """Compression of dense gradients between ranks: `dense` (none), `fp16`, `powersgd:RANK` or `topk:DENSITY`."""


def parse_train(table: Mapping[str, Any]) -> TrainConfig:
    """Read the section [train] with the keys of any optimizer. Raises ConfigError naming the invalid field."""
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
    """Return whether a sharding plan lists the rank of each table, as in plan:0,1, instead of naming a plan file."""
    return re.fullmatch(_PLANNED, sharding, re.ASCII) is not None


def parse_sharding(text: str) -> tuple[tuple[int, ...], ...] | None:
    """Return the ranks of each table from a sharding plan such as plan:0,1+2, one rank per equal part of the columns.

    Returns None if `text` is a sharding type. Raises ConfigError for any other text.
    """
    if text in SHARDING_TYPES:
        return None
    if not text.startswith(PLAN):
        raise ConfigError(f"runtime.sharding is {text!r}.{did_you_mean(text, [*SHARDING_TYPES])}")
    if not is_written_out(text):
        raise ConfigError(
            f"runtime.sharding is {text!r}, expected a plan file written by 'dlrmbench place -o', or the rank of "
            "each table such as plan:0,1,0+1, where a table's columns are shared by the ranks 0 and 1."
        )
    return tuple(tuple(map(int, ranks.split("+"))) for ranks in text.removeprefix(PLAN).split(","))


def parse_comm(text: str) -> tuple[str, str]:
    """Return the precisions in which ranks send embeddings (forward) and their gradients (backward).

    "fp16" sets both, "fp16/bf16" one each. Raises ConfigError for an unknown precision.
    """
    names = tuple(text.split("/"))
    if len(names) not in (1, 2) or any(name not in COMM_PRECISIONS for name in names):
        raise ConfigError(
            f"runtime.comm is {text!r}, expected one of {', '.join(COMM_PRECISIONS)}, or two of them as "
            "forward/backward, such as fp16/bf16."
        )
    return names[0], names[-1]


def parse_grad_comm(text: str) -> tuple[str, float]:
    """Return the scheme that compresses dense gradients between ranks, and its parameter.

    The parameter is R of powersgd:R, the density D of topk:D, 0 of other schemes. Raises ConfigError for any other
    text.
    """
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

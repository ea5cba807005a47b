"""Torch-free configuration of data, training and runtime, parsed from a definition's opaque sections.

Every check names the field, the value given, the values allowed. [train] is written in mllog keys.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from reference_models.process.errors import ConfigError, did_you_mean

SHARDING_TYPES = (
    "auto", "data_parallel", "table_wise", "column_wise", "row_wise", "table_row_wise", "table_column_wise",
    "grid_shard",
)  # fmt: skip
"""How embedding tables may lie over ranks: TorchRec's sharding types, or what its planner chooses."""
EXCHANGE_PRECISIONS = ("fp32", "fp16", "bf16", "fp8", "int8")
"""Precisions of the embedding exchange (torchrec's CommType)."""
NUM_CRITEO_DENSE = 13
NUM_CRITEO_SPARSE = 26
_COMMON_TRAIN = ("global_batch_size", "eval_batch_size", "opt_name", "opt_base_learning_rate")
_ADAGRAD = (
    "opt_adagrad_learning_rate_decay",
    "opt_weight_decay",
    "opt_adagrad_initial_accumulator_value",
    "opt_adagrad_epsilon",
    "opt_learning_rate_warmup_steps",
    "opt_learning_rate_decay_start_step",
    "opt_learning_rate_decay_steps",
)
_SGD = (
    "opt_learning_rate_warmup_steps",
    "lr_decay_start_steps",
    "sgd_opt_base_learning_rate",
    "sgd_opt_learning_rate_decay_poly_power",
    "sgd_opt_learning_rate_decay_steps",
)
TRAIN_KEYS: Mapping[str, tuple[str, ...]] = {"adagrad": _ADAGRAD, "rowwise_adagrad": _ADAGRAD, "sgd": _SGD}


class Section:
    """One table of a definition with typed access; raises ConfigError naming `section.key`."""

    def __init__(self, name: str, table: Mapping[str, Any], known: tuple[str, ...]) -> None:
        self.name, self.table = name, table
        for key in table:
            if key not in known:
                raise ConfigError(f"unknown key {name}.{key}.{did_you_mean(key, list(known))}")

    def fail(self, key: str, expected: str) -> ConfigError:
        if key not in self.table:
            return ConfigError(f"{self.name}.{key} is missing, expected {expected}.")
        return ConfigError(f"{self.name}.{key} is {self.table[key]!r}, expected {expected}.")

    def whole(self, key: str, *, low: int, default: int | None = None) -> int:
        value = self.table.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or value < low:
            raise self.fail(key, f"a whole number of at least {low}")
        return value

    def optional_whole(self, key: str, *, low: int) -> int | None:
        return None if self.table.get(key) is None else self.whole(key, low=low)

    def number(self, key: str, *, low: float, high: float = float("inf"), default: float | None = None) -> float:
        value = self.table.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
            raise self.fail(
                key, f"a number of at least {low}" + ("" if high == float("inf") else f", at most {high}")
            )
        return float(value)

    def text(self, key: str, *, allowed: tuple[str, ...] = (), default: str | None = None) -> str:
        value = self.table.get(key, default)
        if not isinstance(value, str):
            raise self.fail(key, "a string")
        if allowed and value not in allowed:
            raise ConfigError(f"{self.name}.{key} is {value!r}.{did_you_mean(value, list(allowed))}")
        return value

    def wholes(self, key: str, *, low: int, default: tuple[int, ...] | None = None) -> tuple[int, ...]:
        value = self.table.get(key, default)
        if not isinstance(value, list | tuple) or not value:
            raise self.fail(key, "a list of whole numbers")
        if any(isinstance(x, bool) or not isinstance(x, int) or x < low for x in value):
            raise self.fail(key, f"a list of whole numbers of at least {low}")
        return tuple(value)

    def mapping(self, key: str) -> Mapping[str, Any]:
        value = self.table.get(key, {})
        if not isinstance(value, Mapping):
            raise self.fail(key, "a table")
        return value


@dataclass(frozen=True, kw_only=True, slots=True)
class DataConfig:
    """One dataset. `num_embeddings` is None where the prepared dataset's manifest decides (kind criteo).

    `parameters` belongs to the kind: the teacher's of a click log, the preprocessing of Criteo text, the ids'
    Zipf exponent of made-up data.
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
    optimizer: Mapping[str, float]


@dataclass(frozen=True, kw_only=True, slots=True)
class RuntimeConfig:
    """What may differ between systems without changing the problem. `threads` None means the quota's cores.

    `ranks`, `sharding`, `comm` and `grad_comm` belong to implementations of several processes: how many there are,
    how tables lie over them, and in which form embeddings and dense gradients travel.
    """

    device: str
    threads: int | None
    precision: str
    implementation: str
    ranks: int = 1
    sharding: str = "auto"
    comm: str = "fp32"
    grad_comm: str = "dense"


def parse_train(table: Mapping[str, Any]) -> TrainConfig:
    opt_name = table.get("opt_name")
    if not isinstance(opt_name, str) or opt_name not in TRAIN_KEYS:
        given = opt_name if isinstance(opt_name, str) else repr(opt_name)
        raise ConfigError(f"train.opt_name is {given!r}.{did_you_mean(given, list(TRAIN_KEYS))}")
    section = Section("train", table, _COMMON_TRAIN + TRAIN_KEYS[opt_name])
    batch_size = section.whole("global_batch_size", low=1)
    return TrainConfig(
        global_batch_size=batch_size,
        eval_batch_size=section.whole("eval_batch_size", low=1, default=max(batch_size, 16384)),
        opt_name=opt_name,
        opt_base_learning_rate=section.number("opt_base_learning_rate", low=0.0),
        optimizer={key: section.number(key, low=0.0) for key in TRAIN_KEYS[opt_name] if key in table},
    )


def parse_runtime(table: Mapping[str, Any]) -> RuntimeConfig:
    section = Section(
        "runtime",
        table,
        ("device", "threads", "precision", "implementation", "ranks", "sharding", "comm", "grad_comm"),
    )
    comm, grad_comm = section.text("comm", default="fp32"), section.text("grad_comm", default="dense")
    parse_comm(comm)
    parse_grad_comm(grad_comm)
    return RuntimeConfig(
        device=section.text("device", default="cpu"),
        threads=None if table.get("threads", "auto") == "auto" else section.whole("threads", low=1),
        precision=section.text("precision", allowed=("fp32", "tf32", "bf16"), default="fp32"),
        implementation=section.text("implementation", default="reference"),
        ranks=section.whole("ranks", low=1, default=1),
        sharding=section.text("sharding", allowed=SHARDING_TYPES, default="auto"),
        comm=comm,
        grad_comm=grad_comm,
    )


def parse_comm(text: str) -> tuple[str, str]:
    """Precisions of the embedding exchange forward and backward: "fp16" is both, "fp16/bf16" one each."""
    names = tuple(text.split("/"))
    if len(names) not in (1, 2) or any(name not in EXCHANGE_PRECISIONS for name in names):
        raise ConfigError(
            f"runtime.comm is {text!r}, expected one of {', '.join(EXCHANGE_PRECISIONS)}, or two of them as "
            "forward/backward, such as fp16/bf16."
        )
    return names[0], names[-1]


def parse_grad_comm(text: str) -> tuple[str, float]:
    """The scheme of the dense gradients' exchange and its parameter: rank of powersgd:R, density of topk:D."""
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

"""Adagrad, row-wise Adagrad, SGD and Adam over sparse and dense gradients, and the learning rate policy."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from reference_models.config.sections import TrainConfig
from reference_models.fused.merged_embedding import join_tables, split_tables
from reference_models.process.errors import ConfigError
from reference_models.training.eager import SGD, Adagrad, Adam, EagerOptimizer

MIN_LEARNING_RATE = 1e-7
RATE_FACTOR = "rate_factor"
"""Key of a parameter group of an optimizer. Its value is a factor: the group's learning rate is the base learning
rate times this factor."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LearningRatePolicy:
    """Learning rate as a function of the step: linear warm-up, constant part, polynomial decay, constant end
    (LRPolicyScheduler of facebookresearch/dlrm).

    If there are both a warm-up and a decay, the warm-up ends one step short of the base rate, and the constant part
    keeps the rate reached: base * (warmup_steps - 1) / warmup_steps. LRPolicyScheduler does so, too. If there is no
    warm-up or no decay, the constant part has the base rate.
    """

    base: float
    warmup_steps: int = 0
    decay_start_step: int = 0
    decay_steps: int = 0
    decay_power: float = 2.0

    def __post_init__(self) -> None:
        if self.decay_steps > 0 and self.decay_start_step < self.warmup_steps:
            raise ConfigError(
                f"train: the learning rate's decay starts at step {self.decay_start_step}, before its warm-up of "
                f"{self.warmup_steps} steps ends. Start it later or shorten the warm-up."
            )

    def at(self, step: int) -> float:
        """Return the learning rate of training step number `step`, counted from 1."""
        if step < self.warmup_steps:
            return self.base * step / self.warmup_steps
        if self.decay_steps == 0:
            return self.base
        if step < self.decay_start_step:
            return self.base * max(self.warmup_steps - 1, 1) / max(self.warmup_steps, 1)
        remaining = max(1, self.decay_start_step + self.decay_steps - step)
        return max(MIN_LEARNING_RATE, self.base * math.pow(remaining / self.decay_steps, self.decay_power))


class SparseAdagrad(EagerOptimizer):
    """Adagrad over the table rows that a sparse gradient touches. Its results equal those of torch.optim.Adagrad.

    Rows that occur several times in the gradient are first added up. Then sum += g^2; p -= lr / (1 + (step - 1) *
    lr_decay) * g / (sqrt(sum) + eps). With `rowwise` each row has a single accumulator: sum += mean_j g_j^2
    (RWSAdagrad of facebookresearch/dlrm). If all tables are parts of one tensor, the accumulators (sum) are parts of
    one tensor, too.
    """

    def __init__(
        self,
        params: Iterable[nn.Parameter],
        *,
        lr: float,
        lr_decay: float,
        initial_accumulator_value: float,
        eps: float,
        rowwise: bool,
    ) -> None:
        defaults = {
            "lr": lr,
            "lr_decay": lr_decay,
            "weight_decay": 0.0,
            "initial_accumulator_value": initial_accumulator_value,
            "eps": eps,
            "rowwise": rowwise,
        }
        super().__init__(params, defaults)
        for group in self.param_groups:
            tables = group["params"]
            merged = join_tables(tables)
            likes = [table.detach() for table in (tables if merged is None else [merged])]
            sums = [torch.full_like(like[:, :1] if rowwise else like, initial_accumulator_value) for like in likes]
            if merged is not None:
                sums = split_tables(sums[0], list(map(len, tables)))
            for p, total in zip(tables, sums, strict=True):
                self.state[p] = {"step": 0, "sum": total}

    @property
    def update_rule(self) -> str:
        """Name of the update as a value of `train.opt_name`: adagrad or rowwise_adagrad."""
        return "rowwise_adagrad" if self.defaults["rowwise"] else "adagrad"

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Update all tables that have a gradient once, by the gradients of the last backward pass."""
        loss = None if closure is None else closure()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    self._update(p, group)
        return loss

    def _update(self, p: nn.Parameter, group: dict[str, Any]) -> None:
        assert p.grad is not None
        grad = p.grad.coalesce()
        self.update_rows(p, group, grad.indices()[0], grad.values())

    def update_rows(self, p: nn.Parameter, group: dict[str, Any], rows: torch.Tensor, values: torch.Tensor) -> None:
        """Update the distinct table rows `rows` int64 [K] once, by their gradients [K, D]."""
        state, lr = self.state[p], self._next_rate(p, group)
        squares = values * values
        total = state["sum"].index_select(0, rows) + (squares.mean(1, keepdim=True) if group["rowwise"] else squares)
        state["sum"].index_copy_(0, rows, total)
        p.index_add_(0, rows, values.div_(total.sqrt_().add_(group["eps"])), alpha=-lr)

    def update_whole(self, p: nn.Parameter, group: dict[str, Any], gradient: torch.Tensor) -> None:
        """Update the table rows whose `gradient` [rows, D] is not all zeros."""
        total, lr = self.state[p]["sum"], self._next_rate(p, group)
        squares = gradient * gradient
        total += squares.mean(1, keepdim=True) if group["rowwise"] else squares
        change = gradient / (total.sqrt() + group["eps"])
        p.add_(torch.where((gradient != 0).any(1, keepdim=True), change, 0.0), alpha=-lr)

    def _next_rate(self, p: nn.Parameter, group: dict[str, Any]) -> float:
        """Count a step of the weight `p`; return the learning rate of this step, after Adagrad's own decay."""
        state = self.state[p]
        state["step"] += 1
        return float(group["lr"] / (1 + (state["step"] - 1) * group["lr_decay"]))


def build_optimizers(
    train: TrainConfig, *, embedding_parameters: list[nn.Parameter], dense_parameters: list[nn.Parameter]
) -> list[torch.optim.Optimizer]:
    """Build an optimizer for the tables' sparse gradients and another for all other weights, as `train` says."""
    dense = build_dense_optimizer(train, dense_parameters)
    if train.opt_name == "Adam":
        return [_build_sparse_beside_adam(train, embedding_parameters), dense]
    if train.opt_name == "sgd":
        return [SGD(embedding_parameters, lr=train.opt_base_learning_rate), dense]
    options = adagrad_options(train)
    return [SparseAdagrad(embedding_parameters, rowwise=train.opt_name == "rowwise_adagrad", **options), dense]


def build_dense_optimizer(train: TrainConfig, parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
    """Build torch.optim's SGD, Adagrad or Adam for the weights of the dense layers, as `train` says."""
    if train.opt_name == "sgd":
        return SGD(parameters, lr=train.opt_base_learning_rate)
    if train.opt_name == "Adam":
        _refuse_weight_decay(train)
        keys = train.optimizer
        betas = (keys["opt_adam_beta_1"], keys["opt_adam_beta_2"])
        return Adam(parameters, lr=train.opt_base_learning_rate, betas=betas, eps=keys["opt_adam_epsilon"])
    return Adagrad(parameters, **adagrad_options(train))


def _build_sparse_beside_adam(train: TrainConfig, parameters: list[nn.Parameter]) -> SparseAdagrad:
    """Build row-wise Adagrad for the embedding tables of a model whose dense layers Adam trains; the tables have a
    learning rate of their own."""
    base = train.opt_base_learning_rate
    rate = train.optimizer.get("opt_sparse_base_learning_rate", base)
    sparse = SparseAdagrad(parameters, lr=rate, lr_decay=0.0, initial_accumulator_value=0.0, eps=1e-8, rowwise=True)
    for group in sparse.param_groups:
        group[RATE_FACTOR] = rate / base if base else 1.0
    return sparse


def _refuse_weight_decay(train: TrainConfig) -> None:
    keys = train.optimizer
    if keys.get("opt_weight_decay", 0.0) != 0.0:
        raise ConfigError(
            f"train.opt_weight_decay is {keys['opt_weight_decay']}, expected 0: sparse gradients know no decay."
        )


def adagrad_options(train: TrainConfig) -> dict[str, Any]:
    """Return the settings of Adagrad under torch.optim's names. Raises ConfigError if `train` has a weight decay."""
    keys = train.optimizer
    _refuse_weight_decay(train)
    return {
        "lr": train.opt_base_learning_rate,
        "lr_decay": keys.get("opt_adagrad_learning_rate_decay", 0.0),
        "initial_accumulator_value": keys.get("opt_adagrad_initial_accumulator_value", 0.0),
        "eps": keys.get("opt_adagrad_epsilon", 1e-8),
    }


def build_learning_rate_policy(train: TrainConfig) -> LearningRatePolicy:
    """Build the learning rate policy that `train`'s mllog keys describe; without them the learning rate is
    constant."""
    keys = train.optimizer
    is_sgd = train.opt_name == "sgd"
    start = "lr_decay_start_steps" if is_sgd else "opt_learning_rate_decay_start_step"
    steps = "sgd_opt_learning_rate_decay_steps" if is_sgd else "opt_learning_rate_decay_steps"
    base = train.opt_base_learning_rate
    if keys.get("opt_learning_rate_warmup_start_lr", 0.0) != 0.0:
        start_lr = keys["opt_learning_rate_warmup_start_lr"]
        raise ConfigError(f"train.opt_learning_rate_warmup_start_lr is {start_lr}, expected 0: warm-up begins there.")
    if keys.get("sgd_opt_base_learning_rate", base) != base:
        raise ConfigError(
            f"train.sgd_opt_base_learning_rate is {keys['sgd_opt_base_learning_rate']}, "
            f"train.opt_base_learning_rate {base}: give both the same value, they name one learning rate."
        )
    return LearningRatePolicy(
        base=base,
        warmup_steps=int(keys.get("opt_learning_rate_warmup_steps", 0)),
        decay_start_step=int(keys.get(start, 0)),
        decay_steps=int(keys.get(steps, 0)),
        decay_power=keys.get("sgd_opt_learning_rate_decay_poly_power", 2.0),
    )


def set_learning_rate(optimizers: list[torch.optim.Optimizer], learning_rate: float) -> None:
    """Set the learning rate of every parameter group for this step: `learning_rate` times the group's own factor
    (RATE_FACTOR)."""
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["lr"] = learning_rate * group.get(RATE_FACTOR, 1.0)


_UPDATES = {
    "sgd": ("sgd", "sgd"),
    "adagrad": ("adagrad", "adagrad"),
    "rowwise_adagrad": ("rowwise_adagrad", "adagrad"),
    "Adam": ("rowwise_adagrad", "Adam"),
}
"""Map from `train.opt_name` to the names of two update rules: one for the embedding tables, one for all other
weights."""
_TORCH = {torch.optim.SGD: "sgd", torch.optim.Adagrad: "adagrad", torch.optim.Adam: "Adam"}


def name_built(opt_name: str, optimizers: Sequence[Any]) -> str:
    """Return the name to log for the update that the optimizers compute: `opt_name` if they compute that update, else
    the names of their own updates.

    An optimizer of torch.optim or of dlrmbench is named by its update, such as "AdamW". Any other class, even a
    subclass of one of these, may compute something else. So "own" stands before its name: "own MomentumAdagrad".
    """
    names = tuple(_name_update(optimizer) for optimizer in optimizers)
    of_tables, of_others = _UPDATES.get(opt_name, (None, None))
    is_asked = names == (*[of_tables] * (len(names) - 1), of_others)
    return opt_name if is_asked else " and ".join(dict.fromkeys(names))


def _name_update(optimizer: Any) -> str:
    kind = type(optimizer)
    package = kind.__module__.partition(".")[0]
    if package == __package__.partition(".")[0] and "update_rule" in vars(kind):
        return str(optimizer.update_rule)
    return _TORCH.get(kind) or (kind.__name__ if package == "torch" else f"own {kind.__name__}")


def describe_optimizers(
    opt_name: str, optimizers: list[torch.optim.Optimizer], policy: LearningRatePolicy
) -> dict[str, int | float | str]:
    """Return the optimizers' settings under MLPerf's log keys (mllog), read from the optimizers' parameter groups and
    the learning rate policy. If the optimizers do not compute the update that the key opt_name names, return only the
    name of their update and the settings of the policy."""
    if (built := name_built(opt_name, optimizers)) != opt_name:
        return {
            "opt_name": built,
            "opt_base_learning_rate": policy.base,
            "opt_learning_rate_warmup_steps": policy.warmup_steps,
            "opt_learning_rate_decay_start_step": policy.decay_start_step,
            "opt_learning_rate_decay_steps": policy.decay_steps,
        }
    groups = [{**optimizer.defaults, **optimizer.param_groups[0]} for optimizer in optimizers]
    if opt_name == "Adam":
        return _describe_adam(optimizers, groups, policy)
    base = _one_value([optimizer.defaults["lr"] for optimizer in optimizers])
    common: dict[str, int | float | str] = {
        "opt_name": opt_name,
        "opt_base_learning_rate": base,
        "opt_learning_rate_warmup_steps": policy.warmup_steps,
    }
    if opt_name == "sgd":
        return common | {
            "sgd_opt_base_learning_rate": base,
            "sgd_opt_learning_rate_decay_poly_power": policy.decay_power,
            "sgd_opt_learning_rate_decay_steps": policy.decay_steps,
            "lr_decay_start_steps": policy.decay_start_step,
        }
    return common | {
        "opt_weight_decay": _one_value([group["weight_decay"] for group in groups]),
        "opt_adagrad_learning_rate_decay": _one_value([group["lr_decay"] for group in groups]),
        "opt_adagrad_initial_accumulator_value": _one_value([group["initial_accumulator_value"] for group in groups]),
        "opt_adagrad_epsilon": _one_value([group["eps"] for group in groups]),
        "opt_learning_rate_decay_start_step": policy.decay_start_step,
        "opt_learning_rate_decay_steps": policy.decay_steps,
    }


def _describe_adam(
    optimizers: list[torch.optim.Optimizer], groups: list[dict[str, Any]], policy: LearningRatePolicy
) -> dict[str, int | float | str]:
    """Return Adam's settings under the keys of MLPerf's closed_dlrmv4.yaml. Keys for tables are included only if
    there are tables."""
    dense = groups[-1]
    described: dict[str, int | float | str] = {
        "opt_name": "Adam",
        "opt_base_learning_rate": optimizers[-1].defaults["lr"],
        "opt_adam_beta_1": dense["betas"][0],
        "opt_adam_beta_2": dense["betas"][1],
        "opt_adam_epsilon": dense["eps"],
        "opt_weight_decay": _one_value([group["weight_decay"] for group in groups]),
        "opt_learning_rate_warmup_steps": policy.warmup_steps,
        "opt_learning_rate_warmup_start_lr": 0,
    }
    if len(optimizers) == 1:
        return described
    rate = optimizers[0].defaults["lr"]
    return {**described, "opt_sparse_name": "RowWiseAdagrad", "opt_sparse_base_learning_rate": rate}


def _one_value(values: list[float]) -> float:
    """Return the value of a setting that all parameter groups share; a whole number as int, as the official checker
    writes it. Raises ConfigError where the groups' values differ."""
    if any(value != values[0] for value in values):
        raise ConfigError(f"the optimizers of embeddings and dense weights differ: {values}")
    return int(values[0]) if float(values[0]).is_integer() else values[0]

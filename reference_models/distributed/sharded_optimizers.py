"""Optimizers of sharded embedding tables: FBGEMM's optimizer, which is fused into the backward pass, and one for
tables that every rank holds."""

from collections.abc import Iterator
from typing import Any

import torch
from fbgemm_gpu.split_embedding_configs import EmbOptimType
from fbgemm_gpu.split_table_batched_embeddings_ops_training import SplitTableBatchedEmbeddingBagsCodegen
from torch import nn

from reference_models.config.sections import TrainConfig
from reference_models.training.optimizers import SparseAdagrad, adagrad_options

WHOLE_ROWS = 1000
"""Maximum number of rows of a replicated table for which the optimizer updates all rows; for a larger table it lists
the rows that changed, and updates these."""
_OPTIMIZERS = {
    "sgd": EmbOptimType.EXACT_SGD,
    "adagrad": EmbOptimType.EXACT_ADAGRAD,
    "rowwise_adagrad": EmbOptimType.EXACT_ROWWISE_ADAGRAD,
}


def fused_parameters(train: TrainConfig) -> dict[str, Any]:
    """Return the optimizer settings of `train` in the form that TorchRec's sharder passes to FBGEMM's tables."""
    parameters: dict[str, Any] = {
        "optimizer": _OPTIMIZERS[train.opt_name],
        "learning_rate": train.opt_base_learning_rate,
    }
    if train.opt_name != "sgd":
        parameters["eps"] = train.optimizer.get("opt_adagrad_epsilon", 1e-8)
    return parameters


def find_fused_tables(model: nn.Module) -> list[SplitTableBatchedEmbeddingBagsCodegen]:
    """Return the modules of this rank's tables that FBGEMM updates, including the modules that TorchRec holds in
    Python lists.

    A list is no module, so `model.modules()` does not descend into it.
    """
    lookups = [lookup for module in model.modules() for lookup in getattr(module, "_lookups", ())]
    below = {id(each): each for holder in (model, *lookups) for each in holder.modules()}
    return [each for each in below.values() if isinstance(each, SplitTableBatchedEmbeddingBagsCodegen)]


class FusedTablesOptimizer:
    """Optimizer interface for the tables that this rank holds, whose updates FBGEMM runs inside the backward pass.

    If the rank holds no such table, the settings are those that the tables would have.
    """

    def __init__(self, model: nn.Module, train: TrainConfig) -> None:
        self._tables = find_fused_tables(model)
        initial = train.optimizer.get("opt_adagrad_initial_accumulator_value", 0.0)
        if train.opt_name != "sgd" and initial:
            for states in self._states():
                states[0].fill_(initial)
        built = self._tables[0].optimizer_args if self._tables else None
        self.defaults: dict[str, Any] = {
            "lr": self._built_rate(train.opt_base_learning_rate),
            "lr_decay": 0.0,
            "weight_decay": built.weight_decay if built is not None else 0.0,
            "eps": built.eps if built is not None else train.optimizer.get("opt_adagrad_epsilon", 1e-8),
            "initial_accumulator_value": initial,
        }
        self.param_groups: list[dict[str, Any]] = [dict(self.defaults)]
        self._learning_rate = self.defaults["lr"]
        of_table = {optimizer: name for name, optimizer in _OPTIMIZERS.items()}
        self._update_rule = of_table[self._tables[0].optimizer] if self._tables else train.opt_name

    def _built_rate(self, base: float) -> float:
        """Return the learning rate that the FBGEMM tables have. They store it in 32 bits; if it equals `base` rounded
        to 32 bits, `base` itself is returned."""
        found = self._tables[0].get_learning_rate() if self._tables else base
        return base if found == torch.tensor(base, dtype=torch.float32).item() else found

    @property
    def update_rule(self) -> str:
        """Name of the tables' optimizer, as a value of `train.opt_name`."""
        return self._update_rule

    def prepare(self) -> None:
        """Set the FBGEMM tables' learning rate to that of the parameter group; call it before the backward pass."""
        if self.param_groups[0]["lr"] != self._learning_rate:
            self._learning_rate = self.param_groups[0]["lr"]
            for table in self._tables:
                table.set_learning_rate(self._learning_rate)

    def zero_grad(self) -> None:
        """Do nothing: the fused updates of FBGEMM's tables leave no gradients to be zeroed."""

    def step(self) -> None:
        """Do nothing: the tables were updated in the backward pass."""

    def state_dict(self) -> dict[str, Any]:
        return {"state": list(self._states()), "param_groups": self.param_groups}

    def _states(self) -> Iterator[Any]:
        for table in self._tables:
            yield from table.split_optimizer_states()


class TouchedRowsAdagrad(SparseAdagrad):
    """Variant of SparseAdagrad for tables with dense gradients: tables that every rank holds have such gradients,
    since the ranks' gradients are averaged.

    In a large table only the touched rows are updated. In a small table all rows are updated, since listing the
    touched rows would make the host wait for a GPU.
    """

    update_rule = SparseAdagrad.update_rule

    def _update(self, p: nn.Parameter, group: dict[str, Any]) -> None:
        gradient = p.grad
        assert gradient is not None
        if len(p) <= WHOLE_ROWS:
            self.update_whole(p, group, gradient)
            return
        rows = gradient.abs().amax(1).nonzero().squeeze(1)
        self.update_rows(p, group, rows, gradient.index_select(0, rows))


def build_replicated_optimizer(train: TrainConfig, parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
    """Build the optimizer of the embedding tables that every rank holds."""
    if train.opt_name == "sgd":
        return torch.optim.SGD(parameters, lr=train.opt_base_learning_rate)
    return TouchedRowsAdagrad(parameters, rowwise=train.opt_name == "rowwise_adagrad", **adagrad_options(train))

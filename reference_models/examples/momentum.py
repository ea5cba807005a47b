"""A complete optimizer as user code: Adagrad with momentum for dense weights, on the shipped DLRM.

    dlrmbench run dlrm_tiny --implementation momentum.py:MomentumWorkload

The log then says opt_name "adagrad and own MomentumAdagrad": it names what was built. The closed division of
dlrm_tiny demands adagrad, so that such runs are INVALID there; `--division open` allows them.
"""

from typing import Any

import torch

from reference_models.dlrm.reference import ReferenceWorkload
from reference_models.training.loop import Built


class MomentumAdagrad(torch.optim.Optimizer):
    """Adagrad with momentum: sum += g^2; m = beta m + (1 - beta) g / (sqrt(sum) + eps); p -= lr m."""

    def __init__(self, params: list[torch.nn.Parameter], lr: float, beta: float = 0.5, eps: float = 1e-8) -> None:
        super().__init__(params, {"lr": lr, "beta": beta, "eps": eps})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Update all weights once, at the learning rate that the training loop has set in the parameter groups."""
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                state = self.state[parameter]
                if not state:
                    state["sum"], state["momentum"] = torch.zeros_like(parameter), torch.zeros_like(parameter)
                state["sum"].addcmul_(parameter.grad, parameter.grad)
                scaled = parameter.grad / (state["sum"].sqrt() + group["eps"])
                state["momentum"].mul_(group["beta"]).add_(scaled, alpha=1 - group["beta"])
                parameter.add_(state["momentum"], alpha=-group["lr"])


class MomentumWorkload(ReferenceWorkload):
    """DLRM's reference implementation with MomentumAdagrad as the optimizer of the layers; tables have the same
    optimizer as in the reference."""

    name = "momentum"

    def build_model(self, num_embeddings: tuple[int, ...]) -> Built:
        """Build the model and optimizers of the reference DLRM, with the layers' optimizer replaced by momentum
        Adagrad."""
        model, (tables, _) = super().build_model(num_embeddings)
        return model, [tables, MomentumAdagrad(model.dense_parameters(), self.spec.train.opt_base_learning_rate)]

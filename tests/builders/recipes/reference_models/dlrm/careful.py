"""The reference with a look at the loss after every step: says at which one training diverges, and waits for each."""

from typing import Any

import torch

from reference_models.data.store.dataset import Batch
from reference_models.dlrm.reference import ReferenceWorkload


class CarefulWorkload(ReferenceWorkload):
    """The reference, which raises NotFiniteError at the very step."""

    name = "careful"

    def train_step(self, model: Any, optimizers: list[torch.optim.Optimizer], batch: Batch) -> torch.Tensor:
        loss = super().train_step(model, optimizers, batch)
        self.check_loss(loss)
        return loss

"""The reference, stopped at the operation that makes the first NaN: slow, to find out why a run diverges."""

from typing import Any

import torch

from reference_models.data.store.dataset import Batch
from reference_models.dlrm.reference import ReferenceWorkload


class AnomalyWorkload(ReferenceWorkload):
    """The reference under autograd's watch."""

    name = "anomaly"

    def _train_step(self, model: Any, optimizers: list[torch.optim.Optimizer], batch: Batch) -> torch.Tensor:
        with torch.autograd.set_detect_anomaly(True):
            return super()._train_step(model, optimizers, batch)

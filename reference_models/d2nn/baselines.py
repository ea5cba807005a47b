"""Models simpler than the optical network that must miss the quality target: if they reached it, the target would be
too easy.

One is a linear classifier of pixels, without light. The other is an optical network whose shared masks are not
trained. The target was calibrated with the full optical network.
"""

from typing import Any

import torch
from torch import nn

from reference_models.d2nn.config import require_patterns
from reference_models.d2nn.model import D2NN
from reference_models.d2nn.reference import ReferenceWorkload
from reference_models.data.patterns.teacher import PatternShape


class LinearClassifier(nn.Module):
    """Linear classifier of the pixels for each task. It cannot tell apart classes of the same mean image, and the
    mean image of every class of generated patterns is grey."""

    def __init__(self, shape: PatternShape) -> None:
        super().__init__()
        self.shape = shape
        self.layer = nn.Linear(shape.side**2, shape.num_tasks * shape.num_classes)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        """Compute the logits [B, T, K] (tasks, classes) of patterns [B, P] (pixels)."""
        logits: torch.Tensor = self.layer(pixels).unflatten(1, (self.shape.num_tasks, self.shape.num_classes))
        return logits


class LinearWorkload(ReferenceWorkload):
    """Workload (training on a dataset) of a linear classifier of pixels for each task."""

    name = "linear"

    def make_model(self) -> nn.Module:
        return LinearClassifier(require_patterns(self.spec.model, self.spec.data))


class UntrainedSharedWorkload(ReferenceWorkload):
    """Workload (training on a dataset) that trains only the masks that belong to one task each; the masks that all
    tasks share keep their small initial phases, which hardly change the light."""

    name = "untrained_shared"

    def make_model(self) -> Any:
        model = D2NN(self.spec.model, require_patterns(self.spec.model, self.spec.data))
        model.shared.requires_grad_(False)
        return model

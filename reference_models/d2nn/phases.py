"""Phases of a training step of the optical network, with their labels in profiles."""

from collections.abc import Mapping
from enum import StrEnum

from reference_models.training.phases import Phase as LoopPhase
from reference_models.training.phases import label_phases


class D2NNPhase(StrEnum):
    """Phase of a training step of the optical network, as a profile shows it."""

    DATA = LoopPhase.DATA
    PROPAGATION_FORWARD = "propagation_forward"
    """Forward pass of light through the masks and the Fourier transforms between them, up to the light's
    intensity."""
    DETECTION_FORWARD = "detection_forward"
    LOSS = LoopPhase.LOSS
    ZERO_GRAD = LoopPhase.ZERO_GRAD
    DETECTION_BACKWARD = "detection_backward"
    PROPAGATION_BACKWARD = "propagation_backward"
    DENSE_OPTIMIZER = LoopPhase.DENSE_OPTIMIZER
    """Update of the masks' phases by the optimizer."""
    OTHER = LoopPhase.OTHER


LABELS: Mapping[str, str] = {**label_phases(D2NNPhase), D2NNPhase.DENSE_OPTIMIZER: "mask optimizer"}

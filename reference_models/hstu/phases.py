"""Phases of a training step of HSTU, with their labels in profiles."""

from collections.abc import Mapping
from enum import StrEnum

from reference_models.training.phases import Phase as LoopPhase
from reference_models.training.phases import label_phases


class HSTUPhase(StrEnum):
    """Phase of a training step of HSTU, as a profile shows it."""

    DATA = LoopPhase.DATA
    EMBEDDING_FORWARD = LoopPhase.EMBEDDING_FORWARD
    LAYERS_FORWARD = "layers_forward"
    """Forward pass that makes the tokens and runs the HSTU layers."""
    HEAD_FORWARD = "head_forward"
    """Forward pass of the MLP of the candidate's item and of the head, which computes the logit."""
    LOSS = LoopPhase.LOSS
    ZERO_GRAD = LoopPhase.ZERO_GRAD
    HEAD_BACKWARD = "head_backward"
    LAYERS_BACKWARD = "layers_backward"
    EMBEDDING_BACKWARD = LoopPhase.EMBEDDING_BACKWARD
    SPARSE_OPTIMIZER = LoopPhase.SPARSE_OPTIMIZER
    DENSE_OPTIMIZER = LoopPhase.DENSE_OPTIMIZER
    """Clipping of the dense weights' gradient, and their update by the optimizer."""
    OTHER = LoopPhase.OTHER


LABELS: Mapping[str, str] = label_phases(HSTUPhase)

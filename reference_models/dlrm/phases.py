"""Phases of DLRM's training step in the order of the reference implementation, with their labels. Torch-free."""

from collections.abc import Mapping
from enum import StrEnum

from reference_models.training.phases import Phase as LoopPhase
from reference_models.training.phases import label_phases


class DLRMPhase(StrEnum):
    """Phase of a training step of DLRM, as a profile shows it."""

    DATA = LoopPhase.DATA
    REPLAY = LoopPhase.REPLAY
    BOTTOM_MLP_FORWARD = "bottom_mlp_forward"
    EMBEDDING_FORWARD = LoopPhase.EMBEDDING_FORWARD
    INTERACTION_FORWARD = "interaction_forward"
    """Forward pass of the interaction: concatenation of the vectors, then dot products of pairs or cross layers."""
    TOP_MLP_FORWARD = "top_mlp_forward"
    LOSS = LoopPhase.LOSS
    ZERO_GRAD = LoopPhase.ZERO_GRAD
    TOP_MLP_BACKWARD = "top_mlp_backward"
    INTERACTION_BACKWARD = "interaction_backward"
    EMBEDDING_BACKWARD = LoopPhase.EMBEDDING_BACKWARD
    BOTTOM_MLP_BACKWARD = "bottom_mlp_backward"
    SPARSE_OPTIMIZER = LoopPhase.SPARSE_OPTIMIZER
    DENSE_OPTIMIZER = LoopPhase.DENSE_OPTIMIZER
    OTHER = LoopPhase.OTHER


LABELS: Mapping[str, str] = label_phases(DLRMPhase)

"""The phases of DLRM's training step, in the order in which the reference goes through it. Torch-free."""

from collections.abc import Mapping
from enum import StrEnum

from reference_models.training.phases import Phase as LoopPhase


class Phase(StrEnum):
    """What a training step of DLRM is made of."""

    DATA = LoopPhase.DATA
    BOTTOM_MLP_FORWARD = "bottom_mlp_forward"
    EMBEDDING_FORWARD = "embedding_forward"
    INTERACTION_FORWARD = "interaction_forward"
    """Bringing the vectors together, and the dot products or cross layers."""
    TOP_MLP_FORWARD = "top_mlp_forward"
    LOSS = LoopPhase.LOSS
    ZERO_GRAD = LoopPhase.ZERO_GRAD
    TOP_MLP_BACKWARD = "top_mlp_backward"
    INTERACTION_BACKWARD = "interaction_backward"
    EMBEDDING_BACKWARD = "embedding_backward"
    BOTTOM_MLP_BACKWARD = "bottom_mlp_backward"
    SPARSE_OPTIMIZER = LoopPhase.SPARSE_OPTIMIZER
    DENSE_OPTIMIZER = LoopPhase.DENSE_OPTIMIZER
    OTHER = LoopPhase.OTHER


LABELS: Mapping[str, str] = {
    Phase.DATA: "data",
    Phase.BOTTOM_MLP_FORWARD: "bottom MLP fwd",
    Phase.EMBEDDING_FORWARD: "embedding fwd",
    Phase.INTERACTION_FORWARD: "interaction fwd",
    Phase.TOP_MLP_FORWARD: "top MLP fwd",
    Phase.LOSS: "loss",
    Phase.ZERO_GRAD: "zero gradients",
    Phase.TOP_MLP_BACKWARD: "top MLP bwd",
    Phase.INTERACTION_BACKWARD: "interaction bwd",
    Phase.EMBEDDING_BACKWARD: "embedding bwd",
    Phase.BOTTOM_MLP_BACKWARD: "bottom MLP bwd",
    Phase.SPARSE_OPTIMIZER: "sparse optimizer",
    Phase.DENSE_OPTIMIZER: "dense optimizer",
    Phase.OTHER: "other",
}

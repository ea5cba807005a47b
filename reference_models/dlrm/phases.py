"""The phases of DLRM's training step, in the order in which the reference goes through it. Torch-free."""

from collections.abc import Mapping
from enum import StrEnum

from reference_models.training.phases import Phase as LoopPhase


class Phase(StrEnum):
    """What a training step of DLRM is made of."""

    DATA = LoopPhase.DATA
    REPLAY = LoopPhase.REPLAY
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


def _label(phase: Phase) -> str:
    """Write a phase as tables and charts do: 'bottom MLP fwd'."""
    words = {"mlp": "MLP", "forward": "fwd", "backward": "bwd", "grad": "gradients"}
    return " ".join(words.get(word, word) for word in phase.value.split("_"))


LABELS: Mapping[str, str] = {phase: _label(phase) for phase in Phase}

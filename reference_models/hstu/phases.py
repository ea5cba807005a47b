"""The phases of a training step of HSTU, with their labels."""

from collections.abc import Mapping
from enum import StrEnum

from reference_models.training.phases import Phase as LoopPhase


class Phase(StrEnum):
    """What a training step is made of."""

    DATA = LoopPhase.DATA
    EMBEDDING_FORWARD = "embedding_forward"
    LAYERS_FORWARD = "layers_forward"
    """Making tokens, and the HSTU layers."""
    HEAD_FORWARD = "head_forward"
    """The MLPs of the item and of the logit."""
    LOSS = LoopPhase.LOSS
    ZERO_GRAD = LoopPhase.ZERO_GRAD
    HEAD_BACKWARD = "head_backward"
    LAYERS_BACKWARD = "layers_backward"
    EMBEDDING_BACKWARD = "embedding_backward"
    SPARSE_OPTIMIZER = LoopPhase.SPARSE_OPTIMIZER
    DENSE_OPTIMIZER = LoopPhase.DENSE_OPTIMIZER
    """Cutting the gradient, and the update."""
    OTHER = LoopPhase.OTHER


def _label(phase: Phase) -> str:
    words = {"forward": "fwd", "backward": "bwd", "grad": "gradients"}
    return " ".join(words.get(word, word) for word in phase.value.split("_"))


LABELS: Mapping[str, str] = {phase: _label(phase) for phase in Phase}

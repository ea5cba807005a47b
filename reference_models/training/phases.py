"""The phases of a training step, and the seam by which an implementation tells which one it is in.

An implementation that can be profiled has `telling_phases`. Inside it, each step calls `enter(phase)` where a phase
begins; the phase lasts until the next call. The first call of a step is `enter(Phase.DATA)`, and what belongs to no
phase is entered as OTHER. Phases may be entered more than once per step, in any order, or be missing: one that
applies a sparse update inside its backward pass enters SPARSE_OPTIMIZER only. Outside of `telling_phases` the calls
go to `tell_nobody`, which costs tens of nanoseconds.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from enum import StrEnum
from typing import Protocol, runtime_checkable


class Phase(StrEnum):
    """What a training step is made of, in the order in which the reference goes through it."""

    DATA = "data"
    """Reading a batch, checking it, copying it to the device, setting the learning rate."""
    BOTTOM_MLP_FORWARD = "bottom_mlp_forward"
    EMBEDDING_FORWARD = "embedding_forward"
    INTERACTION_FORWARD = "interaction_forward"
    """Bringing the vectors together, and the dot products or cross layers."""
    TOP_MLP_FORWARD = "top_mlp_forward"
    LOSS = "loss"
    """Of the logits: its value and its gradient."""
    ZERO_GRAD = "zero_grad"
    """Freeing or zeroing the last step's gradients."""
    TOP_MLP_BACKWARD = "top_mlp_backward"
    INTERACTION_BACKWARD = "interaction_backward"
    EMBEDDING_BACKWARD = "embedding_backward"
    BOTTOM_MLP_BACKWARD = "bottom_mlp_backward"
    SPARSE_OPTIMIZER = "sparse_optimizer"
    DENSE_OPTIMIZER = "dense_optimizer"
    OTHER = "other"
    """What belongs to no phase: the loop itself."""


Enter = Callable[[Phase], None]


def tell_nobody(phase: Phase) -> None:
    """Where phases go while nobody measures them."""


@runtime_checkable
class TellsPhases(Protocol):
    """A workload that can say which phase it is in."""

    def telling_phases(self, enter: Enter) -> AbstractContextManager[None]:
        """While inside, call `enter` where a phase of `train` begins. Numbers stay the same, bit for bit.

        On a CUDA device `enter` may be called by autograd's threads, and records an event on the current stream.
        """

"""The phases of a training step, and how an implementation reports which one it is in.

An implementation that can be profiled has `report_phases`. Inside it, each step calls `enter(phase)` where a phase
begins; the phase lasts until the next call. The first call of a step is `enter(Phase.DATA)`, and what belongs to no
phase is entered as OTHER. Phases may be entered more than once per step, in any order, or be missing: one that
applies a sparse update inside its backward pass enters SPARSE_OPTIMIZER only. Outside of `report_phases` the calls
go to `ignore_phase`, which costs tens of nanoseconds. A model's `ModelSpec` lists all its phases.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    import torch


class Phase(StrEnum):
    """The phases that the loop itself enters, and those of tables; a model adds its own."""

    DATA = "data"
    """Reading a batch, checking it, copying it to the device, setting the learning rate."""
    FORWARD = "model_forward"
    """The logits, where a model has no phases of its own for them."""
    EMBEDDING_FORWARD = "embedding_forward"
    LOSS = "loss"
    """The loss of the logits: its value and its gradient."""
    ZERO_GRAD = "zero_grad"
    """Freeing or zeroing the last step's gradients."""
    REPLAY = "graph_replay"
    """All that follows DATA, where it was captured as one graph; `TimesReplay` says what it is made of."""
    EMBEDDING_BACKWARD = "embedding_backward"
    SPARSE_OPTIMIZER = "sparse_optimizer"
    DENSE_OPTIMIZER = "dense_optimizer"
    OTHER = "other"
    """What belongs to no phase: the loop itself."""


_WORDS: Mapping[str, str] = {"mlp": "MLP", "forward": "fwd", "backward": "bwd", "grad": "gradients"}


def label_phases(phases: Iterable[str]) -> dict[str, str]:
    """Write each phase as tables and charts do: 'bottom MLP fwd'."""
    return {phase: " ".join(_WORDS.get(word, word) for word in phase.split("_")) for phase in phases}


PLAIN = label_phases(
    (
        Phase.DATA,
        Phase.FORWARD,
        Phase.LOSS,
        Phase.ZERO_GRAD,
        Phase.SPARSE_OPTIMIZER,
        Phase.DENSE_OPTIMIZER,
        Phase.OTHER,
    )
)
"""The phases of a model that has none of its own; the backward pass is in that of the loss."""
Enter = Callable[[str], None]


def ignore_phase(phase: str) -> None:
    """Take phases while nobody measures them."""


def enter_before_backward(enter: Enter, made: Mapping[str, "torch.Tensor"]) -> None:
    """Enter each phase when what made its tensor is about to be differentiated; nothing while nobody measures."""
    for phase, tensor in made.items():
        if enter is not ignore_phase and tensor.requires_grad:
            tensor.register_hook(lambda gradient, phase=phase: enter(phase))  # type: ignore[no-untyped-call]


@runtime_checkable
class TimesReplay(Protocol):
    """A workload that replays a captured step, and has timed the phases inside of it."""

    def take_replayed(self) -> dict[str, float]:
        """Return the seconds in each phase of the steps inside `report_phases` since the last call.

        They are part of what was in REPLAY. Waits for the device.
        """


@runtime_checkable
class ReportsPhases(Protocol):
    """A workload that can say which phase it is in."""

    def report_phases(self, enter: Enter) -> AbstractContextManager[None]:
        """While inside, call `enter` where a phase of `train` begins. Numbers stay the same, bit for bit.

        On a CUDA device `enter` may be called by autograd's threads, and records an event on the current stream.
        """

"""Phases of a training step, and the protocol by which an implementation reports the current phase.

An implementation that can be profiled has a method `report_phases`, which returns a context manager. Within its
`with` block, each step calls `enter(phase)` where a phase begins; the phase lasts until the next call. The first call
of a step is `enter(Phase.DATA)`. Work that belongs to no phase is entered as OTHER. A step may enter a phase several
times, in any order, or never: an implementation that applies the sparse update inside its backward pass enters only
SPARSE_OPTIMIZER for both. Outside of the `with` block the calls go to `ignore_phase`, which costs tens of
nanoseconds. A model's `ModelSpec` lists all phases of the model.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    import torch


class Phase(StrEnum):
    """Phases of a training step that the training loop itself enters, and phases of embedding tables; each model adds
    phases of its own."""

    DATA = "data"
    """Reading a batch, checking it, copying it to the device, and setting the learning rate."""
    FORWARD = "model_forward"
    """Computing the logits, in a model that reports no phases of its own."""
    EMBEDDING_FORWARD = "embedding_forward"
    LOSS = "loss"
    """Computing the loss from the logits, and the loss's gradient."""
    ZERO_GRAD = "zero_grad"
    """Freeing or zeroing the gradients of the last step."""
    REPLAY = "graph_replay"
    """Replay of a CUDA graph that has captured all phases after DATA. `TimesReplay` splits its time into these
    phases."""
    EMBEDDING_BACKWARD = "embedding_backward"
    SPARSE_OPTIMIZER = "sparse_optimizer"
    DENSE_OPTIMIZER = "dense_optimizer"
    OTHER = "other"
    """Work outside of a step's other phases: the training loop itself."""


_WORDS: Mapping[str, str] = {"mlp": "MLP", "forward": "fwd", "backward": "bwd", "grad": "gradients"}


def label_phases(phases: Iterable[str]) -> dict[str, str]:
    """Return the label of each phase in tables and charts, such as 'bottom MLP fwd' for bottom_mlp_forward."""
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
"""Labels of the phases of a model that defines no phases of its own. Its backward pass counts as part of the loss's
phase."""
Enter = Callable[[str], None]


def ignore_phase(phase: str) -> None:
    """Do nothing at the beginning of a phase: stands in for `enter` while phases are not measured."""


def enter_before_backward(enter: Enter, made: Mapping[str, "torch.Tensor"]) -> None:
    """Report phases of the backward pass: call `enter` with a phase's name when the gradient of the phase's tensor is
    computed. `made` maps phases to tensors. Do nothing unless phases are measured."""
    for phase, tensor in made.items():
        if enter is not ignore_phase and tensor.requires_grad:
            tensor.register_hook(lambda gradient, phase=phase: enter(phase))  # type: ignore[no-untyped-call]


@runtime_checkable
class TimesReplay(Protocol):
    """Workload that replays a captured training step (CUDA graph), and times the phases inside it."""

    def take_replayed(self) -> dict[str, float]:
        """Return the seconds in each phase of the steps that were replayed inside `report_phases` since the last
        call.

        The phase REPLAY includes these seconds. Waits for the device.
        """


@runtime_checkable
class ReportsPhases(Protocol):
    """Workload that reports which phase of its training step has begun, so that phases can be timed."""

    def report_phases(self, enter: Enter) -> AbstractContextManager[None]:
        """Return a context manager. Within its `with` block, training steps call `enter` with a phase's name wherever
        that phase begins. The numbers that training computes are bit for bit the same as without.

        On a CUDA device, autograd's threads may call `enter`, and `enter` records an event on the current stream.
        """

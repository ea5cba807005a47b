"""Telling the phases of `DLRM` from outside: module hooks in the forward pass, tensor hooks in the backward pass."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from reference_models.dlrm.model import DLRM
from reference_models.training.phases import Enter, Phase


@contextmanager
def telling_model_phases(model: DLRM, enter: Enter) -> Iterator[None]:
    """Enter the phases of the model's own forward and backward pass; the hooks are gone afterwards.

    A tensor's hook runs just before the operation that made the tensor is differentiated. Of the bags, which are
    differentiated in reverse order, the last one's comes first.
    """
    first_bag, last_bag = model.embedding_bags[0], model.embedding_bags[-1]
    handles = [
        _before(model.bottom_mlp, enter, Phase.BOTTOM_MLP_FORWARD),
        _before(first_bag, enter, Phase.EMBEDDING_FORWARD),
        _before(model.top_mlp, enter, Phase.TOP_MLP_FORWARD),
        _after(model.bottom_mlp, enter, None, Phase.BOTTOM_MLP_BACKWARD),
        # The last bag's vector is followed by the stacking of all vectors, which the interaction needs.
        _after(last_bag, enter, Phase.INTERACTION_FORWARD, Phase.EMBEDDING_BACKWARD),
        _after(model.interaction, enter, None, Phase.INTERACTION_BACKWARD),
        _after(model.top_mlp, enter, Phase.LOSS, Phase.TOP_MLP_BACKWARD),
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _before(module: nn.Module, enter: Enter, phase: Phase) -> torch.utils.hooks.RemovableHandle:
    def hook(module: nn.Module, inputs: Any) -> None:
        enter(phase)

    return module.register_forward_pre_hook(hook)


def _after(
    module: nn.Module, enter: Enter, phase: Phase | None, backward: Phase
) -> torch.utils.hooks.RemovableHandle:
    """Enter `phase` when the module has run, and `backward` when its output is about to be differentiated."""

    def begin_backward(gradient: torch.Tensor) -> None:
        enter(backward)

    def hook(module: nn.Module, inputs: Any, output: torch.Tensor) -> None:
        if output.requires_grad:
            output.register_hook(begin_backward)  # type: ignore[no-untyped-call]
        if phase is not None:
            enter(phase)

    return module.register_forward_hook(hook)

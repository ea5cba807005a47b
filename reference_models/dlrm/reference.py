"""The reference implementation: stock PyTorch, one process, one device; the code to learn the model from."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from reference_models.dlrm.model import DLRM
from reference_models.dlrm.phases import Phase
from reference_models.training.loop import Built, TrainingLoop
from reference_models.training.optimizers import build_optimizers
from reference_models.training.phases import Enter


class ReferenceWorkload(TrainingLoop):
    """Trains one DLRM, by modules, autograd and torch.optim."""

    name = "reference"
    model_class: type[DLRM] = DLRM

    def build_model(self, num_embeddings: tuple[int, ...]) -> Built:
        train = self.data.train
        with self.device:
            model = self.model_class(
                self.spec.model,
                num_dense=train.num_dense,
                num_embeddings=num_embeddings,
                multi_hot=train.multi_hot,
            )
        optimizers = build_optimizers(
            self.spec.train,
            embedding_parameters=model.embedding_parameters(),
            dense_parameters=model.dense_parameters(),
        )
        return model, optimizers

    @contextmanager
    def report_phases(self, enter: Enter) -> Iterator[None]:
        with super().report_phases(enter), report_model_phases(self.model, enter):
            yield


@contextmanager
def report_model_phases(model: DLRM, enter: Enter) -> Iterator[None]:
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


def _before(module: nn.Module, enter: Enter, phase: str) -> torch.utils.hooks.RemovableHandle:
    def hook(module: nn.Module, inputs: Any) -> None:
        enter(phase)

    return module.register_forward_pre_hook(hook)


def _after(module: nn.Module, enter: Enter, phase: str | None, backward: str) -> torch.utils.hooks.RemovableHandle:
    """Enter `phase` when the module has run, and `backward` when its output is about to be differentiated."""

    def begin_backward(gradient: torch.Tensor) -> None:
        enter(backward)

    def hook(module: nn.Module, inputs: Any, output: torch.Tensor) -> None:
        if output.requires_grad:
            output.register_hook(begin_backward)  # type: ignore[no-untyped-call]
        if phase is not None:
            enter(phase)

    return module.register_forward_hook(hook)

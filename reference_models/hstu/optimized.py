"""The optimized implementation: the reference's mathematics as fast as one device allows."""

import torch

from reference_models.hstu.fused_layers import FusedHSTU
from reference_models.hstu.reference import ReferenceWorkload
from reference_models.training.loop import Built


class OptimizedWorkload(ReferenceWorkload):
    """Trains one `FusedHSTU`: jagged sequences, attention in place, Adam in one call, batches read ahead."""

    name = "optimized"
    reads_ahead = True
    model_class = FusedHSTU

    def build_model(self, num_embeddings: tuple[int, ...]) -> Built:
        model, optimizers = super().build_model(num_embeddings)
        for group in optimizers[-1].param_groups:
            group["fused"] = True
        for weight in model.embedding_parameters():  # the backward pass adds up rows; autograd forgets that it did
            weight.register_post_accumulate_grad_hook(mark_coalesced)
        return model, optimizers


def mark_coalesced(weight: torch.Tensor) -> None:
    """Say of a sparse gradient that its rows are sorted, each there once: no step sorts them again."""
    assert weight.grad is not None
    weight.grad._coalesced_(True)

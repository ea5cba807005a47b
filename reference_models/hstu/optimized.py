"""Optimized implementation of HSTU: the same mathematics as the reference implementation, faster on one device."""

import torch

from reference_models.hstu.fused_layers import FusedHSTU
from reference_models.hstu.reference import ReferenceWorkload
from reference_models.training.loop import Built


class OptimizedWorkload(ReferenceWorkload):
    """Workload that trains a `FusedHSTU`: sequences without padding, attention computed in place, Adam in one call,
    and batches read ahead by a thread."""

    name = "optimized"
    reads_ahead = True
    model_class = FusedHSTU

    def build_model(self, num_embeddings: tuple[int, ...]) -> Built:
        model, optimizers = super().build_model(num_embeddings)
        for group in optimizers[-1].param_groups:
            group["fused"] = True
        for weight in model.embedding_parameters():  # the backward pass adds up equal rows; autograd drops the mark
            weight.register_post_accumulate_grad_hook(mark_coalesced)
        return model, optimizers


def mark_coalesced(weight: torch.Tensor) -> None:
    """Mark a weight's sparse gradient as coalesced (sorted, each row once), so that optimizers do not sort it
    again."""
    assert weight.grad is not None
    weight.grad._coalesced_(True)

"""Optimized implementation of the optical network: the same mathematics as the reference implementation, faster."""

from reference_models.d2nn.fused_hops import FusedD2NN
from reference_models.d2nn.reference import ReferenceWorkload
from reference_models.training.loop import Built


class OptimizedWorkload(ReferenceWorkload):
    """Workload (training on a dataset) that trains a `FusedD2NN`: Fourier transforms skip dark rows, Adam updates all
    weights in one call, and a thread reads the next batches."""

    name = "optimized"
    reads_ahead = True
    model_class = FusedD2NN

    def build_model(self, num_embeddings: tuple[int, ...]) -> Built:
        model, optimizers = super().build_model(num_embeddings)
        for group in optimizers[-1].param_groups:
            group["fused"] = True
        return model, optimizers

"""The optimized implementation on a CUDA device: a step that is captured once as a graph and replayed.

No launch of a kernel costs host time. Not run on a GPU: tests replay a recording of its operators on a CPU.
Tables are merged and updated as on a CPU, in tensors of fixed shapes; the dense part is differentiated by autograd
while it is captured. What changes from step to step, the batch and the learning rates, is in fixed buffers.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import nn

from reference_models.data.store.dataset import Batch, ClickDataset
from reference_models.dlrm.fused_step import FusedDLRM
from reference_models.dlrm.model import DLRM
from reference_models.dlrm.optimized import OptimizedWorkload
from reference_models.dlrm.reference import ReferenceWorkload
from reference_models.fused.dense_parameters import adopt
from reference_models.fused.kernel_check import kernel_problem
from reference_models.fused.merged_embedding import LookupPlan, MergedEmbedding
from reference_models.training.loop import Built, synthetic_batch
from reference_models.training.phases import Enter, Phase

_UNKNOWN = "not tried"
"""Of kernels, before they are."""


def pinned(batch: Batch) -> Batch:
    """Copy the batch to page-locked memory, from which copies to the device need not be waited for."""
    return Batch(batch.dense.pin_memory(), batch.indices.pin_memory(), batch.labels.pin_memory())


class StepOnTensors:
    """One step in tensors of fixed addresses and shapes; runs on any device, and can be captured on CUDA."""

    def __init__(
        self, model: DLRM, embedding: MergedEmbedding, optimizers: list[torch.optim.Optimizer], *, autocasts: bool
    ) -> None:
        self._model, self._embedding, self._autocasts = model, embedding, autocasts
        self._optimizers = optimizers
        self._eps = [optimizer.param_groups[0].get("eps", 0.0) for optimizer in optimizers]
        self._dense = [adopt(parameter, optimizers[1]) for parameter in model.dense_parameters()]
        self._plans: dict[int, LookupPlan] = {}

    def plan(self, num_samples: int) -> LookupPlan:
        """Find what depends on the batch size alone; computed at the first call, which must not be in a capture."""
        if num_samples not in self._plans:
            self._plans[num_samples] = self._embedding.plan(num_samples)
        return self._plans[num_samples]

    def logits(self, batch: Batch) -> torch.Tensor:
        """Compute logits [B] without gradients."""
        with torch.no_grad():
            rows, plan = self._embedding.merge_ids(batch.indices), self.plan(len(batch.labels))
            return self._dense_forward(batch.dense, self._embedding.read(rows, plan))

    def train(self, batch: Batch, rates: torch.Tensor) -> torch.Tensor:
        """Train on a batch at the learning rates [2] of embeddings and dense weights; returns the loss."""
        rows, plan = self._embedding.merge_ids(batch.indices), self.plan(len(batch.labels))
        features = self._embedding.read(rows, plan).requires_grad_()
        logits = self._dense_forward(batch.dense, features)
        loss = nn.functional.binary_cross_entropy_with_logits(logits, batch.labels)
        gradients = torch.autograd.grad(loss, [features, *self._model.dense_parameters()])
        with torch.no_grad():
            self._embedding.update_static(rows, plan, gradients[0], rates[0], self._eps[0])
            for parameter, gradient in zip(self._dense, gradients[1:], strict=True):
                parameter.update_by_tensor(gradient, rates[1], self._eps[1])
        return loss.detach()

    def _dense_forward(self, dense: torch.Tensor, features: torch.Tensor) -> torch.Tensor:
        model = self._model
        with self._autocast(dense.device.type):
            vectors = torch.cat([model.bottom_mlp(dense).unsqueeze(1), features[:, 1:]], dim=1)
            logits: torch.Tensor = model.top_mlp(model.interaction(vectors))
        return logits.squeeze(1).float() if self._autocasts else logits.squeeze(1)

    def _autocast(self, device_type: str) -> AbstractContextManager[Any]:
        # Its cache of casted weights would outlive the capture.
        return (
            torch.autocast(device_type, dtype=torch.bfloat16, cache_enabled=False)
            if self._autocasts
            else nullcontext()
        )


class CUDAGraphStep:
    """`StepOnTensors.train` as a CUDA graph over buffers of one batch size. Capturing runs nothing."""

    def __init__(self, step: StepOnTensors, like: Batch, device: torch.device) -> None:
        self._batch = Batch(
            *(torch.zeros_like(part, device=device) for part in (like.dense, like.indices, like.labels))
        )
        self._rates, self._held_rates = torch.zeros(2, device=device), (0.0, 0.0)
        step.plan(len(like.labels))
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            self._loss = step.train(self._batch, self._rates)

    def run(self, batch: Batch, rates: tuple[float, float], enter: Enter) -> torch.Tensor:
        """Train on a (pinned) batch without waiting for the device; the loss is a copy."""
        self._batch.dense.copy_(batch.dense, non_blocking=True)
        self._batch.indices.copy_(batch.indices, non_blocking=True)
        self._batch.labels.copy_(batch.labels, non_blocking=True)
        if rates != self._held_rates:
            self._rates.copy_(torch.tensor(rates).pin_memory(), non_blocking=True)
            self._held_rates = rates
        enter(Phase.REPLAY)
        self._graph.replay()
        return self._loss.clone()


class CUDAGraphWorkload(OptimizedWorkload):
    """Trains one DLRM by replaying a graph; the warm-up copy's steps run outside of it, on a side stream.

    A replayed graph is one piece: its phases are DATA, which is also copying to the device, and REPLAY.
    """

    def build(self) -> None:
        self._graph_step: CUDAGraphStep | None = None
        self._side: torch.cuda.Stream | None = None
        self._kernel_problem: str | None = _UNKNOWN
        super().build()
        self._side = None
        train = self._data.train
        like = synthetic_batch(train, train.num_embeddings, self.global_batch_size)
        self._graph_step = CUDAGraphStep(self._on_tensors, like, self._device)

    def _build_model(self, num_embeddings: tuple[int, ...]) -> Built:
        model, optimizers = ReferenceWorkload._build_model(self, num_embeddings)
        model.optimizers = optimizers
        embedding = model.merge_embedding(optimizers[0], has_kernels=self._has_kernels())
        self._on_tensors = StepOnTensors(model, embedding, optimizers, autocasts=self._autocast_bf16)
        return model, optimizers

    def _has_kernels(self) -> bool:
        """Say whether tables are updated by kernels; found out for the warm-up copy, and kept."""
        if self._kernel_problem == _UNKNOWN:
            dim = self._spec.model.embedding_dim
            state_size = {"sgd": 0, "rowwise_adagrad": 1, "adagrad": dim}[self._spec.train.opt_name]
            self._kernel_problem = kernel_problem(self._device, dim, state_size)
        return self._kernel_problem is None

    def hyperparameters(self) -> Mapping[str, int | float | str]:
        """Add how tables are updated, and where not by kernels, why."""
        problem = self._kernel_problem
        how = "sorted, by Triton's kernels" if problem is None else f"by torch's operators: {problem}"
        return {**super().hyperparameters(), "embedding_update": how}

    def _train_step(self, model: FusedDLRM, optimizers: list[torch.optim.Optimizer], batch: Batch) -> torch.Tensor:
        model.num_steps += 1
        rates = (model.rates(optimizers[0])[0], model.rates(optimizers[1])[0])
        if self._graph_step is not None:
            return self._graph_step.run(batch, rates, self._enter)
        # One for all steps: the allocator keeps what a stream has used for that stream.
        if self._side is None:
            self._side = torch.cuda.Stream(self._device)  # type: ignore[no-untyped-call]
        side = self._side
        side.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(side):
            loss = self._on_tensors.train(self._to_device(batch), torch.tensor(rates, device=self._device))
        torch.cuda.current_stream(self._device).wait_stream(side)
        return loss

    def _logits(self, model: FusedDLRM, batch: Batch) -> torch.Tensor:
        return self._on_tensors.logits(self._to_device(batch))

    def _to_device(self, batch: Batch) -> Batch:
        parts = (batch.dense, batch.indices, batch.labels)
        return Batch(*(part.to(self._device, non_blocking=True) for part in parts))

    def _read(self, split: ClickDataset, name: str, start: int, stop: int) -> Batch:
        return pinned(super()._read(split, name, start, stop))

"""The optimized implementation on a CUDA device: a step that is captured once as a graph and replayed.

No launch of a kernel costs host time. Not run on a GPU: tests replay a recording of its operators on a CPU.
The step is `FusedDLRM`'s, in tensors of fixed shapes, and in bf16 from the bags' sums to the logit where that is the
precision. What changes from step to step, the batch and the learning rates, is in fixed buffers.
"""

from collections.abc import Mapping

import torch

from reference_models.data.store.dataset import Batch, ClickDataset
from reference_models.dlrm.fused_step import FusedDLRM
from reference_models.dlrm.optimized import OptimizedWorkload
from reference_models.fused.choice import MatmulChoice
from reference_models.fused.kernel_check import kernel_problem
from reference_models.fused.matmul import Matmuls
from reference_models.training.loop import synthetic_batch
from reference_models.training.phases import Enter, Phase

_UNKNOWN = "not tried"
"""Of kernels, before they are."""


def pinned(batch: Batch) -> Batch:
    """Copy the batch to page-locked memory, from which copies to the device need not be waited for."""
    return Batch(batch.dense.pin_memory(), batch.indices.pin_memory(), batch.labels.pin_memory())


class CUDAGraphStep:
    """`FusedDLRM.train_on_tensors` as a CUDA graph over buffers of one batch size. Capturing runs nothing."""

    def __init__(self, model: FusedDLRM, like: Batch, device: torch.device) -> None:
        self._batch = Batch(
            *(torch.zeros_like(part, device=device) for part in (like.dense, like.indices, like.labels))
        )
        self._rates, self._held_rates = torch.zeros(2, device=device), (0.0, 0.0)
        model.prepare(len(like.labels))
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            self._loss = model.train_on_tensors(self._batch, self._rates)

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
        self._graph_step = CUDAGraphStep(self._model, like, self._device)

    def _make_matmuls(self, choice: MatmulChoice | None) -> Matmuls:
        dtype = torch.bfloat16 if self._autocast_bf16 else None
        return Matmuls(choice, dtype=dtype, keeps_results=False, has_kernels=self._has_kernels())

    def _has_kernels(self) -> bool:
        """Say whether Triton's kernels are used; found out for the warm-up copy, and kept."""
        if self._kernel_problem == _UNKNOWN:
            dim = self._spec.model.embedding_dim
            state_size = {"sgd": 0, "rowwise_adagrad": 1, "adagrad": dim}[self._spec.train.opt_name]
            dtype = torch.bfloat16 if self._autocast_bf16 else torch.float32
            self._kernel_problem = kernel_problem(self._device, dim, state_size, dtype)
        return self._kernel_problem is None

    def hyperparameters(self) -> Mapping[str, int | float | str]:
        """Add whether Triton's kernels are used, and where not, why."""
        problem = self._kernel_problem
        return {**super().hyperparameters(), "kernels": "triton" if problem is None else f"torch: {problem}"}

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
            loss = model.train_on_tensors(self._to_device(batch), torch.tensor(rates, device=self._device))
        torch.cuda.current_stream(self._device).wait_stream(side)
        return loss

    def _logits(self, model: FusedDLRM, batch: Batch) -> torch.Tensor:
        return model.logits(self._to_device(batch))

    def _to_device(self, batch: Batch) -> Batch:
        parts = (batch.dense, batch.indices, batch.labels)
        return Batch(*(part.to(self._device, non_blocking=True) for part in parts))

    def _read(self, split: ClickDataset, name: str, start: int, stop: int) -> Batch:
        return pinned(super()._read(split, name, start, stop))

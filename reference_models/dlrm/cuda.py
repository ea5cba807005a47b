"""The optimized implementation on a CUDA device: see `captured_step`."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from reference_models.data.store.dataset import Batch, ClickDataset
from reference_models.dlrm.cuda_graph import CapturedStep, StepOnTensors, pinned
from reference_models.dlrm.fused_step import FusedDLRM
from reference_models.dlrm.model import DLRM
from reference_models.dlrm.reference import ReferenceWorkload, made_up_batch
from reference_models.training.optimizers import build_optimizers
from reference_models.training.phases import Enter, Phase, tell_nobody
from reference_models.training.read_ahead import read_ahead


class CapturedWorkload(ReferenceWorkload):
    """Trains one DLRM by replaying a captured step; warm-up steps of the twin run uncaptured, on a side stream."""

    name = "optimized"
    _model: FusedDLRM

    def build(self) -> None:
        self._captured: CapturedStep | None = None
        super().build()
        train = self._data.train
        like = made_up_batch(train, train.num_embeddings, self.global_batch_size)
        self._captured = CapturedStep(self._on_tensors, like, self._device)

    def _build_model(self, num_embeddings: tuple[int, ...]) -> tuple[FusedDLRM, list[torch.optim.Optimizer]]:
        train = self._data.train
        with self._device:
            model = FusedDLRM(
                self._spec.model,
                num_dense=train.num_dense,
                num_embeddings=num_embeddings,
                multi_hot=train.multi_hot,
            )
        optimizers = model.optimizers = build_optimizers(
            self._spec.train,
            embedding_parameters=model.embedding_parameters(),
            dense_parameters=model.dense_parameters(),
        )
        embedding = model.merge_embedding(optimizers[0])
        self._on_tensors = StepOnTensors(model, embedding, optimizers, autocasts=self._autocast_bf16)
        return model, optimizers

    def _train_step(self, model: DLRM, optimizers: list[torch.optim.Optimizer], batch: Batch) -> torch.Tensor:
        assert isinstance(model, FusedDLRM)
        model.num_steps += 1
        rates = (model.rates(optimizers[0])[0], model.rates(optimizers[1])[0])
        if self._captured is not None:
            return self._captured.run(batch, rates)
        side = torch.cuda.Stream(self._device)  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(side):
            loss = self._on_tensors.train(self._to_device(batch), torch.tensor(rates, device=self._device))
        torch.cuda.current_stream(self._device).wait_stream(side)
        return loss

    def _logits(self, model: DLRM, batch: Batch) -> torch.Tensor:
        return self._on_tensors.logits(self._to_device(batch))

    def _to_device(self, batch: Batch) -> Batch:
        parts = (batch.dense, batch.indices, batch.labels)
        return Batch(*(part.to(self._device, non_blocking=True) for part in parts))

    def _batches(self, split: ClickDataset, name: str, starts: range, batch_size: int) -> Iterator[Batch]:
        def read(start: int) -> Batch:
            return pinned(self._read(split, name, start, min(start + batch_size, split.num_samples)))

        batches = read_ahead(read, starts)
        for _ in starts:
            self._enter(Phase.DATA)
            yield next(batches)

    @contextmanager
    def telling_phases(self, enter: Enter) -> Iterator[None]:
        """A replayed graph is one piece: only reading is told apart from the step."""
        self._enter = enter
        try:
            yield
        finally:
            self._enter = tell_nobody

    def state(self) -> dict[str, Any]:
        self._model.count_steps()
        return super().state()

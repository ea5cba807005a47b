"""The optimized implementation: the reference's mathematics as fast as one device allows."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from reference_models.data.store.dataset import Batch, ClickDataset
from reference_models.dlrm.fused_step import FusedDLRM
from reference_models.dlrm.reference import ReferenceWorkload
from reference_models.training.loop import Built
from reference_models.training.phases import Enter, Phase, ignore_phase
from reference_models.training.read_ahead import read_ahead


class OptimizedWorkload(ReferenceWorkload):
    """Trains one `FusedDLRM`: merged tables, hand-written passes, batches read ahead."""

    name = "optimized"
    _model_class = FusedDLRM
    _model: FusedDLRM

    def _build_model(self, num_embeddings: tuple[int, ...]) -> Built:
        model, optimizers = super()._build_model(num_embeddings)
        model.fuse(optimizers)
        return model, optimizers

    def _train_step(self, model: FusedDLRM, optimizers: list[torch.optim.Optimizer], batch: Batch) -> torch.Tensor:
        return model.train_step(batch)

    def _logits(self, model: FusedDLRM, batch: Batch) -> torch.Tensor:
        return model.logits(batch)

    def _batches(self, split: ClickDataset, name: str, starts: range, batch_size: int) -> Iterator[Batch]:
        def read(start: int) -> Batch:
            return self._read(split, name, start, min(start + batch_size, split.num_samples))

        batches = read_ahead(read, starts)
        for _ in starts:
            self._enter(Phase.DATA)
            yield next(batches)

    @contextmanager
    def report_phases(self, enter: Enter) -> Iterator[None]:
        self._enter = self._model.enter = enter
        try:
            yield
        finally:
            self._enter = self._model.enter = ignore_phase

    def state(self) -> dict[str, Any]:
        self._model.count_steps()
        return super().state()

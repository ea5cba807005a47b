"""The optimized implementation: the reference's mathematics as fast as one device allows."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from reference_models.data.store.dataset import Batch, ClickDataset
from reference_models.dlrm.fused_step import FusedDLRM
from reference_models.dlrm.model import DLRM
from reference_models.dlrm.reference import ReferenceWorkload
from reference_models.training.optimizers import build_optimizers
from reference_models.training.phases import Enter, Phase, tell_nobody
from reference_models.training.read_ahead import read_ahead


class OptimizedWorkload(ReferenceWorkload):
    """Trains one `FusedDLRM`: merged tables, hand-written passes, batches read ahead."""

    name = "optimized"
    _model: FusedDLRM

    def _build_model(self, num_embeddings: tuple[int, ...]) -> tuple[FusedDLRM, list[torch.optim.Optimizer]]:
        train = self._data.train
        with self._device:
            model = FusedDLRM(
                self._spec.model,
                num_dense=train.num_dense,
                num_embeddings=num_embeddings,
                multi_hot=train.multi_hot,
            )
        optimizers = build_optimizers(
            self._spec.train,
            embedding_parameters=model.embedding_parameters(),
            dense_parameters=model.dense_parameters(),
        )
        model.fuse(optimizers)
        return model, optimizers

    def _train_step(self, model: DLRM, optimizers: list[torch.optim.Optimizer], batch: Batch) -> torch.Tensor:
        assert isinstance(model, FusedDLRM)
        return model.train_step(batch)

    def _logits(self, model: DLRM, batch: Batch) -> torch.Tensor:
        assert isinstance(model, FusedDLRM)
        return model.logits(batch)

    def _batches(self, split: ClickDataset, name: str, starts: range, batch_size: int) -> Iterator[Batch]:
        def read(start: int) -> Batch:
            return self._read(split, name, start, min(start + batch_size, split.num_samples))

        batches = read_ahead(read, starts)
        for _ in starts:
            self._enter(Phase.DATA)
            yield next(batches)

    @contextmanager
    def telling_phases(self, enter: Enter) -> Iterator[None]:
        self._enter = self._model.enter = enter
        try:
            yield
        finally:
            self._enter = self._model.enter = tell_nobody

    def state(self) -> dict[str, Any]:
        self._model.count_steps()
        return super().state()

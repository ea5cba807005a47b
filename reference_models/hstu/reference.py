"""Reference implementation of HSTU in stock PyTorch: one process, padded sequences, written to be read first."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from reference_models.data.click_sequence.teacher import ARTIST, ITEM
from reference_models.data.store.dataset import ClickDataset
from reference_models.hstu.config import SequenceShape, sequence_shape
from reference_models.hstu.model import HSTU, LOSS_WEIGHT
from reference_models.hstu.phases import HSTUPhase
from reference_models.hstu.sequences import SequenceLog, make_synthetic_sequences
from reference_models.training.loop import Built, TrainingLoop
from reference_models.training.optimizers import build_optimizers

_PRECISIONS = {"fp32": "fp32", "tf32": "fp32", "bf16": "bfloat16"}
"""Names that MLPerf's logs have for training precisions from round 6.1 on; the keys are values of
`runtime.precision`."""


class ReferenceWorkload(TrainingLoop):
    """Workload that trains an HSTU on a sequence log, time window after time window, by modules, autograd and
    torch.optim."""

    name = "reference"
    model_class: type[HSTU] = HSTU

    @property
    def _shape(self) -> SequenceShape:
        return sequence_shape(self.spec.model, self.spec.data)

    def build(self) -> None:
        self._logs: dict[str, SequenceLog] = {}
        super().build()

    def build_model(self, num_embeddings: tuple[int, ...]) -> Built:
        with self.device:
            model = self.model_class(
                self.spec.model, num_items=num_embeddings[ITEM], num_artists=num_embeddings[ARTIST]
            )
        optimizers = build_optimizers(
            self.spec.train,
            embedding_parameters=model.embedding_parameters(),
            dense_parameters=model.dense_parameters(),
        )
        return model, optimizers

    def make_synthetic_batch(self, num_embeddings: tuple[int, ...], size: int) -> Any:
        return make_synthetic_sequences(size, self._shape)

    def hyperparameters(self) -> Mapping[str, int | float | str]:
        optimizer, precision = self.spec.train.optimizer, _PRECISIONS[self.spec.runtime.precision]
        described: dict[str, int | float | str] = dict(super().hyperparameters())
        described["max_sequence_length"] = self.model.max_length
        for key in ("opt_gradient_clip_norm", "eval_every_data_pct"):
            if key in optimizer:
                described[key] = optimizer[key]
        return described | {
            "lowest_numerical_precision_in_linear": precision,
            "lowest_numerical_precision_in_attn": precision,
            "lowest_numerical_precision_in_comm": "fp32",
            "tensor_parallelism": 1,
            "pipeline_parallelism": 1,
            "context_parallelism": 1,
            "expert_parallelism": 1,
            "micro_batch_size": self.global_batch_size,
            "config_filename": "definition.toml",
        }

    def read_batch(self, split: ClickDataset, name: str, start: int, stop: int) -> Any:
        return self._log(split, name).read(start, stop)

    def _log(self, split: ClickDataset, name: str) -> SequenceLog:
        """Return the events of a split, read at the first call; histories of evaluation samples are in the training
        split."""
        if name not in self._logs:
            self._logs[name] = SequenceLog(
                split,
                self.data.train if name == "eval" else None,
                f"{self.spec.data_dir}: {name}",
                self._shape,
            )
        return self._logs[name]

    def compute_logits(self, model: Any, batch: Any) -> torch.Tensor:
        with self.autocast():
            logits: torch.Tensor = model(batch.to(self.device))
        return logits.float()

    def train_step(self, model: Any, optimizers: list[torch.optim.Optimizer], batch: Any) -> torch.Tensor:
        logits = self.compute_logits(model, batch)
        self.enter(HSTUPhase.LOSS)
        loss = nn.functional.binary_cross_entropy_with_logits(logits, batch.labels.to(self.device))
        self.enter(HSTUPhase.ZERO_GRAD)
        for optimizer in optimizers:
            optimizer.zero_grad()
        self.enter(HSTUPhase.LOSS)
        (LOSS_WEIGHT * loss).backward()  # type: ignore[no-untyped-call]
        self._update(model, optimizers)
        return loss.detach()

    def _update(self, model: HSTU, optimizers: list[torch.optim.Optimizer]) -> None:
        sparse, dense = optimizers
        self.enter(HSTUPhase.SPARSE_OPTIMIZER)
        sparse.step()
        self.enter(HSTUPhase.DENSE_OPTIMIZER)
        if (clip_norm := self.spec.train.optimizer.get("opt_gradient_clip_norm")) is not None:
            nn.utils.clip_grad_norm_(model.dense_parameters(), clip_norm)
        dense.step()

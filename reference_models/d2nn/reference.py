"""Reference implementation of the optical network in stock PyTorch, in one process, written to be read first."""

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from reference_models.d2nn.config import SLICE, require_patterns
from reference_models.d2nn.model import D2NN
from reference_models.d2nn.phases import D2NNPhase
from reference_models.data.store.dataset import Batch, ClickDataset, ImageBatch
from reference_models.training.loop import Built, TrainingLoop
from reference_models.training.optimizers import build_dense_optimizer

T = TypeVar("T")
_NOISE_SEED = 1 << 32
"""Seed of the masks' random errors in evaluations, larger than every run's seed, so that training draws other
errors."""


class ReferenceWorkload(TrainingLoop):
    """Workload that trains the optical network's masks for all tasks together; the loss is the tasks' mean
    cross-entropy."""

    name = "reference"
    metric = "accuracy"
    model_class: type[nn.Module] = D2NN

    def build_model(self, num_embeddings: tuple[int, ...]) -> Built:
        with self.device:
            model = self.make_model()
        return model, [build_dense_optimizer(self.spec.train, [p for p in model.parameters() if p.requires_grad])]

    def make_model(self) -> nn.Module:
        return self.model_class(self.spec.model, require_patterns(self.spec.model, self.spec.data))

    def make_synthetic_batch(self, num_embeddings: tuple[int, ...], size: int) -> ImageBatch:
        return ImageBatch.synthetic(self.data.train, num_embeddings, size)

    def read_batch(self, split: ClickDataset, name: str, start: int, stop: int) -> Any:
        """Return samples `start` to `stop` - 1 as a batch of images; of synthetic click data, the dense features
        become pixels, and the ids become classes."""
        batch = super().read_batch(split, name, start, stop)
        return ImageBatch(batch.dense, batch.indices) if isinstance(batch, Batch) else batch

    def compute_logits(self, model: Any, batch: Any) -> torch.Tensor:
        with self.autocast():
            logits: torch.Tensor = model(batch.images.to(self.device, non_blocking=True))
        return logits.float()

    def train_step(self, model: Any, optimizers: list[torch.optim.Optimizer], batch: Any) -> torch.Tensor:
        """Train on one batch in slices whose light fields fit a CPU's caches: sum the slices' gradients, then update
        once."""
        (optimizer,) = optimizers
        self.enter(D2NNPhase.ZERO_GRAD)
        optimizer.zero_grad()
        size, total_loss = len(batch.images), torch.zeros((), device=self.device)
        for start in range(0, size, SLICE):
            part = ImageBatch(batch.images[start : start + SLICE], batch.classes[start : start + SLICE])
            logits = self.compute_logits(model, part)
            self.enter(D2NNPhase.LOSS)
            classes = part.classes.to(self.device, non_blocking=True).long()
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), classes.flatten()) * (len(part.images) / size)
            loss.backward()  # type: ignore[no-untyped-call]
            total_loss += loss.detach()
        self.enter(D2NNPhase.DENSE_OPTIMIZER)
        optimizer.step()
        return total_loss

    def evaluate_with(self, metric: Callable[[Any, Any], T]) -> T:
        """Return what the function `metric` returns for the classes [N, T] and logits [N, T, K] of the whole
        evaluation split, for T tasks of K classes."""
        classes, logits = self._classes_and_logits()
        return metric(classes, logits)

    def _classes_and_logits(self) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        size, batch_size = self.eval_samples, self.spec.train.eval_batch_size
        classes, logits = [], []
        self.model.eval()
        self.model.noise = torch.Generator(self.device).manual_seed(_NOISE_SEED + self.spec.seed)
        try:
            with torch.no_grad():
                for batch in self.read_batches(self.data.eval, "eval", range(0, size, batch_size), batch_size):
                    classes.append(batch.classes.numpy())
                    logits.append(self.compute_logits(self.model, batch))
        finally:
            self.model.noise = None
        return np.concatenate(classes).astype(np.int64), torch.cat(logits).cpu().numpy()

"""The training loop that implementations share: dataset order, warm-up, steps, evaluation; one process, one device.

A model's reference implementation is this loop around stock PyTorch; others replace the step, the batches or both.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import islice
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from reference_models.data.registry import open_dataset
from reference_models.data.store.dataset import Batch, ClickDataset, OpenedDataset
from reference_models.process.errors import ConfigError, NotFiniteError
from reference_models.process.world import World
from reference_models.training.devices import local_device, set_precision, use_device
from reference_models.training.metrics import roc_auc
from reference_models.training.optimizers import (
    LearningRatePolicy,
    build_learning_rate_policy,
    describe_optimizers,
    set_learning_rate,
)
from reference_models.training.phases import Enter, Phase, ignore_phase
from reference_models.training.workload import TrainCounts, WorkloadSpec

T = TypeVar("T")
WARM_UP_STEPS = 3
WARM_UP_ROWS = 64


Built = tuple[Any, list[torch.optim.Optimizer]]
"""A module that makes logits [B] of dense [B, num_dense] and ids [B, lookups], and what updates it."""


class TrainingLoop(ABC):
    """Trains one model in dataset order. See `reference_models.training.workload.Workload` for the protocol."""

    name: str

    def __init__(self, spec: WorkloadSpec, world: World) -> None:
        self._spec, self._world = spec, world
        self._data: OpenedDataset
        self._device: torch.device
        self._autocast_bf16: bool
        self._model: Any
        self._optimizers: list[torch.optim.Optimizer]
        self._policy: LearningRatePolicy
        self._step = 0
        self._enter: Enter = ignore_phase
        self._train_batches: Iterator[Batch] = iter(())
        self._next_batch = -1

    # building: off the clock, metadata only

    def build(self) -> None:
        spec = self._spec
        self._device = local_device(spec.runtime.device, self._world.size)
        use_device(self._device)
        self._check_world()
        self._autocast_bf16 = set_precision(self._device, spec.runtime.precision)
        if spec.runtime.threads is not None:
            torch.set_num_threads(spec.runtime.threads)
        self._data = open_dataset(spec.data_dir, spec.data)
        self._check_batch_size()
        self._policy = build_learning_rate_policy(spec.train)
        self._warm_up()
        torch.manual_seed(spec.seed)
        self._model, self._optimizers = self._build_model(self._data.train.num_embeddings)
        self._step, self._next_batch = 0, -1
        if self._device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self._device)

    def _check_world(self) -> None:
        if self._world.size != 1:
            raise ConfigError(f"implementation {self.name!r} trains in one process, not in {self._world.size}.")

    def _check_batch_size(self) -> None:
        if self.global_batch_size > self.train_samples:
            raise ConfigError(
                f"train.global_batch_size is {self.global_batch_size}, but the dataset "
                f"{self._spec.data.name!r} has only {self.train_samples} training samples. Use a smaller batch."
            )

    @abstractmethod
    def _build_model(self, num_embeddings: tuple[int, ...]) -> Built:
        """Build the model on `self._device`, with tables of so many rows, and its optimizers.

        The tables' comes first, if there are any, that of all other weights last.
        """

    def _warm_up(self) -> None:
        """Run synthetic batches of the real shapes through a warm-up copy with small tables, which is then dropped.

        It leaves nothing to restore: the model is built, and the generators are seeded, after it.
        """
        num_embeddings = tuple(min(rows, WARM_UP_ROWS) for rows in self._data.train.num_embeddings)
        model, optimizers = self._build_model(num_embeddings)
        batch = self._synthetic_batch(num_embeddings, self.global_batch_size)
        for _ in range(WARM_UP_STEPS):
            self._train_step(model, optimizers, batch)
        eval_batch_size = min(self._spec.train.eval_batch_size, self.eval_samples)
        batch = self._synthetic_batch(num_embeddings, eval_batch_size)
        with torch.no_grad():
            self._logits(model, batch)
        self.synchronize()

    def _synthetic_batch(self, num_embeddings: tuple[int, ...], size: int) -> Any:
        """Make a batch of the data's shapes, with ids below so many, that is not its data."""
        return Batch.synthetic(self._data.train, num_embeddings, size)

    # what was built

    def hyperparameters(self) -> Mapping[str, int | float | str]:
        return {
            "global_batch_size": self.global_batch_size,
            "gradient_accumulation_steps": 1,
            **describe_optimizers(self._spec.train.opt_name, self._optimizers, self._policy),
            "train_samples": self.train_samples,
            "eval_samples": self.eval_samples,
            "precision": self._spec.runtime.precision,
            "num_threads": torch.get_num_threads(),
            "world_size": self._world.size,
        }

    @property
    def train_samples(self) -> int:
        return self._data.train.num_samples

    @property
    def eval_samples(self) -> int:
        return self._data.eval.num_samples

    @property
    def global_batch_size(self) -> int:
        return self._spec.train.global_batch_size

    def dataset(self) -> OpenedDataset:
        return self._data

    # the run

    def train(self, num_steps: int) -> TrainCounts:
        batch_size = self.global_batch_size
        steps_per_epoch = self.train_samples // batch_size
        first = self._step % steps_per_epoch
        num_steps = min(num_steps, steps_per_epoch - first)
        total_loss = torch.zeros((), device=self._device)
        self._model.train()
        if self._next_batch != first:
            starts = range(first * batch_size, steps_per_epoch * batch_size, batch_size)
            self._train_batches = self._batches(self._data.train, "train", starts, batch_size)
        self._next_batch = -1  # until all went well
        # Of the whole epoch, so that what was read ahead of one call's last step is there for the next call.
        for batch in islice(self._train_batches, num_steps):
            self._step += 1
            set_learning_rate(self._optimizers, self._policy.at(self._step))
            total_loss += self._train_step(self._model, self._optimizers, batch)
        self._next_batch = first + num_steps
        self._enter(Phase.OTHER)
        self._check_loss(total_loss)
        return TrainCounts(num_steps=num_steps, num_samples=num_steps * batch_size)

    def _check_loss(self, total_loss: torch.Tensor) -> None:
        """Look once per call: a loss that is not finite stays so in the sum, and looking waits for the device."""
        if not torch.isfinite(total_loss):
            raise NotFiniteError(
                f"the training loss is not finite after step {self._step}: training has diverged. "
                "Try a lower opt_base_learning_rate."
            )

    def _train_step(self, model: Any, optimizers: list[torch.optim.Optimizer], batch: Batch) -> torch.Tensor:
        logits = self._logits(model, batch)
        loss = nn.functional.binary_cross_entropy_with_logits(logits, batch.labels.to(self._device))
        self._enter(Phase.ZERO_GRAD)
        for optimizer in optimizers:
            optimizer.zero_grad()
        self._enter(Phase.LOSS)
        loss.backward()  # type: ignore[no-untyped-call]
        # A model that trains no table has the dense weights' optimizer alone.
        phases = (Phase.SPARSE_OPTIMIZER, Phase.DENSE_OPTIMIZER)[-len(optimizers) :]
        for phase, optimizer in zip(phases, optimizers, strict=True):
            self._enter(phase)
            optimizer.step()
        return loss.detach()

    def evaluate(self) -> float:
        return self.evaluate_with(roc_auc)

    def evaluate_with(self, metric: Callable[[Any, Any], T]) -> T:
        """Compute `metric` of the labels and logits of the whole evaluation split."""
        labels, scores = self._score()
        return metric(labels, scores.cpu().numpy())

    def _score(self) -> tuple[NDArray[np.bool_], torch.Tensor]:
        """Return the labels and, on the device, the logits of the whole evaluation split; of one process."""
        size, batch_size = self.eval_samples, self._spec.train.eval_batch_size
        scores = torch.empty(size, device=self._device)
        labels = np.empty(size, dtype=bool)
        self._model.eval()
        with torch.no_grad():
            starts = range(0, size, batch_size)
            for start, batch in zip(starts, self._batches(self._data.eval, "eval", starts, batch_size), strict=True):
                stop = start + len(batch.labels)
                scores[start:stop] = self._logits(self._model, batch)
                labels[start:stop] = batch.labels.numpy() != 0
        return labels, scores

    def _logits(self, model: Any, batch: Batch) -> torch.Tensor:
        dense = batch.dense.to(self._device, non_blocking=True)
        indices = batch.indices.to(self._device, non_blocking=True)
        with self._autocast():
            logits: torch.Tensor = model(dense, indices)
        return logits.float()

    def _autocast(self) -> AbstractContextManager[Any]:
        return torch.autocast(self._device.type, dtype=torch.bfloat16) if self._autocast_bf16 else nullcontext()

    def _batches(self, split: ClickDataset, name: str, starts: range, batch_size: int) -> Iterator[Any]:
        """Read the batches that begin at `starts`; the split's end cuts the last one short."""
        for start in starts:
            self._enter(Phase.DATA)
            yield self._read(split, name, start, min(start + batch_size, split.num_samples))

    def _read(self, split: ClickDataset, name: str, start: int, stop: int) -> Any:
        batch = split.read(start, stop)
        batch.check(split, f"{self._spec.data_dir}: {name} sample", start)
        return batch

    # for the harness and for tests

    @contextmanager
    def report_phases(self, enter: Enter) -> Iterator[None]:
        self._enter = enter
        try:
            yield
        finally:
            self._enter = ignore_phase

    def synchronize(self) -> None:
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)

    def peak_device_bytes(self) -> int | None:
        return torch.cuda.max_memory_allocated(self._device) if self._device.type == "cuda" else None

    def weights(self) -> Mapping[str, torch.Tensor] | None:
        weights: Mapping[str, torch.Tensor] = self._model.state_dict()
        return weights

    def state(self) -> dict[str, Any]:
        """Return references, not copies: `model`, `optimizers`, `step`, `rng`."""
        is_cuda = self._device.type == "cuda"
        return {
            "model": self._model.state_dict(),
            "optimizers": [optimizer.state_dict() for optimizer in self._optimizers],
            "step": self._step,
            "rng": torch.cuda.get_rng_state(self._device) if is_cuda else torch.get_rng_state(),
        }

"""Training loop that implementations share, on one device: warm-up, training steps over samples in dataset order, and
evaluation.

A model's reference implementation is this loop around stock PyTorch. Other implementations replace the training step,
the reading of batches, or both.
"""

import gc
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
from reference_models.data.store.dataset import Batch, ClickDataset, OpenedDataset, has_soft_labels
from reference_models.process.errors import ConfigError, NotFiniteError
from reference_models.process.world import World
from reference_models.training.device_metrics import roc_auc_of_tensors
from reference_models.training.devices import local_device, set_precision, use_device
from reference_models.training.metrics import find_metric
from reference_models.training.optimizers import (
    LearningRatePolicy,
    build_learning_rate_policy,
    describe_optimizers,
    set_learning_rate,
)
from reference_models.training.phases import Enter, Phase, ignore_phase
from reference_models.training.read_ahead import read_ahead
from reference_models.training.workload import TrainCounts, WorkloadSpec

T = TypeVar("T")
WARM_UP_STEPS = 3
WARM_UP_ROWS = 64
ROC_AUC = "roc_auc"


Built = tuple[Any, list[torch.optim.Optimizer]]
"""Model and its optimizers; the model maps dense features [B, num_dense] and ids [B, lookups] to logits [B]."""


class TrainingLoop(ABC):
    """Training loop: a workload that trains a model in dataset order. See
    `reference_models.training.workload.Workload`.

    An implementation of your own overrides `build_model`, and may override `train_step`, `compute_logits`,
    `read_batches`, `read_batch`, `make_synthetic_batch`, `check_loss`, `check_world` and `warm_up`. `build` sets
    `spec`, `world`, `device`, `data`, `model` and `optimizers`; the implementation calls `enter(phase)` where a phase
    of a step begins.

    B: samples of a batch; `dense` float32 [B, num_dense], `indices` [B, lookups], `labels` float32 [B].
    """

    name: str
    """Name of the training implementation, for messages."""
    metric = ROC_AUC
    """Quality metric that `evaluate` computes, one of `metrics.METRICS`, and the same as the model's
    `ModelSpec.metric`."""
    reads_ahead = False
    """Whether a thread reads the next batches while a training step computes."""
    model_class: type[Any]
    """Class of the model that `build_model` builds, in implementations that build several models in the same way; a
    constructor argument may replace it."""

    def __init__(self, spec: WorkloadSpec, world: World, model_class: type[Any] | None = None) -> None:
        self.spec, self.world = spec, world
        if model_class is not None:
            self.model_class = model_class
        self.data: OpenedDataset
        self.device: torch.device
        self._autocast_bf16: bool
        self.model: Any
        self.optimizers: list[torch.optim.Optimizer]
        self._policy: LearningRatePolicy
        self._step = 0
        self.enter: Enter = ignore_phase
        self._train_batches: Iterator[Batch] = iter(())
        self._next_batch = -1
        self.checkpoints: Any = None  # the `Checkpoints` of this loop, whose module imports this one

    # building: off the clock, metadata only

    def build(self) -> None:
        spec = self.spec
        self.device = local_device(spec.runtime.device, self.world.size)
        use_device(self.device)
        self.check_world()
        self._autocast_bf16 = set_precision(self.device, spec.runtime.precision)
        if spec.runtime.threads is not None:
            torch.set_num_threads(spec.runtime.threads)
        self.data = open_dataset(spec.data_dir, spec.data)
        self._check_batch_size()
        self._policy = build_learning_rate_policy(spec.train)
        self.warm_up()
        gc.collect()  # the copy may be in a reference cycle, and its memory is needed for the model
        torch.manual_seed(spec.seed)
        self.model, self.optimizers = self.build_model(self.data.train.num_embeddings)
        self._step, self._next_batch = 0, -1
        if self.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self.device)
        if self.checkpoints is not None:
            self.checkpoints.begin()

    def prepare_shapes(self, data: OpenedDataset) -> None:
        """Set the device (the CPU) and the dataset, so that `build_model` and `compute_logits` can be called without
        `build`. Only the shapes of `data` are used; no sample is read."""
        self.device, self.data, self._autocast_bf16 = torch.device("cpu"), data, False

    def check_world(self) -> None:
        """Raise ConfigError for a number of ranks that the implementation cannot train with."""
        if self.world.size != 1:
            raise ConfigError(f"implementation {self.name!r} trains in one process, not in {self.world.size}.")

    def _check_batch_size(self) -> None:
        if self.global_batch_size > self.train_samples:
            raise ConfigError(
                f"train.global_batch_size is {self.global_batch_size}, but the dataset "
                f"{self.spec.data.name!r} has only {self.train_samples} training samples. Use a smaller batch."
            )

    @abstractmethod
    def build_model(self, num_embeddings: tuple[int, ...]) -> Built:
        """Return a new model on `device`, its tables with `num_embeddings` rows, and the optimizers of its weights.

        The tables' optimizers come first, if there are tables; the optimizer of all other weights comes last. The
        method is called twice: first for a copy of the model with small tables, which warms up the device; then,
        after the random generators are seeded, for the run's own model.
        """

    def warm_up(self) -> None:
        """Warm up the device: train a copy of the model with small tables on synthetic batches of real shapes, and
        compute its logits.

        The copy is dropped afterwards. The warm-up leaves no trace in the run: the run's own model is built, and the
        random generators are seeded, after it.
        """
        num_embeddings = tuple(min(rows, WARM_UP_ROWS) for rows in self.data.train.num_embeddings)
        model, optimizers = self.build_model(num_embeddings)
        batch = self.make_synthetic_batch(num_embeddings, self.global_batch_size)
        for _ in range(WARM_UP_STEPS):
            self.train_step(model, optimizers, batch)
        eval_batch_size = min(self.spec.train.eval_batch_size, self.eval_samples)
        batch = self.make_synthetic_batch(num_embeddings, eval_batch_size)
        with torch.no_grad():
            self.compute_logits(model, batch)
        self.synchronize()

    def make_synthetic_batch(self, num_embeddings: tuple[int, ...], size: int) -> Any:
        """Return a synthetic batch of `size` samples, shaped like the dataset's samples. The ids for each table are
        below the table's number in `num_embeddings`."""
        return Batch.synthetic(self.data.train, num_embeddings, size)

    # hyperparameters, read from what `build` made

    def hyperparameters(self) -> Mapping[str, int | float | str]:
        return {
            "global_batch_size": self.global_batch_size,
            "gradient_accumulation_steps": 1,
            **describe_optimizers(self.spec.train.opt_name, self.optimizers, self._policy),
            "train_samples": self.train_samples,
            "eval_samples": self.eval_samples,
            "precision": self.spec.runtime.precision,
            "num_threads": torch.get_num_threads(),
            "world_size": self.world.size,
        }

    @property
    def train_samples(self) -> int:
        return self.data.train.num_samples

    @property
    def eval_samples(self) -> int:
        return self.data.eval.num_samples

    @property
    def global_batch_size(self) -> int:
        return self.spec.train.global_batch_size

    def dataset(self) -> OpenedDataset:
        return self.data

    # the run

    def train(self, num_steps: int) -> TrainCounts:
        batch_size = self.global_batch_size
        steps_per_epoch = self.train_samples // batch_size
        first = self._step % steps_per_epoch
        num_steps = min(num_steps, steps_per_epoch - first)
        total_loss = torch.zeros((), device=self.device)
        self.model.train()
        if self._next_batch != first:
            starts = range(first * batch_size, steps_per_epoch * batch_size, batch_size)
            self._train_batches = self.read_batches(self.data.train, "train", starts, batch_size)
        self._next_batch = -1  # until all steps succeeded
        # One iterator for the whole epoch, so that batches read ahead in one call are used by the next call.
        for batch in islice(self._train_batches, num_steps):
            self._step += 1
            set_learning_rate(self.optimizers, self._policy.at(self._step))
            total_loss += self.train_step(self.model, self.optimizers, batch)
            if self.checkpoints is not None:
                self.checkpoints.after_step(batch.ids)
        self._next_batch = first + num_steps
        self.enter(Phase.OTHER)
        self.check_loss(total_loss)
        return TrainCounts(num_steps=num_steps, num_samples=num_steps * batch_size)

    def check_loss(self, total_loss: torch.Tensor) -> None:
        """Raise NotFiniteError if `total_loss` [] is not finite. `total_loss` is the sum of the losses of all steps
        in one call of `train`; it is not finite if the loss of any step is not.

        The sum is checked once per call of `train` rather than each loss at each step, since reading a loss waits for
        the device.
        """
        if not torch.isfinite(total_loss):
            raise NotFiniteError(
                f"the training loss is not finite after step {self._step}: training has diverged. "
                "Try a lower opt_base_learning_rate."
            )

    def train_step(self, model: Any, optimizers: list[torch.optim.Optimizer], batch: Batch) -> torch.Tensor:
        """Train on a batch: update the weights once, at the optimizers' learning rates; return the batch's mean loss.

        The loss is a tensor [] on `device` without gradient, not yet waited for.
        """
        if not hasattr(model, "enter"):
            self.enter(Phase.FORWARD)
        logits = self.compute_logits(model, batch)
        loss = nn.functional.binary_cross_entropy_with_logits(logits, batch.labels.to(self.device))
        self.enter(Phase.ZERO_GRAD)
        for optimizer in optimizers:
            optimizer.zero_grad()
        self.enter(Phase.LOSS)
        loss.backward()  # type: ignore[no-untyped-call]
        # A model without trained tables has only the dense weights' optimizer.
        phases = (Phase.SPARSE_OPTIMIZER, Phase.DENSE_OPTIMIZER)[-len(optimizers) :]
        for phase, optimizer in zip(phases, optimizers, strict=True):
            self.enter(phase)
            optimizer.step()
        return loss.detach()

    def evaluate(self) -> float:
        """Return the quality metric of the whole evaluation split.

        On a GPU, the ROC AUC is computed on the GPU, and equals the CPU's result exactly. With soft labels (from 0 to
        1) it is computed on the CPU, since a GPU would add in another order and round differently.
        """
        if not self.sorts_on_device:
            return self.evaluate_with(find_metric(self.metric).value)
        labels, scores = self._score()
        return roc_auc_of_tensors(torch.from_numpy(labels).to(self.device), scores)

    @property
    def sorts_on_device(self) -> bool:
        return self.device.type == "cuda" and self.metric == ROC_AUC and not has_soft_labels(self.data.eval)

    def evaluate_with(self, metric: Callable[[Any, Any], T]) -> T:
        """Return what the function `metric` returns for the labels and logits of the whole evaluation split, with the
        current weights."""
        labels, scores = self._score()
        return metric(labels, scores.cpu().numpy())

    def _score(self) -> tuple[NDArray[Any], torch.Tensor]:
        """Return the labels and the logits of the whole evaluation split. Labels are bool, or float32 if they are
        soft; logits are on the device.

        The split is evaluated by this process only.
        """
        size, batch_size = self.eval_samples, self.spec.train.eval_batch_size
        scores = torch.empty(size, device=self.device)
        is_soft = has_soft_labels(self.data.eval)
        labels: NDArray[Any] = np.empty(size, dtype=np.float32 if is_soft else np.bool_)
        self.model.eval()
        with torch.no_grad():
            starts = range(0, size, batch_size)
            for start, batch in zip(
                starts, self.read_batches(self.data.eval, "eval", starts, batch_size), strict=True
            ):
                stop = start + len(batch.labels)
                scores[start:stop] = self.compute_logits(self.model, batch)
                found = batch.labels.numpy()
                labels[start:stop] = found if is_soft else found != 0
        return labels, scores

    def compute_logits(self, model: Any, batch: Batch) -> torch.Tensor:
        """Return the batch's logits, float32 [B] on `device`, with gradients where they are enabled."""
        dense = batch.dense.to(self.device, non_blocking=True)
        indices = batch.indices.to(self.device, non_blocking=True)
        with self.autocast():
            logits: torch.Tensor = model(dense, indices)
        return logits.float()

    def autocast(self) -> AbstractContextManager[Any]:
        return torch.autocast(self.device.type, dtype=torch.bfloat16) if self._autocast_bf16 else nullcontext()

    def read_batches(self, split: ClickDataset, name: str, starts: range, batch_size: int) -> Iterator[Any]:
        """Yield the batches that begin at `starts`, in order; the last batch may be cut short by the split's end.

        `name` is "train" or "eval". All batches of training and evaluation come from this method.
        """

        def read(start: int) -> Any:
            return self.read_batch(split, name, start, min(start + batch_size, split.num_samples))

        batches = read_ahead(read, starts) if self.reads_ahead else map(read, starts)
        for _ in starts:
            self.enter(Phase.DATA)
            yield next(batches)

    def read_batch(self, split: ClickDataset, name: str, start: int, stop: int) -> Any:
        """Return samples `start` to `stop` - 1 of a dataset split. Raises DatasetError if they are damaged."""
        batch = split.read(start, stop)
        batch.check(split, f"{self.spec.data_dir}: {name} sample", start)
        return batch

    # for the harness and for tests

    @contextmanager
    def report_phases(self, enter: Enter) -> Iterator[None]:
        """Call `enter` with a phase's name wherever that phase of a step begins, in the loop and in its model, for as
        long as the `with` block runs."""
        reporters = [self, self.model] if getattr(self.model, "enter", None) is ignore_phase else [self]
        for reporter in reporters:
            reporter.enter = enter
        try:
            yield
        finally:
            for reporter in reporters:
                reporter.enter = ignore_phase

    def synchronize(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def peak_device_bytes(self) -> int | None:
        return torch.cuda.max_memory_allocated(self.device) if self.device.type == "cuda" else None

    def peak_reserved_bytes(self) -> int | None:
        return torch.cuda.max_memory_reserved(self.device) if self.device.type == "cuda" else None

    def weights(self) -> Mapping[str, torch.Tensor] | None:
        weights: Mapping[str, torch.Tensor] = self.model.state_dict()
        return weights

    def state(self) -> dict[str, Any]:
        """Return the training state, weights not copied: `model`, `optimizers`, `step` (number), `rng` (state of
        torch's generator)."""
        is_cuda = self.device.type == "cuda"
        return {
            "model": self.model.state_dict(),
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
            "step": self._step,
            "rng": torch.cuda.get_rng_state(self.device) if is_cuda else torch.get_rng_state(),
        }

    def go_on(self, step: int, generator: torch.Tensor) -> None:
        """Continue training after step number `step`, with torch's generator in the state `generator`; the weights
        must have been loaded before."""
        self._step, self._next_batch = step, -1
        for optimizer in self.optimizers:
            for state in optimizer.state.values():
                if isinstance(state.get("step"), int):
                    state["step"] = step
        if self.device.type == "cuda":
            torch.cuda.set_rng_state(generator, self.device)
        else:
            torch.set_rng_state(generator)

"""The protocol that every implementation serves; `reference_models.registry` finds one by name."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

from reference_models.config.sections import DataConfig, RuntimeConfig, TrainConfig
from reference_models.data.store.dataset import OpenedDataset
from reference_models.fused.choice import MatmulChoice

if TYPE_CHECKING:
    import torch

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkloadSpec:
    """Everything an implementation needs to build one run. Torch-free, so that it can be planned anywhere."""

    model: Any
    """The model's own configuration, as its `ModelSpec` parses it."""
    data: DataConfig
    train: TrainConfig
    runtime: RuntimeConfig
    data_dir: Path
    seed: int
    matmul: MatmulChoice | None = None
    """How an implementation with a choice computes its matrix products; without one, each is torch.mm's."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainCounts:
    """What one call of `train` did. `num_samples` is global over all ranks."""

    num_steps: int
    num_samples: int


class Workload(Protocol):
    """One implementation of one model on one dataset."""

    def build(self) -> None:
        """Build weights and optimizer and warm up, off the clock.

        Touches the dataset's metadata only. Warm-up uses synthetic batches; afterwards weights, optimizer and
        random generators are bit for bit as if there had been none.
        """

    def hyperparameters(self) -> Mapping[str, int | float | str]:
        """Return mllog keys with values read from what was built: optimizer groups, loader, precision, threads."""

    @property
    def train_samples(self) -> int:
        """Samples of one epoch, as the loader counts them (before a last partial batch is dropped)."""

    @property
    def eval_samples(self) -> int: ...

    @property
    def global_batch_size(self) -> int: ...

    def train(self, num_steps: int) -> TrainCounts:
        """Train the next `num_steps` batches of the epoch; fewer at its end, and then `num_steps` says so.

        The first call touches the dataset. Raises NotFiniteError when the loss is not finite.
        """

    def evaluate(self) -> float:
        """Compute the model's metric, such as the ROC AUC, over the whole evaluation split.

        Raises NotFiniteError when a score is not finite.
        """

    def synchronize(self) -> None:
        """Wait until the device has finished all work that was asked of it."""

    def peak_device_bytes(self) -> int | None:
        """Return the peak memory of the accelerator, None on CPU."""

    def state(self) -> dict[str, Any]:
        """Return weights, optimizer and generator state, for equivalence tests."""


class EvaluatesMetrics(Workload, Protocol):
    """A workload whose evaluation can be judged by other metrics than its own."""

    def evaluate_with(self, metric: Callable[[Any, Any], T]) -> T:
        """Compute `metric` of the labels and logits of the whole evaluation split, as `metrics.METRICS` takes them;
        the same on every rank."""


@runtime_checkable
class ShowsOptimizers(Protocol):
    """A workload whose optimizers can be looked at, so that the log says what trains and not what was asked."""

    optimizers: "list[torch.optim.Optimizer]"
    """Those of the tables, if there are any, then that of all other weights; there after `build`."""


@runtime_checkable
class ReportsReservedMemory(Protocol):
    """A workload that says how much memory its device had to have, beside what was in use of it."""

    def peak_reserved_bytes(self) -> int | None:
        """Return the most that was reserved on the accelerator, None on CPU."""


def peak_reserved_bytes(workload: Workload) -> int | None:
    """Return what torch held of the accelerator at most; None on a CPU, and where the workload does not say."""
    return workload.peak_reserved_bytes() if isinstance(workload, ReportsReservedMemory) else None


@runtime_checkable
class NamesDataset(Protocol):
    """A workload that names the dataset that it reads, so that after a run its open files can be looked at."""

    def dataset(self) -> OpenedDataset:
        """Return what `build` opened."""


@runtime_checkable
class HoldsWeights(Protocol):
    """A workload that hands out what it has learnt, to be kept or served."""

    def weights(self) -> Mapping[str, "torch.Tensor"] | None:
        """Return the weights by the names of the reference's `state_dict` on rank 0, None elsewhere; not copies.

        Every rank calls it, after `build`.
        """


@runtime_checkable
class MeasuresTraffic(Protocol):
    """A workload whose ranks exchange tensors, and can say how much."""

    def measure_traffic(self, num_steps: int, *, with_evaluation: bool = True) -> dict[str, Any]:
        """Count bytes and measure seconds of the collective calls; every rank calls it, after the run."""

"""Protocol of all implementations of a model's training, which `reference_models.registry` finds by name."""

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
    """Specification of a run's training: model, data, optimizer, runtime, seed. Torch-free, so that a run can be
    planned without torch."""

    model: Any
    """Configuration of the model, as its `ModelSpec` parses it."""
    data: DataConfig
    train: TrainConfig
    runtime: RuntimeConfig
    data_dir: Path
    seed: int
    matmul: MatmulChoice | None = None
    """Kernels for the matrix products, which some implementations choose by timing; None: torch.mm computes every
    product."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainCounts:
    """Numbers of steps and samples of one call of `train`; `num_samples` is the total over all ranks."""

    num_steps: int
    num_samples: int


class Workload(Protocol):
    """Workload: an implementation of a model's training on a dataset."""

    def build(self) -> None:
        """Build the model's weights and its optimizers, and warm up, before the run's clock starts.

        Of the dataset, only the metadata is read: warm-up uses synthetic batches. After warm-up the weights,
        optimizers and random generators are bit for bit as if there had been none.
        """

    def hyperparameters(self) -> Mapping[str, int | float | str]:
        """Return the run's settings under MLPerf's log keys (mllog), read from what was built: optimizer, loader,
        precision, threads."""

    @property
    def train_samples(self) -> int:
        """Number of training samples of one epoch, as the loader counts them before it drops a last partial batch."""

    @property
    def eval_samples(self) -> int: ...

    @property
    def global_batch_size(self) -> int: ...

    def train(self, num_steps: int) -> TrainCounts:
        """Train on the next `num_steps` batches of the epoch, or on fewer at its end; return the steps and samples
        trained.

        The first call reads the dataset. Raises NotFiniteError if the loss is not finite.
        """

    def evaluate(self) -> float:
        """Return the model's quality metric, such as the ROC AUC, over the whole evaluation split.

        Raises NotFiniteError when a score is not finite.
        """

    def synchronize(self) -> None:
        """Wait until the device has finished all work that was started."""

    def peak_device_bytes(self) -> int | None:
        """Return the peak memory in use on the accelerator, in bytes; None on a CPU."""

    def state(self) -> dict[str, Any]:
        """Return the state of weights, optimizers and random generators, for tests that two implementations are
        equivalent."""


class EvaluatesMetrics(Workload, Protocol):
    """Workload whose evaluation can be judged by other quality metrics than the model's own."""

    def evaluate_with(self, metric: Callable[[Any, Any], T]) -> T:
        """Return what `metric`, a function of labels and scores, returns for the whole evaluation split. Every rank
        gets the same value."""


@runtime_checkable
class ShowsOptimizers(Protocol):
    """Workload whose optimizers can be inspected, so that the log holds the settings that they were built with, not
    those requested."""

    optimizers: "list[torch.optim.Optimizer]"
    """Optimizers of the tables, if there are tables, then of all other weights; set by the workload's `build`."""


@runtime_checkable
class ReportsReservedMemory(Protocol):
    """Workload that also reports the peak memory that torch reserved on its device; memory in use is a part of the
    reserved memory."""

    def peak_reserved_bytes(self) -> int | None:
        """Return the peak bytes that torch reserved on the accelerator; None on a CPU."""


def peak_reserved_bytes(workload: Workload) -> int | None:
    """Return the peak bytes that torch reserved on the workload's GPU; None on a CPU, or if the workload reports
    none."""
    return workload.peak_reserved_bytes() if isinstance(workload, ReportsReservedMemory) else None


@runtime_checkable
class NamesDataset(Protocol):
    """Workload that gives access to its dataset, so that the dataset's open files can be examined after a run."""

    def dataset(self) -> OpenedDataset:
        """Dataset that the workload's `build` opened."""


@runtime_checkable
class HoldsWeights(Protocol):
    """Workload that returns its trained weights, so that they can be stored or served."""

    def weights(self) -> Mapping[str, "torch.Tensor"] | None:
        """Return the trained weights by the reference's `state_dict` names, not copied, on rank 0; None on other
        ranks.

        Every rank calls it, after `build`.
        """


@runtime_checkable
class MeasuresTraffic(Protocol):
    """Workload whose ranks exchange tensors, and which measures the bytes and seconds of these exchanges."""

    def measure_traffic(self, num_steps: int, *, with_evaluation: bool = True) -> dict[str, Any]:
        """Return bytes and seconds of the ranks' collective calls; every rank calls it, after the run."""

"""Protocol of all implementations, which `reference_models.registry` finds by name."""

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
    """All that an implementation needs to build a run. Torch-free, so that a run can be planned without torch."""

    model: Any
    """Model's own configuration, as its `ModelSpec` parses it."""
    data: DataConfig
    train: TrainConfig
    runtime: RuntimeConfig
    data_dir: Path
    seed: int
    matmul: MatmulChoice | None = None
    """Choice of forms of matrix products, for implementations that have one; None: every product by torch.mm."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainCounts:
    """Steps and samples of one call of `train`. `num_samples` is the total over all ranks."""

    num_steps: int
    num_samples: int


class Workload(Protocol):
    """Implementation of a model's training on a dataset."""

    def build(self) -> None:
        """Build weights and optimizer and warm up, off the clock.

        Reads the dataset's metadata only. Warm-up uses synthetic batches; afterwards weights, optimizer and random
        generators are bit for bit as without warm-up.
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
        """Train on the next `num_steps` batches of the epoch, or on fewer at its end; return how many.

        The first call reads the dataset. Raises NotFiniteError if the loss is not finite.
        """

    def evaluate(self) -> float:
        """Return the model's metric, such as the ROC AUC, over the whole evaluation split.

        Raises NotFiniteError when a score is not finite.
        """

    def synchronize(self) -> None:
        """Wait until the device has finished all work."""

    def peak_device_bytes(self) -> int | None:
        """Return the peak memory of the accelerator, None on CPU."""

    def state(self) -> dict[str, Any]:
        """Return weights, optimizer and generator state, for equivalence tests."""


class EvaluatesMetrics(Workload, Protocol):
    """Workload whose evaluation can be judged by other metrics than its own."""

    def evaluate_with(self, metric: Callable[[Any, Any], T]) -> T:
        """Return `metric`, one of `metrics.METRICS`, of the whole evaluation split; the same on every rank."""


@runtime_checkable
class ShowsOptimizers(Protocol):
    """Workload whose optimizers can be read, so that the log has the settings used, not those requested."""

    optimizers: "list[torch.optim.Optimizer]"
    """Optimizers of the tables, if there are tables, then of all other weights; set by `build`."""


@runtime_checkable
class ReportsReservedMemory(Protocol):
    """Workload that reports the memory reserved on its device, beside the memory in use."""

    def peak_reserved_bytes(self) -> int | None:
        """Return the peak of reserved bytes on the accelerator, None on a CPU."""


def peak_reserved_bytes(workload: Workload) -> int | None:
    """Return the peak bytes that torch reserved on the accelerator; None on a CPU, or if none are reported."""
    return workload.peak_reserved_bytes() if isinstance(workload, ReportsReservedMemory) else None


@runtime_checkable
class NamesDataset(Protocol):
    """Workload that names its dataset, so that the dataset's open files can be examined after a run."""

    def dataset(self) -> OpenedDataset:
        """Dataset that `build` opened."""


@runtime_checkable
class HoldsWeights(Protocol):
    """Workload that returns its trained weights, to be stored or served."""

    def weights(self) -> Mapping[str, "torch.Tensor"] | None:
        """Return the weights by the names of the reference's `state_dict` on rank 0, None elsewhere; not copies.

        Every rank calls it, after `build`.
        """


@runtime_checkable
class MeasuresTraffic(Protocol):
    """Workload whose ranks exchange tensors, and which measures the traffic."""

    def measure_traffic(self, num_steps: int, *, with_evaluation: bool = True) -> dict[str, Any]:
        """Return bytes and seconds of the collective calls; every rank calls it, after the run."""

"""What the harness knows of a model: one `ModelSpec` per model folder, torch-free; `registry` finds it by name."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from typing import Any

from reference_models.config.sections import DataConfig, RuntimeConfig, TrainConfig
from reference_models.costs import (
    Matmul,
    MemoryEstimate,
    ModelCosts,
    PhaseCosts,
    Step,
    count_model,
    count_phases,
    estimate_click_memory,
)
from reference_models.data.store.dataset import Batch
from reference_models.distributed.placement import PlannerEstimate
from reference_models.process.errors import ConfigError
from reference_models.process.importing import import_with_torch
from reference_models.process.world import World
from reference_models.serving.servable import Servable, Weights
from reference_models.training.phases import PLAIN
from reference_models.training.workload import Workload, WorkloadSpec

Loader = Callable[[WorkloadSpec, World], Workload]
"""Makes a workload that is not built yet; imports what it needs when it is called."""


def load_class(place: str, **parts: str) -> Loader:
    """Make the loader of a workload's class, 'module:Class', and of the classes that it takes as arguments, likewise.

    They are imported when the loader is called.
    """

    def load(spec: WorkloadSpec, world: World) -> Workload:
        workload: Workload = _import(place)(spec, world, **{name: _import(part) for name, part in parts.items()})
        return workload

    return load


def _import(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(import_with_torch(module), name)


@dataclass(frozen=True, kw_only=True, slots=True)
class Implementation:
    """One way to train a model."""

    load: Loader
    needs: Sequence[str] = ()
    """Modules that an installation may lack."""
    how_to_install: str = ""
    reports_phases: bool = True
    """Whether it can be profiled."""
    refuse_ranks: Callable[[TrainConfig, RuntimeConfig], None] | None = None
    """Raises ConfigError for what it cannot do with so many ranks; None where it trains in one process."""
    chooses_matmul: bool = False
    """Whether on a CPU its workload is a `ChoosesMatmul`, whose products are timed before the first run."""
    switches: Collection[str] = ()
    """Those of runtime's `graph` and `kernels` that it knows; `graph` on GPUs alone."""
    serves: bool = True
    """Whether queries of any size, several at once, can go through the `compute_logits` of its `TrainingLoop`."""
    gpu_step_bytes: Callable[..., int] | None = None
    """(model, data, train): what a step takes on a GPU beside weights and state; as the reference's where None."""
    process_bytes: int = 0
    """What it adds to a process, beside Python, torch, weights and batches; measured."""

    def require_installed(self) -> None:
        """Raise ConfigError, with the line that installs it, when a module is missing. Imports nothing."""
        for module in self.needs:
            if find_spec(module) is None:
                raise self.explain_missing(ModuleNotFoundError(f"No module named {module!r}"))

    def explain_missing(self, error: Exception) -> ConfigError:
        return ConfigError(f"{self.needs[0]} cannot be imported: {error}. {self.how_to_install}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Costs:
    """What a model holds and does, computed from its configuration. `plan`, `profile` and throughput ask here."""

    step: Callable[[Any, DataConfig, int], Step]
    """(model, data, batch_size): what a training step does."""
    own_memory: Callable[..., MemoryEstimate] | None = None
    """(model, data, train, *, eval_samples, num_embeddings): where it is not that of a model of clicks."""
    min_samples: Callable[[Any, DataConfig], int] = lambda model, data: 1
    """(model, data): samples that cannot be computed apart, over whose step costs per sample are a mean."""
    forward: Callable[..., dict[str, PhaseCosts]] = lambda *args, **options: {}
    """(model, data, *, batch_size, precision, table_precision): of answering a batch, by phase."""

    def model(self, model: Any, data: DataConfig, num_embeddings: Sequence[int] | None = None) -> ModelCosts:
        """Count what a model holds and does. Raises ConfigError where the tables' sizes are not known."""
        num_samples = self.min_samples(model, data)
        return count_model(self.step(model, data, num_samples), data, num_embeddings, num_samples=num_samples)

    def memory(
        self,
        model: Any,
        data: DataConfig,
        train: TrainConfig,
        *,
        eval_samples: int,
        num_embeddings: Sequence[int] | None = None,
    ) -> MemoryEstimate:
        """Estimate the peak memory of training. Raises ConfigError where the tables' sizes are not known."""
        sizes: dict[str, Any] = {"eval_samples": eval_samples, "num_embeddings": num_embeddings}
        if self.own_memory is not None:
            return self.own_memory(model, data, train, **sizes)
        return estimate_click_memory(self.step(model, data, 1), data, train, **sizes)

    def matmuls(self, model: Any, data: DataConfig, batch_size: int) -> tuple[Matmul, ...]:
        """List every matrix product of one training step."""
        return self.step(model, data, batch_size).matmuls()

    def phases(self, model: Any, data: DataConfig, *, batch_size: int, **options: Any) -> dict[str, PhaseCosts]:
        """Count those of a training step by phase; see `count_phases` for its options."""
        return count_phases(self.step(model, data, batch_size), data, batch_size=batch_size, **options)


def _nobody_said(model: Any, data: DataConfig, batch_size: int) -> Step:
    """Stand for the step of a model whose spec leaves its costs out."""
    raise AssertionError("a ModelSpec counts it")


_MEASURED = "FLOP are measured: torch's FlopCounterMode counted one batch."


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelSpec:
    """One model. A model folder fills it; nothing outside of the folder knows the model otherwise."""

    section: type[Any]
    """The record of [model], for the schema of definitions."""
    parse: Callable[[Mapping[str, Any]], Any]
    """[model] of a definition to the model's own configuration. Raises ConfigError naming the field."""
    follow: Callable[[Mapping[str, Any], Collection[str]], Mapping[str, Any]] = lambda model, changed: model
    """[model] with what follows from its `changed` keys where any shape may be measured, shorthands written out."""
    refuse: Callable[[Any, DataConfig], object] = lambda model, data: None
    """Raises ConfigError for a configuration and data that do not fit together."""
    batch: type[Any] = Batch
    """What it is shown: the kinds of data whose layout gives such batches, and synthetic data."""
    why_no_bags: str = ""
    """Why its lookups are no bags of rows of tables, as the end of a sentence about it; empty where they are."""
    metric: str = "roc_auc"
    """What its workloads' `evaluate` computes: the quality.metric of its definitions, one of `metrics.METRICS`."""
    optimizers: Collection[str] = ("sgd", "adagrad", "rowwise_adagrad")
    """What train.opt_name may be."""
    width_keys: Collection[str] = ()
    """Keys of [model], shorthands among them, whose values may be written 512-256 or 512^3 on the command line."""
    scaling_axis: str = ""
    """What --axis of a sweep makes sizes of it a decade of training FLOP apart, as a scaling law needs."""
    implementations: Mapping[str, Implementation]
    """"reference" is what calibration trains."""
    costs: Costs = Costs(step=_nobody_said)
    """What it holds and does; counted on one batch where it is left out, which `notes` then says."""
    phases: Mapping[str, str] = field(default_factory=lambda: PLAIN)
    """Names of a training step's phases in their order, each with its label."""
    baselines: Mapping[str, Loader] = field(default_factory=dict)
    """Simpler models that a calibrated target must be out of reach of."""
    weights: Callable[[Any], Sequence[str]] = lambda model: ()
    """(model): the tensors whose initialisation the official log names."""
    notes: Sequence[str] = ()
    """Sentences on the model that `show` adds to a definition's notes, such as where it departs from an official one.
    """
    serve: Callable[[WorkloadSpec, Weights | None], Servable] | None = None
    """Builds what answers queries; the forward pass of its `TrainingLoop` does where None. Raises ConfigError."""
    plan_devices: Callable[..., PlannerEstimate] | None = None
    """(model, train, num_embeddings, multi_hot, *, num_dense, sharding, devices, on_progress)"""
    table_cost: Callable[..., Any] | None = None
    """(*, batch_size, devices): a cost of sets of tables, by that planner's estimator."""

    def __post_init__(self) -> None:
        """Have the costs counted that nobody has said."""
        if self.costs.step is _nobody_said:
            object.__setattr__(self, "costs", replace(self.costs, step=self._count_step))
            object.__setattr__(self, "notes", (*self.notes, _MEASURED))

    @property
    def has_measured_costs(self) -> bool:
        """Return whether its FLOP are counted on a batch instead of computed from its configuration."""
        return _MEASURED in self.notes

    def _count_step(self, model: Any, data: DataConfig, batch_size: int) -> Step:
        name = "reference" if "reference" in self.implementations else next(iter(self.implementations))
        count = import_with_torch("reference_models.count_step").count_step
        counted: Step = count(self.implementations[name].load, next(iter(self.optimizers)), model, data, batch_size)
        return counted

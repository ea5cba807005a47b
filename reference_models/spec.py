"""`ModelSpec`: all that the harness knows of a model. The folder of each model has a ModelSpec, torch-free, which
`registry` finds."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from typing import Any

from reference_models.config.sections import DataConfig, RuntimeConfig, TrainConfig
from reference_models.costs import (
    ComputedCosts,
    Matmul,
    MemoryEstimate,
    PhaseCosts,
    Step,
    count_model,
    count_phases,
    estimate_click_memory,
)
from reference_models.data.store.dataset import Batch
from reference_models.distributed.planner_estimate import PlannerEstimate
from reference_models.process.errors import ConfigError
from reference_models.process.importing import import_with_torch
from reference_models.process.world import World
from reference_models.serving.servable import Servable, Weights
from reference_models.training.phases import PLAIN
from reference_models.training.workload import Workload, WorkloadSpec

Loader = Callable[[WorkloadSpec, World], Workload]
"""Function that makes a workload (training of a model on a dataset), not built yet; it imports torch when called."""


def load_class(place: str, **parts: str) -> Loader:
    """Return the loader of a workload's class, named as 'module:Class'; `parts` are further classes, named in the
    same way, that are given to its constructor.

    The classes are imported when the loader is called.
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
    """Implementation of a model's training: the loader of its workload, and what it supports (phases, ranks,
    switches, serving)."""

    load: Loader
    needs: Sequence[str] = ()
    """Python modules that the implementation needs and an installation may lack."""
    how_to_install: str = ""
    reports_phases: bool = True
    """Whether the implementation's workload reports the phases of its steps, so that it can be profiled."""
    refuse_ranks: Callable[[TrainConfig, RuntimeConfig], None] | None = None
    """Function that raises ConfigError for settings that several ranks cannot train with; None where the
    implementation trains in one process only."""
    chooses_matmul: bool = False
    """Whether the workload, on a CPU, times several kernels for its matrix products before the first run and uses the
    fastest (`ChoosesMatmul`)."""
    switches: Collection[str] = ()
    """Keys of [runtime] (`graph`, `kernels`) that switch off a part of the implementation; `graph` only on GPUs."""
    serves: bool = True
    """Whether the `compute_logits` of the implementation's `TrainingLoop` can answer queries of any size, several at
    once."""
    gpu_step_bytes: Callable[..., int] | None = None
    """Function (model, data, train) that returns the bytes of a training step on a GPU, without weights and optimizer
    state.

    None: a step is taken to need as many bytes as the reference implementation's.
    """
    process_bytes: int = 0
    """Measured bytes of memory of a process of the implementation, without the memory of Python, torch, weights and
    batches."""

    def require_installed(self) -> None:
        """Raise ConfigError, with the install command, if a module that the implementation needs is missing. Imports
        nothing."""
        for module in self.needs:
            if find_spec(module) is None:
                raise self.explain_missing(ModuleNotFoundError(f"No module named {module!r}"))

    def explain_missing(self, error: Exception) -> ConfigError:
        return ConfigError(f"{self.needs[0]} cannot be imported: {error}. {self.how_to_install}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Costs:
    """Functions that compute a model's FLOP, bytes and memory from its configuration, for the commands `plan` and
    `profile` and for measurements of throughput."""

    step: Callable[[Any, DataConfig, int], Step]
    """Function (model, data, batch_size) that declares a training step of the model, from which its costs follow."""
    own_memory: Callable[..., MemoryEstimate] | None = None
    """Function (model, data, train, *, eval_samples, num_embeddings) that estimates the model's peak training memory.

    None: the memory is estimated by the formula for click models (`estimate_click_memory`).
    """
    min_samples: Callable[[Any, DataConfig], int] = lambda model, data: 1
    """Function (model, data) that returns a number of samples, by default 1. Mean costs per sample are computed from
    a declared training step of that many samples, such as the candidates of one full sequence."""
    forward: Callable[..., dict[str, PhaseCosts]] = lambda *args, **options: {}
    """Function (model, data, *, batch_size, precision, table_precision) that returns the costs of answering a batch
    of queries, by phase."""

    def model(self, model: Any, data: DataConfig, num_embeddings: Sequence[int] | None = None) -> ComputedCosts:
        """Return the model's sizes and its costs per sample. Raises ConfigError where the tables' sizes are not
        known."""
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
        """Estimate the peak memory of training the model. Raises ConfigError where the tables' sizes are not
        known."""
        sizes: dict[str, Any] = {"eval_samples": eval_samples, "num_embeddings": num_embeddings}
        if self.own_memory is not None:
            return self.own_memory(model, data, train, **sizes)
        return estimate_click_memory(self.step(model, data, 1), data, train, **sizes)

    def matmuls(self, model: Any, data: DataConfig, batch_size: int) -> tuple[Matmul, ...]:
        """Return every matrix product of one training step of the model."""
        return self.step(model, data, batch_size).matmuls()

    def phases(self, model: Any, data: DataConfig, *, batch_size: int, **options: Any) -> dict[str, PhaseCosts]:
        """Return the costs of a training step of the model by phase; `options` are those of `count_phases`."""
        return count_phases(self.step(model, data, batch_size), data, batch_size=batch_size, **options)


def _undeclared_step(model: Any, data: DataConfig, batch_size: int) -> Step:
    """Default step of a ModelSpec that declares no costs; raises AssertionError."""
    raise AssertionError("a ModelSpec counts it")


_MEASURED = "FLOP are measured: torch's FlopCounterMode counted one batch."


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelSpec:
    """Specification of a model: all that the harness knows of it. The folder of each model has one such
    specification."""

    section: type[Any]
    """Class of the model's section [model] of a definition; the schema of definitions is made from it."""
    parse: Callable[[Mapping[str, Any]], Any]
    """Function from a definition's [model] to the model's own configuration; its ConfigError names the invalid
    field."""
    follow: Callable[[Mapping[str, Any], Collection[str]], Mapping[str, Any]] = lambda model, changed: model
    """Function (section [model], names of its changed keys) that returns the section with shorthand keys written out,
    and with keys that depend on the changed ones brought up to date."""
    refuse: Callable[[Any, DataConfig], object] = lambda model, data: None
    """Function that raises ConfigError for a model's configuration and a dataset that do not fit together."""
    batch: type[Any] = Batch
    """Type of batch that the model trains on; datasets whose batches have this type, and synthetic data, fit the
    model."""
    why_no_bags: str = ""
    """Reason, as the end of a sentence, why the model's lookups are no bags (sums of table rows); empty where they
    are."""
    metric: str = "roc_auc"
    """Quality metric that the model's workloads compute, one of `metrics.METRICS`; a definition names it as
    quality.metric."""
    optimizers: Collection[str] = ("sgd", "adagrad", "rowwise_adagrad")
    """Optimizers that the model can be trained with: allowed values of train.opt_name."""
    width_keys: Collection[str] = ()
    """Keys of [model], shorthands included, whose lists of widths may be written 512-256 or 512^3 on the command
    line."""
    scaling_axis: str = ""
    """Value of `sweep --axis` that varies the model's size over a decade of training FLOP, to measure a scaling
    law."""
    implementations: Mapping[str, Implementation]
    """Implementations of the model's training by name; "reference" is the one that calibrates quality targets."""
    costs: Costs = Costs(step=_undeclared_step)
    """Functions that compute the model's costs; if left out, costs are counted by running one batch, and a sentence
    in `notes` then says so."""
    phases: Mapping[str, str] = field(default_factory=lambda: PLAIN)
    """Names of the phases of the model's training step, in order, each with its label."""
    baselines: Mapping[str, Loader] = field(default_factory=dict)
    """Loaders of simpler models, by name. A quality target of this model must be above what they reach."""
    weights: Callable[[Any], Sequence[str]] = lambda model: ()
    """Function of the model's configuration that returns the names of the weights whose initialisation MLPerf's rules
    require in a run's log."""
    notes: Sequence[str] = ()
    """Sentences on the model that `show` adds to a definition's notes, such as where it departs from an official
    model."""
    serve: Callable[[WorkloadSpec, Weights | None], Servable] | None = None
    """Function that builds the model that answers queries, or raises ConfigError.

    None: the forward pass of the model's `TrainingLoop` answers queries.
    """
    plan_devices: Callable[..., PlannerEstimate] | None = None
    """Function (model, train, num_embeddings, multi_hot, *, num_dense, sharding, devices, on_progress) that returns a
    planner's placement of the model's tables on `devices`, with estimated memory and time; None: no planner."""
    table_cost: Callable[..., Any] | None = None
    """Function (*, batch_size, devices) that returns a cost function: from sets of tables to their seconds per step,
    as the planner behind `plan_devices` estimates them. None: the model has no such cost function."""

    def __post_init__(self) -> None:
        """Make `costs` count by running one batch where the model declares no costs, and say so in `notes`."""
        if self.costs.step is _undeclared_step:
            object.__setattr__(self, "costs", replace(self.costs, step=self._count_step))
            object.__setattr__(self, "notes", (*self.notes, _MEASURED))

    @property
    def has_measured_costs(self) -> bool:
        """Return whether the model's FLOP are counted by running a batch instead of computed from its
        configuration."""
        return _MEASURED in self.notes

    def _count_step(self, model: Any, data: DataConfig, batch_size: int) -> Step:
        name = "reference" if "reference" in self.implementations else next(iter(self.implementations))
        count = import_with_torch("reference_models.count_step").count_step
        counted: Step = count(self.implementations[name].load, next(iter(self.optimizers)), model, data, batch_size)
        return counted

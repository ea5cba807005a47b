"""Load a benchmark by name or file: its definition and its typed workload configuration."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness.config.sections import CHECKPOINT, ID_MAP
from reference_models.config.checkpoint import CheckpointConfig
from reference_models.config.sections import DataConfig, RuntimeConfig, TrainConfig, parse_runtime, parse_train
from reference_models.costs import ComputedCosts, MemoryEstimate
from reference_models.data.registry import DATA_KINDS, find_data, parse_data
from reference_models.fused.choice import MatmulChoice
from reference_models.process.errors import ConfigError, did_you_mean
from reference_models.registry import (
    MODELS,
    find_implementation,
    find_model,
    is_model,
    label_of,
    parse_place,
    pin_code,
)
from reference_models.spec import Implementation, ModelSpec
from reference_models.training.workload import WorkloadSpec
from rules.benchmarks.loader import Benchmark, list_workload_names, load_benchmark, shipped_names, shipped_twin
from rules.errors import DefinitionError

MODEL_KEY = "model"
"""Key of [runtime] in a stored benchmark definition that names the file with the user's model."""
GIVEN_BY_USER = "Code in a file must be named by its user"


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkloadConfig:
    """Sections of a benchmark definition that describe the work of training, parsed and typed: [model], [data],
    [train], [runtime] and [checkpoint]. `model` has the type that its model's specification defines."""

    model_name: str
    """Name of the model; for a user's model, the file and the digest of the file."""
    model: Any
    data: DataConfig
    train: TrainConfig
    runtime: RuntimeConfig
    checkpoint: CheckpointConfig | None = None
    """Checkpoints to make during training; None where none are made."""

    def spec(
        self,
        data_dir: Path,
        seed: int,
        matmul: MatmulChoice | None = None,
        id_maps: Mapping[int, Any] | None = None,
    ) -> WorkloadSpec:
        """Return the specification from which an implementation builds the workload of one run. `id_maps` has each
        table's map of ids to embedding rows, where the definition asks for such maps."""
        return WorkloadSpec(
            model=self.model,
            data=self.data if id_maps is None else replace(self.data, id_maps=id_maps),
            train=self.train,
            runtime=self.runtime,
            data_dir=data_dir,
            seed=seed,
            matmul=matmul,
        )

    @property
    def model_spec(self) -> ModelSpec:
        return find_model(self.model_name)

    @property
    def implementation(self) -> Implementation:
        """Implementation of training that `runtime.implementation` names. Raises ConfigError when none has that
        name."""
        return find_implementation(self.model_name, self.runtime.implementation)

    @property
    def code_label(self) -> str:
        """Name of the implementation in logs, with the model's file where the model comes from a file."""
        name = label_of(self.runtime.implementation)
        return name if parse_place(self.model_name) is None else f"{name} of {label_of(self.model_name)}"

    def costs(self, num_embeddings: Sequence[int] | None = None) -> ComputedCosts:
        """Return the sizes of the model, and the FLOP and bytes of its training per sample.

        `num_embeddings` has the number of rows of each embedding table. It is needed if the definition does not state
        these numbers, which then come from prepared data. Raises ConfigError if neither the definition nor
        `num_embeddings` has them.
        """
        return self.model_spec.costs.model(self.model, self.data.mapped, num_embeddings)

    def estimate_memory(self, *, eval_samples: int, num_embeddings: Sequence[int] | None = None) -> MemoryEstimate:
        return self.model_spec.costs.memory(
            self.model, self.data.mapped, self.train, eval_samples=eval_samples, num_embeddings=num_embeddings
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One benchmark with its definition and its workload configuration, as loaded by name or file."""

    benchmark: Benchmark
    workload: WorkloadConfig


def has_implementation(benchmark: Benchmark) -> bool:
    """Return whether this program can train the benchmark's model on its data. Logs can be judged without that."""
    is_readable = benchmark.status != "official" or benchmark.sections["data"].get("kind") in DATA_KINDS
    return is_model(benchmark.model) and is_readable


def load_entry(name_or_path: str | Path, model: str | None = None) -> Entry:
    """Return one benchmark, loaded by name or file and validated. With `model`, its model is loaded from that file.

    Raises DefinitionError, which names the file and the field, for an invalid definition, and ConfigError where
    `model` names no file with a model.
    """
    benchmark = load_benchmark(name_or_path)
    place = None if model is None else pin_code(model)
    return Entry(benchmark=benchmark, workload=parse_workload(benchmark, benchmark.sections, place))


def load_data(name_or_path: str | Path) -> DataConfig:
    """Return only the data section of a benchmark, without loading its model. Raises DefinitionError."""
    benchmark = load_benchmark(name_or_path)
    if benchmark.status == "official" and not has_implementation(benchmark):
        raise _no_implementation(benchmark)
    try:
        return parse_data(benchmark.sections["data"])
    except ConfigError as error:
        raise DefinitionError(f"{benchmark.path}: {error}") from None


def refuse_model_file(benchmark: Benchmark, place: str) -> None:
    """Raise ConfigError where the user's model `place` is not PATH.py:OBJECT, or the definition names a model that
    ships with dlrmbench."""
    if not isinstance(place, str) or parse_place(place) is None:
        raise ConfigError(
            f"--model {place}: expected PATH.py:OBJECT. A model that a package provides is named by the definition "
            "alone, as benchmark.model."
        )
    if benchmark.model in MODELS:
        raise ConfigError(
            f"--model {label_of(place)}: {benchmark.name} is a benchmark of {benchmark.model}, which dlrmbench has. "
            "Train it with other code by --implementation, or name yours in your own definition, as benchmark.model."
        )


def parse_recorded(benchmark: Benchmark) -> WorkloadConfig:
    """Return the workload of the definition that a run set stores. Where that definition names a file with the user's
    model, the file is loaded: callers first check that the user has named it, too."""
    return parse_workload(benchmark, benchmark.sections, benchmark.sections["runtime"].get(MODEL_KEY))


def parse_workload(
    benchmark: Benchmark, sections: Mapping[str, Mapping[str, Any]], model: str | None = None
) -> WorkloadConfig:
    """Return the workload from a definition's sections model, data, train, runtime, id_map and checkpoint.

    `model` names the file of a user's own model, followed by the file's digest; None if the user gave no model.
    Raises DefinitionError, which names the file and the field, if the definition is invalid. Raises ConfigError if
    the file that `model` names has no model.
    """
    runtime = dict(sections["runtime"])
    named = runtime.pop(MODEL_KEY, model)
    if named != model:
        raise DefinitionError(f"{benchmark.path}: runtime.model is {named!r}. {GIVEN_BY_USER}, as --model.")
    if model is not None:
        refuse_model_file(benchmark, model)
    elif not has_implementation(benchmark):
        raise _no_implementation(benchmark)
    try:
        spec, train = find_model(model or benchmark.model), parse_train(sections["train"])
        if train.opt_name not in spec.optimizers:
            hint = did_you_mean(train.opt_name, [*spec.optimizers])
            raise ConfigError(f"train.opt_name is {train.opt_name!r}, which this model does not train with.{hint}")
        quality = benchmark.stated_quality
        if quality is not None and quality.metric != spec.metric:
            raise ConfigError(
                f"quality.metric is {quality.metric!r}, but model {benchmark.model!r} is measured by {spec.metric!r}."
            )
        workload = WorkloadConfig(
            model_name=model or benchmark.model,
            model=spec.parse(sections["model"]),
            data=replace(parse_data(sections["data"]), id_map=ID_MAP.read(sections.get(ID_MAP.name, {}))),
            train=train,
            runtime=parse_runtime(runtime),
            checkpoint=CHECKPOINT.read(sections.get(CHECKPOINT.name, {})),
        )
        _refuse_id_map(workload)
        spec.refuse(workload.model, workload.data.mapped)
        refuse_other_batches(workload.data, spec)
        return workload
    except ConfigError as error:
        raise DefinitionError(f"{benchmark.path}: {error}") from None


def _refuse_id_map(workload: WorkloadConfig) -> None:
    """Raise ConfigError where the map of ids to embedding rows cannot be applied to the workload's data or model."""
    data = workload.data
    if not data.id_map.is_active:
        return
    refuse_without_bags(workload, f"id_map.kind = {data.id_map.kind!r}")
    if data.id_map.kind == "classes" and data.kind != "click_log":
        raise ConfigError(f"id_map.kind is 'classes', which data.kind 'click_log' alone has, not {data.kind!r}.")


def refuse_without_bags(workload: WorkloadConfig, what: str) -> None:
    """Raise ConfigError where `what` (a feature) was requested of a model whose lookups are not pooled bags of
    embedding rows."""
    if why := workload.model_spec.why_no_bags:
        raise ConfigError(f"{what} is for models that pool bags of embedding rows: {workload.model_name} {why}.")


def refuse_other_batches(data: DataConfig, model: ModelSpec) -> None:
    """Raise ConfigError for data whose batches have a type that the model does not accept."""
    kind = find_data(data.kind)
    if not kind.is_in_memory and kind.layout.batch is not model.batch:
        taken = [name for name in DATA_KINDS if find_data(name).layout.batch is model.batch]
        raise ConfigError(
            f"data.kind is {data.kind!r}, expected {' or '.join(taken)}: this model takes no other samples."
        )


def _no_implementation(benchmark: Benchmark) -> DefinitionError:
    smaller = f"{benchmark.name}_small"
    trained = f" Train {smaller} here." if smaller in shipped_names() else ""
    return DefinitionError(
        f"{benchmark.name} cannot be run: there is no implementation of its model ({benchmark.model}) on its data "
        f"here. Its logs can be checked, scored, compared and reported.{trained}"
        if benchmark.status == "official"
        else f"{benchmark.path}: benchmark.model is {benchmark.model!r}, known: {', '.join(MODELS)}. A model of "
        "your own is in an installed package, or given as --model PATH.py:OBJECT."
    )


def refuse_shipped_name(benchmark: Benchmark) -> None:
    """Raise ConfigError where a user's definition file has the name of a shipped benchmark but other content."""
    if benchmark.name in (*shipped_names(), *list_workload_names()):
        current = load_benchmark(benchmark.name).definition_sha256
        if current != benchmark.definition_sha256 and shipped_twin(benchmark) is None:
            raise ConfigError(
                f"{benchmark.path}: benchmark.name {benchmark.name!r} is the name of a shipped benchmark with other "
                "content. Give your benchmark a name of its own."
            )

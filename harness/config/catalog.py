"""From a benchmark's name or file to its definition and its typed workload configuration."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness.config.sections import CHECKPOINT, ID_MAP
from reference_models.config.checkpoint import CheckpointConfig
from reference_models.config.sections import DataConfig, RuntimeConfig, TrainConfig, parse_runtime, parse_train
from reference_models.costs import MemoryEstimate, ModelCosts
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
from rules.benchmarks.loader import Benchmark, load_benchmark, shipped_names, shipped_twin, workload_names
from rules.errors import DefinitionError

MODEL_KEY = "model"
"""The key of [runtime] in what a set keeps that names the file that has the model."""
GIVEN_BY_USER = "Code in a file is given by its user"


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkloadConfig:
    """The opaque sections of a definition, typed. `model` is what the named model's spec parses."""

    model_name: str
    """Or the file that has it, pinned."""
    model: Any
    data: DataConfig
    train: TrainConfig
    runtime: RuntimeConfig
    checkpoint: CheckpointConfig | None = None
    """None where no checkpoint is made."""

    def spec(
        self,
        data_dir: Path,
        seed: int,
        matmul: MatmulChoice | None = None,
        id_maps: Mapping[int, Any] | None = None,
    ) -> WorkloadSpec:
        """Return what an implementation builds one run from; `id_maps` where the definition has ids mapped."""
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
        """The one that `runtime` names. Raises ConfigError when there is none of that name."""
        return find_implementation(self.model_name, self.runtime.implementation)

    @property
    def code_label(self) -> str:
        """What logs call the implementation, with the model's file where there is one."""
        name = label_of(self.runtime.implementation)
        return name if parse_place(self.model_name) is None else f"{name} of {label_of(self.model_name)}"

    def costs(self, num_embeddings: Sequence[int] | None = None) -> ModelCosts:
        """Compute costs; `num_embeddings` where only prepared data has the tables, ConfigError where nobody does."""
        return self.model_spec.costs.model(self.model, self.data.mapped, num_embeddings)

    def estimate_memory(self, *, eval_samples: int, num_embeddings: Sequence[int] | None = None) -> MemoryEstimate:
        return self.model_spec.costs.memory(
            self.model, self.data.mapped, self.train, eval_samples=eval_samples, num_embeddings=num_embeddings
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One benchmark as the harness runs it."""

    benchmark: Benchmark
    workload: WorkloadConfig


def has_implementation(benchmark: Benchmark) -> bool:
    """Return whether this program can train the benchmark: its model, on its data. Logs are judged either way."""
    is_readable = benchmark.status != "official" or benchmark.sections["data"].get("kind") in DATA_KINDS
    return is_model(benchmark.model) and is_readable


def load_entry(name_or_path: str | Path, model: str | None = None) -> Entry:
    """Load and validate one benchmark, its model from a file where one is given.

    Raises DefinitionError that names the file and the field, ConfigError for what is no model's file.
    """
    benchmark = load_benchmark(name_or_path)
    place = None if model is None else pin_code(model)
    return Entry(benchmark=benchmark, workload=parse_workload(benchmark, benchmark.sections, place))


def load_data(name_or_path: str | Path) -> DataConfig:
    """Load a benchmark's data alone, which needs no model. Raises DefinitionError."""
    benchmark = load_benchmark(name_or_path)
    if benchmark.status == "official" and not has_implementation(benchmark):
        raise _no_implementation(benchmark)
    try:
        return parse_data(benchmark.sections["data"])
    except ConfigError as error:
        raise DefinitionError(f"{benchmark.path}: {error}") from None


def refuse_model_file(benchmark: Benchmark, place: str) -> None:
    """Raise ConfigError where what is given is no file's object, or the definition's model is one of ours."""
    if not isinstance(place, str) or parse_place(place) is None:
        raise ConfigError(
            f"--model {place}: expected PATH.py:OBJECT. A model that a package provides is named by the definition "
            "alone, as benchmark.model."
        )
    if benchmark.model in MODELS:
        raise ConfigError(
            f"--model {label_of(place)}: {benchmark.name} is a benchmark of {benchmark.model}, which is here. Train "
            "it by other code with --implementation, or name yours in a definition of your own, as benchmark.model."
        )


def parse_recorded(benchmark: Benchmark) -> WorkloadConfig:
    """Parse what a set keeps, or is about to: its user has given the model's file that it names."""
    return parse_workload(benchmark, benchmark.sections, benchmark.sections["runtime"].get(MODEL_KEY))


def parse_workload(
    benchmark: Benchmark, sections: Mapping[str, Mapping[str, Any]], model: str | None = None
) -> WorkloadConfig:
    """Parse the opaque sections. `model` is the file that has the model, pinned, where its user gave one.

    Raises DefinitionError that names the file and the field; ConfigError for what is no model's file.
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
    """Raise ConfigError for ids that cannot be mapped, of this data or for this model."""
    data = workload.data
    if not data.id_map.is_active:
        return
    refuse_without_bags(workload, f"id_map.kind = {data.id_map.kind!r}")
    if data.id_map.kind == "classes" and data.kind != "click_log":
        raise ConfigError(f"id_map.kind is 'classes', which data.kind 'click_log' alone has, not {data.kind!r}.")


def refuse_without_bags(workload: WorkloadConfig, what: str) -> None:
    """Raise ConfigError where `what` was asked of a model whose lookups are no bags."""
    if why := workload.model_spec.why_no_bags:
        raise ConfigError(f"{what} is of models that pool bags of embedding rows: {workload.model_name} {why}.")


def refuse_other_batches(data: DataConfig, model: ModelSpec) -> None:
    """Raise ConfigError for data whose batches the model does not take."""
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
    """Raise ConfigError where a user's file carries a shipped name without the shipped content."""
    if benchmark.name in (*shipped_names(), *workload_names()):
        current = load_benchmark(benchmark.name).definition_sha256
        if current != benchmark.definition_sha256 and shipped_twin(benchmark) is None:
            raise ConfigError(
                f"{benchmark.path}: benchmark.name {benchmark.name!r} is the name of a shipped benchmark with other "
                "content. Give your benchmark a name of its own."
            )

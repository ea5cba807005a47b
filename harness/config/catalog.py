"""From a benchmark's name or file to its definition and its typed workload configuration."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reference_models.config.sections import DataConfig, RuntimeConfig, TrainConfig, parse_runtime, parse_train
from reference_models.costs import MemoryEstimate, ModelCosts
from reference_models.data.registry import parse_data
from reference_models.process.errors import ConfigError
from reference_models.registry import MODELS, find_implementation, find_model, is_model
from reference_models.spec import Implementation, ModelSpec
from reference_models.training.workload import WorkloadSpec
from rules.benchmarks.loader import Benchmark, load_benchmark
from rules.errors import DefinitionError


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkloadConfig:
    """The opaque sections of a definition, typed. `model` is what the named model's spec parses."""

    model_name: str
    model: Any
    data: DataConfig
    train: TrainConfig
    runtime: RuntimeConfig

    def spec(self, data_dir: Path, seed: int) -> WorkloadSpec:
        """Return what an implementation builds one run from."""
        return WorkloadSpec(
            model=self.model, data=self.data, train=self.train, runtime=self.runtime, data_dir=data_dir, seed=seed
        )

    @property
    def model_spec(self) -> ModelSpec:
        return find_model(self.model_name)

    @property
    def implementation(self) -> Implementation:
        """The one that `runtime` names. Raises ConfigError when there is none of that name."""
        return find_implementation(self.model_name, self.runtime.implementation)

    def costs(self, num_embeddings: Sequence[int] | None = None) -> ModelCosts:
        """Compute costs; `num_embeddings` where only prepared data has the tables, ConfigError where nobody does."""
        return self.model_spec.costs.model(self.model, self.data, num_embeddings)

    def estimate_memory(self, *, eval_samples: int, num_embeddings: Sequence[int] | None = None) -> MemoryEstimate:
        return self.model_spec.costs.memory(
            self.model, self.data, self.train, eval_samples=eval_samples, num_embeddings=num_embeddings
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One benchmark as the harness runs it."""

    benchmark: Benchmark
    workload: WorkloadConfig


def has_implementation(benchmark: Benchmark) -> bool:
    """Return whether this program can train the benchmark's model; logs are judged either way."""
    return is_model(benchmark.model)


def load_entry(name_or_path: str | Path) -> Entry:
    """Load and validate one benchmark. Raises DefinitionError that names the file and the field."""
    benchmark = load_benchmark(name_or_path)
    return Entry(benchmark=benchmark, workload=parse_workload(benchmark, benchmark.sections))


def parse_workload(benchmark: Benchmark, sections: Mapping[str, Mapping[str, Any]]) -> WorkloadConfig:
    if not has_implementation(benchmark):
        raise DefinitionError(
            f"{benchmark.name} cannot be run: there is no implementation of its model ({benchmark.model}) here. Its "
            "logs can be checked, scored, compared and reported."
            if benchmark.status == "official"
            else f"{benchmark.path}: benchmark.model is {benchmark.model!r}, known: {', '.join(MODELS)}."
        )
    try:
        return WorkloadConfig(
            model_name=benchmark.model,
            model=find_model(benchmark.model).parse(sections["model"]),
            data=parse_data(sections["data"]),
            train=parse_train(sections["train"]),
            runtime=parse_runtime(sections["runtime"]),
        )
    except ConfigError as error:
        raise DefinitionError(f"{benchmark.path}: {error}") from None

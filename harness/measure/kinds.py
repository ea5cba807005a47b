"""The kinds of measurement: what one fresh process may be asked to do.

A new kind is a module with a `KIND` and one line in KINDS here, its record and one line in `rules.records.kinds`, and
its options.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from harness.config.catalog import WorkloadConfig, parse_recorded
from harness.foundation.errors import ExitCode, HarnessError
from reference_models.fused.choice import convert_choice
from reference_models.process.world import World
from reference_models.training.workload import WorkloadSpec
from rules.benchmarks.loader import Benchmark, parse_benchmark
from rules.records.measure import Measurement

OnEvent = Callable[[Mapping[str, Any]], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """What every process is asked; a kind adds its own. Travels as JSON, `folder` is where that file is."""

    tables: dict[str, Any]
    definition_path: str
    data_dir: str
    seed: int
    folder: str
    matmul: dict[str, Any] | None = None
    """The forms of the step's matrix products, where they were chosen."""

    def parse(self) -> tuple[Benchmark, WorkloadConfig]:
        """Parse the definition. Raises DefinitionError or ConfigError."""
        benchmark = parse_benchmark(self.tables, Path(self.definition_path))
        return benchmark, parse_recorded(benchmark)

    def spec(self, config: WorkloadConfig) -> WorkloadSpec:
        """Return what an implementation builds the job's workload from. Raises ConfigError."""
        matmul = None if self.matmul is None else convert_choice(self.matmul, self.definition_path)
        return config.spec(Path(self.data_dir), self.seed, matmul)


@dataclass(frozen=True, kw_only=True, slots=True)
class MeasurementKind:
    """One kind: its name in run_set.json, what a process is asked, what it does, and the file it leaves behind."""

    name: str
    job: type[Job]
    record: type[Measurement]
    run: Callable[[Any, World, OnEvent], Measurement | None]
    """Called on every rank; the record on rank 0, None elsewhere."""
    file: str = "measured.json"
    """Of the record, in the job's folder."""
    min_processes: int = 1
    usual_processes: int | None = None
    """Where -n is not given, if more than the fewest."""
    fit: Callable[[Mapping[str, int], Sequence[tuple[int, int]]], Mapping[str, int]] = lambda options, sizes: options
    """What is asked, made to fit configurations of these global batch sizes and training samples; raises ConfigError
    where it does not."""
    is_scored: bool = False
    needs_labels: bool = False
    """Whether something must be learnt, so that synthetic data does not do."""
    is_served: bool = False
    """Whether [serve] says what is measured, and the model answers without being trained."""
    num_ranks: Callable[[Any], int] = lambda job: int(job.tables.get("runtime", {}).get("ranks", 1))
    """The processes that do one job together."""


KINDS: Mapping[str, str] = {
    "training": "harness.measure.training",
    "throughput": "harness.measure.throughput",
    "profile": "harness.measure.profile.job",
    "quality": "harness.measure.quality",
    "serve": "harness.measure.serving.job",
}
"""The module of each kind, imported when it is asked for."""
_ASIDE: Mapping[str, str] = {"choice": "harness.measure.choice"}
"""What a process may be asked besides, of which no set is made."""


def find_kind(name: str) -> MeasurementKind:
    """Find the kind of that name. Raises HarnessError (exit 8) where this version has none."""
    return _find(name, KINDS)


def find_job_kind(name: str) -> MeasurementKind:
    """Find the kind of a job, which may be one that no set is of. Raises HarnessError as `find_kind` does."""
    return _find(name, {**KINDS, **_ASIDE})


def _find(name: str, known: Mapping[str, str]) -> MeasurementKind:
    if name not in known:
        raise HarnessError(
            f"kind of measurement {name!r}: not known to this version, which has {', '.join(KINDS)}.", ExitCode.INPUT
        )
    kind: MeasurementKind = import_module(known[name]).KIND
    return kind

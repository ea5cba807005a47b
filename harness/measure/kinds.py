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
from reference_models.process.world import World
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

    def parse(self) -> tuple[Benchmark, WorkloadConfig]:
        """Parse the definition. Raises DefinitionError or ConfigError."""
        benchmark = parse_benchmark(self.tables, Path(self.definition_path))
        return benchmark, parse_recorded(benchmark)


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
    fit: Callable[[Mapping[str, int], Sequence[tuple[int, int]]], Mapping[str, int]] = lambda options, sizes: options
    """What is asked, made to fit configurations of these global batch sizes and training samples; raises ConfigError
    where it does not."""
    is_scored: bool = False
    needs_labels: bool = False
    """Whether something must be learnt, so that synthetic data does not do."""


KINDS: Mapping[str, str] = {
    "training": "harness.measure.training",
    "throughput": "harness.measure.throughput",
    "profile": "harness.measure.profile.job",
    "quality": "harness.measure.quality",
}
"""The module of each kind, imported when it is asked for."""


def find_kind(name: str) -> MeasurementKind:
    """Find the kind of that name. Raises HarnessError (exit 8) where this version has none."""
    if name not in KINDS:
        raise HarnessError(
            f"kind of measurement {name!r}: not known to this version, which has {', '.join(KINDS)}.", ExitCode.INPUT
        )
    kind: MeasurementKind = import_module(KINDS[name]).KIND
    return kind

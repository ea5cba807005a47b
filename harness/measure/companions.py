"""Companions of a process that trains: what is observed or kept beside what it measures, such as energy and weights.

A companion is a class and a line of `COMPANIONS`. What it returns becomes members of the process's record, whose type
says what they are: of a run `RunRecord`, of a measurement the type of an entry of its `processes`.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

from harness.config.catalog import WorkloadConfig
from harness.measure.kinds import Job, OnEvent
from reference_models.data.registry import open_dataset
from reference_models.data.store.dataset import OpenedDataset
from reference_models.process.world import World
from reference_models.training.workload import Workload
from rules.benchmarks.loader import Benchmark
from rules.records.codec import Record
from rules.records.run import RunRecord

COMPANIONS: Mapping[str, str] = {
    "energy": "harness.measure.energy:EnergyCompanion",
    "weights": "harness.measure.weights:WeightsCompanion",
    "read_data": "harness.measure.read_data:ReadDataCompanion",
    "peaks": "harness.measure.peaks:PeaksCompanion",
    "checkpoints": "harness.measure.checkpoints:CheckpointsCompanion",
    "traffic": "harness.measure.traffic:TrafficCompanion",
}
"""Every companion's class, in the order in which each moment comes to them. Weights come before traffic, whose steps
train on; peaks before checkpoints, since reading one back takes memory."""


class Companion:
    """One companion of one process; a class says only what it does at which moment. Every rank has one of each."""

    def __init__(self, process: "Process") -> None:
        self.process = process

    def before_build(self) -> None:
        """Prepare, where nothing is built and no clock runs. Raises ConfigError for what the workload cannot do."""

    def start(self) -> None:
        """Begin, with the timed region: of a run this is inside it, right after run_start."""

    def stop(self) -> None:
        """End, right after the timed region, while the log is still open."""

    def after(self) -> Mapping[str, Any]:
        """Return members of the record by their names in its file; rank 0's are recorded. The log is closed.

        What fails here is recorded of a run, which is complete without it, and raised of a measurement.
        """
        return {}


@dataclass(kw_only=True, slots=True)
class Process:
    """One process that trains, of those of its job: what companions look at."""

    job: Job
    world: World
    on_event: OnEvent
    record: type[Record]
    """The type of which the companions' members are."""
    benchmark: Benchmark
    config: WorkloadConfig
    dataset: OpenedDataset
    workload: Workload
    num_samples: int
    """How many are trained, where that is known before; else 0."""
    trained: Mapping[str, Any] = field(default_factory=dict)
    """Which run it is and how it ended, as the manifest of its weights says it; set before `after`."""
    members: dict[str, Any] = field(default_factory=dict)
    """What the companions returned, once all is over."""
    companions: tuple[Companion, ...] = ()

    @property
    def folder(self) -> Path:
        return Path(self.job.folder)

    @property
    def is_run(self) -> bool:
        """Return whether it is a run, which is kept, and not a measurement."""
        return self.record is RunRecord

    def start(self) -> None:
        """Let every companion begin."""
        for companion in self.companions:
            companion.start()

    def stop(self) -> None:
        """Let every companion end."""
        for companion in self.companions:
            companion.stop()


@contextmanager
def measuring(
    job: Job,
    world: World,
    on_event: OnEvent,
    record: type[Record],
    *,
    num_samples: int = 0,
    reshape: Callable[[WorkloadConfig], WorkloadConfig] = lambda config: config,
) -> Iterator[Process]:
    """Load the job's workload, for the body to build, train, start and stop; then `members` has what companions say.

    `reshape` changes the configuration that the definition has. Raises what loading raises, and what a companion
    raises; after an error in the body no companion is asked any more.
    """
    started = datetime.now(UTC)
    benchmark, config = job.parse()
    config = reshape(config)
    dataset = open_dataset(Path(job.data_dir), config.data)
    workload = config.implementation.load(job.spec(config), world)
    process = Process(
        job=job,
        world=world,
        on_event=on_event,
        record=record,
        benchmark=benchmark,
        config=config,
        dataset=dataset,
        workload=workload,
        num_samples=num_samples,
    )
    process.companions = tuple(_find(place)(process) for place in COMPANIONS.values())
    for companion in process.companions:
        companion.before_build()
    yield process
    for companion in process.companions:
        process.members |= companion.after()
    process.members["started_utc"] = started.isoformat(timespec="milliseconds")
    process.members["ended_utc"] = datetime.now(UTC).isoformat(timespec="milliseconds")


def _find(place: str) -> Callable[[Process], Companion]:
    module, _, name = place.partition(":")
    found: Callable[[Process], Companion] = getattr(import_module(module), name)
    return found

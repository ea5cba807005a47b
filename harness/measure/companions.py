"""Define companions: classes that observe a process that trains, or keep something of it, in addition to what the
process itself measures. Energy is an example of what is observed, and the weights of what is kept.

To add a companion, write a class and add a line to `COMPANIONS`. The values that a companion returns become fields of
the process's record: of `RunRecord` for a run, of an entry of `processes` for another measurement.
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
"""Classes of all companions (observers of a process that trains), in the order in which they are called.

The companion that keeps the weights comes before the companion that measures traffic, since measuring traffic trains
further steps. The companion that reads peak memory comes before the companion that makes checkpoints, since reading a
checkpoint back takes memory.
"""


class Companion:
    """Observer of one process that trains, such as of its energy. Every rank has one object of each class. A method
    is called before the model is built, one at the start of the timed region, one at its stop, and one afterwards. A
    subclass overrides those that it needs."""

    def __init__(self, process: "Process") -> None:
        self.process = process

    def before_build(self) -> None:
        """Prepare to observe the process, before its model is built and before any clock runs.

        Raises ConfigError where the workload cannot do what the configuration asks of this companion.
        """

    def start(self) -> None:
        """Begin observing at the start of the timed region; in a run this is inside the region, right after
        run_start."""

    def stop(self) -> None:
        """Stop observing right after the timed region, while the run's log is still open."""

    def after(self) -> Mapping[str, Any]:
        """Return fields for the process's record, as a dict from a field's name in the record's file to its value.
        This is called after the log is closed. Only rank 0's fields are recorded.

        If a companion of a run raises an error here, the error is recorded and the run does not fail, since a run is
        complete without these fields. In any other measurement the error is raised.
        """
        return {}


@dataclass(kw_only=True, slots=True)
class Process:
    """One rank of a job that trains, as its companions (observers of energy, weights and the like) see it."""

    job: Job
    world: World
    on_event: OnEvent
    record: type[Record]
    """Type of the JSON record that the process writes; observers of the measurement (companions) add fields to it."""
    benchmark: Benchmark
    config: WorkloadConfig
    dataset: OpenedDataset
    workload: Workload
    num_samples: int
    """Number of samples that the process trains, where it is known beforehand; else 0."""
    trained: Mapping[str, Any] = field(default_factory=dict)
    """Fields for the manifest of kept weights: the run, and how it ended. They are set after training, before
    observers such as the energy meter return their results."""
    members: dict[str, Any] = field(default_factory=dict)
    """Fields for the process's record, as the objects that observe the measurement (companions) returned them in
    `after`."""
    companions: tuple[Companion, ...] = ()

    @property
    def folder(self) -> Path:
        return Path(self.job.folder)

    @property
    def is_run(self) -> bool:
        """Whether the process is a run to the target (whose folder is kept) rather than another measurement."""
        return self.record is RunRecord

    def start(self) -> None:
        """Let every companion (observer of the process) begin, at the start of the timed region."""
        for companion in self.companions:
            companion.start()

    def stop(self) -> None:
        """Let every companion (observer of the process) stop, at the end of the timed region."""
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
    """Prepare a job that trains, and yield its process, as observers of energy, weights and the like see it. In the
    `with` block the caller builds the model, trains, and starts and stops these observers ("companions"). After the
    block, `members` of the process has the values that the observers returned.

    `reshape` changes the configuration of the job before it is used. Raises the errors of loading and of companions.
    After an error in the block no companion is called any more.
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

"""An experiment before it is made: configurations, repetitions of each, and the relation between configurations."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.autotune.tuning import Preparation
from harness.config.axes import Axis
from harness.config.matmul import GivenMatmul
from harness.config.run_config import RunConfig
from harness.experiment.request import Request
from harness.experiment.sides import Source
from harness.measure.kinds import Kind
from harness.run_sets.installation import Installation
from rules.records.experiment import FailureRecord, StopRecord
from rules.records.run_set import UntilRecord


@dataclass(frozen=True, kw_only=True, slots=True)
class Configuration:
    """One configuration of an experiment; `failure` is the reason why it cannot be measured."""

    label: str
    config: RunConfig
    folder: str = ""
    """Name of the run set's folder in the group."""
    values: Mapping[str, str] = field(default_factory=dict)
    """Values of the varied keys, as the user wrote them."""
    installation: Installation | None = None
    """Installation of dlrmbench that measures the configuration; None for this one."""
    prepared: Preparation | None = None
    failure: FailureRecord | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Experiment:
    """Configurations to be measured, the number of repetitions, and the relation between the configurations."""

    request: Request
    kind: Kind
    options: Mapping[str, int]
    """Options of the kind of measurement, such as the number of steps."""
    relation: str
    """Name of the relation between configurations, from `relation.RELATIONS` or an extension."""
    configurations: tuple[Configuration, ...]
    repetitions: int
    axes: tuple[Axis, ...] = ()
    until: UntilRecord | None = None
    division: str | None = None
    timeout_s: float | None = None
    matmul: GivenMatmul | None = None
    source: Source | None = None
    """Run set that the base of a pair repeats."""
    stop: StopRecord | None = None
    """Rule by which the experiment grows from its measurements; `until` is the rule of a single set."""
    name: str = ""
    """Middle part of a group's folder name, between its relation's prefix and the time."""
    batch_sizes: tuple[int, ...] = ()
    """Global batch sizes that configurations which are added later may have."""

    @property
    def is_autotuned(self) -> bool:
        """Whether autotuning times how steps are computed before the first repetition.

        Where ranks are varied, they would share the cores in every number that is compared; externally launched runs
        choose nothing.
        """
        are_ranks_varied = any(axis.key == "runtime.ranks" for axis in self.axes)
        return self.kind.is_autotuned and not are_ranks_varied and self.request.run_index is None

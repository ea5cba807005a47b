"""What is going to be measured: configurations, how often each, and what they are to each other."""

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
    """One configuration of an experiment; `failure` is why it cannot be measured."""

    label: str
    config: RunConfig
    folder: str = ""
    """The name of its run set's folder in the group."""
    values: Mapping[str, str] = field(default_factory=dict)
    """What is varied, as it was written, by key."""
    installation: Installation | None = None
    """The dlrmbench that measures it, where it is another than this one."""
    prepared: Preparation | None = None
    failure: FailureRecord | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Experiment:
    """What is going to be measured, how often, and how the configurations belong together."""

    request: Request
    kind: Kind
    options: Mapping[str, int]
    """What the kind is asked besides."""
    relation: str
    """What they are to each other: a name of `relation.RELATIONS`, or an extension's."""
    configurations: tuple[Configuration, ...]
    repetitions: int
    axes: tuple[Axis, ...] = ()
    until: UntilRecord | None = None
    division: str | None = None
    timeout_s: float | None = None
    matmul: GivenMatmul | None = None
    source: Source | None = None
    """The set that the first of two sides repeats."""
    stop: StopRecord | None = None
    """The rule by which it is extended from what is measured; `until` is that of a set alone."""
    name: str = ""
    """What the folder of a group is called, between what its relation is called and its moment."""
    batch_sizes: tuple[int, ...] = ()
    """Global batch sizes that configurations which are added later may have."""

    @property
    def is_autotuned(self) -> bool:
        """Return whether how steps are computed is chosen by timing before the first repetition.

        Ranks share the cores among them, in every number that is compared; externally launched ones choose nothing.
        """
        are_ranks_varied = any(axis.key == "runtime.ranks" for axis in self.axes)
        return self.kind.is_autotuned and not are_ranks_varied and self.request.run_index is None

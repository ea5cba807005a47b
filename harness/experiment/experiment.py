"""Describe an experiment before its folder is made: configurations, repetitions of each, and how these are
compared."""

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
    """One configuration of an experiment; `failure` is the reason why the configuration cannot be measured, None if
    it can."""

    label: str
    config: RunConfig
    folder: str = ""
    """Name of the configuration's run-set folder in the experiment's folder; empty for an experiment of one
    configuration."""
    values: Mapping[str, str] = field(default_factory=dict)
    """Values that the axes of a sweep have in this configuration, by configuration key, as text; empty for an
    experiment without axes, such as a pair."""
    installation: Installation | None = None
    """Other installation of dlrmbench that measures the configuration; None for the running one."""
    prepared: Preparation | None = None
    failure: FailureRecord | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Experiment:
    """Configurations to be measured, the number of repetitions of each, and how the configurations are compared."""

    request: Request
    kind: Kind
    options: Mapping[str, int]
    """Options of the kind of measurement, such as its number of steps."""
    relation: str
    """Name of the relation between the configurations, such as one (a single configuration), sides (a pair) or matrix
    (a sweep); a key of `relation.RELATIONS`, or the name of an extension's relation."""
    configurations: tuple[Configuration, ...]
    repetitions: int
    axes: tuple[Axis, ...] = ()
    until: UntilRecord | None = None
    division: str | None = None
    timeout_s: float | None = None
    matmul: GivenMatmul | None = None
    source: Source | None = None
    """Existing run set whose configuration is measured again, alternately with a new configuration; None without
    --beside."""
    stop: StopRecord | None = None
    """Stop rule, which adds repetitions or configurations depending on the measurements so far; None without one. The
    stop rule of an experiment of one configuration is in `until`."""
    name: str = ""
    """Middle part of the experiment's folder name, between the prefix (such as `sweep`) and the time."""
    batch_sizes: tuple[int, ...] = ()
    """Global batch sizes from which configurations may be added to the experiment; empty if none may be added."""

    @property
    def is_autotuned(self) -> bool:
        """Whether autotuning times kernels and threads before the first repetition.

        False if the number of ranks is varied: the thread counts then follow from the number of cores, so that every
        compared configuration uses the same cores. False also if torchrun or srun starts the ranks.
        """
        are_ranks_varied = any(axis.key == "runtime.ranks" for axis in self.axes)
        return self.kind.is_autotuned and not are_ranks_varied and self.request.run_index is None

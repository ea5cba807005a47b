"""Relations between configurations, and what the loop needs to know of each. The registry imports none before use."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from harness.config.run_config import Override
from harness.experiment.context import Context
from harness.experiment.experiment import Experiment
from harness.experiment.request import Request
from harness.foundation.errors import ExitCode, HarnessError
from harness.launch.slots import Slot
from harness.measure.kinds import Kind
from rules.extensions import load_place, with_extensions
from rules.records.experiment import ExperimentRecord, MemberRecord, ReadsAs


@dataclass(frozen=True, kw_only=True, slots=True)
class Relation(ABC):
    """Relation between the configurations of an experiment. Methods have the common behaviour; subclasses differ from
    it."""

    name: str
    """Name in experiment.json."""
    word: str
    """Word for the whole in messages, such as "sweep"."""
    reads_as: ReadsAs
    prefix: str = ""
    """Beginning of a group's folder name, before a hyphen."""
    parts: str = "runs"
    """Word for the repetitions in messages."""
    on_failure: Literal["stop", "leave_out"] = "stop"
    """Action when a repetition fails."""
    on_other_code: Literal["warn", "refuse"] = "refuse"
    """Action when other code began the group."""
    needs_first: bool = False
    """True if the first configuration cannot be left out, since all others are compared with it."""
    forgets_failures: bool = True
    """True if `resume` retries failed configurations; False where a failure is a finding."""
    takes_python: bool = False
    """True if another interpreter may measure a configuration."""
    num_at_end: int = 0
    """Usual number of repetitions that `end` makes, for the estimate of the time left."""
    may_grow: bool = True
    """True if a user may ask for more repetitions of each configuration."""

    @property
    def is_group(self) -> bool:
        """Whether a file says how several run sets belong together."""
        return self.reads_as != "alone"

    def benchmarks(self, request: Request) -> Sequence[str]:
        """Return the definitions that a request names, without reading them."""
        return [request.benchmark_named]

    def overrides(self, request: Request) -> Sequence[Override]:
        """Return all values that a request sets, in any configuration."""
        return request.overrides

    @abstractmethod
    def expand(self, request: Request, kind: Kind, options: Mapping[str, int]) -> Experiment:
        """Resolve every configuration; `options` are those of the kind of measurement.

        Raises HarnessError, ConfigError or DefinitionError for what cannot be run.
        """

    def why_misshapen(self, record: ExperimentRecord) -> str | None:
        """Return why a group's record is not one that this relation makes; None where it is. The file may be a
        stranger's."""
        return None

    def num_planned(self, record: ExperimentRecord) -> int | None:
        """Return the number of repetitions in the first stage; None where the list of configurations determines
        it."""
        return None

    def plan_slots(self, folder: Path, record: ExperimentRecord) -> Sequence[Slot]:
        """Return the slots in which configurations are measured side by side; none where they run one at a time.

        Raises HarnessError (exit 2) where this system has too few cores or GPUs.
        """
        return ()

    def make_member(self, folder: Path, record: ExperimentRecord, values: Mapping[str, str]) -> MemberRecord:
        """Make one more configuration and its run set, from the values by key that a stop rule proposes."""
        raise HarnessError(
            f"{folder}: its stop rule adds a configuration, which no {self.word} takes.", ExitCode.INPUT
        )

    def end(self, folder: Path, context: Context) -> None:
        """Do the remaining work after all repetitions. Raises HarnessError where that fails."""
        return  # most relations have nothing left to do

    @abstractmethod
    def write_pages(self, folder: Path) -> None:
        """Write the pages of a complete experiment."""

    def show(self, folder: Path, record: ExperimentRecord, form: str, problem: str) -> ExitCode | None:
        """Print the result of a complete experiment in `form`; `problem` is the reason why `end` failed.

        Returns the command's exit code; None where the default output for this relation applies.
        """
        return None


RELATIONS: Mapping[str, str] = {
    "one": "harness.experiment.relations.one:ONE",
    "sides": "harness.experiment.relations.pair:PAIR",
    "matrix": "harness.experiment.relations.sweep:SWEEP",
}
"""Relations of the core by their name in experiment.json, as module:name; extensions add theirs."""


def find_relation(name: str) -> Relation:
    """Return the relation of that name. Raises HarnessError (exit 8) for one that this copy does not have."""
    known = with_extensions(RELATIONS, "relations")
    if name not in known:
        raise HarnessError(
            f"relation {name!r}: not known to this copy, which has {', '.join(known)}.",
            ExitCode.INPUT,
        )
    found: Relation = load_place(known[name])
    return found


def asked_relation(request: Request) -> Relation:
    """Return the relation that a request asks for, by name, by --beside, or by its verb."""
    if request.beside is not None:
        return find_relation("sides")
    return find_relation(request.relation or ("matrix" if request.verb == "sweep" else "one"))

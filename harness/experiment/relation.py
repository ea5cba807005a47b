"""A relation: all that the loop asks of how configurations belong together. The registry imports none before use."""

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
    """What configurations are to each other. Methods say what holds for most; one that differs is a subclass."""

    name: str
    """As experiment.json says it."""
    word: str
    """What messages call the whole, such as "sweep"."""
    reads_as: ReadsAs
    prefix: str = ""
    """What the name of a group's folder begins with, before a hyphen."""
    parts: str = "runs"
    """What messages call its repetitions."""
    on_failure: Literal["stop", "leave_out"] = "stop"
    """What the failure of a repetition does."""
    on_other_code: Literal["warn", "refuse"] = "refuse"
    """What becomes of a group that other code began."""
    needs_first: bool = False
    """Whether the first configuration cannot be left out, since all others are held to it."""
    forgets_failures: bool = True
    """Whether what has failed is tried again by `resume`; not where a failure is what was found."""
    takes_python: bool = False
    """Whether a configuration may be measured by another interpreter."""
    num_at_end: int = 0
    """How many repetitions `end` usually makes, for an estimate of the time that is left."""
    may_grow: bool = True
    """Whether a person may ask for more repetitions of each configuration."""

    @property
    def is_group(self) -> bool:
        """Return whether a file says how several run sets belong together."""
        return self.reads_as != "alone"

    def benchmarks(self, request: Request) -> Sequence[str]:
        """Return the definitions that a request names, without a look at any."""
        return [request.benchmark_named]

    def overrides(self, request: Request) -> Sequence[Override]:
        """Return all values that a request sets, of whichever configuration."""
        return request.overrides

    @abstractmethod
    def expand(self, request: Request, kind: Kind, options: Mapping[str, int]) -> Experiment:
        """Resolve every configuration; `options` is what the kind is asked besides.

        Raises HarnessError, ConfigError or DefinitionError for what cannot be run.
        """

    def why_misshapen(self, record: ExperimentRecord) -> str | None:
        """Say why a group is none that this relation makes: its file may be anyone's. None for one that it makes."""
        return None

    def num_planned(self, record: ExperimentRecord) -> int | None:
        """Return how many repetitions of the first stage there will be; None where its configurations tell."""
        return None

    def plan_slots(self, folder: Path, record: ExperimentRecord) -> Sequence[Slot]:
        """Return the slots in which configurations are measured side by side; none where one is at a time.

        Raises HarnessError (exit 2) where this system has too few cores or GPUs for them.
        """
        return ()

    def make_member(self, folder: Path, record: ExperimentRecord, values: Mapping[str, str]) -> MemberRecord:
        """Make one more configuration, of the values by key that a stop rule proposes, and its run set."""
        raise HarnessError(
            f"{folder}: its stop rule adds a configuration, which no {self.word} takes.", ExitCode.INPUT
        )

    def end(self, folder: Path, context: Context) -> None:
        """Make what is still to be made once all repetitions are there. Raises HarnessError where it cannot be."""
        return  # with most, nothing

    @abstractmethod
    def write_pages(self, folder: Path) -> None:
        """Write what a complete experiment is shown on."""

    def show(self, folder: Path, record: ExperimentRecord, form: str, problem: str) -> ExitCode | None:
        """Print what came of a complete experiment, in a form of the command line; `problem` is why `end` failed.

        Returns the command's exit code; None where it is shown like every other that reads like it.
        """
        return None


RELATIONS: Mapping[str, str] = {
    "one": "harness.experiment.relations.one:ONE",
    "sides": "harness.experiment.relations.pair:PAIR",
    "matrix": "harness.experiment.relations.sweep:SWEEP",
}
"""The core's, by the name that experiment.json says, as module:name; extensions add theirs."""


def find_relation(name: str) -> Relation:
    """Find a relation. Raises HarnessError (exit 8) for one that this copy does not have."""
    known = with_extensions(RELATIONS, "relations")
    if name not in known:
        raise HarnessError(
            f"relation {name!r}: configurations that belong together in a way that this copy does not know. It has "
            f"{', '.join(known)}.",
            ExitCode.INPUT,
        )
    found: Relation = load_place(known[name])
    return found


def asked_relation(request: Request) -> Relation:
    """Return the relation that a request asks for, by name, by a set to measure beside, or by its verb."""
    if request.beside is not None:
        return find_relation("sides")
    return find_relation(request.relation or ("matrix" if request.verb == "sweep" else "one"))

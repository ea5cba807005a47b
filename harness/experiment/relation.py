"""Define the relations between the configurations of an experiment: a single one, a pair, a sweep, … A relation
defines what differs between experiments when they are made, resumed and shown. `find_relation` imports the module of
a relation only when the relation is used."""

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
    """Relation between the configurations of an experiment: a single one, a pair, a sweep, … A method does what most
    relations have in common; subclasses override it."""

    name: str
    """Name of the relation in experiment.json: "one" for a single configuration, "sides" for a pair, "matrix" for a
    sweep, and others."""
    word: str
    """Word for an experiment with this relation in messages, such as "sweep"."""
    reads_as: ReadsAs
    prefix: str = ""
    """Beginning of the experiment's folder name, before a hyphen."""
    parts: str = "runs"
    """Plural noun for the experiment's repetitions in messages, such as "runs"."""
    on_failure: Literal["stop", "leave_out"] = "stop"
    """Action when a repetition fails: stop the experiment, or leave its configuration out."""
    on_other_code: Literal["warn", "refuse"] = "refuse"
    """Action when an experiment is continued and another version of dlrmbench's code began it: warn or refuse."""
    needs_first: bool = False
    """True if the first configuration, with which all others are compared, cannot be left out when it fails."""
    forgets_failures: bool = True
    """True if `resume` retries failed configurations; False where a configuration's failure is itself a result."""
    takes_python: bool = False
    """True if another Python interpreter's dlrmbench may measure one of the configurations."""
    num_at_end: int = 0
    """Number of repetitions that are usually made after the planned ones, at the experiment's end, for the estimate
    of the time left."""
    may_grow: bool = True
    """True if a user may ask `resume` for more repetitions of each configuration."""

    @property
    def is_group(self) -> bool:
        """Whether the experiment has a file, experiment.json, that says how several run sets belong together."""
        return self.reads_as != "alone"

    def benchmarks(self, request: Request) -> Sequence[str]:
        """Return the names or paths of the benchmark definitions that a request names, without reading these."""
        return [request.benchmark_named]

    def overrides(self, request: Request) -> Sequence[Override]:
        """Return all values that a request sets (--set and the like), in any configuration."""
        return request.overrides

    @abstractmethod
    def expand(self, request: Request, kind: Kind, options: Mapping[str, int]) -> Experiment:
        """Return the experiment of a request, with every configuration resolved; `options` are the options of the
        kind of measurement.

        Raises HarnessError, ConfigError or DefinitionError for what cannot be run.
        """

    def why_misshapen(self, record: ExperimentRecord) -> str | None:
        """Return the reason why `record`, the contents of an experiment.json, is not of this relation's shape; None
        where it is. A stranger may have written that file."""
        return None

    def num_planned(self, record: ExperimentRecord) -> int | None:
        """Return the number of repetitions in the experiment's first stage (the runs or measurements); None where it
        follows from the list of configurations."""
        return None

    def plan_slots(self, folder: Path, record: ExperimentRecord) -> Sequence[Slot]:
        """Return the slots (each some cores and GPUs) in which configurations are measured at the same time; an empty
        sequence where they are measured one after the other.

        Raises HarnessError (exit 2) where this system has too few cores or GPUs.
        """
        return ()

    def make_member(self, folder: Path, record: ExperimentRecord, values: Mapping[str, str]) -> MemberRecord:
        """Create one more configuration with its run set, from the values (by configuration key) that a stop rule
        proposes; return the configuration's entry for experiment.json."""
        raise HarnessError(
            f"{folder}: its stop rule adds a configuration, which no {self.word} takes.", ExitCode.INPUT
        )

    def end(self, folder: Path, context: Context) -> None:
        """Do the work that remains after all repetitions, such as measuring the best configuration again. Raises
        HarnessError where that fails."""
        return  # most relations have nothing left to do

    @abstractmethod
    def write_pages(self, folder: Path) -> None:
        """Write the pages of the complete experiment in `folder`."""

    def show(self, folder: Path, record: ExperimentRecord, form: str, problem: str) -> ExitCode | None:
        """Print the result of a complete experiment in `form` (text or JSON) and return the command's exit code.
        Return None if nothing is printed here; the command line then prints the result in the way that `reads_as` in
        experiment.json says.

        If the experiment's last step, `end`, failed, `problem` is the reason.
        """
        return None


RELATIONS: Mapping[str, str] = {
    "one": "harness.experiment.relations.one:ONE",
    "sides": "harness.experiment.relations.pair:PAIR",
    "matrix": "harness.experiment.relations.sweep:SWEEP",
}
"""Relations between configurations by their name in experiment.json, as module:name; extensions add theirs."""


def find_relation(name: str) -> Relation:
    """Return the relation between configurations that is called `name`. Raises HarnessError (exit 8) where this copy
    of dlrmbench lacks it."""
    known = with_extensions(RELATIONS, "relations")
    if name not in known:
        raise HarnessError(
            f"relation {name!r}: not known to this copy, which has {', '.join(known)}.",
            ExitCode.INPUT,
        )
    found: Relation = load_place(known[name])
    return found


def asked_relation(request: Request) -> Relation:
    """Return the relation between configurations that a request makes: a pair with --beside, else the relation that
    the request names, else the relation of its command (a sweep or a single configuration)."""
    if request.beside is not None:
        return find_relation("sides")
    return find_relation(request.relation or ("matrix" if request.verb == "sweep" else "one"))

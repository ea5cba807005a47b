"""The kinds of measurement: what one fresh process may be asked to do, and all that is particular to it.

A new kind is a module with a `KIND`, its record, and one line in `rules.records.kinds` or its `extension.py`. No
other module asks which kind it has: it asks the kind. Importing a kind imports no torch, so that `--help` can list
what each is asked.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from harness.config.axes import Axis
from harness.config.catalog import WorkloadConfig, parse_recorded
from harness.config.run_config import Override, RunConfig, resolve
from harness.foundation.errors import ExitCode, HarnessError
from harness.measure.id_maps import read_id_maps
from harness.measure.refusals import TakenIdMaps, refuse_checkpoint, refuse_untrainable
from reference_models.fused.choice import convert_choice
from reference_models.process.world import World
from reference_models.training.workload import WorkloadSpec
from rules.benchmarks.loader import Benchmark, parse_benchmark
from rules.extensions import with_extensions
from rules.records.codec import Document
from rules.records.kinds import KIND_MODULES, why_absent
from rules.records.run_set import ChoiceRecord, RunSetRecord

if TYPE_CHECKING:
    import torch

    from reference_models.config.sections import RuntimeConfig

EVENT_MARK = "\x1e"
"""What a line of standard output has before an event: a record separator, as in RFC 7464."""
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
    id_map_sha256: str | None = None
    """The digest of the map of ids to rows that its set began with, where it has one."""
    power_command: str | None = None
    """A command that prints watts, from the command line that makes the repetition."""

    def parse(self) -> tuple[Benchmark, WorkloadConfig]:
        """Parse the definition. Raises DefinitionError or ConfigError."""
        benchmark = parse_benchmark(self.tables, Path(self.definition_path))
        return benchmark, parse_recorded(benchmark)

    def spec(self, config: WorkloadConfig) -> WorkloadSpec:
        """Return what an implementation builds the job's workload from.

        Raises ConfigError, or HarnessError (exit 8) where its id map is damaged or another one.
        """
        matmul = None if self.matmul is None else convert_choice(self.matmul, self.definition_path)
        read = read_id_maps(config, Path(self.data_dir), self.id_map_sha256)
        return config.spec(Path(self.data_dir), self.seed, matmul, None if read is None else read.tables)


class Option(NamedTuple):
    """How a command line asks for a kind: by `--NAME VALUE`, where NAME is the kind's name."""

    verbs: tuple[str, ...]
    """Commands that have the option."""
    help: str
    member: str | None = None
    """The member of the kind's job that takes the value, a whole number of at least 1; None for an option without
    a value."""
    unit: str = ""


class Work(NamedTuple):
    """What one process of a kind trains and evaluates, for an estimate of its time."""

    num_steps: int
    num_evals: int
    eval_samples: int


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One kind of measurement. Methods say what holds for most; a kind that differs is a subclass."""

    name: str
    """As run_set.json says it, and as options and folders are called."""
    job: type[Job]
    record: type[Document]
    run: Callable[[Any, World, OnEvent], Document | None]
    """What a process does: called on every rank; returns the record on rank 0, None elsewhere."""
    file: str = "measured.json"
    """The file in the job's folder that holds the record."""
    option: Option | None = None
    keeper: Literal["logs", "records", "record"] = "records"
    """How a repetition becomes permanent: `harness.run_sets.keepers` has all ways."""
    min_repetitions: int = 1
    usual_repetitions: int | None = None
    """How many are made where nobody says, if more than the fewest."""
    max_repetitions: int | None = None
    ends_early: bool = False
    """Whether a repetition may be done before its work is, by meeting a target."""
    is_autotuned: bool = True
    """Whether how its steps are computed, or its queries answered, is chosen by timing."""
    takes: frozenset[str] = frozenset()
    """Requests that only some kinds take: timeout_s, until, keep_weights, run_index, with_fit; and a key of
    [checkpoint]: restores."""
    weights_key: str | None = None
    """The key of a definition that takes weights that were kept; None where the kind takes none."""
    sections: tuple[str, ...] = ()
    """Sections of a definition that it reads, of those that not every kind does: `harness.config.sections`."""
    takes_id_maps: TakenIdMaps = "fixed"
    """Which maps of ids to rows its data may be read through."""

    @property
    def derived_suffix(self) -> str | None:
        """Return what ends the name of a benchmark that changed keys make; None where the user names it."""
        return f"_{self.name}"

    def resolve(self, benchmark: str | Path, overrides: Iterable[Override], label: str | None) -> RunConfig:
        """Resolve a benchmark as the kind may change it: any key may vary, and data of another shape is synthetic.

        Raises ConfigError or DefinitionError.
        """
        return resolve(benchmark, overrides, label, derived_suffix=self.derived_suffix, sections=self.sections)

    @property
    def option_members(self) -> set[str]:
        """Return what the kind is asked besides, as run_set.json has it."""
        return set() if self.option is None or self.option.member is None else {self.option.member}

    def check(self, workload: WorkloadConfig) -> None:
        """Raise HarnessError, ConfigError or DeviceError for what cannot be done on this system."""
        refuse_untrainable(workload)
        refuse_checkpoint(workload, has_restores="restores" in self.takes)

    def check_axes(self, axes: Sequence[Axis], benchmark: Benchmark) -> None:
        """Raise ConfigError for an axis of a sweep that the kind may not vary."""

    def is_comparable(self, base: Benchmark, new: Benchmark) -> bool:
        """Return whether measurements of two definitions may be two sides of one comparison."""
        return True

    def fit(self, options: Mapping[str, int], sizes: Sequence[tuple[int, int]]) -> Mapping[str, int]:
        """Return what is asked, made to fit configurations of these global batch sizes and training samples.

        Raises ConfigError where it does not.
        """
        return options

    def repetitions(self, config: RunConfig, asked: int | None) -> int:
        """Return how many repetitions a set has. Raises HarnessError (exit 2) for too few, or too many."""
        if asked is not None and asked < self.min_repetitions:
            raise HarnessError(
                f"-n is {asked}, but --{self.name} measures in at least {self.min_repetitions} processes, to tell "
                "what they differ by. Leave -n out, or give more."
            )
        return asked or self.usual_repetitions or self.min_repetitions

    def refuse_growth(self, folder: Path, record: RunSetRecord, definition: Path, num_runs: int) -> None:
        """Raise HarnessError (exit 2) where a set in `folder` may not hold so many repetitions."""

    def num_processes(self, config: RunConfig) -> int:
        """Return how many processes share the cores in one repetition."""
        return config.workload.runtime.ranks

    def make_job(self, record: RunSetRecord, index: int, members: Mapping[str, Any], more: Mapping[str, Any]) -> Job:
        """Make the job of repetition `index` of a set, of what jobs of all kinds have and what this one was asked."""
        return self.job(**members, **more)

    def with_choice(self, tables: Mapping[str, Any], choice: ChoiceRecord) -> dict[str, Any]:
        """Return a definition's tables with what was chosen by timing for this kind alone."""
        return dict(tables)

    def num_ranks(self, job: Job) -> int:
        """Return how many processes do a job together."""
        return int(job.tables.get("runtime", {}).get("ranks", 1))

    def rank_device(self, runtime: "RuntimeConfig", num_ranks: int) -> "torch.device":
        """Return the device of this rank of several."""
        from reference_models.training.devices import local_device

        return local_device(runtime.device, num_ranks)

    def remarks(self, config: RunConfig) -> list[str]:
        """Return what is said to whoever begins a set, before its first repetition."""
        return []

    def work(self, options: Mapping[str, int], config: RunConfig, sizes: tuple[int, int] | None) -> Work | None:
        """Return what one process does, of `sizes` training and evaluation samples; None where that is not known."""
        return None


def find_kind(name: str) -> Kind:
    """Find a kind of which there are sets. Raises HarnessError (exit 8) where this version has none of that name."""
    return _find(name, KIND_MODULES)


def find_job_kind(name: str) -> Kind:
    """Find the kind of a job, which may be one that no set is of. Raises HarnessError as `find_kind` does."""
    return _find(name, {**KIND_MODULES, **with_extensions(AUXILIARY_KINDS, "jobs")})


def kinds_asked_by(verb: str) -> list[tuple[Kind, Option]]:
    """List the kinds that a command has an option for, with it."""
    found = (find_kind(name) for name in KIND_MODULES)
    return [(kind, kind.option) for kind in found if kind.option is not None and verb in kind.option.verbs]


AUXILIARY_KINDS: Mapping[str, str] = {
    "choice": "harness.autotune.job",
    "id_map": "harness.autotune.id_maps",
    "forward": "harness.measure.profile.forward",
}
"""What a process may be asked besides, of which no set is made; extensions have theirs."""


def _find(name: str, known: Mapping[str, str]) -> Kind:
    if name not in known:
        raise HarnessError(why_absent(name) or f"{name}: no set is made of this kind of job.", ExitCode.INPUT)
    kind: Kind = import_module(known[name]).KIND
    return kind

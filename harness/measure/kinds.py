"""Define kinds of measurement (training to the target, throughput, …): the task that a fresh process does, and all
that differs between them.

To add a kind, write a module with a `KIND`, its record, and one line in `rules.records.kinds` or in the
`extension.py` of an extension. No other module has cases for different kinds: it calls the kind's methods. Importing
a kind imports no torch, so that `--help` can list its options.
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
"""Prefix of a progress event on a line of a child's standard output: a record separator, as in RFC 7464."""
OnEvent = Callable[[Mapping[str, Any]], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """Task of one process, or of several ranks together, such as one run; each kind of measurement adds fields of its
    own. A child process gets it as a JSON file in `folder`."""

    tables: dict[str, Any]
    definition_path: str
    data_dir: str
    seed: int
    folder: str
    matmul: dict[str, Any] | None = None
    """Kernels for the matrix products of a training step, if they were chosen by timing or given by --matmul; else
    None."""
    id_map_sha256: str | None = None
    """Digest of the map of ids to embedding rows with which the run set began; None where each id has its own row."""
    power_command: str | None = None
    """User's shell command that prints watts, if the command line gave one; else None."""

    def parse(self) -> tuple[Benchmark, WorkloadConfig]:
        """Return the benchmark and workload of the job's definition. Raises DefinitionError or ConfigError."""
        benchmark = parse_benchmark(self.tables, Path(self.definition_path))
        return benchmark, parse_recorded(benchmark)

    def spec(self, config: WorkloadConfig) -> WorkloadSpec:
        """Return the specification from which an implementation builds the job's workload.

        Raises ConfigError, or HarnessError (exit 8) for an id map that is damaged or has another digest.
        """
        matmul = None if self.matmul is None else convert_choice(self.matmul, self.definition_path)
        read = read_id_maps(config, Path(self.data_dir), self.id_map_sha256)
        return config.spec(Path(self.data_dir), self.seed, matmul, None if read is None else read.tables)


class Option(NamedTuple):
    """Command-line option that asks for a kind of measurement: `--NAME VALUE`, where NAME is the kind's name."""

    verbs: tuple[str, ...]
    """Commands, such as `run` and `sweep`, that have the measurement's option."""
    help: str
    member: str | None = None
    """Field of a measuring process's job that gets the value of the command-line option (a whole number of at least
    1); None for an option without a value."""
    unit: str = ""


class Work(NamedTuple):
    """Numbers of steps and evaluations in one process of a measurement, from which the process's time is
    estimated."""

    num_steps: int
    num_evals: int
    eval_samples: int


@dataclass(frozen=True, kw_only=True)
class Kind:
    """Kind of measurement, such as training to the target or throughput. The methods here do what is right for most
    kinds; other kinds override them in a subclass."""

    name: str
    """Name of the kind of measurement in run_set.json, in options and in folders."""
    job: type[Job]
    record: type[Document]
    run: Callable[[Any, World, OnEvent], Document | None]
    """Function that does the measurement's job: called on every rank; returns the record on rank 0, None
    elsewhere."""
    file: str = "measured.json"
    """Name of the file with the measurement's record in the job's folder."""
    option: Option | None = None
    keeper: Literal["logs", "records", "record"] = "records"
    """Way in which a run set stores the results of repetitions, as a key of `harness.run_sets.keepers.KEEPERS`: logs
    of runs, several records, or a single record."""
    min_repetitions: int = 1
    usual_repetitions: int | None = None
    """Number of repetitions in a run set where the user gives none; where it is None, `min_repetitions` is taken."""
    max_repetitions: int | None = None
    ends_early: bool = False
    """Whether a repetition of the measurement may end early, by meeting a target."""
    is_autotuned: bool = True
    """Whether kernels and threads are chosen by timing before the measurement. They are those of training steps or,
    in serving, of answers to queries."""
    takes: frozenset[str] = frozenset()
    """Fields of a request that this kind of measurement accepts and other kinds refuse: any of timeout_s, until,
    max_runs, keep_weights, run_index, with_fit and restores."""
    weights_key: str | None = None
    """Key of the benchmark definition that names kept weights or a checkpoint; None for a measurement that reads
    none."""
    sections: tuple[str, ...] = ()
    """Optional sections of a benchmark definition that the measurement reads: keys of `harness.config.sections`."""
    takes_id_maps: TakenIdMaps = "fixed"
    """Maps of ids to embedding rows that the measurement allows. "fixed": only maps that do not depend on data;
    "made": also maps made of training data; "any": every map."""

    @property
    def derived_suffix(self) -> str | None:
        """Suffix that the benchmark's name gets in this measurement if the user changes values that the benchmark
        fixes. None if such a change requires that the user gives a new name."""
        return f"_{self.name}"

    def resolve(self, benchmark: str | Path, overrides: Iterable[Override], label: str | None) -> RunConfig:
        """Return a benchmark's configuration with the user's changes. For most kinds of measurement any key may be
        changed; data of a changed shape is synthetic.

        Raises ConfigError or DefinitionError.
        """
        return resolve(benchmark, overrides, label, derived_suffix=self.derived_suffix, sections=self.sections)

    @property
    def option_members(self) -> set[str]:
        """Names in run_set.json of the numbers that the measurement's command-line option sets, such as num_steps;
        empty where it takes no number."""
        return set() if self.option is None or self.option.member is None else {self.option.member}

    def check(self, workload: WorkloadConfig) -> None:
        """Raise HarnessError, ConfigError or DeviceError for a configuration that cannot be measured on this
        system."""
        refuse_untrainable(workload)
        refuse_checkpoint(workload, has_restores="restores" in self.takes)

    def check_axes(self, axes: Sequence[Axis], benchmark: Benchmark) -> None:
        """Raise ConfigError for an axis of a sweep that this kind of measurement may not vary."""

    def is_comparable(self, base: Benchmark, new: Benchmark) -> bool:
        """Return whether this measurement of one benchmark definition may be compared with that of another."""
        return True

    def fit(self, options: Mapping[str, int], sizes: Sequence[tuple[int, int]]) -> Mapping[str, int]:
        """Return the measurement's `options` adjusted to all configurations, such as a number of samples that is
        rounded up to whole batches. `sizes` has (global batch size, number of training samples) for each
        configuration.

        Raises ConfigError if the options cannot be adjusted.
        """
        return options

    def repetitions(self, config: RunConfig, asked: int | None) -> int:
        """Return the number of repetitions of a new run set: the number `asked` for, or the usual one where that is
        None. Raises HarnessError (exit 2) where it is too low or too high."""
        if asked is not None and asked < self.min_repetitions:
            raise HarnessError(
                f"-n is {asked}, but --{self.name} measures in at least {self.min_repetitions} processes, to know "
                "how much processes differ. Leave -n out, or give more."
            )
        return asked or self.usual_repetitions or self.min_repetitions

    def refuse_growth(self, folder: Path, record: RunSetRecord, definition: Path, num_runs: int) -> None:
        """Raise HarnessError (exit 2) where the run set in `folder` may not grow to `num_runs` repetitions."""

    def num_processes(self, config: RunConfig) -> int:
        """Return the number of processes that share the CPU cores in one repetition."""
        return config.workload.runtime.ranks

    def make_job(self, record: RunSetRecord, index: int, members: Mapping[str, Any], more: Mapping[str, Any]) -> Job:
        """Return the job of repetition `index` of a run set. `members` are the job's fields that all kinds of
        measurement have, `more` the fields that only this kind has."""
        return self.job(**members, **more)

    def with_choice(self, tables: Mapping[str, Any], choice: ChoiceRecord) -> dict[str, Any]:
        """Return a benchmark definition (TOML tables) with the values that autotuning chose; unchanged for most kinds
        of measurement."""
        return dict(tables)

    def num_ranks(self, job: Job) -> int:
        """Return the number of processes (ranks) that do a job together."""
        return int(job.tables.get("runtime", {}).get("ranks", 1))

    def rank_device(self, runtime: "RuntimeConfig", num_ranks: int) -> "torch.device":
        """Return the device (CPU or GPU) on which this rank of `num_ranks` computes."""
        from reference_models.training.devices import local_device

        return local_device(runtime.device, num_ranks)

    def remarks(self, config: RunConfig) -> list[str]:
        """Return lines that are printed for the user before the first repetition of a run set; none for most kinds of
        measurement."""
        return []

    def work(self, options: Mapping[str, int], config: RunConfig, sizes: tuple[int, int] | None) -> Work | None:
        """Return the numbers of training steps and evaluations of one process, where `sizes` are the numbers of
        training and evaluation samples; None where they are unknown."""
        return None


def find_kind(name: str) -> Kind:
    """Return a kind of measurement by its name; only kinds that fill a run set have one. Raises HarnessError (exit 8)
    if this version of dlrmbench lacks the kind."""
    return _find(name, KIND_MODULES)


def find_job_kind(name: str) -> Kind:
    """Return the kind of a job by its name, also a kind that makes no run sets. Raises HarnessError as `find_kind`
    does."""
    return _find(name, {**KIND_MODULES, **with_extensions(AUXILIARY_KINDS, "jobs")})


def kinds_asked_by(verb: str) -> list[tuple[Kind, Option]]:
    """List the kinds of measurement for which a command has an option, each with that option."""
    found = (find_kind(name) for name in KIND_MODULES)
    return [(kind, kind.option) for kind in found if kind.option is not None and verb in kind.option.verbs]


AUXILIARY_KINDS: Mapping[str, str] = {
    "choice": "harness.autotune.job",
    "id_map": "harness.autotune.id_maps",
    "forward": "harness.measure.profile.forward",
}
"""Module of each kind of job that makes no run sets, by its name; extensions add theirs."""


def _find(name: str, known: Mapping[str, str]) -> Kind:
    if name not in known:
        raise HarnessError(why_absent(name) or f"{name}: this kind of job makes no set.", ExitCode.INPUT)
    kind: Kind = import_module(known[name]).KIND
    return kind

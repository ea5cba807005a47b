"""experiment.json: a group of run sets and its plan; sweep.json and pair.json are what older versions wrote.

Each configuration is an ordinary run set in a folder beside the file. One reader, `read_experiment`, knows the three
names; an older file stays what it is: `encode_like` puts what has changed into its own form.
"""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NamedTuple

from msgspec import Meta
from msgspec.structs import replace

from rules.records.codec import Damage, Document, PositiveCount, Record, decode
from rules.records.pair import BASE, NEW, SIDES, PairRecord
from rules.records.run_set import Kind, Options
from rules.records.sweep import AxisRecord, ConfigurationRecord, FailureRecord, SweepRecord

EXPERIMENT_FILE: Final = "experiment.json"
SWEEP_FILE: Final = "sweep.json"
PAIR_FILE: Final = "pair.json"
GROUP_FILES: Final = (EXPERIMENT_FILE, SWEEP_FILE, PAIR_FILE)

Relation = Literal["one", "sides", "matrix", "suite", "search"]
"""What configurations are to each other: alone, which no file says; two sides, the second compared with the first;
the points of a matrix, compared with the first and with the best; pairs of sides of several benchmarks, in each of
which the second is compared with the first; the default and the trials of a search, each proposed by those before."""
BENCHMARK_AXIS: Final = "benchmark"
SIDE_AXIS: Final = "side"
"""What the configurations of a suite differ in, beside the settings of their sides."""


class StageRecord(Record, frozen=True, kw_only=True):
    """One kind of measurement over all configurations."""

    kind: Kind
    options: Options
    repetitions: PositiveCount
    """How many of each configuration."""
    order: Annotated[str, Meta(pattern="^[a-z][a-z_]*$")]
    """In what order repetitions are made: "turns", one of each configuration before the next of any; "pairs", also
    with the two sides of a pair directly after each other; or "after" the stages before it."""
    on_failure: Literal["stop", "leave_out", "note"]
    """What a failure does: end the experiment, leave its configuration out of what follows, or be written down."""


class MemberRecord(Record, frozen=True, kw_only=True):
    """One configuration of the group."""

    label: str
    values: dict[str, str]
    """The values that are varied, by key, as they were written."""
    folder: str | None
    """The name of its run set's folder; None where it failed before it had one."""
    python: str | None
    """The interpreter that measured it; None where it was the one that made the group. Nobody runs it for this."""
    failure: FailureRecord | None
    notes: dict[str, str]
    """Why a stage whose failures are written down left nothing, by its kind."""


class ConstraintRecord(Record, frozen=True, kw_only=True):
    """A bound on a column of what each trial measures."""

    column: str
    sign: Literal["<=", ">="]
    value: float


class SearchRecord(Record, frozen=True, kw_only=True):
    """What a search looks for, by columns of what each trial measures."""

    objective: str
    direction: Literal["minimize", "maximize"]
    constraints: tuple[ConstraintRecord, ...]
    sampler: Literal["auto", "random"]
    """"auto": a Gaussian process where the first trial took over 3 s, else tree-structured Parzen estimators."""


class StopRecord(Record, frozen=True, kw_only=True):
    """The rule by which a group is extended by what was measured, once all that was planned is there."""

    rule: Annotated[str, Meta(pattern="^[a-z][a-z_]*$")]
    values: dict[str, float]
    search: SearchRecord | None = None
    """None of a rule that adds repetitions."""


class ExperimentRecord(Document, frozen=True, kw_only=True):
    """A group of run sets that were made by one plan, with shared seeds."""

    name: str
    created_utc: str
    harness_version: str
    command: str
    relation: Relation
    on_other_code: Literal["warn", "refuse"]
    """What becomes of a group that other code began."""
    base_seed: Annotated[int, Meta(ge=0, description="All configurations derive the seed of repetition i from it.")]
    stages: Annotated[tuple[StageRecord, ...], Meta(min_length=1)]
    axes: tuple[AxisRecord, ...]
    configurations: Annotated[tuple[MemberRecord, ...], Meta(min_length=1)]
    with_fit: bool
    """Whether a law of quality over computed FLOP is fitted to all configurations."""
    source: str | None
    """The run set whose configuration the first of two sides has; None of a matrix."""
    stop: StopRecord | None = None
    """None where the number of repetitions was given."""

    @property
    def folders(self) -> tuple[str | None, ...]:
        """Return the name of each configuration's folder; None where it has none, or one that is no plain name."""
        return tuple(each.folder if is_plain_name(each.folder) else None for each in self.configurations)

    @property
    def kind(self) -> str:
        """Return the kind of the first stage, which is what configurations are compared by."""
        return self.stages[0].kind

    @property
    def options(self) -> dict[str, int]:
        """Return what the kind of the first stage was asked besides."""
        return self.stages[0].options

    @property
    def num_runs(self) -> int:
        """Return how many repetitions of the first stage each configuration has."""
        return self.stages[0].repetitions

    @property
    def python(self) -> str | None:
        """Return the interpreter that measured a configuration, where it was another than the one that made the
        group."""
        return next((each.python for each in self.configurations if each.python is not None), None)


class Group(NamedTuple):
    """A folder's file that says what the run sets beside it have to do with each other, and what it says."""

    file: Path
    record: ExperimentRecord | Damage
    relation: Relation | None
    """None where the file is damaged, and its name does not tell."""

    def holds(self, name: str) -> bool:
        """Return whether the folder of that name is one of the group's, as far as a damaged file lets one know."""
        if isinstance(self.record, Damage):
            return self.relation != "sides" or name in SIDES
        return name in self.record.folders


def is_plain_name(name: str | None) -> bool:
    """Return whether a name is of something in a folder, and leads neither out of it nor further down."""
    return bool(name) and name not in (".", "..") and "/" not in str(name) and "\0" not in str(name)


def group_file(folder: Path) -> Path | None:
    """Return the file in `folder` that says how its run sets belong together; None where there is none."""
    try:
        return next((path for name in GROUP_FILES if (path := folder / name).is_file()), None)
    except OSError:
        return None


def read_experiment(folder: Path, clean: Callable[[Any], Any] | None = None) -> ExperimentRecord | Damage | None:
    """Read the group in `folder`, by whichever version it was begun; None where `folder` is no group's. `clean` is
    applied to the file's JSON value first."""
    path = group_file(folder)
    if path is None:
        return None
    if path.name == EXPERIMENT_FILE:
        return decode(path, ExperimentRecord, clean)
    if path.name == SWEEP_FILE:
        sweep = decode(path, SweepRecord, clean)
        return sweep if isinstance(sweep, Damage) else from_sweep(sweep)
    pair = decode(path, PairRecord, clean)
    return pair if isinstance(pair, Damage) else from_pair(pair)


def read_group(folder: Path) -> Group | None:
    """Read what the run sets in `folder` have to do with each other; None where nothing says it."""
    file, record = group_file(folder), read_experiment(folder)
    if file is None or record is None:
        return None
    return Group(file, record, _RELATIONS.get(file.name) if isinstance(record, Damage) else record.relation)


def is_matrix(folder: Path) -> bool:
    """Return whether the group in `folder` is a matrix, or may be: experiment.json, which is read, is damaged."""
    path = group_file(folder)
    if path is None or path.name != EXPERIMENT_FILE:
        return path is not None and _RELATIONS[path.name] == "matrix"
    record = decode(path, ExperimentRecord)
    return isinstance(record, Damage) or record.relation == "matrix"


def trials_of(folder: Path) -> frozenset[str]:
    """Return the names of the folders of a search's trials: one process each, no results by themselves."""
    path = folder / EXPERIMENT_FILE
    record = decode(path, ExperimentRecord) if path.is_file() else None
    is_search = isinstance(record, ExperimentRecord) and record.relation == "search"
    return frozenset(filter(None, record.folders)) if is_search else frozenset()  # type: ignore[union-attr]


_RELATIONS: Final[Mapping[str, Relation]] = {SWEEP_FILE: "matrix", PAIR_FILE: "sides"}
"""What the name of an older file says."""


def from_sweep(sweep: SweepRecord) -> ExperimentRecord:
    """Return what a file sweep.json says as an experiment."""
    first = StageRecord(
        kind=sweep.kind,
        options=sweep.options,
        repetitions=sweep.num_runs,
        order="turns",
        on_failure="leave_out",
    )
    return ExperimentRecord(
        name=sweep.name,
        created_utc=sweep.created_utc,
        harness_version=sweep.harness_version,
        command=sweep.command,
        relation="matrix",
        on_other_code="warn",
        base_seed=sweep.base_seed,
        stages=(first, PROFILE_STAGE) if sweep.with_profile else (first,),
        axes=sweep.axes,
        configurations=tuple(
            MemberRecord(
                label=each.label,
                values=each.values,
                folder=each.folder,
                python=None,
                failure=each.failure,
                notes={} if each.profile_failure is None else {"profile": each.profile_failure},
            )
            for each in sweep.configurations
        ),
        with_fit=sweep.with_fit,
        source=None,
    )


PROFILE_STAGE: Final = StageRecord(kind="profile", options={}, repetitions=1, order="after", on_failure="note")
"""Each configuration is profiled once, when all of it is measured."""


def from_pair(pair: PairRecord) -> ExperimentRecord:
    """Return what a file pair.json says as an experiment."""
    return ExperimentRecord(
        name=pair.name,
        created_utc=pair.created_utc,
        harness_version=pair.harness_version,
        command=pair.command,
        relation="sides",
        on_other_code="refuse",
        base_seed=pair.base_seed,
        stages=(
            StageRecord(
                kind=pair.kind, options=pair.options, repetitions=pair.num_runs, order="turns", on_failure="stop"
            ),
        ),
        axes=(),
        configurations=tuple(
            MemberRecord(label=side, values={}, folder=side, python=python, failure=None, notes={})
            for side, python in ((BASE, pair.python), (NEW, None))
        ),
        with_fit=False,
        source=pair.source,
    )


def encode_like(begun: SweepRecord | PairRecord, now: ExperimentRecord) -> SweepRecord | PairRecord:
    """Return a file of an older version with what has changed since it was begun: repetitions and failures."""
    if isinstance(begun, PairRecord):
        return replace(begun, num_runs=now.num_runs)
    return replace(begun, num_runs=now.num_runs, configurations=tuple(_like_sweep(now.configurations)))


def _like_sweep(configurations: Iterable[MemberRecord]) -> Iterable[ConfigurationRecord]:
    for each in configurations:
        yield ConfigurationRecord(
            label=each.label,
            values=each.values,
            folder=each.folder,
            failure=each.failure,
            profile_failure=each.notes.get("profile"),
        )

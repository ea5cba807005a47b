"""experiment.json: a group of run sets and its plan. Each configuration is an ordinary set in a folder beside it."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NamedTuple

from msgspec import Meta

from rules.records.codec import Damage, Document, Index, Int64, PositiveCount, Record, decode
from rules.records.run_set import Kind, Options

EXPERIMENT_FILE: Final = "experiment.json"
BASE: Final = "base"
NEW: Final = "new"
SIDES: Final = (BASE, NEW)
"""The folders of a pair's sets, in the order of the first round; also the sides of a suite's benchmark."""

Relation = Literal["one", "sides", "matrix", "suite", "search"]
"""What configurations are to each other: alone, which no file says; two sides, the second compared with the first;
the points of a matrix, compared with the first and with the best; pairs of sides of several benchmarks, in each of
which the second is compared with the first; the default and the trials of a search, each proposed by those before."""
BENCHMARK_AXIS: Final = "benchmark"
SIDE_AXIS: Final = "side"
"""What the configurations of a suite differ in, beside the settings of their sides."""


class AxisRecord(Record, frozen=True, kw_only=True):
    """What is varied, with its values as they were written."""

    key: str
    values: Annotated[tuple[str, ...], Meta(min_length=1)]


class FailureRecord(Record, frozen=True, kw_only=True):
    """Why a configuration has no complete results."""

    reason: str
    exit_code: Int64
    run_index: Index | None


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


PROFILE_STAGE: Final = StageRecord(kind="profile", options={}, repetitions=1, order="after", on_failure="note")
"""Each configuration is profiled once, when all of it is measured."""


class Group(NamedTuple):
    """A folder's file that says what the run sets beside it have to do with each other, and what it says."""

    file: Path
    record: ExperimentRecord | Damage

    @property
    def relation(self) -> Relation | None:
        """Return how the sets belong together; None where the file is damaged."""
        return None if isinstance(self.record, Damage) else self.record.relation

    def holds(self, name: str) -> bool:
        """Return whether the folder of that name is one of the group's, as far as a damaged file lets one know."""
        return isinstance(self.record, Damage) or name in self.record.folders


def is_plain_name(name: str | None) -> bool:
    """Return whether a name is of something in a folder, and leads neither out of it nor further down."""
    return bool(name) and name not in (".", "..") and "/" not in str(name) and "\0" not in str(name)


def group_file(folder: Path) -> Path | None:
    """Return the file in `folder` that says how its run sets belong together; None where there is none."""
    path = folder / EXPERIMENT_FILE
    try:
        return path if path.is_file() else None
    except OSError:
        return None


def read_experiment(folder: Path, clean: Callable[[Any], Any] | None = None) -> ExperimentRecord | Damage | None:
    """Read the group in `folder`; None where `folder` is no group's. `clean` is applied to the file's JSON value
    first."""
    path = group_file(folder)
    return None if path is None else decode(path, ExperimentRecord, clean)


def read_group(folder: Path) -> Group | None:
    """Read what the run sets in `folder` have to do with each other; None where nothing says it."""
    record = read_experiment(folder)
    return None if record is None else Group(folder / EXPERIMENT_FILE, record)


def is_matrix(folder: Path) -> bool:
    """Return whether the group in `folder` is a matrix, or may be: its file is damaged."""
    record = read_experiment(folder)
    return isinstance(record, Damage) or (record is not None and record.relation == "matrix")


def trials_of(folder: Path) -> frozenset[str]:
    """Return the names of the folders of a search's trials: one process each, no results by themselves."""
    record = read_experiment(folder)
    is_search = isinstance(record, ExperimentRecord) and record.relation == "search"
    return frozenset(filter(None, record.folders)) if is_search else frozenset()  # type: ignore[union-attr]

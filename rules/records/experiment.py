"""experiment.json: a group of run sets and its plan. Each configuration is an ordinary set in a folder beside it."""

import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NamedTuple

from msgspec import Meta

from rules.logs.text import plural, printable
from rules.records.codec import OLDER, Damage, Document, Index, Int64, PositiveCount, Record, decode
from rules.records.run_set import Kind, Options

EXPERIMENT_FILE: Final = "experiment.json"
BASE: Final = "base"
NEW: Final = "new"
SIDES: Final = (BASE, NEW)
"""The folders of a pair's sets, in the order of the first round."""

Word = Annotated[str, Meta(pattern="^[a-z][a-z_]*$")]
ReadsAs = Literal["alone", "pair", "pairs", "table", "trials"]
"""What configurations are to a reader: one alone, which no file says; two sides, of which the second is compared with
the first; several such pairs; the points of a table, compared with the first and with the best; or trials of one
process each, which are no results by themselves."""


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
    order: Word
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


class StopRecord(Record, frozen=True, kw_only=True):
    """The rule by which a group is extended by what was measured, once all that was planned is there."""

    rule: Word
    values: dict[str, float]
    asked: dict[str, Any] | None = None
    """What else the rule was asked, which it reads itself."""


class ExperimentRecord(Document, frozen=True, kw_only=True):
    """A group of run sets that were made by one plan, with shared seeds."""

    name: str
    created_utc: str
    harness_version: str
    command: str
    relation: Word
    """How the configurations were made, of the relations of whoever made them."""
    reads_as: ReadsAs
    on_other_code: Literal["warn", "refuse"]
    """What becomes of a group that other code began."""
    base_seed: Annotated[int, Meta(ge=0, description="All configurations derive the seed of repetition i from it.")]
    stages: Annotated[tuple[StageRecord, ...], Meta(min_length=1)]
    axes: tuple[AxisRecord, ...]
    configurations: Annotated[tuple[MemberRecord, ...], Meta(min_length=1)]
    with_fit: bool
    """Whether a law of quality over computed FLOP is fitted to all configurations."""
    source: str | None
    """The run set whose configuration the first of two sides has; None of others."""
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
    def is_pair(self) -> bool:
        """Return whether the sets are two sides of which the second is compared with the first."""
        return isinstance(self.record, ExperimentRecord) and self.record.reads_as == "pair"

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
    found = None if path is None else decode(path, ExperimentRecord, clean)
    # Until it was there, what a group is to a reader was in the name of its relation.
    return replace(found, remedy=OLDER) if isinstance(found, Damage) and found.member == "reads_as" else found


def resume_command(folder: Path, num_runs: int) -> str:
    """Return the command that has the run set in `folder` hold `num_runs` runs: of one that took turns with others,
    that of their group, since one side alone is not resumed."""
    group, words = read_experiment(folder.parent), [str(folder)]
    if isinstance(group, ExperimentRecord) and folder.name in group.folders:
        words = [str(folder.parent), *([] if group.python is None else ["--python", group.python])]
    return shlex.join(["dlrmbench", "resume", *words, "--runs", str(num_runs)])


def read_group(folder: Path) -> Group | None:
    """Read what the run sets in `folder` have to do with each other; None where nothing says it."""
    record = read_experiment(folder)
    return None if record is None else Group(folder / EXPERIMENT_FILE, record)


_WORDS: Final[dict[ReadsAs, str]] = {"pair": "pair", "pairs": "suite", "table": "sweep", "trials": "search"}
_MAX_LISTED: Final = 12


def not_one_set(folder: Path) -> str | None:
    """Say of a group's folder, which was given for one set, what it is, which commands show it, and its sets; None of
    any other folder, and of a group whose file is damaged."""
    record = read_experiment(folder)
    if not isinstance(record, ExperimentRecord):
        return None
    sets = [str(folder / name) for name in record.folders if name is not None]
    word = _WORDS.get(record.reads_as, "group")
    shows = f"{_command('report', str(folder))} shows it"
    if record.reads_as == "pair" and len(sets) == 2:
        shows = f"{_command('compare', *sets)} compares its sides, {shows}"
    listed = "".join(f"\n  {printable(each)}" for each in sets[:_MAX_LISTED])
    more = f"\n  and {len(sets) - _MAX_LISTED} more" if len(sets) > _MAX_LISTED else ""
    return f"is a {word} of {plural(len(sets), 'set')}, not one set: {shows}. For one of them give:{listed}{more}"


def _command(*words: str) -> str:
    return f"'{printable(shlex.join(['dlrmbench', *words]))}'"


def is_table(record: ExperimentRecord | Damage | None) -> bool:
    """Return whether a group is read as a table, or may be: its file is damaged."""
    return isinstance(record, Damage) or (record is not None and record.reads_as == "table")


def trials_of(folder: Path) -> frozenset[str]:
    """Return the names of the folders of trials: one process each, no results by themselves."""
    record = read_experiment(folder)
    if not isinstance(record, ExperimentRecord) or record.reads_as != "trials":
        return frozenset()
    return frozenset(filter(None, record.folders))

"""experiment.json: a group of run sets and its plan. Each configuration is an ordinary set in a subfolder."""

import shlex
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NamedTuple

from msgspec import Meta

from rules.logs.text import plural, printable
from rules.records.codec import Damage, Document, Index, Int64, PositiveCount, Record, decode
from rules.records.run_set import Kind, Options

EXPERIMENT_FILE: Final = "experiment.json"
BASE: Final = "base"
NEW: Final = "new"
SIDES: Final = (BASE, NEW)
"""Folders of a pair's two sets, in the order of the first round."""

Word = Annotated[str, Meta(pattern="^[a-z][a-z_]*$")]
ReadsAs = Literal["alone", "pair", "pairs", "table", "trials"]
"""Way in which reports read a group's configurations: "alone" (a single set; never written to a file); a "pair", the
second compared with the first; several "pairs", each compared within itself; the points of a "table", each compared
with the first and with the best; or "trials" of one process each, which are no results by themselves."""


class AxisRecord(Record, frozen=True, kw_only=True):
    """A parameter that is varied, with its values as they were written."""

    key: str
    values: Annotated[tuple[str, ...], Meta(min_length=1)]


class FailureRecord(Record, frozen=True, kw_only=True):
    """Reason why a configuration has no complete results."""

    reason: str
    exit_code: Int64
    run_index: Index | None


class StageRecord(Record, frozen=True, kw_only=True):
    """One kind of measurement over all configurations."""

    kind: Kind
    options: Options
    repetitions: PositiveCount
    """Repetitions of each configuration."""
    order: Word
    """Order of the repetitions: "turns", alternating between all configurations; "pairs", alternating, with the two
    sides of a pair directly after each other; or "after", following the stages before."""
    on_failure: Literal["stop", "leave_out", "note"]
    """Effect of a failure: stop the experiment, leave the configuration out of later stages, or only note the
    failure."""


class MemberRecord(Record, frozen=True, kw_only=True):
    """One configuration of the group."""

    label: str
    values: dict[str, str]
    """Values of the varied parameters by key, as they were written."""
    folder: str | None
    """Name of the run set's folder; None where the configuration failed before it had one."""
    python: str | None
    """Interpreter that measured the configuration; None where it was the one that made the group. Reading the file
    never runs it."""
    failure: FailureRecord | None
    notes: dict[str, str]
    """Reasons why stages with on_failure "note" left no result, by kind of measurement."""


class StopRecord(Record, frozen=True, kw_only=True):
    """Rule by which a group is extended, once all planned repetitions are there, depending on what was measured."""

    rule: Word
    values: dict[str, float]
    asked: dict[str, Any] | None = None
    """Further parameters of the rule, which only the rule itself reads."""


class ExperimentRecord(Document, frozen=True, kw_only=True):
    """A group of run sets made by one plan, with shared seeds."""

    name: str
    created_utc: str
    harness_version: str
    command: str
    relation: Word
    """Relation of the configurations to each other, by its name; the command that made the group defines it."""
    reads_as: ReadsAs
    on_other_code: Literal["warn", "refuse"]
    """Effect of resuming the group with other code than it was begun with."""
    base_seed: Annotated[int, Meta(ge=0, description="All configurations derive the seed of repetition i from it.")]
    stages: Annotated[tuple[StageRecord, ...], Meta(min_length=1)]
    axes: tuple[AxisRecord, ...]
    configurations: Annotated[tuple[MemberRecord, ...], Meta(min_length=1)]
    with_fit: bool
    """Whether a scaling law of quality over computed FLOP is fitted to all configurations."""
    source: str | None
    """Run set from which the first of two sides takes its configuration; None for other groups."""
    stop: StopRecord | None = None
    """Rule that extends the group; None where the number of repetitions was given."""

    @property
    def folders(self) -> tuple[str | None, ...]:
        """Return the name of each configuration's folder; None where there is no folder, or the name is not a plain
        one."""
        return tuple(each.folder if is_plain_name(each.folder) else None for each in self.configurations)

    @property
    def kind(self) -> str:
        """Return the kind of the first stage, by which configurations are compared."""
        return self.stages[0].kind

    @property
    def options(self) -> dict[str, int]:
        """Return the options of the first stage's kind."""
        return self.stages[0].options

    @property
    def num_runs(self) -> int:
        """Return the number of repetitions of the first stage for each configuration."""
        return self.stages[0].repetitions

    @property
    def python(self) -> str | None:
        """Return the interpreter that measured the configurations; None where it was the one that made the group."""
        return next((each.python for each in self.configurations if each.python is not None), None)


PROFILE_STAGE: Final = StageRecord(kind="profile", options={}, repetitions=1, order="after", on_failure="note")
"""Stage that profiles each configuration once, after all measurements."""


class Group(NamedTuple):
    """The experiment.json of a folder, which relates the run sets in it, and its record."""

    file: Path
    record: ExperimentRecord | Damage

    @property
    def is_pair(self) -> bool:
        """Return whether the group is a pair: two sides, the second compared with the first."""
        return isinstance(self.record, ExperimentRecord) and self.record.reads_as == "pair"

    def holds(self, name: str) -> bool:
        """Return whether a folder of this name belongs to the experiment; True for every name where its file is
        damaged."""
        return isinstance(self.record, Damage) or name in self.record.folders


def is_plain_name(name: str | None) -> bool:
    """Return whether a name is a single path component, which leads neither out of a folder nor into a subfolder."""
    return bool(name) and name not in (".", "..") and "/" not in str(name) and "\0" not in str(name)


def group_file(folder: Path) -> Path | None:
    """Return the experiment.json of `folder`; None where there is none."""
    path = folder / EXPERIMENT_FILE
    try:
        return path if path.is_file() else None
    except OSError:
        return None


def read_experiment(folder: Path, clean: Callable[[Any], Any] | None = None) -> ExperimentRecord | Damage | None:
    """Read the experiment.json of `folder`; None where there is none. `clean` is applied to the file's JSON value
    before types are checked."""
    path = group_file(folder)
    return None if path is None else decode(path, ExperimentRecord, clean)


def resume_command(folder: Path, num_runs: int) -> str:
    """Return the command that extends the run set in `folder` to `num_runs` runs. For a set that was measured
    alternately with others, it is the command of the group, since one side cannot be resumed alone."""
    group, words = read_experiment(folder.parent), [str(folder)]
    if isinstance(group, ExperimentRecord) and folder.name in group.folders:
        words = [str(folder.parent), *([] if group.python is None else ["--python", group.python])]
    return shlex.join(["dlrmbench", "resume", *words, "--runs", str(num_runs)])


def without_options(words: Sequence[str], options: Collection[str], flags: Collection[str] = ()) -> list[str]:
    """Return the words of a command line without options that take a value, and without flags."""
    kept: list[str] = []
    rest = iter(words)
    for word in rest:
        if word in options:
            next(rest, None)
        elif word not in flags and word.partition("=")[0] not in options:
            kept.append(word)
    return kept


def read_group(folder: Path) -> Group | None:
    """Read the group of the run sets in `folder`; None where no file relates them."""
    record = read_experiment(folder)
    return None if record is None else Group(folder / EXPERIMENT_FILE, record)


_WORDS: Final[dict[ReadsAs, str]] = {"pair": "pair", "pairs": "suite", "table": "sweep", "trials": "search"}
_MAX_LISTED: Final = 12


def not_one_set(folder: Path) -> str | None:
    """Explain that `folder`, given where one set was expected, is a group: name its sets and the commands that show
    them; None for any other folder, and for a group whose file is damaged."""
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
    """Return whether a group is read as a table, or may be because its file is damaged."""
    return isinstance(record, Damage) or (record is not None and record.reads_as == "table")


def trials_of(folder: Path) -> frozenset[str]:
    """Return the folder names of a search's trials: one process each, no results by themselves."""
    record = read_experiment(folder)
    if not isinstance(record, ExperimentRecord) or record.reads_as != "trials":
        return frozenset()
    return frozenset(filter(None, record.folders))

"""experiment.json describes a group of run sets (an experiment) and the plan that made it; each configuration of the
experiment is an ordinary run set in a subfolder."""

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
"""Names of the folders of the two run sets of an A/B pair, in the order in which the first round (one repetition of
each) measures them."""

Word = Annotated[str, Meta(pattern="^[a-z][a-z_]*$")]
ReadsAs = Literal["alone", "pair", "pairs", "table", "trials"]
"""Way in which reports read the configurations of an experiment (a sweep, an A/B pair or a search).

- "alone": there is a single run set. This value is never written to a file.
- "pair": the second configuration is compared with the first.
- "pairs": the two configurations of each pair are compared.
- "table": each configuration is compared with the first and with the best.
- "trials": the configurations are trials of a search, each measured in one process.
"""


class AxisRecord(Record, frozen=True, kw_only=True):
    """Parameter that an experiment varies, with its values (or the range that is searched) as text."""

    key: str
    values: Annotated[tuple[str, ...], Meta(min_length=1)]


class FailureRecord(Record, frozen=True, kw_only=True):
    """Reason why a configuration of an experiment has no complete results."""

    reason: str
    exit_code: Int64
    run_index: Index | None


class StageRecord(Record, frozen=True, kw_only=True):
    """Stage of an experiment: one kind of measurement (such as throughput), which is made for every configuration."""

    kind: Kind
    options: Options
    repetitions: PositiveCount
    """Number of repetitions of the stage's measurement for each configuration."""
    order: Word
    """Order of a stage's repetitions. "turns": all configurations take turns. "pairs": they take turns, the two
    configurations of an A/B pair directly after each other. "after": the repetitions follow the stages before."""
    on_failure: Literal["stop", "leave_out", "note"]
    """Effect of a failed measurement on the experiment: stop the experiment, leave the configuration out of later
    stages, or only note the failure."""


class MemberRecord(Record, frozen=True, kw_only=True):
    """One configuration of an experiment: its label, its values of the varied parameters, and the folder of its run
    set."""

    label: str
    values: dict[str, str]
    """Map from the key of each parameter that the experiment varies to its value as text, given by the user or drawn
    by a search."""
    folder: str | None
    """Name of the folder with the configuration's run set; None where the configuration failed before it had a
    folder."""
    python: str | None
    """Path of the Python interpreter that measured the configuration; None where it was the one that started the
    experiment. Reading the file never runs it."""
    failure: FailureRecord | None
    notes: dict[str, str]
    """Dict from kinds of measurement to the reason why the configuration has no result of that kind. Only kinds whose
    failure does not stop the experiment are listed."""


class StopRecord(Record, frozen=True, kw_only=True):
    """Rule that adds repetitions to an experiment after the planned ones, depending on the values measured so far."""

    rule: Word
    values: dict[str, float]
    asked: dict[str, Any] | None = None
    """Further parameters of the stop rule, which only the rule's own code reads."""


class ExperimentRecord(Document, frozen=True, kw_only=True):
    """Experiment: a group of run sets (one per configuration) that one command made by one plan, with shared
    seeds."""

    name: str
    created_utc: str
    harness_version: str
    command: str
    relation: Word
    """Name of the way in which the experiment's configurations relate to one another, such as A/B pair or sweep; the
    command that made the experiment defines it."""
    reads_as: ReadsAs
    on_other_code: Literal["warn", "refuse"]
    """Effect of resuming an experiment after the harness's code has changed since it was begun: a warning, or a
    refusal."""
    base_seed: Annotated[int, Meta(ge=0, description="All configurations derive the seed of repetition i from it.")]
    stages: Annotated[tuple[StageRecord, ...], Meta(min_length=1)]
    axes: tuple[AxisRecord, ...]
    configurations: Annotated[tuple[MemberRecord, ...], Meta(min_length=1)]
    with_fit: bool
    """Whether reports fit a scaling law of quality over computed FLOP to all configurations of the experiment."""
    source: str | None
    """Path of the run set from which the first set of an A/B pair takes its configuration; None where the experiment
    takes no configuration from a run set."""
    stop: StopRecord | None = None
    """Rule that adds repetitions to the experiment until it stops; None where the number of repetitions was given."""

    @property
    def folders(self) -> tuple[str | None, ...]:
        """Return the name of the run-set folder of each configuration; None where there is no folder, or where the
        name is more than a single path component."""
        return tuple(each.folder if is_plain_name(each.folder) else None for each in self.configurations)

    @property
    def kind(self) -> str:
        """Return the kind of measurement of the experiment's first stage, by which configurations are compared."""
        return self.stages[0].kind

    @property
    def options(self) -> dict[str, int]:
        """Return the parameters of the first stage's measurement, such as its number of steps."""
        return self.stages[0].options

    @property
    def num_runs(self) -> int:
        """Return the number of repetitions of each configuration in the experiment's first stage."""
        return self.stages[0].repetitions

    @property
    def python(self) -> str | None:
        """Return the path of the Python interpreter that measured the configurations; None where it was the one that
        started the experiment."""
        return next((each.python for each in self.configurations if each.python is not None), None)


PROFILE_STAGE: Final = StageRecord(kind="profile", options={}, repetitions=1, order="after", on_failure="note")
"""Stage of an experiment that profiles a training step of each configuration once, after all measurements."""


class Group(NamedTuple):
    """Experiment file (experiment.json) of a folder and the record read from it, which relates the run sets in the
    folder."""

    file: Path
    record: ExperimentRecord | Damage

    @property
    def is_pair(self) -> bool:
        """Return whether the experiment is an A/B pair: two run sets, the second compared with the first."""
        return isinstance(self.record, ExperimentRecord) and self.record.reads_as == "pair"

    def holds(self, name: str) -> bool:
        """Return whether the folder `name` is one of the run-set folders of the experiment; True for every name where
        experiment.json is damaged, since its list of folders is then not known."""
        return isinstance(self.record, Damage) or name in self.record.folders


def is_plain_name(name: str | None) -> bool:
    """Return whether a name is a single path component, which leads neither out of a folder nor into a subfolder."""
    return bool(name) and name not in (".", "..") and "/" not in str(name) and "\0" not in str(name)


def group_file(folder: Path) -> Path | None:
    """Return the path of the experiment.json in `folder`; None where there is none."""
    path = folder / EXPERIMENT_FILE
    try:
        return path if path.is_file() else None
    except OSError:
        return None


def read_experiment(folder: Path, clean: Callable[[Any], Any] | None = None) -> ExperimentRecord | Damage | None:
    """Read the experiment.json of `folder`: its record, or its damage; None where there is no such file. The function
    `clean`, such as one that makes texts printable, is applied to the JSON value before types are checked."""
    path = group_file(folder)
    return None if path is None else decode(path, ExperimentRecord, clean)


def resume_command(folder: Path, num_runs: int) -> str:
    """Return the command line that extends the run set in `folder` to `num_runs` runs. If the set was measured
    alternately with others, return the command that extends the whole experiment, since its sets can be resumed only
    together."""
    group, words = read_experiment(folder.parent), [str(folder)]
    if isinstance(group, ExperimentRecord) and folder.name in group.folders:
        words = [str(folder.parent), *([] if group.python is None else ["--python", group.python])]
    return shlex.join(["dlrmbench", "resume", *words, "--runs", str(num_runs)])


def without_options(words: Sequence[str], options: Collection[str], flags: Collection[str] = ()) -> list[str]:
    """Return the words of a command line without the named options and their values, and without the named flags."""
    kept: list[str] = []
    rest = iter(words)
    for word in rest:
        if word in options:
            next(rest, None)
        elif word not in flags and word.partition("=")[0] not in options:
            kept.append(word)
    return kept


def read_group(folder: Path) -> Group | None:
    """Read the experiment that the run sets in `folder` belong to; None where no experiment.json relates them."""
    record = read_experiment(folder)
    return None if record is None else Group(folder / EXPERIMENT_FILE, record)


_WORDS: Final[dict[ReadsAs, str]] = {"pair": "pair", "pairs": "suite", "table": "sweep", "trials": "search"}
_MAX_LISTED: Final = 12


def not_one_set(folder: Path) -> str | None:
    """Return a message that `folder`, given where one run set was expected, is an experiment of several sets: it
    names the sets and the commands that show them. None for any other folder, and where experiment.json is
    damaged."""
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
    """Return whether reports show an experiment as a table of configurations; True also for a damaged
    experiment.json, which may describe such an experiment."""
    return isinstance(record, Damage) or (record is not None and record.reads_as == "table")


def trials_of(folder: Path) -> frozenset[str]:
    """Return the folder names of the trials of a hyperparameter search in `folder`; each trial is one process, and no
    result by itself."""
    record = read_experiment(folder)
    if not isinstance(record, ExperimentRecord) or record.reads_as != "trials":
        return frozenset()
    return frozenset(filter(None, record.folders))

"""Description of a kind of measurement, so that reports can show and compare results without knowing the kind."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from msgspec import Meta

from rules.records.codec import Document, Record, Sha256
from rules.records.load import LoadRecord
from rules.records.rows import Row

Commit = Annotated[str, Meta(pattern="^[0-9a-f]{40}([0-9a-f]{24})?$")]


@dataclass(frozen=True, kw_only=True, slots=True)
class Column:
    """A column of a table of repetitions: its member, title and unit (None for a name or a plain number)."""

    member: str
    title: str
    unit: str | None
    origin: Literal["measured", "simulated", "computed"] = "measured"


@dataclass(frozen=True, kw_only=True, slots=True)
class Measure:
    """Quantity by which results are compared: logarithms on a "ratio" scale, values on a "difference" scale."""

    title: str
    value: str
    """Member of a repetition that holds the quantity."""
    unit: str
    scale: Literal["ratio", "difference"]
    direction: Literal["higher", "lower"]
    """Direction of better values."""
    columns: tuple[Column, ...]
    """Columns of a repetition; the title of the column of `value` is the quantity's name for readers."""
    min_effect: float = 0.03
    """Smallest difference of interest: a fraction on a "ratio" scale, else in the quantity's unit."""

    @property
    def name(self) -> str:
        return next((column.title for column in self.columns if column.member == self.value), self.title)


@dataclass(frozen=True, kw_only=True, slots=True)
class DetailTable:
    """An additional table of a kind, in data frames, Parquet and JSON, with one row per process.

    A member of `row` is found by name in the record, in the process's entry, or in one of its `parts`; the run set
    adds configuration (required in each row), benchmark, system, process, seed and path.
    """

    name: str
    row: type[Row]
    parts: tuple[str, ...] = ()


class CodeRecord(Record, frozen=True, kw_only=True):
    """Code that ran, as determined by the process that ran it from its own files."""

    sha256: Sha256
    """Digest of all files of harness, reference_models, rules and reports as they were imported, with their names."""
    commit: Commit | None
    """Commit of the checkout that holds the files, or that they were built from; None where neither is known."""
    commit_is_dirty: bool | None
    """Whether tracked files differed from `commit`; None where no commit is known."""


class Measurement(Document, frozen=True, kw_only=True):
    """Record of a kind of measurement."""

    MEASURE: ClassVar[Measure]
    OTHER_MEASURES: ClassVar[Mapping[str, Measure]] = {}
    """Alternative measures that a file of the kind may hold, by the member in `Measure.value`."""
    ASKED: ClassVar[tuple[str, ...]] = ()
    """Members of the record or of a process that state what was asked for, and "benchmark", in the order in which
    settings are shown."""
    MUST_AGREE: ClassVar[Mapping[str, str]] = {}
    """Settings that both sides of a comparison must share, each with the message shown where they differ ({} stands
    for a side's value)."""
    COMMAND: ClassVar[str | None] = None
    """Verb that measures the kind; None where it is `run --<kind>`."""
    IS_LOGGED: ClassVar[bool] = False
    """Whether each repetition leaves a log and a record of its own; False where extra/<kind>.json holds all
    repetitions."""

    DETAILS: ClassVar[DetailTable | None] = None

    code: CodeRecord | None = None
    """Code that measured, set by the harness for every kind. None in files of versions 1 and 2, for an attempt that
    was cut off, and where the processes of one measurement ran different code."""
    loads: tuple[LoadRecord | None, ...] = ()
    """Other load on the system while each process measured, in the order of the processes; None where that was not
    watched. Set by the command that starts the processes. Empty in files of earlier versions, and where torchrun or
    srun started the processes."""

    @property
    def measure(self) -> Measure:
        """Return the measure of this file's values."""
        return self.MEASURE

    def repetitions(self) -> tuple[Any, ...]:
        """Return the repetitions that a comparison takes as its sample: the record itself, unless a kind holds
        several."""
        return (self,)


class ProcessMeasurement(Measurement, frozen=True, kw_only=True):
    """Record of a kind that is measured in several fresh processes, gathered in extra/<kind>.json."""

    if TYPE_CHECKING:  # a type has it where its file does
        processes: tuple[Any, ...]

    def repetitions(self) -> tuple[Any, ...]:
        """Return the processes, which a comparison takes as its sample."""
        return self.processes

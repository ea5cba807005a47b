"""Describe a kind of measurement (such as throughput) by its quantity, unit and columns, so that reports can show and
compare results of any kind."""

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
    """Column of a table with one row per repetition of a measurement: the record's member, the title, and the unit
    (None for a name or a plain number)."""

    member: str
    title: str
    unit: str | None
    origin: Literal["measured", "simulated", "computed"] = "measured"


@dataclass(frozen=True, kw_only=True, slots=True)
class Measure:
    """Quantity by which results of a kind of measurement are compared. On a "ratio" scale, its logarithms are
    compared; on a "difference" scale, its values."""

    title: str
    value: str
    """Name of the member, in the record of one repetition, that holds the compared quantity."""
    unit: str
    scale: Literal["ratio", "difference"]
    direction: Literal["higher", "lower"]
    """Whether a higher or a lower value of the compared quantity is better."""
    columns: tuple[Column, ...]
    """Columns of a table with one row per repetition of the measurement. The title of the compared quantity's column
    is the name under which readers see that quantity."""
    min_effect: float = 0.03
    """Smallest difference of the compared quantity that is of interest: a fraction on a "ratio" scale, else in the
    quantity's unit."""

    @property
    def name(self) -> str:
        return next((column.title for column in self.columns if column.member == self.value), self.title)


@dataclass(frozen=True, kw_only=True, slots=True)
class DetailTable:
    """Additional table of a kind of measurement, exported to data frames, Parquet and JSON, with one row per measured
    process.

    `row` is the type of the table's rows. The values of the members configuration (required in each row), benchmark,
    system, process, seed and path are taken from the run set. The value of every other member is found by its name,
    in one of three places: the measurement's record, the entry of the process in it, or a part of this entry. `parts`
    names the parts.
    """

    name: str
    row: type[Row]
    parts: tuple[str, ...] = ()


class CodeRecord(Record, frozen=True, kw_only=True):
    """Version of the code that ran a measurement, as determined by the measuring process from its own files."""

    sha256: Sha256
    """Digest of the names and contents of all files of harness, reference_models, rules and reports, as they were
    imported."""
    commit: Commit | None
    """Git commit of the checkout that holds the imported files or from which they were built. None if no commit is
    known."""
    commit_is_dirty: bool | None
    """Whether tracked files differed from `commit`; None if no commit is known."""


class Measurement(Document, frozen=True, kw_only=True):
    """Base of the records of all kinds of measurement: the results, the code that measured, and the load from other
    processes."""

    MEASURE: ClassVar[Measure]
    OTHER_MEASURES: ClassVar[Mapping[str, Measure]] = {}
    """Other quantities by which a file of this kind of measurement may be compared: a dict from the member that holds
    the quantity to the quantity."""
    ASKED: ClassVar[tuple[str, ...]] = ()
    """Names of the members (and "benchmark") that state what the user asked the measurement to do. Settings are shown
    in this order."""
    MUST_AGREE: ClassVar[Mapping[str, str]] = {}
    """Settings in which two compared measurements must agree: a dict from the setting to the message shown if they
    differ. The two {} in the message stand for the values of the first and the second measurement."""
    COMMAND: ClassVar[str | None] = None
    """Command (verb) of dlrmbench that makes this kind of measurement; None where it is `run --<kind>`."""
    IS_LOGGED: ClassVar[bool] = False
    """Whether each repetition of this kind of measurement leaves an MLPerf log and a record of its own; False where
    extra/<kind>.json holds all repetitions."""

    DETAILS: ClassVar[DetailTable | None] = None

    code: CodeRecord | None = None
    """Version of the code that made the measurement. The harness records it for every kind of measurement. None in
    files of earlier versions, for an attempt that was cut off, and if the processes of one measurement ran different
    code."""
    loads: tuple[LoadRecord | None, ...] = ()
    """Load that other processes put on the system during the measurement, one entry for each measuring process, in
    the order of the measuring processes. An entry is None if the load was not watched. The command that starts the
    measuring processes records the loads. Empty in files of earlier versions, and if torchrun or srun started the
    processes."""

    @property
    def measure(self) -> Measure:
        """Return the quantity, with unit and columns, by which this file's results are compared."""
        return self.MEASURE

    def repetitions(self) -> tuple[Any, ...]:
        """Return the repetitions of the measurement, which are the sample for comparisons. If the file holds one
        repetition only, that is the record itself."""
        return (self,)


class ProcessMeasurement(Measurement, frozen=True, kw_only=True):
    """Base of the records of kinds of measurement made in several fresh processes, whose results are all in
    extra/<kind>.json."""

    if TYPE_CHECKING:  # a type has it where its file does
        processes: tuple[Any, ...]

    def repetitions(self) -> tuple[Any, ...]:
        """Return the entries of the measured processes, which a comparison takes as its sample."""
        return self.processes

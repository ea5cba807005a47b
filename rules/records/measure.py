"""What a kind of measurement measures, so that reports can show and compare it without knowing the kind."""

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
    """One column of a table of repetitions: a member, its title, and its unit (None for a name or a number)."""

    member: str
    title: str
    unit: str | None
    origin: Literal["measured", "simulated", "computed"] = "measured"


@dataclass(frozen=True, kw_only=True, slots=True)
class Measure:
    """The quantity that is compared. On a "ratio" scale logarithms are compared, on a "difference" scale values."""

    title: str
    value: str
    """The member of one repetition that holds it."""
    unit: str
    scale: Literal["ratio", "difference"]
    direction: Literal["higher", "lower"]
    """Which one is better."""
    columns: tuple[Column, ...]
    """One of them is of `value`; its title is what readers call the quantity."""
    min_effect: float = 0.03
    """The smallest difference of interest: a fraction on a "ratio" scale, else in the unit."""

    @property
    def name(self) -> str:
        return next((column.title for column in self.columns if column.member == self.value), self.title)


@dataclass(frozen=True, kw_only=True, slots=True)
class DetailTable:
    """A table of its own that a kind has in frames, Parquet and JSON, with a row per process.

    A member of `row` is found by its name in the record, in the entry of the process, or in one of its `parts`; the
    set says configuration, which each row needs, benchmark, system, process, seed and path.
    """

    name: str
    row: type[Row]
    parts: tuple[str, ...] = ()


class CodeRecord(Record, frozen=True, kw_only=True):
    """The code that ran, as the process that ran it found its own files."""

    sha256: Sha256
    """Digest of all files of harness, reference_models, rules and reports as they were imported, by their names."""
    commit: Commit | None
    """Commit of the checkout that they are in, or were built from; None where neither is known."""
    commit_is_dirty: bool | None
    """Whether tracked files differed from that commit."""


class Measurement(Document, frozen=True, kw_only=True):
    """The record of a kind of measurement."""

    MEASURE: ClassVar[Measure]
    OTHER_MEASURES: ClassVar[Mapping[str, Measure]] = {}
    """What files of the kind may have measured instead, by the member of `Measure.value`."""
    ASKED: ClassVar[tuple[str, ...]] = ()
    """Members of the record or of a process that say what was asked, and "benchmark", as settings show them."""
    MUST_AGREE: ClassVar[Mapping[str, str]] = {}
    """By setting that two sides of a comparison must share, what is said where they do not: a {} for each value."""
    COMMAND: ClassVar[str | None] = None
    """The verb that measures the kind; None where it is `run --<kind>`."""
    IS_LOGGED: ClassVar[bool] = False
    """Whether each repetition leaves a log and a record of its own, and not all of them extra/<kind>.json."""

    DETAILS: ClassVar[DetailTable | None] = None

    code: CodeRecord | None = None
    """Set by the harness for every kind, in one place. None in files of versions 1 and 2, for an attempt that was cut
    off, and where the processes of one measurement ran different code."""
    loads: tuple[LoadRecord | None, ...] = ()
    """What else the system did while each process measured, in their order; None where that was not watched. Set by
    who starts the processes. Empty in files of earlier versions, and where torchrun or srun started them."""

    @property
    def measure(self) -> Measure:
        """Return what this file measured."""
        return self.MEASURE

    def repetitions(self) -> tuple[Any, ...]:
        """Return what a comparison takes as its sample: the record itself, where it does not hold several."""
        return (self,)


class ProcessMeasurement(Measurement, frozen=True, kw_only=True):
    """The record of a kind that is measured in several fresh processes, gathered in extra/<kind>.json."""

    if TYPE_CHECKING:  # a type has it where its file does
        processes: tuple[Any, ...]

    def repetitions(self) -> tuple[Any, ...]:
        """Return what a comparison takes as its sample."""
        return self.processes

"""study.json holds tables of results that are not training runs, such as sharding plans and queue models; each column
states the source of its numbers.

Plans, placements, memory tiers and queue models are deterministic for their parameters and seed, and have no verdict.
A command makes a study through `harness.foundation.study` and prints it; `reports.page.studies.study` shows it.
"""

from typing import Annotated, Any, Literal

from msgspec import Meta

from rules.records.codec import Count, Document, Record, Sha256
from rules.records.load import LoadRecord
from rules.records.run_set import PreflightCheck

STUDY_FILE = "study.json"
TIMELINE = "Timeline of the first second"
"""Beginning of the title of the table of simulated requests in the first second of a usage study (several models that
one application requests by a schedule): reports draw this table and do not print it."""
Origin = Literal["measured", "computed", "modelled", "simulated", "fitted", "given", "published"]
"""Source of the numbers in a column of a study's table, stated in the column's head."""
Source = Literal["given", "default", "definition", "file", "measured"]
Scalar = bool | int | float | str | None
Cell = Scalar | tuple[int, ...]
"""Value of a cell in a study's table: None means not known; several integers are, for example, the devices that share
an embedding table."""


class Parameter(Record, frozen=True, kw_only=True):
    """Parameter of a study: its value in SI units, and its source."""

    name: str
    value: Scalar
    unit: str | None
    source: Source
    note: str | None


class StudyColumn(Record, frozen=True, kw_only=True):
    """Column of a study's table. `unit` is an SI unit, "share" for a fraction of one, None for a name or a plain
    number; `origin` is the source of its numbers."""

    name: str
    unit: str | None
    origin: Origin


class StudyTable(Record, frozen=True, kw_only=True):
    """Table of a study: rows of cells in the order of the columns. Raises ValueError where a row has another number
    of cells than there are columns."""

    title: str
    columns: Annotated[tuple[StudyColumn, ...], Meta(min_length=1, max_length=100)]
    rows: tuple[tuple[Cell, ...], ...]

    def __post_init__(self) -> None:
        wrong = next((number for number, row in enumerate(self.rows) if len(row) != len(self.columns)), None)
        if wrong is not None:
            raise ValueError(f"{len(self.columns)} cells in row {wrong}, one per column")


class StudyCheck(Record, frozen=True, kw_only=True):
    """Check that a study's results must pass whatever its parameters, such as a conservation law or a known result:
    expected and found value."""

    name: str
    expected: float
    found: float
    is_passed: bool


class InputRecord(Record, frozen=True, kw_only=True):
    """Input file of a study, by the path that was read, and its SHA-256; for a folder the digest of its manifest."""

    name: str
    sha256: Sha256


class MadeRecord(Record, frozen=True, kw_only=True):
    """Provenance of a study: the command, code, system and input files that it was made with."""

    command: str
    created_utc: str
    harness_version: str
    code_sha256: Sha256
    processor: str | None
    """Model name of the host's processors on which the study was made, as the system reports it."""
    num_processors: str | None
    environment: dict[str, Any]
    """Versions of software and facts of the system on which the study was made, in the form of extra/run_set.json."""
    inputs: tuple[InputRecord, ...] = ()


class StudyRecord(Document, frozen=True, kw_only=True):
    """Study: results that are not training runs, as tables with parameters, findings and checks."""

    kind: Annotated[str, Meta(min_length=1)]
    title: str
    benchmark: str | None
    definition_sha256: str | None
    seed: Count | None
    parameters: tuple[Parameter, ...]
    tables: Annotated[tuple[StudyTable, ...], Meta(min_length=1)]
    findings: tuple[str, ...]
    checks: tuple[StudyCheck, ...]
    preflight: tuple[PreflightCheck, ...] = ()
    """Checks of the system (clock, load, memory) before the study's measurement; empty where nothing was measured,
    and in files of earlier versions."""
    loads: tuple[LoadRecord, ...] = ()
    """Load that other processes put on the system while each of the study's processes measured, in their order; empty
    where nothing was measured, and in files of earlier versions."""
    made: MadeRecord | None = None
    """Provenance of the study (command, code, system, inputs); None where the study was derived from other records,
    such as checkpoints, and in files of earlier versions."""

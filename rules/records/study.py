"""study.json: tables for results that are not runs; each column states the source of its numbers.

Plans, placements, memory tiers, queue models: deterministic for their parameters and seed, without verdicts. A verb
makes a study through `harness.foundation.study` and prints it; `reports.page.figures.study` shows it.
"""

from typing import Annotated, Any, Literal

from msgspec import Meta

from rules.records.codec import Count, Document, Record, Sha256
from rules.records.load import LoadRecord
from rules.records.run_set import PreflightCheck

STUDY_FILE = "study.json"
TIMELINE = "Timeline of the first second"
"""Beginning of the title of a usage study's timeline of requests, which is drawn on the page and not printed."""
Origin = Literal["measured", "computed", "modelled", "simulated", "fitted", "given", "published"]
"""Source of a column's numbers, stated in every column's head."""
Source = Literal["given", "default", "definition", "file", "measured"]
Scalar = bool | int | float | str | None
Cell = Scalar | tuple[int, ...]
"""Value of a table's cell: None means not known; several integers are, for example, the devices that share a
table."""


class Parameter(Record, frozen=True, kw_only=True):
    """A parameter of a study, in SI units, and its source."""

    name: str
    value: Scalar
    unit: str | None
    source: Source
    note: str | None


class StudyColumn(Record, frozen=True, kw_only=True):
    """A column of a study's table. `unit` is an SI unit, "share" for a fraction of one, None for a name or a plain
    number."""

    name: str
    unit: str | None
    origin: Origin


class StudyTable(Record, frozen=True, kw_only=True):
    """Rows of cells in the order of the columns. Raises ValueError where a row has another number of cells."""

    title: str
    columns: Annotated[tuple[StudyColumn, ...], Meta(min_length=1, max_length=100)]
    rows: tuple[tuple[Cell, ...], ...]

    def __post_init__(self) -> None:
        wrong = next((number for number, row in enumerate(self.rows) if len(row) != len(self.columns)), None)
        if wrong is not None:
            raise ValueError(f"{len(self.columns)} cells in row {wrong}, one per column")


class StudyCheck(Record, frozen=True, kw_only=True):
    """A check that a study must pass whatever its parameters, such as a conservation law or a known result."""

    name: str
    expected: float
    found: float
    is_passed: bool


class InputRecord(Record, frozen=True, kw_only=True):
    """An input file of a study, as it was named, and its digest; for a folder the digest of its manifest."""

    name: str
    sha256: Sha256


class MadeRecord(Record, frozen=True, kw_only=True):
    """Origin of a study: its command, code, system and inputs."""

    command: str
    created_utc: str
    harness_version: str
    code_sha256: Sha256
    processor: str | None
    """Model name of the host's processors, as the system reports it."""
    num_processors: str | None
    environment: dict[str, Any]
    """Software and system, in the form of extra/run_set.json."""
    inputs: tuple[InputRecord, ...] = ()


class StudyRecord(Document, frozen=True, kw_only=True):
    """A study: subject, parameters, tables, findings and checks."""

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
    """Environment check before the measurement; empty where nothing was measured, and in files of earlier
    versions."""
    loads: tuple[LoadRecord, ...] = ()
    """Other load on the system while each process measured, in their order; empty where nothing was measured, and in
    files of earlier versions."""
    made: MadeRecord | None = None
    """Origin of the study; None where it was derived from other records, such as checkpoints, and in files of earlier
    versions."""

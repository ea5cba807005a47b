"""study.json holds tables of results that are not training runs, such as sharding plans and queue models; each column
states the source of its numbers.

Plans, placements, memory tiers and queue models depend only on their parameters and seed, and have no verdict. A
command makes a study through `harness.foundation.study` and prints it; `reports.page.studies.study` shows it on a
page.
"""

from typing import Annotated, Any, Literal

from msgspec import Meta

from rules.records.codec import Count, Document, Record, Sha256
from rules.records.load import LoadRecord
from rules.records.run_set import PreflightCheck

STUDY_FILE = "study.json"
TIMELINE = "Timeline of the first second"
"""Beginning of the title of one table of a usage study (a simulation of several models that one application requests
by a schedule): the table of requests in the first second. Reports draw this table and do not print it."""
Origin = Literal["measured", "computed", "modelled", "simulated", "fitted", "given", "published"]
"""Source of the numbers in a column of a study's table, stated in the column's head."""
Source = Literal["given", "default", "definition", "file", "measured"]
Scalar = bool | int | float | str | None
Cell = Scalar | tuple[int, ...]
"""Value of a cell in a study's table. None means unknown; a cell with several integers lists, for example, the
devices that share an embedding table."""


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
    """Check of a study's results against a known truth, such as a conservation law, with the expected and the found
    value. Results must pass it whatever the study's parameters."""

    name: str
    expected: float
    found: float
    is_passed: bool


class InputRecord(Record, frozen=True, kw_only=True):
    """Input file of a study: the path that was read, and the file's SHA-256. For a folder, it is the digest of the
    folder's manifest."""

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
    """Software versions and facts of the system on which the study was made, in the form that extra/run_set.json
    uses."""
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
    """Load that other processes put on the system while the study measured, one entry for each of its processes, in
    their order. Empty if nothing was measured, and in files of earlier versions."""
    made: MadeRecord | None = None
    """Provenance of the study (command, code, system, inputs). None if the study was derived from other records, such
    as those of checkpoints, and in files of earlier versions."""

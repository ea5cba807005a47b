"""study.json: a table whose every column says where its numbers come from; for everything that is not a run.

Plans, placements, memory tiers, queue models: deterministic for their parameters and seed, without verdicts. A verb
makes it through `harness.foundation.study` and prints it; `reports.page.figures.study` shows it.
"""

from typing import Annotated, Any, Literal

from msgspec import Meta

from rules.records.codec import Count, Document, Record, Sha256
from rules.records.load import LoadRecord
from rules.records.run_set import PreflightCheck

STUDY_FILE = "study.json"
TIMELINE = "Timeline of the first second"
"""How the title of a usage study's table of frames begins, which is drawn on the page and not printed."""
Origin = Literal["measured", "computed", "modelled", "simulated", "fitted", "given", "published"]
"""Where the numbers of a column come from; every column's head says it."""
Source = Literal["given", "default", "definition", "file", "measured"]
Scalar = bool | int | float | str | None
Cell = Scalar | tuple[int, ...]
"""None is not known; several integers are, say, the devices that share a table."""


class Parameter(Record, frozen=True, kw_only=True):
    """What a study rests on, in SI units, and who said it."""

    name: str
    value: Scalar
    unit: str | None
    source: Source
    note: str | None


class StudyColumn(Record, frozen=True, kw_only=True):
    """`unit` is an SI unit, "share" for a fraction of one, None for a name or a plain number."""

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
    """What a study must satisfy whatever its parameters: a conservation law, an oracle's number."""

    name: str
    expected: float
    found: float
    is_passed: bool


class InputRecord(Record, frozen=True, kw_only=True):
    """A file that a study was made from, as it was named, and its digest; of a folder that of its manifest."""

    name: str
    sha256: Sha256


class MadeRecord(Record, frozen=True, kw_only=True):
    """How a study was made: with these inputs, by this command of this code."""

    command: str
    created_utc: str
    harness_version: str
    code_sha256: Sha256
    processor: str | None
    """The model of the host's processors, as the system names it."""
    num_processors: str | None
    environment: dict[str, Any]
    """Software and system, as extra/run_set.json has them."""
    inputs: tuple[InputRecord, ...] = ()


class StudyRecord(Document, frozen=True, kw_only=True):
    """One study: what it is about, what it rests on, its tables, what was found and what was checked."""

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
    """The environment check before it was measured; empty where nothing was, and in files of earlier versions."""
    loads: tuple[LoadRecord, ...] = ()
    """What else the system did while each process measured, in their order; likewise."""
    made: MadeRecord | None = None
    """None of what is made of other records, such as those of checkpoints, and in files of earlier versions."""

"""What `run --beside` writes as JSON: documents of sets, measurements and their comparison in one."""

from typing import Annotated, Literal

from reports.comparison.records import ComparisonMember
from reports.tables.scores import MeasurementDocument, RunDocument
from rules.records.rows import Row, meaning


class PairDocument(Row, kw_only=True, frozen=True):
    """What `run --beside --format json` prints of two sides: each by itself, and new against base."""

    schema_version: Literal[2] = 2
    kind: Literal["pair"] = "pair"
    folder: str
    report: Annotated[str, meaning("the page of both")]
    scores: Annotated[tuple[RunDocument, ...], meaning("base and new, where they are sets of runs")]
    measurements: Annotated[tuple[MeasurementDocument, ...], meaning("base and new, of another kind of measurement")]
    comparisons: tuple[ComparisonMember, ...]

"""manifest.json of a trace: which rows of embedding tables are looked up, in which order."""

from typing import Annotated, Literal

from msgspec import Meta

from rules.records.codec import Count, Document, PositiveCount, Record, Sha256
from rules.records.kept.arrays import Arrays


class TraceTable(Record, frozen=True, kw_only=True):
    """One table of a trace."""

    num_rows: PositiveCount
    """Rows that the table has; the highest that was looked up, and one, where the source does not say it."""
    num_lookups: Count
    name: Annotated[str, Meta(min_length=1, max_length=200)] | None = None
    row_bytes: Annotated[int, Meta(ge=1, le=1 << 22)] | None = None
    """Bytes of a row as it is stored; None where the source does not say it of this table alone."""
    side: Literal["user", "item"] | None = None
    """Whether a query looks it up once, for its user, or for each item that is ranked."""


class TraceManifest(Document, frozen=True, kw_only=True):
    """Lookups of T tables in B bags each. The arrays are those of facebookresearch/dlrm_datasets and FBGEMM.

    `indices` [lookups] has the rows of table 0, bag by bag, then those of table 1, and so on; `offsets` [T * B + 1]
    says where each bag begins. Bag b of every table belongs to sample b; samples are in the order of their lookups.
    """

    source: Annotated[str, Meta(max_length=1000)]
    """What was traced, in words."""
    benchmark: str | None = None
    """None where the source was a file of lookups."""
    definition_sha256: Sha256 | None = None
    dataset_sha256: Sha256 | None = None
    seed: Count | None = None
    """Seed of what was drawn for the trace itself; None where nothing was."""
    row_bytes: PositiveCount | None = None
    """Bytes of a row as it is trained, without optimizer state; None where the source does not say it."""
    num_bags: PositiveCount
    """B: bags of each table."""
    are_rows_least: bool = False
    """Whether the source says no numbers of rows, so that tables may have more."""
    samples_per_query: PositiveCount = 1
    """Samples that are one query; user-side tables are looked up by the first of them alone."""
    tables: Annotated[tuple[TraceTable, ...], Meta(min_length=1, max_length=100_000)]
    arrays: Arrays

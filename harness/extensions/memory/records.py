"""Record of a trace's manifest.json: which rows of embedding tables are looked up, in which order."""

from typing import Annotated, Literal

from msgspec import Meta

from rules.records.codec import Count, Document, PositiveCount, Record, Sha256
from rules.records.kept.arrays import Arrays


class TraceTable(Record, frozen=True, kw_only=True):
    """One table of a trace."""

    num_rows: PositiveCount
    """Rows of the table; the highest row looked up plus one where the source does not give the number."""
    num_lookups: Count
    name: Annotated[str, Meta(min_length=1, max_length=200)] | None = None
    row_bytes: Annotated[int, Meta(ge=1, le=1 << 22)] | None = None
    """Bytes of a row as stored; None where the source does not give them for this table alone."""
    side: Literal["user", "item"] | None = None
    """Whether a query looks the table up once for its user, or for each ranked item; None where not given."""


class TraceManifest(Document, frozen=True, kw_only=True):
    """Lookups of T tables in B bags each; the arrays are those of facebookresearch/dlrm_datasets and FBGEMM.

    `indices` [lookups] has the rows of table 0, bag by bag, then those of table 1, and so on; `offsets` [T * B + 1]
    says where each bag begins. Bag b of every table belongs to sample b; samples are in the order of their lookups.
    """

    source: Annotated[str, Meta(max_length=1000)]
    """Description of the traced data."""
    benchmark: str | None = None
    """Name of the traced benchmark; None where the source was a file."""
    definition_sha256: Sha256 | None = None
    dataset_sha256: Sha256 | None = None
    seed: Count | None = None
    """Seed of the lookups drawn for this trace; None where none were drawn."""
    row_bytes: PositiveCount | None = None
    """Bytes of a row in training, without optimizer state; None where the source does not give them."""
    num_bags: PositiveCount
    """Bags of each table, B."""
    are_rows_least: bool = False
    """True if the source gives no numbers of rows, so that tables may have more rows than looked up."""
    samples_per_query: PositiveCount = 1
    """Samples that make one query; only the first of them looks user-side tables up."""
    tables: Annotated[tuple[TraceTable, ...], Meta(min_length=1, max_length=100_000)]
    arrays: Arrays

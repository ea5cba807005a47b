"""Define the type of a trace's manifest.json, which describes embedding lookups: tables, bags, and the trace's
source."""

from typing import Annotated, Literal

from msgspec import Meta

from rules.records.codec import Count, Document, PositiveCount, Record, Sha256
from rules.records.kept.arrays import Arrays


class TraceTable(Record, frozen=True, kw_only=True):
    """One embedding table of a trace of lookups: its rows, its lookups and, where the source gives them, name and row
    size."""

    num_rows: PositiveCount
    """Number of rows of the table; the highest row looked up plus one where the trace's source does not give the
    number."""
    num_lookups: Count
    name: Annotated[str, Meta(min_length=1, max_length=200)] | None = None
    row_bytes: Annotated[int, Meta(ge=1, le=1 << 22)] | None = None
    """Bytes of one row of the table as stored; None where the trace's source does not give the size for each
    table."""
    side: Literal["user", "item"] | None = None
    """How often a query looks the table up: "user" is once, for the query's user; "item" is once for each candidate
    item that the query ranks. None where the trace's source does not say."""


class TraceManifest(Document, frozen=True, kw_only=True):
    """Embedding lookups in T tables, B bags each, as arrays like those of facebookresearch/dlrm_datasets and FBGEMM.

    `indices` [lookups] has the rows of table 0, bag by bag, then those of table 1, and so on; `offsets` [T * B + 1]
    says where each bag (the rows that a sample looks up in a table) begins. Bag b of every table belongs to sample b;
    samples are in the order of their lookups.
    """

    source: Annotated[str, Meta(max_length=1000)]
    """Description of the data or the file whose lookups the trace has."""
    benchmark: str | None = None
    """Name of the benchmark whose lookups were traced; None where the source was a file."""
    definition_sha256: Sha256 | None = None
    dataset_sha256: Sha256 | None = None
    seed: Count | None = None
    """Seed with which the lookups of this trace were drawn; None where none were drawn."""
    row_bytes: PositiveCount | None = None
    """Bytes of an embedding row in training, without optimizer state; None where the source does not give the
    size."""
    num_bags: PositiveCount
    """Number of bags of each table, B: one for each sample."""
    are_rows_least: bool = False
    """True if the trace's source gives no numbers of rows, so that a table may have more rows than `num_rows`."""
    samples_per_query: PositiveCount = 1
    """Number of samples (candidate items to rank) that make one query; only the first of them looks up tables of the
    user's side."""
    tables: Annotated[tuple[TraceTable, ...], Meta(min_length=1, max_length=100_000)]
    arrays: Arrays

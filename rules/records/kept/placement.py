"""A plan of 'place': the device of each column of each embedding table, and the task that the plan solves."""

from typing import Annotated, Literal

from msgspec import Meta

from rules.records.codec import Amount, Count, Document, Index, PositiveCount, Record, Sha256, Share

NUM_REUSE_BINS = 17
_MAX = Meta(min_length=1, max_length=100_000)


class PlacedTable(Record, frozen=True, kw_only=True):
    """An embedding table of a task, and its access pattern."""

    num_embeddings: PositiveCount
    dim: PositiveCount
    pooling: Amount
    """Mean lookups per sample."""
    reuse: Annotated[tuple[Share, ...], Meta(min_length=NUM_REUSE_BINS, max_length=NUM_REUSE_BINS)]
    """Shares of a batch's lookups by reuse: rows looked up once in the batch, then up to 2, 4, 8, … times."""
    optimizer: Literal["sgd", "adagrad", "rowwise_adagrad"]


class PlacedShard(Record, frozen=True, kw_only=True):
    """Adjacent columns of one table on one device, with all rows."""

    table: Index
    first_column: Index
    num_columns: PositiveCount
    device: Index


class PlanRecord(Document, frozen=True, kw_only=True):
    """A plan of a task, and the search that found it."""

    benchmark: str | None
    """Benchmark of the task; None where the task belongs to no benchmark."""
    definition_sha256: Sha256 | None
    search: str
    """Name of the search that found the plan, as for 'place --by'."""
    cost: Literal["bandwidth", "torchrec", "measured", "net"]
    """Cost model by which the plan was found."""
    seed: Count
    task: str
    task_sha256: Sha256
    """Digest of the five members that follow."""
    num_devices: Annotated[int, Meta(ge=1, le=4096)]
    memory_bytes: PositiveCount
    """Memory of one device that tables may use."""
    batch_size: PositiveCount
    """Samples per batch over all devices."""
    tables: Annotated[tuple[PlacedTable, ...], _MAX]
    shards: Annotated[tuple[PlacedShard, ...], _MAX]

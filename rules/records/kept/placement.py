"""Plan that 'place' makes for embedding tables: the device of each column of each table, and the task that the plan
solves."""

from typing import Annotated, Literal

from msgspec import Meta

from rules.records.codec import Amount, Count, Document, Index, PositiveCount, Record, Sha256, Share

NUM_REUSE_BINS = 17
_MAX = Meta(min_length=1, max_length=100_000)


class PlacedTable(Record, frozen=True, kw_only=True):
    """Embedding table that a placement plan distributes over devices: its size and its access pattern."""

    num_embeddings: PositiveCount
    dim: PositiveCount
    pooling: Amount
    """Mean number of lookups in the embedding table per sample."""
    reuse: Annotated[tuple[Share, ...], Meta(min_length=NUM_REUSE_BINS, max_length=NUM_REUSE_BINS)]
    """Shares of a batch's lookups in the table, by how often a batch contains the looked-up row: once, then up to 2,
    4, 8, … times."""
    optimizer: Literal["sgd", "adagrad", "rowwise_adagrad"]


class PlacedShard(Record, frozen=True, kw_only=True):
    """Shard of an embedding table: adjacent columns, with all rows, on one device."""

    table: Index
    first_column: Index
    num_columns: PositiveCount
    device: Index


class PlanRecord(Document, frozen=True, kw_only=True):
    """Placement plan: the shards of all embedding tables on devices, and the search and cost model that found
    them."""

    benchmark: str | None
    """Name of the benchmark whose embedding tables the plan places; None where the tables belong to no benchmark."""
    definition_sha256: Sha256 | None
    search: str
    """Name of the search algorithm that found the placement plan, as given to 'place --by'."""
    cost: Literal["bandwidth", "torchrec", "measured", "net"]
    """Cost model given to the search that found the placement plan; some searches do not use it."""
    seed: Count
    task: str
    task_sha256: Sha256
    """Digest of the placement task: the number of devices, their memory, the batch size and the tables, without the
    shards."""
    num_devices: Annotated[int, Meta(ge=1, le=4096)]
    memory_bytes: PositiveCount
    """Bytes of one device's memory that embedding tables may use."""
    batch_size: PositiveCount
    """Samples per training batch over all devices together."""
    tables: Annotated[tuple[PlacedTable, ...], _MAX]
    shards: Annotated[tuple[PlacedShard, ...], _MAX]

"""A plan of 'place': which device has which columns of which embedding table, and of which task that is a plan."""

from typing import Annotated, Literal

from msgspec import Meta

from rules.records.codec import Amount, Count, Document, Index, PositiveCount, Record, Sha256, Share

NUM_REUSE_BINS = 17
_MAX = Meta(min_length=1, max_length=100_000)


class PlacedTable(Record, frozen=True, kw_only=True):
    """One embedding table of a task, and how it is looked up."""

    num_embeddings: PositiveCount
    dim: PositiveCount
    pooling: Amount
    """Lookups per sample, on average."""
    reuse: Annotated[tuple[Share, ...], Meta(min_length=NUM_REUSE_BINS, max_length=NUM_REUSE_BINS)]
    """Shares of a batch's lookups: of rows that are looked up once in it, then up to 2, 4, 8, … times."""
    optimizer: Literal["sgd", "adagrad", "rowwise_adagrad"]


class PlacedShard(Record, frozen=True, kw_only=True):
    """Neighbouring columns of one table, on one device, with all rows."""

    table: Index
    first_column: Index
    num_columns: PositiveCount
    device: Index


class PlanRecord(Document, frozen=True, kw_only=True):
    """A plan of a task, and how it was found."""

    benchmark: str | None
    """None where the task is of no benchmark."""
    definition_sha256: Sha256 | None
    search: str
    """The name of what found the plan, as 'place --by' has it."""
    cost: Literal["bandwidth", "torchrec", "measured", "net"]
    """What it found the plan by."""
    seed: Count
    task: str
    task_sha256: Sha256
    """The digest of the five members below."""
    num_devices: Annotated[int, Meta(ge=1, le=4096)]
    memory_bytes: PositiveCount
    """Memory that tables may take of one device."""
    batch_size: PositiveCount
    """Samples of all devices together."""
    tables: Annotated[tuple[PlacedTable, ...], _MAX]
    shards: Annotated[tuple[PlacedShard, ...], _MAX]

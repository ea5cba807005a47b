"""costs.json: measured costs of tables, for plans that are made elsewhere."""

from typing import Annotated, Literal

from msgspec import Meta

from rules.records.codec import Amount, Count, Document, PositiveAmount, PositiveCount, Record, Share
from rules.records.kept.placement import NUM_REUSE_BINS
from rules.records.load import LoadRecord
from rules.records.run_set import PreflightCheck

MAX_TABLES, MAX_SETS = 1000, 10_000
"""Most tables of a set, and most sets of a file."""
Halves = tuple[PositiveAmount, PositiveAmount]


class CostedTable(Record, frozen=True, kw_only=True):
    """Time of one table, or of some of its columns, alone on a device per step: lookups, backward and update."""

    num_embeddings: PositiveCount
    dim: PositiveCount
    """Columns of the table, or of the part."""
    pooling: Amount
    """Lookups per sample in the table, on average."""
    optimizer: Literal["sgd", "adagrad", "rowwise_adagrad"]
    seconds: PositiveAmount
    reuse: Annotated[tuple[Share, ...], Meta(min_length=NUM_REUSE_BINS, max_length=NUM_REUSE_BINS)] | None = None
    """Shares of a batch's lookups by reuse: rows looked up once in the batch, then up to 2, 4, 8, … times; None if
    the cost holds for any reuse."""
    spread: Amount | None = None
    """Interquartile range of the measured rounds, as a fraction of the median; None if not known."""
    halves: Halves | None = None
    """Median seconds of the first and of the second half of the rounds; None if not known."""


class CostedSet(Record, frozen=True, kw_only=True):
    """Time of several tables together on a device per step: one lookup, backward and update of all of them."""

    tables: Annotated[tuple[Count, ...], Meta(min_length=1, max_length=MAX_TABLES)]
    """Places of the set's tables in `CostsRecord.tables`, from 0; a table may be there more than once."""
    seconds: PositiveAmount
    halves: Halves
    """Median seconds of the first and of the second half of the rounds: their difference is the noise."""
    spread: Amount | None = None
    """Interquartile range of the measured rounds, as a fraction of the median; None if not known."""


class CostsRecord(Document, frozen=True, kw_only=True):
    """Measured costs of tables; 'place --costs' adds up those of a device's tables.

    The file may be written by hand for other devices: a table that may be cut needs an entry for each width.
    """

    device: Annotated[str, Meta(min_length=1, max_length=200)]
    """Device that was measured, in words: a processor and its threads."""
    batch_size: PositiveCount
    """Samples of all devices together: a device does the lookups of its tables for all of them."""
    tables: Annotated[tuple[CostedTable, ...], Meta(min_length=1, max_length=100_000)]
    sets: Annotated[tuple[CostedSet, ...], Meta(max_length=MAX_SETS)] = ()
    """Sets of these tables, with their times together; a cost net learns from them."""
    preflight: tuple[PreflightCheck, ...] = ()
    """Results of the environment check before the measurement."""
    loads: tuple[LoadRecord, ...] = ()
    """Load of the system by other work during the measurement."""

"""Define the type of costs.json: measured costs of embedding tables, for placement plans that are made elsewhere."""

from typing import Annotated, Literal

from msgspec import Meta

from rules.records.codec import Amount, Count, Document, PositiveAmount, PositiveCount, Record, Share
from rules.records.kept.placement import NUM_REUSE_BINS
from rules.records.load import LoadRecord
from rules.records.run_set import PreflightCheck

MAX_TABLES = 1000
"""Maximum number of tables in a measured set of tables."""
MAX_SETS = 10_000
"""Maximum number of sets of tables in a costs file."""
Halves = tuple[PositiveAmount, PositiveAmount]


class CostedTable(Record, frozen=True, kw_only=True):
    """Time per step of one table, or of some of its columns, as the only table on a device: lookups, backward pass
    and update."""

    num_embeddings: PositiveCount
    dim: PositiveCount
    """Number of columns (values of a row) of the table, or of the part of a table that was measured."""
    pooling: Amount
    """Mean number of lookups that a sample makes in the embedding table."""
    optimizer: Literal["sgd", "adagrad", "rowwise_adagrad"]
    seconds: PositiveAmount
    reuse: Annotated[tuple[Share, ...], Meta(min_length=NUM_REUSE_BINS, max_length=NUM_REUSE_BINS)] | None = None
    """Shares of a batch's lookups by how often the batch looks up the same row: once, then up to 2, 4, 8, … times.
    None if the cost holds for any reuse of rows."""
    spread: Amount | None = None
    """Interquartile range of the times measured for the table in several rounds, as a fraction of their median; None
    if not known."""
    halves: Halves | None = None
    """Median seconds of the table in the first half, and in the second half, of the measured rounds; None if not
    known."""


class CostedSet(Record, frozen=True, kw_only=True):
    """Time per step of several tables together on a device: one lookup, backward pass and update for all of them."""

    tables: Annotated[tuple[Count, ...], Meta(min_length=1, max_length=MAX_TABLES)]
    """Indices of the set's tables in `CostsRecord.tables`, from 0; a table may be there more than once."""
    seconds: PositiveAmount
    halves: Halves
    """Median seconds of the set of tables in the first half, and in the second half, of the measured rounds: the
    difference of the two shows the noise."""
    spread: Amount | None = None
    """Interquartile range of the times measured for the set of tables in several rounds, as a fraction of their
    median; None if not known."""


class CostsRecord(Document, frozen=True, kw_only=True):
    """Measured costs of embedding tables. 'place --costs' adds up the costs of the tables that a plan puts on a
    device.

    The file may be written by hand for other devices: a table that may be cut needs an entry for each width.
    """

    device: Annotated[str, Meta(min_length=1, max_length=200)]
    """Device on which the tables were measured, in words: a processor and its threads."""
    batch_size: PositiveCount
    """Number of samples in the global batch, of all devices together. A device looks up its tables for all of these
    samples."""
    tables: Annotated[tuple[CostedTable, ...], Meta(min_length=1, max_length=100_000)]
    sets: Annotated[tuple[CostedSet, ...], Meta(max_length=MAX_SETS)] = ()
    """Sets of tables in `tables`, each with the measured time of all its tables together; a cost net learns from the
    sets."""
    preflight: tuple[PreflightCheck, ...] = ()
    """Results of the environment check before the tables were measured."""
    loads: tuple[LoadRecord, ...] = ()
    """Load of the machine by other work while the tables were measured."""

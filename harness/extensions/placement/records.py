"""costs.json: what tables cost where they were measured, for plans that are made elsewhere."""

from typing import Annotated, Literal

from msgspec import Meta

from rules.records.codec import Amount, Count, Document, PositiveAmount, PositiveCount, Record, Share
from rules.records.kept.placement import NUM_REUSE_BINS
from rules.records.load import LoadRecord
from rules.records.run_set import PreflightCheck

MAX_TABLES, MAX_SETS = 1000, 10_000
"""Tables of a set, and sets of a file."""
Halves = tuple[PositiveAmount, PositiveAmount]


class CostedTable(Record, frozen=True, kw_only=True):
    """What one table, or so many columns of one, takes alone on a device per step: lookups, backward and update."""

    num_embeddings: PositiveCount
    dim: PositiveCount
    """Columns."""
    pooling: Amount
    """Lookups per sample, on average."""
    optimizer: Literal["sgd", "adagrad", "rowwise_adagrad"]
    seconds: PositiveAmount
    reuse: Annotated[tuple[Share, ...], Meta(min_length=NUM_REUSE_BINS, max_length=NUM_REUSE_BINS)] | None = None
    """Shares of a batch's lookups, as a plan has them; None where it stands for tables of any reuse."""
    spread: Amount | None = None
    """Between the quartiles of its rounds, as a fraction of the median; None where it is not known."""
    halves: Halves | None = None
    """Likewise of either half of its rounds; None where it is not known."""


class CostedSet(Record, frozen=True, kw_only=True):
    """What tables take together on a device per step: by one lookup, backward and update of all of them."""

    tables: Annotated[tuple[Count, ...], Meta(min_length=1, max_length=MAX_TABLES)]
    """Their places in `CostsRecord.tables`, from 0; one that is there twice is in the set twice."""
    seconds: PositiveAmount
    halves: Halves
    """Medians of either half of the rounds: how far they differ is the noise."""
    spread: Amount | None = None
    """Between the quartiles of its rounds, as a fraction of the median; None where it is not known."""


class CostsRecord(Document, frozen=True, kw_only=True):
    """Costs of tables by measurement, which 'place --costs' adds up over what a device holds.

    One who measures on other devices writes the file by hand: of a table that may be cut, an entry for each width.
    """

    device: Annotated[str, Meta(min_length=1, max_length=200)]
    """What they were measured on, in words: a processor and its threads."""
    batch_size: PositiveCount
    """Samples of all devices together: a device looks its tables up for all of them."""
    tables: Annotated[tuple[CostedTable, ...], Meta(min_length=1, max_length=100_000)]
    sets: Annotated[tuple[CostedSet, ...], Meta(max_length=MAX_SETS)] = ()
    """Sets of these tables, with what they take together; a cost net learns from them."""
    preflight: tuple[PreflightCheck, ...] = ()
    """The environment check before."""
    loads: tuple[LoadRecord, ...] = ()
    """What else the system did meanwhile."""

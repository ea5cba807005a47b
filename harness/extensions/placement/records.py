"""costs.json: what tables cost where they were measured, for plans that are made elsewhere."""

from typing import Annotated, Literal

from msgspec import Meta

from rules.records.codec import Amount, Document, PositiveAmount, PositiveCount, Record, Share
from rules.records.kept.placement import NUM_REUSE_BINS
from rules.records.load import LoadRecord
from rules.records.run_set import PreflightCheck


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


class CostsRecord(Document, frozen=True, kw_only=True):
    """Costs of tables by measurement, which 'place --costs' adds up over what a device holds.

    One who measures on other devices writes the file by hand: of a table that may be cut, an entry for each width.
    """

    device: Annotated[str, Meta(min_length=1, max_length=200)]
    """What they were measured on, in words: a processor and its threads."""
    batch_size: PositiveCount
    """Samples of all devices together: a device looks its tables up for all of them."""
    tables: Annotated[tuple[CostedTable, ...], Meta(min_length=1, max_length=100_000)]
    preflight: tuple[PreflightCheck, ...] = ()
    """The environment check before."""
    loads: tuple[LoadRecord, ...] = ()
    """What else the system did meanwhile."""

"""Represent access traces: the lookups of all embedding tables, as FBGEMM's TBE (table-batched embeddings) takes
them, and their order."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reference_models.data.table_file import Side
from reference_models.process.errors import DatasetError

CHUNK = 1 << 18
"""Number of a trace's row accesses that are processed at a time."""
MAX_ROWS = 1 << 40
"""Maximum number of rows of all of a trace's tables together; rows are numbered consecutively through all tables."""
NUM_REUSE_BINS = 17
"""Number of bins of a reuse histogram: for rows accessed once, up to 2, 4, ... 2^15 times, and more often, as in
facebookresearch/dlrm_datasets."""
Ids = NDArray[np.int64]


class Accesses(NamedTuple):
    """Row accesses of a trace in order: sample by sample, and table by table in each sample."""

    keys: Ids
    """Key of each accessed row [accesses]: its row number plus the numbers of rows of all tables before its own."""
    tables: Ids
    """Number, from 0, of the table of each row access [accesses]."""
    samples: Ids
    """Number, from 0, of the sample of each row access [accesses]."""


class TracedTable(NamedTuple):
    """Embedding table of an access trace: its name, its row size, and whether it is looked up for the user or for
    each item."""

    name: str
    row_bytes: int | None = None
    """Bytes of a row of the embedding table as stored; None where unknown."""
    side: Side | None = None
    """Whether a query looks the table up once, for its user (`user`), or for each item that it ranks (`item`); None
    where unknown."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AccessTrace:
    """Lookups of T embedding tables in B bags each; bag b of every table belongs to sample b."""

    num_rows: tuple[int, ...]
    num_bags: int
    indices: Ids
    """Row of each lookup: those in table 0, bag by bag, then those in table 1, and so on [lookups]."""
    offsets: Ids
    """Start of each bag in `indices`, and the end of the last bag [T * B + 1]."""
    are_rows_least: bool = False
    """True if `num_rows` are lower bounds, such as the highest row looked up in each table plus one."""
    tables: tuple[TracedTable, ...] = ()
    """Names and row sizes of the T embedding tables, and whether each is looked up for the user or for each item;
    empty where unknown."""
    samples_per_query: int = 1
    """Number of samples of one query: the items ranked for one user."""

    @property
    def first_keys(self) -> Ids:
        """Return the key (row number through all tables) of row 0 of each table, and the last key plus one: int64
        [T + 1]."""
        return np.concatenate(([0], np.cumsum(self.num_rows, dtype=np.int64)))

    @property
    def num_queries(self) -> int:
        """Return the trace's number of queries, each of `samples_per_query` samples."""
        return self.num_bags // self.samples_per_query

    @property
    def names(self) -> tuple[str, ...]:
        """Return the name of each table [T], its number where it has no name."""
        return tuple(table.name for table in self.tables) or tuple(map(str, range(len(self.num_rows))))

    @property
    def row_bytes(self) -> tuple[int, ...]:
        """Return the bytes of a row of each table [T]; empty where any table's row size is unknown."""
        sizes = [table.row_bytes for table in self.tables if table.row_bytes is not None]
        return tuple(sizes) if len(sizes) == len(self.num_rows) else ()

    @property
    def unit_bytes(self) -> int | None:
        """Return the bytes of the unit in which cache sizes are counted: the greatest common divisor of the tables'
        row sizes; None where row sizes are unknown."""
        return math.gcd(*self.row_bytes) if self.row_bytes else None

    @property
    def row_units(self) -> tuple[int, ...]:
        """Return the size of a row of each table in units of `unit_bytes` [T]: 1 where all rows are of one size, or
        of unknown size."""
        unit = self.unit_bytes
        return (1,) * len(self.num_rows) if unit is None else tuple(size // unit for size in self.row_bytes)

    @property
    def num_units(self) -> int:
        """Return the size of all rows of all tables together, in units of `unit_bytes`."""
        return sum(rows * units for rows, units in zip(self.num_rows, self.row_units, strict=True))

    def units_of(self, keys: Ids) -> Ids:
        """Return the size of each row in `keys`, in units of `unit_bytes`. Keys number the rows of all tables
        through."""
        return np.array(self.row_units)[np.searchsorted(self.first_keys, keys, side="right") - 1]

    def with_queries(self, samples_per_query: int) -> "AccessTrace":
        """Return the trace grouped into queries of `samples_per_query` samples. Tables that are looked up for the
        user are looked up only by a query's first sample: the lookups of the query's other samples are left out.

        Samples at the end that do not fill a query are left out. Raises ValueError if the trace has no whole query.
        """
        num_bags = self.num_bags // samples_per_query * samples_per_query
        if not num_bags:
            raise ValueError(f"{self.num_bags} samples are less than one query of {samples_per_query}")
        lengths = np.diff(self.offsets).reshape(len(self.num_rows), self.num_bags)
        is_kept = np.zeros(lengths.shape, dtype=bool)
        for table in range(len(self.num_rows)):
            is_user = bool(self.tables) and self.tables[table].side == "user"
            is_kept[table, : num_bags : samples_per_query if is_user else 1] = True
        kept = np.where(is_kept, lengths, 0)[:, :num_bags]
        return replace(
            self,
            num_bags=num_bags,
            indices=self.indices[np.repeat(is_kept.reshape(-1), lengths.reshape(-1))],
            offsets=np.concatenate(([0], np.cumsum(kept))).astype(np.int64),
            samples_per_query=samples_per_query,
        )

    def rows_of(self, table: int) -> Ids:
        """Return the rows that a table's bags look up, in order [lookups of the table]."""
        start, stop = self.offsets[[table * self.num_bags, (table + 1) * self.num_bags]]
        return self.indices[start:stop]

    def check(self, place: str) -> None:
        """Raise DatasetError for a trace with too many rows, with offsets that fall or do not fit the lookups, or
        with a row outside its table."""
        if sum(self.num_rows) > MAX_ROWS:
            raise DatasetError(f"{place}: tables of {sum(self.num_rows):,} rows, expected at most {MAX_ROWS:,}.")
        if (falling := np.flatnonzero(np.diff(self.offsets) < 0)).size:
            table, bag = divmod(int(falling[0]), self.num_bags)
            raise DatasetError(
                f"{place}: table {table}, bag {bag}: its offsets fall, expected each at least the last."
            )
        first, last = self.offsets[[0, -1]]
        if (first, last) != (0, len(self.indices)):
            raise DatasetError(f"{place}: offsets from {first} to {last}, expected 0 to {len(self.indices)}.")
        for table, num_rows in enumerate(self.num_rows):
            rows = self.rows_of(table)
            if (outside := np.flatnonzero((rows < 0) | (rows >= num_rows))).size:
                at = int(outside[0])
                raise DatasetError(
                    f"{place}: table {table}, lookup {at}: row {rows[at]} is outside its {num_rows:,} rows."
                )

    def in_order(self) -> Iterator[Accesses]:
        """Yield the trace's row accesses in order, in pieces of whole samples with about CHUNK accesses each."""
        lengths = np.diff(self.offsets).reshape(len(self.num_rows), self.num_bags)
        step = max(1, CHUNK * self.num_bags // max(1, len(self.indices)))
        for start in range(0, self.num_bags, step):
            part, firsts = lengths[:, start : start + step], self.offsets[start :: self.num_bags]
            of_tables = part.sum(axis=1)
            keys = np.concatenate(
                [
                    self.indices[first : first + number] + key
                    for first, number, key in zip(firsts, of_tables, self.first_keys, strict=False)
                ]
            )
            samples = np.concatenate([np.repeat(np.arange(start, start + part.shape[1]), each) for each in part])
            order = np.argsort(samples, kind="stable")
            tables = np.repeat(np.arange(len(of_tables)), of_tables)
            yield Accesses(keys[order], tables[order], samples[order])


def reuse_histogram(rows: Ids) -> tuple[int, ...]:
    """Return the number of rows that were accessed once, twice, up to 4, 8, ... times, in NUM_REUSE_BINS bins."""
    counts = np.unique(rows, return_counts=True)[1]
    bins = np.minimum(np.ceil(np.log2(counts)).astype(np.int64), NUM_REUSE_BINS - 1)
    return tuple(np.bincount(bins, minlength=NUM_REUSE_BINS).tolist())

"""Describe the inputs of a study of memories slower than DRAM, and simulate one such memory behind one row cache in
DRAM."""

from dataclasses import dataclass, replace
from typing import NamedTuple

from msgspec.structs import replace as change

from harness.extensions.memory.caches import Cache
from harness.extensions.memory.fleet import Fleet
from harness.extensions.memory.policies import LRU, POLICIES
from harness.extensions.memory.pooling import Placement, Pool, RemoteReads, Resource, Waits, busiest, simulate_waits
from harness.extensions.memory.tier import Tier
from reference_models.data.table_file import Side
from reference_models.process.errors import ConfigError
from reports.text.formatting import percent
from rules.records.study import Cell

Row = tuple[Cell, ...]
_LEAST_TIMES = 10
"""Smallest load of a device or link (time that queries need, divided by the time there is) that is printed as a
multiple, such as '12 times the time there is'. Smaller loads are printed in per cent."""
_MOST_ROW_BYTES = 1 << 30
"""Maximum bytes of an embedding row, so that the bytes of all queries of a simulation add up within 64 bits."""


def say_rate(rate: float) -> str:
    """Return a rate in queries per second in digits, such as '10,000,000' or '0.5'."""
    return f"{rate:,.15g}"


def say_busy(name: str, load: float) -> str:
    """Say how busy a device or link is at a `load`: in per cent of the time, or from 10 on as a multiple of the
    time."""
    return (
        f"{name} {percent(load)} of the time"
        if load < _LEAST_TIMES
        else f"{name} {load:,.0f} times the time there is"
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class TierQuestion:
    """Inputs of a study of memories below DRAM: memories, row caches, query rate, and where embedding rows are added
    up."""

    tiers: dict[str, Tier]
    row_bytes: int
    """Bytes of an embedding row. If tables differ in row size, the bytes of the unit in which the trace counts
    sizes."""
    caches: tuple[float | None, ...]
    """Sizes of row caches in DRAM, as shares of the rows of the tables below DRAM; None is no cache."""
    rate: float | None
    """Queries per second; None to simulate queries so far apart that none waits for another."""
    num_devices: int
    pools: tuple[Pool, ...]
    placement: Placement
    local_bytes: int
    """Bytes of DRAM for embedding rows that stay in DRAM, in addition to the row cache."""
    side: Side | None = None
    """Side of a query, user or item, whose embedding tables are the only ones in slower memory; None where all tables
    are in slower memory."""
    fit_bytes: int | None
    """Bytes of cache memory to divide among the tables; None where no such division is asked for."""
    hit_rate: float | None
    """Hit rate for which the smallest LRU cache is to be found; None where that is not asked for."""
    warm_up: float | None = None
    """Share of the trace that fills caches and is not counted. None stands for as large a share as it takes until the
    miss ratio is steady."""
    fleet: Fleet | None = None
    policies: tuple[str, ...] = (LRU,)
    """Replacement policies of the row caches to simulate, keys of POLICIES, such as 'lru'."""
    seed: int

    @property
    def is_of_lru(self) -> bool:
        """Return whether all row caches are LRU, so that their misses are computed from stack distances."""
        return self.policies == (LRU,)

    def __post_init__(self) -> None:
        """Raise ConfigError for rows of too many bytes, and for a `hit_rate` with a cache policy other than LRU."""
        if self.hit_rate is not None and not self.is_of_lru:
            raise ConfigError(
                "--hit-rate finds the smallest LRU cache, by its stack distances. Leave --policy out, or give "
                "--cache sizes."
            )
        if self.row_bytes > _MOST_ROW_BYTES:
            raise ConfigError(f"--row-size: rows of {self.row_bytes:,} bytes, expected at most {_MOST_ROW_BYTES:,}.")


@dataclass(frozen=True, kw_only=True, slots=True)
class Setup:
    """One slower memory that holds embedding rows, behind one row cache in DRAM, with the reads that miss the
    cache."""

    question: TierQuestion
    name: str
    tier: Tier
    cache: Cache
    reads: RemoteReads
    miss_ratio: float
    """Share of the lookups after the warm-up that miss the row cache."""
    from_empty: float
    """Share of all lookups of the trace that miss the row cache, which is empty at first."""
    cold_ratio: float | None
    """Share of lookups after the warm-up that look up a row for the first time in the trace; None where there is no
    cache."""
    granule_share_bytes: int | None = None
    """Mean bytes of embedding rows in one read of the device's smallest size (granule), if rows differ in size; None
    otherwise."""

    @property
    def row_bytes(self) -> int:
        """Return the bytes of an embedding row. If tables differ in row size, return the mean bytes of rows that one
        read of the device's smallest size (granule) brings."""
        return self.question.row_bytes if self.granule_share_bytes is None else self.granule_share_bytes

    @property
    def policy(self) -> tuple[str | None, ...]:
        """Return the table cell with the replacement policy of the row cache (None without a cache); no cell where
        all caches are LRU."""
        title = POLICIES[self.cache.policy].title if self.cache.words else None
        return () if self.question.is_of_lru else (title,)

    @property
    def label(self) -> str:
        """Return the name of the memory and its row cache, such as 'nand with a cache of 20 % of the rows'."""
        return f"{self.name} with {self.cache.phrase}" if self.cache.words else self.name

    def busiest(self, pool: Pool) -> Resource:
        """Return the bottleneck: the device or link that a query occupies longest on average, if `pool` (host, device
        or switch) adds embedding rows up."""
        return busiest(self.reads, self.tier, pool, self.row_bytes)

    @property
    def limit(self) -> Resource | None:
        """Return the bottleneck of queries: the device or link that limits their rate. Rows are summed in the place
        (host, device or switch) that allows the highest rate. None if no row is outside DRAM."""
        found = [each for pool in self.question.pools if (each := self.busiest(pool)).busy_s]
        return min(found, key=lambda each: each.busy_s, default=None)

    def load(self, pool: Pool) -> float:
        """Return the load (busy share of the time) of the busiest device or link at the query rate of the study: 1 at
        the highest possible rate."""
        return self.busiest(pool).busy_s * (self.question.rate or 0.0)

    def waits(self, pool: Pool) -> Waits:
        """Simulate the latency added to queries, in the steady state, where `pool` (host, device or switch) adds
        embedding rows up."""
        asked = self.question
        found = simulate_waits(self.reads, self.tier, pool, self.row_bytes, rate=asked.rate, seed=asked.seed)
        most = self.busiest(pool)
        return found if asked.rate is None or not most.busy_s else found.steady(most, asked.rate)

    def speed_up(self, pool: Pool, over: Pool = "host") -> float | None:
        """Return how many times faster queries are if `pool` instead of `over` adds embedding rows up; both are one
        of host, device and switch. The speed-up is the ratio of the mean latencies added to a query. None if either
        cannot answer the query rate, or if `pool` adds no latency."""
        if max(self.load(over), self.load(pool)) >= 1:
            return None
        slower, faster = (float(self.waits(each).total.mean()) for each in (over, pool))
        return slower / faster if faster else None

    def changed(self, **values: float | None) -> "Setup":
        """Return this memory and row cache with new values for some of the memory's numbers, given by name. A value
        of None leaves the number unchanged. Changed latencies have no tail."""
        given = {name: value for name, value in values.items() if value is not None}
        own = {name: getattr(self.tier, name) or self.tier.link_bytes_per_s for name in given}
        others = {name: change(own[name], value=value, tail=(), deeper=()) for name, value in given.items()}
        return replace(self, tier=change(self.tier, **others))


class PoolResult(NamedTuple):
    """Result for one memory, one row cache, and one place where rows are summed (host, device or switch): the
    simulated latency, or that the query rate is impossible."""

    setup: Setup
    pool: Pool
    row: Row
    finding: str
    """Sentence that states the simulated latency, or that the query rate is impossible."""
    wait_s: float | None
    """Mean latency added to a query, in seconds; None where the query rate is impossible."""
    gain: float | None
    """Speed-up over summing rows in the host. None for the host itself, and if the query rate is impossible here or
    in the host."""
    gains: tuple[float, float] | None
    """Smallest and largest speed-up over rows summed by the host, within the ranges of the memory's numbers; None
    where there is no speed-up."""

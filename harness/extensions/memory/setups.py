"""Inputs of a study of memories below DRAM, and the simulation of one memory below one cache."""

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
"""Loads from this on are printed as multiples, not in per cent."""
_MOST_ROW_BYTES = 1 << 30
"""Most bytes of a row: bytes of a simulation's queries must add up within 64 bits."""


def say_rate(rate: float) -> str:
    """Return a rate in queries per second in digits, such as '10,000,000' or '0.5'."""
    return f"{rate:,.15g}"


def say_busy(name: str, load: float) -> str:
    """Say how busy a resource would be at a `load`: in per cent of the time, or as a multiple of it."""
    return (
        f"{name} {percent(load)} of the time"
        if load < _LEAST_TIMES
        else f"{name} {load:,.0f} times the time there is"
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class TierQuestion:
    """Inputs of a study of tiers: memories, caches, rate, and who adds rows up."""

    tiers: dict[str, Tier]
    row_bytes: int
    """Bytes of a row; of the trace's unit where rows differ in size."""
    caches: tuple[float | None, ...]
    """Sizes of caches in DRAM, as shares of the rows of the tables below DRAM; None is no cache."""
    rate: float | None
    """Queries per second; None where no query meets another."""
    num_devices: int
    pools: tuple[Pool, ...]
    placement: Placement
    local_bytes: int
    """DRAM for rows that stay in DRAM, in bytes, beside the cache."""
    side: Side | None = None
    """Side whose tables alone are below DRAM; None where all tables are."""
    fit_bytes: int | None
    """Cache memory to divide among the tables; None where that is not asked for."""
    hit_rate: float | None
    """Hit rate of the smallest cache to find; None where that is not asked for."""
    warm_up: float | None = None
    """Share of the trace that fills caches and is not counted; None: until the miss ratio is steady."""
    fleet: Fleet | None = None
    policies: tuple[str, ...] = (LRU,)
    """Replacement policies of the caches, keys of POLICIES."""
    seed: int

    @property
    def is_of_lru(self) -> bool:
        """Return whether all caches are LRU, so that misses are computed from stack distances."""
        return self.policies == (LRU,)

    def __post_init__(self) -> None:
        """Raise ConfigError for rows that are too large, and for `hit_rate` with another policy than LRU."""
        if self.hit_rate is not None and not self.is_of_lru:
            raise ConfigError(
                "--hit-rate finds the smallest LRU cache, by its stack distances. Leave --policy out, or give "
                "--cache sizes."
            )
        if self.row_bytes > _MOST_ROW_BYTES:
            raise ConfigError(f"--row-size: rows of {self.row_bytes:,} bytes, expected at most {_MOST_ROW_BYTES:,}.")


@dataclass(frozen=True, kw_only=True, slots=True)
class Setup:
    """One tier below one row cache, with the reads that miss the cache."""

    question: TierQuestion
    name: str
    tier: Tier
    cache: Cache
    reads: RemoteReads
    miss_ratio: float
    """Miss ratio after the warm-up."""
    from_empty: float
    """Miss ratio of the whole trace, with a cache that is empty at first."""
    cold_ratio: float | None
    """Share of lookups after the warm-up that are a row's first; None where there is no cache."""
    granule_share_bytes: int | None = None
    """Mean bytes of rows in a granule read, where rows differ in size and `reads` count granules; None elsewhere."""

    @property
    def row_bytes(self) -> int:
        """Return the bytes of rows that one of `reads` brings."""
        return self.question.row_bytes if self.granule_share_bytes is None else self.granule_share_bytes

    @property
    def policy(self) -> tuple[str | None, ...]:
        """Return the table cell of the cache's policy (None without a cache); no cell where all caches are LRU."""
        title = POLICIES[self.cache.policy].title if self.cache.words else None
        return () if self.question.is_of_lru else (title,)

    @property
    def label(self) -> str:
        """Return the name of the tier and its cache, such as 'nand, cache of 20 %'."""
        return f"{self.name}, {self.cache.words}" if self.cache.words else self.name

    def busiest(self, pool: Pool) -> Resource:
        """Return the resource that a query occupies longest on average."""
        return busiest(self.reads, self.tier, pool, self.row_bytes)

    @property
    def limit(self) -> Resource | None:
        """Return the resource that limits the rate with the fastest pool; None where nothing is read."""
        found = [each for pool in self.question.pools if (each := self.busiest(pool)).busy_s]
        return min(found, key=lambda each: each.busy_s, default=None)

    def load(self, pool: Pool) -> float:
        """Return the load of the busiest device or link at the asked rate, 1 at its limit."""
        return self.busiest(pool).busy_s * (self.question.rate or 0.0)

    def waits(self, pool: Pool) -> Waits:
        """Simulate the latency added to queries in the steady state."""
        asked = self.question
        found = simulate_waits(self.reads, self.tier, pool, self.row_bytes, rate=asked.rate, seed=asked.seed)
        most = self.busiest(pool)
        return found if asked.rate is None or not most.busy_s else found.steady(most, asked.rate)

    def speed_up(self, pool: Pool, over: Pool = "host") -> float | None:
        """Return the mean latency added by `over` divided by that of `pool`; None where one is impossible, or 0."""
        if max(self.load(over), self.load(pool)) >= 1:
            return None
        slower, faster = (float(self.waits(each).total.mean()) for each in (over, pool))
        return slower / faster if faster else None

    def changed(self, **values: float | None) -> "Setup":
        """Return a setup with other values of the tier's numbers, without tails; None leaves a number as it is."""
        given = {name: value for name, value in values.items() if value is not None}
        own = {name: getattr(self.tier, name) or self.tier.link_bytes_per_s for name in given}
        others = {name: change(own[name], value=value, tail=(), deeper=()) for name, value in given.items()}
        return replace(self, tier=change(self.tier, **others))


class PoolResult(NamedTuple):
    """Result of one setup and pool: the simulated latency, or that the rate is impossible."""

    setup: Setup
    pool: Pool
    row: Row
    finding: str
    """Sentence that says the result."""
    wait_s: float | None
    """Mean latency added to a query, in seconds; None where the rate is impossible."""
    gain: float | None
    """Speed-up over rows added up by the host; None for the host itself, and where either is impossible."""
    gains: tuple[float, float] | None
    """Smallest and largest speed-up over the ranges of the tier's numbers; None where there is no speed-up."""

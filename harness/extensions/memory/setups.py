"""The question about memories below DRAM, and one of them below one cache: what it reads, and how long that takes."""

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
"""Loads of so much are said as times, not in per cent."""
_MOST_ROW_BYTES = 1 << 30
"""Reads of all queries of a simulation are counted as whole numbers of 64 bits."""


def say_rate(rate: float) -> str:
    """Return a rate in queries a second as it was given, in digits: '10,000,000', '0.5'."""
    return f"{rate:,.15g}"


def say_busy(name: str, load: float) -> str:
    """Say how much of the time a resource would be taken at a `load` of it: in per cent, or how many times it."""
    return (
        f"{name} {percent(load)} of the time"
        if load < _LEAST_TIMES
        else f"{name} {load:,.0f} times the time there is"
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class TierQuestion:
    """The question that is asked of a trace."""

    tiers: dict[str, Tier]
    row_bytes: int
    """Bytes of a row, or of the trace's unit where rows differ in size."""
    caches: tuple[float | None, ...]
    """Shares of the rows of tables below DRAM in a cache in DRAM; None: no cache."""
    rate: float | None
    """Queries a second; None: none waits for another."""
    num_devices: int
    pools: tuple[Pool, ...]
    placement: Placement
    local_bytes: int
    """DRAM for rows that stay in it."""
    side: Side | None = None
    """Tables that are below DRAM: those of one side, all others in it; None: all."""
    fit_bytes: int | None
    hit_rate: float | None
    warm_up: float | None = None
    """Share of the trace that fills caches and is not counted; None: up to where the miss ratio is flat."""
    fleet: Fleet | None = None
    policies: tuple[str, ...] = (LRU,)
    """Which rows caches give up, by names in POLICIES; each is simulated."""
    seed: int

    @property
    def is_of_lru(self) -> bool:
        """Return whether all caches are LRU, whose misses are computed from stack distances."""
        return self.policies == (LRU,)

    def __post_init__(self) -> None:
        """Raise ConfigError of rows that are too large, and of a smallest cache that is to be found but for LRU."""
        if self.hit_rate is not None and not self.is_of_lru:
            raise ConfigError(
                "--hit-rate finds the smallest LRU cache, by its stack distances. Leave --policy out, or give "
                "--cache sizes."
            )
        if self.row_bytes > _MOST_ROW_BYTES:
            raise ConfigError(f"--row-size: rows of {self.row_bytes:,} bytes, expected at most {_MOST_ROW_BYTES:,}.")


@dataclass(frozen=True, kw_only=True, slots=True)
class Setup:
    """A tier below a row cache, and what the cache leaves to be read from it."""

    question: TierQuestion
    name: str
    tier: Tier
    cache: Cache
    reads: RemoteReads
    miss_ratio: float
    from_empty: float
    """Miss ratio of the whole trace, of a cache that is empty at first."""
    cold_ratio: float | None
    granule_share_bytes: int | None = None
    """Where rows differ in size, and `reads` are of granules: bytes of rows in each that is read, on average."""

    @property
    def row_bytes(self) -> int:
        """Return the bytes of rows that each of `reads` brings."""
        return self.question.row_bytes if self.granule_share_bytes is None else self.granule_share_bytes

    @property
    def policy(self) -> tuple[str | None, ...]:
        """Return the cell of the cache's policy, None without a cache; none where all caches are LRU."""
        title = POLICIES[self.cache.policy].title if self.cache.words else None
        return () if self.question.is_of_lru else (title,)

    @property
    def label(self) -> str:
        """Name the tier and its cache: 'nand, cache of 20 %'."""
        return f"{self.name}, {self.cache.words}" if self.cache.words else self.name

    def busiest(self, pool: Pool) -> Resource:
        """Return what a query occupies longest on average."""
        return busiest(self.reads, self.tier, pool, self.row_bytes)

    @property
    def limit(self) -> Resource | None:
        """Return what limits the rate with the pool that answers most; None where nothing is read."""
        found = [each for pool in self.question.pools if (each := self.busiest(pool)).busy_s]
        return min(found, key=lambda each: each.busy_s, default=None)

    def load(self, pool: Pool) -> float:
        """Return the share of the time that the busiest of devices and links would be busy."""
        return self.busiest(pool).busy_s * (self.question.rate or 0.0)

    def waits(self, pool: Pool) -> Waits:
        """Simulate what queries wait, of as many as stand for the long run."""
        asked = self.question
        found = simulate_waits(self.reads, self.tier, pool, self.row_bytes, rate=asked.rate, seed=asked.seed)
        most = self.busiest(pool)
        return found if asked.rate is None or not most.busy_s else found.steady(most, asked.rate)

    def speed_up(self, pool: Pool, over: Pool = "host") -> float | None:
        """Return the mean that pooling by `over` adds over what `pool` adds; None where one is impossible, or 0."""
        if max(self.load(over), self.load(pool)) >= 1:
            return None
        slower, faster = (float(self.waits(each).total.mean()) for each in (over, pool))
        return slower / faster if faster else None

    def changed(self, **values: float | None) -> "Setup":
        """Return the same with other values of the tier's numbers, without a tail; None leaves one as it is."""
        given = {name: value for name, value in values.items() if value is not None}
        own = {name: getattr(self.tier, name) or self.tier.link_bytes_per_s for name in given}
        others = {name: change(own[name], value=value, tail=(), deeper=()) for name, value in given.items()}
        return replace(self, tier=change(self.tier, **others))


class PoolResult(NamedTuple):
    """The simulation of one pool, or that its rate is impossible."""

    setup: Setup
    pool: Pool
    row: Row
    finding: str
    wait_s: float | None
    gain: float | None
    """Over pooling by the host."""
    gains: tuple[float, float] | None
    """The least and the most over the ranges of the tier's numbers."""

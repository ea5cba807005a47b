"""`tiers`: what a memory slower than DRAM below a row cache costs in reads, bytes and latency: simulated."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from msgspec.structs import replace as change
from numpy.typing import NDArray
from scipy.optimize import brentq

from harness.extensions.memory.caches import count_misses, find_size, fit_caches
from harness.extensions.memory.pooling import (
    Ids,
    Placement,
    Pool,
    RemoteReads,
    Waits,
    count_reads,
    link_bytes,
    place_rows,
    service_s,
    simulate_waits,
)
from harness.extensions.memory.tier import Tier, list_parameters
from harness.extensions.memory.trace import merged_curve, read_trace, say_cold, table_curve
from harness.foundation.errors import HarnessError
from harness.foundation.study import Columns, make_study, make_table
from harness.foundation.virtual_clock import percentile_of
from reference_models.data.traces.stack_distances import StackDistances
from reference_models.data.traces.trace import AccessTrace
from reports.text.formatting import duration, num_bytes, percent
from rules.benchmarks.loader import Benchmark
from rules.records.study import Cell, Parameter, StudyRecord, StudyTable

_SPEEDUP = 3.89
PUBLISHED_SPEEDUP, PUBLISHED_POWER = f"{_SPEEDUP}x, other traces", "5 % to 29 %, other models"
"""PIFS-Rec's abstract, switch pooling over pooling at the host (Pond); and that of software-defined memory (2021)."""
_SOLVED = {
    "read_latency_s": ("Read latency", "s"),
    "host_reads_in_flight": ("Reads in flight of the host", None),
    "pool_reads_in_flight": ("Reads in flight of the pool", None),
    "link_bytes_per_s": ("Link", "B/s"),
}
RATES = "Other rates: what a query waits for at them"
_LOADS = (0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95)
"""Loads of the busiest device at which a query's wait is simulated."""
_RATES: Columns = (
    ("Tier", None, "given"),
    ("Cache", "share", "given"),
    ("Pool", None, "given"),
    ("Queries/s", "queries/s", "computed"),
    ("Load", "share", "given"),
    ("Mean added", "s", "simulated"),
    ("p99 added", "s", "simulated"),
)

Row = tuple[Cell, ...]
_ALONE = " when no query waits for another"
_OF_ROWS = "by --row-size, else by the definition that was traced"


@dataclass(frozen=True, kw_only=True, slots=True)
class TierQuestion:
    """What is asked of a trace."""

    tiers: dict[str, Tier]
    row_bytes: int
    caches: tuple[float | None, ...]
    """Shares of all rows in an LRU cache in DRAM; None: no cache."""
    rate: float | None
    """Queries a second; None: none waits for another."""
    num_devices: int
    pools: tuple[Pool, ...]
    placement: Placement
    local_bytes: int
    """DRAM for rows that stay in it."""
    fit_bytes: int | None
    hit_rate: float | None
    fleet: tuple[int, float, int, float] | None
    """Hosts and watts of each, with all rows in DRAM, and with the tier; None where they are not given."""
    seed: int


class _Cache(NamedTuple):
    """An LRU cache of the rows of all tables, or one of each table that share its rows."""

    num_rows: int
    share: float | None
    """Its size, as a share of all rows; None without one."""
    words: str = ""
    """What to call it beside the tier; empty without one."""
    of_tables: tuple[int, ...] | None = None
    """Rows of the cache of each table; None of one cache of all."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Setup:
    """A tier below a row cache, and what the cache leaves to be read from it."""

    question: TierQuestion
    name: str
    tier: Tier
    cache: _Cache
    reads: RemoteReads
    miss_ratio: float
    cold_ratio: float | None

    @property
    def label(self) -> str:
        """Name the tier and its cache: 'nand, cache of 20 %'."""
        return f"{self.name}, {self.cache.words}" if self.cache.words else self.name

    def busy(self, pool: Pool) -> float:
        """Return the share of the time that the busiest device would be busy."""
        return self.busy_s(pool) * (self.question.rate or 0.0)

    def busy_s(self, pool: Pool) -> float:
        """Return how long a query occupies the busiest device, on average, in seconds."""
        return float(service_s(self.reads, self.tier, pool, self.question.row_bytes).mean(axis=0).max())

    def waits(self, pool: Pool) -> Waits:
        asked = self.question
        return simulate_waits(self.reads, self.tier, pool, asked.row_bytes, rate=asked.rate, seed=asked.seed)

    def speed_up(self, pool: Pool) -> float | None:
        """Return the mean that pooling by the host adds over what `pool` adds; None where one is impossible, or 0."""
        if max(self.busy("host"), self.busy(pool)) >= 1:
            return None
        host, other = (float(self.waits(each).total.mean()) for each in ("host", pool))
        return host / other if other else None

    def changed(self, **values: float | None) -> "_Setup":
        """Return the same with other values of the tier's numbers, without a tail; None leaves one as it is."""
        given = {name: value for name, value in values.items() if value is not None}
        others = {name: change(getattr(self.tier, name), value=value, tail=()) for name, value in given.items()}
        return replace(self, tier=change(self.tier, **others))


def tiers_study(trace: AccessTrace, question: TierQuestion, benchmark: Benchmark | None, place: str) -> StudyRecord:
    """Simulate what the rows of a trace cost where they are not in DRAM: one row per tier, cache and pool."""
    caches, fitted, answers = _choose_caches(trace, question)
    setups = [
        _Setup(question=question, name=name, tier=tier, **cache)
        for (name, tier), cache in product(question.tiers.items(), list(_apply_caches(trace, question, caches)))
    ]
    said = [_say_wait(setup, pool) for setup, pool in product(setups, question.pools)]
    tables = [
        make_table("What has to be read from the tier", _NEEDS, map(_say_need, setups)),
        make_table("What a query waits for", _WAITS, [row for row, _ in said]),
    ]
    tables += [] if question.rate is None else [_vary_rate(setups)]
    findings = [*answers, *(finding for _, finding in said)]
    if short := _say_cold(setups, len(trace.indices)):
        findings.insert(len(answers) or 1, short)
    if not any(setup.reads.rows.any() for setup in setups):
        findings.insert(0, "Nothing is remote: local memory and cache hold every row.")
    elif {"host", "switch"} <= {*question.pools}:
        tables.append(_solve([setup for setup in setups if setup.cache == caches[0]]))
        findings.append(f"Published for pooling in the switch over pooling at the host: {PUBLISHED_SPEEDUP}.")
    tables += [*fitted, *([] if question.fleet is None else [_compare_fleets(*question.fleet)])]
    title = f"{place}: {_answer(setups, answers, said)}"
    parameters = _list_parameters(trace, question, place)
    return make_study(
        "tiers", title, benchmark, seed=question.seed, tables=tables, parameters=parameters, findings=findings
    )


def read_traced(folder: Path, benchmark: Benchmark | None, row_bytes: int | None) -> tuple[AccessTrace, int, str]:
    """Read a trace, the bytes of its rows where they are not given, and what was traced.

    Raises HarnessError where it is of another definition or no row size is known (exit 2), and as `read_trace`.
    """
    manifest, trace = read_trace(folder)
    if benchmark is not None and manifest.definition_sha256 not in (None, benchmark.definition_sha256):
        raise HarnessError(
            f"{folder}: a trace of another definition ({manifest.benchmark}, {str(manifest.definition_sha256)[:12]}) "
            f"than {benchmark.name} ({benchmark.definition_sha256[:12]}). Trace that, or leave it out."
        )
    if (found := row_bytes or manifest.row_bytes) is None:
        raise HarnessError(f"{folder}: a trace of a file, which does not say how large rows are. Give --row-size.")
    return trace, found, manifest.source


def _choose_caches(
    trace: AccessTrace, question: TierQuestion
) -> tuple[tuple[_Cache, ...], tuple[StudyTable, ...], list[str]]:
    """Return the caches that are simulated, first those that are to be found, with their tables and findings."""
    num_rows, found, tables, findings = sum(trace.num_rows), list[_Cache](), list[StudyTable](), list[str]()
    if (hit_rate := question.hit_rate) is not None:
        table, size, most = _find_size(trace, question, hit_rate)
        tables.append(table)
        cache = num_rows if size is None else size
        share, memory = percent(cache / num_rows), num_bytes(cache * question.row_bytes)
        words = f"cache of {share}, which hits {percent(hit_rate if size is not None else most)}"
        found.append(_Cache(cache, cache / num_rows, words))
        smallest = f"{share} of the rows, {memory}, are the smallest LRU cache that hits {percent(hit_rate)}"
        none = f"no LRU cache hits {percent(hit_rate)}: one of all rows hits {percent(most)}, all but first lookups"
        findings.append(f"{none if size is None else smallest} (computed).")
    if question.fit_bytes is not None:
        table, sizes, (ratio, at_one) = _share_memory(trace, question.fit_bytes // question.row_bytes)
        tables.append(table)
        memory = num_bytes(question.fit_bytes)
        found.append(_Cache(sum(sizes), sum(sizes) / num_rows, f"{memory} shared among the tables", sizes))
        misses = f"{memory} of cache shared among the tables miss {percent(ratio)} of the lookups"
        findings.append(f"{misses}, at one load factor for all {percent(at_one)} (computed).")
    for share_given in question.caches if question.caches != (None,) or not found else ():
        is_none = share_given is None
        size = 0 if share_given is None else max(1, round(share_given * num_rows))
        found.append(_Cache(size, share_given, "" if is_none else f"cache of {percent(share_given)}"))
    return tuple(found), tuple(tables), findings


def _apply_caches(trace: AccessTrace, question: TierQuestion, caches: Sequence[_Cache]) -> Iterator[dict[str, Any]]:
    """Count what each cache leaves to be read; the cache is of rows that are not in local memory."""
    num_rows, num_devices = sum(trace.num_rows), question.num_devices
    keys, tables, samples = (np.concatenate(each) for each in zip(*trace.in_order(), strict=True))
    num_local = min(num_rows, question.local_bytes // question.row_bytes)
    devices = place_rows(keys, num_rows, num_local, num_devices, question.placement)
    is_remote, num_lookups = devices >= 0, len(keys)
    keys, tables, samples, devices = (each[is_remote] for each in (keys, tables, samples, devices))
    is_cached = any(cache.share is not None for cache in caches)
    distances = StackDistances().update(keys, np.ones(len(keys))) if is_cached else np.full(len(keys), np.inf)
    cold_ratio = float(np.isinf(distances).sum()) / num_lookups if is_cached else None
    for cache in caches:
        missed = distances >= cache.num_rows
        if cache.of_tables is not None:
            missed = _miss_apart(keys, tables, cache.of_tables)
        reads = count_reads(
            samples[missed],
            tables[missed],
            devices[missed],
            num_samples=trace.num_bags,
            num_tables=len(trace.num_rows),
            num_devices=num_devices,
        )
        ratio = float(missed.sum()) / num_lookups
        yield {"cache": cache, "reads": reads, "miss_ratio": ratio, "cold_ratio": cold_ratio}


def _miss_apart(keys: Ids, tables: Ids, sizes: Sequence[int]) -> NDArray[np.bool_]:
    """Return which accesses [accesses] miss where each table has an LRU cache of its own, of so many rows."""
    missed = np.ones(len(keys), dtype=bool)
    for table, size in enumerate(sizes):
        is_own = tables == table
        distances = StackDistances().update(keys[is_own], np.ones(int(is_own.sum())))
        missed[is_own] = distances >= size
    return missed


_NEEDS: Columns = (
    ("Tier", None, "given"),
    ("Cache", "share", "given"),
    ("Cache rows", None, "computed"),
    ("Miss ratio", "share", "computed"),
    ("Cold misses", "share", "computed"),
    ("Reads needed", "reads/s", "computed"),
    ("Reads available", "reads/s", "given"),
    ("Load", "share", "computed"),
    ("Highest rate", "queries/s", "computed"),
    ("Read amplification", None, "computed"),
)
_WAITS: Columns = (
    ("Tier", None, "given"), ("Cache", "share", "given"), ("Pool", None, "given"),
    ("Device links", "B", "computed"), ("Host link", "B", "computed"),
    ("Queue", "s", "simulated"), ("Device", "s", "simulated"), ("Link", "s", "simulated"), ("Adds", "s", "simulated"),
    ("Mean added", "s", "simulated"), ("p99 added", "s", "simulated"), ("Speed-up", None, "simulated"),
    ("Speed-up, least", None, "simulated"), ("Speed-up, most", None, "simulated"),
)  # fmt: skip


def _say_need(setup: _Setup) -> Row:
    question, tier = setup.question, setup.tier
    granules, available = tier.granules(question.row_bytes), tier.reads_per_s.value * question.num_devices
    rate = question.rate
    needed = None if rate is None else float(setup.reads.rows.sum(axis=1).mean()) * granules * rate
    load = None if needed is None else needed / available
    amplification = granules * tier.granule_bytes.value / question.row_bytes
    sizes = (setup.name, setup.cache.share, setup.cache.num_rows, setup.miss_ratio, setup.cold_ratio)
    highest = [1 / busy_s for pool in question.pools if (busy_s := setup.busy_s(pool))]
    return (*sizes, needed, available, load, max(highest, default=None), amplification)


def _say_wait(setup: _Setup, pool: Pool) -> tuple[Row, str]:
    """Simulate one pool, or say that the rate is too high for it. Speed-ups are over pooling by the host."""
    tier, question, busy = setup.tier, setup.question, setup.busy(pool)
    sizes = [float(each.sum()) / len(each) for each in link_bytes(setup.reads, tier, pool, question.row_bytes)]
    label, head = f"{setup.label}, pooled by the {pool}", (setup.name, setup.cache.share, pool, *sizes)
    if busy >= 1:
        why = f"impossible, not simulated: reads would take a device {percent(busy)} of the time"
        return (*head, *[None] * (len(_WAITS) - len(head))), f"{label}: {question.rate:g} queries/s are {why}."
    waits = setup.waits(pool)
    parts = [float(part.mean()) for part in (*waits, waits.total)]
    speed_ups: list[float | None] = [None] * 3
    p99, gain = percentile_of(waits.total, 0.99), ""
    if pool != "host" and (speed_up := setup.speed_up(pool)) is not None:
        latency, hop = tier.read_latency_s, tier.switch_latency_s
        ends = [
            setup.changed(read_latency_s=read, switch_latency_s=switch).speed_up(pool)
            for read, switch in ((latency.low, hop.low), (latency.high, hop.high))
        ]
        known = [speed_up, *(each for each in ends if each is not None)]
        speed_ups = [speed_up, min(known), max(known)]
        gain = f", {speed_up:.2f} times as fast as by the host ({min(known):.2f} to {max(known):.2f} over the ranges)"
    alone = _ALONE if question.rate is None else ""
    wait = f"a query waits {duration(parts[-1])} on average, {duration(p99)} at p99{alone}{gain} (simulated)"
    return (*head, *parts, p99, *speed_ups), f"{label}: {wait}."


def _say_cold(setups: Sequence[_Setup], num_lookups: int) -> str:
    """Warn of the caches whose misses are first lookups for the most part; empty where there are none."""
    ratios = {each.cache: each.miss_ratio for each in setups if each.cache.words}
    cold_ratio = setups[0].cold_ratio or 0.0
    cold = [cache for cache, ratio in ratios.items() if cold_ratio > ratio / 2]
    if not cold:
        return ""
    words = " and with ".join("a " * (cache.of_tables is None) + cache.words for cache in cold)
    return say_cold("these misses" if len(cold) == len(ratios) else f"the misses with {words}", num_lookups)


def _vary_rate(setups: Sequence[_Setup]) -> StudyTable:
    """Simulate what a query waits at other rates: at these loads of each tier's busiest device."""
    rows = list[Row]()
    for setup, pool in product(setups, setups[0].question.pools):
        if not (busy_s := setup.busy_s(pool)):
            continue
        for load in _LOADS:
            at = replace(setup, question=replace(setup.question, rate=load / busy_s))
            total = at.waits(pool).total
            head = (setup.name, setup.cache.share, pool, load / busy_s, load)
            rows.append((*head, float(total.mean()), percentile_of(total, 0.99)))
    return make_table(RATES, _RATES, rows)


def _answer(setups: Sequence[_Setup], answers: Sequence[str], said: Sequence[tuple[Row, str]]) -> str:
    """Say in one line what was asked: by how much a pool is faster, which cache it is, or what a query waits."""
    found = "".join(f"{answer.removesuffix(' (computed).')}; " for answer in answers)
    if len(answers) > 1:  # each of two caches has its wait below
        return f"{found.removesuffix('; ')}, computed"
    if not any(setup.reads.rows.any() for setup in setups):
        return f"{found}nothing is remote"
    names = [name for name, *_ in _WAITS]
    speed_up, pool, mean = (names.index(name) for name in ("Speed-up", "Pool", "Mean added"))
    pairs = list(zip(product(setups, setups[0].question.pools), (row for row, _ in said), strict=True))
    faster = [(row[speed_up], setup, row[pool]) for (setup, _), row in pairs if row[speed_up] is not None]
    if faster:
        gain, setup, who = max(faster, key=lambda each: each[0])  # type: ignore[arg-type,return-value]
        times = f"the {who} adds rows up {gain:.1f}x as fast as the host"
        published = f"; published {_SPEEDUP}x on other traces" if who == "switch" else ""
        return f"{found}{setup.label}: {times}, simulated{published}"
    waits = [(row[mean], setup) for (setup, _), row in pairs if row[mean] is not None]
    if not waits:
        return f"{found}no memory of these answers {setups[0].question.rate:g} queries/s, computed"
    wait_s, setup = min(waits, key=lambda each: each[0])  # type: ignore[arg-type,return-value]
    missing = f", which misses {percent(setup.miss_ratio)}," if setup.cache.words and not answers else ""
    least = f" adds least of {len(waits)}: " if len(waits) > 1 else " adds "
    rate = _ALONE if setup.question.rate is None else f" at {setup.question.rate:g} queries/s"
    assert isinstance(wait_s, float)
    where = f"{setup.name} then" if len(answers) == 1 and len(waits) == 1 else setup.label
    return f"{found}{where}{missing}{least}{duration(wait_s)} to a query{rate}, simulated"


def _solve(setups: Sequence[_Setup]) -> StudyTable:
    """Find the value of each number, the others as they are, at which the speed-up would be the published one."""
    rows = list[Row]()
    for setup in setups:
        row: list[Cell] = [setup.name]
        for member in _SOLVED:
            row += _solve_one(setup, member)
        rows.append((*row, PUBLISHED_SPEEDUP))
    columns: Columns = (
        ("Tier", None, "given"),
        *(
            each
            for name, unit in _SOLVED.values()
            for each in ((name, unit, "given"), (f"{name} for {_SPEEDUP}x", unit, "simulated"))
        ),
        ("PIFS-Rec over Pond", None, "published"),
    )
    title = "Where pooling in the switch would gain what was published: one value changed, none waits"
    return make_table(title, columns, rows)


def _solve_one(setup: _Setup, member: str) -> tuple[float, float | None]:
    """Return a number of the tier, and the value at which the speed-up would be the published one; None of none."""
    alone = replace(setup, question=replace(setup.question, rate=None))
    value = float(getattr(setup.tier, member).value)

    def miss(power: float) -> float:
        return (alone.changed(**{member: value * 2.0**power}).speed_up("switch") or 0.0) - _SPEEDUP

    is_crossed = miss(-6.0) * miss(6.0) < 0
    return value, value * 2.0 ** float(brentq(miss, -6.0, 6.0, xtol=1e-3)) if is_crossed else None


def _find_size(trace: AccessTrace, question: TierQuestion, hit_rate: float) -> tuple[StudyTable, int | None, float]:
    """Return the table of the smallest cache that hits so often, its rows, None of none, and the highest hit rate."""
    curve = merged_curve(trace)
    size = find_size(curve, hit_rate)
    sizes = (None,) * 3 if size is None else (size, size / sum(trace.num_rows), size * question.row_bytes)
    columns: Columns = (
        ("Hit rate", "share", "given"),
        ("Cache rows", None, "computed"),
        ("Cache", "share", "computed"),
        ("Memory", "B", "computed"),
        ("Highest hit rate", "share", "computed"),
    )
    most = 1 - curve.num_cold / curve.num_lookups
    title = "The smallest LRU cache of all tables that hits so often"
    return make_table(title, columns, [(hit_rate, *sizes, most)]), size, most


def _share_memory(trace: AccessTrace, max_rows: int) -> tuple[StudyTable, tuple[int, ...], Sequence[float]]:
    """Return the table of each table's cache, their rows, and two miss ratios: theirs, and at one load factor."""
    curves = [table_curve(trace, table) for table in range(len(trace.num_rows))]
    fitted, uniform = fit_caches(curves, trace.num_rows, max_rows)
    columns: Columns = (
        ("Table", None, "given"),
        ("Rows", None, "given"),
        ("Cache rows", None, "computed"),
        ("Miss ratio", "share", "computed"),
        ("Rows at one factor", None, "computed"),
        ("Miss ratio at it", "share", "computed"),
    )
    ratios = [count_misses(curves, sizes) / len(trace.indices) for sizes in (fitted, uniform)]
    rows: list[Row] = [("all", sum(trace.num_rows), sum(fitted), ratios[0], sum(uniform), ratios[1])]
    for table, (curve, one, other) in enumerate(zip(curves, fitted, uniform, strict=True)):
        at = (one, curve.miss_ratio(one), other, curve.miss_ratio(other))
        rows.append((str(table), trace.num_rows[table], *at))
    title = "Memory shared among tables: fewest misses, and one load factor for all"
    return make_table(title, columns, rows), fitted, ratios


def _compare_fleets(hosts: int, watts: float, others: int, other_watts: float) -> StudyTable:
    """Hosts x watts of both alternatives, as they were given."""
    columns: Columns = (
        ("Fleet", None, "given"),
        ("Hosts", None, "given"),
        ("Watts a host", "W", "given"),
        ("Fleet watts", "W", "computed"),
        ("Saved", "share", "computed"),
        ("Published savings", None, "published"),
    )
    before, after = hosts * watts, others * other_watts
    saved = (1 - after / before, PUBLISHED_POWER)
    rows: list[Row] = [
        ("all in DRAM", hosts, watts, before, None, None),
        ("with the tier", others, other_watts, after, *saved),
    ]
    return make_table("Fleet power", columns, rows)


def _list_parameters(trace: AccessTrace, question: TierQuestion, place: str) -> list[Parameter]:
    of_trace = [("rows of all tables", sum(trace.num_rows)), ("queries of the trace", trace.num_bags)]
    given: list[tuple[str, int | float | str, str | None]] = [
        ("query rate", question.rate or "none: no query waits for another", "queries/s" if question.rate else None),
        ("devices", question.num_devices, None),
        ("placement", question.placement, None),
        ("local memory", question.local_bytes, "B"),
        ("fleet power", "in its table" if question.fleet else "not given", None),
    ]
    return [
        *(Parameter(name=name, value=value, unit=None, source="measured", note=place) for name, value in of_trace),
        Parameter(name="row size", value=question.row_bytes, unit="B", source="given", note=_OF_ROWS),
        *(Parameter(name=name, value=value, unit=unit, source="given", note=None) for name, value, unit in given),
        *(each for name, tier in question.tiers.items() for each in list_parameters(name, tier)),
    ]

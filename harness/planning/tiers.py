"""`tiers`: what a memory slower than DRAM below a row cache costs in reads, bytes and latency: simulated."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import numpy as np
from msgspec.structs import replace as change
from scipy.optimize import brentq

from harness.config.run_config import RunConfig
from harness.foundation.errors import HarnessError
from harness.foundation.study import make_check, make_study, make_table
from harness.measure.serving.queue import percentile_of
from harness.planning.caches import count_misses, find_size, fit_caches
from harness.planning.hardware.tier import Tier, list_parameters
from harness.planning.pooling import (
    Placement,
    Pool,
    RemoteReads,
    Waits,
    count_reads,
    link_bytes,
    place_rows,
    service_s,
    simulate_waits,
)  # fmt: skip
from harness.planning.trace import FLOAT_BYTES, merged_curve, read_trace, table_curve
from reference_models.data.traces.stack_distances import StackDistances
from reference_models.data.traces.trace import AccessTrace
from reports.text.formatting import duration, percent
from rules.benchmarks.loader import Benchmark
from rules.records.study import Cell, Origin, Parameter, StudyCheck, StudyRecord, StudyTable

PUBLISHED_SPEEDUP, PUBLISHED_POWER = 3.89, "5 % to 29 %, other models"
"""PIFS-Rec's abstract, switch pooling over pooling at the host (Pond); and that of software-defined memory (2021)."""
_SOLVED = ("read_latency_s", "host_reads_in_flight", "pool_reads_in_flight", "link_bytes_per_s")

Columns = Sequence[tuple[str, str | None, Origin]]
Row = tuple[Cell, ...]


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
    fleet: tuple[tuple[int, float], ...]
    """Hosts and watts of each: with all rows in DRAM, and with the tier; empty where they are not given."""
    seed: int


@dataclass(frozen=True, kw_only=True, slots=True)
class _Cache:
    """A row cache, and what it leaves to be read."""

    share: float | None
    num_rows: int
    reads: RemoteReads
    miss_ratio: float
    cold_ratio: float | None
    """None where there is no cache to miss."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Setup:
    """A tier below a cache."""

    question: TierQuestion
    name: str
    tier: Tier
    cache: _Cache

    def busy(self, pool: Pool) -> float:
        """Return the share of the time that the busiest device would be busy."""
        of_devices = service_s(self.cache.reads, self.tier, pool, self.question.row_bytes).mean(axis=0)
        return float(of_devices.max()) * (self.question.rate or 0.0)

    def waits(self, pool: Pool) -> Waits:
        asked = self.question
        return simulate_waits(self.cache.reads, self.tier, pool, asked.row_bytes, rate=asked.rate, seed=asked.seed)

    def speed_up(self, pool: Pool) -> float | None:
        """Return the mean that pooling by the host adds over what `pool` adds; None where one is impossible, or 0."""
        if max(self.busy("host"), self.busy(pool)) >= 1:
            return None
        host, other = (float(self.waits(each).total.mean()) for each in ("host", pool))
        return host / other if other else None

    def changed(self, **values: float | None) -> "_Setup":
        """Return the same with other values of the tier's numbers, without a tail; None leaves one as it is."""
        others = {
            name: change(getattr(self.tier, name), value=value, tail=())
            for name, value in values.items() if value is not None
        }  # fmt: skip
        return replace(self, tier=change(self.tier, **others))


def tiers_study(trace: AccessTrace, question: TierQuestion, benchmark: Benchmark | None, place: str) -> StudyRecord:
    """Simulate what the rows of a trace cost where they are not in DRAM: one row per tier, cache and pool."""
    caches = list(_apply_caches(trace, question))
    setups = [
        _Setup(question=question, name=name, tier=tier, cache=cache)
        for (name, tier), cache in product(question.tiers.items(), caches)
    ]
    needs, checks = [_say_need(setup) for setup in setups], [_check_bytes(setup, trace) for setup in setups]
    said = [_say_wait(setup, pool) for setup, pool in product(setups, question.pools)]
    tables, findings = [], [finding for _, finding in said]
    if not any(cache.reads.rows.any() for cache in caches):
        findings.insert(0, "Nothing is remote: local memory and cache hold every row.")
    elif {"host", "switch"} <= {*question.pools}:
        tables.append(_solve([setup for setup in setups if setup.cache is caches[0]]))
        published = f"{PUBLISHED_SPEEDUP}x, other traces"
        findings.append(f"Published for pooling in the switch over pooling at the host: {published}.")
    return make_study(
        "tiers",
        f"Embedding rows below DRAM, simulated: {place}",
        benchmark,
        seed=question.seed,
        tables=(
            make_table("What has to be read from the tier", _NEEDS, needs),
            make_table("What a query waits for", _WAITS, [row for row, _ in said]),
            *tables, *_find_size(trace, question), *_share_memory(trace, question), *_compare_fleets(question),
        ),
        parameters=_list_parameters(trace, question, place),
        findings=findings,
        checks=checks,
    )  # fmt: skip


def read_traced(folder: Path, config: RunConfig | None, row_bytes: int | None) -> tuple[AccessTrace, int, str]:
    """Read a trace, the bytes of its rows where they are not given, and what was traced.

    Raises HarnessError where it is of another definition or no row size is known (exit 2), and as `read_trace`.
    """
    manifest, trace = read_trace(folder)
    if config is not None and manifest.definition_sha256 not in (None, config.benchmark.definition_sha256):
        raise HarnessError(
            f"{folder}: a trace of another definition ({manifest.benchmark}, {str(manifest.definition_sha256)[:12]}) "
            f"than {config.benchmark.name} ({config.benchmark.definition_sha256[:12]}). Trace that, or leave it out."
        )
    found = row_bytes or manifest.row_bytes
    if found is None and config is not None:
        found = config.workload.costs(trace.num_rows).row_width * FLOAT_BYTES
    if found is None:
        raise HarnessError(f"{folder}: a trace of a file, which does not say how large rows are. Give --row-size.")
    return trace, found, manifest.source


def _apply_caches(trace: AccessTrace, question: TierQuestion) -> Iterator[_Cache]:
    """Count what each cache leaves to be read; the cache is of rows that are not in local memory."""
    num_rows, num_devices = sum(trace.num_rows), question.num_devices
    keys, tables, samples = (np.concatenate(each) for each in zip(*trace.in_order(), strict=True))
    num_local = min(num_rows, question.local_bytes // question.row_bytes)
    devices = place_rows(keys, num_rows, num_local, num_devices, question.placement)
    is_remote, num_lookups = devices >= 0, len(keys)
    keys, tables, samples, devices = (each[is_remote] for each in (keys, tables, samples, devices))
    is_cached = question.caches != (None,)
    distances = StackDistances().update(keys, np.ones(len(keys))) if is_cached else np.full(len(keys), np.inf)
    cold_ratio = float(np.isinf(distances).sum()) / num_lookups if is_cached else None
    for share in question.caches:
        size = 0 if share is None else max(1, round(share * num_rows))
        missed = distances >= size
        reads = count_reads(
            samples[missed], tables[missed], devices[missed],
            num_samples=trace.num_bags, num_tables=len(trace.num_rows), num_devices=num_devices,
        )  # fmt: skip
        ratio = float(missed.sum()) / num_lookups
        yield _Cache(share=share, num_rows=size, reads=reads, miss_ratio=ratio, cold_ratio=cold_ratio)


_NEEDS: Columns = (
    ("Tier", None, "given"), ("Cache", "share", "given"), ("Cache rows", None, "computed"),
    ("Miss ratio", "share", "computed"), ("Cold misses", "share", "computed"),
    ("Reads needed", "reads/s", "computed"), ("Reads available", "reads/s", "given"), ("Load", "share", "computed"),
    ("Read amplification", None, "computed"),
)  # fmt: skip
_WAITS: Columns = (
    ("Tier", None, "given"), ("Cache", "share", "given"), ("Pool", None, "given"),
    ("Device links", "B", "computed"), ("Host link", "B", "computed"),
    ("Queue", "s", "simulated"), ("Device", "s", "simulated"), ("Link", "s", "simulated"), ("Adds", "s", "simulated"),
    ("Mean added", "s", "simulated"), ("p99 added", "s", "simulated"), ("Speed-up", None, "simulated"),
    ("Speed-up, least", None, "simulated"), ("Speed-up, most", None, "simulated"),
)  # fmt: skip


def _say_need(setup: _Setup) -> Row:
    question, tier, cache = setup.question, setup.tier, setup.cache
    granules = tier.granules(question.row_bytes)
    needed = None if question.rate is None else float(cache.reads.rows.sum(axis=1).mean()) * granules * question.rate
    available = tier.reads_per_s.value * question.num_devices
    load = None if needed is None else needed / available
    amplification = granules * tier.granule_bytes.value / question.row_bytes
    sizes = (setup.name, cache.share, cache.num_rows, cache.miss_ratio, cache.cold_ratio)
    return (*sizes, needed, available, load, amplification)


def _check_bytes(setup: _Setup, trace: AccessTrace) -> StudyCheck:
    """Hold the bytes over the host's link, where it pools, against the accesses that were missed."""
    question, tier, cache = setup.question, setup.tier, setup.cache
    row = tier.granules(question.row_bytes) * tier.granule_bytes.value
    found = float(link_bytes(cache.reads, tier, "host", question.row_bytes)[1].sum())
    expected = round(cache.miss_ratio * len(trace.indices)) * row
    return make_check(f"bytes of missed rows over the host's link, {setup.name}", expected=expected, found=found)


def _say_wait(setup: _Setup, pool: Pool) -> tuple[Row, str]:
    """Simulate one pool, or say that the rate is too high for it. Speed-ups are over pooling by the host."""
    tier, cache, busy = setup.tier, setup.cache, setup.busy(pool)
    sizes = [float(each.sum()) / len(each) for each in link_bytes(cache.reads, tier, pool, setup.question.row_bytes)]
    label = setup.name if cache.share is None else f"{setup.name}, cache of {percent(cache.share)}"
    label = f"{label}, pooled by the {pool}"
    if busy >= 1:
        why = f"are impossible, not simulated: a device would be busy {busy:.3g} of the time"
        row = (setup.name, cache.share, pool, *sizes, *[None] * (len(_WAITS) - 5))
        return row, f"{label}: {setup.question.rate:g} queries/s {why}."
    waits = setup.waits(pool)
    parts = [float(part.mean()) for part in (waits.queue, waits.device, waits.link, waits.adds, waits.total)]
    p99, speed_up, gain = percentile_of(waits.total, 0.99), None, ""
    known: list[float] = []
    if pool != "host" and (speed_up := setup.speed_up(pool)) is not None:
        latency, hop = tier.read_latency_s, tier.switch_latency_s
        ends = [setup.changed(read_latency_s=latency.low, switch_latency_s=hop.low).speed_up(pool),
                setup.changed(read_latency_s=latency.high, switch_latency_s=hop.high).speed_up(pool)]  # fmt: skip
        known = [speed_up, *(each for each in ends if each is not None)]
        gain = f", {speed_up:.2f} times as fast as by the host ({min(known):.2f} to {max(known):.2f} over the ranges)"
    row = (
        setup.name,
        cache.share,
        pool,
        *sizes,
        *parts,
        p99,
        speed_up,
        *(end(known, default=None) for end in (min, max)),
    )
    return row, f"{label}: a query waits {duration(parts[-1])} on average, {duration(p99)} at p99{gain} (simulated)."


def _solve(setups: Sequence[_Setup]) -> StudyTable:
    """Find the value of each number, the others as they are, at which the speed-up would be the published one."""
    rows = list[Row]()
    for setup, member in product(setups, _SOLVED):
        alone = replace(setup, question=replace(setup.question, rate=None))
        value = getattr(setup.tier, member).value

        def miss(power: float, alone: _Setup = alone, member: str = member, value: float = value) -> float:
            return (alone.changed(**{member: value * 2.0**power}).speed_up("switch") or 0.0) - PUBLISHED_SPEEDUP

        is_crossed = miss(-6.0) * miss(6.0) < 0
        found = value * 2.0 ** float(brentq(miss, -6.0, 6.0, xtol=1e-3)) if is_crossed else None
        rows.append((setup.name, member, value, found, f"{PUBLISHED_SPEEDUP}x, other traces"))
    columns: Columns = (
        ("Tier", None, "given"), ("Parameter", None, "given"), ("Here", None, "given"),
        (f"For {PUBLISHED_SPEEDUP}x", None, "simulated"), ("PIFS-Rec over Pond", None, "published"),
    )  # fmt: skip
    title = "Where pooling in the switch would gain what was published: one value changed, none waits"
    return make_table(title, columns, rows)


def _find_size(trace: AccessTrace, question: TierQuestion) -> Iterator[StudyTable]:
    if question.hit_rate is None:
        return
    curve = merged_curve(trace)
    size = find_size(curve, question.hit_rate)
    sizes = (None,) * 3 if size is None else (size, size / sum(trace.num_rows), size * question.row_bytes)
    columns: Columns = (
        ("Hit rate", "share", "given"), ("Cache rows", None, "computed"), ("Cache", "share", "computed"),
        ("Memory", "B", "computed"), ("Highest hit rate", "share", "computed"),
    )  # fmt: skip
    row = (question.hit_rate, *sizes, 1 - curve.num_cold / curve.num_lookups)
    yield make_table("The smallest LRU cache of all tables that hits so often", columns, [row])


def _share_memory(trace: AccessTrace, question: TierQuestion) -> Iterator[StudyTable]:
    if question.fit_bytes is None:
        return
    curves = [table_curve(trace, table) for table in range(len(trace.num_rows))]
    both = fit_caches(curves, trace.num_rows, question.fit_bytes // question.row_bytes)
    columns: Columns = (
        ("Table", None, "given"), ("Rows", None, "given"), ("Cache rows", None, "computed"),
        ("Miss ratio", "share", "computed"), ("Rows at one factor", None, "computed"),
        ("Miss ratio at it", "share", "computed"),
    )  # fmt: skip
    of_all = [(sum(sizes), count_misses(curves, sizes) / len(trace.indices)) for sizes in both]
    rows = [("all", sum(trace.num_rows), *of_all[0], *of_all[1])]
    for table, (num, curve, *sizes) in enumerate(zip(trace.num_rows, curves, *both, strict=True)):
        fitted, uniform = ((size, curve.miss_ratio(size)) for size in sizes)
        rows.append((str(table), num, *fitted, *uniform))
    yield make_table("Memory shared among tables: fewest misses, and one load factor for all", columns, rows)


def _compare_fleets(question: TierQuestion) -> Iterator[StudyTable]:
    """Difference of two fleets' watts: hosts x watts of both, as they were given."""
    if not question.fleet:
        return
    (hosts, watts), (fewer, others) = question.fleet
    columns: Columns = (
        ("Fleet", None, "given"), ("Hosts", None, "given"), ("Watts a host", "W", "given"),
        ("Fleet watts", "W", "computed"), ("Saved", "share", "computed"), ("Published savings", None, "published"),
    )  # fmt: skip
    saved = 1 - fewer * others / (hosts * watts)
    rows: list[Row] = [
        ("all in DRAM", hosts, watts, hosts * watts, None, None),
        ("with the tier", fewer, others, fewer * others, saved, PUBLISHED_POWER),
    ]
    yield make_table("Fleet power", columns, rows)


def _list_parameters(trace: AccessTrace, question: TierQuestion, place: str) -> list[Parameter]:
    given: list[tuple[str, int | float | str | None, str | None]] = [
        ("rows of all tables", sum(trace.num_rows), None), ("queries of the trace", trace.num_bags, None),
        ("row size", question.row_bytes, "B"), ("query rate", question.rate, "queries/s"),
        ("devices", question.num_devices, None), ("placement", question.placement, None),
        ("local memory", question.local_bytes, "B"),
        ("fleet power", "in its table" if question.fleet else "not given", None),
    ]  # fmt: skip
    return [
        *(Parameter(name=name, value=value, unit=unit, source="given", note=place) for name, value, unit in given),
        *(each for name, tier in question.tiers.items() for each in list_parameters(name, tier)),
    ]

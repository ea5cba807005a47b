"""Make the study of memories slower than DRAM that hold embedding rows below a row cache: reads, bytes, simulated
latency."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq

from harness.extensions.memory.advice import advise_tiers
from harness.extensions.memory.caches import TENTHS, Cache, Ids, MissCurve, RemoteLookups, count_misses, fit_caches
from harness.extensions.memory.claims import (
    OVER_BEACON,
    SPEEDUP,
    FleetRow,
    answer_fleets,
    close,
    count_fleets,
    find_best_fleet,
    show_fleets,
)
from harness.extensions.memory.policies import LRU, POLICIES, Flags
from harness.extensions.memory.pooling import (
    Pool,
    RemoteReads,
    count_reads,
    link_bytes,
    place_rows,
)
from harness.extensions.memory.setups import PoolResult, Row, Setup, TierQuestion, say_busy, say_rate
from harness.extensions.memory.tier import list_parameters
from harness.extensions.memory.trace import is_unlike, name_units, read_trace, say_cold, say_least
from harness.foundation.errors import HarnessError
from harness.foundation.queue_simulation import Times, percentile_of
from harness.foundation.study import Columns, make_study, make_table
from reference_models.data.table_file import Side
from reference_models.data.traces.trace import AccessTrace
from reference_models.process.errors import ConfigError
from reports.text.formatting import duration, num_bytes, percent, plural, si
from rules.benchmarks.loader import Benchmark
from rules.records.study import Cell, Origin, Parameter, StudyRecord, StudyTable

PUBLISHED_SPEEDUP = f"{SPEEDUP}×, other traces"
"""Speed-up of the paper PIFS-Rec over the CXL memory system Pond, as text for a table."""
PUBLISHED_OVER_BEACON = f"{OVER_BEACON}×, other traces"
"""Speed-up of the paper PIFS-Rec over the near-memory accelerator BEACON, as text for a table."""
_SOLVED = {
    "read_latency_s": ("Read latency", "s"),
    "host_reads_in_flight": ("Reads in flight of the host", None),
    "pool_reads_in_flight": ("Reads in flight of the pool", None),
    "host_link_bytes_per_s": ("Link of the host", "B/s"),
}
RATES = "Added latency at other rates"
_LOADS = (0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95)
"""Loads (busy shares of the time) of the busiest device or link for which the latency added to queries is
simulated."""
_RATES: Columns = (
    ("Tier", None, "given"),
    ("Cache", "share", "given"),
    ("Pool", None, "given"),
    ("Queries/s", "queries/s", "computed"),
    ("Load", "share", "given"),
    ("Mean added", "s", "simulated"),
    ("p99 added", "s", "simulated"),
)

_OF_MISSES = ("Miss ratio", "From empty")
"""Names of the columns of miss ratios: after a warm-up, and from an empty cache. The ratios are computed if all
caches are LRU, else simulated."""
_LEAST_OF_P99 = 200
"""Minimum number of counted queries of a trace for which a p99 is reported: with fewer, one or two queries would set
it."""
_ALONE = " without queueing"
_ORACLE = (
    "The placement hot-local keeps the rows that this trace looks up most in local memory. hot-local is an oracle: "
    "its rows are chosen by the lookups that judge the placement, and rows chosen by earlier lookups serve fewer."
)
_OF_ROWS = "by --row-size, else by the definition that was traced"


def tiers_study(
    trace: AccessTrace,
    question: TierQuestion,
    benchmark: Benchmark | None,
    place: str,
    folder: Path | None = None,
    row_size: int | None = None,
) -> StudyRecord:
    """Simulate a trace of lookups whose embedding rows are in a memory slower than DRAM. The study's table has one
    row for each combination of memory, row cache and place where rows are summed.

    With the trace's `folder` the study advises which memory to take and which command to run next. `row_size` is the
    row size in bytes that the command line gave for all tables; None if it gave none.
    """
    lookups = _place(trace, question)
    caches, first = _warm_up(trace, lookups, question)
    counted = [_count_misses(lookups, question, cache, first) for cache in caches.simulated]
    setups = [
        _count_granules(trace, lookups, replace(each, name=name, tier=tier), first)
        for (name, tier), each in product(question.tiers.items(), counted)
    ]
    said = [_say_wait(setup, pool) for setup, pool in product(setups, question.pools)]
    needs = f"Reads needed from the tier{_say_shares(question)}"
    tables = [
        make_table("Latency added to a query", _with_policy(_WAITS, question), [each.row for each in said]),
        make_table(needs, _with_policy(_list_needs(trace), question), map(_say_need, setups)),
    ]
    tables += [] if question.rate is None else [_vary_rate(setups)]
    findings = [*caches.answers, *_order(said), *_say_highest(said), *_say_warm_up(lookups, setups, first)]
    if short := _say_cold(setups, len(trace.indices)):
        num_impossible = sum(each.wait_s is None for each in said)
        findings.insert(len(caches.answers) or 1 + num_impossible, short)
    if not any(setup.reads.rows.any() for setup in setups):
        findings.insert(0, "Nothing is remote: local memory and cache hold every row.")
    elif {"host", "switch"} <= {*question.pools}:
        best = find_best(said)
        cache = setups[0].cache if best is None else best.setup.cache
        tables.append(_solve([setup for setup in setups if setup.cache == cache]))
    tables += caches.tables
    fleets = _count_fleets(trace, question, setups)
    tables += [] if question.fleet is None else [show_fleets(question.fleet, fleets)]
    if question.placement == "hot-local" and question.local_bytes:
        findings.append(_ORACLE)
    if trace.are_rows_least:
        findings.append(say_least(trace.num_rows))
    findings += close(question, said, fleets)
    if fleets:
        findings.insert(0, f"{answer_fleets(fleets)} (computed).")
    if folder is not None:
        first_choice = find_best(said) or min(said, key=lambda each: each.setup.load(each.pool))
        others = [each for each in said if each is not first_choice]
        kept_bytes = _count_kept(trace, question) * question.row_bytes
        advice = advise_tiers(trace, question, [first_choice, *others], kept_bytes, folder, row_size)
        findings.insert(1, advice)
    title = f"{place}: {_answer(setups, caches.answers, said, fleets)}"
    parameters = _list_parameters(trace, question, first, place)
    return make_study(
        "tiers", title, benchmark, seed=question.seed, tables=tables, parameters=parameters, findings=findings
    )


def read_traced(
    folder: Path, benchmark: Benchmark | None, row_bytes: int | None, side: Side | None = None
) -> tuple[AccessTrace, int, str]:
    """Read a trace of embedding lookups. Return the trace, the bytes of a row, and a description of the trace. If
    rows differ in size, the bytes are those of one unit of the trace.

    Raises HarnessError (exit 2) if the trace is of another benchmark definition than `benchmark`, if no row size is
    known, or if no table belongs to `side` (user or item). Also raises the errors of `read_trace`.
    """
    manifest, trace = read_trace(folder)
    if side is not None and not any(table.side == side for table in trace.tables):
        raise HarnessError(
            f"--side {side}: no table of {folder} is marked as the {side}'s side. Trace tables with a column "
            "'side': 'dlrmbench trace FILE.csv', or '--tables FILE.csv' of a file of lookups."
        )
    if benchmark is not None and manifest.definition_sha256 not in (None, benchmark.definition_sha256):
        raise HarnessError(
            f"{folder}: a trace of another definition ({manifest.benchmark}, {str(manifest.definition_sha256)[:12]}) "
            f"than {benchmark.name} ({benchmark.definition_sha256[:12]}). Trace that, or leave it out."
        )
    if row_bytes is not None:  # one size for all tables, whatever they were traced with
        trace = replace(trace, tables=tuple(each._replace(row_bytes=row_bytes) for each in trace.tables))
    if (found := row_bytes or trace.unit_bytes or manifest.row_bytes) is None:
        raise HarnessError(
            f"{folder}: a trace of a file, which does not give the size of rows. Give --row-size, or widths by "
            "'dlrmbench trace --tables'."
        )
    return trace, found, manifest.source


class _Caches(NamedTuple):
    """Row caches to simulate, and the study's tables and sentences on caches whose size was computed for --hit-rate
    or --fit-cache. These caches come first."""

    simulated: tuple[Cache, ...]
    tables: tuple[StudyTable, ...]
    answers: tuple[str, ...]


def _place(trace: AccessTrace, question: TierQuestion) -> RemoteLookups:
    """Place the embedding row of each lookup in local DRAM or on a device of the slower memory."""
    keys, tables, samples = (np.concatenate(each) for each in zip(*trace.in_order(), strict=True))
    num_units = trace.num_units - _count_kept(trace, question)
    num_local = min(num_units, question.local_bytes // question.row_bytes)
    is_below, devices = np.array(_are_below(trace, question))[tables], np.full(len(keys), -1)
    units = np.array(trace.row_units)[tables[is_below]]
    devices[is_below] = place_rows(
        keys[is_below], num_units, num_local, question.num_devices, question.placement, units
    )
    return RemoteLookups(trace, keys, tables, samples, devices, _are_below(trace, question))


def _are_below(trace: AccessTrace, question: TierQuestion) -> list[bool]:
    """Return for each embedding table whether its rows are in the slower memory. If a side (user or item) was asked
    for, only its tables are; otherwise all tables are."""
    if question.side is None:
        return [True] * len(trace.num_rows)
    return [table.side == question.side for table in trace.tables]


def _count_kept(trace: AccessTrace, question: TierQuestion) -> int:
    """Return the total size of the tables that stay in DRAM whole: in rows if all rows are of one size, otherwise in
    units of AccessTrace.unit_bytes bytes."""
    of_each = zip(_are_below(trace, question), trace.num_rows, trace.row_units, strict=True)
    return sum(0 if is_below else rows * units for is_below, rows, units in of_each)


def _name_side(question: TierQuestion) -> str:
    """Return words to follow a share of rows or lookups if only some tables are in the slower memory: " of the user's
    side" for the tables of the user. Empty if all tables are there."""
    return "" if question.side is None else f" of the {question.side}'s side"


def _say_shares(question: TierQuestion) -> str:
    """Return the end of a table's title, which says that the table's shares are of the rows and lookups of one side,
    user or item. Empty where shares are of all tables."""
    return "" if question.side is None else f", shares of rows and lookups{_name_side(question)}"


def _count_fleets(trace: AccessTrace, question: TierQuestion, setups: Sequence[Setup]) -> list[FleetRow]:
    if question.fleet is None:
        return []
    kept_bytes = _count_kept(trace, question) * question.row_bytes
    return count_fleets(question.fleet, setups, trace.num_units, kept_bytes)


def _warm_up(trace: AccessTrace, lookups: RemoteLookups, question: TierQuestion) -> tuple[_Caches, int]:
    """Return the row caches to simulate, and the number of samples of the warm-up, in which misses are not counted.

    The warm-up is as long as the user says, or half of the trace. If all caches are LRU and the user says nothing, it
    is shorter if the caches fill sooner: it ends as soon as every cache misses about as often as in the trace's
    second half. Raises ConfigError if a static set of rows is to be chosen from a warm-up without samples.
    """
    if question.warm_up is not None or not question.is_of_lru:
        share = TENTHS / 10 if question.warm_up is None else question.warm_up
        first = min(lookups.num_samples - 1, int(share * lookups.num_samples))
        if not first and "static" in question.policies:
            raise ConfigError(
                f"--warm-up: holds none of {lookups.num_samples:,} samples, but its lookups choose a static set. "
                "Give a larger share, or a longer trace."
            )
        return _choose_caches(trace, lookups, question, first), first
    for tenths in range(TENTHS + 1):
        caches = _choose_caches(trace, lookups, question, lookups.first_of(tenths))
        missed = (lookups.missed(each, lookups.first_of(tenths)) for each in caches.simulated if each.words)
        if tenths == TENTHS or all(lookups.is_flat(each, tenths) for each in missed):
            break
    return caches, lookups.first_of(tenths)


def _choose_caches(trace: AccessTrace, lookups: RemoteLookups, question: TierQuestion, first: int) -> _Caches:
    """Return the row caches to simulate. The sizes for --hit-rate and --fit-cache are computed from the misses of the
    samples from `first` on."""
    found, tables, findings = list[Cache](), list[StudyTable](), list[str]()
    num_rows, side = trace.num_units - _count_kept(trace, question), _name_side(question)
    if (hit_rate := question.hit_rate) is not None:
        table, size, most = _find_size(trace, lookups, question, hit_rate, first)
        tables.append(table)
        cache = num_rows if size is None else size
        share, memory = percent(cache / num_rows), num_bytes(cache * question.row_bytes)
        of_rows, hits = f"{share} of the {name_units(trace)}{side}", percent(hit_rate if size is not None else most)
        words = f"cache of {of_rows}, which hits {hits}"
        found.append(Cache(num_rows=cache, share=cache / num_rows, words=words))
        smallest = f"{of_rows}, {memory}, are the smallest LRU cache that hits {percent(hit_rate)}"
        none = f"no LRU cache hits {percent(hit_rate)}: one of all rows hits {percent(most)}, all but first lookups"
        findings.append(f"{none if size is None else smallest} (computed).")
    if question.fit_bytes is not None:
        fits = [
            _fit_cache(trace, lookups, question, question.fit_bytes, first, policy) for policy in question.policies
        ]
        found += [fit.cache for fit in fits]
        tables += [fit.table for fit in fits]
        best, *others = sorted(fits, key=lambda fit: fit.miss_ratio)
        beside = "".join(f"; {POLICIES[fit.cache.policy].title} {percent(fit.miss_ratio)}" for fit in others)
        how = "computed" if question.is_of_lru else "simulated"
        findings.append(f"{best.words}{beside} ({how}).")
    for share_given in question.caches if question.caches != (None,) or not found else ():
        if share_given is None:
            found.append(Cache(num_rows=0, share=None))
            continue
        size, words = (
            max(1, round(share_given * num_rows)),
            f"cache of {percent(share_given)} of the {name_units(trace)}{side}",
        )
        found += [
            Cache(num_rows=size, share=share_given, words=f"{words}{_name_policy(question, policy)}", policy=policy)
            for policy in question.policies
        ]
    return _Caches(tuple(found), tuple(tables), tuple(findings))


class _FittedCache(NamedTuple):
    """Cache memory divided among the embedding tables, with the study's table of the sizes, the miss ratio, and a
    sentence on the division."""

    cache: Cache
    table: StudyTable
    miss_ratio: float
    words: str


def _fit_cache(
    trace: AccessTrace, lookups: RemoteLookups, question: TierQuestion, max_bytes: int, first: int, policy: str
) -> _FittedCache:
    """Divide `max_bytes` of memory among row caches, one for each table, all of one replacement policy. The division
    is the one with which fewest lookups miss, counted from sample `first` on."""
    num_rows, side = trace.num_units - _count_kept(trace, question), _name_side(question)
    table, sizes, (ratio, at_one) = _share_memory(trace, lookups, question, max_bytes, first, policy)
    memory, all_bytes = num_bytes(max_bytes), num_rows * question.row_bytes
    is_whole, named = all_bytes <= max_bytes, _name_policy(question, policy)
    words = f"{num_bytes(all_bytes)} that hold all rows{side}" if is_whole else f"{memory} shared among the tables"
    total = sum(size * units for size, units in zip(sizes, trace.row_units, strict=True))
    cache = Cache(num_rows=total, share=total / num_rows, words=f"{words}{named}", of_tables=sizes, policy=policy)
    misses = f"a cache of {memory}{named}, shared among the tables{side}, misses {percent(ratio)} of their lookups"
    alike = f", or {percent(at_one)} with the same share of each table's rows"
    shared = f"{misses}{alike if percent(at_one) != percent(ratio) else ''}"
    whole = (
        f"all rows{side} take {num_bytes(all_bytes)} and fit in {memory}{named}: {percent(ratio)} of their lookups"
    )
    said = f"{whole} miss{', the first of their rows' if policy == LRU else ''}" if is_whole else shared
    return _FittedCache(cache, table, ratio, said)


def _name_policy(question: TierQuestion, policy: str) -> str:
    """Return a row cache's replacement policy in parentheses, to follow the cache's size; empty where all caches are
    LRU."""
    return "" if question.is_of_lru else f" ({POLICIES[policy].title})"


def _say_how(policy: str) -> Origin:
    """Return the origin of miss ratios under a replacement policy: 'computed' for LRU, else 'simulated'."""
    return "computed" if policy == LRU else "simulated"


def _with_policy(columns: Columns, question: TierQuestion) -> Columns:
    """Return the columns of a printed table. If all caches are LRU, these are the given `columns`. Otherwise the
    replacement policy becomes a further column after the cache's size, and columns of misses are marked as
    simulated."""
    if question.is_of_lru:
        return columns
    at = [name for name, _, _ in columns].index("Cache") + 1
    rest: Columns = tuple(
        (name, unit, "simulated" if name in _OF_MISSES else origin) for name, unit, origin in columns[at:]
    )
    return (*columns[:at], ("Policy", None, "given"), *rest)


def _count_misses(lookups: RemoteLookups, question: TierQuestion, cache: Cache, first: int) -> Setup:
    """Return the first of the memories in question, set up behind the row cache `cache`: it gets the reads of all
    lookups from sample `first` on that miss the cache. Other memories get the same reads."""
    name, tier = next(iter(question.tiers.items()))
    missed = lookups.missed(cache, first)
    is_read = missed & (lookups.samples >= first)
    reads = _count_reads(lookups, question, is_read, first)
    return Setup(
        question=question,
        name=name,
        tier=tier,
        cache=cache,
        reads=reads,
        miss_ratio=lookups.miss_ratio(missed, first),
        from_empty=lookups.miss_ratio(missed),
        cold_ratio=lookups.miss_ratio(np.isinf(lookups.distances), first) if cache.words else None,
    )


def _count_reads(
    lookups: RemoteLookups, question: TierQuestion, is_read: Flags, first: int, granules: Ids | None = None
) -> RemoteReads:
    return count_reads(
        lookups.samples[is_read] - first,
        lookups.bags[is_read],
        lookups.devices[is_read],
        num_samples=lookups.num_samples - first,
        num_tables=lookups.num_bags,
        num_devices=question.num_devices,
        granules=granules,
    )


def _count_granules(trace: AccessTrace, lookups: RemoteLookups, setup: Setup, first: int) -> Setup:
    """Return the setup of a memory behind a row cache with reads counted in reads of the memory's smallest size
    (granules). This is done only if tables differ in row size, since rows then take different numbers of reads."""
    if not is_unlike(trace):
        return setup
    question, cache = setup.question, setup.cache
    of_tables = np.array([setup.tier.granules(each) for each in trace.row_bytes])
    is_read = lookups.missed(cache, first) & (lookups.samples >= first)
    granules = np.tile(of_tables, trace.samples_per_query)
    tables = lookups.tables[is_read]
    useful, num_read = np.array(trace.row_bytes)[tables].sum(), max(1, int(of_tables[tables].sum()))
    return replace(
        setup,
        reads=_count_reads(lookups, question, is_read, first, granules),
        granule_share_bytes=max(1, round(useful / num_read)),
    )


_NEEDS: Columns = (
    ("Tier", None, "given"),
    ("Cache", "share", "given"),
    ("Cache rows", None, "computed"),
    ("Miss ratio", "share", "computed"),
    ("From empty", "share", "computed"),
    ("Cold misses", "share", "computed"),
    ("Reads needed", "reads/s", "computed"),
    ("Reads available", "reads/s", "given"),
    ("Load", "share", "computed"),
    ("Highest rate", "queries/s", "computed"),
    ("Limited by", None, "computed"),
    ("Read amplification", None, "computed"),
)
_WAITS: Columns = (
    ("Tier", None, "given"), ("Cache", "share", "given"), ("Pool", None, "given"),
    ("Mean added", "s", "simulated"), ("p99 added", "s", "simulated"), ("Speed-up", None, "simulated"),
    ("Speed-up, least", None, "simulated"), ("Speed-up, most", None, "simulated"),
    ("Device links", "B", "computed"), ("Host link", "B", "computed"), ("Busiest", None, "computed"),
    ("Busy", "share", "computed"), ("Reads in flight", None, "simulated"),
    ("Queue", "s", "simulated"), ("Device", "s", "simulated"), ("Link queue", "s", "simulated"),
    ("Link", "s", "simulated"), ("Adds", "s", "simulated"),
)  # fmt: skip


def _list_needs(trace: AccessTrace) -> Columns:
    """Return the columns of the study's table of reads that reach the memory. Cache sizes are in bytes if rows differ
    in size."""
    memory: Columns = (("Cache memory", "B", "computed"),)
    return (*_NEEDS[:2], *(memory if is_unlike(trace) else _NEEDS[2:3]), *_NEEDS[3:])


def _say_need(setup: Setup) -> Row:
    question, tier = setup.question, setup.tier
    granules, available = tier.granules(setup.row_bytes), tier.reads_per_s.value * question.num_devices
    rate = question.rate
    needed = None if rate is None else float(setup.reads.rows.sum(axis=1).mean()) * granules * rate
    amplification = granules * tier.granule_bytes.value / setup.row_bytes
    unit = 1 if setup.granule_share_bytes is None else question.row_bytes
    sizes = (setup.name, setup.cache.share, *setup.policy, setup.cache.num_rows * unit)
    ratios = (setup.miss_ratio, setup.from_empty, setup.cold_ratio)
    limit = setup.limit
    load = None if rate is None else rate * limit.busy_s if limit is not None else 0.0
    most = (None, None) if limit is None else (1 / limit.busy_s, limit.name)
    return (*sizes, *ratios, needed, available, load, *most, amplification)


def _say_wait(setup: Setup, pool: Pool) -> PoolResult:
    """Simulate the latency added to queries if `pool` (host, device or switch) adds embedding rows up, or say that
    the rate is impossible. The speed-up is relative to the host."""
    tier, question, load, most = setup.tier, setup.question, setup.load(pool), setup.busiest(pool)
    sizes = [float(each.sum()) / len(each) for each in link_bytes(setup.reads, tier, pool, setup.row_bytes)]
    label = f"{setup.label}, rows summed by the {pool}"
    busy = (most.name if most.busy_s else None, None if question.rate is None else load)
    head = (setup.name, setup.cache.share, *setup.policy, pool)
    if question.rate is not None and load >= 1:
        asked = f"{si(most.amount * question.rate)}{most.unit} of {si(most.per_s)}{most.unit}, computed"
        why = f"impossible, not simulated: they would take {say_busy(most.name, load)} ({asked})"
        answers = (None,) * 5
        row = (*head, *answers, *sizes, *busy, *[None] * (len(_WAITS) - 3 - len((*answers, *sizes, *busy))))
        return PoolResult(
            setup, pool, row, f"{label}: {say_rate(question.rate)} queries/s are {why}.", None, None, None
        )
    waits = setup.waits(pool)
    total = waits.total
    wait_s, p99 = float(total.mean()), _find_p99(setup, total)
    gain = None if pool == "host" else setup.speed_up(pool)
    gains = None if gain is None else _vary_gain(setup, pool, gain)
    faster = ""
    if gain is not None and gains is not None:
        of_range = f"{gains[0]:.2f} to {gains[1]:.2f} times over the ranges of {setup.name}'s parameters"
        times = f"{gain:.2f} times as high when the host sums the rows as when the {pool} sums them"
        faster = f". The latency that {setup.name} adds is {times} (simulated; {of_range})"
    alone = _ALONE if question.rate is None else ""
    of_queries = plural(len(setup.reads.rows), "counted query", "counted queries")
    tail = "" if p99 is None else f" on average and {duration(p99)} at p99"
    how = f"mean of {of_queries}, too few for a p99" if p99 is None else of_queries
    wait = f"adds {duration(wait_s)} to a query's latency{tail}{alone} ({how}; simulated){faster}"
    depth = waits.depth if most.busy_s and tier.read_latency_s.deeper else None
    parts: list[float | None] = [float(part.mean()) for part in waits.parts]
    if tier.shared_link(pool) is None and not tier.has_switch:
        parts[2:4] = None, None
    row = (*head, wait_s, p99, gain, *(gains or (None, None)), *sizes, *busy, depth, *parts)
    return PoolResult(setup, pool, row, f"{label}: {wait}.", wait_s, gain, gains)


def _find_p99(setup: Setup, waits: Times) -> float | None:
    """Return the p99 of the latencies added to queries, in seconds; None where the trace has too few counted
    queries."""
    return percentile_of(waits, 0.99) if len(setup.reads.rows) >= _LEAST_OF_P99 else None


def _vary_gain(setup: Setup, pool: Pool, gain: float) -> tuple[float, float]:
    """Return the range of a speed-up over all values that the memory's file allows for its numbers (latencies, reads
    in flight). The speed-up is from letting `pool` (device or switch) sum embedding rows, and not the host.

    The least speed-up has many reads in flight for the host, few for `pool`, and little added latency of a switch. A
    longer read latency may raise or lower the speed-up, so both ends of its range are tried.
    """
    tier = setup.tier
    latency, hop = tier.read_latency_s, tier.switch_latency_s
    host, own = tier.host_reads_in_flight, tier.pool_reads_in_flight
    found = [gain]
    for read, (by_host, by_pool, switch) in product(
        (latency.low, latency.high), ((host.high, own.low, hop.low), (host.low, own.high, hop.high))
    ):
        at = setup.changed(
            read_latency_s=read, host_reads_in_flight=by_host, pool_reads_in_flight=by_pool, switch_latency_s=switch
        )
        found += [other] if (other := at.speed_up(pool)) is not None else []
    return min(found), max(found)


def find_best(said: Sequence[PoolResult]) -> PoolResult | None:
    """Return the result with the largest speed-up over letting the host sum rows. Without any speed-up, return the
    result with the least added latency. None if the query rate is impossible in every result."""
    gains = [each for each in said if each.gain is not None]
    if gains:
        return max(gains, key=lambda each: each.gain or 0.0)
    return min((each for each in said if each.wait_s is not None), key=lambda each: each.wait_s or 0.0, default=None)


def _order(said: Sequence[PoolResult]) -> list[str]:
    """Return the sentences of all results: first the best, then the impossible ones, then the others."""
    best = find_best(said)
    ordered = sorted(said, key=lambda each: 0 if each is best else 1 if each.wait_s is None else 2)
    return [each.finding for each in ordered]


def _say_highest(said: Sequence[PoolResult]) -> list[str]:
    """Say, for each place where rows are summed (host, device or switch), the highest possible query rate and what
    limits it. The memory and row cache are those of the best result. Empty where there is only one place."""
    best = find_best(said) or said[0]
    alike = [each for each in said if each.setup is best.setup]
    limits = [(each.pool, most) for each in alike if (most := each.setup.busiest(each.pool)).busy_s]
    if len(limits) < 2:
        return []
    words = [("queries/s ", "sums the rows"), *[("", "does")] * (len(limits) - 1)]
    rates = [
        (f"{si(1 / most.busy_s)} {unit}if the {pool} {does}", most.name)
        for (pool, most), (unit, does) in zip(limits, words, strict=True)
    ]
    head, names = f"{best.setup.label}: at most", {name for _, name in rates}
    if len(names) == 1:
        return [f"{head} {', '.join(rate for rate, _ in rates)}; each is limited by {names.pop()} (computed)."]
    return [f"{head} {', '.join(f'{rate} (limited by {name})' for rate, name in rates)}; computed."]


def _say_warm_up(lookups: RemoteLookups, setups: Sequence[Setup], first: int) -> list[str]:
    """Say which part of the trace fills the row caches, and name caches whose miss ratio still falls at the trace's
    end."""
    cached = {each.cache: each for each in setups if each.cache.words}
    if not cached:
        return []
    found = list[str]()
    if first:
        most = max(cached.values(), key=lambda each: abs(each.from_empty - each.miss_ratio))
        of_lookups = f"of the lookups{_name_side(most.question)}"
        ratios = (
            f"{percent(most.miss_ratio)} {of_lookups} after the warm-up miss; with the warm-up counted, "
            f"{percent(most.from_empty)} {of_lookups} miss"
        )
        found.append(
            f"The first {percent(first / lookups.num_samples, 0)} of the trace fill the caches and are not counted "
            f"(warm-up). With {most.cache.phrase}, {ratios} ({_say_how(most.cache.policy)})."
        )
    for cache in cached:
        if (late := lookups.late_ratios(lookups.missed(cache, first))) is not None:
            found.append(
                f"With {cache.phrase}, the miss ratio still falls in the second half of the trace, from "
                f"{percent(late[0])} to {percent(late[1])}. To see the steady miss ratio of a cache, make a longer "
                "trace (--lookups)."
            )
    return found


def _say_cold(setups: Sequence[Setup], num_lookups: int) -> str:
    """Warn of row caches most of whose misses are first lookups of a row; empty where there is no such cache."""
    ratios = {each.cache: each.miss_ratio for each in setups if each.cache.words}
    cold_ratio = setups[0].cold_ratio or 0.0
    cold = [cache for cache, ratio in ratios.items() if cold_ratio > ratio / 2]
    if not cold:
        return ""
    words = " and with ".join(cache.phrase for cache in cold)
    return say_cold("" if len(cold) == len(ratios) else words, num_lookups)


def _vary_rate(setups: Sequence[Setup]) -> StudyTable:
    """Simulate the latency added to queries for each memory, row cache and place where rows are summed. Rates are
    chosen so that the busiest device or link is busy for given shares of the time."""
    rows = list[Row]()
    for setup, pool in product(setups, setups[0].question.pools):
        if not (busy_s := setup.busiest(pool).busy_s):
            continue
        for load in _LOADS:
            at = replace(setup, question=replace(setup.question, rate=load / busy_s))
            total = at.waits(pool).total
            head = (setup.name, setup.cache.share, *setup.policy, pool, load / busy_s, load)
            rows.append((*head, float(total.mean()), _find_p99(setup, total)))
    return make_table(RATES, _with_policy(_RATES, setups[0].question), rows)


def _answer(
    setups: Sequence[Setup], answers: Sequence[str], said: Sequence[PoolResult], fleets: Sequence[FleetRow]
) -> str:
    """Answer the study's question in one line: the caches found, the fleet's hosts, and the best speed-up or added
    latency."""
    found = "".join(f"{answer.removesuffix('.').rpartition(' (')[0]}; " for answer in answers)
    found += f"{answer_fleets(fleets)}, computed; " if fleets else ""
    if not any(setup.reads.rows.any() for setup in setups):
        return f"{found}nothing is remote"
    if (best := find_best(said)) is None:
        why = min(said, key=lambda each: each.setup.load(each.pool))
        busy = f"they would take {say_busy(why.setup.busiest(why.pool).name, why.setup.load(why.pool))}"
        rate = f"{say_rate(why.setup.question.rate or 0.0)} queries/s are impossible for"
        of_all = f"each of {len(said)}, at best {why.setup.label}: " if len(said) > 1 else f"{why.setup.label}: "
        return f"{found}{rate} {of_all}{busy}, computed"
    if best.gain is not None:
        times = f"the {best.pool} sums rows {best.gain:.1f}× as fast as the host"
        published = f"; published for PIFS-Rec: {SPEEDUP}×, on other traces" if best.pool == "switch" else ""
        return f"{found}with {best.setup.label}, {times} (simulated){published}"
    waiting = [each for each in said if each.wait_s is not None]
    setup = best.setup
    missing = f" ({percent(setup.miss_ratio)} of lookups miss)" if setup.cache.words and not answers else ""
    least = f" adds the least latency of {len(waiting)} setups: " if len(waiting) > 1 else " adds "
    rate = _ALONE if setup.question.rate is None else f" at {say_rate(setup.question.rate)} queries/s"
    where = f"{setup.name} below that cache" if len(answers) == 1 and len(waiting) == 1 else setup.label
    if (fleet := find_best_fleet(fleets)) is not None and fleet.label == setup.label:
        where, missing = "this setup", ""
    return f"{found}{where}{missing}{least}{duration(best.wait_s)} to a query{rate}, simulated"


def _solve(setups: Sequence[Setup]) -> StudyTable:
    """Return a table of break-even values: for each of several numbers of a memory, the value at which summing rows
    in a switch would reach the speed-up published by PIFS-Rec. Only one number is changed at a time."""
    rows = list[Row]()
    for setup in setups:
        row: list[Cell] = [setup.name]
        for member in _SOLVED:
            row += _solve_one(setup, member)
        rows.append((*row, PUBLISHED_SPEEDUP, setup.speed_up("switch", "device"), PUBLISHED_OVER_BEACON))
    columns: Columns = (
        ("Tier", None, "given"),
        *(
            each
            for name, unit in _SOLVED.values()
            for each in ((name, unit, "given"), (f"{name} for {SPEEDUP}×", unit, "simulated"))
        ),
        ("PIFS-Rec over Pond", None, "published"),
        ("Switch over devices", None, "simulated"),
        ("PIFS-Rec over BEACON", None, "published"),
    )
    title = "Value at which each parameter, changed alone, gives PIFS-Rec's published speed-up (without queueing)"
    return make_table(title, columns, rows)


def _solve_one(setup: Setup, member: str) -> tuple[float | None, float | None]:
    """Return two values of one number of a memory (its bandwidth, say): the memory's own, and the value at which
    summing rows in a switch would reach the speed-up published by PIFS-Rec. Both are None if the memory's file lacks
    the number; the second is None if no value reaches the speed-up."""
    alone = replace(setup, question=replace(setup.question, rate=None))
    if (quantity := getattr(setup.tier, member)) is None:
        return None, None
    value = float(quantity.value)

    def miss(power: float) -> float:
        return (alone.changed(**{member: value * 2.0**power}).speed_up("switch") or 0.0) - SPEEDUP

    is_crossed = miss(-6.0) * miss(6.0) < 0
    return value, value * 2.0 ** float(brentq(miss, -6.0, 6.0, xtol=1e-3)) if is_crossed else None


def _find_size(
    trace: AccessTrace, lookups: RemoteLookups, question: TierQuestion, hit_rate: float, first: int
) -> tuple[StudyTable, int | None, float]:
    """Return three values: a table for the study's page on the smallest LRU cache with the given hit rate, the size
    of that cache in units (None if no cache reaches the hit rate), and the highest hit rate of any cache."""
    curve, num_units = lookups.curve(first), trace.num_units - _count_kept(trace, question)
    size = curve.find_size(hit_rate)
    rows = None if is_unlike(trace) else size
    sizes = (None,) * 3 if size is None else (rows, size / num_units, size * question.row_bytes)
    columns: Columns = (
        ("Hit rate", "share", "given"),
        ("Cache rows", None, "computed"),
        ("Cache", "share", "computed"),
        ("Memory", "B", "computed"),
        ("Hit rate of all rows", "share", "computed"),
    )
    most = 1 - curve.num_cold / max(1, curve.num_lookups)
    counted = f", after {percent(first / lookups.num_samples, 0)} of the trace" if first else ""
    title = f"Smallest LRU cache with this hit rate for all tables{_name_side(question)}{counted}"
    return make_table(title, columns, [(hit_rate, *sizes, most)]), size, most


def _share_memory(
    trace: AccessTrace, lookups: RemoteLookups, question: TierQuestion, max_bytes: int, first: int, policy: str
) -> tuple[StudyTable, tuple[int, ...], Sequence[float]]:
    """Divide cache memory among the tables. Return the study's table, the rows of each table's cache [tables], and
    two miss ratios.

    The first is the miss ratio with this division; the second is the miss ratio if every cache holds the same share
    of its table's rows. Tables that stay in DRAM whole have no cache.
    """
    below = [table for table, is_below in enumerate(_are_below(trace, question)) if is_below]
    curves: list[MissCurve] = [
        lookups.curve(first, table) if policy == LRU else lookups.simulated_curve(first, table, policy)
        for table in below
    ]
    num_rows = [trace.num_rows[table] for table in below]
    units = [trace.row_units[table] for table in below]
    fitted, uniform = fit_caches(curves, num_rows, max_bytes // question.row_bytes, units)
    columns: Columns = (
        ("Table", None, "given"),
        ("Rows", None, "given"),
        ("Cache rows", None, "computed"),
        ("Miss ratio", "share", _say_how(policy)),
        ("Rows at one factor", None, "computed"),
        ("Miss ratio at it", "share", _say_how(policy)),
    )
    num_lookups = max(1, sum(curve.num_lookups for curve in curves))
    ratios = [count_misses(curves, sizes) / num_lookups for sizes in (fitted, uniform)]
    rows: list[Row] = [("all", sum(num_rows), sum(fitted), ratios[0], sum(uniform), ratios[1])]
    of_tables = [0] * len(trace.num_rows)
    for table, curve, one, other in zip(below, curves, fitted, uniform, strict=True):
        of_tables[table] = one
        at = (one, curve.miss_ratio(one), other, curve.miss_ratio(other))
        rows.append((trace.names[table], trace.num_rows[table], *at))
    named = _name_policy(question, policy)
    title = f"Memory shared among tables: for fewest misses, and at one load factor for all{named}"
    return make_table(title, columns, rows), tuple(of_tables), ratios


def _list_parameters(trace: AccessTrace, question: TierQuestion, first: int, place: str) -> list[Parameter]:
    least = ", at least" if trace.are_rows_least else ""
    of_trace = [
        (f"rows of all tables{least}", sum(trace.num_rows)),
        ("queries of the trace", trace.num_queries),
    ]
    given: list[tuple[str, int | float | str, str | None]] = [
        ("query rate", question.rate or "none: without queueing", "queries/s" if question.rate else None),
        ("devices", question.num_devices, None),
        ("local memory", question.local_bytes, "B"),
        ("tables below DRAM", "all" if question.side is None else f"those of the {question.side}'s side", None),
        ("fleet power", "in its table" if question.fleet else "not given", None),
    ]
    is_hot = question.placement == "hot-local"
    oracle = "an oracle: chosen by the whole trace" if is_hot else None
    how = None if question.warm_up is not None else "until the miss ratio is that of the second half"
    if question.warm_up is None and not question.is_of_lru:
        how = "half of the trace, which chooses static sets"
    if (fleet := question.fleet) is not None:
        given += [
            ("fleet: queries", fleet.rate, "queries/s"),
            ("fleet: DRAM of a host", fleet.host_dram_bytes, "B"),
            ("fleet: queries of a host", fleet.host_rate, "queries/s"),
        ]
        names = ("fleet: a host without DRAM", "fleet: a GB of DRAM", "fleet: a device")
        given += [(name, value, "W") for name, value in zip(names, fleet.watts or (), strict=False)]
    return [
        *(Parameter(name=name, value=value, unit=None, source="measured", note=place) for name, value in of_trace),
        Parameter(
            name="row size" if not is_unlike(trace) else "unit of rows, which differ in size",
            value=question.row_bytes,
            unit="B",
            source="given",
            note=_OF_ROWS,
        ),
        Parameter(name="placement", value=question.placement, unit=None, source="given", note=oracle),
        Parameter(
            name="warm-up",
            value=first / trace.num_queries,
            unit="share",
            source="measured" if question.warm_up is None else "given",
            note=how,
        ),
        *(Parameter(name=name, value=value, unit=unit, source="given", note=None) for name, value, unit in given),
        *(each for name, tier in question.tiers.items() for each in list_parameters(name, tier)),
    ]

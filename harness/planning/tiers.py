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
)
from harness.planning.trace import FLOAT_BYTES, merged_curve, read_trace, table_curve
from reference_models.data.traces.stack_distances import MissRatioCurve, StackDistances
from reference_models.data.traces.trace import AccessTrace
from reports.text.formatting import duration
from rules.benchmarks.loader import Benchmark
from rules.records.study import Cell, Origin, Parameter, StudyCheck, StudyRecord, StudyTable

PUBLISHED_SPEEDUP, PUBLISHED_POWER = 3.89, "5 % to 29 %, other models"
"""PIFS-Rec's abstract, switch pooling over pooling at the host (Pond); and that of software-defined memory (2021)."""
_SOLVED = ("read_latency_s", "host_reads_in_flight", "pool_reads_in_flight", "link_bytes_per_s")

Columns = Sequence[tuple[str, str | None, Origin]]


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
class _CacheCase:
    """The reads that one cache leaves, and of how many accesses."""

    share: float | None
    num_rows: int
    reads: RemoteReads
    miss_ratio: float
    cold_ratio: float


def tiers_study(trace: AccessTrace, question: TierQuestion, benchmark: Benchmark | None, place: str) -> StudyRecord:
    """Simulate what the rows of a trace cost where they are not in DRAM: one row per tier, cache and pool."""
    cases = list(_make_cases(trace, question))
    findings, checks, needs, waits = (
        list[str](),
        list[StudyCheck](),
        list[tuple[Cell, ...]](),
        list[tuple[Cell, ...]](),
    )
    for (name, tier), case in product(question.tiers.items(), cases):
        needs.append(_say_need(name, tier, case, question))
        rows, said, made = _say_waits(name, tier, case, question)
        waits, findings, checks = waits + rows, findings + said, checks + made
    if not any(case.reads.rows.any() for case in cases):
        findings.insert(0, "Nothing is remote: local memory and cache hold every row.")
    case = cases[0]
    tables = [
        make_table("What has to be read from the tier", _NEEDS, needs),
        make_table("What a query waits for", _WAITS, waits),
        *_fit(trace, question),
        *_power(question),
    ]
    if "switch" in question.pools and "host" in question.pools and case.reads.rows.any():
        tables.insert(2, _solve(case, question))
        findings.append(
            f"Published for pooling in the switch over pooling at the host: {PUBLISHED_SPEEDUP}x, other traces."
        )
    return make_study(
        "tiers",
        f"Embedding rows below DRAM, simulated: {place}",
        benchmark,
        seed=question.seed,
        tables=tables,
        parameters=_list_parameters(trace, question, place),
        findings=findings,
        checks=checks,
    )


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


def _make_cases(trace: AccessTrace, question: TierQuestion) -> Iterator[_CacheCase]:
    """Count what each cache leaves to read; the cache is of rows that are not in local memory."""
    num_rows, num_tables = sum(trace.num_rows), len(trace.num_rows)
    keys, tables, samples = (np.concatenate(each) for each in zip(*trace.in_order(), strict=True))
    num_local = min(num_rows, question.local_bytes // question.row_bytes)
    devices = place_rows(keys, num_rows, num_local, question.num_devices, question.placement)
    is_remote = devices >= 0
    remote = keys[is_remote], tables[is_remote], samples[is_remote], devices[is_remote]
    distances = StackDistances().update(remote[0], np.ones(len(remote[0]))) if any(question.caches) else None
    for share in question.caches:
        size = 0 if share is None else max(1, round(share * num_rows))
        is_missed = np.ones(len(remote[0]), dtype=bool) if distances is None or not size else distances >= size
        reads = count_reads(
            *(each[is_missed] for each in (remote[2], remote[1], remote[3])),
            num_samples=trace.num_bags, num_tables=num_tables, num_devices=question.num_devices,
        )  # fmt: skip
        cold = 0 if distances is None else int(np.isinf(distances).sum())
        yield _CacheCase(
            share=share,
            num_rows=size,
            reads=reads,
            miss_ratio=int(is_missed.sum()) / max(1, len(keys)),
            cold_ratio=cold / max(1, len(keys)),
        )


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


def _say_need(name: str, tier: Tier, case: _CacheCase, question: TierQuestion) -> tuple[Cell, ...]:
    per_query = float(case.reads.rows.sum(axis=1).mean()) * tier.granules(question.row_bytes)
    available = tier.reads_per_s.value * question.num_devices
    needed = None if question.rate is None else per_query * question.rate
    amplification = tier.granules(question.row_bytes) * tier.granule_bytes.value / question.row_bytes
    load = None if needed is None else needed / available
    return (name, case.share, case.num_rows, case.miss_ratio, case.cold_ratio, needed, available, load, amplification)


def _say_waits(
    name: str, tier: Tier, case: _CacheCase, question: TierQuestion
) -> tuple[list[tuple[Cell, ...]], list[str], list[StudyCheck]]:
    """Simulate each pool; one that the rate is too high for is said to be impossible. Speed-ups are over the host."""
    rows, findings, checks = list[tuple[Cell, ...]](), list[str](), list[StudyCheck]()
    label = name if case.share is None else f"{name}, cache of {case.share:.3g}"
    bases = _mean_range("host", tier, case, question)
    for pool in question.pools:
        of_devices, of_host = link_bytes(case.reads, tier, pool, question.row_bytes)
        sizes = float(of_devices.sum(axis=1).mean()), float(of_host.mean())
        if pool != "switch":
            checks.append(
                make_check(f"bytes over device and host links, {label}, {pool}", expected=sizes[0], found=sizes[1])
            )
        load = _busiest(tier, pool, case, question)
        if load >= 1:
            findings.append(
                f"{label}, pooled by the {pool}: {question.rate:g} queries/s are impossible, not simulated: a device "
                f"would be busy {load:.3g} of the time."
            )
            rows.append((name, case.share, pool, *sizes, *[None] * 9))
            continue
        waits = _simulate(tier, pool, case, question)
        total, means = waits.total, _mean_range(pool, tier, case, question)
        ratios = [base / mean if base and mean else None for base, mean in zip(bases, means, strict=True)]
        known = [ratio for ratio in ratios if ratio is not None]
        parts = (float(part.mean()) for part in (waits.queue, waits.device, waits.link, waits.adds))
        mean, p99 = float(total.mean()), percentile_of(total, 0.99)
        spread = (ratios[0], min(known, default=None), max(known, default=None))
        rows.append((name, case.share, pool, *sizes, *parts, mean, p99, *spread))
        gain = f", {ratios[0]:.2f} times as fast as by the host" if pool != "host" and ratios[0] else ""
        findings.append(
            f"{label}, pooled by the {pool}: a query waits {duration(mean)} on average and {duration(p99)} at p99"
            f"{gain} (simulated)."
        )
    return rows, findings, checks


def _busiest(tier: Tier, pool: Pool, case: _CacheCase, question: TierQuestion) -> float:
    """Return the share of the time that the busiest device would be busy."""
    return float(service_s(case.reads, tier, pool, question.row_bytes).mean(axis=0).max()) * (question.rate or 0.0)


def _simulate(tier: Tier, pool: Pool, case: _CacheCase, question: TierQuestion) -> Waits:
    return simulate_waits(case.reads, tier, pool, question.row_bytes, rate=question.rate, seed=question.seed)


def _mean_range(pool: Pool, tier: Tier, case: _CacheCase, question: TierQuestion) -> list[float | None]:
    """Return the mean latency that is added: with the tier's latencies, and at both ends of their ranges."""
    latency, hop, found = tier.read_latency_s, tier.switch_latency_s, list[float | None]()
    for end, hop_end in ((None, None), (latency.low, hop.low), (latency.high, hop.high)):
        other = change(
            tier,
            read_latency_s=latency if end is None else change(latency, value=end, tail=()),
            switch_latency_s=hop if hop_end is None else change(hop, value=hop_end),
        )
        is_possible = _busiest(other, pool, case, question) < 1
        found.append(float(_simulate(other, pool, case, question).total.mean()) if is_possible else None)
    return found


def _solve(case: _CacheCase, question: TierQuestion) -> StudyTable:
    """Find the value of each parameter, the others as they are, at which the speed-up would be the published one."""
    unloaded, rows = replace(question, rate=None), list[tuple[Cell, ...]]()
    for (name, tier), member in product(question.tiers.items(), _SOLVED):
        quantity = getattr(tier, member)

        def miss(power: float, tier: Tier = tier, member: str = member) -> float:
            quantity = getattr(tier, member)
            other = change(tier, **{member: change(quantity, value=quantity.value * 2.0**power, tail=())})
            host, switch = (float(_simulate(other, pool, case, unloaded).total.mean()) for pool in ("host", "switch"))
            return host / switch - PUBLISHED_SPEEDUP

        is_crossed = miss(-6.0) * miss(6.0) < 0
        found = quantity.value * 2.0 ** float(brentq(miss, -6.0, 6.0, xtol=1e-3)) if is_crossed else None
        rows.append((name, member, quantity.value, found, "3.89x, other traces"))
    columns: Columns = (
        ("Tier", None, "given"), ("Parameter", None, "given"), ("Here", None, "given"),
        (f"For {PUBLISHED_SPEEDUP}x", None, "simulated"), ("PIFS-Rec over Pond", None, "published"),
    )  # fmt: skip
    return make_table(
        "Where pooling in the switch would gain what was published: one value changed, none waits", columns, rows
    )


def _fit(trace: AccessTrace, question: TierQuestion) -> Iterator[StudyTable]:
    """Size caches: the smallest for a hit rate, and a memory shared among tables."""
    if question.hit_rate is not None:
        curve: MissRatioCurve = merged_curve(trace)
        size = find_size(curve, question.hit_rate)
        columns: Columns = (
            ("Hit rate", "share", "given"), ("Cache rows", None, "computed"), ("Cache", "share", "computed"),
            ("Memory", "B", "computed"), ("Highest hit rate", "share", "computed"),
        )  # fmt: skip
        share = None if size is None else size / sum(trace.num_rows)
        memory = None if size is None else size * question.row_bytes
        row = (question.hit_rate, size, share, memory, 1 - curve.num_cold / curve.num_lookups)
        yield make_table("The smallest LRU cache of all tables that hits so often", columns, [row])
    if question.fit_bytes is not None:
        curves = [table_curve(trace, table) for table in range(len(trace.num_rows))]
        fitted, uniform = fit_caches(curves, trace.num_rows, question.fit_bytes // question.row_bytes)
        columns = (
            ("Table", None, "given"), ("Rows", None, "given"), ("Cache rows", None, "computed"),
            ("Miss ratio", "share", "computed"),
            ("Uniform rows", None, "computed"), ("Uniform misses", "share", "computed"),
        )  # fmt: skip
        total = max(1, sum(curve.num_lookups for curve in curves))
        rows: list[tuple[Cell, ...]] = [
            ("all", sum(trace.num_rows), sum(fitted), count_misses(curves, fitted) / total, sum(uniform),
             count_misses(curves, uniform) / total),
            *(
                (str(table), num, size, curve.miss_ratio(size), alike, curve.miss_ratio(alike))
                for table, (num, size, alike, curve) in enumerate(
                    zip(trace.num_rows, fitted, uniform, curves, strict=True)
                )
            ),
        ]  # fmt: skip
        yield make_table(
            "A memory shared among tables, by fewest misses and by one load factor for all", columns, rows
        )


def _power(question: TierQuestion) -> Iterator[StudyTable]:
    """Difference of two fleets' watts: hosts x watts of both, as they were given."""
    if not question.fleet:
        return
    watts = [hosts * each for hosts, each in question.fleet]
    rows = [
        (name, hosts, each, total, 1 - total / watts[0], PUBLISHED_POWER if name == "with the tier" else None)
        for name, (hosts, each), total in zip(("all in DRAM", "with the tier"), question.fleet, watts, strict=True)
    ]
    columns: Columns = (
        ("Fleet", None, "given"), ("Hosts", None, "given"), ("Watts a host", "W", "given"),
        ("Fleet watts", "W", "computed"), ("Saved", "share", "computed"),
        ("Software-defined memory", None, "published"),
    )  # fmt: skip
    yield make_table("Fleet power", columns, rows)


def _list_parameters(trace: AccessTrace, question: TierQuestion, place: str) -> list[Parameter]:
    given: list[tuple[str, Cell, str | None]] = [
        ("rows of all tables", sum(trace.num_rows), None), ("queries of the trace", trace.num_bags, None),
        ("row size", question.row_bytes, "B"), ("query rate", question.rate, "queries/s"),
        ("devices", question.num_devices, None), ("placement", question.placement, None),
        ("local memory", question.local_bytes, "B"),
        ("fleet power", "in its table" if question.fleet else "not given", None),
    ]  # fmt: skip
    return [
        *(
            Parameter(
                name=name, value=None if isinstance(value, tuple) else value, unit=unit, source="given", note=place
            )
            for name, value, unit in given
        ),
        *(each for name, tier in question.tiers.items() for each in list_parameters(name, tier)),
    ]

"""Make the study of a simulated queue: latency against the rate of queries, simulated from measured service times."""

from collections.abc import Sequence

import numpy as np

from harness.extensions.serving.bound import most_per_s
from harness.extensions.serving.config import ServeConfig
from harness.foundation.queue_simulation import ServiceTimes, Traffic, Workers, answer_alone, percentile_of, simulate
from harness.foundation.study import make_check, make_study, make_table
from reports.text.formatting import duration, percent
from rules.benchmarks.loader import Benchmark
from rules.records.study import Origin, Parameter, Scalar, Source, StudyCheck, StudyRecord

PERCENTILES = (50.0, 90.0, 95.0, 99.0)
_Row = tuple[float | None, ...]
"""Row of the table of latency against rate: rate in queries/s, utilisation of the workers, mean latency in s, and
latency in s at each of `PERCENTILES`."""
_FULL = 0.999
"""Share of the workers' capacity, in queries per second, from which the workers count as fully busy."""
_BESIDE_SERVE = (
    "Calls were timed one after another, while no query waited; with 'serve', LoadGen asks the model itself, under "
    "load. Both depend on the other load of the system meanwhile, which both record: on a noisy machine the two may "
    "differ much."
)


def make_queue_study(
    benchmark: Benchmark,
    serve: ServeConfig,
    seed: int,
    rates: Sequence[float],
    traffic: Traffic,
    service: ServiceTimes,
    workers: Workers,
    overhead_s: float | None,
) -> StudyRecord:
    """Simulate the same queries at each of `rates` (ascending, in queries per second). Latencies include LoadGen's
    overhead if it was measured. The workers must be able to answer at least one of the rates.

    Rates at which the workers are fully busy are left out: the queue would grow without end, and the latencies would
    depend only on the number of simulated queries. The study checks the simulation at half the highest rate by
    Little's law: the mean number of queries in the system must equal the rate times the mean latency.
    """
    mean_s = float(answer_alone(traffic, service, workers).mean())
    full_per_s = most_per_s(traffic, service, workers)
    if workers.max_items is None:
        full_per_s = min(full_per_s, workers.count / mean_s)
    stable = [rate for rate in rates if rate < _FULL * full_per_s]
    rows, best = list[_Row](), None
    for rate in stable:
        latencies_s = simulate(traffic, rate, service, workers) + (overhead_s or 0.0)
        at = (percentile_of(latencies_s, percentile / 100) for percentile in PERCENTILES)
        utilisation = rate * mean_s / workers.count if workers.max_items is None else None
        rows.append((rate, utilisation, float(latencies_s.mean()), *at))
        if serve.limit_s is not None and percentile_of(latencies_s, serve.share) <= serve.limit_s:
            best = rows[-1]
    columns: tuple[tuple[str, str, Origin], ...] = (
        ("Queries/s", "queries/s", "given"),
        ("Utilisation", "share", "computed"),
        ("Mean latency", "s", "simulated"),
        *((f"p{percentile:g}", "s", "simulated") for percentile in PERCENTILES),
    )
    return make_study(
        "queue",
        _answer(benchmark, serve, best, rows, full_per_s),
        benchmark,
        seed=seed,
        parameters=_list_parameters(serve, mean_s, overhead_s, workers, len(traffic.items)),
        tables=(make_table("Equal traffic at every rate", columns, rows),),
        findings=[_BESIDE_SERVE] if overhead_s is None else [],
        checks=(_check_little(stable[-1] / 2, traffic, service, workers),),
    )


def _answer(
    benchmark: Benchmark, serve: ServeConfig, best: _Row | None, rows: Sequence[_Row], full_per_s: float
) -> str:
    """Return a title with the highest simulated rate within the latency limit; without a limit, with the mean latency
    at the lowest rate."""
    if serve.limit_s is not None:
        promise = f"within {serve.limit_s * 1e3:g} ms at p{serve.percentile:g}, simulated"
        if best is None:
            return f"{benchmark.name}: none of these rates is {promise}"
        rate, utilisation, *_ = best
        busy = "" if utilisation is None else f", {percent(utilisation)} busy,"
        unbound = f"; it is the highest rate asked below {full_per_s:,.4g}, where the workers are fully busy"
        return f"{benchmark.name}: {rate:,.4g} queries/s{busy} stays {promise}{unbound if best is rows[-1] else ''}"
    rate, _, mean_s, *_ = rows[0]
    assert rate is not None and mean_s is not None
    return f"{benchmark.name}: a query takes {duration(mean_s)} on average at {rate:,.4g} queries/s, simulated"


def _list_parameters(
    serve: ServeConfig, mean_s: float, overhead_s: float | None, workers: Workers, num_simulated: int
) -> tuple[Parameter, ...]:
    """List the parameters of a queue's simulation, without those that are not measured or do not apply."""
    merges = workers.max_items is not None
    rows: tuple[tuple[str, Scalar, str | None, Source, str | None], ...] = (
        ("mean service time", mean_s, "s", "measured", "of a query alone"),
        ("overhead", overhead_s, "s", "measured", "of LoadGen, the median"),
        ("limit", serve.limit_s, "s", "given", f"at p{serve.percentile:g}"),
        ("workers", workers.count, None, "given", "serve.threads, or chosen by timing"),
        ("items a call", workers.max_items, None, "given", "serve.batch, the most, or chosen by timing")
        if merges
        else ("items a call", "one query's", None, "default", "serve.batch"),
        ("wait of a batch", workers.wait_s if merges else None, "s", "given", "serve.batch_wait_ms"),
        ("queries", serve.queries_label, None, "given", "items of each"),
        ("simulated queries", num_simulated, None, "default", None),
    )
    return tuple(
        Parameter(name=name, value=value, unit=unit, source=source, note=note)
        for name, value, unit, source, note in rows
        if value is not None
    )


def _check_little(rate: float, traffic: Traffic, service: ServiceTimes, workers: Workers) -> StudyCheck:
    """Check Little's law: count the queries in the system at evenly spaced times, while queries arrive."""
    latencies_s = simulate(traffic, rate, service, workers)
    arrivals_s = traffic.arrivals_s / rate
    ends_s = np.sort(arrivals_s + latencies_s)
    moments_s = np.linspace(arrivals_s[0], arrivals_s[-1], len(arrivals_s))
    there = np.searchsorted(arrivals_s, moments_s, "right") - np.searchsorted(ends_s, moments_s, "right")
    expected, found = rate * float(latencies_s.mean()), float(there.mean())
    return make_check("Little's law, queries in the system", expected=expected, found=found, tolerance=0.05)

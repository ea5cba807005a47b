"""The virtual clock's table as a study: latency against rate, computed from the service times that were measured."""

from collections.abc import Sequence

from harness.config.serving import ServeConfig
from harness.foundation.study import make_check, make_study, make_table
from harness.measure.serving.queue import ServiceTimes, Traffic, Workers, answer_alone, percentile_of, simulate
from rules.benchmarks.loader import Benchmark
from rules.records.study import Origin, Parameter, StudyCheck, StudyRecord

PERCENTILES = (50.0, 90.0, 95.0, 99.0)


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
    """Simulate equal traffic at each of `rates`, rising, in queries per second; latencies are with LoadGen's
    overhead, where that was measured.

    The check is Little's law at half the highest rate: queries that are there, on average over time, are the rate
    times the mean latency.
    """
    mean_s = float(answer_alone(traffic, service, workers).mean())
    rows, most = [], None
    for rate in rates:
        latencies_s = simulate(traffic, rate, service, workers) + (overhead_s or 0.0)
        if serve.limit_s is not None and percentile_of(latencies_s, serve.share) <= serve.limit_s:
            most = rate
        at = (percentile_of(latencies_s, percentile / 100) for percentile in PERCENTILES)
        utilisation = rate * mean_s / workers.count if workers.max_items is None else None
        rows.append((rate, utilisation, float(latencies_s.mean()), *at))
    columns: tuple[tuple[str, str, Origin], ...] = (
        ("Queries/s", "queries/s", "given"),
        ("Utilisation", "share", "computed"),
        ("Mean latency", "s", "simulated"),
        *((f"p{percentile:g}", "s", "simulated") for percentile in PERCENTILES),
    )
    return make_study(
        "queue",
        f"Latency of {benchmark.name} against load, on a virtual clock",
        benchmark,
        seed=seed,
        parameters=(
            Parameter(name="mean service time", value=mean_s, unit="s", source="measured", note="of a query alone"),
            *_limit_parameters(serve, overhead_s),
            Parameter(name="workers", value=workers.count, unit=None, source="given", note="serve.threads"),
            *_batch_parameters(workers),
            Parameter(name="queries", value=serve.queries, unit=None, source="given", note="items of each"),
            Parameter(name="simulated queries", value=len(traffic.items), unit=None, source="default", note=None),
        ),
        tables=(make_table("Equal traffic at every rate", columns, rows),),
        findings=_say_most(benchmark, serve, most),
        checks=(_check_little(rates[-1] / 2, traffic, service, workers),),
    )


def _say_most(benchmark: Benchmark, serve: ServeConfig, most: float | None) -> tuple[str, ...]:
    if serve.limit_s is None:
        return ()
    promise = f"within {serve.limit_s * 1e3:g} ms at p{serve.percentile:g}"
    if most is None:
        return (f"{benchmark.name}: no rate of these is {promise}, simulated.",)
    return (f"{benchmark.name}: {most:,.4g} queries/s is the highest of these rates {promise}, simulated.",)


def _limit_parameters(serve: ServeConfig, overhead_s: float | None) -> tuple[Parameter, ...]:
    found: tuple[Parameter, ...] = ()
    if overhead_s is not None:
        found += (
            Parameter(name="overhead", value=overhead_s, unit="s", source="measured", note="of LoadGen, the median"),
        )
    if serve.limit_s is not None:
        note = f"at p{serve.percentile:g}"
        found += (Parameter(name="limit", value=serve.limit_s, unit="s", source="given", note=note),)
    return found


def _batch_parameters(workers: Workers) -> tuple[Parameter, ...]:
    if workers.max_items is None:
        return (Parameter(name="items a call", value="one query's", unit=None, source="default", note="serve.batch"),)
    return (
        Parameter(
            name="items a call", value=workers.max_items, unit=None, source="given", note="serve.batch, the most"
        ),
        Parameter(name="wait of a batch", value=workers.wait_s, unit="s", source="given", note="serve.batch_wait_ms"),
    )


def _check_little(rate: float, traffic: Traffic, service: ServiceTimes, workers: Workers) -> StudyCheck:
    """Count who is there when each query arrives, which Poisson arrivals see as it is on average over time."""
    latencies_s = simulate(traffic, rate, service, workers)
    arrivals_s = traffic.arrivals_s / rate
    ends_s = sorted((arrivals_s + latencies_s).tolist())
    there, done = 0, 0
    for number, arrival_s in enumerate(arrivals_s.tolist()):
        while ends_s[done] <= arrival_s:
            done += 1
        there += number - done
    expected, found = rate * float(latencies_s.mean()), there / len(latencies_s)
    return make_check("Little's law, queries in the system", expected=expected, found=found, tolerance=0.05)

"""The simulated queue against schedules made by hand, queueing theory, and what must hold of any queue."""

import json
import math
from typing import Any

import numpy as np
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.extensions.serving.bound import Limit, model_bound, most_per_s
from harness.extensions.serving.config import parse_serve
from harness.extensions.serving.study import make_queue_study
from harness.foundation.queue_simulation import (
    ServiceTimes,
    Traffic,
    Workers,
    draw_traffic,
    finish_batches,
    finish_singly,
    percentile_of,
    simulate,
)
from rules.benchmarks.loader import load_benchmark
from rules.records.codec import convert, encode
from rules.records.study import StudyRecord

NUM_QUERIES = 400_000
SEEDS = range(5)


def floats(*values: float) -> Any:
    return np.array(values, dtype=np.float64)


def a_second_per_item(largest: int = 64) -> ServiceTimes:
    return ServiceTimes(by_items_s=np.arange(largest + 1.0), factors=floats(1.0))


def constant(seconds: float, largest: int = 1) -> ServiceTimes:
    return ServiceTimes(by_items_s=np.full(largest + 1, seconds), factors=floats(1.0))


def exponential(seconds: float) -> ServiceTimes:
    """Of so many factors that their own chance matters little: the quantiles of the exponential distribution."""
    levels = (np.arange(20_000) + 0.5) / 20_000
    return ServiceTimes(by_items_s=floats(seconds, seconds), factors=-np.log1p(-levels))


def test_one_worker_by_hand() -> None:
    finished = finish_singly(floats(0, 1, 2, 10), floats(3, 3, 1, 2), 1)
    assert finished.tolist() == [3, 6, 7, 12]


def test_two_workers_by_hand() -> None:
    finished = finish_singly(floats(0, 1, 2, 3), floats(4, 1, 1, 5), 2)
    assert finished.tolist() == [4, 2, 3, 8]


def batches(arrivals: tuple[float, ...], items: tuple[int, ...], workers: Workers) -> list[float]:
    ones = np.ones(len(arrivals))
    found = finish_batches(floats(*arrivals), np.array(items), ones, a_second_per_item(), workers)
    return [float(value) for value in found]


def test_what_has_arrived_while_a_worker_was_busy_is_one_call() -> None:
    # The first goes alone until 2; by then the second and third are there: 2 + 1 + 3 = 6; the last until 7.
    assert batches((0, 1, 2, 5), (2, 1, 3, 1), Workers(max_items=4)) == [2, 6, 6, 7]


def test_a_full_call_does_not_wait() -> None:
    assert batches((0, 1, 2), (1, 1, 1), Workers(max_items=2, wait_s=10)) == [3, 3, 13]


def test_a_call_that_the_next_query_does_not_fit_is_full() -> None:
    # From 1 on, when the second comes, until 4; that one waits its ten, from 11 to 13.
    assert batches((0, 1), (3, 2), Workers(max_items=4, wait_s=10)) == [4, 13]


def test_a_call_that_is_not_full_waits_until_its_first_query_is_that_old() -> None:
    assert batches((0, 1, 9), (1, 1, 1), Workers(max_items=8, wait_s=4)) == [6, 6, 14]


def test_a_second_worker_begins_the_next_call_while_the_first_works() -> None:
    assert batches((0, 0, 1, 1), (5, 5, 1, 1), Workers(count=2, max_items=10)) == [10, 10, 3, 3]


def test_a_query_that_was_waiting_when_the_limit_passed_goes_at_once() -> None:
    # The worker is busy until 8.5; the query of 1 has waited longer than its limit by then.
    assert batches((0, 1), (8, 1), Workers(max_items=9, wait_s=0.5)) == [8.5, 9.5]


def test_a_large_query_is_split_among_workers_and_answered_with_its_last_part() -> None:
    # Parts of 4, 3 and 3 items: until 4; until 3; by the second worker again, from 3 to 6.
    assert batches((0,), (10,), Workers(count=2, max_items=4)) == [6]


def test_the_last_part_of_a_query_shares_its_call_with_the_next_query() -> None:
    # Parts of 3 and 2 do not fit a call; the second is with the query of 1, from 3 to 6.
    assert batches((0, 0), (5, 1), Workers(max_items=4)) == [6, 6]


def test_parts_are_alike_and_as_few_as_fit() -> None:
    found = [Workers(max_items=most).split(10) for most in (None, 10, 9, 4, 1)]
    assert found == [
        [10],
        [10],
        [5, 5],
        [4, 3, 3],
        [1] * 10,
    ]


def mean_latency_s(load: float, service: ServiceTimes, workers: Workers) -> float:
    """Mean over several seeds, all queries together: what holds of the clock holds whatever is drawn."""
    mean_s = float(service.by_items_s[1] * service.factors.mean())
    found = [
        simulate(traffic, load * workers.count / mean_s, service, workers).mean()
        for traffic in (draw_traffic(NUM_QUERIES // len(SEEDS), (1,), service, seed) for seed in SEEDS)
    ]
    return float(np.mean(found))


@pytest.mark.parametrize("load", (0.5, 0.8, 0.9))
def test_constant_service_has_the_mean_of_pollaczek_and_khinchine(load: float) -> None:
    found = mean_latency_s(load, constant(0.01), Workers())
    assert found == pytest.approx(0.01 * (1 + load / (2 * (1 - load))), rel=0.03)


def erlang_c(num_workers: int, offered: float) -> float:
    """The probability that a query waits, of M/M/c."""
    waiting = offered**num_workers / math.factorial(num_workers) * num_workers / (num_workers - offered)
    return waiting / (sum(offered**k / math.factorial(k) for k in range(num_workers)) + waiting)


@pytest.mark.slow
@pytest.mark.parametrize("num_workers", (1, 2, 4))
@pytest.mark.parametrize("load", (0.5, 0.8, 0.9))
def test_exponential_service_has_the_mean_of_erlang(load: float, num_workers: int) -> None:
    found = mean_latency_s(load, exponential(0.01), Workers(count=num_workers))
    waits = erlang_c(num_workers, load * num_workers) * 0.01 / (num_workers * (1 - load))
    assert found == pytest.approx(0.01 + waits, rel=0.03)


@pytest.mark.slow
def test_the_percentile_of_one_exponential_worker_is_known() -> None:
    service = exponential(0.01)
    latencies_s = [simulate(draw_traffic(NUM_QUERIES, (1,), service, seed), 50, service, Workers()) for seed in SEEDS]
    found = float(np.mean([percentile_of(each, 0.99) for each in latencies_s]))
    assert found == pytest.approx(-math.log(0.01) / (100 - 50), rel=0.03)


def test_a_percentile_is_the_value_that_loadgen_takes() -> None:
    assert percentile_of(floats(*range(100, 0, -1)), 0.95) == 96
    assert percentile_of(floats(7), 0.99) == 7


ARRIVALS = st.lists(st.floats(0, 10), min_size=1, max_size=40).map(sorted)


@settings(max_examples=examples(150), deadline=None)
@given(ARRIVALS, st.integers(1, 3), st.integers(1, 12), st.floats(0, 3), st.randoms(use_true_random=False))
def test_what_holds_of_any_queue(
    arrivals: list[float], count: int, max_items: int, wait_s: float, random: Any
) -> None:
    items = np.array([random.randint(1, 30) for _ in arrivals])
    factors = np.array([random.uniform(0.5, 2) for _ in arrivals])
    service = ServiceTimes(by_items_s=np.linspace(0.1, 1, 64), factors=factors)
    arrived = np.array(arrivals)
    finished = finish_batches(
        arrived, items, factors, service, Workers(count=count, max_items=max_items, wait_s=wait_s)
    )
    assert (finished >= arrived + 0.05).all()
    ends, sizes = np.unique(finished, return_counts=True)
    assert sizes.max() <= max_items * count and len(ends) * max_items * count >= len(arrivals)
    # No worker idles beyond the limit: all is done when each part was alone, one after the other, and had waited.
    num_parts = sum(len(Workers(max_items=max_items).split(size)) for size in items.tolist())
    assert finished.max() <= arrived.max() + (wait_s + 2 * service.by_items_s.max()) * num_parts


@settings(max_examples=examples(150), deadline=None)
@given(ARRIVALS, st.integers(1, 3), st.integers(1, 5), st.randoms(use_true_random=False))
def test_calls_of_one_query_are_queries_alone(arrivals: list[float], count: int, size: int, random: Any) -> None:
    items = np.full(len(arrivals), size)
    factors = np.array([random.uniform(0.5, 2) for _ in arrivals])
    service = ServiceTimes(by_items_s=np.linspace(0, 1, 8), factors=factors)
    alone = finish_singly(np.array(arrivals), service.of(items, factors), count)
    merged = finish_batches(np.array(arrivals), items, factors, service, Workers(count=count, max_items=size))
    assert merged == pytest.approx(alone, rel=1e-12)


@settings(max_examples=examples(60), deadline=None)
@given(ARRIVALS, st.integers(1, 4), st.integers(2, 8))
def test_with_workers_enough_a_query_takes_as_long_as_a_part(
    arrivals: list[float], num_parts: int, size: int
) -> None:
    items = np.full(len(arrivals), num_parts * size)
    workers = Workers(count=len(arrivals) * num_parts, max_items=size)
    service = ServiceTimes(by_items_s=np.linspace(0, 1, size + 1), factors=np.ones(1))
    finished = finish_batches(np.array(arrivals), items, np.ones(len(arrivals)), service, workers)
    assert finished == pytest.approx(np.array(arrivals) + service.by_items_s[size], rel=1e-12)


@settings(max_examples=examples(60), deadline=None)
@given(ARRIVALS, st.integers(1, 4), st.randoms(use_true_random=False))
def test_another_worker_never_makes_a_query_later(arrivals: list[float], count: int, random: Any) -> None:
    took = np.array([random.uniform(0.1, 4) for _ in arrivals])
    few, many = (np.sort(finish_singly(np.array(arrivals), took, number)) for number in (count, count + 1))
    assert (many <= few + 1e-9).all()


def test_a_higher_rate_never_answers_sooner_since_all_else_is_equal() -> None:
    service = ServiceTimes(by_items_s=np.linspace(0.001, 0.01, 65), factors=np.linspace(0.8, 1.4, 50))
    for seed in SEEDS:
        traffic = draw_traffic(4000, (16, 32, 64), service, seed)
        most = most_per_s(traffic, service, Workers(count=2))
        found = [
            percentile_of(simulate(traffic, rate, service, Workers(count=2)), 0.95)
            for rate in np.linspace(0.1, 1, 12) * most
        ]
        assert found == sorted(found)


@pytest.mark.slow
def test_the_bound_is_the_rate_at_which_the_percentile_meets_the_limit() -> None:
    service = exponential(0.01)
    for seed in SEEDS:
        traffic = draw_traffic(NUM_QUERIES // 4, (1,), service, seed)
        bound = model_bound(traffic, service, Workers(), Limit(seconds=0.1, share=0.95))
        assert bound.rate == pytest.approx(100 + math.log(0.05) / 0.1, rel=0.03)
        assert [rate for rate, _ in bound.curve] == sorted(rate for rate, _ in bound.curve)


def test_no_rate_meets_a_limit_below_the_service_time() -> None:
    service = constant(0.02)
    traffic = draw_traffic(2000, (1,), service, seed=1)
    assert model_bound(traffic, service, Workers(), Limit(seconds=0.01, share=0.95)).rate is None


def test_a_limit_that_is_hardly_met_is_met_at_a_low_rate() -> None:
    service = constant(0.02)
    traffic = draw_traffic(20_000, (1,), service, seed=1)
    bound = model_bound(traffic, service, Workers(), Limit(seconds=0.0201, share=0.95))
    assert bound.rate is not None and 0 < bound.rate < 5


@pytest.mark.slow
def test_the_bound_of_a_batch_that_waits_is_where_latency_rises_again() -> None:
    """Merging: at a low rate a query waits its whole time limit, at a high one the batch is full before."""
    service = constant(0.010, largest=8)
    traffic = draw_traffic(20_000, (1,), service, seed=1)
    workers = Workers(max_items=8, wait_s=0.2)
    bound = model_bound(traffic, service, workers, Limit(seconds=0.05, share=0.95))
    assert bound.rate is not None and bound.rate > 8 / 0.010 * 0.5
    assert bound.curve[0][1] > 0.05


def test_equal_seeds_draw_equal_traffic() -> None:
    service = constant(1.0, largest=9)
    one, two, other = (draw_traffic(50, (1, 9), service, seed) for seed in (5, 5, 6))
    assert (one.arrivals_s == two.arrivals_s).all() and (one.items == two.items).all()
    assert (one.arrivals_s[:-1] != other.arrivals_s[:-1]).all()
    assert isinstance(one, Traffic)


@pytest.mark.slow
@pytest.mark.parametrize("workers", (Workers(), Workers(count=2, max_items=128, wait_s=0.002), Workers(max_items=24)))
def test_the_table_of_a_simulation_is_a_study_that_keeps_littles_law(workers: Workers) -> None:
    by_items_s = np.linspace(0.001, 0.02, 1 + (workers.max_items or 64))
    service = ServiceTimes(by_items_s=by_items_s, factors=np.linspace(0.8, 1.4, 50))
    serve = parse_serve({"target_latency_ms": 25})
    for seed in SEEDS:
        traffic = draw_traffic(6000, (16, 32, 64), service, seed)
        most = most_per_s(traffic, service, workers)
        rates = (most / 10, most / 2, most * 0.9)
        study = make_queue_study(load_benchmark("dlrm_tiny"), serve, seed, rates, traffic, service, workers, 0.001)
        (check,), (table,) = study.checks, study.tables
        assert study.title.startswith("dlrm_tiny: ") and "within 25 ms at p95, simulated" in study.title
        assert check.is_passed, (check.expected, check.found)
        assert decode_study(encode(study)) == study
        for row in table.rows:
            assert list(row[3:]) == sorted(row[3:])
        alone = simulate(traffic, most / 10, service, workers)
        assert table.rows[0][2] == pytest.approx(alone.mean() + 0.001)
        origins = {column.name: column.origin for column in table.columns}
        assert (origins["Queries/s"], origins["Utilisation"], origins["p95"]) == ("given", "computed", "simulated")


@pytest.mark.parametrize(
    ("workers", "limit_ms", "said"),
    (
        (
            Workers(),
            1e6,
            "98 queries/s, 98.0 % busy, stays within 1e+06 ms at p95, simulated; it is",
        ),
        (Workers(), 40, "50 queries/s, 50.0 % busy, stays within 40 ms at p95, simulated"),
        (Workers(count=2), 1e6, "100 queries/s, 50.0 % busy, stays within 1e+06 ms at p95, simulated; it is"),
        (Workers(max_items=1), 1e6, "98 queries/s stays within 1e+06 ms at p95, simulated; it is"),
        (Workers(), 1, "none of these rates is within 1 ms at p95, simulated"),
    ),
)
def test_a_rate_that_keeps_the_workers_fully_busy_is_no_answer(workers: Workers, limit_ms: float, said: str) -> None:
    serve, service = parse_serve({"target_latency_ms": limit_ms}), constant(0.01)
    full = 100.0 * workers.count
    rates = sorted((50.0, 98.0, 100.0, full, full * 1.002))
    study = make_queue_study(
        load_benchmark("dlrm_tiny"), serve, 1, rates, draw_traffic(500, (1,), service, 1), service, workers, None
    )
    (table,) = study.tables
    assert study.title.startswith(f"dlrm_tiny: {said}")
    assert study.title.endswith("fully busy") is said.endswith("it is")
    assert [row[0] for row in table.rows] == [rate for rate in dict.fromkeys(rates) if rate < full]


def decode_study(text: str) -> StudyRecord:
    return convert(json.loads(text), StudyRecord)

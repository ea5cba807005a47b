"""The virtual clock against schedules made by hand, queueing theory, and what must hold of any queue."""

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.config.serving import parse_serve
from harness.measure.serving.bound import Limit, model_bound, most_per_s
from harness.measure.serving.queue import (
    ServiceTimes,
    Traffic,
    Workers,
    draw_traffic,
    finish_batches,
    finish_singly,
    percentile_of,
    simulate,
)
from harness.measure.serving.study import make_queue_study
from rules.benchmarks.loader import load_benchmark
from rules.records.codec import convert, encode
from rules.records.study import StudyRecord

NUM_QUERIES = 400_000


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


def test_what_has_arrived_while_a_worker_was_busy_is_one_batch() -> None:
    # The first goes alone until 2; by then the second and third are there: 2 + 1 + 3 = 6; the last until 7.
    assert batches((0, 1, 2, 5), (2, 1, 3, 1), Workers(max_batch=2)) == [2, 6, 6, 7]


def test_a_full_batch_does_not_wait() -> None:
    assert batches((0, 1, 2), (1, 1, 1), Workers(max_batch=2, wait_s=10)) == [3, 3, 13]


def test_a_batch_that_is_not_full_waits_until_its_first_query_is_that_old() -> None:
    assert batches((0, 1, 9), (1, 1, 1), Workers(max_batch=8, wait_s=4)) == [6, 6, 14]


def test_a_second_worker_begins_the_next_batch_while_the_first_works() -> None:
    assert batches((0, 0, 1, 1), (5, 5, 1, 1), Workers(count=2, max_batch=2)) == [10, 10, 3, 3]


def test_a_query_that_was_waiting_when_the_limit_passed_goes_at_once() -> None:
    # The worker is busy until 10; the query of 1 has waited longer than its limit of 2 by then.
    assert batches((0, 1), (8, 1), Workers(max_batch=2, wait_s=0.5)) == [8.5, 9.5]


@pytest.mark.parametrize("load", (0.5, 0.8, 0.9))
def test_constant_service_has_the_mean_of_pollaczek_and_khinchine(load: float) -> None:
    service = constant(0.01)
    traffic = draw_traffic(NUM_QUERIES, (1,), service, seed=3)
    found = simulate(traffic, load / 0.01, service, Workers()).mean()
    assert found == pytest.approx(0.01 * (1 + load / (2 * (1 - load))), rel=0.03)


def erlang_c(num_workers: int, offered: float) -> float:
    """The probability that a query waits, of M/M/c."""
    waiting = offered**num_workers / math.factorial(num_workers) * num_workers / (num_workers - offered)
    return waiting / (sum(offered**k / math.factorial(k) for k in range(num_workers)) + waiting)


@pytest.mark.parametrize("num_workers", (1, 2, 4))
@pytest.mark.parametrize("load", (0.5, 0.8, 0.9))
def test_exponential_service_has_the_mean_of_erlang(load: float, num_workers: int) -> None:
    service = exponential(0.01)
    traffic = draw_traffic(NUM_QUERIES, (1,), service, seed=3)
    rate = load * num_workers / 0.01
    found = simulate(traffic, rate, service, Workers(count=num_workers)).mean()
    waits = erlang_c(num_workers, load * num_workers) * 0.01 / (num_workers * (1 - load))
    assert found == pytest.approx(0.01 + waits, rel=0.03)


def test_the_percentile_of_one_exponential_worker_is_known() -> None:
    service = exponential(0.01)
    traffic = draw_traffic(NUM_QUERIES, (1,), service, seed=3)
    found = percentile_of(simulate(traffic, 50, service, Workers()), 0.99)
    assert found == pytest.approx(-math.log(0.01) / (100 - 50), rel=0.03)


def test_a_percentile_is_the_value_that_loadgen_takes() -> None:
    assert percentile_of(floats(*range(100, 0, -1)), 0.95) == 96
    assert percentile_of(floats(7), 0.99) == 7


ARRIVALS = st.lists(st.floats(0, 10), min_size=1, max_size=40).map(sorted)


@settings(max_examples=150, deadline=None)
@given(ARRIVALS, st.integers(1, 3), st.integers(1, 6), st.floats(0, 3), st.randoms(use_true_random=False))
def test_what_holds_of_any_queue(
    arrivals: list[float], count: int, max_batch: int, wait_s: float, random: Any
) -> None:
    items = np.array([random.randint(1, 5) for _ in arrivals])
    factors = np.array([random.uniform(0.5, 2) for _ in arrivals])
    service = ServiceTimes(by_items_s=np.linspace(0.1, 1, 64), factors=factors)
    arrived = np.array(arrivals)
    finished = finish_batches(
        arrived, items, factors, service, Workers(count=count, max_batch=max_batch, wait_s=wait_s)
    )
    assert (finished >= arrived + 0.05).all()
    ends, sizes = np.unique(finished, return_counts=True)
    assert sizes.max() <= max_batch * count and len(ends) * max_batch * count >= len(arrivals)
    # No worker idles beyond the limit: all is done when each batch was alone, one after the other, and had waited.
    assert finished.max() <= arrived.max() + wait_s * len(arrivals) + 2 * service.by_items_s.max() * len(arrivals)


@settings(max_examples=150, deadline=None)
@given(ARRIVALS, st.integers(1, 3), st.randoms(use_true_random=False))
def test_batches_of_one_are_queries_alone(arrivals: list[float], count: int, random: Any) -> None:
    items = np.array([random.randint(1, 5) for _ in arrivals])
    factors = np.array([random.uniform(0.5, 2) for _ in arrivals])
    service = ServiceTimes(by_items_s=np.linspace(0, 1, 8), factors=factors)
    alone = finish_singly(np.array(arrivals), service.of(items, factors), count)
    merged = finish_batches(np.array(arrivals), items, factors, service, Workers(count=count))
    assert merged == pytest.approx(alone, rel=1e-12)


@settings(max_examples=60, deadline=None)
@given(ARRIVALS, st.integers(1, 4), st.randoms(use_true_random=False))
def test_another_worker_never_makes_a_query_later(arrivals: list[float], count: int, random: Any) -> None:
    took = np.array([random.uniform(0.1, 4) for _ in arrivals])
    few, many = (np.sort(finish_singly(np.array(arrivals), took, number)) for number in (count, count + 1))
    assert (many <= few + 1e-9).all()


def test_a_higher_rate_never_answers_sooner_since_all_else_is_equal() -> None:
    service = ServiceTimes(by_items_s=np.linspace(0.001, 0.01, 65), factors=np.linspace(0.8, 1.4, 50))
    traffic = draw_traffic(20_000, (16, 32, 64), service, seed=3)
    most = most_per_s(traffic, service, Workers(count=2))
    found = [
        percentile_of(simulate(traffic, rate, service, Workers(count=2)), 0.95)
        for rate in np.linspace(0.1, 1, 12) * most
    ]
    assert found == sorted(found)


def test_the_bound_is_the_rate_at_which_the_percentile_meets_the_limit() -> None:
    service = exponential(0.01)
    traffic = draw_traffic(NUM_QUERIES, (1,), service, seed=3)
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


def test_the_bound_of_a_batch_that_waits_is_where_latency_rises_again() -> None:
    """Merging: at a low rate a query waits its whole time limit, at a high one the batch is full before."""
    service = constant(0.010, largest=8)
    traffic = draw_traffic(20_000, (1,), service, seed=1)
    workers = Workers(max_batch=8, wait_s=0.2)
    bound = model_bound(traffic, service, workers, Limit(seconds=0.05, share=0.95))
    assert bound.rate is not None and bound.rate > 8 / 0.010 * 0.5
    assert bound.curve[0][1] > 0.05


def test_equal_seeds_draw_equal_traffic() -> None:
    service = constant(1.0, largest=9)
    one, two, other = (draw_traffic(50, (1, 9), service, seed) for seed in (5, 5, 6))
    assert (one.arrivals_s == two.arrivals_s).all() and (one.items == two.items).all()
    assert (one.arrivals_s[:-1] != other.arrivals_s[:-1]).all()
    assert isinstance(one, Traffic)


@pytest.mark.parametrize("workers", (Workers(), Workers(count=2, max_batch=4, wait_s=0.002)))
def test_the_table_of_the_virtual_clock_is_a_study_that_keeps_littles_law(workers: Workers) -> None:
    service = ServiceTimes(by_items_s=np.linspace(0.001, 0.02, 257), factors=np.linspace(0.8, 1.4, 50))
    traffic = draw_traffic(20_000, (16, 32, 64), service, seed=3)
    most, serve = most_per_s(traffic, service, workers), parse_serve({"target_latency_ms": 25})
    study = make_queue_study(
        load_benchmark("dlrm_tiny"), serve, 3, (most / 10, most / 2, most * 0.9), traffic, service, workers, 0.001
    )
    (check,), (table,) = study.checks, study.tables
    assert check.is_passed, (check.expected, check.found)
    assert decode_study(encode(study)) == study
    for row in table.rows:
        assert list(row[3:]) == sorted(row[3:])
    alone = simulate(traffic, most / 10, service, workers)
    assert table.rows[0][2] == pytest.approx(alone.mean() + 0.001)
    origins = {column.name: column.origin for column in table.columns}
    assert (origins["Queries/s"], origins["Utilisation"], origins["p95"]) == ("given", "computed", "simulated")


def decode_study(text: str) -> StudyRecord:
    return convert(json.loads(text), StudyRecord)

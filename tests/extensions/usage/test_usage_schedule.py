"""The schedule of a usage: exact where it is known by hand, and as scheduling and queueing theory say."""

import heapq
from collections.abc import Sequence
from dataclasses import asdict, replace
from math import inf

import numpy as np
import pytest

from harness.extensions.usage import schedule
from harness.extensions.usage.definition import AskedModel, Usage, parse_usage
from harness.extensions.usage.schedule import (
    ModelRequest,
    SimulatedClock,
    Span,
    draw_requests,
    find_highest_factor,
    first_failure,
    run_schedule,
)


def requests_of(*rows: tuple[str, float, float], after: dict[int, int] | None = None) -> list[ModelRequest]:
    """Requests of (model, release, time to the deadline); `after` says by place which another follows."""
    return [
        ModelRequest(model=model, number=place, release_s=release, within_s=within, after=(after or {}).get(place))
        for place, (model, release, within) in enumerate(rows)
    ]


def run(requests: Sequence[ModelRequest], service_s: Sequence[float], num_workers: int = 1) -> list[Span | None]:
    return run_schedule(requests, num_workers, SimulatedClock(np.array(service_s, dtype=float)))


def usage_of(**models: AskedModel) -> Usage:
    asked = {
        name: {key: value for key, value in asdict(model).items() if value is not None and value != ()}
        for name, model in models.items()
    }
    return parse_usage({"usage": {"title": "a test", "source": "a test", "workers": 1}, **asked}, "a test")


def periodic(rate: float, **more: object) -> AskedModel:
    return AskedModel(source="stand_in", widths=(2, 2), rate=rate, **more)  # type: ignore[arg-type]


def test_the_earliest_deadline_is_first_and_nothing_is_interrupted() -> None:
    requests = requests_of(("a", 0, 20), ("b", 1, 10), ("c", 2, 5), ("d", 9, 100))
    assert run(requests, (4, 2, 1, 1)) == [Span(0, 0, 4), Span(0, 5, 7), Span(0, 4, 5), Span(0, 9, 10)]


def test_three_models_on_two_workers_with_a_dependency_and_a_drop() -> None:
    # a and b begin at once; c follows a, and is ready at 3; the second b has not begun at its deadline, 5.
    requests = requests_of(("a", 0, 8), ("b", 0, 9), ("c", 0, 8), ("b", 1, 4), ("a", 6, 8), after={2: 0})
    assert run(requests, (3, 6, 4, 1, 2), 2) == [
        Span(0, 0, 3),
        Span(1, 0, 6),
        Span(0, 4, 8),
        Span(0, 3, 4),
        Span(1, 6, 8),
    ]
    requests[3] = replace(requests[3], within_s=1)
    assert run(requests, (3, 6, 4, 1, 2), 2) == [Span(0, 0, 3), Span(1, 0, 6), Span(0, 3, 7), None, Span(1, 6, 8)]


def test_a_request_may_begin_at_its_deadline_and_not_after_it() -> None:
    requests = requests_of(("a", 0, 9), ("b", 0, 3), ("c", 0, 9))
    assert run([requests[0], replace(requests[1], release_s=1, within_s=2)], (3, 1)) == [Span(0, 0, 3), Span(0, 3, 4)]
    assert run([requests[0], replace(requests[1], release_s=1, within_s=1.9)], (3, 1)) == [Span(0, 0, 3), None]


def test_what_follows_a_dropped_request_is_dropped_with_all_that_follows_it() -> None:
    requests = requests_of(("a", 0, 9), ("b", 1, 1), ("c", 1, 90), ("d", 1, 90), after={2: 1, 3: 2})
    assert run(requests, (5, 1, 1, 1)) == [Span(0, 0, 5), None, None, None]


def test_requests_that_end_at_one_moment_free_their_workers_together() -> None:
    requests = requests_of(("a", 0, 9), ("b", 0, 9), ("c", 0, 10), ("d", 2, 5))
    assert run(requests, (2, 2, 1, 1), 2) == [Span(0, 0, 2), Span(1, 0, 2), Span(1, 2, 3), Span(0, 2, 3)]


def meets_jeffay(periods: Sequence[int], costs: Sequence[int]) -> bool:
    """The condition of Jeffay, Stanat and Martel (RTSS 1991), theorem 4.1, for non-preemptive periodic tasks."""
    pairs = sorted(zip(periods, costs, strict=True))
    if sum(cost / period for period, cost in pairs) > 1:
        return False
    for index, (period, cost) in enumerate(pairs):
        for length in range(pairs[0][0] + 1, period):
            demand = sum(((length - 1) // its_period) * its_cost for its_period, its_cost in pairs[:index])
            if length < cost + demand:
                return False
    return True


def periodic_requests(
    periods: Sequence[int], offsets: Sequence[int], costs: Sequence[int], horizon: int
) -> tuple[list[ModelRequest], list[float]]:
    requests = [
        ModelRequest(model=str(task), number=number, release_s=offset + number * period, within_s=period)
        for task, (period, offset) in enumerate(zip(periods, offsets, strict=True))
        for number in range(-(-(horizon - offset) // period))
    ]
    return requests, [float(costs[int(request.model)]) for request in requests]


@pytest.mark.slow
def test_task_sets_that_meet_jeffays_condition_miss_no_deadline() -> None:
    rng, met = np.random.default_rng(7), 0
    while met < 500:
        count = int(rng.integers(2, 5))
        periods = rng.integers(4, 30, count).tolist()
        costs = [int(rng.integers(1, max(2, period // count + 2))) for period in periods]
        if not meets_jeffay(periods, costs):
            continue
        met += 1
        requests, service = periodic_requests(periods, rng.integers(0, 20, count).tolist(), costs, 600)
        assert first_failure(requests, run(requests, service)) is None, (periods, costs)


def test_the_order_of_release_alone_misses_deadlines_that_edf_meets(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sets above say something of the order: some of them fail first come, first served."""
    rng, failed = np.random.default_rng(7), 0
    pushes = heapq.heappush
    monkeypatch.setattr(
        schedule.heapq,
        "heappush",
        lambda heap, item: pushes(heap, (item[1], *item[1:]) if isinstance(item, tuple) and len(item) == 3 else item),
    )
    for _ in range(500):
        periods = rng.integers(4, 30, 3).tolist()
        costs = [int(rng.integers(1, max(2, period // 3 + 2))) for period in periods]
        if meets_jeffay(periods, costs):
            requests, service = periodic_requests(periods, rng.integers(0, 20, 3).tolist(), costs, 600)
            failed += first_failure(requests, run(requests, service)) is not None
    assert failed > 0


@pytest.mark.slow
def test_task_sets_that_ask_more_than_there_is_miss_some_deadline() -> None:
    rng, tried = np.random.default_rng(11), 0
    while tried < 30:
        periods = rng.integers(4, 30, 3).tolist()
        costs = rng.integers(1, 15, 3).tolist()
        if sum(cost / period for period, cost in zip(periods, costs, strict=True)) <= 1.05:
            continue
        tried += 1
        requests, service = periodic_requests(periods, (0, 0, 0), costs, 350 * max(periods))
        assert len(requests) >= 1000
        assert first_failure(requests, run(requests, service)) is not None, (periods, costs)


@pytest.mark.slow
@pytest.mark.parametrize("load", (0.3, 0.7))
def test_the_mean_wait_at_random_arrivals_is_that_of_pollaczek_and_khinchine(load: float) -> None:
    rng, count = np.random.default_rng(5), 150_000
    service_s = rng.gamma(2.0, 0.5, count)
    gaps_s = rng.exponential(1 / load, count)
    arrivals_s = np.cumsum(gaps_s / gaps_s.mean() / load)
    requests = [
        ModelRequest(model="a", number=number, release_s=release, within_s=inf)
        for number, release in enumerate(arrivals_s.tolist())
    ]
    spans = run_schedule(requests, 1, SimulatedClock(service_s))
    waits = [
        span.begin_s - request.release_s for request, span in zip(requests, spans, strict=True) if span is not None
    ]
    expected = load * float(np.mean(service_s**2)) / float(service_s.mean()) / (2 * (1 - load * service_s.mean()))
    assert len(waits) == count and np.mean(waits) == pytest.approx(expected, rel=0.03)


# requests


def test_requests_are_those_of_the_rates_and_of_the_seed() -> None:
    asked = usage_of(
        a=periodic(60),
        b=AskedModel(source="retrieval", after="a", probability=0.5),
        c=periodic(30, arrivals="poisson", deadline_ms=20),
    )
    requests = draw_requests(asked, 3)
    assert requests == draw_requests(asked, 3) != draw_requests(asked, 4)
    of = {name: [request for request in requests if request.model == name] for name in "abc"}
    assert len(of["a"]) == 600 and [request.release_s for request in of["a"][:2]] == [0, 1 / 60]
    assert all(request.deadline_s == pytest.approx((request.number + 1) / 60) for request in of["a"])
    assert 240 < len(of["b"]) < 360 and all(
        requests[request.after or 0].number == request.number for request in of["b"]
    )
    assert 230 < len(of["c"]) < 370 and {request.within_s for request in of["c"]} == {0.02}
    assert {(request.after is None) for request in of["b"]} == {False}


def test_probability_0_removes_what_follows_and_all_that_follows_it() -> None:
    asked = usage_of(
        a=periodic(10),
        b=AskedModel(source="retrieval", after="a", probability=0.0),
        c=AskedModel(source="retrieval", after="b"),
    )
    assert {request.model for request in draw_requests(asked, 0)} == {"a"}


def test_where_nothing_is_asked_nothing_fails() -> None:
    asked = usage_of(a=periodic(10, probability=0.0))
    assert (requests := draw_requests(asked, 0)) == [] == run(requests, ())
    assert find_highest_factor(asked, 0, np.zeros(0)) == (100, None)


def test_a_factor_changes_times_alone() -> None:
    asked = usage_of(a=periodic(10), b=periodic(10, arrivals="poisson", deadline_ms=5))
    before, after = draw_requests(asked, 1), draw_requests(replace(asked, factor=4.0), 1)
    assert [request.release_s / 4 for request in before] == [request.release_s for request in after]
    assert [after[0].within_s, after[-1].within_s] == [before[0].within_s / 4, before[-1].within_s]


# the highest factor


@pytest.mark.slow
@pytest.mark.parametrize("num_workers", (1, 2))
def test_at_and_below_the_highest_factor_every_deadline_is_met_and_above_it_one_fails(num_workers: int) -> None:
    rng, found = np.random.default_rng(2), set()
    for seed in range(8):
        rates, service = rng.uniform(10, 40, 2).tolist(), rng.uniform(0.005, 0.02, 3)
        asked = usage_of(
            a=periodic(rates[0], deadline_ms=float(rng.uniform(30, 60))),
            b=periodic(rates[1]),
            c=AskedModel(source="retrieval", after="a", probability=0.7, deadline_ms=70.0),
        )
        asked = replace(asked, workers=num_workers, duration_s=0.5)
        service_s = np.array([service["abc".index(request.model)] for request in draw_requests(asked, seed)])
        highest, failed = find_highest_factor(asked, seed, service_s)
        found.add(highest)
        for step in range(1, round(highest * 100) + 2):
            requests = draw_requests(replace(asked, factor=step * 0.01), seed)
            first = first_failure(requests, run(requests, service_s.tolist(), num_workers))
            assert first == (None if step <= round(highest * 100) else failed)
    assert len(found) > 4


def test_no_factor_is_high_enough_where_a_deadline_is_shorter_than_its_service() -> None:
    asked = usage_of(a=periodic(10, deadline_ms=5.0), b=periodic(10))
    service_s = np.array([0.006 if request.model == "a" else 0.001 for request in draw_requests(asked, 0)])
    factor, failed = find_highest_factor(asked, 0, service_s)
    assert factor == 0 and failed is not None and failed.model == "a"


def test_the_search_ends_at_100_times_where_nothing_fails() -> None:
    asked = replace(usage_of(a=periodic(1, deadline_ms=900.0)), duration_s=3.0)
    assert find_highest_factor(asked, 0, np.array([0.01] * 3)) == (100, None)

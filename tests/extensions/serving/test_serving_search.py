"""The search for the bound: LoadGen's rule, which rates are tried, stalls, and all of it on the virtual clock."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from harness.extensions.serving.bound import Limit, model_bound
from harness.extensions.serving.loadgen import Seeds
from harness.extensions.serving.rule import MOST_QUERIES, fewest_queries, most_late
from harness.extensions.serving.schedule import MIN_QUERIES, QueueModel, draw_arrivals
from harness.extensions.serving.search import MAX_RATES, RESOLUTION, Attempt, Bracket, bracket_of, search_highest
from harness.extensions.serving.stalls import Stalls, find_stalls
from harness.extensions.serving.timing import TimedSize
from harness.foundation.virtual_clock import ServiceTimes, Traffic, Workers, draw_traffic, percentile_of, simulate

# LoadGen's rule


@pytest.mark.parametrize(("share", "fewest"), ((0.9, 44), (0.95, 90), (0.97, 152), (0.99, 459), (0.999, 4603)))
def test_the_fewest_queries_that_loadgen_calls_valid(share: float, fewest: int) -> None:
    assert (most_late(fewest - 1, share), most_late(fewest, share)) == (None, 0)
    assert fewest_queries(0.0, share) <= 1.1 * fewest and fewest_queries(1 - share, share) == MOST_QUERIES


@settings(max_examples=examples(100), deadline=None)
@given(st.integers(1, 20_000), st.sampled_from((0.5, 0.9, 0.95, 0.97, 0.99, 0.999)))
def test_so_many_may_be_late_that_chance_would_do_as_well_in_less_than_a_hundredth(num: int, share: float) -> None:
    late = most_late(num, share)
    assert binom.cdf(0 if late is None else late + 1, num, 1 - share) >= 0.0099999999
    assert late is None or binom.cdf(late, num, 1 - share) < 0.0100000001
    # The other half of the rule, the order statistic that LoadGen takes, is the weaker one.
    assert late is None or late <= num - 1 - int(num * share)


# the search


def judged(is_valid: Callable[[float], bool]) -> Callable[[float], Attempt]:
    return lambda rate: Attempt(rate=rate, is_valid=is_valid(rate))


def valid_below(bound: float) -> Any:
    return judged(lambda rate: rate <= bound)


@settings(max_examples=examples(200), deadline=None)
@given(st.floats(1e-2, 1e5), st.floats(0.3, 3))
def test_the_search_finds_the_bound_wherever_it_starts(bound: float, off: float) -> None:
    tried = search_highest(valid_below(bound), bound * off)
    best = max(rate for rate, is_valid in ((each.rate, each.is_valid) for each in tried) if is_valid)
    assert bound / (RESOLUTION * 1.0001) <= best <= bound


@pytest.mark.parametrize(("off", "most"), ((1.0, 2), (0.99, 2), (1.01, 2), (0.95, 5), (1.05, 5), (0.8, 8), (1.25, 8)))
def test_a_start_that_is_nearly_right_takes_few_attempts(off: float, most: int) -> None:
    tried = search_highest(valid_below(100), 100 * off)
    best = max(rate for rate, is_valid in ((each.rate, each.is_valid) for each in tried) if is_valid)
    assert len(tried) <= most and best >= 100 / (RESOLUTION * 1.0001)


def test_the_search_ends_after_so_many_attempts() -> None:
    rates = [each.rate for each in search_highest(valid_below(0), 100.0, least=1e-300)]
    assert len(rates) == MAX_RATES
    assert rates == sorted(rates, reverse=True) and rates[0] == 100


@pytest.mark.parametrize("least", (60.0, 99.0, 100.0))
def test_the_search_tries_nothing_below_the_least_rate_and_that_once(least: float) -> None:
    rates = [each.rate for each in search_highest(valid_below(0), 100.0, least=least)]
    assert rates[-1] == least and len(set(rates)) == len(rates)


def tries(*verdicts: bool, of_limit: float = 1.0, held_up: Sequence[int] = ()) -> Any:
    """Runs that end so, one after the other, whatever the rate; those of these numbers are held up."""
    left = iter(enumerate(verdicts))

    def attempt(rate: float) -> Attempt:
        number, is_valid = next(left)
        return Attempt(rate=rate, is_valid=is_valid, of_limit=of_limit, is_held_up=number in held_up)

    return attempt


def test_a_run_that_was_held_up_is_made_again_and_its_second_verdict_counts() -> None:
    tried = search_highest(tries(True, False, True, False, False, True, held_up=(1,)), 100.0, least=1.0)
    assert [(each.rate, each.is_valid) for each in tried[:3]] == [(100, True), (102, False), (102, True)]
    assert bracket_of(tried[:3]) == Bracket(low=102.0, high=None)


def test_an_invalid_run_beside_a_latency_far_below_the_limit_is_made_again() -> None:
    tried = search_highest(tries(True, False, False, False, of_limit=0.2), 100.0)
    assert [each.rate for each in tried] == [100, 102, 102, 102]
    assert bracket_of(tried) == Bracket(low=100.0, high=102.0)


def test_what_was_always_held_up_is_no_upper_end() -> None:
    tried = search_highest(tries(True, *[False] * 3, held_up=(1, 2, 3)), 100.0)
    assert [each.rate for each in tried] == [100, 102, 102, 102]
    assert bracket_of(tried) == Bracket(low=100.0, high=None)


def test_the_search_ends_with_its_time() -> None:
    left = iter((True, True, False))
    tried = search_highest(judged(lambda rate: rate <= 1e9), 100.0, may_go_on=lambda: next(left))
    assert [each.rate for each in tried] == [100, 102, pytest.approx(106.12, abs=0.01)]
    assert bracket_of(tried).high is None


# stalls

USUAL = [TimedSize(items=1, num_queries=1, seconds=(0.005,) * 50)]
SERVICE = ServiceTimes(by_items_s=np.full(2, 0.005), factors=np.ones(1))


@pytest.mark.parametrize("share", (0.9, 0.95, 0.99))
def test_a_stall_among_calls_or_issues_is_found_and_none_where_there_is_none(share: float) -> None:
    limit = Limit(seconds=0.025, share=share)
    calls, delays_s = [(1, 0.0051)] * 600, [0.0001] * 600
    assert find_stalls(calls, delays_s, USUAL, SERVICE, limit) == Stalls()
    in_calls = find_stalls([*calls, (1, 0.305)], delays_s, USUAL, SERVICE, limit)
    assert in_calls.longest_s == pytest.approx(0.3) and in_calls.may_decide(130, 650, share)
    issued_late = [max(0.0, 0.3 - number / 130) for number in range(600)]
    assert find_stalls(calls, [0.0, *issued_late], USUAL, SERVICE, limit) == Stalls(0.3, 0.3)
    # A tenth of the queries that may be late decides nothing.
    assert not Stalls(0.013, 0.013).may_decide(130, 100_000, share)


# LoadGen on the virtual clock: its arrivals, its rule, and the search, against the long run


def found_on_the_clock(
    service: ServiceTimes, limit: Limit, run_s: float, draw: Callable[[Any, int], Any], num_processes: int = 5
) -> tuple[float, float]:
    """Search as a measurement does, LoadGen being its rule: the rate of the long run, and LoadGen's share of it."""
    found, shares = [], []
    for index in range(num_processes):
        traffic = draw_traffic(200_000, (1,), service, 100 + index)
        bound = model_bound(traffic, service, Workers(), limit).rate
        assert bound is not None
        model = QueueModel(traffic=traffic, service=service, workers=Workers(), limit=limit)
        number = model.count_queries(bound, run_s, MIN_QUERIES[limit.share * 100])
        start = model.loadgen_bound(SEED + index, number, bound)
        assert start is not None
        arrivals_s, random = draw_arrivals(SEED + index, number), np.random.default_rng(index)

        def attempt(rate: float, arrivals_s: Any = arrivals_s, random: Any = random) -> Attempt:
            factors = draw(random, len(arrivals_s))
            asked = Traffic(arrivals_s=arrivals_s, items=np.ones(len(arrivals_s), dtype=np.int64), factors=factors)
            latencies_s = simulate(asked, rate, service, Workers())
            late = int((latencies_s > limit.seconds).sum())
            of_limit = percentile_of(latencies_s, limit.share) / limit.seconds
            return Attempt(
                rate=rate, is_valid=late <= (most_late(len(asked.items), limit.share) or 0), of_limit=of_limit
            )

        low = bracket_of(search_highest(attempt, start, least=start / 2)).low
        assert low is not None
        shares.append(start / bound)
        found.append(low / shares[-1])
    return float(np.exp(np.log(found).mean())), float(np.mean(shares))


SEED = 16159082839903944936
"""LoadGen 6.0's, of its schedule."""


def constant_of(service_s: float) -> ServiceTimes:
    return ServiceTimes(by_items_s=np.full(2, service_s), factors=np.ones(1))


def long_run(service: ServiceTimes, limit: Limit) -> float:
    rate = model_bound(draw_traffic(400_000, (1,), service, 3), service, Workers(), limit).rate
    assert rate is not None
    return rate


CELLS = [
    pytest.param(
        times, share, marks=() if (times, share) in ((2.5, 0.95), (2.5, 0.99), (10, 0.9)) else pytest.mark.long
    )
    for times in (1.5, 2.5, 5, 10, 20)
    for share in (0.9, 0.95, 0.99)
]


@pytest.mark.slow
@pytest.mark.parametrize(("times", "share"), CELLS)
def test_constant_service_is_bounded_within_three_percent_of_the_long_run(times: float, share: float) -> None:
    """In runs of five seconds, as by default, and where LoadGen's own rate is far from it; so is what a halved
    service time gives."""
    rates = []
    for service_s in (0.01, 0.005):
        service, limit = constant_of(service_s), Limit(seconds=times * 0.01, share=share)
        found, _ = found_on_the_clock(service, limit, 5.0, lambda random, number: np.ones(number))
        truth = long_run(service, limit)
        assert found == pytest.approx(truth, rel=0.03)
        rates.append((found, truth))
    (slow, slow_truth), (fast, fast_truth) = rates
    assert fast / slow == pytest.approx(fast_truth / slow_truth, rel=0.05)


LONG_CELLS = [
    pytest.param(kind, times, share, marks=() if (times, share) == (5, 0.95) else pytest.mark.long)
    for kind in ("constant", "exponential")
    for times in (5, 10, 20)
    for share in (0.9, 0.95)
]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "times", "share"), LONG_CELLS)
def test_runs_that_are_long_enough_make_loadgens_own_rate_that_of_the_long_run(
    kind: str, times: float, share: float
) -> None:
    levels = (np.arange(20_000) + 0.5) / 20_000
    factors = np.ones(1) if kind == "constant" else -np.log1p(-levels)
    service, limit = (
        ServiceTimes(by_items_s=np.full(2, 0.001), factors=factors),
        Limit(seconds=times / 1e3, share=share),
    )

    def draw(random: Any, number: int) -> Any:
        return np.ones(number) if kind == "constant" else random.exponential(size=number)

    found, loadgen = found_on_the_clock(service, limit, 500.0, draw)
    assert found == pytest.approx(long_run(service, limit), rel=0.03)
    assert loadgen == pytest.approx(1, abs=0.03)


def test_equal_process_numbers_have_equal_arrivals_and_the_first_has_those_of_loadgen() -> None:
    seeds = Seeds(library=1, samples=2, schedule=2**64 - 1)
    assert seeds.of_process(0) == seeds and seeds.of_process(1).schedule == 0
    assert (draw_arrivals(7, 50) == draw_arrivals(7, 50)).all() and draw_arrivals(7, 50)[0] == 0

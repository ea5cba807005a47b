"""The search for the bound: LoadGen's rule, which rates are tried, stalls, and all of it in simulated time."""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import binom
from simulated_loadgen import SimulatedSystem, half_valid

from harness.extensions.serving import bench
from harness.extensions.serving.bench import ProcessMeasurements, find_contradiction
from harness.extensions.serving.bound import Limit, model_bound
from harness.extensions.serving.loadgen import Seeds
from harness.extensions.serving.records import LoadGenRun
from harness.extensions.serving.rule import MOST_QUERIES, fewest_queries, most_late
from harness.extensions.serving.schedule import MIN_QUERIES, QueueModel, draw_arrivals
from harness.extensions.serving.search import MAX_RATES, RESOLUTION, Bracket, RateAttempt, bracket_of, search_highest
from harness.extensions.serving.stalls import Stalls, find_stalls
from harness.extensions.serving.timing import TimedSize
from harness.foundation.queue_simulation import ServiceTimes, Traffic, Workers, draw_traffic, simulate

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


def judged(is_valid: Callable[[float], bool]) -> Callable[[float], RateAttempt]:
    return lambda rate: RateAttempt(rate=rate, is_valid=is_valid(rate))


def valid_below(bound: float) -> Any:
    return judged(lambda rate: rate <= bound)


@settings(max_examples=examples(200), deadline=None)
@given(st.floats(1e-2, 1e5), st.floats(0.3, 3))
def test_the_search_finds_the_bound_wherever_it_starts(bound: float, off: float) -> None:
    tried = search_highest(valid_below(bound), bound * off)
    best = max(rate for rate, is_valid in ((each.rate, each.is_valid) for each in tried) if is_valid)
    assert bound / (RESOLUTION * 1.0001) <= best <= bound


@pytest.mark.parametrize(
    ("off", "most"), ((1.0, 4), (0.99, 4), (1.01, 4), (0.95, 7), (1.05, 7), (0.8, 10), (1.25, 10))
)
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


def tries(*verdicts: bool, held_up: Sequence[int] = ()) -> Any:
    """Runs that end so, one after the other, whatever the rate; those of these numbers are held up."""
    left = iter(enumerate(verdicts))

    def attempt(rate: float) -> RateAttempt:
        number, is_valid = next(left)
        return RateAttempt(rate=rate, is_valid=is_valid, is_held_up=number in held_up)

    return attempt


def of(tried: Sequence[RateAttempt]) -> list[tuple[float, bool]]:
    return [(pytest.approx(each.rate), each.is_valid) for each in tried]


def test_both_ends_of_the_bracket_are_repeated_until_two_of_their_runs_agree() -> None:
    tried = search_highest(tries(True, False, False, True, False), 100.0)
    assert of(tried) == [(100, True), (102, False), (100, False), (100, True), (102, False)]
    assert bracket_of(tried) == Bracket(low=100.0, high=102.0)


def test_a_valid_run_that_two_others_contradict_is_no_answer() -> None:
    tried = search_highest(tries(True, False, False, False, True, True, False), 100.0)
    assert of(tried)[:4] == [(100, True), (102, False), (100, False), (100, False)]
    assert of(tried)[4:] == [(100 / 1.02, True), (100 / 1.02, True)]
    assert bracket_of(tried) == Bracket(low=pytest.approx(100 / 1.02), high=100.0)


def test_an_invalid_run_that_two_others_contradict_is_no_end() -> None:
    tried = search_highest(tries(True, False, True, True, True, False, False, True), 100.0)
    assert of(tried)[:5] == [(100, True), (102, False), (100, True), (102, True), (102, True)]
    assert bracket_of(tried) == Bracket(low=102.0, high=pytest.approx(104.04))


@settings(max_examples=examples(100), deadline=None)
@given(st.integers(0, 2**32), st.floats(0.1, 0.9), st.floats(0, 0.5))
def test_whatever_runs_say_the_answer_was_asked_and_valid_in_most_runs_below_every_other_end(
    seed: int, valid: float, held_up: float
) -> None:
    random = np.random.default_rng(seed)

    def attempt(rate: float) -> RateAttempt:
        return RateAttempt(rate=rate, is_valid=random.random() < valid, is_held_up=random.random() < held_up)

    tried = search_highest(attempt, 100.0, least=1)
    found = bracket_of(tried)
    if found.low is not None:
        own = [each for each in tried if each.rate == found.low and (each.is_valid or not each.is_held_up)]
        assert 2 * sum(each.is_valid for each in own) > len(own)
        assert found.high is None or found.low < found.high
    assert len({each.rate for each in tried}) <= MAX_RATES


def test_a_run_that_was_held_up_is_made_again_and_its_second_verdict_counts() -> None:
    tried = search_highest(tries(True, False, True, *[False] * 60, held_up=(1,)), 100.0, least=1.0)
    assert of(tried[:3]) == [(100, True), (102, False), (102, True)]
    assert bracket_of(tried[:3]) == Bracket(low=102.0, high=None)


def test_what_was_always_held_up_is_no_upper_end() -> None:
    tried = search_highest(tries(True, *[False] * 3, True, held_up=(1, 2, 3)), 100.0)
    assert [each.rate for each in tried] == [100, 102, 102, 102, 100]
    assert bracket_of(tried) == Bracket(low=100.0, high=None)


def test_where_every_run_is_held_up_few_rates_are_tried_until_one_may_be_valid() -> None:
    tried = search_highest(tries(*[False] * 40, held_up=range(40)), 100.0, least=1.0)
    rates = list(dict.fromkeys(each.rate for each in tried))
    assert len(tried) >= 9
    assert rates[1] < 75 and rates[2] < 50


def test_the_search_tries_nothing_above_the_most_rate() -> None:
    tried = search_highest(valid_below(1e9), 100.0, most=130.0)
    assert tried[-1].rate == 130 and bracket_of(tried) == Bracket(low=130.0, high=None)


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


# LoadGen in simulated time: its arrivals, its rule, and the search, against the steady state


def found_in_simulated_time(
    service: ServiceTimes, limit: Limit, run_s: float, draw: Callable[[Any, int], Any], num_processes: int = 5
) -> tuple[float, float]:
    """Search as a measurement does, LoadGen being its rule: the steady-state rate, and LoadGen's share of it."""
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

        def attempt(rate: float, arrivals_s: Any = arrivals_s, random: Any = random) -> RateAttempt:
            factors = draw(random, len(arrivals_s))
            asked = Traffic(arrivals_s=arrivals_s, items=np.ones(len(arrivals_s), dtype=np.int64), factors=factors)
            latencies_s = simulate(asked, rate, service, Workers())
            late = int((latencies_s > limit.seconds).sum())
            return RateAttempt(rate=rate, is_valid=late <= (most_late(len(asked.items), limit.share) or 0))

        low = bracket_of(search_highest(attempt, start, least=start / 2)).low
        assert low is not None
        shares.append(start / bound)
        found.append(low / shares[-1])
    return float(np.exp(np.log(found).mean())), float(np.mean(shares))


SEED = 16159082839903944936
"""LoadGen 6.0's, of its schedule."""


def constant_of(service_s: float) -> ServiceTimes:
    return ServiceTimes(by_items_s=np.full(2, service_s), factors=np.ones(1))


def steady_rate(service: ServiceTimes, limit: Limit) -> float:
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
def test_constant_service_is_bounded_within_three_percent_of_the_steady_state(times: float, share: float) -> None:
    """In runs of five seconds, as by default, and where LoadGen's own rate is far from it; so is what a halved
    service time gives."""
    rates = []
    for service_s in (0.01, 0.005):
        service, limit = constant_of(service_s), Limit(seconds=times * 0.01, share=share)
        found, _ = found_in_simulated_time(service, limit, 5.0, lambda random, number: np.ones(number))
        truth = steady_rate(service, limit)
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
def test_runs_that_are_long_enough_make_loadgens_own_rate_that_of_the_steady_state(
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

    found, loadgen = found_in_simulated_time(service, limit, 500.0, draw)
    assert found == pytest.approx(steady_rate(service, limit), rel=0.03)
    assert loadgen == pytest.approx(1, abs=0.03)


# whole searches of simulated systems, under a simulated LoadGen


@pytest.fixture
def few_simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer queries of the steady state: enough where its rate is not held to anything."""
    monkeypatch.setattr(bench, "NUM_SIMULATED_FAST", 20_000)


def system_of(kind: str, times: float, seed: int, share: float = 0.95) -> SimulatedSystem:
    random = np.random.default_rng(seed)
    return SimulatedSystem(kind=kind, service_s=0.005, limit_s=0.005 * times, percentile=100 * share, random=random)


def seeds_at(number: int) -> Seeds:
    return Seeds(library=1, samples=2, schedule=SEED).of_process(number)


def assert_was_asked_and_valid(system: SimulatedSystem, found: ProcessMeasurements) -> None:
    """The rate is one that LoadGen was asked, VALID in most of its runs, and no run of less outweighs it."""
    verdicts = [is_valid for rate, is_valid in system.asked if rate == found.valid_per_s]
    assert 2 * sum(verdicts) > len(verdicts) and found.best.is_valid
    assert found.best.asked_per_s == found.valid_per_s
    assert found.bracket.high is None or found.bracket.high > found.valid_per_s


@pytest.mark.parametrize(("kind", "times"), (("constant", 5), ("lognormal", 10)))
def test_the_rate_was_asked_and_valid_and_the_spread_is_around_it(
    kind: str, times: float, tmp_path: Path, few_simulated: None
) -> None:
    system = system_of(kind, times, 7)
    found = system.search(seeds_at(0), tmp_path)
    assert_was_asked_and_valid(system, found)
    assert found.spread is not None
    low, high = found.spread.around(found.bracket)
    assert low is not None and high is not None and low < found.valid_per_s < high
    if kind == "constant":  # a start that is right: two runs at each end
        assert [rate for rate, _ in system.asked[2:]] == [rate for rate, _ in system.asked[:2]]
        assert len(system.asked) == 4


def erlang_bound(service_s: float, limit_s: float, share: float) -> float:
    """The rate of an M/D/1 at which `share` is answered within `limit_s`: Erlang's series of the wait, 1909."""
    wait_s = limit_s - service_s

    def within(rate: float) -> float:
        terms = [rate * (number * service_s - wait_s) for number in range(int(wait_s / service_s + 1e-9) + 1)]
        series = math.fsum(
            term**number / math.factorial(number) * math.exp(-term) for number, term in enumerate(terms)
        )
        return (1 - rate * service_s) * series

    return float(brentq(lambda rate: within(rate) - share, 1e-3 / service_s, (1 - 1e-9) / service_s))


NUM_SEARCHES = pytest.mark.parametrize(
    "number", (40, pytest.param(500, marks=pytest.mark.long)), ids=("forty", "five hundred")
)


@pytest.mark.slow
@NUM_SEARCHES
def test_constant_service_is_within_a_hundredth_and_a_half_of_erlangs_rate(number: int, tmp_path: Path) -> None:
    """99 of 100 are, all are within 2 %, without a bias; few have runs that contradict a steady state by chance."""
    truth, errors = erlang_bound(0.005, 0.025, 0.95), list[float]()
    for at in range(number):
        system = system_of("constant", 5, at)
        found = system.search(seeds_at(at), tmp_path)
        assert_was_asked_and_valid(system, found)
        if found.steady_state_missing != "invalid_below":
            assert found.steady_state_per_s == pytest.approx(truth, rel=0.02)
            errors.append(found.steady_state_per_s / truth - 1)
    assert number - len(errors) <= number / 100
    assert np.quantile(np.abs(errors), 0.99) <= 0.015 and abs(np.mean(errors)) <= 0.002


@pytest.mark.slow
@NUM_SEARCHES
@pytest.mark.parametrize(("kind", "times"), (("constant", 5), ("exponential", 10), ("lognormal", 10)))
def test_the_spread_holds_the_rate_at_which_half_of_all_runs_are_valid(
    kind: str, times: float, number: int, tmp_path: Path, few_simulated: None
) -> None:
    truths: dict[int, float] = {}
    num_held = 0
    for at in range(number):
        system = system_of(kind, times, at)
        found = system.search(seeds_at(at), tmp_path)
        assert_was_asked_and_valid(system, found)
        size = round(5 * math.log(found.best.num_queries))  # runs of about equal length have one truth
        if size not in truths:
            truths[size] = half_valid(system, round(math.exp(size / 5)), found.valid_per_s, 400, size)
        assert found.spread is not None
        low, high = found.spread.around(found.bracket)
        num_held += (low or 0.0) <= truths[size] <= (high or math.inf)
    assert num_held >= 0.9 * number


def test_a_search_that_begins_far_below_ends_near_what_can_be_answered(tmp_path: Path, few_simulated: None) -> None:
    """A limit of 100 service times: runs of as few queries as the start needs would be VALID at any rate."""
    system = system_of("constant", 100, 3)
    found = system.search(seeds_at(0), tmp_path, target_qps=40.0)
    assert_was_asked_and_valid(system, found)
    assert found.valid_per_s < 2 * 200 and max(rate for rate, _ in system.asked) <= 11 * 200
    assert all(run.duration_s > 0.4 * found.runs[0].duration_s for run in found.runs)


def a_run(rate: float, is_valid: bool, **changes: Any) -> LoadGenRun:
    members: dict[str, Any] = {
        "folder": "run", "asked_per_s": rate, "completed_per_s": rate, "num_queries": 200, "num_late": 3,
        "duration_s": 2.0, "mean_s": 0.01, "latency_s": 0.02, "is_valid": is_valid, "reason": None,
    }  # fmt: skip
    return LoadGenRun(**members | changes)


@pytest.mark.parametrize(
    ("others", "late", "end"),
    (
        ([], [3] * 20, None),
        ([a_run(102, False, latency_s=0.024)], [3] * 20, None),  # what LoadGen's rule for short runs explains
        ([a_run(102, False, latency_s=0.059)], [3] * 20, "invalid_below"),
        ([a_run(126, False, latency_s=0.059)], [3] * 20, None),
        ([a_run(99, False, latency_s=0.024)], [3] * 20, "invalid_below"),
        ([a_run(99, False, latency_s=0.5, is_held_up=True)], [3] * 20, None),
    ),
)
def test_invalid_runs_that_the_rule_for_short_runs_does_not_explain_contradict_the_steady_state(
    others: list[LoadGenRun], late: list[int], end: str | None
) -> None:
    best = a_run(100, True)
    assert find_contradiction([best, *others], best, 102.0, 125.0, 0.025, late) == end


@pytest.mark.parametrize(("late", "end"), (([3] * 20, "none_late"), ([3] * 19 + [0], None), ([0] * 20, None)))
def test_no_late_query_where_the_simulation_has_some_contradicts_the_steady_state(
    late: list[int], end: str | None
) -> None:
    best = a_run(100, True, num_late=0)
    assert find_contradiction([best, best], best, 102.0, 125.0, 0.025, late) == end
    assert find_contradiction([best, a_run(100, True)], best, 102.0, 125.0, 0.025, late) is None


@pytest.mark.parametrize("high_per_s", (None, 110.0))
def test_a_search_that_was_left_open_says_nothing_of_the_steady_state(high_per_s: float | None) -> None:
    best = a_run(100, True)
    assert find_contradiction([best], best, high_per_s, 125.0, 0.025, [3] * 20) == "left_open"


def test_equal_process_numbers_have_equal_arrivals_and_the_first_has_those_of_loadgen() -> None:
    seeds = Seeds(library=1, samples=2, schedule=2**64 - 1)
    assert seeds.of_process(0) == seeds and seeds.of_process(1).schedule == 0
    assert (draw_arrivals(7, 50) == draw_arrivals(7, 50)).all() and draw_arrivals(7, 50)[0] == 0

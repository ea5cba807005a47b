"""Intervals hold what they promise: checked by simulation, not by formula."""

import math
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reports.statistics.growth import end_of_growth, growth_interval, is_narrow, simulate_coverage
from reports.statistics.intervals import coverage_words, log_summary, olympic_interval, spread_shares
from rules.scoring.results import olympic_mean

times = st.sampled_from([5, 10]).flatmap(lambda n: st.lists(st.floats(0.1, 1e5), min_size=n, max_size=n))


@pytest.mark.parametrize("times_s", [[], [3.0] * 4, [1.0, 2.0, 3.0, 4.0, math.inf], [1.0, 2.0, math.nan, 4.0, 5.0]])
def test_no_interval_from_too_few_or_unfinished_runs(times_s: list[float]) -> None:
    assert olympic_interval(times_s, 1) is None


@settings(deadline=None, max_examples=40)
@given(times)
def test_interval_is_within_the_runs_and_around_the_olympic_mean(times_s: list[float]) -> None:
    interval = olympic_interval(times_s, 1)
    assert interval is not None
    slack = 1e-9 * max(times_s)
    assert min(times_s) - slack <= interval.low <= interval.high <= max(times_s) + slack
    assert interval.low - slack <= olympic_mean(times_s, 1) <= interval.high + slack


@settings(deadline=None, max_examples=40)
@given(times, st.randoms())
def test_order_of_the_runs_does_not_matter(times_s: list[float], random: Random) -> None:
    shuffled = list(times_s)
    random.shuffle(shuffled)
    assert olympic_interval(shuffled, 1) == olympic_interval(times_s, 1)


@settings(deadline=None, max_examples=40)
@given(times, st.floats(0.01, 100.0))
def test_interval_scales_with_the_unit(times_s: list[float], factor: float) -> None:
    seconds, other = olympic_interval(times_s, 1), olympic_interval([t * factor for t in times_s], 1)
    assert seconds is not None and other is not None
    assert other.low == pytest.approx(seconds.low * factor)
    assert other.high == pytest.approx(seconds.high * factor)
    assert other.coverage == seconds.coverage


def test_a_coverage_says_of_what_it_is_a_share() -> None:
    assert coverage_words(0.946, 5) == "held the true mean in 94.6 % of 2,000 simulated sets of 5 normal times"


@pytest.mark.parametrize("num_runs", [5, 10])
@pytest.mark.parametrize("quantised", [False, True])
def test_stated_coverage_is_met_in_an_independent_simulation(num_runs: int, quantised: bool) -> None:
    """Log-normal times with the 8 % deviation of real submissions, also when evaluations quantise them to 5 %."""
    generator = np.random.default_rng(3)
    truth_runs = np.exp(0.08 * generator.standard_normal((40_000, num_runs)))
    if quantised:
        truth_runs = np.round(truth_runs * 20) / 20
    truth = np.sort(truth_runs, axis=1)[:, 1:-1].mean()
    held, stated, num_sets = 0, 0.0, 400
    for _ in range(num_sets):
        drawn = np.exp(0.08 * generator.standard_normal(num_runs))
        interval = olympic_interval((np.round(drawn * 20) / 20 if quantised else drawn).tolist(), 1)
        assert interval is not None and interval.coverage is not None
        stated = interval.coverage
        held += interval.low <= truth <= interval.high
    # Three standard errors of a simulation of this size.
    assert held / num_sets == pytest.approx(stated, abs=3 * math.sqrt(0.06 / num_sets))
    assert 0.92 < stated < 0.97


def test_log_summary_states_spread_and_geometric_interval() -> None:
    summary = log_summary([8.0, None, 2.0, 4.0])
    assert summary is not None and summary.interval is not None
    assert summary.num_values == 3
    assert summary.geometric_mean == pytest.approx(4.0)
    assert summary.coefficient_of_variation == pytest.approx(float(np.std([8, 2, 4], ddof=1)) / (14 / 3))
    # t(2; 0.975) = 4.302653, deviation of the logs is ln 2.
    assert math.log(summary.interval.high / 4.0) == pytest.approx(4.302653 * math.log(2) / math.sqrt(3), rel=1e-6)
    assert summary.interval.low * summary.interval.high == pytest.approx(16.0)


@pytest.mark.parametrize("values", [[], [None], [1.0, 0.0], [1.0, math.inf], [1.0, -2.0]])
def test_log_summary_invents_nothing(values: list[float | None]) -> None:
    assert log_summary(values) is None


def test_one_run_has_no_deviation() -> None:
    summary = log_summary([5.0])
    assert summary is not None
    assert summary.coefficient_of_variation is None
    assert summary.interval is None


def test_spread_shares_name_the_factor_that_varies() -> None:
    samples, rates = [100.0, 200.0, 400.0], [10.0, 10.0, 10.0]
    shares = spread_shares([10.0, 20.0, 40.0], [samples, [1 / rate for rate in rates]])
    assert shares == pytest.approx((1.0, 0.0))


@given(st.lists(st.tuples(st.floats(1, 100), st.floats(0.5, 2), st.floats(1, 1.5)), min_size=3, max_size=10))
def test_spread_shares_add_up(rows: list[tuple[float, float, float]]) -> None:
    factors = list(zip(*rows, strict=True))
    totals = [a * b * c for a, b, c in rows]
    shares = spread_shares(totals, factors)
    assert shares is None or sum(shares) == pytest.approx(1.0, abs=1e-6)


def test_spread_shares_need_spread_and_three_runs() -> None:
    assert spread_shares([1.0, 1.0, 1.0], [[1.0, 1.0, 1.0]]) is None
    assert spread_shares([1.0, 2.0], [[1.0, 2.0]]) is None
    assert spread_shares([1.0, 2.0, 0.0], [[1.0, 2.0, 0.0]]) is None


@pytest.mark.parametrize("spread", [0.01, 0.03, 0.05, 0.08])
def test_the_interval_of_a_set_that_grew_holds_what_it_says(spread: float) -> None:
    """By sets drawn here and grown by the deciding function; Student's t at 95 % would hold in as few as 92 %."""
    generator, width, most = np.random.default_rng(11), 0.03, 60
    held, held_naively = [], []
    for _ in range(1500):
        logs = spread * generator.standard_normal(most)
        end = int(end_of_growth(logs[None, :], width, 5)[0]) or most
        interval = growth_interval(list(np.exp(logs[:end])), width, 5, most)
        assert interval is not None
        held.append(interval.low <= 1.0 <= interval.high)
        assert is_narrow(list(np.exp(logs[:end])), width, 5) or end == most
        naive = log_summary(np.exp(logs[:end]))
        assert naive is not None and naive.interval is not None
        held_naively.append(naive.interval.low <= 1.0 <= naive.interval.high)
    assert np.mean(held) >= 0.94 and np.mean(held) > np.mean(held_naively)
    stated = simulate_coverage(spread, width, 5, most)
    assert abs(float(np.mean(held)) - stated) < 0.025 and stated >= 0.95
    if spread == 0.05:
        assert np.mean(held_naively) < 0.94


def test_growth_waits_for_the_least_runs_and_for_every_time() -> None:
    assert not is_narrow([1.0, 1.0, 1.0, 1.0], 0.03, 5) and is_narrow([1.0] * 5, 0.03, 5)
    assert not is_narrow([1.0] * 9 + [math.inf], 0.03, 5)
    assert growth_interval([1.0, math.inf], 0.03, 5, 30) is None and growth_interval([1.0], 0.03, 5, 30) is None
    assert end_of_growth(np.log([[1.0, 2.0] * 10, [1.0, 1.001] * 10]), 0.03, 5).tolist() == [0, 5]

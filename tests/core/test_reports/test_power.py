"""The smallest difference that a comparison finds is found in four of five cases: by simulation through `decide`."""

import math

import numpy as np
import pytest

from reports.statistics.power import FIRST_LEVEL, POWER, Design, smallest_apart, smallest_difference
from reports.statistics.ratios import decide, paired_difference, welch_difference

NUM_SETS = 4_000


@pytest.mark.parametrize(("num_base", "num_new"), [(5, 5), (10, 10), (5, 20)])
@pytest.mark.parametrize(("spread", "min_effect"), [(0.003, 0.03), (0.02, 0.03), (0.05, 0.03), (0.05, 0.0)])
def test_separate_sets_find_it_in_four_of_five_cases(
    spread: float, min_effect: float, num_base: int, num_new: int
) -> None:
    effect = np.log1p(smallest_apart(spread, num_base, num_new, min_effect=min_effect))
    generator = np.random.default_rng(41)
    base = spread * generator.standard_normal((NUM_SETS, num_base))
    new = effect + spread * generator.standard_normal((NUM_SETS, num_new))
    difference = welch_difference(base, new, step=0)
    verdicts = decide(difference, np.asarray(FIRST_LEVEL), np.log1p(min_effect))
    assert np.mean(verdicts == "slower") == pytest.approx(POWER, abs=0.025)


def smallest_in_turns(spread: float, num_pairs: int, shared: float = 0.0) -> float:
    """By pairs the two runs of which have so much of their spread in common."""
    spread *= math.sqrt(2 * (1 - shared))
    return smallest_difference(
        Design(spread=spread, num_base=num_pairs, num_new=num_pairs, is_paired=True), FIRST_LEVEL, 0.0
    )


@pytest.mark.parametrize("num_pairs", [5, 10])
@pytest.mark.parametrize("shared", [0.0, 0.9])
def test_pairs_find_it_in_four_of_five_cases(num_pairs: int, shared: float) -> None:
    effect = np.log1p(smallest_in_turns(0.05, num_pairs, shared=shared))
    generator = np.random.default_rng(42)
    common = np.sqrt(shared) * generator.standard_normal((NUM_SETS, num_pairs))
    base, new = (
        0.05 * (common + np.sqrt(1 - shared) * generator.standard_normal(common.shape)) + shift
        for shift in (0.0, effect)
    )
    verdicts = decide(paired_difference(base, new, step=0), np.asarray(FIRST_LEVEL), 0.0)
    assert np.mean(verdicts == "slower") == pytest.approx(POWER, abs=0.03)


def test_more_runs_less_noise_and_turns_find_smaller_differences() -> None:
    assert smallest_apart(0.05, 20, 20) < smallest_apart(0.05, 5, 5) < smallest_apart(0.1, 5, 5)
    assert smallest_in_turns(0.05, 10, shared=0.9) < smallest_in_turns(0.05, 10)


def test_what_drift_may_do_must_be_exceeded() -> None:
    assert smallest_apart(0.003, 5, 5, tolerance=0.2) > 0.2
    assert smallest_apart(0.003, 5, 5, tolerance=0.2) == pytest.approx(0.2, abs=0.01)
    assert smallest_apart(0.05, 5, 5, tolerance=0.02) > smallest_apart(0.05, 5, 5)


def test_the_smallest_effect_of_interest_is_the_least_that_is_found() -> None:
    assert 0.03 < smallest_apart(0.001, 10, 10, min_effect=0.03) < 0.032


def test_a_spread_that_hides_everything_finds_nothing() -> None:
    assert smallest_apart(10.0, 5, 5) == float("inf")
    assert smallest_apart(0.0, 5, 5) == pytest.approx(0.0, abs=1e-9)

"""Verdicts hold on systems that drift: how often they are false, and how often true, by simulation of comparisons.

What is simulated goes through `compare_results`: convergence is drawn from runs of the shipped benchmark, speed has
the noise named. A rate that must not exceed 2 % is allowed three standard errors of the simulation more.
"""

import math

import pytest
from drift_builder import Noise, Scene, independent, offsets, shares, simulate, trend, wandering

LENGTHS = [pytest.param(40, id="short"), pytest.param(1_000, id="long", marks=pytest.mark.long)]
NOISES = {
    "independent 0.3 %": independent(0.003),
    "independent 5 %": independent(0.05),
    "offsets 1 %": offsets(0.01),
    "offsets 2 %": offsets(0.02),
    "offsets 5 %": offsets(0.05),
    "wandering 5 %": wandering(0.05),
    "trend 1 %": trend(0.01),
    "trend 5 %": trend(0.05),
}
SMALL = ("no difference shown", "below the smallest effect")


def most(rate: float, number: int) -> float:
    return rate + 3 * math.sqrt(rate * (1 - rate) / number)


@pytest.mark.parametrize("num_pairs", LENGTHS)
@pytest.mark.parametrize("num_repeats", [0, 2, 4])
@pytest.mark.parametrize("share_seeds", [False, True], ids=["fresh seeds", "shared seeds"])
@pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
def test_equal_sets_one_after_the_other_are_called_different_in_at_most_2_percent(
    noise: Noise, share_seeds: bool, num_repeats: int, num_pairs: int
) -> None:
    scene = Scene(noise=noise, share_seeds=share_seeds, num_repeats=num_repeats)
    found = shares(simulate(scene, num_pairs, seed=61))
    for name in ("time_to_train", "samples_to_converge", "throughput", "overhead"):
        called = found[name].get("faster", 0.0) + found[name].get("slower", 0.0)
        assert called <= most(0.02, num_pairs), (name, found[name])
    assert found["regression"].get("yes", 0.0) <= most(0.02, num_pairs)


@pytest.mark.parametrize("num_pairs", LENGTHS)
@pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
def test_equal_sets_in_turns_are_called_different_in_at_most_2_percent(noise: Noise, num_pairs: int) -> None:
    for num_runs in (5, 10):
        scene = Scene(noise=noise, share_seeds=True, in_turns=True, num_runs=num_runs)
        found = shares(simulate(scene, num_pairs, seed=62))
        assert found["any"].get("called", 0.0) <= most(0.02, num_pairs), found


@pytest.mark.parametrize("num_pairs", LENGTHS)
@pytest.mark.parametrize("num_repeats", [0, 4])
def test_equality_is_not_claimed_of_sets_that_drift(num_repeats: int, num_pairs: int) -> None:
    """Truly 5 % slower, where whole sets are off by as much: neither equal nor faster."""
    scene = Scene(noise=offsets(0.05), step_time=1.05, share_seeds=True, num_repeats=num_repeats)
    found = shares(simulate(scene, num_pairs, seed=63))["throughput"]
    assert sum(found.get(verdict, 0.0) for verdict in (*SMALL, "faster")) <= most(0.02, num_pairs)


@pytest.mark.parametrize("num_pairs", LENGTHS)
def test_without_repeated_sets_nothing_below_20_percent_is_shown(num_pairs: int) -> None:
    for step_time, verdict in ((1.1, "inconclusive"), (1.0, "inconclusive"), (1.25, "slower")):
        scene = Scene(noise=independent(0.003), step_time=step_time, share_seeds=True)
        assert shares(simulate(scene, num_pairs, seed=64))["time_to_train"] == {verdict: 1.0}


@pytest.mark.parametrize("num_pairs", LENGTHS)
def test_with_a_band_of_2_percent_sets_that_are_10_percent_slower_are_found(num_pairs: int) -> None:
    """Five sets with offsets of 0.35 % measure a band of 2 % in the mean: 3.75 times the square root of 2 as much."""
    scene = Scene(noise=offsets(0.0035), step_time=1.1, share_seeds=True, num_repeats=4)
    comparisons = list(simulate(scene, num_pairs, seed=65))
    bands = [factor.band or 0.0 for comparison in comparisons for factor in comparison.factors[2:3]]
    assert sum(bands) / len(bands) == pytest.approx(0.02, rel=0.2)
    found = shares(comparisons)
    assert found["time_to_train"].get("slower", 0.0) >= 0.8 and found["throughput"].get("slower", 0.0) >= 0.8


@pytest.mark.parametrize("num_pairs", LENGTHS)
def test_five_pairs_in_turns_find_steps_that_are_5_percent_slower(num_pairs: int) -> None:
    """Speed varies by 1 % from run to run, and the curves are the same."""
    scene = Scene(noise=independent(0.01), step_time=1.05, share_seeds=True, in_turns=True)
    found = shares(simulate(scene, num_pairs, seed=66))
    assert found["time_to_train"].get("slower", 0.0) >= 0.8
    assert found["samples_to_converge"] == {"identical": 1.0}


@pytest.mark.parametrize("num_pairs", LENGTHS)
def test_ten_equal_pairs_in_turns_are_shown_to_differ_by_less_than_2_percent(num_pairs: int) -> None:
    scene = Scene(noise=independent(0.01), num_runs=10, share_seeds=True, in_turns=True, min_effect=0.02)
    found = shares(simulate(scene, num_pairs, seed=67))
    assert found["any"] == {"not called": 1.0}
    for name in ("time_to_train", "throughput"):
        assert sum(found[name].get(verdict, 0.0) for verdict in SMALL) >= 0.85


@pytest.mark.parametrize("num_pairs", LENGTHS)
def test_a_true_difference_of_the_smallest_effect_is_seldom_called_equal(num_pairs: int) -> None:
    scene = Scene(noise=independent(0.01), num_runs=10, share_seeds=True, in_turns=True, step_time=1.0301)
    found = shares(simulate(scene, num_pairs, seed=68))["throughput"]
    assert sum(found.get(verdict, 0.0) for verdict in SMALL) <= most(0.05, num_pairs)

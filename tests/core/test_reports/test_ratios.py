"""The statistics hold what they promise on data as quantised and as noisy as published results: by simulation."""

import numpy as np
import pytest
from comparison_builder import GRID, draw_logs, simulated_verdicts, time_differences
from hypothesis import given
from hypothesis import strategies as st

from reports.statistics.ratios import (
    Difference,
    decide,
    holm_levels,
    mean_of,
    paired_difference,
    sample_variance,
    variance_of,
    welch_difference,
)

# Where the mean is between two points of the evaluation grid decides how coarse the values are.
MEANS = ((0.70, 0.70), (0.68, 0.75), (0.625, 0.66), (0.74, 0.80))
SIZES = [pytest.param(2_000, id="short"), pytest.param(100_000, id="long", marks=pytest.mark.long)]


def called(verdicts: np.ndarray) -> float:
    """The share of comparisons that are called a difference."""
    return float(np.isin(verdicts, ["faster", "slower"]).mean())


@pytest.mark.parametrize("shape", [(2,), (5,), (10,), (300,), (7, 5), (3, 4, 17)])
def test_moments_are_those_of_numpy_to_the_last_bit(shape: tuple[int, ...]) -> None:
    values = np.random.default_rng(7).normal(3.0, 0.1, (50, *shape))
    for each in (values, *values):
        assert np.array_equal(mean_of(each), each.mean(axis=-1))
        assert np.array_equal(variance_of(each), each.var(axis=-1, ddof=1))


@pytest.mark.parametrize("num_sets", SIZES)
@pytest.mark.parametrize("num_runs", [5, 10, 20])
@pytest.mark.parametrize("means", MEANS)
def test_a_95_percent_interval_of_a_ratio_holds_the_truth_as_often_as_it_says(
    means: tuple[float, float], num_runs: int, num_sets: int
) -> None:
    generator = np.random.default_rng(11)
    base = draw_logs(generator, num_sets, num_runs, mean_epochs=means[0])
    new = draw_logs(generator, num_sets, num_runs, mean_epochs=means[1], step_time=1.1)
    of_base = draw_logs(generator, 1, 200_000, mean_epochs=means[0])
    of_new = draw_logs(generator, 1, 200_000, mean_epochs=means[1], step_time=1.1)
    truths = [one.mean[0] for one in time_differences(of_base, of_new)]
    for difference, truth in zip(time_differences(base, new), truths, strict=True):
        held = float(np.mean(np.abs(difference.mean - truth) <= difference.reach(0.05)))
        assert held >= 0.93
        assert held <= 0.98 or num_runs < 10


@pytest.mark.parametrize("num_sets", SIZES)
@pytest.mark.parametrize("num_runs", [5, 10, 20])
@pytest.mark.parametrize("mean_epochs", [0.68, 0.70, 0.725])
def test_without_a_difference_faster_or_slower_is_said_in_under_5_percent(
    mean_epochs: float, num_runs: int, num_sets: int
) -> None:
    generator = np.random.default_rng(12)
    base, new = (draw_logs(generator, num_sets, num_runs, mean_epochs=mean_epochs) for _ in range(2))
    verdicts = simulated_verdicts(base, new, min_effect=0.0)
    of_any = np.any([np.isin(one, ["faster", "slower"]) for one in verdicts.values()], axis=0)
    assert of_any.mean() < 0.05, "the family keeps its level without the help of a smallest effect"
    assert called(simulated_verdicts(base, new)["time_to_train"]) < 0.05


@pytest.mark.parametrize("num_sets", SIZES)
def test_a_slower_step_is_found_in_throughput_and_not_blamed_on_convergence(num_sets: int) -> None:
    generator = np.random.default_rng(13)
    base, new = draw_logs(generator, num_sets, 10), draw_logs(generator, num_sets, 10, step_time=1.05)
    verdicts = simulated_verdicts(base, new)
    assert (verdicts["throughput"] == "slower").mean() >= 0.95
    assert (verdicts["samples_to_converge"] == "slower").mean() < 0.05
    assert (verdicts["time_to_train"] == "faster").mean() < 0.001


@pytest.mark.parametrize("num_sets", SIZES)
def test_slower_convergence_is_found_there_and_not_blamed_on_throughput(num_sets: int) -> None:
    generator = np.random.default_rng(14)
    base, new = draw_logs(generator, num_sets, 10), draw_logs(generator, num_sets, 10, mean_epochs=0.77)
    verdicts = simulated_verdicts(base, new)
    assert (verdicts["samples_to_converge"] == "slower").mean() >= 0.95
    assert (verdicts["throughput"] == "slower").mean() < 0.05


@pytest.mark.parametrize("num_sets", SIZES)
def test_shared_luck_cancels_in_pairs(num_sets: int) -> None:
    """The same seeds draw the same convergence: the pairs' interval is narrower and still holds the truth."""
    generator = np.random.default_rng(15)
    luck = generator.standard_normal((num_sets, 10))
    base = draw_logs(generator, num_sets, 10, spread=luck)
    new = draw_logs(generator, num_sets, 10, spread=luck + 0.2 * generator.standard_normal(luck.shape))
    paired = paired_difference(base[0], new[0], step=GRID / 0.7)
    unpaired = welch_difference(base[0], new[0], step=GRID / 0.7)
    assert np.mean(np.abs(paired.mean) <= paired.reach(0.05)) >= 0.93
    assert np.median(paired.reach(0.05)) < 0.8 * np.median(unpaired.reach(0.05))


def test_equal_values_on_a_grid_promise_no_certainty() -> None:
    """Five runs that all end at .70 leave it open whether one in six ends at .75."""
    equal = np.log(np.full(5, 0.70))
    step = GRID / 0.70
    assert sample_variance(equal, step) == pytest.approx(np.var([0, 0, 0, 0, 0, step], ddof=1))
    difference = welch_difference(equal, equal, step=step)
    assert float(difference.reach(0.05)) > 0.03
    assert decide(difference, np.asarray(0.05), np.log1p(0.03)) == "inconclusive"
    assert decide(welch_difference(equal, equal, step=0), np.asarray(0.05), np.log1p(0.03)) == ("no difference shown")


def test_holm_levels_step_down_and_stop_at_the_first_that_fails() -> None:
    levels = holm_levels(np.array([0.3, 0.001, 0.02, 0.5]), 0.05)
    # 0.001 <= .05/4, 0.02 > .05/3: from there on the level stays.
    assert levels == pytest.approx([0.05 / 3, 0.05 / 4, 0.05 / 3, 0.05 / 3])
    assert holm_levels(np.array([0.001, 0.002]), 0.05) == pytest.approx([0.025, 0.05])


def reference_holm(p_values: list[float], alpha: float) -> list[bool]:
    """As the textbook has it: adjusted p-values are running maxima."""
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    rejected, running = [False] * len(p_values), 0.0
    for rank, index in enumerate(order):
        running = max(running, p_values[index] * (len(p_values) - rank))
        rejected[index] = running <= alpha
    return rejected


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12), st.sampled_from([0.01, 0.05, 0.2]))
def test_holm_levels_reject_what_the_textbook_rejects(p_values: list[float], alpha: float) -> None:
    levels = holm_levels(np.array(p_values), alpha)
    rejected = [p <= level for p, level in zip(p_values, levels, strict=True)]
    near = any(abs(p * k - alpha) < 1e-9 for p in p_values for k in range(1, 13))
    assert rejected == reference_holm(p_values, alpha) or near


@pytest.mark.parametrize(
    ("mean", "error", "expected"),
    [
        (0.10, 0.01, "slower"),
        (-0.10, 0.01, "faster"),
        (0.002, 0.001, "no difference shown"),
        # Certainly not equal, and certainly less than what is of interest.
        (0.01, 0.001, "below the smallest effect"),
        (-0.01, 0.001, "below the smallest effect"),
        (0.0, 0.1, "inconclusive"),
        (0.10, 0.1, "inconclusive"),
        # Certainly not equal, but not certain to be beyond the smallest effect, or below it.
        (0.025, 0.006, "inconclusive"),
    ],
)
def test_a_verdict_needs_the_interval_and_the_smallest_effect(mean: float, error: float, expected: str) -> None:
    difference = Difference(mean=np.asarray(mean), standard_error=np.asarray(error), degrees=np.asarray(18.0))
    assert decide(difference, np.asarray(0.0125), np.log1p(0.03)) == expected


@given(
    st.lists(st.floats(-3, 3), min_size=2, max_size=12),
    st.lists(st.floats(-3, 3), min_size=2, max_size=12),
    st.floats(0.001, 0.2),
)
def test_a_verdict_turns_around_with_the_sides(base: list[float], new: list[float], step: float) -> None:
    there = welch_difference(np.array(base), np.array(new), step=step)
    back = welch_difference(np.array(new), np.array(base), step=step)
    turned = {"faster": "slower", "slower": "faster"}
    verdict = str(decide(back, np.asarray(0.05), np.log1p(0.03)))
    assert str(decide(there, np.asarray(0.05), np.log1p(0.03))) == turned.get(verdict, verdict)


def test_welch_agrees_with_scipy() -> None:
    from scipy.stats import ttest_ind, ttest_rel

    generator = np.random.default_rng(5)
    base, new = generator.normal(0, 1, 7), generator.normal(0.4, 2, 11)
    ours = welch_difference(base, new, step=0.0)
    theirs = ttest_ind(new, base, equal_var=False)
    assert float(ours.p_value()) == pytest.approx(theirs.pvalue)
    assert float(ours.mean + ours.reach(0.05)) == pytest.approx(theirs.confidence_interval(0.95).high)
    pairs = paired_difference(base, new[:7], step=0.0)
    assert float(pairs.p_value()) == pytest.approx(ttest_rel(new[:7], base).pvalue)

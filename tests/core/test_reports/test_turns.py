"""What a set says of pairs in turns: as pairs of simulated systems find it, with its range, in words."""

import math

import numpy as np
import pytest
from comparison_builder import make_run
from drift_builder import NOISES as SCENES
from drift_builder import Noise, independent, wandering

from reports.facts.noise import Smallest, noise_of_rates, spread_reach
from reports.parts.noise import disturbed_words, outlier_words, size_text, smallest_words, turns_text, variation_text
from reports.results.result import Result
from reports.results.result import make_run as run_of
from reports.statistics.power import POWER
from reports.statistics.ratios import decide, paired_difference


def test_sizes_have_two_digits_and_hopeless_ones_are_said() -> None:
    assert [size_text(size) for size in (0.3814, 0.0779, 0.0996, 1.5, math.inf, None)] == [
        "38 %",
        "7.8 %",
        "10 %",
        "over 100 %",
        "over 100 %",
        "—",
    ]


def test_the_spread_of_a_few_runs_is_known_badly() -> None:
    """Between the two factors of the sample's in 95 % of samples."""
    low, high = spread_reach(5)
    ratios = 1 / np.random.default_rng(6).standard_normal((20_000, 5)).std(axis=1, ddof=1)
    assert np.mean((low < ratios) & (ratios < high)) == pytest.approx(0.95, abs=0.006)


def test_what_is_hopeless_is_called_so_and_ranges_are_given() -> None:
    assert smallest_words(Smallest(apart=1.95, in_turns=1.87, in_turns_low=0.9, in_turns_high=9.0)) == (
        "too noisy to compare: only differences over 100 % would be found"
    )
    assert smallest_words(Smallest(apart=1.95, in_turns=0.05, in_turns_low=0.03, in_turns_high=math.inf)) == (
        "over 100 % in a later set, 5.0 % (3.0 % to over 100 %) alternately if this hour is usual (80 % power)"
    )
    assert turns_text(Smallest(apart=0.2, in_turns=0.031, in_turns_low=0.0305, in_turns_high=0.0308)) == (
        "3.1 % (3.0 – 3.1 %)"
    )
    assert variation_text(0.03, 5) == "3.0 % (95 %: 1.8 – 8.6 %)"
    assert variation_text(0.0, 5, 0.071) == "less than the 7.1 % between two evaluations"
    assert disturbed_words(0.07, 5, None) == disturbed_words(None, 5, None) == disturbed_words(0.27, 1, None) == ""
    varied = "the speed varied by 27.0 % (95 %: 16.2 – 77.6 %) between runs"
    assert disturbed_words(0.27, 5, None) == f"; noisy machine: {varied}"
    assert disturbed_words(0.07, 5, "run 3 at 0.65×") == "; noisy machine: run 3 at 0.65×"


NOISES = {name: SCENES[name] for name in ("independent 0.3 %", "independent 3 %", "independent 5 %")} | {
    "independent 1 %": independent(0.01),
    "wandering 2 %": wandering(0.02),
    "wandering 5 %": wandering(0.05),
}
"""Those of a system that is alike in every set: noise that a set has not met, as a neighbour's, is in no figure."""


@pytest.mark.slow
@pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
@pytest.mark.parametrize("num_sets", [150, pytest.param(1000, marks=pytest.mark.long)])
def test_what_is_printed_of_turns_is_what_pairs_find(noise: Noise, num_sets: int) -> None:
    """The median of sets is within 1.3 of what five pairs find in 80 %, and nine of ten ranges hold that."""
    generator = np.random.default_rng(11)
    found = [
        noise_of_rates(list(1e4 * np.exp(noise(generator, 1, 5)[0])), min_effect=0.03, tolerance=0.2)
        for _ in range(num_sets)
    ]
    turns = np.array([[each.in_turns_low, each.in_turns, each.in_turns_high] for each in found if each])
    low, middle, high = turns.T
    truth = what_pairs_find(noise, 20 * num_sets)
    assert truth / 1.3 < np.median(middle) < truth * 1.3
    assert np.mean((low <= truth * 1.01) & (truth <= high * 1.01)) >= 0.9 - (0.06 if num_sets < 1000 else 0)


def what_pairs_find(noise: Noise, num_sets: int) -> float:
    """The true difference that five pairs, A B B A A B ..., call slower in 80 % of cases, by one test at 95 %."""
    generator = np.random.default_rng(12)
    turns = np.arange(10).reshape(5, 2)
    turns[1::2] = turns[1::2, ::-1]
    pairs = np.array([noise(generator, 1, 10)[0] for _ in range(num_sets)])[:, turns]
    low, high = 0.0, 1.0
    for _ in range(12):
        size = (low + high) / 2
        difference = paired_difference(pairs[..., 0], pairs[..., 1] + size, step=0)
        share = np.mean(decide(difference, np.asarray(0.05), math.log1p(0.03)) == "slower")
        low, high = (low, size) if share >= POWER else (size, high)
    return math.expm1(high)


@pytest.mark.parametrize(
    ("times_s", "is_disturbed"), [((50.0, 50.5, 49.8, 50.2, 50.1), False), ((50, 70, 45, 60, 52), True)]
)
def test_only_what_takes_longer_is_disturbed(times_s: tuple[float, ...], is_disturbed: bool) -> None:
    """Blocks that overlap evaluations may tell both badly apart, in runs that take equally long."""
    rates = [1e4 * factor for factor in (1.0, 1.3, 0.8, 1.1, 0.9)]
    runs = [
        make_run("a", 0, samples_to_converge=700_000, throughput_samples_per_s=rate, time_to_train_s=time_s)
        for rate, time_s in zip(rates, times_s, strict=True)
    ]
    result = Result(label="a", source="logs", benchmark="dlrm_tiny", repetitions=tuple(map(run_of, runs)))
    words = disturbed_words(result.speed_cv, result.num_converged, outlier_words(result))
    assert bool(words) == is_disturbed

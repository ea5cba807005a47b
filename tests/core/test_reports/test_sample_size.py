"""The number of runs that a comparison asks for settles it as often as it says."""

import numpy as np
import pytest
from comparison_builder import make_side

from reports.comparison.pairing import Pairing, pair_runs
from reports.comparison.precision import MAX_RUNS, runs_needed
from reports.statistics.ratios import Difference, decide, paired_difference, welch_difference

LEVEL, SPREAD = 0.0125, 0.04
MARGIN = float(np.log1p(0.03))


def pairing(num_base: int, num_new: int, *, is_paired: bool = False) -> Pairing:
    base, new = (
        make_side("x", [0.7] * number, [1.0] * number, seeds=range(number) if is_paired else None).samples
        for number in (num_base, num_new)
    )
    return pair_runs(base, new)


def measured(effect: float, num_base: int, num_new: int) -> Difference:
    """As if the spread had been estimated without error."""
    error = SPREAD * np.sqrt(1 / num_base + 1 / num_new)
    return Difference(mean=np.asarray(effect), standard_error=np.asarray(error), degrees=np.asarray(18.0))


@pytest.mark.parametrize(("effect", "settled"), [(0.05, "slower"), (-0.08, "faster"), (0.01, "no difference shown")])
def test_that_many_runs_settle_it_in_four_of_five_cases(effect: float, settled: str) -> None:
    needed = runs_needed(measured(effect, 10, 10), LEVEL, MARGIN, pairing(10, 10))
    assert needed is not None
    generator = np.random.default_rng(31)
    base = SPREAD * generator.standard_normal((3_000, needed.number))
    new = effect + SPREAD * generator.standard_normal((3_000, needed.number))
    verdicts = decide(welch_difference(base, new, step=0), np.asarray(LEVEL), MARGIN)
    assert np.mean(verdicts == settled) == pytest.approx(0.8, abs=0.05)


def test_pairs_are_counted_as_pairs() -> None:
    difference = Difference(
        mean=np.asarray(0.05), standard_error=np.asarray(SPREAD / np.sqrt(8)), degrees=np.asarray(7.0)
    )
    needed = runs_needed(difference, LEVEL, MARGIN, pairing(8, 8, is_paired=True))
    assert needed is not None
    apart = 0.05 + SPREAD * np.random.default_rng(32).standard_normal((3_000, needed.number))
    verdicts = decide(paired_difference(np.zeros_like(apart), apart, step=0), np.asarray(LEVEL), MARGIN)
    assert np.mean(verdicts == "slower") == pytest.approx(0.8, abs=0.05)


def test_uneven_sides_plan_even_ones() -> None:
    assert runs_needed(measured(0.05, 5, 20), LEVEL, MARGIN, pairing(5, 20)) == (
        runs_needed(measured(0.05, 10, 10), LEVEL, MARGIN, pairing(10, 10))
    )


def test_a_ratio_right_at_the_smallest_effect_cannot_be_settled() -> None:
    assert runs_needed(measured(np.log(1.03) - 1e-4, 10, 10), LEVEL, MARGIN, pairing(10, 10)) is None


def test_never_fewer_than_verdicts_need() -> None:
    needed = runs_needed(measured(1.0, 5, 5), LEVEL, MARGIN, pairing(5, 5))
    assert needed is not None and (needed.number, needed.low, needed.high) == (5, 5, 5)
    assert MAX_RUNS >= 1_000

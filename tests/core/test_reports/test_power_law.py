"""The fitted law: exact on exact values, refused where it means nothing, and its interval as good as it says."""

import numpy as np
import pytest

from reports.statistics.power_law import LACK_OF_FIT, MAX_EXPONENT, fit_power_law, why_no_law

SCENES = {
    "four sizes, one decade": (0.1, 0.7, 0.1, 0.002, 4, 1.0, 5),
    "steep": (0.5, 0.8, 0.05, 0.001, 4, 1.2, 5),
    "six sizes, two decades": (0.1, 0.5, 0.1, 0.001, 6, 2.0, 5),
    "no floor": (0.05, 0.0, 0.7, 0.002, 5, 2.0, 5),
    "little noise": (0.3, 0.7, 0.1, 0.0003, 5, 1.5, 5),
    "ten seeds": (0.3, 0.7, 0.1, 0.003, 5, 2.0, 10),
}
"""Exponent, floor, what the least size has beyond the floor, noise of a seed, sizes, decades, seeds."""


def simulate(
    scene: tuple[float, float, float, float, int, float, int], seed: int
) -> tuple[list[float], list[list[float]]]:
    """One sweep; larger sizes vary more, and part of a seed's deviation is the same for all sizes."""
    exponent, floor, gain, noise, num_sizes, decades, num_seeds = scene
    generator = np.random.default_rng(seed)
    cost = 1e11 * np.geomspace(1, 10**decades, num_sizes)
    values = gain * (cost / cost[0]) ** -exponent + floor
    own = generator.standard_normal((num_sizes, num_seeds)) * np.linspace(1, 1.5, num_sizes)[:, None]
    shared = generator.standard_normal(num_seeds)
    return list(cost), (values[:, None] + noise * (0.9 * own + 0.4 * shared)).tolist()


@pytest.mark.parametrize(("exponent", "floor", "factor"), [(0.1, 0.6, 1.3), (0.5, 0.7, 40.0), (0.03, 0.0, 2.0)])
def test_exact_values_have_their_law_back(exponent: float, floor: float, factor: float) -> None:
    cost = [1e9, 3e9, 2e10, 7e10, 4e11]
    law = fit_power_law(cost, [[factor * c**-exponent + floor] for c in cost])
    assert law.exponent == pytest.approx(exponent, rel=0.02)
    assert law.floor == pytest.approx(floor, abs=0.02)
    assert law.interval is None, "one seed has no spread"
    assert [law.at(c) for c in cost] == pytest.approx([factor * c**-exponent + floor for c in cost], rel=1e-4)
    assert (law.num_sizes, law.low, law.high) == (5, 1e9, 4e11)
    assert law.decades == pytest.approx(2.602, abs=1e-3)


def test_what_does_not_fall_has_no_exponent() -> None:
    cost = [1e9, 1e10, 1e11, 1e12]
    law = fit_power_law(cost, [[0.7 + 0.01 * i, 0.71 + 0.01 * i] for i in range(4)])
    assert (law.exponent, law.factor) == (0.0, 0.0)
    assert law.interval is not None
    assert (law.interval.low, law.interval.high) == (0.0, 0.0)


def test_what_falls_once_and_stays_has_no_end_of_its_interval() -> None:
    cost = [1e9, 1e10, 1e11, 1e12]
    generator = np.random.default_rng(0)
    law = fit_power_law(cost, [list(v + 1e-3 * generator.standard_normal(5)) for v in (0.9, 0.7, 0.7, 0.7)])
    assert law.interval is not None
    assert law.interval.high == MAX_EXPONENT


@pytest.mark.slow
def test_the_same_numbers_have_the_same_law() -> None:
    cost, values = simulate(SCENES["steep"], 3)
    assert fit_power_law(cost, values, 7) == fit_power_law(cost, values, 7)
    assert fit_power_law(cost, values, 7).exponent == fit_power_law(cost, values, 8).exponent


@pytest.mark.parametrize(
    ("cost", "words"),
    [
        (
            [1e9, 1e10, 1e11],
            "3 different amounts of training FLOP, at least 4 are needed",
        ),
        ([1e9, 1e9, 1e10, 1e11], "3 different amounts"),
        ([1.0, 10.0, 10.0001, 10.0002], "2 different amounts"),
        ([1.0, 1.00001, 1.00002, 11.0], "2 different amounts"),
        ([1e9, 2e9, 3e9, 9e9], "training FLOP from 1e+09 to 9e+09, 0.95 decades, at least 1 is needed"),
        ([], "0 different amounts"),
    ],
)
def test_too_few_or_too_near_sizes_have_no_law(cost: list[float], words: str) -> None:
    assert words in (why_no_law(cost) or "")
    with pytest.raises(ValueError, match=r"needed"):
        fit_power_law(cost, [[0.7, 0.7]] * len(cost))
    assert why_no_law([1e9, 2e9, 3e9, 1e10]) is None


def test_a_logarithmic_law_keeps_its_gain_and_has_no_floor_that_is_known() -> None:
    values = (0.6003, 0.5865, 0.5722, 0.5584, 0.5446, 0.5308)
    generator = np.random.default_rng(0)
    cost = list(np.geomspace(1e9, 1e11, 6))
    law = fit_power_law(cost, [list(value + 3e-4 * generator.standard_normal(5)) for value in values])
    assert law.interval is not None and law.interval.low == 0
    assert law.gain_interval is not None and law.gain_interval.low < 0.0695 < law.gain_interval.high
    assert law.gain_interval.high - law.gain_interval.low < 0.002
    assert law.misfit_chance is not None and law.misfit_chance > LACK_OF_FIT


@pytest.mark.parametrize(
    "values", [(0.8, 0.7, 0.65, 0.7, 0.8), (0.9, 0.8, 0.7999, 0.7998, 0.6)], ids=["U", "broken in the middle"]
)
def test_what_follows_no_law_is_found_by_what_seeds_explain(values: tuple[float, ...]) -> None:
    generator = np.random.default_rng(1)
    noise, shared = 1e-3 * generator.standard_normal((5, 5)), 0.05 * generator.standard_normal(5)
    law = fit_power_law(np.geomspace(1, 1e4, 5), (np.array(values)[:, None] + noise + shared).tolist())
    assert law.misfit_chance is not None and law.misfit_chance < LACK_OF_FIT


@pytest.mark.slow
def test_laws_that_hold_are_refused_as_seldom_as_the_test_says() -> None:
    chances = [fit_power_law(*simulate(SCENES["six sizes, two decades"], seed)).misfit_chance for seed in range(30)]
    assert all(chance is not None and chance > LACK_OF_FIT for chance in chances)
    assert 0.2 < np.median([chance or 0 for chance in chances]) < 0.8


def test_an_exponent_is_as_fine_as_the_values() -> None:
    cost = np.geomspace(1e9, 1e12, 6)
    for exponent in (0.2, 0.2013, 0.2027):
        law = fit_power_law(cost, [[0.5 + 1.7 * c**-exponent] for c in cost / cost[0]])
        assert law.exponent == pytest.approx(exponent, rel=1e-4)


def test_sizes_need_equal_seeds() -> None:
    with pytest.raises(ValueError, match=r"inhomogeneous|same number"):
        fit_power_law([1e9, 2e9, 3e9, 1e10], [[0.7, 0.7], [0.7], [0.6, 0.6], [0.5, 0.5]])


@pytest.mark.long
@pytest.mark.parametrize("scene", SCENES.values(), ids=SCENES)
def test_the_printed_interval_holds_a_planted_exponent_in_nine_of_ten_sweeps(
    scene: tuple[float, float, float, float, int, float, int],
) -> None:
    held = []
    for seed in range(200):
        interval = fit_power_law(*simulate(scene, seed), seed).interval
        assert interval is not None
        held.append(interval.low <= scene[0] <= interval.high)
    assert np.mean(held) >= 0.9

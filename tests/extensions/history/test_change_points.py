"""Change points: how often pages show one where nothing changes, and where something does, by simulation."""

from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray

from harness.extensions.history.change_points import (
    CORRELATIONS,
    LEAST,
    Changes,
    find_changes,
    level_likelihoods,
    partition,
)

Floats = NDArray[np.float64]
NOISE = 0.05
LEVEL = 1e-3 * np.asarray([3.0, -1, 2, -2, 1, 0, -3, 2, -1, 1, -2, 3])


def draw(number: int, *sizes: tuple[int, float], correlation: float = 0.0, seed: int = 1) -> Floats:
    """Draw series [number, sets] of parts, each (sets, mean), with noise of 5 % that is an AR(1) of `correlation`."""
    means = np.concatenate([np.full(size, mean) for size, mean in sizes])
    noise = np.random.default_rng(seed).standard_normal((number, len(means)))
    for at in range(1, len(means)):
        noise[:, at] = correlation * noise[:, at - 1] + np.sqrt(1 - correlation**2) * noise[:, at]
    return means + NOISE * noise


def pages_shown(drawn: Floats, num_series: int) -> float:
    """Return the share of pages that show a change; each page has `num_series` of the series drawn."""
    pages = drawn.reshape(-1, num_series, drawn.shape[-1])
    return float(np.mean([any(found.places for found in find_changes(list(page))) for page in pages]))


def disturb(drawn: Floats, times: float, seed: int = 2) -> Floats:
    """Move each four sets in a row, half of them by chance, by `times` the noise, as other work on a machine does."""
    number, size = drawn.shape
    is_there = np.random.default_rng(seed).random((number, size // 4 + 1)) < 0.5
    return drawn + times * NOISE * np.repeat(is_there, 4, axis=1)[:, :size]


PAGES = pytest.mark.parametrize("num_series", [1, 4])
NUMBERS = (pytest.param(500, marks=pytest.mark.long), 60)
"""Pages of a simulation. Of few, a share may exceed its bound by what chance explains: `ceiling`."""


EXACT_NUMBERS = (pytest.param(3000, marks=pytest.mark.long), 60)
"""Pages for shares that are near their bounds: of 500 such pages chance alone takes some beyond."""


def ceiling(bound: float, number: int) -> float:
    """Three standard errors above a bound on a share of so many."""
    return bound + 3.0 * float(np.sqrt(bound * (1.0 - bound) / number)) if number < 500 else bound


@pytest.mark.slow
@PAGES
@pytest.mark.parametrize("number", EXACT_NUMBERS)
@pytest.mark.parametrize("size", [8, 12, 20, 30])
def test_pages_of_independent_sets_without_a_change_show_none(number: int, size: int, num_series: int) -> None:
    assert pages_shown(draw(number * num_series, (size, 0.0)), num_series) <= ceiling(0.02, number)


@pytest.mark.slow
@PAGES
@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("size", [8, 12, 20])
@pytest.mark.parametrize("correlation", [0.3, 0.5, 0.7, 0.9])
def test_pages_of_sets_that_resemble_their_neighbours_show_few(
    number: int, size: int, num_series: int, correlation: float
) -> None:
    drawn = draw(number * num_series, (size, 0.0), correlation=correlation)
    assert pages_shown(drawn, num_series) <= ceiling(0.25 if (size, num_series) == (12, 4) else 0.1, number)


@pytest.mark.slow
@PAGES
@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("size", [8, 20])
@pytest.mark.parametrize("times", [1.0, 2.0])
def test_pages_of_sets_with_neighbours_who_stay_show_few(
    number: int, size: int, num_series: int, times: float
) -> None:
    drawn = disturb(draw(number * num_series, (size, 0.0)), times)
    assert pages_shown(drawn, num_series) <= ceiling(0.1, number)


@pytest.mark.slow
@PAGES
@pytest.mark.parametrize("number", EXACT_NUMBERS)
@pytest.mark.parametrize("size", [12, 20, 30])
def test_a_step_of_5_deviations_is_found_once_3_sets_follow_it(number: int, size: int, num_series: int) -> None:
    stepped, level = draw(number, (size - 3, 0.0), (3, 5 * NOISE)), draw(3 * number, (size, 0.0), seed=2)
    pages = [[series, *level[3 * at : 3 * at + num_series - 1]] for at, series in enumerate(stepped)]
    found = np.mean([bool(find_changes(page)[0].places) for page in pages])
    assert 1.0 - found <= ceiling(0.15, number)


def test_independent_series_of_12_sets_are_judged() -> None:
    found = [find_changes([series])[0] for series in draw(200, (12, 0.0))]
    assert np.mean([each.is_correlated or each.is_trend or each.is_too_short for each in found]) <= 0.1


@pytest.mark.parametrize("size", [20, 40])
def test_a_steady_trend_is_no_change_and_called_one(size: int) -> None:
    drawn = draw(60, (size, 0.0)) + np.linspace(0.0, 6.0 * NOISE, size)
    found = [find_changes([series])[0] for series in drawn]
    assert np.mean([bool(each.places) for each in found]) <= 0.05
    assert np.mean([each.is_trend for each in found]) >= 0.75


@pytest.mark.slow
@PAGES
@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize(
    ("size", "correlation"), [(8, 0.0), (8, 0.5), (12, 0.0), (12, 0.5), (20, 0.0), (20, 0.5), (40, 0.5)]
)
@pytest.mark.parametrize("rise", [3.0, 10.0, 60.0])
@pytest.mark.parametrize("is_straight", [True, False])
def test_pages_of_sets_that_drift_show_few(
    number: int, size: int, num_series: int, rise: float, is_straight: bool, correlation: float
) -> None:
    """Straight, or less and less, as where a machine warms up; `rise` is in standard deviations."""
    at = np.linspace(0.0, 1.0, size)
    drift = at if is_straight else 1.0 - np.exp(-3.0 * at)
    drawn = draw(number * num_series, (size, 0.0), correlation=correlation) + rise * NOISE * drift
    bound = (0.3 if correlation else 0.2) if (size, num_series) == (12, 4) else 0.1
    assert pages_shown(drawn, num_series) <= ceiling(bound, number)


def test_the_steps_are_the_best_of_all_places() -> None:
    values = draw(1, (11, 0.0), seed=5)[0]
    values -= values.mean()

    def residual(*places: int) -> float:
        return float(sum(np.var(part) * len(part) for part in np.split(values, places)))

    places = range(LEAST, 12 - LEAST)
    (one, at), (two, both), *_ = partition(values)
    assert one == pytest.approx(min(residual(place) for place in places)) == pytest.approx(residual(*at))
    apart = [(a, b) for a, b in combinations(places, 2) if b - a >= LEAST]
    assert two == pytest.approx(min(residual(*each) for each in apart)) == pytest.approx(residual(*both))


@pytest.mark.parametrize("number", [12, 25])
def test_likelihoods_are_integrals_of_the_normal_densitys(number: int) -> None:
    """Over the noise alone, by quadrature, of a level and a step whose means' integrals are Gaussian."""
    values = draw(1, (number, 0.0), seed=7)[0] / NOISE
    values -= values.mean()

    def integral(design: Floats, covariance: Floats) -> float:
        inverse = np.linalg.inv(covariance)
        inside = design.T @ inverse @ design
        left = values @ inverse @ values - values @ inverse @ design @ np.linalg.solve(
            inside, design.T @ inverse @ values
        )
        sd = np.geomspace(0.02, 50.0, 20_001)
        exponent = number - design.shape[1]
        heights = -exponent * np.log(sd) - left / (2 * sd**2) - 0.5 * np.linalg.slogdet(covariance)[1]
        heights += -0.5 * np.linalg.slogdet(inside)[1]
        return float(np.log(np.trapezoid(np.exp(heights - heights.max()), np.log(sd))) + heights.max())

    lags = np.abs(np.subtract.outer(np.arange(number), np.arange(number)))
    ones = np.ones((number, 1))
    quadratures = [integral(ones, r**lags if r else np.eye(number)) for r in CORRELATIONS]
    ours = level_likelihoods(values, 0.0)
    assert np.subtract(ours, ours[0]) == pytest.approx(np.subtract(quadratures, quadratures[0]), abs=1e-4)


def test_a_clear_step_is_placed_before_its_first_set() -> None:
    (found,) = find_changes([np.concatenate([LEVEL, LEVEL[:3] + 1.0])])
    assert found == Changes(places=(12,))
    assert find_changes([7.0 - 100.0 * np.concatenate([LEVEL, LEVEL[:3] + 1.0])]) == [found]


def test_two_steps_are_two_changes() -> None:
    series = np.concatenate([LEVEL, LEVEL + 1.0, LEVEL + 2.0])
    assert find_changes([series]) == [Changes(places=(12, 24))]


def test_two_sets_after_a_step_are_too_few_to_place_it() -> None:
    (found,) = find_changes([np.concatenate([LEVEL, LEVEL[:2] + 1.0])])
    assert 12 not in found.places


@pytest.mark.parametrize(("number", "is_too_short"), [(0, True), (5, True), (7, True), (8, False)])
def test_series_that_cannot_show_a_change_say_so(number: int, is_too_short: bool) -> None:
    series = np.concatenate([LEVEL[: max(number - 3, 0)], LEVEL[:3] + 1.0])[:number]
    (found,) = find_changes([series])
    assert (found.is_too_short, bool(found.places)) == (is_too_short, not is_too_short)


def test_beside_more_series_a_change_must_be_clearer() -> None:
    step = np.concatenate([LEVEL, LEVEL[:3] + 0.008])
    assert find_changes([step])[0].places == (12,)
    assert find_changes([step, *[LEVEL] * 100])[0].places == ()


def test_a_series_that_wanders_shows_nothing_and_says_why() -> None:
    assert find_changes([np.sin(np.arange(40.0) / 6)]) == [Changes(is_correlated=True)]


def test_equal_values_and_no_series_show_nothing() -> None:
    assert find_changes([np.full(30, 1.0 / 3.0)]) == [Changes()]
    assert find_changes([]) == []


def test_two_levels_without_noise_are_a_change() -> None:
    assert find_changes([np.repeat([0.1, 0.3], [20, 5])]) == [Changes(places=(20,))]

"""Change points: how often pages show one where nothing changes, and where something does, by simulation."""

from collections.abc import Sequence
from itertools import permutations

import numpy as np
import pytest
from numpy.typing import NDArray

from harness.extensions.history.change_points import LEAST, Changes, find_changes, split_of

Floats = NDArray[np.float64]
NOISE, STEP = 0.05, np.log(1.15)
LEVEL_LINE = 1e-3 * np.asarray([3.0, -1, 2, -2, 1, 0, -3, 2, -1, 1, -2, 3])


def draw(number: int, *sizes: tuple[int, float], correlation: float = 0.0, seed: int = 1) -> Floats:
    """Lines [number, sets] of parts, each (sets, mean), with noise of 5 % that is an AR(1) of this correlation."""
    means = np.concatenate([np.full(size, mean) for size, mean in sizes])
    noise = np.random.default_rng(seed).standard_normal((number, len(means)))
    for at in range(1, len(means)):
        noise[:, at] = correlation * noise[:, at - 1] + np.sqrt(1 - correlation**2) * noise[:, at]
    return means + NOISE * noise


def share_shown(lines: Floats) -> float:
    """The share of pages of one line each that show a change."""
    return float(np.mean([bool(find_changes([line])[0].places) for line in lines]))


@pytest.mark.parametrize(("number", "most"), [pytest.param(1000, 0.05, marks=pytest.mark.long), (100, 0.05)])
def test_pages_without_a_change_show_one_in_at_most_5_percent(number: int, most: float) -> None:
    assert share_shown(draw(number, (30, 0.0))) <= most


@pytest.mark.slow
@pytest.mark.parametrize(("before", "after"), [(19, 3), (20, 3), (20, 10)])
@pytest.mark.parametrize(("number", "least"), [pytest.param(1000, 0.9, marks=pytest.mark.long), (50, 0.8)])
def test_a_step_of_15_percent_is_found_once_3_sets_follow_it(
    number: int, least: float, before: int, after: int
) -> None:
    assert share_shown(draw(number, (before, 0.0), (after, STEP))) >= least


@pytest.mark.slow
@pytest.mark.parametrize("correlation", [0.5, 0.7, 0.9])
@pytest.mark.parametrize(("number", "most"), [pytest.param(1000, 0.1, marks=pytest.mark.long), (50, 0.2)])
def test_of_sets_that_resemble_their_neighbours_at_most_10_percent_show_a_change(
    number: int, most: float, correlation: float
) -> None:
    assert share_shown(draw(number, (30, 0.0), correlation=correlation)) <= most


@pytest.mark.parametrize("number", [pytest.param(300, marks=pytest.mark.long), 20])
def test_all_lines_of_a_page_are_one_family(number: int) -> None:
    lines = draw(5 * number, (25, 0.0)).reshape(number, 5, 25)
    assert np.mean([any(found.places for found in find_changes(list(page))) for page in lines]) <= 0.05


@pytest.mark.slow
def test_the_p_of_a_split_is_the_share_of_all_orders() -> None:
    values = np.asarray([0.1, 0.3, 0.2, 1.1, 0.9, 1.3, 1.0])

    def apart(line: Sequence[float]) -> float:
        return max(
            abs(np.mean(line[:at]) - np.mean(line[at:])) * (at * (7 - at)) ** 0.2 for at in range(LEAST, 8 - LEAST)
        )

    exact = np.mean([apart(order) >= apart(list(values)) - 1e-12 for order in permutations(values)])
    place, p = split_of(values)
    assert (place, p) == (3, pytest.approx(exact, abs=0.02))


def test_a_clear_step_is_placed_before_its_first_set() -> None:
    (found,) = find_changes([np.concatenate([LEVEL_LINE, LEVEL_LINE[:3] + 1.0])])
    assert found == Changes(places=(12,))
    assert find_changes([7.0 - 100.0 * np.concatenate([LEVEL_LINE, LEVEL_LINE[:3] + 1.0])]) == [found]


def test_two_steps_are_two_changes() -> None:
    line = np.concatenate([LEVEL_LINE, LEVEL_LINE + 1.0, LEVEL_LINE + 2.0])
    assert find_changes([line]) == [Changes(places=(12, 24))]


def test_two_sets_after_a_step_are_too_few_to_place_it() -> None:
    (found,) = find_changes([np.concatenate([LEVEL_LINE, LEVEL_LINE[:2] + 1.0])])
    assert 12 not in found.places


@pytest.mark.parametrize(("number", "is_too_short"), [(0, True), (5, True), (7, True), (8, False)])
def test_lines_that_cannot_show_a_change_say_so(number: int, is_too_short: bool) -> None:
    line = np.concatenate([LEVEL_LINE[: max(number - 3, 0)], LEVEL_LINE[:3] + 1.0])[:number]
    (found,) = find_changes([line])
    assert (found.is_too_short, bool(found.places)) == (is_too_short, not is_too_short)


def test_beside_more_lines_more_sets_are_needed() -> None:
    short = np.concatenate([LEVEL_LINE[:5], LEVEL_LINE[:3] + 1.0])
    assert find_changes([short])[0].places == (5,)
    assert find_changes([short, LEVEL_LINE, LEVEL_LINE[::-1]])[0] == Changes(is_too_short=True)


def test_a_line_that_wanders_shows_nothing_and_says_why() -> None:
    assert find_changes([np.sin(np.arange(40.0) / 6)]) == [Changes(is_correlated=True)]


def test_equal_values_and_no_lines_show_nothing() -> None:
    assert find_changes([np.full(30, 1.0 / 3.0)]) == [Changes()]
    assert find_changes([]) == []


def test_two_levels_without_noise_are_a_change() -> None:
    assert find_changes([np.repeat([0.1, 0.3], [20, 5])]) == [Changes(places=(20,))]

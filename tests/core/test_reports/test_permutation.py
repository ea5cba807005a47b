"""Permutation tests against brute force and known values; Cliff's delta and Fisher's test likewise."""

from itertools import combinations, product

import numpy as np
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import fisher_exact

from reports.statistics.permutation import cliffs_delta, fisher_p, permutation_p

# Small whole numbers, so that ties abound and sums are exact.
values = st.lists(st.integers(-3, 3).map(float), min_size=2, max_size=5)


@settings(max_examples=examples(50))
@given(values, values)
def test_unpaired_p_is_the_share_of_all_rearrangements(base: list[float], new: list[float]) -> None:
    together = base + new
    observed = abs(np.mean(new) - np.mean(base))
    far = [
        abs(
            np.mean([together[i] for i in chosen])
            - np.mean([together[i] for i in range(len(together)) if i not in chosen])
        )
        >= observed - 1e-9
        for chosen in combinations(range(len(together)), len(new))
    ]
    assert permutation_p(np.array(base), np.array(new), is_paired=False) == pytest.approx(np.mean(far))


@settings(max_examples=examples(50))
@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(-3, 3)), min_size=2, max_size=7))
def test_paired_p_is_the_share_of_all_sign_changes(pairs: list[tuple[int, int]]) -> None:
    base, new = (np.array(side, dtype=float) for side in zip(*pairs, strict=True))
    apart = new - base
    far = [abs(np.dot(signs, apart)) >= abs(apart.sum()) for signs in product((-1, 1), repeat=len(apart))]
    assert permutation_p(base, new, is_paired=True) == pytest.approx(np.mean(far))


def test_ten_against_ten_apart_is_two_in_all_rearrangements() -> None:
    assert permutation_p(np.arange(10.0), np.arange(10.0) + 50, is_paired=False) == pytest.approx(2 / 184_756)


@pytest.mark.parametrize("is_paired", [False, True])
def test_many_runs_are_rearranged_at_random_and_always_alike(is_paired: bool) -> None:
    generator = np.random.default_rng(2)
    base, new = generator.normal(0, 1, 40), generator.normal(0, 1, 40)
    first = permutation_p(base, new, is_paired=is_paired)
    assert first == permutation_p(base, new, is_paired=is_paired)
    assert 0.0 < first <= 1.0
    assert permutation_p(base, base + 10 + 0.01 * new, is_paired=is_paired) == pytest.approx(1 / 20_001)


@pytest.mark.parametrize("is_paired", [False, True])
def test_equal_values_have_p_1(is_paired: bool) -> None:
    assert permutation_p(np.full(6, 0.7), np.full(6, 0.7), is_paired=is_paired) == 1.0


def test_cliffs_delta_counts_pairs() -> None:
    assert cliffs_delta(np.array([1.0, 2.0]), np.array([3.0, 4.0])) == 1.0
    assert cliffs_delta(np.array([1.0, 2.0]), np.array([1.0, 2.0])) == 0.0
    assert cliffs_delta(np.array([1.0, 2.0, 3.0]), np.array([2.0])) == 0.0
    assert cliffs_delta(np.array([2.0]), np.array([1.0, 1.0, 2.0, 3.0])) == -0.25


@given(st.integers(1, 12), st.integers(1, 12), st.data())
def test_fisher_agrees_with_scipy(num_base: int, num_new: int, data: st.DataObject) -> None:
    yes, other = data.draw(st.integers(0, num_base)), data.draw(st.integers(0, num_new))
    expected = fisher_exact([[yes, num_base - yes], [other, num_new - other]]).pvalue
    assert fisher_p(yes, num_base, other, num_new) == pytest.approx(expected)


@pytest.mark.slow
@pytest.mark.parametrize(("num_base", "num_new"), [(10, 10), (2, 17), (17, 2), (1, 40), (9, 4)])
def test_sums_of_halves_count_what_all_rearrangements_count(num_base: int, num_new: int) -> None:
    """Also with ties, as times on a grid have: every sum is made here, and its distance from the mean looked at."""
    generator = np.random.default_rng(num_base)
    for together in (generator.normal(0, 1, num_base + num_new), generator.integers(0, 3, num_base + num_new) / 7):
        centred = together - together.mean()
        sums = np.array([centred[list(places)].sum() for places in combinations(range(len(centred)), num_new)])
        observed = abs(centred[num_base:].sum())
        expected = np.count_nonzero(np.abs(sums) >= observed - 1e-12 * np.abs(sums).max()) / len(sums)
        assert permutation_p(together[:num_base], together[num_base:], is_paired=False) == expected

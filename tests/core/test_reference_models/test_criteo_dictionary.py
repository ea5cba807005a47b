"""Numbering categories: by first appearance in training, rare and unseen ones together."""

from collections import Counter

import numpy as np
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from reference_models.data.prepared.dictionary import RARE_ID, ValueCounts, number_values

VALUES = st.lists(st.one_of(st.integers(0, 6), st.integers(0, 2**32 - 1)), max_size=60)


def number_simply(train: list[int], min_frequency: int) -> dict[int, int]:
    """As data_utils.py does: a dict that numbers values in the order of their first appearance."""
    counts = Counter(train)
    ids: dict[int, int] = {}
    for value in train:
        if counts[value] >= min_frequency:
            ids.setdefault(value, len(ids) + 1)
    return ids


def count(values: list[int], stretch: int) -> ValueCounts:
    counted, column = ValueCounts.empty(), as_column(values)
    for start in range(0, len(column), stretch):
        counted = counted.add(column[start : start + stretch], start)
    return counted


def as_column(values: list[int]) -> NDArray[np.uint32]:
    return np.array(values, np.uint32)


@settings(max_examples=examples(200), deadline=None)
@given(train=VALUES, other=VALUES, min_frequency=st.integers(1, 4), stretch=st.integers(1, 20))
def test_ids_are_those_of_a_simple_dict_whatever_the_stretches(
    train: list[int], other: list[int], min_frequency: int, stretch: int
) -> None:
    dictionary = number_values(count(train, stretch), min_frequency)
    wanted = number_simply(train, min_frequency)
    assert dictionary.num_embeddings == len(wanted) + 1
    for column in (train, other):
        assert dictionary.encode(as_column(column)).tolist() == [wanted.get(value, RARE_ID) for value in column]


def test_counts_and_first_rows_do_not_depend_on_the_stretches() -> None:
    values = np.random.default_rng(0).integers(0, 50, 1000).tolist()
    whole, pieces = count(values, 1000), count(values, 7)
    for field in ("values", "first_rows", "counts"):
        np.testing.assert_array_equal(getattr(whole, field), getattr(pieces, field))
    assert whole.counts.sum() == 1000

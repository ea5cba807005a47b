"""Caches of other policies: misses by hand, LRU as by stack distances, static sets judged by other lookups."""

import numpy as np
import pytest

from harness.extensions.memory.policies import POLICIES, count_lfu, count_lru, count_static, miss_ratios
from reference_models.data.synthetic.dataset import zipf_ranks
from reference_models.data.traces.stack_distances import StackDistances
from reference_models.data.traces.trace import Ids


def zipf(num_lookups: int, num_rows: int, seed: int = 0) -> Ids:
    return zipf_ranks(np.random.default_rng(seed).random(num_lookups), num_rows, 1.05)


def naive_lfu(keys: list[int], num_rows: int, start: int) -> int:
    """LFU with dynamic ageing, every row looked at for each that is given up."""
    uses, priority, reached = dict[int, int](), dict[int, int](), dict[int, int]()
    age = misses = 0
    for number, key in enumerate(keys):
        if key not in priority:
            misses += number >= start
            if len(priority) == num_rows:
                victim = min(priority, key=lambda row: (priority[row], reached[row]))
                age = priority.pop(victim)
                uses[victim] = 0
        uses[key] = uses.get(key, 0) + 1
        priority[key], reached[key] = age + uses[key], number
    return misses


@pytest.mark.parametrize("size", [1, 7, 60, 400])
def test_lfu_gives_up_the_row_of_the_least_priority(size: int) -> None:
    keys = np.concatenate([zipf(1_500, 600), zipf(1_500, 600, 1) + 300]).tolist()
    assert count_lfu(keys, size, 1_000) == naive_lfu(keys, size, 1_000)


def test_lfu_by_hand() -> None:
    """Row 1 has been looked up thrice when 2, 3, 4 and 5 come: the age rises until it is given up all the same."""
    assert count_lfu([1, 1, 1, 2, 3, 2, 1], 2, 0) == 4
    assert count_lfu([1, 1, 2, 3, 4, 5, 1], 2, 0) == 6


@pytest.mark.parametrize("size", [1, 50, 900, 5_000])
def test_lru_misses_as_stack_distances_say(size: int) -> None:
    keys = zipf(20_000, 4_000)
    distances = StackDistances().update(keys, np.ones(len(keys)))
    assert count_lru(keys.tolist(), size, 10_000) == (distances[10_000:] >= size).sum()


def test_a_static_set_is_chosen_by_the_half_that_is_past() -> None:
    keys = [7, 7, 7, 8, 8, 9, 1, 1, 1, 7, 8, 9]
    assert [count_static(keys, size, 6) for size in (1, 2, 3, 9)] == [5, 4, 3, 3]


def test_ratios_are_of_the_second_half_and_of_the_policies_that_were_asked_for() -> None:
    keys = np.concatenate([np.arange(500), np.tile(np.arange(10), 50)]) + (1 << 40)
    found = miss_ratios(keys, [10, 600], ["static", "lru"])
    assert [*found] == ["static", "lru"]
    assert found["static"] == [0.0, 0.0] and found["lru"] == [10 / 500, 0.0]
    assert {*miss_ratios(keys, [10], [*POLICIES])} == {"lru", "lfu", "static"}


def test_a_static_set_misses_least_where_chances_stay_and_most_where_they_move() -> None:
    """Independent lookups favour the rows of the highest chances; rows that come and go favour the last ones."""
    stays = miss_ratios(zipf(40_000, 8_000), [200], [*POLICIES])
    assert stays["static"] < stays["lfu"] < stays["lru"]
    moves = miss_ratios(zipf(40_000, 8_000) // 40 + np.arange(40_000) // 40, [200], [*POLICIES])
    assert moves["lru"] < moves["static"] and moves["lfu"] < moves["static"]

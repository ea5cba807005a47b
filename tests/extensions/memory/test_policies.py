"""Caches of other policies: misses by hand, LRU as by stack distances, static sets judged by other lookups."""

import numpy as np
import pytest

from harness.extensions.memory.policies import POLICIES, miss_ratios
from reference_models.data.synthetic.dataset import zipf_ranks
from reference_models.data.traces.stack_distances import StackDistances, measure_curve
from reference_models.data.traces.trace import Ids


def zipf(num_lookups: int, num_rows: int, seed: int = 0) -> Ids:
    return zipf_ranks(np.random.default_rng(seed).random(num_lookups), num_rows, 1.05)


ALIKE = [1] * 5_000
"""Rows of one size."""


def ratios(keys: Ids, sizes: list[int], *names: str) -> dict[str, list[float]]:
    return miss_ratios(keys, np.ones(len(keys), np.int64), sizes, names)


def count(name: str, keys: list[int], units: list[int], size: int, start: int) -> int:
    return int(POLICIES[name].find_misses(keys, units, size, start)[start:].sum())


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


@pytest.mark.parametrize("size", [1, 60])
def test_lfu_gives_up_the_row_of_the_least_priority(size: int) -> None:
    keys = np.concatenate([zipf(900, 400), zipf(900, 400, 1) + 200]).tolist()
    assert count("lfu", keys, ALIKE, size, 600) == naive_lfu(keys, size, 600)


def test_lfu_by_hand() -> None:
    """Row 1 has been looked up thrice when 2, 3, 4 and 5 come: the age rises until it is given up all the same."""
    assert count("lfu", [1, 1, 1, 2, 3, 2, 1], ALIKE, 2, 0) == 4
    assert count("lfu", [1, 1, 2, 3, 4, 5, 1], ALIKE, 2, 0) == 6


@pytest.mark.parametrize("size", [1, 900])
def test_lru_misses_as_stack_distances_say(size: int) -> None:
    keys = zipf(20_000, 4_000)
    distances = StackDistances().update(keys, np.ones(len(keys)))
    assert count("lru", keys.tolist(), ALIKE, size, 10_000) == (distances[10_000:] >= size).sum()


def test_a_static_set_is_chosen_by_the_half_that_is_past() -> None:
    keys = [7, 7, 7, 8, 8, 9, 1, 1, 1, 7, 8, 9]
    assert [count("static", keys, ALIKE, size, 6) for size in (1, 2, 3, 9)] == [5, 4, 3, 3]


def test_ratios_are_of_the_second_half_and_of_the_policies_that_were_asked_for() -> None:
    keys = np.concatenate([np.arange(500), np.tile(np.arange(10), 50)]) + (1 << 40)
    found = ratios(keys, [10, 600], "static", "lru")
    assert [*found] == ["static", "lru"]
    assert found["static"] == [0.0, 0.0] and found["lru"] == [10 / 500, 0.0]
    assert {*ratios(keys, [10], *POLICIES)} == {"lru", "lfu", "static"}


def test_a_static_set_misses_least_where_chances_stay_and_most_where_they_move() -> None:
    """Independent lookups favour the rows of the highest chances; rows that come and go favour the last ones."""
    stays = ratios(zipf(40_000, 8_000), [200], *POLICIES)
    assert stays["static"] < stays["lfu"] < stays["lru"]
    moves = ratios(zipf(40_000, 8_000) // 40 + np.arange(40_000) // 40, [200], *POLICIES)
    assert moves["lru"] < moves["static"] and moves["lfu"] < moves["static"]


def test_rows_of_unlike_sizes_take_their_room() -> None:
    """Rows 0 and 1 have 3 units, rows 2 and 3 one, and row 4 more than the cache."""
    units = [3, 3, 1, 1, 9]
    assert count("lru", [0, 2, 0, 2, 3, 0, 4, 4], units, 4, 0) == 2 + 1 + 1 + 2
    assert count("lfu", [0, 0, 2, 3, 0, 4, 4], units, 4, 0) == 2 + 1 + 2
    assert count("static", [0, 0, 2, 2, 1, 3, 0, 1, 2, 3], units, 4, 6) == 2
    keys = zipf(20_000, 4_000)
    sizes = np.where(keys % 2 == 0, 3, 1)
    curve = measure_curve([keys[:10_000]], units_of=lambda each: np.where(each % 2 == 0, 3, 1))
    by_key = np.where(np.arange(5_000) % 2 == 0, 3, 1).tolist()
    for capacity in (50, 900, 4_000):
        expected = count("lru", keys[:10_000].tolist(), by_key, capacity, 0) / 10_000
        assert abs(curve.miss_ratio(capacity) - expected) < 0.003
    assert [*miss_ratios(keys, sizes, [900], ["lru"])] == ["lru"]

"""Steps are measured until their ratios are known; what is not known by the last round is undecided."""

import importlib.util
import random
from typing import Any

import pytest
from places import TESTS


@pytest.fixture(scope="module")
def ratios() -> Any:
    spec = importlib.util.spec_from_file_location("ratios", TESTS / "performance" / "ratios.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(("num_rounds", "rank"), [(1, 1), (5, 1), (6, 1), (8, 1), (9, 2), (15, 4), (21, 6), (41, 14)])
def test_the_interval_has_the_ranks_of_the_sign_test(ratios: Any, num_rounds: int, rank: int) -> None:
    rounds = [float(number) for number in range(1, num_rounds + 1)]
    random.Random(0).shuffle(rounds)
    assert ratios.Ratios(tuple(rounds)).interval == (rank, num_rounds + 1 - rank)


def test_a_ratio_is_decided_where_its_interval_is_narrow_whatever_a_single_round_says(ratios: Any) -> None:
    steady = ratios.Ratios.of([1.5] * 9, [1.0] * 8 + [0.5])
    assert steady.is_decided and steady.text() == "1.50 (1.50 to 1.50; rounds 1.50 to 3.00)"
    wandering = ratios.Ratios.of([0.6, 0.9] * 5, [1.0] * 10)
    assert not wandering.is_decided and wandering.percent() == "75 % (60 to 90; rounds 60 to 90) undecided"
    assert ratios.Ratios.of([1.5], [1.0]).text() == "1.50"


@pytest.mark.parametrize(("peer", "num_rounds"), [([1.5], 7), ([1.5, 3.0], 12)], ids=["steady", "wandering"])
def test_rounds_go_on_until_all_is_decided_or_the_last(ratios: Any, peer: list[float], num_rounds: int) -> None:
    def measure_round(number: int) -> dict[str, float]:
        return {"ours": 1.0, "peer": peer[number % len(peer)], "limit": 0.8}

    times = ratios.measure_until_decided(measure_round, "ours", ["peer", "limit"], least=7, most=12)
    assert {name: len(rounds) for name, rounds in times.items()} == dict.fromkeys(
        ("ours", "peer", "limit"), num_rounds
    )

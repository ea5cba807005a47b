"""Seeds of a set: reproducible, distinct, and never those of a reference convergence point."""

import secrets

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rules.benchmarks.seeds import derive_seeds, draw_base_seed, reserved_seeds

BASE_SEEDS = st.integers(0, 2**63)


@given(BASE_SEEDS, st.integers(1, 40))
def test_seeds_are_distinct_and_reproducible(base_seed: int, num_runs: int) -> None:
    seeds = derive_seeds(base_seed, num_runs)
    assert len(set(seeds)) == num_runs
    assert all(0 <= seed < 2**31 for seed in seeds)
    assert seeds == derive_seeds(base_seed, num_runs)
    assert derive_seeds(base_seed, num_runs + 3)[:num_runs] == seeds


@given(BASE_SEEDS, st.integers(1, 10))
def test_reserved_seeds_are_passed_over(base_seed: int, num_runs: int) -> None:
    reserved = frozenset(derive_seeds(base_seed, 4)[::2])
    assert not reserved & set(derive_seeds(base_seed, num_runs, reserved))


def test_base_seeds_come_from_the_systems_entropy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rules.benchmarks.seeds.randbits", secrets.randbits)  # other tests draw one seed
    assert len({draw_base_seed() for _ in range(8)}) > 1


def test_seeds_of_reference_convergence_points_are_reserved() -> None:
    assert reserved_seeds("no_such_benchmark") == frozenset()

"""Chance of a false alarm of the convergence test: exact, and stated wherever an own benchmark is judged."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rules.benchmarks.loader import Benchmark, load_benchmark, shipped_names
from rules.scoring.good_sets import failing_share, failing_words
from rules.scoring.rcp import judge_convergence, load_points, olympic, rcp_file

OWN = [
    benchmark
    for name in sorted(shipped_names())
    if (benchmark := load_benchmark(name)).status == "own" and rcp_file(benchmark, None) is not None
]


@given(st.lists(st.sampled_from([0.5, 0.55, 0.6, 0.7, 0.95]), min_size=1, max_size=5), st.integers(3, 5))
def test_every_set_is_counted(epochs: list[float], num_runs: int) -> None:
    for least in (0.0, 0.551, 0.6012, 0.72, 2.0):
        sets = [olympic(drawn) < least for drawn in product(epochs, repeat=num_runs)]
        assert failing_share(tuple(epochs), num_runs, least) == pytest.approx(sum(sets) / len(sets))


@pytest.mark.slow
@pytest.mark.parametrize("benchmark", OWN, ids=lambda benchmark: benchmark.name)
def test_a_verdict_states_the_chance_of_a_false_alarm(benchmark: Benchmark) -> None:
    """As often as sets that are drawn from the reference's runs and judged by the very test."""
    num_runs, draw, file = benchmark.score.num_runs, np.random.default_rng(5), rcp_file(benchmark, None)
    assert file is not None
    for point in load_points(file, num_runs):
        sets = draw.choice(point.epochs, (1_000, num_runs)).tolist()
        judged = [judge_convergence(benchmark, None, point.global_batch_size, epochs) for epochs in sets]
        failed = [convergence.status == "failed" for convergence in judged]
        (share,) = {convergence.failing_share for convergence in judged}
        assert share is not None and np.mean(failed) == pytest.approx(share, abs=4 * (0.1 / 1_000) ** 0.5)
        words = f"; {failing_words(share)} for a set as fast as the reference"
        assert all(convergence.reason.endswith(words) for convergence in judged)


def test_a_share_is_never_rounded_to_none() -> None:
    shares = (0.0, 1e-6, 0.0118, 0.0870)
    assert [failing_words(share) for share in shares] == [
        "no chance of a false alarm",
        "chance of a false alarm <0.1 %",
        "chance of a false alarm 1.2 %",
        "chance of a false alarm 8.7 %",
    ]

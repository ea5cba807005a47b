"""What samples of the rows say of caches: ranges that hold what all rows say, and nothing of too few rows."""

from collections.abc import Callable

import numpy as np
import pytest

from harness.extensions.memory.estimated import LEAST_SAMPLED, NUM_SAMPLES, EstimatedCurve, estimate_curve
from reference_models.data.synthetic.dataset import zipf_ranks
from reference_models.data.traces.stack_distances import MissRatioCurve, measure_curve
from reference_models.data.traces.trace import Ids

SHARES = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
"""As `trace` lists them."""


def zipf(num_lookups: int, num_rows: int, exponent: float = 1.05) -> Ids:
    return zipf_ranks(np.random.default_rng(0).random(num_lookups), num_rows, exponent)


TRACES: dict[str, Callable[[], Ids]] = {
    "zipf": lambda: zipf(120_000, 120_000),
    "short": lambda: zipf(30_000, 20_000, 0.8),
    "uniform": lambda: np.random.default_rng(1).integers(0, 25_000, 120_000),
    "loops": lambda: np.concatenate(
        [np.tile(np.arange(15_000), 5), zipf(30_000, 15_000), np.tile(np.arange(900), 20)]
    ),
    "drift": lambda: (zipf(120_000, 25_000, 1.2) + np.arange(120_000) // 3) % 60_000,
}


def held(name: str, seeds: range) -> dict[float, list[bool]]:
    """By size, as a share of the rows: whether the range of each seed holds what all rows say."""
    keys, found = TRACES[name](), dict[float, list[bool]]()
    exact, num_rows = measure_curve([keys]), int(keys.max()) + 1
    for seed in seeds:
        estimated = estimate_curve(keys, 0.01, seed)
        assert not estimated.is_exact and len(estimated.curves) == NUM_SAMPLES
        for share in SHARES:
            size = round(share * num_rows)
            ratio, lowest, highest = estimated.ratios(size)
            if ratio is None or lowest is None or highest is None:
                assert size * estimated.sampled < LEAST_SAMPLED
                continue
            assert 0 <= lowest <= ratio <= highest <= 1
            found.setdefault(share, []).append(lowest - 1e-9 <= exact.miss_ratio(size) <= highest + 1e-9)
    return found


def test_a_range_is_that_of_the_samples_and_a_half_of_it_on_either_side() -> None:
    """Samples of 100 lookups that miss 40, 50 and 60 of them."""
    curves = tuple(
        MissRatioCurve(num_lookups=100, num_cold=0.0, distances=np.array([0]), hits=np.array([0.0, hits]))
        for hits in (60.0, 50.0, 40.0)
    )
    assert EstimatedCurve(curves=curves, sampled=1.0).ratios(LEAST_SAMPLED) == pytest.approx((0.5, 0.3, 0.7))
    assert EstimatedCurve(curves=curves[:1], sampled=1.0).ratios(LEAST_SAMPLED) == pytest.approx((0.4, 0.4, 0.4))


def test_a_range_holds_what_all_rows_say() -> None:
    found = held("short", range(1))
    assert len(found) >= 4 and sum(map(sum, found.values())) >= sum(map(len, found.values())) - 1


@pytest.mark.slow
def test_ranges_of_a_sample_of_one_in_a_hundred_hold_what_all_rows_say() -> None:
    of_size = dict[float, list[bool]]()
    for name in TRACES:
        for share, each in held(name, range(10)).items():
            of_size.setdefault(share, []).extend(each)
    assert {share: sum(each) / len(each) for share, each in of_size.items() if np.mean(each) < 0.9} == {}
    assert len(of_size) >= 5


def test_few_rows_are_counted_exactly() -> None:
    keys = zipf(5_000, 800)
    estimated, exact = estimate_curve(keys, 0.01, 0), measure_curve([keys])
    assert estimated.is_exact
    assert estimated.ratios(8) == (exact.miss_ratio(8),) * 3


def test_a_table_that_is_never_looked_up_misses_nothing() -> None:
    assert estimate_curve(np.empty(0, np.int64), 0.01, 0).ratios(10) == (0.0, 0.0, 0.0)


def test_a_range_holds_what_so_few_lookups_say_that_no_sample_has_one() -> None:
    """All rows are looked up twice at once, but for one, which is looked up again after all others."""
    keys = np.concatenate([[40_000], np.repeat(np.arange(40_000), 2), [40_000]])
    estimated, exact = estimate_curve(keys, 0.01, 0), measure_curve([keys]).miss_ratio(30_000)
    _, low, high = estimated.ratios(30_000)
    assert [curve.miss_ratio(30_000) for curve in estimated.curves] == pytest.approx([0.5] * 8, abs=1e-9)
    assert exact - 0.5 > 1e-6 and low is not None and high is not None and low <= exact <= high < low + 2e-3

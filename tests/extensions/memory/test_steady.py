"""Waits in steady state: as queueing theory says of one server, and alike from seed to seed near a ceiling."""

import numpy as np
import pytest
from msgspec.structs import replace as change

from harness.extensions.memory import pooling
from harness.extensions.memory.pooling import RemoteReads, busiest, simulate_waits
from harness.extensions.memory.steady import choose_steady, choose_weighted, find_wait_quantiles, rake_queries
from harness.extensions.memory.tier import TierQuantity, find_tier


@pytest.mark.parametrize("load", [0.1, 0.7, 0.97])
@pytest.mark.parametrize("is_constant", [True, False])
def test_waits_have_pollaczek_and_khinchines_mean(load: float, is_constant: bool) -> None:
    service_s = np.full(7, 3e-6) if is_constant else np.random.default_rng(0).geometric(0.02, 1_000) * 1e-6
    rate = load / float(service_s.mean())
    found = find_wait_quantiles(service_s, rate, 100_000)
    expected = rate * float(np.square(service_s).mean()) / (2 * (1 - load))
    assert float(found.mean()) == pytest.approx(expected, rel=2e-3) and (np.diff(found) >= 0).all()
    assert float((found == 0).mean()) == pytest.approx(1 - load, abs=1e-3)


def test_waits_of_exponential_services_are_exponential() -> None:
    """M/M/1: P(W > t) = load exp(-(1 - load) t / mean service)."""
    service_s, load = -np.log1p(-(np.arange(200_000) + 0.5) / 200_000), 0.8
    found = find_wait_quantiles(service_s, load, 10_000)
    for share in (0.5, 0.9, 0.99, 0.999):
        expected = np.log(load / (1 - share)) / (1 - load)
        assert found[round(share * 10_000)] == pytest.approx(expected, rel=0.01)


def test_queries_are_taken_as_often_as_their_waits_are_likely() -> None:
    waits = np.array([0.0, 5.0, 0.0, 1.0, 2.0])
    chosen = choose_steady(waits, np.array([0.0, 0.0, 0.0, 0.9, 1.9, 4.0, 9.0]))
    assert waits[chosen].tolist() == [0.0, 0.0, 0.0, 1.0, 2.0, 5.0, 5.0] and {*chosen[:3].tolist()} == {0, 2}
    assert choose_steady(np.zeros(3), np.array([0.0, 0.0, 1.0])).tolist() == [0, 1, 2]


def test_what_is_said_near_a_ceiling_is_alike_for_all_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pooling, "NUM_QUERIES", 20_000)
    rows = np.random.default_rng(0).geometric(0.1, (400, 1))
    reads = RemoteReads(rows=rows, partials=np.minimum(rows, 3), bags=np.minimum(rows[:, 0], 3))
    tier = change(find_tier("nand"), channels=TierQuantity(value=4, source="a test"))
    most = busiest(reads, tier, "host", 128)
    rate, found = 0.95 / most.busy_s, list[tuple[float, ...]]()
    for seed in range(5):
        waits = simulate_waits(reads, tier, "host", 128, rate=rate, seed=seed)
        totals = waits.total, waits.steady(most, rate).total
        found.append(tuple(f(each) for each in totals for f in (np.mean, lambda t: np.quantile(t, 0.99))))
    mean, p99, steady_mean, steady_p99 = np.std(np.log(found), axis=0)
    assert steady_mean < mean / 2 and steady_p99 < p99 / 2 and steady_mean < 0.02


def test_weights_meet_the_waits_at_each_resource() -> None:
    rng = np.random.default_rng(0)
    known = [find_wait_quantiles(np.full(3, 1.0), 0.5, 2_000), find_wait_quantiles(np.full(3, 1.2), 0.5, 2_000)]
    first, other = rng.random((2, 20_000))
    drawn = first, np.where(rng.random(20_000) < 0.5, first, other)
    waits = [
        its[(1_999 * each**1.3).astype(int)] for its, each in zip(known, drawn, strict=True)
    ]  # long ones too rare
    weights = rake_queries(waits, known)
    for its, quantiles in zip(waits, known, strict=True):
        chosen = its[choose_weighted(its, weights, 20_000)]
        assert weights.mean() == pytest.approx(1.0)
        for at in (0.0, *np.quantile(quantiles, [0.6, 0.7, 0.8])):
            assert (chosen <= at).mean() == pytest.approx((quantiles <= at).mean(), abs=0.01)

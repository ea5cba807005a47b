"""What reads wait for, against a loop that takes them one by one: channels, depth, waves, and the link all share."""

import heapq
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace as change

from harness.extensions.memory import pooling
from harness.extensions.memory.channels import answer_reads, draw_latencies
from harness.extensions.memory.pooling import RemoteReads, busiest, simulate_waits
from harness.extensions.memory.tier import Tier, TierQuantity, find_tier
from harness.foundation.queue_simulation import ServiceTimes, draw_traffic

ROW_BYTES = 128


def quantity(value: float, **other: Any) -> TierQuantity:
    return TierQuantity(value=value, source="a test", **other)


def made_reads(num_devices: int, mean: float, num_samples: int = 400) -> RemoteReads:
    rows = np.random.default_rng(0).geometric(1 / mean, (num_samples, num_devices))
    rows[::7, 0] = 0
    return RemoteReads(rows=rows, partials=np.minimum(rows, 3), bags=np.minimum(rows.sum(axis=1), 3))


@dataclass
class Looped:
    """Mean and p99 in seconds of what queries wait, but for adding up, and reads in flight where one is issued."""

    mean: float
    p99: float
    in_flight: float


def loop(reads: RemoteReads, tier: Tier, rate: float, depth: float, num_queries: int) -> Looped:
    """Take every read of every query by itself, rows pooled by the host; equal arrivals, other draws of latencies."""
    alike = ServiceTimes(by_items_s=np.zeros(1), factors=np.ones(1))
    traffic = draw_traffic(num_queries, range(len(reads.rows)), alike, seed=1)
    granules, count = tier.granules(ROW_BYTES), tier.num_channels
    read_s = count * max(1 / tier.reads_per_s.value, tier.granule_bytes.value / tier.link_bytes_per_s.value)
    latencies, hop = Latencies(tier, depth, read_s), tier.switch_latency_s.value
    num_devices = reads.rows.shape[1]
    free = [[0.0] * count for _ in range(num_devices)]
    flying: list[list[float]] = [[] for _ in range(num_devices)]
    seen, issued, ready = [0] * num_devices, [0] * num_devices, []
    for arrival, sample in zip((traffic.arrivals_s / rate).tolist(), traffic.items.tolist(), strict=True):
        waves = math.ceil(int(reads.rows[sample].sum()) * granules / tier.host_reads_in_flight.value)
        last = arrival
        for device in range(num_devices):
            number = int(reads.rows[sample, device]) * granules
            while flying[device] and flying[device][0] <= arrival:
                heapq.heappop(flying[device])
            seen[device] += (len(flying[device]) + number) * number
            issued[device] += number
            end, left = arrival, arrival
            for _ in range(number):
                left = max(heapq.heappop(free[device]), arrival) + read_s
                heapq.heappush(free[device], left)
                heapq.heappush(flying[device], left)
                end = max(end, left + latencies.draw() + hop)
            if number and waves > 1:
                alone_s = math.ceil(number / count) * read_s
                end = max(end, left - alone_s + waves * (latencies.mean_s + hop))
            last = max(last, end)
        moved = float(reads.rows[sample].sum()) * granules * tier.granule_bytes.value
        ready.append((last, round(last, 9), arrival, moved / (tier.shared_link("host") or math.inf)))
    link_free, waited = 0.0, []
    for end, _, arrival, crossing in sorted(ready, key=lambda each: each[1:3]):
        link_free = max(link_free, end) + crossing if crossing else link_free
        waited.append((link_free if crossing else end) - arrival)
    at = max(seen[device] / issued[device] for device in range(num_devices))
    return Looped(float(np.mean(waited)), float(np.quantile(waited, 0.99)), at)


class Latencies:
    """Latencies of reads beyond their time in a channel, one by one, at a depth."""

    def __init__(self, tier: Tier, depth: float, read_s: float) -> None:
        latency = tier.read_latency_s
        known = [(1, latency.value, latency.tail), *((e.depth, e.value, e.tail) for e in latency.deeper)]
        self._draws = np.random.default_rng(9)
        self._left: list[float] = []
        exponents = -np.log1p(-(np.arange(400_000) + 0.5) / 400_000)
        beyond = []
        for at, median_s, tail in known:
            steps = [(-math.log(1 - share), time_s) for share, time_s in ((0.5, median_s), *tail)]
            drawn = np.interp(exponents, *zip(*steps, strict=True))
            beyond.append(np.maximum(0.0, drawn - max(read_s, at * read_s / tier.num_channels)))
        share = 1.0 if len(known) == 1 else min(1.0, (depth - 1) / (known[-1][0] - 1))
        self._beyond_s = beyond[0] + share * (beyond[-1] - beyond[0])
        self.mean_s = read_s + float(self._beyond_s.mean())

    def draw(self) -> float:
        if not self._left:
            self._left = self._draws.permutation(self._beyond_s).tolist()
        return self._left.pop()


FLAT = Tier(
    title="constant latency, eight channels",
    read_latency_s=quantity(80e-6),
    reads_per_s=quantity(1e5),
    granule_bytes=quantity(512),
    link_bytes_per_s=quantity(4e9),
    switch_latency_s=quantity(1e-6),
    host_reads_in_flight=quantity(65_535),
    pool_reads_in_flight=quantity(65_535),
    add_bytes_per_s=quantity(1e30),
)
SLOW_LINK = change(FLAT, host_link_bytes_per_s=quantity(1.3 * 512 * 1e5))
FEW = change(SLOW_LINK, host_reads_in_flight=quantity(3))


@pytest.mark.parametrize("tier", [FLAT, SLOW_LINK, FEW], ids=["by reads", "by the link", "in waves"])
@pytest.mark.parametrize("load", [0.5, 0.9])
def test_constant_latencies_wait_as_long_as_read_by_read(
    tier: Tier, load: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pooling, "NUM_QUERIES", 2_000)
    monkeypatch.setattr(pooling, "MORE_NEAR_CEILING", 1)
    reads = made_reads(2, 4)
    most = busiest(reads, tier, "host", ROW_BYTES)
    assert most.name == ("a device's reads" if tier is FLAT else "the host's link")
    rate = load / most.busy_s
    waits = simulate_waits(reads, tier, "host", ROW_BYTES, rate=rate, seed=1)
    looped = loop(reads, tier, rate, 1.0, 2_000)
    assert float(waits.total.mean()) == pytest.approx(looped.mean, rel=1e-6)
    assert float(np.quantile(waits.total, 0.99)) == pytest.approx(looped.p99, rel=1e-6)
    assert waits.depth == pytest.approx(looped.in_flight, rel=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("load", [0.2, 0.5, 0.8, 0.95])
@pytest.mark.parametrize(
    ("name", "num_devices", "mean"), [("nand", 1, 3), ("nand", 1, 40), ("3dxp", 2, 12), ("cxl", 2, 30)]
)
def test_shipped_tiers_wait_as_long_as_read_by_read(
    name: str, num_devices: int, mean: float, load: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = {3: 130_000, 12: 16_000, 30: 8_000, 40: 10_000}[mean]
    monkeypatch.setattr(pooling, "NUM_QUERIES", number)
    monkeypatch.setattr(pooling, "MORE_NEAR_CEILING", 1)
    reads, tier = made_reads(num_devices, mean), find_tier(name)
    rate = load / busiest(reads, tier, "host", ROW_BYTES).busy_s
    waits = simulate_waits(reads, tier, "host", ROW_BYTES, rate=rate, seed=1)
    found = waits.total - waits.adds
    looped = loop(reads, tier, rate, waits.depth, number)
    assert float(found.mean()) == pytest.approx(looped.mean, rel=0.02)
    assert float(np.quantile(found, 0.99)) == pytest.approx(looped.p99, rel=0.03)
    assert waits.depth == pytest.approx(looped.in_flight, rel=0.05)


@pytest.mark.parametrize(
    ("changed", "name", "busy_s"),
    [
        ({}, "a device's reads", 8 / 1e5),
        (
            {"link_bytes_per_s": quantity(512 * 5e4), "host_link_bytes_per_s": quantity(512 * 5e5)},
            "a device's link",
            8 / 5e4,
        ),
        ({"host_link_bytes_per_s": quantity(512 * 1e5)}, "the host's link", 12 / 1e5),
    ],
)
def test_what_is_busiest_is_named(changed: dict[str, TierQuantity], name: str, busy_s: float) -> None:
    reads = RemoteReads(rows=np.array([[8, 4]]), partials=np.array([[1, 1]]), bags=np.array([1]))
    found = busiest(reads, change(FLAT, **changed), "host", ROW_BYTES)
    assert (found.name, found.busy_s) == (name, pytest.approx(busy_s))
    assert found.amount / found.per_s == pytest.approx(busy_s)


def test_drives_share_no_link_and_answer_over_their_own() -> None:
    drive = change(FLAT, switch_latency_s=quantity(0))
    assert (drive.shared_link("host"), FLAT.shared_link("host"), drive.shared_link("switch")) == (None, 4e9, 4e9)
    waits = simulate_waits(made_reads(2, 4), drive, "host", ROW_BYTES, rate=None, seed=1)
    assert not waits.link.any() and not waits.link_queue.any()


def test_a_saturated_device_reads_at_its_ceiling_and_not_above() -> None:
    """As many reads at once as fill all channels many times take their number over the ceiling."""
    for tier in (FLAT, find_tier("nand"), find_tier("3dxp"), find_tier("cxl")):
        number, zero = np.array([10_000 * tier.num_channels]), np.zeros(1)
        drawn = draw_latencies(1, 1, 0)[0]
        found = answer_reads(zero, number, number / tier.reads_per_s.value, tier, drawn, is_alone=True)
        assert float(found.device[0]) == pytest.approx(float(number[0]) / tier.reads_per_s.value, rel=0.02)
        assert found.queue[0] == 0.0


@pytest.mark.parametrize(("name", "depth"), [("nand", 1), ("nand", 16), ("3dxp", 1), ("3dxp", 16)])
def test_a_drive_answers_as_late_as_its_file_says_at_each_depth(name: str, depth: int) -> None:
    """So many reads at once, which find no other: as with that queue depth; what channels make them wait included."""
    tier = find_tier(name)
    latency = tier.read_latency_s
    expected = latency.value if depth == 1 else latency.deeper[0].value
    num_reads = np.full(2_001, depth)
    arrivals = np.arange(2_001) * 1.0
    found = answer_reads(
        arrivals, num_reads, num_reads / tier.reads_per_s.value, tier, draw_latencies(2_001, 1, 0)[0], is_alone=True
    )
    median_s = float(np.median(found.device))
    assert median_s >= expected * 0.99
    if depth == 1:
        assert median_s == pytest.approx(expected, rel=0.02)
    assert found.depth == depth

"""Tiers and pooling: exact where they can be counted by hand, as queueing theory says where they are simulated."""

from collections import OrderedDict
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace as change

from harness.extensions.memory import pooling
from harness.extensions.memory.caches import count_misses, fit_caches, fit_sizes, grid_sizes
from harness.extensions.memory.fleet import Fleet, Watts, count_hosts
from harness.extensions.memory.policies import POLICIES
from harness.extensions.memory.pooling import (
    Placement,
    Pool,
    RemoteReads,
    count_reads,
    link_bytes,
    place_rows,
    service_s,
    simulate_waits,
)
from harness.extensions.memory.setups import TierQuestion
from harness.extensions.memory.tier import TIERS, Tier, TierQuantity, find_tier
from harness.extensions.memory.tiers import tiers_study
from reference_models.data.synthetic.dataset import zipf_ranks
from reference_models.data.traces.stack_distances import MissRatioCurve, measure_curve
from reference_models.data.traces.trace import AccessTrace
from reference_models.process.errors import ConfigError
from reports.page.head import provenance_of_study
from reports.page.studies.study import study_sections
from reports.text.formatting import percent
from rules.errors import DefinitionError
from rules.records.study import StudyRecord

POOLS: tuple[Pool, ...] = get_args(Pool)
PLACEMENTS: tuple[Placement, ...] = get_args(Placement)


def made_trace(num_rows: tuple[int, ...] = (2_000, 500, 900), pooling: int = 20, num_bags: int = 400) -> AccessTrace:
    generator = np.random.default_rng(0)
    ids = [zipf_ranks(generator.random(num_bags * pooling), rows, 1.05) for rows in num_rows]
    offsets = np.arange(0, num_bags * pooling * len(num_rows) + 1, pooling, dtype=np.int64)
    return AccessTrace(num_rows=num_rows, num_bags=num_bags, indices=np.concatenate(ids), offsets=offsets)


def question(*names: str, **asked: object) -> TierQuestion:
    usual = TierQuestion(
        tiers={name: find_tier(name) for name in names}, row_bytes=128, caches=(None,), rate=None, num_devices=1,
        pools=("host",), placement="interleave", local_bytes=0, fit_bytes=None, hit_rate=None, fleet=None, seed=0,
    )  # fmt: skip
    return replace(usual, **asked)  # type: ignore[arg-type]


def rows_of(study: StudyRecord, title: str) -> list[dict[str, object]]:
    (table,) = (table for table in study.tables if table.title.startswith(title))
    return [dict(zip((column.name for column in table.columns), row, strict=True)) for row in table.rows]


@pytest.fixture(autouse=True)
def few_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulate so many that studies are quick."""
    monkeypatch.setattr(pooling, "NUM_QUERIES", 3_000)
    monkeypatch.setattr(pooling, "NUM_UNLOADED", 500)


def expected_wait_s(service: np.ndarray, rate: float) -> float:
    """Mean wait of one queue of Poisson arrivals, of the service times: Pollaczek-Khinchine."""
    return float(rate * np.square(service).mean() / (2 * (1 - rate * service.mean())))


def one_device(rows: np.ndarray) -> RemoteReads:
    return RemoteReads(
        rows=rows[:, None], partials=np.ones((len(rows), 1), np.int64), bags=np.ones(len(rows), np.int64)
    )


@pytest.mark.parametrize("load", [0.5, 0.8])
@pytest.mark.parametrize("is_constant", [True, False])
def test_the_mean_wait_is_pollaczek_khinchines(
    load: float, is_constant: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()  # as many queries as a study has
    rows = np.ones(1_000, np.int64) if is_constant else np.random.default_rng(0).geometric(0.02, 1_000)
    one = TierQuantity(value=1, source="a test: one read after another")
    reads, tier = one_device(rows), change(find_tier("nand"), channels=one)
    service = service_s(reads, tier, "host", 128)[:, 0]
    rate = load / service.mean()
    found = simulate_waits(reads, tier, "host", 128, rate=rate, seed=1).queue.mean()
    assert found == pytest.approx(expected_wait_s(service, rate), rel=0.03)
    if is_constant:  # M/D/1
        assert expected_wait_s(service, rate) == pytest.approx(load * service[0] / (2 * (1 - load)))


def test_two_devices_and_three_rows_by_hand() -> None:
    """Sample 0 reads rows 0, 1, 2 in one bag and row 1 in another; sample 1 reads row 2. Device 0 has rows 0, 2."""
    keys, tables, samples = np.array([0, 1, 2, 1, 2]), np.array([0, 0, 0, 1, 0]), np.array([0, 0, 0, 0, 1])
    devices = place_rows(keys, 3, 0, 2, "interleave")
    assert devices.tolist() == [0, 1, 0, 1, 0]
    reads = count_reads(samples, tables, devices, num_samples=2, num_tables=2, num_devices=2)
    assert reads.rows.tolist() == [[2, 2], [1, 0]]
    assert reads.partials.tolist() == [[1, 2], [1, 0]]
    assert reads.bags.tolist() == [2, 1]
    tier = find_tier("cxl")
    found = {pool: [each.tolist() for each in link_bytes(reads, tier, pool, 128)] for pool in POOLS}
    assert found == {
        "host": [[[256, 256], [128, 0]], [512, 128]],
        "device": [[[128, 256], [128, 0]], [384, 128]],
        "switch": [[[256, 256], [128, 0]], [256, 128]],
    }
    # Sample 0, pooled by the host: 4 rows of 2 lines, all in flight, 4 lines of a device; 512 bytes; 4 adds.
    latency, waits = 240e-9 + 50e-9, simulate_waits(reads, tier, "host", 128, rate=None, seed=0)
    expected = 3 / 600e6 + latency + 512 / 63e9 + 4 * 128 / 128e9
    assert waits.total.max() == pytest.approx(expected) and set(waits.queue.tolist()) == {0.0}
    pooled = simulate_waits(reads, tier, "switch", 128, rate=None, seed=0).total.max()
    assert pooled == pytest.approx(3 / 600e6 + 240e-9 + 256 / 63e9 + 50e-9 + 4 * 128 / 128e9)
    few = change(tier, host_reads_in_flight=TierQuantity(value=3, source="a test"))
    in_waves = simulate_waits(reads, few, "host", 128, rate=None, seed=0).total.max()
    assert in_waves == pytest.approx(3 * latency + 512 / 63e9 + 4 * 128 / 128e9)


@settings(derandomize=True, deadline=None, max_examples=examples(40))
@given(st.integers(1, 5), st.integers(0, 60), st.integers(0, 2**31))
def test_bytes_are_conserved_and_hot_rows_in_local_memory_raise_no_reads(
    num_devices: int, num_local: int, seed: int
) -> None:
    generator = np.random.default_rng(seed)
    keys = zipf_ranks(generator.random(300), 60, 1.05)
    samples, tables = np.sort(generator.integers(0, 20, 300)), generator.integers(0, 3, 300)
    remote = {}
    for placement in PLACEMENTS:
        devices = place_rows(keys, 60, num_local, num_devices, placement)
        away = devices >= 0
        remote[placement] = int(away.sum())
        assert devices.max(initial=-1) < num_devices
        assert len(np.unique(keys[~away])) <= num_local
        reads = count_reads(
            samples[away], tables[away], devices[away], num_samples=20, num_tables=3, num_devices=num_devices
        )
        assert reads.rows.sum() == away.sum()
        assert (reads.bags <= reads.partials.sum(axis=1)).all() and (reads.partials <= reads.rows).all()
        for pool in ("host", "device"):
            of_devices, of_host = link_bytes(reads, find_tier("cxl"), pool, 128)  # type: ignore[arg-type]
            assert np.array_equal(of_devices.sum(axis=1), of_host)
    assert remote["hot-local"] <= remote["interleave"]
    if num_local == 60:
        assert set(remote.values()) == {0}


def test_the_host_link_carries_the_pooling_factor_less_where_the_switch_pools() -> None:
    study = tiers_study(made_trace(pooling=80), question("cxl", pools=POOLS), None, "a test")
    host, device, switch = (row["Host link"] for row in rows_of(study, "Latency added"))
    assert host == 80.0 * switch == 80.0 * device  # type: ignore[operator]
    solved = rows_of(study, "Value at which each parameter, changed alone")
    assert {row["PIFS-Rec over Pond"] for row in solved} == {"3.89×, other traces"}
    name = "Reads in flight of the host"
    assert solved[0][name] == find_tier("cxl").host_reads_in_flight.value
    found = float(solved[0][f"{name} for 3.89×"])  # type: ignore[arg-type]
    slower = change(find_tier("cxl"), host_reads_in_flight=TierQuantity(value=found, source="solved"))
    again = tiers_study(made_trace(pooling=80), question(pools=POOLS, tiers={"x": slower}), None, "a test")
    assert rows_of(again, "Latency added")[2]["Speed-up"] == pytest.approx(3.89, rel=0.01)


def test_pooling_by_the_host_of_one_device_is_the_plain_tier() -> None:
    trace, asked = made_trace(), question("nand", caches=(0.05,), rate=1_000.0)
    plain = tiers_study(trace, asked, None, "a test")
    pooled = tiers_study(trace, replace(asked, pools=("switch", "host"), num_devices=1), None, "a test")
    assert rows_of(plain, "Latency added")[0] == rows_of(pooled, "Latency added")[1]


def test_a_larger_cache_never_misses_more_and_one_of_all_misses_first_accesses_alone() -> None:
    shares = (0.001, 0.01, 0.05, 0.3, 1.0)
    study = tiers_study(made_trace(), question("nand", "3dxp", caches=shares, rate=100.0), None, "a test")
    for name in ("nand", "3dxp"):
        rows = [row for row in rows_of(study, "Reads needed") if row["Tier"] == name]
        ratios = [float(row["Miss ratio"]) for row in rows]  # type: ignore[arg-type]
        assert ratios == sorted(ratios, reverse=True) and ratios[-1] == rows[-1]["Cold misses"] > 0
        assert all(row["From empty"] >= row["Miss ratio"] for row in rows)  # type: ignore[operator]
        assert {row["Read amplification"] for row in rows} == {32.0 if name == "nand" else 4.0}
        assert rows[0]["Reads needed"] == pytest.approx(100 * 60 * ratios[0])
        waits = [row["Mean added"] for row in rows_of(study, "Latency added") if row["Tier"] == name]
        assert waits == sorted(waits, reverse=True)  # type: ignore[type-var]


def test_a_rate_above_what_the_device_reads_is_said_to_be_impossible() -> None:
    asked = question("nand", caches=(0.01, 1.0), rate=40_000.0)
    study = tiers_study(made_trace(), asked, None, "a test")
    first, second = rows_of(study, "Latency added")
    assert first["Mean added"] is None and second["Mean added"] is not None
    assert "cache of 100.0 % of the rows, rows summed by the host: adds" in study.findings[0], "the best case first"
    assert "impossible, not simulated: they would take a device's reads" in study.findings[1]
    none = tiers_study(made_trace(), replace(asked, caches=(0.01,)), None, "a test")
    assert "40,000 queries/s are impossible for nand with a cache of 1.0 % of the rows: they would" in none.title
    far = tiers_study(made_trace(), replace(asked, caches=(0.01,), rate=1e7), None, "a test")
    assert all(
        "10,000,000 queries/s" in said and " times the time there is" in said for said in (far.title, far.findings[0])
    )
    assert "No latency was simulated" in far.findings[-1] and "latencies above" not in far.findings[-1]


def test_a_rate_above_the_hosts_link_is_said_to_be_impossible_and_the_switch_gains_more_below_it() -> None:
    tier, rows = find_tier("cxl"), np.random.default_rng(0).integers(140, 180, (300, 4))
    reads = RemoteReads(rows=rows, partials=np.full((300, 4), 8), bags=np.full(300, 8))
    full = 63e9 / float(link_bytes(reads, tier, "host", 128)[1].mean())
    gains = []
    for load in (0.1, 0.7, 0.95):
        means = [
            float(simulate_waits(reads, tier, pool, 128, rate=full * load, seed=0).total.mean())
            for pool in ("host", "switch")
        ]
        gains.append(means[0] / means[1])
    assert gains == sorted(gains) and gains[2] > 1.1 * gains[0]
    asked = question("cxl", num_devices=4, pools=("host", "switch"), rate=1.01 * 63e9 / (3 * 20 * 128))
    study = tiers_study(made_trace(), asked, None, "a test")
    host, switch = rows_of(study, "Latency added")
    assert (host["Busiest"], host["Busy"]) == ("the host's link", pytest.approx(1.01))
    assert (host["Mean added"], switch["Speed-up"]) == (None, None) and switch["Mean added"] is not None
    assert "impossible, not simulated: they would take the host's link 101.0 % of the time" in study.findings[1]
    assert "host and switch do not both answer this rate" in study.findings[-1]


def test_local_memory_of_all_rows_leaves_nothing_remote() -> None:
    for placement in PLACEMENTS:
        asked = question("cxl", pools=POOLS, local_bytes=1 << 40, placement=placement, rate=100.0)
        study = tiers_study(made_trace(), asked, None, "a test")
        assert study.findings[0].startswith("Nothing is remote")
        assert study.findings[-1].endswith("compare with PIFS-Rec's: nothing is remote.")
        assert {row["Mean added"] for row in rows_of(study, "Latency added")} == {0.0}


@pytest.mark.parametrize(
    "asked, words", [({"hit_rate": 0.6}, "hits 60.0 %"), ({"fit_bytes": 128 * 200}, "shared among the tables")]
)
def test_a_cache_that_is_found_is_what_is_simulated_and_said_first(asked: dict[str, float], words: str) -> None:
    trace = made_trace()
    study = tiers_study(trace, replace(question("nand"), **asked), None, "a test")  # type: ignore[arg-type]
    none = tiers_study(trace, question("nand"), None, "a test")
    assert words in study.title and words in study.findings[0] and study.title.startswith("a test: ")
    (read,), (wait,) = rows_of(study, "Reads needed"), rows_of(study, "Latency added")
    assert wait["Mean added"] < rows_of(none, "Latency added")[0]["Mean added"]  # type: ignore[operator]
    assert "adds" in study.title and "to a query" in study.title
    if "hit_rate" in asked:
        found = rows_of(study, "Smallest LRU cache")[0]
        assert found["Hit rate of all rows"] > 0.6 and "nand below that cache adds " in study.title  # type: ignore[operator]
        assert read["Cache rows"] == found["Cache rows"] and read["Miss ratio"] <= 0.4  # type: ignore[operator]
    else:
        found = rows_of(study, "Memory shared among tables")[0]
        assert read["Miss ratio"] == pytest.approx(found["Miss ratio"])


@pytest.mark.parametrize("num_tables", [1, 3])
def test_what_memory_that_is_shared_misses_is_said_once(num_tables: int) -> None:
    """Of one table, caches cannot be shared another way: there is nothing to set beside it."""
    trace = made_trace((2_000, 500, 900)[:num_tables])
    study = tiers_study(trace, question("nand", fit_bytes=128 * 200), None, "a test")
    row = rows_of(study, "Memory shared among tables")[0]
    ours, at_one = (percent(float(str(row[name]))) for name in ("Miss ratio", "Miss ratio at it"))
    assert (ours == at_one) == (num_tables == 1)
    beside = "" if ours == at_one else f", or {at_one} with the same share of each table's rows"
    misses = f"a cache of 25.00 KiB, shared among the tables, misses {ours} of their lookups{beside}"
    assert study.findings[0] == f"{misses} (computed)."
    assert study.title.startswith(f"a test: {misses}; nand below that cache adds ")


def test_memory_above_that_of_all_rows_is_said_to_hold_them() -> None:
    study = tiers_study(made_trace(), question("nand", fit_bytes=10**12), None, "a test")
    assert "all rows take 425.00 KiB and fit in 931.32 GiB" in study.findings[0]
    (read,) = rows_of(study, "Reads needed")
    assert read["Cache rows"] == 3_400 and "shared" not in study.title


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"caches": (0.7, 1.0)}, "Most misses are first lookups of a row"),
        ({"caches": (0.001, 1.0)}, "With a cache of 100.0 % of the rows, most misses are first lookups of a row"),
        ({"fit_bytes": 128 * 2_000}, "Most misses are first lookups of a row"),
        ({"caches": (0.001,)}, None),
        ({}, None),
    ],
)
def test_misses_that_are_first_lookups_for_the_most_part_are_said_to_be(
    asked: dict[str, Any], said: str | None
) -> None:
    study = tiers_study(made_trace(), replace(question("nand"), **asked), None, "a test")
    assert said is None or (said in study.findings[1] and "This trace has 24,000 lookups" in study.findings[1])
    assert sum("first lookups of a row" in finding for finding in study.findings) == (said is not None)


@pytest.mark.parametrize("asked", [{"fit_bytes": 128 * 200}, {"caches": (0.1,)}])
def test_a_wait_without_a_rate_is_said_to_be_of_queries_that_wait_for_none(asked: dict[str, Any]) -> None:
    alone = tiers_study(made_trace(), replace(question("nand"), **asked), None, "a test")
    assert "to a query without queueing" in alone.title
    assert "at p99 without queueing (400 counted queries; simulated)" in " ".join(alone.findings)
    at_rate = tiers_study(made_trace(), replace(question("nand", rate=10.0), **asked), None, "a test")
    assert not any("without queueing" in said for said in (at_rate.title, *at_rate.findings))


def test_no_p99_is_said_of_few_queries() -> None:
    study = tiers_study(made_trace(num_bags=199), question("nand", rate=10.0), None, "a test")
    (row,) = rows_of(study, "Latency added")
    assert row["p99 added"] is None and row["Mean added"] is not None
    assert {each["p99 added"] for each in rows_of(study, "Added latency at other rates")} == {None}
    assert "of 199 counted queries, too few for a p99" in study.findings[0]


def test_the_machine_of_a_study_is_its_tiers_and_its_page_begins_with_what_a_query_waits_for() -> None:
    study = tiers_study(made_trace(), question("nand", "cxl", num_devices=2), None, "a test")
    assert provenance_of_study(study).machine == "nand compared with cxl, 2 memory devices each, modelled"
    first, second, *_ = study_sections(study, "study1")
    assert first.heading == "Latency added to a query" and second.heading.startswith("Reads needed")


def test_a_hit_rate_that_no_cache_has_is_said_to_be_none() -> None:
    study = tiers_study(made_trace(), replace(question("nand"), hit_rate=0.9999), None, "a test")
    assert "no LRU cache hits" in study.title and "all but first lookups" in study.findings[0]


def test_a_query_waits_longer_the_nearer_the_rate_is_to_the_highest() -> None:
    study = tiers_study(made_trace(), question("nand", caches=(0.05,), rate=100.0), None, "a test")
    rows = rows_of(study, "Added latency at other rates")
    waits = [float(row["Mean added"]) for row in rows]  # type: ignore[arg-type]
    assert waits == sorted(waits) and len(waits) > 4
    (need,) = rows_of(study, "Reads needed")
    assert rows[-1]["Queries/s"] == pytest.approx(need["Highest rate"] * rows[-1]["Load"])  # type: ignore[operator]


def test_hot_rows_in_local_memory_lower_what_is_read() -> None:
    asked = question("cxl", local_bytes=128 * 340)
    found = [
        rows_of(tiers_study(made_trace(), replace(asked, placement=each), None, "a test"), "Reads needed")[0][
            "Miss ratio"
        ]
        for each in PLACEMENTS
    ]
    assert found[0] > 0.8 and found[1] < 0.5  # type: ignore[operator]


@pytest.mark.parametrize(("placement", "is_said"), [("hot-local", True), ("interleave", False)])
def test_rows_that_are_chosen_by_the_lookups_that_judge_them_are_said_to_be(placement: str, is_said: bool) -> None:
    asked = replace(question("cxl", local_bytes=128 * 340), placement=placement)  # type: ignore[arg-type]
    findings = tiers_study(made_trace(), asked, None, "a test").findings
    assert any("an oracle" in finding for finding in findings) == is_said


def made_curves() -> list[MissRatioCurve]:
    return [
        measure_curve([zipf_ranks(np.random.default_rng(s).random(n), 400, 1.05)])
        for s, n in ((0, 6_000), (1, 900), (2, 2_500))
    ]


@pytest.mark.parametrize("max_rows", [0, 1, 37, 120, 500, 1_200])
def test_shared_memory_is_what_trying_all_finds(max_rows: int) -> None:
    curves, sizes = made_curves(), [np.array([0, 3, 10, 25, 60, 120, 250, 400])] * 3
    misses = [curve.misses(each) for curve, each in zip(curves, sizes, strict=True)]
    found = fit_sizes(sizes, misses, max_rows)
    best = min(count_misses(curves, each) for each in product(*map(list, sizes)) if sum(each) <= max_rows)
    assert sum(found) <= max_rows and count_misses(curves, found) == best


@pytest.mark.parametrize("max_rows", [3, 100, 5_000, 77_777, 2_000_000])
def test_shared_memory_never_misses_more_than_one_load_factor(max_rows: int) -> None:
    curves, num_rows = made_curves(), (400, 90_000, 777_777)
    fitted, uniform = fit_caches(curves, num_rows, max_rows)
    assert sum(fitted) <= max_rows and sum(uniform) <= max_rows
    assert count_misses(curves, fitted) <= count_misses(curves, uniform)
    assert set(uniform) <= {
        int(size) for num in num_rows for size in grid_sizes(num, min(1, max_rows / sum(num_rows)))
    }


def test_the_smallest_cache_of_a_hit_rate_is_found_or_said_not_to_be() -> None:
    curve = made_curves()[0]
    size = curve.find_size(0.6)
    assert size is not None and curve.miss_ratio(size) <= 0.4 < curve.miss_ratio(size - 1)
    assert curve.find_size(1.0) is None and curve.find_size(0.0) == 0
    study = tiers_study(made_trace(), question("nand", hit_rate=0.7, fit_bytes=128 * 100), None, "a test")
    (row,) = rows_of(study, "Smallest")
    again = tiers_study(made_trace(), question("nand", caches=(float(row["Cache"]),)), None, "a test")  # type: ignore[arg-type]
    assert rows_of(again, "Reads needed")[0]["Miss ratio"] <= 0.3  # type: ignore[operator]
    shared = rows_of(study, "Memory shared")
    assert shared[0]["Cache rows"] == sum(int(row["Cache rows"]) for row in shared[1:]) <= 100  # type: ignore[call-overload]


def test_hosts_are_counted_from_dram_and_rates_and_power_from_the_watts_of_parts() -> None:
    """3,400 rows of 128 bytes are 435,200: four hosts of 120 kB hold them, of which each answers 50 queries/s."""
    fleet = Fleet(rate=10_030.0, host_dram_bytes=120_000, host_rate=50.0, watts=Watts(100.0, 1e6, 9.0))
    asked = question("nand", caches=(0.1,), num_devices=2, fleet=fleet)
    study = tiers_study(made_trace(), asked, None, "a test")
    before, after = rows_of(study, "Fleet of")
    assert (before["Hosts"], before["Hosts that share the rows"]) == (204, 4)  # 51 copies of four
    assert before["Fleet watts"] == pytest.approx(204 * 100 + 51 * 435_200 / 1e9 * 1e6)
    assert (after["Hosts"], after["Limited by"]) == (201, "the host")  # one host holds the cache of 340 rows
    watts = 201 * (100 + 2 * 9) + 201 * 340 * 128 / 1e9 * 1e6
    assert after["Fleet watts"] == pytest.approx(watts)
    assert after["Saved"] == pytest.approx(1 - watts / before["Fleet watts"])  # type: ignore[operator]
    assert "computed from given watts" in study.findings[-1] and "201 hosts instead of 204" in study.findings[-1]
    slow = tiers_study(made_trace(), replace(asked, fleet=replace(fleet, host_rate=1e9)), None, "a test")
    (need,) = rows_of(slow, "Reads needed")
    limited = rows_of(slow, "Fleet of")[1]
    assert (limited["Queries/s of a host"], limited["Limited by"]) == (need["Highest rate"], "a device's reads")


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({}, "computes no saving of power: give --fleet and --watts"),
        (
            {"fleet": Fleet(rate=10.0, host_dram_bytes=10**6, host_rate=1.0)},
            "computes no saving of power, as --watts was not given",
        ),
        (
            {"fleet": Fleet(rate=10.0, host_dram_bytes=10**9, host_rate=1.0, watts=Watts(1.0, 1.0, 5.0))},
            "In this study, the fleet takes 499.7 % more",
        ),
        (
            {"tiers": {"cxl": find_tier("cxl")}},
            "no speed-up to compare with PIFS-Rec's: --pool host,switch simulates the speed-up",
        ),
    ],
)
def test_the_last_sentence_says_that_a_claim_is_not_shown(asked: dict[str, Any], said: str) -> None:
    study = tiers_study(made_trace(), replace(question("nand"), **asked), None, "a test")
    assert said in study.findings[-1] and "published" in study.findings[-1].lower()
    assert len(study.findings[-1]) < 400, "is cut at a terminal"


def test_a_fleet_behind_a_switch_is_held_against_both_papers_each_in_a_sentence() -> None:
    fleet = Fleet(rate=10.0, host_dram_bytes=10**9, host_rate=1.0, watts=Watts(1.0, 1.0, 5.0))
    study = tiers_study(made_trace(), question("cxl", pools=("host", "switch"), fleet=fleet), None, "a test")
    assert "PIFS-Rec: 3.89×" in study.findings[-2] and study.findings[-1].startswith("For software-defined memory")
    assert max(map(len, study.findings[-2:])) < 400, "is cut at a terminal"


def test_the_last_sentence_says_what_sets_the_gain_of_the_switch() -> None:
    study = tiers_study(made_trace(pooling=80), question("cxl", num_devices=2, pools=POOLS), None, "a test")
    beacon, setter, last = study.findings[-3:]
    assert "3.89× as fast as Pond (rows summed by the host)" in last and len(last) < 400
    assert (
        "depends most on the number of reads that the host keeps in flight (10 in the parameter file of cxl)"
        in setter
    )
    assert "most like BEACON" in beacon and "2.03× as fast as BEACON" in last
    assert all(len(table.title) <= 100 for table in study.tables), "a page cuts longer titles"
    gains = rows_of(study, "Latency added")[2]
    most = next(finding for finding in study.findings if "(limited by the host's link)" in finding)
    assert all(f"(limited by {name})" in most for name in ("the host's link", "a device's reads"))
    few = change(find_tier("cxl"), host_reads_in_flight=TierQuantity(value=20, source="twice"))
    asked = question(tiers={"cxl": few}, num_devices=2, pools=POOLS)
    twice = rows_of(tiers_study(made_trace(pooling=80), asked, None, "a test"), "Latency added")[2]["Speed-up"]
    assert f"with this value doubled to 20, the switch is {twice:.2f}× as fast" in setter
    assert gains["Speed-up, least"] < twice < gains["Speed-up"] < gains["Speed-up, most"]  # type: ignore[operator]


@pytest.mark.parametrize(
    ("watts", "caches", "said"),
    [
        (Watts(1.0, 1.0, 5.0), (0.1,), "nand with a cache of 10.0 % of the rows takes 10 hosts instead of 10 "),
        (
            Watts(1.0, 1e6, 0.0),
            (0.1, 0.5),
            "nand with a cache of 10.0 % of the rows takes least of 2: 10 hosts instead of 10",
        ),
        (None, (None,), "nand takes 10 hosts instead of 10 with all rows in DRAM"),
    ],
)
def test_how_many_hosts_a_fleet_takes_is_said_first(
    watts: Watts | None, caches: tuple[float | None, ...], said: str
) -> None:
    fleet = Fleet(rate=10.0, host_dram_bytes=10**9, host_rate=1.0, watts=watts)
    asked = question("nand", caches=caches, fleet=fleet)
    study = tiers_study(made_trace(), asked, None, "a test")
    saved = [row["Saved"] for row in rows_of(study, "Fleet of")[1:]]
    assert study.findings[0].startswith(said) and study.findings[0].endswith(" (computed).")
    assert study.title.startswith(f"a test: {study.findings[0].removesuffix(' (computed).')}, computed; ")
    assert " adds " in study.title and study.title.endswith(", simulated")
    if watts is None:
        assert "power" not in study.title
    else:
        best = max(float(each) for each in saved)  # type: ignore[arg-type]
        assert f" and {percent(abs(best))} {'less' if best > 0 else 'more'} power, computed" in study.title
        power = f"{percent(abs(best))} {'less' if best > 0 else 'more'} power"
        assert f"In this study, the fleet takes {power} with nand" in study.findings[-1]


def test_a_fleet_that_is_too_large_is_refused() -> None:
    with pytest.raises(ConfigError, match="more than 1e\\+09 hosts"):
        count_hosts(Fleet(rate=1e12, host_dram_bytes=1, host_rate=5e-324), 10, 5e-324, 1)


def test_misses_are_counted_after_what_fills_the_cache() -> None:
    """The miss ratio after the warm-up is the second half's, of an LRU cache that an own loop keeps."""
    trace = made_trace()
    asked = question("nand", caches=(0.02, 0.2), fit_bytes=128 * 400)
    study = tiers_study(trace, asked, None, "a test")
    share = {each.name: each.value for each in study.parameters}["warm-up"]
    assert isinstance(share, float) and 0 < share <= 0.5 and "fill the caches" in " ".join(study.findings)
    keys, _, samples = (np.concatenate(each) for each in zip(*trace.in_order(), strict=True))
    needs = rows_of(study, "Reads needed")
    assert needs[0]["Miss ratio"] == pytest.approx(rows_of(study, "Memory shared")[0]["Miss ratio"])
    for need in needs[1:]:
        missed = loop_lru(keys.tolist(), int(need["Cache rows"]))  # type: ignore[call-overload]
        assert need["From empty"] == pytest.approx(missed.mean())
        assert need["Miss ratio"] == pytest.approx(missed[samples >= share * trace.num_bags].mean())
        assert need["Miss ratio"] == pytest.approx(missed[samples >= trace.num_bags // 2].mean(), abs=0.005)
    given = rows_of(tiers_study(trace, replace(asked, warm_up=0.0), None, "a test"), "Reads needed")
    assert all(need["Miss ratio"] == need["From empty"] for need in given)
    bare = tiers_study(trace, question("nand"), None, "a test")
    assert ("warm-up", 0.0) in [(each.name, each.value) for each in bare.parameters]


def loop_lru(keys: list[int], size: int) -> np.ndarray:
    kept, missed = OrderedDict[int, None](), []
    for key in keys:
        missed.append(key not in kept)
        kept[key] = None
        kept.move_to_end(key)
        if len(kept) > size:
            kept.popitem(last=False)
    return np.array(missed)


def test_a_study_is_the_same_for_its_seed() -> None:
    asked = question("nand", caches=(0.05,), rate=1_000.0)
    assert tiers_study(made_trace(), asked, None, "x") == tiers_study(made_trace(), asked, None, "x")
    assert tiers_study(made_trace(), asked, None, "x") != tiers_study(made_trace(), replace(asked, seed=1), None, "x")


@pytest.mark.parametrize("name", TIERS)
def test_each_number_of_a_shipped_tier_has_a_source(name: str) -> None:
    tier = find_tier(name)
    for member in Tier.__struct_fields__:
        quantity = getattr(tier, member)
        assert member == "title" or quantity is None or len(quantity.source) > 10


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (', source = "the size of those reads"', "", "granule_bytes.source"),
        ("value = 4096", "value = 0", "granule_bytes.value"),
        ("value = 4096", "value = 1.5", "granule_bytes.value"),
        ("granule_bytes =", "granules =", "granule"),
        ("[0.99, 96e-6]", "[0.99, 1e-6]", "tail"),
        ("[0.99, 96e-6]", "[0.3, 96e-6]", "tail"),
        ("[0.99, 163e-6]", "[0.99, 1e-6]", "deeper[0].tail"),
        ("depth = 16", "depth = 1", "depth"),
        ("value = 91e-6", "value = 0", "deeper[0].value"),
        ("value = 3.94e9,", "value = 3.94e9, tail = [[0.9, 1.0]],", "only read_latency_s has a tail"),
        ("value = 4096", "value = 4096, watts = 7", "watts"),
        ("value = 76e-6", "value = nan", "read_latency_s"),
        ("value = 3.94e9", "value = inf", "link_bytes_per_s"),
        ("granule_bytes = {", "granule_bytes = ", "TOML"),
    ],
)
def test_a_tiers_file_that_says_too_little_or_too_much_is_refused(
    old: str, new: str, said: str, tmp_path: Path
) -> None:

    text = TIERS["nand"].read_text()
    assert old in text
    (tmp_path / "mine.toml").write_text(text.replace(old, new))
    with pytest.raises((ConfigError, DefinitionError)) as caught:
        find_tier(str(tmp_path / "mine.toml"))
    assert said in str(caught.value) and "mine.toml" in str(caught.value)


def test_an_unknown_tier_is_refused_with_a_suggestion() -> None:
    with pytest.raises(ConfigError, match="Did you mean '3dxp'"):
        find_tier("3dxpp")


@pytest.mark.parametrize("name", ["lfu", "static"])
def test_caches_of_other_policies_are_shared_and_simulated_as_they_are_kept_over_the_trace(name: str) -> None:
    """One cache of all, and one for each table whose sizes are chosen by what the policy misses at each of them."""
    trace = made_trace(num_bags=60)
    asked = question("nand", caches=(0.05,), fit_bytes=128 * 300, policies=(name, "lru"))
    study = tiers_study(trace, asked, None, "a test")
    needs, how = rows_of(study, "Reads needed"), POLICIES[name]
    keys, _, samples = (np.concatenate(each) for each in zip(*trace.in_order(), strict=True))
    start = int(np.searchsorted(samples, trace.num_bags // 2))
    one = next(row for row in needs if row["Policy"] == how.title and row["Cache"] == 0.05)
    missed = how.find_misses(keys.tolist(), [1] * 3_400, int(one["Cache rows"]), start)  # type: ignore[call-overload]
    assert one["Miss ratio"] == pytest.approx(missed[start:].mean())
    fitted = [row["Miss ratio"] for row in needs[:2]]
    shared = [table.rows for table in study.tables if table.title.startswith("Memory shared")]
    assert fitted == [pytest.approx(rows[0][3]) for rows in shared] and fitted[0] < fitted[1]  # type: ignore[operator]
    for table, row in enumerate(shared[0][1:]):
        own, half = trace.rows_of(table).tolist(), trace.num_bags // 2 * 20
        missed = how.find_misses(own, [1] * max(trace.num_rows), int(row[2]), half)  # type: ignore[arg-type]
        assert row[3] == pytest.approx(missed[half:].mean())
    assert f"({how.title})" in study.title and "(simulated)" in study.findings[0]
    assert {row["Policy"] for row in rows_of(study, "Latency added")} == {how.title, "LRU"}


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"hit_rate": 0.5, "policies": ("lru", "lfu")}, "finds the smallest LRU cache"),
        ({"caches": (0.1,), "policies": ("static",), "warm_up": 0.001}, "none of 400 samples"),
    ],
)
def test_policies_of_which_nothing_can_be_said_are_refused(asked: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        tiers_study(made_trace(), question("nand", **asked), None, "a test")

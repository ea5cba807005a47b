"""Tables of unlike widths and sides below DRAM: bytes, granules, queries of several samples: by own counts."""

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from harness.extensions.memory import pooling
from harness.extensions.memory.caches import Cache, RemoteLookups, count_misses, fit_caches
from harness.extensions.memory.estimated import estimate_curve
from harness.extensions.memory.pooling import count_reads, place_rows
from harness.extensions.memory.setups import TierQuestion
from harness.extensions.memory.shown import name_axis
from harness.extensions.memory.tier import find_tier
from harness.extensions.memory.tiers import tiers_study
from harness.extensions.memory.trace import refuse_empty
from harness.foundation.errors import HarnessError
from reference_models.data.table_file import Side, TableEntry
from reference_models.data.traces.drawn import draw_lookups
from reference_models.data.traces.stack_distances import measure_curve
from reference_models.data.traces.trace import AccessTrace, TracedTable
from rules.records.study import Cell, StudyRecord

ROW_BYTES = (64, 192, 128)
SIDES: tuple[Side, ...] = ("user", "item", "item")


def made_trace(row_bytes: tuple[int, ...] = ROW_BYTES, items: int = 4) -> AccessTrace:
    entries = [
        TableEntry(name=name, rows=rows, pooling=lookups, side=side, place="x.csv:2")
        for name, rows, lookups, side in zip("abc", (300, 200, 100), (6.0, 2.0, 1.0), SIDES, strict=True)
    ]
    tables = tuple(TracedTable(each.name, size, each.side) for each, size in zip(entries, row_bytes, strict=True))
    return replace(draw_lookups(entries, 250, items, 0), tables=tables, samples_per_query=items)


def test_a_trace_without_lookups_is_refused() -> None:
    none = replace(made_trace(), indices=np.empty(0, np.int64), offsets=np.zeros(3 * 1000 + 1, np.int64))
    with pytest.raises(HarnessError, match=r"x\.csv: no lookups"):
        refuse_empty(none, "x.csv")


def test_memory_for_no_row_is_shared_among_none() -> None:
    curve = measure_curve([np.array([0, 1, 0, 1])])
    assert fit_caches([curve, curve], [2, 2], 0) == ((0, 0), (0, 0))


@pytest.mark.slow
def test_few_rows_of_many_units_are_not_estimated() -> None:
    keys = np.random.default_rng(0).integers(0, 50_000, 200_000)
    many = estimate_curve(keys, 0.01, 0, lambda rows: np.full(len(rows), 100))
    plain = estimate_curve(keys, 0.01, 0)
    assert not many.is_exact and many.ratios(100 * 50) == (None, None, None) == plain.ratios(50)


@pytest.fixture(autouse=True)
def few_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulate so many that studies are quick."""
    monkeypatch.setattr(pooling, "NUM_UNLOADED", 200)


def question(name: str = "cxl", **more: Any) -> TierQuestion:
    asked: dict[str, Any] = {
        "tiers": {name: find_tier(name)}, "row_bytes": 64, "caches": (None,), "rate": None, "num_devices": 1,
        "pools": ("host", "switch"), "placement": "interleave", "local_bytes": 0, "fit_bytes": None,
        "hit_rate": None, "warm_up": 0.0, "seed": 0,
    }  # fmt: skip
    return TierQuestion(**{**asked, **more})


def rows_of(study: StudyRecord, title: str) -> list[dict[str, Cell]]:
    (table,) = [each for each in study.tables if each.title.startswith(title)]
    names = [column.name for column in table.columns]
    return [dict(zip(names, row, strict=True)) for row in table.rows]


def lookups_of(trace: AccessTrace) -> RemoteLookups:
    keys, tables, samples = (np.concatenate(each) for each in zip(*trace.in_order(), strict=True))
    return RemoteLookups(trace, keys, tables, samples, np.zeros(len(keys), np.int64))


def test_a_row_is_hit_where_it_fits_with_those_that_were_looked_up_since() -> None:
    trace = made_trace()
    found, sizes = lookups_of(trace), np.array([1, 3, 2])
    assert trace.row_units == (1, 3, 2) and trace.num_units == 300 + 600 + 200
    keys, tables = found.keys.tolist()[:900], found.tables.tolist()
    for capacity in (40, 200, 700):
        expected = []
        for at, key in enumerate(keys):
            last = max((before for before in range(at) if keys[before] == key), default=None)
            since = {} if last is None else {keys[each]: sizes[tables[each]] for each in range(last + 1, at)}
            since[key] = sizes[tables[at]]
            expected.append(last is None or sum(since.values()) > capacity)
        assert found.missed(Cache(num_rows=capacity, share=None), 0)[:900].tolist() == expected


def test_memory_is_shared_among_tables_as_trying_all_sizes_of_bytes_finds() -> None:
    trace = made_trace()
    curves = [measure_curve([trace.rows_of(table)]) for table in range(3)]
    for max_units in (60, 300):
        fitted, uniform = fit_caches(curves, trace.num_rows, max_units, trace.row_units)
        for each in (fitted, uniform):
            assert sum(size * units for size, units in zip(each, trace.row_units, strict=True)) <= max_units
        grids = [sorted({0, *fitted, *uniform, 3, 9, 20, 40}) for _ in range(3)]
        within = [
            sizes
            for sizes in product(*grids)
            if sizes[0] + 3 * sizes[1] + 2 * sizes[2] <= 0.9 * max_units  # fits between those of its grid
        ]
        assert count_misses(curves, fitted) <= min(count_misses(curves, sizes) for sizes in within)


def test_reads_of_unlike_rows_are_granules_by_hand() -> None:
    """Sample 0 reads three rows of table 0 in one bag and a row of table 1; sample 1 a row of table 1."""
    samples, tables, devices = np.array([0, 0, 0, 0, 1]), np.array([0, 0, 0, 1, 1]), np.array([0, 1, 0, 1, 0])
    reads = count_reads(
        samples, tables, devices, num_samples=2, num_tables=2, num_devices=2, granules=np.array([1, 3])
    )
    assert reads.rows.tolist() == [[2, 4], [3, 0]]
    assert reads.partials.tolist() == [[1, 4], [3, 0]]
    assert reads.bags.tolist() == [4, 3]


def test_local_memory_is_of_bytes_and_hot_rows_are_those_of_most_lookups_a_byte() -> None:
    keys, units = np.array([0, 0, 0, 1, 1, 2, 0, 1, 3]), np.array([3, 3, 3, 1, 1, 1, 3, 1, 1])
    found = [place_rows(keys, 10, local, 1, "hot-local", units) for local in (0, 1, 4, 5)]
    assert [sorted({*keys[each < 0].tolist()}) for each in found] == [[], [1], [0, 1], [0, 1, 2]]


def test_links_carry_the_granules_of_each_table_and_sums_of_each_item() -> None:
    trace, items = made_trace(), 4
    study = tiers_study(trace, question(), None, "x")
    host, switch = rows_of(study, "Latency added")
    rows = [len(trace.rows_of(table)) / 250 for table in range(3)]
    assert host["Host link"] == pytest.approx(sum(np.array(rows) * ROW_BYTES))
    assert switch["Host link"] == 64 + items * (192 + 128)
    assert host["Device links"] == switch["Device links"] == host["Host link"]
    (need,) = rows_of(study, "Reads needed")
    assert need["Cache memory"] == 0 and need["Read amplification"] == pytest.approx(1.0, abs=0.01)
    nand = tiers_study(trace, question("nand"), None, "x")
    amplification = rows_of(nand, "Reads needed")[0]["Read amplification"]
    assert amplification == pytest.approx(4096 * sum(rows) / sum(np.array(rows) * ROW_BYTES), rel=0.01)


def test_tables_of_one_side_alone_are_below_dram() -> None:
    trace = made_trace()
    rows = [len(trace.rows_of(table)) / 250 for table in range(3)]
    sides: dict[Side, float] = {"user": rows[0] * 64, "item": rows[1] * 192 + rows[2] * 128}
    for side, crossing in sides.items():
        study = tiers_study(trace, question(side=side), None, "x")
        (host, _), (need,) = rows_of(study, "Latency added"), rows_of(study, "Reads needed")
        assert host["Host link"] == pytest.approx(crossing)
        assert need["Miss ratio"] == 1.0, "of the lookups below DRAM"
        told = {each.name: each.value for each in study.parameters}
        assert told["tables below DRAM"] == f"those of the {side}'s side" and told["queries of the trace"] == 250
    cached = tiers_study(trace, question(side="user", caches=(0.1,), hit_rate=0.5, fit_bytes=64 * 60), None, "x")
    assert [row["Cache memory"] for row in rows_of(cached, "Reads needed")][-1] == 64 * 30
    assert [row["Table"] for row in rows_of(cached, "Memory shared")] == ["all", "a"]
    assert name_axis(cached) == "cache, as a share of the bytes below DRAM"
    assert any("of the user's side" in finding for finding in cached.findings)
    nothing = tiers_study(trace, question(side="item", local_bytes=200 * 192 + 100 * 128), None, "x")
    assert nothing.findings[0].startswith("Nothing is remote")


@pytest.mark.slow
def test_tables_that_are_alike_are_as_those_that_nobody_describes() -> None:
    alike = made_trace((64, 64, 64), items=1)
    asked = question(caches=(0.05, 0.3), local_bytes=64 * 60, num_devices=2)
    plain = tiers_study(replace(alike, tables=()), asked, None, "x")
    assert tiers_study(alike, asked, None, "x").tables == plain.tables


@pytest.mark.slow
def test_a_larger_cache_of_bytes_never_misses_more_and_findings_are_of_bytes() -> None:
    study = tiers_study(made_trace(), question(caches=(0.01, 0.1, 0.5, 1.0)), None, "x")
    needs = rows_of(study, "Reads needed")
    ratios = [float(row["Miss ratio"]) for row in needs]  # type: ignore[arg-type]
    assert ratios == sorted(ratios, reverse=True) and ratios[-1] == needs[-1]["Cold misses"]
    assert [row["Cache memory"] for row in needs] == [64 * size for size in (11, 110, 550, 1100)]
    found = tiers_study(made_trace(), question(hit_rate=0.5, fit_bytes=64 * 300), None, "x")
    assert "of the bytes" in found.findings[0]
    (smallest,) = rows_of(found, "Smallest")
    assert smallest["Cache rows"] is None and smallest["Memory"] == pytest.approx(smallest["Cache"] * 1100 * 64)  # type: ignore[operator]
    assert [row["Table"] for row in rows_of(found, "Memory shared")] == ["all", "a", "b", "c"]

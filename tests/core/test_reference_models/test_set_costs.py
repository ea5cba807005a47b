"""Costs of sets of tables: by hand, and what must hold of any sets."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference_models.distributed.planner_estimate import Devices
from reference_models.distributed.search.costs import Additive, Bandwidth, Exchange, Sum, count_moved_bytes
from reference_models.distributed.search.task import NUM_REUSE_BINS, EmbeddingTable, TablePart, Task, place_whole

ONCE = (1.0,) + (0.0,) * (NUM_REUSE_BINS - 1)
TWICE = (0.0, 1.0) + (0.0,) * (NUM_REUSE_BINS - 2)
TABLE = EmbeddingTable(num_embeddings=10_000, dim=32, pooling=2.0, reuse=ONCE, optimizer="sgd")
BANDWIDTH = Bandwidth(batch_size=100, memory_bandwidth=1e9, table_s=1e-6, device_s=1e-5)
HOST = Devices(
    num_devices=4,
    device_type="cuda",
    memory_bytes=1 << 30,
    memory_bandwidth=1e9,
    devices_per_host=2,
    intra_host_bandwidth=4e8,
    inter_host_bandwidth=1e8,
)


def shares(weights: list[float]) -> tuple[float, ...]:
    return tuple(weight / sum(weights) for weight in weights)


TABLES = st.builds(
    EmbeddingTable,
    num_embeddings=st.integers(1, 10**8),
    dim=st.sampled_from([4, 8, 16, 32, 64, 128]),
    pooling=st.floats(0.1, 100),
    reuse=st.lists(st.floats(0.01, 1), min_size=NUM_REUSE_BINS, max_size=NUM_REUSE_BINS).map(shares),
    optimizer=st.sampled_from(["sgd", "adagrad", "rowwise_adagrad"]),
)
SETS = st.lists(st.lists(TABLES, max_size=5), max_size=5)


@pytest.mark.parametrize(
    ("table", "num_bytes"),
    [
        # 200 lookups: 200 rows of 128 bytes read twice and written once, 100 sums and gradients, 200 ids twice.
        (TABLE, 200 * 3 * 128 + 2 * 100 * 128 + 2 * 200 * 8),
        # Each row twice: half as many rows.
        (replace(TABLE, reuse=TWICE), 100 * 3 * 128 + 2 * 100 * 128 + 2 * 200 * 8),
        # No more rows than the table has.
        (replace(TABLE, num_embeddings=10), 10 * 3 * 128 + 2 * 100 * 128 + 2 * 200 * 8),
        # 16 bytes of a row, and 4 of state, move lines of 64; the sums do not.
        (replace(TABLE, dim=4, optimizer="rowwise_adagrad"), 200 * (3 + 2) * 64 + 2 * 100 * 16 + 2 * 200 * 8),
        (replace(TABLE, optimizer="adagrad"), 200 * (3 + 2) * 128 + 2 * 100 * 128 + 2 * 200 * 8),
    ],
)
def test_bytes_of_a_table_by_hand(table: EmbeddingTable, num_bytes: int) -> None:
    assert count_moved_bytes([table], 100).tolist() == [num_bytes]
    assert BANDWIDTH([[table]]) == pytest.approx(num_bytes / 1e9 + 1e-6 + 1e-5, rel=1e-12)


def test_exchange_by_hand() -> None:
    """100 samples: a device has the sums of 25 for each of 3 others, and gets their gradients."""
    one_way = 25 * 32 * 4
    slow = 2 * 2 * one_way / 1e8
    assert Exchange(batch_size=100, devices=HOST)([[TABLE], []]).tolist() == pytest.approx([slow, 0])
    alone = replace(HOST, num_devices=1, devices_per_host=1, intra_host_latency_s=1e-6, inter_host_latency_s=1e-3)
    assert Exchange(batch_size=100, devices=alone)([[TABLE]]).tolist() == [0]
    near = replace(HOST, devices_per_host=4)
    assert Exchange(batch_size=100, devices=near)([[TABLE]]) == pytest.approx(2 * 3 * one_way / 4e8)


def part(layout: str, rows: int = TABLE.num_embeddings, **more: Any) -> TablePart:
    return TablePart(num_embeddings=rows, dim=32, reuse=ONCE, optimizer="sgd", layout=layout, **more)  # type: ignore[arg-type]


def test_parts_by_rows_and_copies_by_hand() -> None:
    """A quarter of the rows has a quarter of the lookups, and a sum of every sample."""
    rows = part("rows", 2500, pooling=0.5)
    assert count_moved_bytes([rows], 100).tolist() == [50 * 3 * 128 + 2 * 100 * 128 + 2 * 50 * 8]
    # 50 lookups of the own 25 samples; all rows, their gradient written and read, the weights read and written.
    copy = part("copy", pooling=2.0, sample_share=0.25)
    assert count_moved_bytes([copy], 100).tolist() == [50 * 128 + 10_000 * 4 * 128 + 2 * 25 * 128 + 2 * 50 * 8]


def test_exchange_of_parts_by_hand() -> None:
    """4 devices on 2 hosts, 100 samples: a host's two add 50 samples' sums each up, then send 25 of them away."""
    exchange = Exchange(batch_size=100, devices=HOST)
    row_bytes = 32 * 4
    assert exchange([[part("rows", 2500, pooling=0.5)]]) == pytest.approx(exchange([[TABLE]]))
    host = 2 * (50 * row_bytes / 4e8 + 25 * row_bytes / 1e8)
    assert exchange([[part("host_rows", 5000, pooling=1.0)]]).tolist() == pytest.approx([host])
    ring = 2 * 3 / 4 * 10_000 * row_bytes / 1e8
    assert exchange([[part("copy", pooling=2.0, sample_share=0.25)]]).tolist() == pytest.approx([ring])


def test_links_have_a_latency_where_a_device_holds_tables() -> None:
    slow = replace(HOST, intra_host_latency_s=1e-6, inter_host_latency_s=1e-3)
    more = Exchange(batch_size=100, devices=slow)([[TABLE], []]) - Exchange(batch_size=100, devices=HOST)(
        [[TABLE], []]
    )
    assert more.tolist() == pytest.approx([2e-3, 0])
    near = replace(slow, devices_per_host=4)
    assert Exchange(batch_size=100, devices=near).device_s == pytest.approx(2e-6)


@given(SETS)
def test_costs_of_many_sets_are_those_of_each(sets: list[list[EmbeddingTable]]) -> None:
    cost = Sum((BANDWIDTH, Exchange(batch_size=100, devices=HOST)))
    together = cost(sets)
    assert together.shape == (len(sets),)
    for each, seconds in zip(sets, together, strict=True):
        assert seconds == pytest.approx(cost([each[::-1]])[0], rel=1e-9)
        assert (seconds > 0) == bool(each)


@given(st.lists(TABLES, min_size=1, max_size=5), st.lists(TABLES, min_size=1, max_size=5))
def test_bandwidth_is_affine(some: list[EmbeddingTable], others: list[EmbeddingTable]) -> None:
    both, one, other = BANDWIDTH([some + others, some, others])
    assert both == pytest.approx(one + other - BANDWIDTH.device_s, rel=1e-9)
    (added,) = Additive(BANDWIDTH)([some + others])
    assert added == pytest.approx(both + (len(some + others) - 1) * BANDWIDTH.device_s, rel=1e-9)


@given(TABLES.filter(lambda table: table.dim > 4))
def test_halves_of_a_table_move_no_less_than_the_whole(table: EmbeddingTable) -> None:
    whole, half = count_moved_bytes([table, table.with_columns(table.dim // 2)], 100)
    assert half <= whole <= 2 * half * (1 + 1e-12)


def test_equal_tables_cost_equal_devices_the_same() -> None:
    task = Task(name="t", tables=(TABLE,) * 8, num_devices=4, memory_bytes=1 << 30, batch_size=100)
    cost = Sum((BANDWIDTH, Exchange(batch_size=100, devices=HOST)))
    devices = cost(place_whole(task, [3, 1, 0, 2, 0, 1, 2, 3]).sets(task))
    assert devices.max() == pytest.approx(devices.mean())


def test_the_same_table_twice_costs_twice() -> None:
    one, two = Additive(BANDWIDTH)([[TABLE], [TABLE, TABLE]])
    assert two == pytest.approx(2 * one)
    assert np.array_equal(BANDWIDTH([[TABLE, TABLE]]), BANDWIDTH([[TABLE, replace(TABLE)]]))

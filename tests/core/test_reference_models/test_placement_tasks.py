"""Placement tasks: of a benchmark, from NeuroShard's files however damaged, and drawn."""

import json
import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.config.catalog import load_entry
from reference_models.data.synthetic.dataset import zipf_ranks
from reference_models.data.traces.trace import AccessTrace, reuse_histogram
from reference_models.distributed.search.costs import BIN_LOOKUPS
from reference_models.distributed.search.task import NUM_REUSE_BINS, Task
from reference_models.distributed.search.tasks import (
    NEUROSHARD,
    check_task,
    generate_tasks,
    read_tasks,
    task_of,
    traced_reuse,
    zipf_reuse,
)
from reference_models.process.errors import ConfigError, DatasetError

EMPTY = Task(name="tiny", tables=(), num_devices=2, memory_bytes=1 << 30, batch_size=100)
TABLES = [
    {
        "row": 1000,
        "pooling_factor": 2.5,
        **{f"bin_{number}": 0.0 for number in range(17)},
        "bin_0": 0.5,
        "bin_1": 0.5,
    },
    {"row": 100, "pooling_factor": 0.0, **{f"bin_{number}": 0.0 for number in range(17)}},
]


def bins_of(rows: np.ndarray) -> np.ndarray:
    """Count a batch's lookups by how often their row is looked up, one by one."""
    counts = dict(zip(*np.unique(rows, return_counts=True), strict=True))
    found = np.zeros(NUM_REUSE_BINS)
    for row in rows:
        found[min(int(counts[row] - 1).bit_length(), NUM_REUSE_BINS - 1)] += 1
    return found / len(rows)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("num_rows", "exponent", "num_lookups"),
    [(1, 1.05, 100), (3, 1.25, 1024), (1000, 0.0, 5000), (50_000, 1.0, 20_000), (10**7, 1.05, 50_000)],
)
def test_zipf_in_closed_form_is_what_draws_have(num_rows: int, exponent: float, num_lookups: int) -> None:
    rng = np.random.default_rng(0)
    drawn = [bins_of(zipf_ranks(rng.random(num_lookups), num_rows, exponent)) for _ in range(20)]
    found = np.array(zipf_reuse(num_rows, exponent, num_lookups))
    assert found.sum() == pytest.approx(1)
    spread = np.std(drawn, axis=0, ddof=1) / np.sqrt(len(drawn))
    assert (np.abs(found - np.mean(drawn, axis=0)) <= 5 * spread + 1e-3).all()


def test_zipf_by_hand() -> None:
    """Three lookups of two equal rows: in a quarter of all draws one row has them all, else one has two of them."""
    assert zipf_reuse(2, 0.0, 3)[:4] == pytest.approx((1 / 4, 1 / 2, 1 / 4, 0))


@given(st.integers(1, 10**9), st.floats(0, 4), st.integers(0, 10**8))
def test_reuse_is_shares(num_rows: int, exponent: float, num_lookups: int) -> None:
    reuse = zipf_reuse(num_rows, exponent, num_lookups)
    assert len(reuse) == NUM_REUSE_BINS and min(reuse) > -1e-9 and sum(reuse) == pytest.approx(1)


def test_a_trace_is_counted_batch_by_batch() -> None:
    """Table 1 looks row 5 up once a batch: in the batch it is used once, in the trace three times."""
    trace = AccessTrace(
        num_rows=(4, 6),
        num_bags=7,
        offsets=np.arange(15),
        indices=np.array([0, 0, 1, 1, 2, 2, 3, *([5, 1] * 3), 1]),
    )
    assert traced_reuse(trace, 0, 2)[:2] == (0.0, 1.0)
    assert traced_reuse(trace, 1, 2)[:2] == (1.0, 0.0)
    whole = traced_reuse(trace, 1, 1000)
    assert whole[2] == pytest.approx(1.0)  # three times and four times
    assert np.flatnonzero(reuse_histogram(trace.rows_of(1))).tolist() == [2]


def test_a_benchmark_is_a_task() -> None:
    workload = load_entry("dlrm_small").workload
    data, sizes = workload.data, workload.data.num_embeddings
    assert sizes is not None
    empty = replace(EMPTY, batch_size=workload.train.global_batch_size)
    task = task_of(empty, data, sizes, 16, workload.train.opt_name, None)
    assert [table.num_embeddings for table in task.tables] == list(sizes)
    assert {table.optimizer for table in task.tables} == {"adagrad"} and {table.dim for table in task.tables} == {16}
    assert task.tables[0].reuse == zipf_reuse(sizes[0], 1.25, 1024)
    assert {table.optimizer for table in task_of(empty, data, sizes, 16, "Adam", None).tables} == {"rowwise_adagrad"}
    trace = AccessTrace(
        num_rows=sizes, num_bags=1, indices=np.zeros(len(sizes), np.int64), offsets=np.arange(len(sizes) + 1)
    )
    assert task_of(empty, data, sizes, 16, "sgd", trace).tables[3].reuse[0] == 1
    with pytest.raises(ConfigError, match="other tables"):
        task_of(empty, data, [*sizes[:-1], 37], 16, "sgd", trace)


def test_what_cannot_be_placed_is_refused() -> None:
    with pytest.raises(ConfigError, match="no embedding tables"):
        check_task(EMPTY)
    (task,) = generate_tasks(1, 0)
    need = sum(table.memory_bytes for table in task.tables)
    small = replace(task, num_devices=2, memory_bytes=need // 2 - 5)
    with pytest.raises(ConfigError, match=f"{need - 2 * small.memory_bytes:,} bytes too few"):
        check_task(small)
    assert check_task(replace(task, num_devices=1, memory_bytes=need)).memory_bytes == need


def write(folder: Path, tasks: str | bytes, tables: object = TABLES) -> tuple[Path, Path]:
    paths = folder / "data.txt", folder / "table_configs.json"
    for path, content in zip(paths, (tasks, tables), strict=True):
        text = content if isinstance(content, str | bytes) else json.dumps(content)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return paths


def test_files_of_neuroshard(tmp_path: Path) -> None:
    one, two = read_tasks(*write(tmp_path, "0,1,0 128,4,8\n1 64\n"), EMPTY)
    assert [table.dim for table in one.tables] == [128, 4, 8] and one.num_devices == 2
    assert [table.num_embeddings for table in one.tables] == [1000, 100, 1000]
    assert one.tables[0].memory_bytes == 1000 * 128 * 4
    # Half of the rows once, half twice: a third of the lookups, and two thirds.
    assert one.tables[0].reuse[:3] == pytest.approx((1 / 3, 2 / 3, 0))
    assert two.tables[0].reuse[0] == 1 and two.tables[0].pooling == 0


@pytest.mark.parametrize(
    "line",
    [
        "", "0,1", "0,1 4", "0 4 4", "a 4", "0 4.5", "2 4", "-1 4", "0 0", "0 99999999999", "9" * 5000 + " 4",
        "\x00 \xff",
    ],
)  # fmt: skip
def test_a_damaged_line_is_named(tmp_path: Path, line: str) -> None:
    with pytest.raises(DatasetError, match=r"data\.txt:2: .*expected 'ids dims'.* ids below 2") as caught:
        read_tasks(*write(tmp_path, f"0 4\n{line}\n0 4\n"), EMPTY)
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize(
    "tables",
    [
        "", "{",
        "[1]", "[" * 100_000, '[{"row": "many"}]', '[{"row": NaN}]', '[{"row": 1e999}]', b"\xff", [{"row": 5}],
        [{**TABLES[0], "row": -1}], [{**TABLES[0], "pooling_factor": -1}], [{**TABLES[0], "bin_16": -1}],
        [{**TABLES[0], "row": 1e300}],
    ],
)  # fmt: skip
def test_a_damaged_table_file_is_named(tmp_path: Path, tables: object) -> None:
    with pytest.raises(
        DatasetError, match=r"table_configs\.json: .*(\(byte|\$\[0\]|utf-8|recursion|truncated|got `object`)"
    ) as caught:
        read_tasks(*write(tmp_path, "0 4\n", tables), EMPTY)
    assert len(str(caught.value)) < 1000


def test_tables_of_a_task_are_bounded(tmp_path: Path) -> None:
    line = ",".join(["0"] * 10_001) + " " + ",".join(["4"] * 10_001)
    with pytest.raises(DatasetError, match=r":1: 10,001 tables, expected at most 10,000"):
        read_tasks(*write(tmp_path, f"{line}\n"), EMPTY)


def test_files_that_are_none(tmp_path: Path) -> None:
    tasks, tables = write(tmp_path, "")
    with pytest.raises(ConfigError, match="no tasks"):
        read_tasks(tasks, tables, EMPTY)
    with pytest.raises(DatasetError, match="cannot be read"):
        read_tasks(tmp_path / "none", tables, EMPTY)
    with pytest.raises(DatasetError, match=r"none: cannot be read: No such file or directory\.$"):
        read_tasks(tasks, tmp_path / "none", EMPTY)
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(DatasetError, match="regular file"):
        read_tasks(tmp_path / "fifo", tables, EMPTY)
    with tasks.open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(DatasetError, match="at most"):
        read_tasks(tasks, tables, EMPTY)


@given(st.one_of(st.binary(max_size=60), st.text("0123456789, \n-", max_size=60).map(str.encode)))
def test_any_bytes_are_tasks_or_refused(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    paths = write(tmp_path_factory.mktemp("any"), content)
    with suppress(DatasetError, ConfigError):
        assert all(task.tables for task in read_tasks(*paths, EMPTY))


@pytest.mark.slow
def test_drawn_tasks_are_as_the_generator_has_them() -> None:
    tasks = generate_tasks(12, 7)
    assert generate_tasks(1, 7)[0] == generate_tasks(1, 7)[0] != generate_tasks(1, 8)[0]
    tables = [table for task in tasks for table in task.tables]
    assert {table.dim for table in tables} == {4, 8, 16, 32, 64, 128}
    assert all(10 <= len(task.tables) < 60 and task.num_devices == 4 for task in tasks)
    assert all(sum(table.memory_bytes for table in task.tables) <= 15 << 30 for task in tasks)
    assert all(table.memory_bytes <= task.memory_bytes for task in tasks for table in task.tables)
    assert np.mean([table.pooling for table in tables]) == pytest.approx(15.8, rel=0.15)
    lookups = np.array([table.pooling * NEUROSHARD.batch_size for table in tables])
    distinct = lookups * (np.array([table.reuse for table in tables]) @ (1 / BIN_LOOKUPS))
    assert lookups.sum() / distinct.sum() == pytest.approx(6.9, rel=0.15)


def test_devices_that_hold_no_drawn_tables_are_refused() -> None:
    with pytest.raises(ConfigError, match="fit on the devices"):
        generate_tasks(1, 0, replace(NEUROSHARD, memory_bytes=1000))

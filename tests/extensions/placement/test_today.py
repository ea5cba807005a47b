"""Plans that run today, tables that stay where they are, and tables of a file of one's own."""

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command import Command

from harness.extensions.placement.today import count_moved, improve_today, name_devices_as_today
from reference_models.distributed.search.autoshard import Policy
from reference_models.distributed.search.costs import Bandwidth
from reference_models.distributed.search.heuristics import lookup
from reference_models.distributed.search.registry import SEARCHES, find_search
from reference_models.distributed.search.task import (
    PlacementPlan,
    TableShard,
    Task,
    find_fault,
    list_not_kept,
    place_whole,
)
from reference_models.distributed.search.tasks import NEUROSHARD, generate_tasks, keep_tables
from reference_models.process.errors import ConfigError
from rules.records.codec import VERSION

COST = Bandwidth(batch_size=64, memory_bandwidth=2e12, device_s=0.0)
COSTED = {"num_embeddings": 1000, "dim": 64, "pooling": 4, "optimizer": "adagrad", "seconds": 0.1}
CSV = "name,rows,width,pooling,optimizer\nads,1000,64,4,adagrad\nclicks,5000,16,20,sgd\ngeo,200,32,1,\n"


def task_of(num_tables: int, num_devices: int) -> Task:
    empty = replace(NEUROSHARD, num_devices=num_devices, batch_size=64, memory_bytes=4 << 30)
    return generate_tasks(1, 3, empty, (num_tables, num_tables + 1))[0]


def test_devices_are_named_as_today_and_what_moves_is_counted() -> None:
    task = task_of(4, 3)
    task = replace(task, tables=task.tables[:1] * 4)
    today = place_whole(task, [0, 1, 2, 2])
    renamed = name_devices_as_today(task, place_whole(task, [2, 0, 1, 0]), today)
    assert [shard.device for shard in renamed.shards] == [0, 1, 2, 1]
    assert count_moved(task, today, today) == (0, 0)
    assert count_moved(task, renamed, today) == (1, task.tables[3].memory_bytes)
    kept = replace(task, kept=((0, 2),))
    assert name_devices_as_today(kept, place_whole(task, [2, 0, 1, 0]), today).shards[0].device == 2


def test_half_of_a_table_that_moves_is_half_of_its_bytes() -> None:
    task = task_of(1, 2)
    width = task.tables[0].dim
    today = place_whole(task, [0])
    cut = PlacementPlan(
        shards=tuple(
            TableShard(table=0, first_column=first, num_columns=width // 2, device=device)
            for first, device in ((0, 0), (width // 2, 1))
        )
    )
    assert count_moved(task, cut, today) == (1, round(task.tables[0].memory_bytes / 2))


@pytest.mark.parametrize("kept", [(), ((1, 1),)])
@pytest.mark.parametrize("parts", [((8, 1), (8, 0)), ((4, 2), (8, 0), (4, 1)), ((4, 1), (4, 0), (4, 1), (4, 2))])
def test_parts_that_stay_on_their_devices_keep_their_columns(
    parts: tuple[tuple[int, int], ...], kept: tuple[tuple[int, int], ...]
) -> None:
    """A search knows how wide parts are, and not which columns they have: it gives these in the order of devices."""
    task = task_of(2, 3)
    whole = replace(task.tables[0], dim=16)
    task = replace(task, tables=(whole, whole), kept=kept)

    def cut(parts: Sequence[tuple[int, int]]) -> PlacementPlan:
        starts = accumulate((width for width, _ in parts), initial=0)
        of_first = [
            TableShard(table=0, first_column=first, num_columns=width, device=device)
            for first, (width, device) in zip(starts, parts, strict=False)
        ]
        return PlacementPlan(shards=(*of_first, TableShard(table=1, first_column=0, num_columns=16, device=1)))

    today, found = cut(parts), cut(sorted(parts, key=lambda part: part[1]))
    assert count_moved(task, found, today)[0] == 1
    assert name_devices_as_today(task, found, today) == today
    other = cut([(8, 0), (8, 2)])
    renamed = name_devices_as_today(task, other, today)
    assert find_fault(task, renamed) is None and count_moved(task, renamed, today) <= count_moved(task, other, today)


def test_a_plan_that_is_best_already_moves_nothing() -> None:
    task = task_of(1, 2)
    task = replace(task, tables=(replace(task.tables[0], dim=16),))
    today = PlacementPlan(
        shards=tuple(TableShard(table=0, first_column=8 * part, num_columns=8, device=1 - part) for part in range(2))
    )
    moved = name_devices_as_today(task, improve_today(task, COST, today), today)
    assert moved == today and count_moved(task, moved, today) == (0, 0)


def test_todays_plan_is_improved_by_moves() -> None:
    task = task_of(8, 2)
    today = place_whole(task, [0] * 8)
    better = improve_today(task, COST, today)
    assert find_fault(task, better) is None
    assert COST(better.sets(task)).max() < COST(today.sets(task)).max()


@pytest.mark.parametrize("name", SEARCHES)
def test_what_is_kept_stays_where_it_is(name: str) -> None:
    task = task_of(8, 3)
    order = np.argsort([table.memory_bytes for table in task.tables])
    kept = [(int(order[-1]), 2), (int(order[-2]), 2), (0, 1)][: 2 if 0 in order[-2:] else 3]
    task = keep_tables(task, kept)
    untrained = {"policy": Policy()} if name == "autoshard" else {}
    plan = find_search(name)(task, COST, 0, **untrained)
    assert find_fault(task, plan) is None
    on = {shard.table: shard.device for shard in plan.shards}
    assert [(table, on[table]) for table, _ in kept] == kept
    assert sum(shard.table in dict(kept) for shard in plan.shards) == len(kept), "whole"


def test_what_is_kept_where_it_has_no_room_is_refused() -> None:
    task = task_of(4, 2)
    for kept, why in (([(4, 0)], "cannot be kept"), ([(0, 2)], "2 devices"), ([(0, 0), (0, 1)], "on two devices")):
        with pytest.raises(ConfigError, match=why):
            keep_tables(task, kept)
    small = replace(task, memory_bytes=task.tables[0].memory_bytes - 1)
    with pytest.raises(ConfigError, match="1 bytes too few"):
        keep_tables(small, [(0, 0)])
    # Two tables fill both devices where they are kept, and the third finds no room.
    table = task.tables[0]
    full = replace(task, tables=(table,) * 3, memory_bytes=2 * table.memory_bytes, kept=())
    with pytest.raises(ConfigError, match="beside those that are kept were tried"):
        lookup(replace(keep_tables(full, [(0, 0), (1, 1)]), memory_bytes=table.memory_bytes * 8 // 5), COST, 0)


def place(inside: Command, *words: Any) -> dict[str, Any]:
    done = inside("place", *words, "--devices", 2, "--by", "dim", "--format", "json")
    assert done.returncode == 0, done.stderr
    study: dict[str, Any] = json.loads(done.stdout)
    return study


def test_tables_of_a_file_are_placed_and_todays_plan_stands_beside(inside: Command, tmp_path: Path) -> None:
    (tmp_path / "tables.csv").write_text(CSV)
    first = place(inside, "tables.csv", "-o", "today.json", "--keep", "clicks=1")
    assert first["title"].startswith("tables on 2 cuda devices") and first["benchmark"] is None
    places = next(table for table in first["tables"] if "where each table" in table["title"])
    assert [row[0] for row in places["rows"]] == ["ads", "clicks", "geo"] and places["rows"][1][-1] == [1]
    again = place(inside, "tables.csv", "--from", "today.json")
    names = [column["name"] for column in again["tables"][0]["columns"]]
    rows = {row[0]: dict(zip(names, row, strict=True)) for row in again["tables"][0]["rows"]}
    assert [*rows] == ["today's plan", "today's, moved", "dim", "greedy", "local"]
    assert (rows["today's plan"]["Tables moved"], rows["today's plan"]["Bytes moved"]) == (0, 0)
    assert again["findings"][1].startswith("From today's plan ")


def test_todays_plan_that_breaks_keep_is_neither_cheapest_nor_written(inside: Command, tmp_path: Path) -> None:
    (tmp_path / "tables.csv").write_text(CSV)
    place(inside, "tables.csv", "-o", "today.json", "--keep", "clicks=0")
    study = place(inside, "tables.csv", "-o", "new.json", "--keep", "clicks=1", "--from", "today.json")
    names = [column["name"] for column in study["tables"][0]["columns"]]
    rows = {row[0]: dict(zip(names, row, strict=True)) for row in study["tables"][0]["rows"]}
    assert rows["today's plan"]["Cost"] is None
    assert "move clicks to device 1" in rows["today's plan"]["Why it has none"]
    assert rows["today's, moved"]["Cost"] is not None and "is today's plan" not in study["title"]
    places = next(table for table in study["tables"] if "where each table" in table["title"])
    assert places["rows"][1][-1] == [1]
    written = json.loads((tmp_path / "new.json").read_text())
    assert [shard["device"] for shard in written["shards"] if shard["table"] == 1] == [1]
    assert "does not obey --keep" in study["findings"][1]


def test_moves_of_todays_plan_leave_what_is_kept_whole_in_its_place() -> None:
    task = task_of(8, 2)
    kept = keep_tables(task, [(3, 1), (5, 0)])
    better = improve_today(kept, COST, place_whole(task, [0] * 8))
    assert find_fault(kept, better) is None and not list_not_kept(kept, better)
    assert list_not_kept(kept, place_whole(task, [0] * 8)) == [(3, 1)]


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("tables.csv", "--keep", "clicks"), 2, "expected TABLE=DEVICE"),
        (("tables.csv", "--keep", "=1"), 2, "expected TABLE=DEVICE"),
        (("tables.csv", "--keep", "ads=x"), 2, "expected TABLE=DEVICE"),
        (("tables.csv", "--keep", "nobody=1"), 2, "no table 'nobody'. Name one of ads, clicks, geo, or 0 to 2."),
        (("dlrm_tiny", "--keep", "nobody=1"), 2, "no table 'nobody'. Name one of 0 to 7."),
        (("tables.csv", "--keep", "9=1"), 2, "cannot be kept on device 1"),
        (("tables.csv", "--run", "5"), 2, "a file of tables is none"),
        (("tables.csv", "--trace", "t.npz"), 2, "--trace works with a benchmark only"),
        (("tables.csv", "--batch-size", 2**30), 2, "tables.csv:2: 4,294,967,296 lookups"),
        (("none.csv",), 8, "none.csv: cannot be read"),
        (("half.json",), 8, "half.json:1: "),
        (("dlrm_tiny", "--batch-size", 9), 2, "is of a file of tables"),
        (("dlrm_tiny", "--from", "tables.csv"), 8, "tables.csv"),
        (("fp16.csv",), 2, "fp16.csv:2: precision: found fp16, expected fp32, which"),
        (("tables.csv", "--from", "costs.json"), 8, "costs.json: it is no plan but costs of tables"),
    ],
)
def test_what_is_no_file_of_tables_or_plan_is_refused(
    inside: Command, tmp_path: Path, words: tuple[Any, ...], code: int, message: str
) -> None:
    (tmp_path / "tables.csv").write_text(CSV)
    costs = {"schema_version": VERSION, "device": "a CPU", "batch_size": 64, "tables": [COSTED]}
    (tmp_path / "costs.json").write_text(json.dumps(costs))
    (tmp_path / "half.json").write_text('[{"name": "a", "rows": 3}]')
    (tmp_path / "fp16.csv").write_text("name,rows,width,pooling,precision\na,3,4,1,fp16\n")
    done = inside("place", *words, "--devices", 2, "--by", "dim")
    assert done.returncode == code and message in " ".join(done.stderr.split()), done.stderr

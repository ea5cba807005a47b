"""Costs of tables in a file: what is measured is written, and plans elsewhere are made by it."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command import Command
from msgspec import structs

from harness.extensions.placement.kept_costs import read_costs
from harness.extensions.placement.plans import UNBOUNDED, describe_file
from harness.extensions.placement.records import CostedTable, CostsRecord
from harness.foundation.files import read_record, write_record
from reference_models.process.errors import ConfigError
from rules.records.codec import VERSION

TABLES = (("a", 100, 8, 2.0, "sgd"), ("b", 50, 8, 1.0, "sgd"), ("c", 20, 4, 1.0, "rowwise_adagrad"))
CSV = "name,rows,width,pooling,optimizer\n" + "".join(",".join(map(str, table)) + "\n" for table in TABLES)


def costs_of(seconds: dict[tuple[str, int], float], batch_size: int = 16) -> CostsRecord:
    """Costs of tables of TABLES by name and width."""
    rows = {name: (rows, pooling, optimizer) for name, rows, _, pooling, optimizer in TABLES}
    entries = [
        CostedTable(
            num_embeddings=rows[name][0],
            dim=width,
            pooling=rows[name][1],
            optimizer=rows[name][2],  # type: ignore[arg-type]
            seconds=each,
        )
        for (name, width), each in seconds.items()
    ]
    device = "one thread of a test"
    return CostsRecord(schema_version=VERSION, device=device, batch_size=batch_size, tables=tuple(entries))


ONCE = costs_of({("a", 8): 1e-3})
TWICE = structs.replace(ONCE, tables=ONCE.tables * 2)


def test_plans_are_made_by_the_costs_of_a_file(inside: Command, tmp_path: Path) -> None:
    """By it a and b cost as much as c: by their bytes they would not."""
    (tmp_path / "tables.csv").write_text(CSV)
    seconds = {("a", 8): 1e-3, ("b", 8): 1e-3, ("c", 4): 2e-3, ("a", 4): 0.9e-3, ("b", 4): 0.9e-3}
    write_record(tmp_path / "costs.json", costs_of(seconds))
    words = ("place", "tables.csv", "--devices", 2, "--batch-size", 16, "--by", "optimal", "--costs", "costs.json")
    done = inside(*words, "--format", "json")
    assert done.returncode == 0, done.stderr
    study: dict[str, Any] = json.loads(done.stdout)
    names = [column["name"] for column in study["tables"][0]["columns"]]
    row = dict(zip(names, study["tables"][0]["rows"][0], strict=True))
    assert row["Cost"] == pytest.approx(2e-3, rel=1e-3) and row["Balance"] == pytest.approx(1, rel=1e-3)
    assert "timed on one thread of a test; tables are added up" in study["findings"][0]
    origin = next(each for each in study["parameters"] if each["name"] == "lookups and updates")
    assert (origin["value"], origin["source"]) == ("measured on one thread of a test", "file")
    assert any(each["name"] == "costs.json" for each in study["made"]["inputs"])


def test_a_width_without_a_cost_takes_no_cost_from_other_plans(inside: Command, tmp_path: Path) -> None:
    """Today's plan cuts the first table: the file has costs of all tables, and none of that part."""
    (tmp_path / "tables.csv").write_text(CSV)
    placed = ("place", "tables.csv", "--devices", 2, "--batch-size", 16)
    assert inside(*placed, "--by", "dim", "-o", "today.json").returncode == 0
    plan = json.loads((tmp_path / "today.json").read_text())
    halves = [{"table": 0, "first_column": 4 * part, "num_columns": 4, "device": part} for part in range(2)]
    plan["shards"] = halves + [shard for shard in plan["shards"] if shard["table"]]
    (tmp_path / "today.json").write_text(json.dumps(plan))
    write_record(tmp_path / "costs.json", costs_of({("a", 8): 3e-3, ("b", 8): 1e-3, ("c", 4): 2e-3}))
    more = ("--by", "dim", "--costs", "costs.json", "--from", "today.json", "--format", "json")
    done = inside(*placed, *more)
    assert done.returncode == 0, done.stderr
    study: dict[str, Any] = json.loads(done.stdout)
    names = [column["name"] for column in study["tables"][0]["columns"]]
    rows = {row[0]: dict(zip(names, row, strict=True)) for row in study["tables"][0]["rows"]}
    assert "no cost of 100 rows of 4 columns" in rows["today's plan"]["Why it has none"]
    assert rows["today's plan"]["Cost"] is None and rows["dim"]["Cost"] >= 3e-3
    assert "today's has no cost: --costs costs.json" in study["findings"][1]


@pytest.mark.parametrize(
    ("record", "more", "code", "message"),
    [
        (costs_of({("a", 8): 1e-3}), (), 2, "no cost of 50 rows of 8 columns"),
        (costs_of({("a", 8): 1e-3}, 32), (), 2, "batches of 32 samples, and the plan of 16"),
        (TWICE, (), 8, "costs.json: tables[1]: it has the table of tables[0]"),
        (None, (), 8, "costs.json"),
        (None, ("--cost", "measured"), 2, "leave --cost"),
    ],
)
def test_costs_that_are_of_other_tables_are_refused(
    inside: Command, tmp_path: Path, record: CostsRecord | None, more: tuple[str, ...], code: int, message: str
) -> None:
    (tmp_path / "tables.csv").write_text(CSV)
    if record is not None:
        write_record(tmp_path / "costs.json", record)
    words = ("place", "tables.csv", "--devices", 2, "--batch-size", 16, "--by", "dim", "--costs", "costs.json")
    done = inside(*words, *more)
    assert done.returncode == code and message in " ".join(done.stderr.split()), done.stderr


def test_tables_that_differ_in_reuse_alone_have_each_their_cost(inside: Command, tmp_path: Path) -> None:
    rows = "a,90,8,2,sgd,0.1\nb,90,8,2,sgd,1.9\nc,90,4,2,sgd,1.9\nd,80,4,2,sgd,1.9\n"
    (tmp_path / "two.csv").write_text(f"name,rows,width,pooling,optimizer,zipf_exponent\n{rows}")
    done = inside("measure-costs", "two.csv", "--batch-size", 16, "-o", "costs.json")
    assert done.returncode == 0, done.stderr
    record, task = (
        read_record(tmp_path / "costs.json", CostsRecord),
        describe_file(tmp_path / "two.csv", UNBOUNDED, 16)[1],
    )
    a, b, c, d = task.tables
    assert a.reuse != b.reuse == c.reuse
    assert [(each.dim, each.reuse) for each in record.tables] == [
        (8, a.reuse), (4, a.reuse), (8, b.reuse), (4, b.reuse), (4, None)
    ]  # fmt: skip
    kept, seconds = read_costs(tmp_path / "costs.json", task), [each.seconds for each in record.tables]
    np.testing.assert_allclose(kept([[a], [b], [c], [d]]), [seconds[0], *seconds[2:]])
    with pytest.raises(ConfigError, match="sgd, whose rows are looked up again as often"):
        kept([[replace(a, reuse=a.reuse[::-1])]])


def test_a_table_and_its_halves_are_measured_and_read_as_they_were_written(inside: Command, tmp_path: Path) -> None:
    (tmp_path / "two.csv").write_text("name,rows,width,pooling,optimizer\na,90,16,1,sgd\nb,80,16,1,rowwise_adagrad\n")
    done = inside("measure-costs", "two.csv", "--batch-size", 4, "-o", "costs.json")
    assert done.returncode == 0, done.stderr
    record = read_record(tmp_path / "costs.json", CostsRecord)
    assert [(each.optimizer, each.dim) for each in record.tables] == [
        ("sgd", 16), ("sgd", 8), ("sgd", 4), ("rowwise_adagrad", 16)
    ]  # fmt: skip
    assert all(each.seconds > 0 and each.spread is not None for each in record.tables) and len(record.loads) == 1
    task = describe_file(tmp_path / "two.csv", UNBOUNDED, 4)[1]
    kept, seconds = read_costs(tmp_path / "costs.json", task), [each.seconds for each in record.tables]
    found = kept([task.tables, [task.tables[0].with_columns(4)], []])
    np.testing.assert_allclose(found, [seconds[0] + seconds[3], seconds[2], 0])
    assert kept.spread_of(task.tables[1:]) == record.tables[3].spread and kept.spread_of([]) is None
    with pytest.raises(ConfigError, match="no cost of 80 rows of 8 columns"):
        kept([[task.tables[1].with_columns(8)]])

"""Costs of tables in a file: what is measured is written, and plans elsewhere are made by it."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command import Command
from msgspec import structs

from harness.extensions.placement.kept_costs import measure_costs, read_costs
from harness.extensions.placement.plans import UNBOUNDED, describe_file
from harness.extensions.placement.records import CostedSet, CostedTable, CostsRecord
from harness.foundation.files import read_record, write_record
from harness.run_sets.environment import Environment
from reference_models.distributed.search import net
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
    assert "today's plan has no cost: --costs costs.json" in study["findings"][1]


def with_sets(interaction: float, noise: float, num_sets: int = 150) -> CostsRecord:
    """Sets of these tables, whose costs add up but for a share of each other table, with noise of either half."""
    record, rng = costs_of({("a", 8): 3e-3, ("a", 4): 2e-3, ("b", 8): 1e-3, ("c", 4): 2e-3}), np.random.default_rng(0)
    alone = np.array([table.seconds for table in record.tables])

    def halves(seconds: float) -> tuple[float, float]:
        low, high = (seconds * np.exp(rng.normal(0, noise, 2))).tolist()
        return low, high

    sets = []
    for picks in [rng.integers(len(alone), size=rng.integers(1, 9)).tolist() for _ in range(num_sets)]:
        seconds = float(alone[picks].sum() * (1 + interaction * (len(picks) - 1)))
        sets.append(CostedSet(tables=tuple(picks), seconds=seconds, halves=halves(seconds), spread=0.25))
    tables = [structs.replace(table, halves=halves(table.seconds)) for table in record.tables]
    return structs.replace(record, tables=tuple(tables), sets=tuple(sets))


PLACE = ("place", "tables.csv", "--devices", 2, "--batch-size", 16, "--costs", "costs.json")


@pytest.fixture
def trained_briefly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(net, "_NUM_STEPS", 60)
    monkeypatch.setattr(net, "NUM_SETS", 100)


@pytest.mark.usefixtures("trained_briefly")
@pytest.mark.parametrize(
    ("interaction", "noise", "said", "is_taken"),
    [
        pytest.param(0.0, 0.03, "not shown to be more than the noise, so nothing is left to learn", False,
                     marks=pytest.mark.slow),
        pytest.param(0.01, 0.3, "not shown to be more than the noise, so nothing is left to learn", False,
                     marks=pytest.mark.slow),
        pytest.param(0.3, 0.02, "it is used", True),
    ],
)  # fmt: skip
def test_a_net_of_the_sets_of_a_file_is_used_where_sums_are_wrong_by_more_than_the_noise(
    inside: Command, tmp_path: Path, interaction: float, noise: float, said: str, is_taken: bool
) -> None:
    (tmp_path / "tables.csv").write_text(CSV)
    write_record(tmp_path / "costs.json", with_sets(interaction, noise))
    done = inside(*PLACE, "--by", "neuroshard", "--cost", "net", "--data", tmp_path / "data", "--format", "json")
    assert done.returncode == 0, done.stderr
    study: dict[str, Any] = json.loads(done.stdout)
    first = study["findings"][0]
    assert first.startswith("Adding up the measured costs of single tables is wrong by") and said in first
    assert "on 30 sets of tables held out" in first and "lay 25.0 % apart" in first
    plans, verdict = study["tables"][:2]
    errors = {row[0]: row[1] for row in verdict["rows"]}
    assert (errors["single tables added up"] > 5 * errors["the same sets, measured again"]) == is_taken
    assert plans["rows"][0][0] == ("neuroshard" if is_taken else "beam over columns")
    assert plans["columns"][2]["origin"] == ("modelled" if is_taken else "measured")
    assert any("Plans are judged by the net" in each for each in study["findings"]) == is_taken


HALVES = structs.replace(with_sets(0.1, 0.1), tables=costs_of({("a", 8): 1.0, ("b", 8): 1.0, ("c", 4): 1.0}).tables)
HALVES = structs.replace(HALVES, sets=tuple(structs.replace(each, tables=(0, 2)) for each in HALVES.sets))
BEYOND = structs.replace(HALVES, sets=(structs.replace(HALVES.sets[0], tables=(1, 3)),))


@pytest.mark.parametrize(
    ("record", "code", "message"),
    [
        (with_sets(0.1, 0.1, 99), 2, "it has 99 sets of these tables, and a cost net takes 100"),
        (HALVES, 2, "tables[0]: it is in a set and has no halves"),
        (BEYOND, 8, "costs.json: sets[0]: it has table 3, and tables are 0 to 2"),
    ],
)
def test_sets_that_no_net_learns_from_are_refused(
    inside: Command, tmp_path: Path, record: CostsRecord, code: int, message: str
) -> None:
    (tmp_path / "tables.csv").write_text(CSV)
    write_record(tmp_path / "costs.json", record)
    done = inside(*PLACE, "--by", "dim", "--cost", "net", "--data", tmp_path / "data")
    assert done.returncode == code and message in " ".join(done.stderr.split()), done.stderr


def test_sets_of_other_tables_are_left_out(inside: Command, tmp_path: Path) -> None:
    """Those that have the first table, of which 150 sets leave too few."""
    (tmp_path / "tables.csv").write_text("".join(line for line in CSV.splitlines(True) if not line.startswith("a,")))
    write_record(tmp_path / "costs.json", record := with_sets(0.1, 0.1))
    left = sum(min(each.tables) >= 2 for each in record.sets)
    done = inside(*PLACE, "--by", "dim", "--cost", "net", "--data", tmp_path / "data")
    assert done.returncode == 2 and f"it has {left} sets" in " ".join(done.stderr.split()) and 0 < left < 100


TWO = "name,rows,width,pooling,optimizer\na,90,8,1,sgd\nb,80,8,1,rowwise_adagrad\n"


def test_sets_are_measured_with_their_tables_and_read_as_they_were_written(tmp_path: Path) -> None:
    (tmp_path / "two.csv").write_text(TWO)
    task = describe_file(tmp_path / "two.csv", UNBOUNDED, 4)[1]
    record = measure_costs(task, Environment(preflight=()), 0, 5)
    assert [each.dim for each in record.tables] == [8, 4, 8] and len(record.sets) == 5 and len(record.loads) == 1
    assert {place for each in record.sets for place in each.tables} == {0, 1, 2}
    assert all(each.seconds > 0 and min(each.halves) > 0 and each.spread is not None for each in record.sets)
    write_record(tmp_path / "costs.json", structs.replace(record, sets=record.sets * 20))
    known = read_costs(tmp_path / "costs.json", task).know_sets(task.tables)
    assert known.seconds.tolist() == [[*each.halves] for each in record.sets] * 20
    assert [[table.dim for table in each] for each in known.sets[:5]] == [
        [record.tables[place].dim for place in each.tables] for each in record.sets
    ]
    assert [*known.alone.values()] == [each.halves for each in record.tables]


@pytest.mark.slow
def test_sets_that_are_asked_for_are_measured_and_said(inside: Command, tmp_path: Path) -> None:
    (tmp_path / "two.csv").write_text(TWO)
    done = inside("measure-costs", "two.csv", "--batch-size", 4, "--sets", 100, "-o", "costs.json")
    assert done.returncode == 0 and "and 100 sets of them" in " ".join(done.stderr.split()), done.stderr
    assert len(read_record(tmp_path / "costs.json", CostsRecord).sets) == 100


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

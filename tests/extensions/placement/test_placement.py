"""Plans of tables: as files, as what a run is asked, and as studies that compare searches."""

import fcntl
import json
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.config.run_config import Override, resolve
from harness.config.sharding_plan import read_plan, record_plan, write_sharding
from harness.extensions.placement.compared import (
    ALIKE,
    BASELINES,
    FoundPlan,
    PlacementCosts,
    as_clause,
    compare_searches,
)
from harness.extensions.placement.cpu_rates import FixedTimes
from harness.extensions.placement.learnt import LearntStore, learn_policy
from harness.extensions.placement.measured_plans import MAX_PLANS, add_measured, list_plans
from harness.extensions.placement.plans import (
    Placement,
    PlacementQuestion,
    make_tasks,
    record_best,
    search_plans,
    task_of_benchmark,
)
from harness.extensions.placement.shown import SAME, draw_costs
from harness.foundation.errors import ExitCode, HarnessError
from harness.foundation.files import write_record
from harness.foundation.study import make_study
from reference_models.config.sections import parse_sharding
from reference_models.distributed.planner_estimate import Devices
from reference_models.distributed.search.autoshard import Policy
from reference_models.distributed.search.costs import Sum
from reference_models.distributed.search.net import net_of
from reference_models.distributed.search.repair import no_plan
from reference_models.distributed.search.task import EmbeddingTable, PlacementPlan, TableShard, Task, place_whole
from reference_models.distributed.search.tasks import NEUROSHARD, generate_tasks
from reference_models.process.errors import ConfigError
from reports.statistics.intervals import log_summary, mean_interval

DEVICES = Devices(
    num_devices=2,
    device_type="cuda",
    memory_bytes=10**9,
    memory_bandwidth=2e12,
    devices_per_host=8,
    intra_host_bandwidth=450e9,
    inter_host_bandwidth=50e9,
)
FOUND = {"benchmark": None, "definition_sha256": None, "search": "dim", "cost": "bandwidth", "seed": 3}
NO_COSTS = PlacementCosts(make_search=lambda: Sum(()), make_plain=lambda: Sum(()), judge=Sum(()), modelled=Sum(()))
EQUAL = "0,1,0,1,0,1,0,1"


def question(data: Path, *by: str, **given: Any) -> PlacementQuestion:
    learnt = LearntStore(data_root=data, seed=0, retrain=False, say=lambda text: None)
    return PlacementQuestion(by=by, devices=DEVICES, given=(), learnt=learnt, **given)


def search_tiny(data: Path, *by: str) -> tuple[PlacementQuestion, Placement]:
    config, asked = resolve("dlrm_tiny", [], None), question(data, *by)
    return asked, search_plans(asked, [task_of_benchmark(config, asked, None)], config)


def rows_of(placement: Placement) -> dict[Any, dict[str, Any]]:
    table = placement.study.tables[0]
    names = [column.name for column in table.columns]
    return {row[0]: dict(zip(names, row, strict=True)) for row in table.rows}


@pytest.fixture
def tiny_plan(tmp_path: Path) -> tuple[Path, Task]:
    config, asked = resolve("dlrm_tiny", [], None), question(tmp_path)
    task = task_of_benchmark(config, asked, None)
    write_record(tmp_path / "plan.json", record_plan(task, place_whole(task, [0, 1] * 4), **FOUND))
    return tmp_path / "plan.json", task


@pytest.mark.parametrize(
    ("key", "value", "rows"),
    [("data.num_embeddings", [10 * number for number in range(1, 9)], range(10, 90, 10)),
     ("data.multi_hot", [3] * 8, None)],
)  # fmt: skip
def test_tables_of_a_changed_shape_are_placed_though_no_data_has_it(
    tmp_path: Path, key: str, value: list[int], rows: range | None
) -> None:
    config = resolve("dlrm_tiny", [Override(key=key, value=value, source="--set")], None, derived_suffix="_place")
    task = task_of_benchmark(config, question(tmp_path), None)
    as_shipped = resolve("dlrm_tiny", [], None).workload.data.num_embeddings
    assert [table.num_embeddings for table in task.tables] == [*(rows or as_shipped or ())]


@pytest.mark.slow
@given(st.integers(0, 2**32 - 1), st.integers(0, 3))
def test_a_plan_is_read_as_it_was_written(tmp_path_factory: Any, seed: int, num_cuts: int) -> None:
    (task,) = generate_tasks(1, seed)
    rng, path = np.random.default_rng(seed), tmp_path_factory.mktemp("plan") / "plan.json"
    task, shards = replace(task, memory_bytes=2**40), []
    for number, table in enumerate(task.tables):
        parts = 1 << int(rng.integers(num_cuts + 1)) if table.dim >= 8 else 1
        width = table.dim // parts
        shards += [
            TableShard(table=number, first_column=part * width, num_columns=width, device=int(rng.integers(4)))
            for part in range(parts)
        ]
    plan = PlacementPlan(shards=tuple(shards))
    write_record(path, record_plan(task, plan, **FOUND))
    assert read_plan(path) == (task, plan)
    ranks = parse_sharding(write_sharding(task, plan)) or ()
    assert [device for of in ranks for device in of] == [shard.device for shard in plan.shards]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda content: content.update(memory_bytes=7), "holds? .* bytes|another task|would hold"),
        (lambda content: content["tables"][3].update(pooling=2.5), "another task"),
        (lambda content: content["shards"].pop(), "0 of its 16 columns are placed"),
        (lambda content: content["shards"][2].update(device=2), "is on device 2"),
        (lambda content: content["shards"][2].update(device="x"), r"shards\[2\].device: found \"x\""),
        (lambda content: content["tables"][0]["reuse"].pop(), r"tables\[0\].reuse"),
        (lambda content: content.update(num_devices=10**12), "num_devices"),
        (lambda content: content.update(num_devices=1), "another task"),
    ],
)
def test_a_plan_that_is_none_of_its_task_is_damaged(
    tiny_plan: tuple[Path, Task], change: Callable[[Any], object], message: str
) -> None:
    path, _ = tiny_plan
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))
    with pytest.raises(HarnessError, match=message) as refused:
        read_plan(path)
    assert refused.value.exit_code == ExitCode.INPUT


def test_the_line_of_damage_is_named(tiny_plan: tuple[Path, Task]) -> None:
    path, _ = tiny_plan
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:4], "]", *lines[5:]]))
    with pytest.raises(HarnessError, match=r"plan\.json: .*line 5") as refused:
        read_plan(path)
    assert refused.value.exit_code == ExitCode.INPUT


def asked(path: Path | str, num_ranks: int, **more: Any) -> list[Override]:
    values = {"runtime.sharding": f"plan:{path}", "runtime.ranks": num_ranks, **more}
    return [Override(key=key, value=value, source="a test") for key, value in values.items()]


def test_a_run_keeps_the_plan_and_not_its_file(tiny_plan: tuple[Path, Task]) -> None:
    path, _ = tiny_plan
    config = resolve("dlrm_tiny", asked(path, 2), None)
    path.unlink()
    assert config.workload.runtime.sharding == config.tables["runtime"]["sharding"] == f"plan:{EQUAL}"
    again = resolve("dlrm_tiny", asked(EQUAL, 2), None)
    assert again.values()["runtime.sharding"]["value"] == f"plan:{EQUAL}"


@pytest.mark.parametrize(
    ("benchmark", "num_ranks", "more", "message"),
    [
        ("dlrm_tiny", 1, {}, "plan is of 2 devices, and the run has 1 ranks"),
        ("dlrm_tiny", 4, {}, "plan is of 2 devices, and the run has 4 ranks"),
        ("dlrm_small", 2, {}, "plan is of 8 tables that are not this model's, which has 26"),
        ("dlrm_tiny", 2, {"data.num_embeddings": [1000, 500, 200, 100, 1000, 3, 50, 21]}, "not this model's"),
        ("dlrm_tiny", 2, {"model.embedding_dim": 32}, "not this model's"),
    ],
)
def test_a_plan_of_another_task_is_refused(
    tiny_plan: tuple[Path, Task], benchmark: str, num_ranks: int, more: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        resolve(benchmark, asked(tiny_plan[0], num_ranks, **more), None, derived_suffix="_x")


def test_cuts_that_torchrec_cannot_express_are_refused(tiny_plan: tuple[Path, Task]) -> None:
    path, task = tiny_plan
    whole = place_whole(task, [0] * 8).shards[1:]
    parts = (TableShard(table=0, first_column=0, num_columns=4, device=0),)
    parts += (TableShard(table=0, first_column=4, num_columns=12, device=1),)
    write_record(path, record_plan(task, PlacementPlan(shards=parts + whole), **FOUND))
    with pytest.raises(ConfigError, match="parts of 4, 12 columns"):
        resolve("dlrm_tiny", asked(path, 2), None)
    with pytest.raises(ConfigError, match="16 columns of table 0 cannot be cut into 8 parts"):
        resolve("dlrm_tiny", asked("0+1+0+1+0+1+0+1,0,0,0,0,0,0,0", 2), None)


def test_searches_are_compared_with_the_optimum(tmp_path: Path) -> None:
    asked, placement = search_tiny(tmp_path, "random", "dim", "lookup", "greedy", "optimal")
    rows = rows_of(placement)
    assert rows["optimal"]["Over the optimum"] == 0
    assert all(
        row["Over the optimum"] >= 0 and row["Balance"] >= 1 and not row["Cuts tables"] for row in rows.values()
    )
    cheapest = min(row["Cost"] for row in rows.values())
    assert cheapest == rows["optimal"]["Cost"]
    origins = {column.name: column.origin for column in placement.study.tables[0].columns}
    assert (origins["Cost"], origins["Search time"]) == ("modelled", "measured")
    record, skipped = record_best(placement, asked)
    assert (record.benchmark, record.cost, skipped) == ("dlrm_tiny", "bandwidth", "")
    assert placement.study.findings[0].startswith(f"Cheapest plan by the search '{record.search}'")
    assert rows[record.search]["Cost"] <= cheapest * (1 + SAME)


def test_only_searches_whose_plans_cost_the_same_are_called_alike(tmp_path: Path) -> None:
    asked = question(tmp_path, "dim", "lookup")
    task = task_of_benchmark(resolve("dlrm_tiny", [], None), asked, None)
    equal = replace(task, tables=task.tables[:1] * 4)
    alike, _ = search_plans(asked, [equal], None).study.findings
    assert alike.startswith("Cheapest plan by the search 'dim' (same cost by 'lookup', 'greedy', 'local'): ")
    alone_asked = replace(asked, by=("dim",), has_baselines=False)
    (alone,) = search_plans(alone_asked, [equal], None).study.findings
    assert alone.startswith("Cheapest plan by the search 'dim': ")
    assert alone.endswith(" is the optimum.")


def test_baselines_stand_in_every_study_and_searches_of_papers_are_held_against_the_better(tmp_path: Path) -> None:
    rows = rows_of(placement := search_tiny(tmp_path, "neuroshard")[1])
    assert [*rows] == ["beam over columns", *BASELINES], "without a net it is called what it is"
    assert all("Published" not in row for row in rows.values())
    said = placement.study.findings[-1]
    assert "rests on its cost net, which no search of this study uses: this study does not confirm the claim" in said
    best = min(BASELINES, key=lambda name: rows[name]["Cost"])
    gain = 1 - rows["beam over columns"]["Cost"] / rows[best]["Cost"]
    verdict = "cheaper than" if gain > ALIKE else "dearer than" if gain < -ALIKE else "no better than"
    assert f"{verdict} {best}" in rows["beam over columns"]["Against the best baseline"]


@pytest.mark.parametrize(
    ("cost_s", "row", "claim"),
    [
        (1.0, "autoshard is no better than local, which is as cheap", "so this study does not confirm the claim"),
        (0.9995, "autoshard is no better than local, which is as cheap", "so this study does not confirm the claim"),
        (1.2, "autoshard is 20.0 % dearer than local: it loses", "so this study does not confirm the claim"),
        (0.9, "autoshard is 10.0 % cheaper than local", "as is claimed"),
    ],
)
def test_a_learnt_plan_is_held_against_the_best_baseline_in_its_row_and_the_first_sentence(
    cost_s: float, row: str, claim: str
) -> None:
    costs = {"autoshard": cost_s, "greedy": 1.1, "local": 1.0}
    found = {name: [FoundPlan(search=name, cost_s=seconds)] for name, seconds in costs.items()}
    compared = compare_searches(NO_COSTS, found, [0.8], is_small=False)
    at = [column.name for column in compared.table.columns].index("Against the best baseline")
    assert f"autoshard {compared.table.rows[0][at]}" == row and compared.closing.endswith(f"{row}.")
    assert claim in compared.claim and "AutoShard's paper" in compared.claim


@pytest.mark.parametrize("order", [("autoshard", "greedy", "local"), ("local", "greedy", "autoshard")])
def test_a_plan_of_whole_tables_is_held_against_the_best_baseline_that_cuts_none(order: tuple[str, ...]) -> None:
    costs = {"autoshard": 1.0, "greedy": 1.25, "local": 0.5}
    found = {name: [FoundPlan(search=name, cost_s=costs[name], cuts=name == "local")] for name in order}
    compared = compare_searches(NO_COSTS, found, [1.0], is_small=False)
    said = "is 20.0 % cheaper than greedy (local cuts tables, autoshard none)"
    names = [column.name for column in compared.table.columns]
    row = dict(zip(names, compared.table.rows[order.index("autoshard")], strict=True))
    assert row["Against the best baseline"] == said and row["Over local"] == 1.0
    assert f"here AutoShard {said}, as is claimed" in compared.claim and f"autoshard {said}" in compared.closing


@pytest.mark.parametrize(
    ("closing", "clause"),
    [
        ("Cheapest plan by dim: 1 s; it is even.", "cheapest plan by dim: 1 s"),
        (
            "Lowest cost by dim: 1 s (on an X(R) Y; added up); no more.",
            "lowest cost by dim: 1 s (on an X(R) Y; added up)",
        ),
        ("None is known.", "none is known"),
        ("Lowest cost by dim (on X( Y", "lowest cost by dim (on X( Y"),
    ],
)
def test_a_title_is_cut_outside_of_parentheses(closing: str, clause: str) -> None:
    assert as_clause(closing) == clause


@pytest.mark.parametrize("order", [("local", "lookup", "greedy"), ("lookup", "greedy", "local")])
def test_of_equal_costs_the_better_balanced_plan_is_named_first(order: tuple[str, ...]) -> None:
    balance = {"lookup": 1.5, "greedy": 1.02, "local": 1.3}
    found = {name: [FoundPlan(search=name, cost_s=1.0, balance=balance[name])] for name in order}
    compared = compare_searches(NO_COSTS, found, [1.0], is_small=True)
    assert compared.closing.startswith("Cheapest plan by the search 'greedy' (same cost by ")
    assert any(column.name == "Over greedy" for column in compared.table.columns)
    study = make_study("place", "", None, tables=[compared.table], parameters=[], findings=[])
    chart = draw_costs(study, compared.table, "x")
    assert chart is not None and chart.lead.startswith("The plans named greedy, local and lookup cost the same")


def test_a_difference_within_the_spread_of_rounds_is_none(tmp_path: Path) -> None:
    costs = {"autoshard": (0.9, 0.05), "greedy": (1.1, 0.0), "local": (1.0, 0.2)}
    found = {
        name: [FoundPlan(search=name, cost_s=seconds, spread=spread)] for name, (seconds, spread) in costs.items()
    }
    compared = compare_searches(replace(NO_COSTS, origin="measured"), found, [None], is_small=False)
    assert "autoshard shows no gain over local, within the rounds' spread" in compared.closing
    assert "so this study does not confirm the claim" in compared.claim


def test_what_is_published_of_a_net_is_in_the_row_that_has_one() -> None:
    found = {name: [FoundPlan(search=name, cost_s=1.0)] * 3 for name in ("neuroshard", "greedy", "local")}
    compared = compare_searches(replace(NO_COSTS, has_net=True), found, [0.8] * 3, is_small=False)
    row = dict(zip([column.name for column in compared.table.columns], compared.table.rows[0], strict=True))
    assert row["Search"] == "neuroshard" and "23.8 %" in str(row["Published"])
    assert "neuroshard is no better than greedy, which is as cheap" in compared.closing
    assert "23.8 %" in compared.claim and compared.claim.endswith("so this study does not confirm the claim.")


def test_a_repaired_plan_says_so_beside_what_its_search_alone_has(tmp_path: Path) -> None:
    asked = question(tmp_path, "lookup", "dim")
    reuse = (1.0, *[0.0] * 16)
    tables = [
        EmbeddingTable(num_embeddings=rows, dim=1, pooling=pooling, reuse=reuse, optimizer="sgd")
        for rows, pooling in ((4, 9.0), (4, 8.0), (6, 7.5), (4, 6.5), (6, 1.0))
    ]
    task = Task(name="tight", tables=tuple(tables), num_devices=2, memory_bytes=48, batch_size=64)
    placement = search_plans(asked, [task], None)
    row = rows_of(placement)["lookup"]
    assert (row["Repaired"], row["Alone"]) == ("repaired by 1 swap", "none found")
    both = search_plans(asked, [task, replace(task, memory_bytes=1000)], None)
    row = rows_of(both)["lookup"]
    assert row["Repaired"] == "repaired in 1 of 2 tasks, by 0 moves and 1 swap" and "in 1 of 2" in row["Alone"]


def test_what_a_search_proved_is_beside_its_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reference_models.distributed.search.optimal.MAX_NODES", 1)
    asked = question(tmp_path, "optimal")
    devices = replace(DEVICES, num_devices=4, memory_bytes=4 << 30)
    (task,) = generate_tasks(1, 5, replace(NEUROSHARD, batch_size=512), (14, 15))
    row = rows_of(placement := search_plans(replace(asked, devices=devices), [task], None))["optimal"]
    (found,) = placement.found["optimal"]
    assert found.cost_s is not None and found.bound_s is not None
    assert row["Above what it proved"] == pytest.approx(found.cost_s / found.bound_s - 1)


def test_the_cheapest_plan_is_listed_table_by_table_and_device_by_device(tmp_path: Path) -> None:
    _, placement = search_tiny(tmp_path, "random", "greedy")
    (task,), plan = placement.tasks, placement.found["greedy"][0].plan
    assert plan is not None
    _, places, loads = placement.study.tables
    assert places.title.startswith("Plan found by the search 'greedy'") and [row[0] for row in places.rows] == [
        *range(8)
    ]
    assert [row[-1] for row in places.rows] == [(shard.device,) for shard in plan.shards]
    assert sorted(number for row in loads.rows for number in row[1]) == [*range(8)]  # type: ignore[union-attr]
    assert sum(row[2] for row in loads.rows) == sum(table.memory_bytes for table in task.tables)  # type: ignore[misc]
    assert max(row[-1] for row in loads.rows) == placement.found["greedy"][0].cost_s  # type: ignore[type-var]


@pytest.mark.parametrize(("balance", "said"), [(1.05, ""), (1.25, "; that is 1.25 times the mean of all devices")])
def test_a_plan_is_said_to_be_uneven_beyond_a_tenth(balance: float, said: str) -> None:
    found = {"dim": [FoundPlan(search="dim", cost_s=2.0, balance=balance)]}
    closing = compare_searches(NO_COSTS, found, [1.0], is_small=True).closing
    assert closing == f"Cheapest plan by the search 'dim': 2.00 s a step on the slowest device (modelled){said}."


def test_todays_plan_and_a_mean_over_tasks_are_called_so() -> None:
    today = {"today's plan": [FoundPlan(search="today's plan", cost_s=2.0)]}
    closing = compare_searches(NO_COSTS, today, [1.0], is_small=True).closing
    assert closing == "Cheapest plan is today's plan: 2.00 s a step on the slowest device (modelled)."
    moved = {"today's, moved": [FoundPlan(search="today's, moved", cost_s=2.0)]}
    closing = compare_searches(NO_COSTS, moved, [1.0], is_small=True).closing
    assert closing.startswith("Cheapest plan by moves in today's plan: 2.00 s")
    several = {"dim": [FoundPlan(search="dim", cost_s=each) for each in (1.0, 3.0)]}
    closing = compare_searches(NO_COSTS, several, [0.5, 0.5], is_small=True).closing
    assert closing.startswith("Cheapest plans by the search 'dim': 2.00 s a step on the slowest device (mean of 2 ")


def leads(costs: dict[str, float], bound_s: float, cutting: tuple[str, ...] = ()) -> tuple[str, list[Any], str]:
    """Compare plans of these costs; return the finding, their shares over the optimum, and what the chart says."""
    task = generate_tasks(1, 0)[0]
    whole = place_whole(task, [0] * len(task.tables))
    cut = PlacementPlan(shards=(replace(whole.shards[0], num_columns=1), *whole.shards))
    found = {
        name: [FoundPlan(search=name, plan=cut if name in cutting else whole, cost_s=cost_s)]
        for name, cost_s in costs.items()
    }
    compared = compare_searches(NO_COSTS, found, [bound_s], is_small=True)
    table, closing = compared.table, compared.closing
    study = make_study("place", "", None, tables=[table], parameters=[], findings=[])
    chart = draw_costs(study, table, "x")
    assert chart is not None
    return closing, [row[4] for row in table.rows], chart.lead


def test_costs_that_differ_by_rounding_are_the_same_and_no_plan_is_below_the_optimum_by_it() -> None:
    least_s = 0.3
    closing, over, lead = leads({"lookup": least_s, "greedy": 0.1 + 0.2, "dim": least_s - 1e-16}, least_s)
    assert over == [0, 0, 0] and "less than" not in closing
    assert closing.startswith("Cheapest plan by the search 'lookup' (same cost by 'greedy', 'dim'): ")
    assert lead == (
        "The plans named lookup, greedy and dim cost the same, 300.0 ms: the optimum, so no plan of whole tables is "
        "cheaper."
    )


def test_a_plan_below_the_optimum_is_said_to_cut_tables_where_it_does() -> None:
    assert leads({"neuroshard": 0.9, "dim": 1.2}, 1.0, ("neuroshard",))[2] == (
        "The plan named beam over columns is the cheapest of 2, 10.0 % below the optimum: it cuts tables."
    )
    assert leads({"neuroshard": 0.9, "dim": 1.2}, 1.0)[2].endswith("the cheapest of 2, 10.0 % below the optimum.")
    assert leads({"lookup": 1.1, "greedy": 1.1, "dim": 1.2}, 1.0)[2] == (
        "The plans named lookup and greedy cost the same, 1.10 s, the least of 3, 10.0 % over the optimum."
    )


@pytest.mark.parametrize(("optimizer", "why"), [("adagrad", "of 4, 12 columns"), ("rowwise_adagrad", "row-wise")])
def test_the_plan_that_is_kept_or_measured_can_be_run(tmp_path: Path, optimizer: Any, why: str) -> None:
    asked, placement = search_tiny(tmp_path, "lookup")
    (task,), (lookup,) = placement.tasks, placement.found["lookup"]
    task = replace(task, tables=tuple(replace(table, optimizer=optimizer) for table in task.tables))
    ends = (0, 4, 16) if optimizer == "adagrad" else (0, 8, 16)
    parts = [
        TableShard(table=0, first_column=start, num_columns=stop - start, device=0) for start, stop in pairwise(ends)
    ]
    cut = FoundPlan(
        search="cut", plan=PlacementPlan(shards=(*parts, *place_whole(task, [0] * 8).shards[1:])), cost_s=1e-9
    )
    placement = replace(placement, tasks=(task,), found={"cut": [cut], "lookup": [lookup]})
    record, skipped = record_best(placement, asked)
    assert record.search == "lookup" and why in skipped and skipped.startswith("; that of cut costs no more")
    assert "cut" not in list_plans(placement, asked)
    own = FoundPlan(search="torchrec", cost_s=1e-9, cuts=True)
    _, skipped = record_best(replace(placement, found={"torchrec": [own], "lookup": [lookup]}), asked)
    assert "costs less, and fits in no file" in skipped
    with pytest.raises(HarnessError, match=f"no plan to keep: .*{why}"):
        record_best(replace(placement, found={"cut": [cut]}), asked)


@pytest.mark.slow
def test_tasks_have_an_interval_of_the_improvement(tmp_path: Path) -> None:
    asked = question(tmp_path, "random", "lookup", "greedy")
    tasks = make_tasks(replace(asked, devices=replace(DEVICES, num_devices=4, memory_bytes=4 << 30)), 6, None)
    placement = search_plans(asked, tasks, None)
    rows = rows_of(placement)
    base = min(rows, key=lambda name: rows[name]["Cost"])
    assert [name for name, row in rows.items() if row["From"] is None] == [base]
    for name in set(rows) - {base}:
        pairs = zip(placement.found[base], placement.found[name], strict=True)
        interval = mean_interval([other.cost_s / one.cost_s - 1 for one, other in pairs])
        assert interval is not None
        assert (rows[name]["From"], rows[name]["To"]) == pytest.approx((interval.low, interval.high))
    assert base in placement.study.findings[0]
    assert search_plans(asked, tasks, None).study.tables[0].rows[0][2] == rows["random"]["Cost"]
    tasks[0] = replace(tasks[0], memory_bytes=max(table.memory_bytes for table in tasks[0].tables) - 1)
    rows = rows_of(search_plans(asked, tasks, None))
    assert rows.pop("local")["Tasks"] == 6, "it cuts the table that is larger than a device"
    assert all(row["Tasks"] == 5 and row["Cost"] is None for row in rows.values())


@pytest.mark.slow
def test_a_search_without_a_plan_says_why_beside_the_others_and_ends_it_alone(tmp_path: Path) -> None:
    rows = rows_of(search_plans(question(tmp_path, "dim", "torchrec"), generate_tasks(2, 0), None))
    assert "of none" in rows["torchrec"]["Why it has none"] and rows["dim"]["Tasks"] == 2
    with pytest.raises(ConfigError, match="of none"):
        search_plans(question(tmp_path, "torchrec"), generate_tasks(2, 0), None)


def test_a_row_without_a_plan_says_the_reason_alone_in_gib() -> None:
    table = EmbeddingTable(
        num_embeddings=1 << 28, dim=4, pooling=1.0, reuse=(1.0,) + (0.0,) * 16, optimizer="rowwise_adagrad"
    )
    task = replace(NEUROSHARD, tables=(table,) * 3, num_devices=2, memory_bytes=table.memory_bytes * 8 // 5)
    fault = no_plan(task, "greedy", is_proved=True)
    assert "greedy finds no plan" in str(fault) and str(fault).endswith("Use more or larger devices.")
    found = {"greedy": [FoundPlan(search="greedy", fault=fault)], "local": [FoundPlan(search="local", cost_s=1.0)]}
    shown = compare_searches(NO_COSTS, found, [1.0], is_small=False).table
    row = dict(zip([column.name for column in shown.columns], shown.rows[0], strict=True))
    assert str(row["Why it has none"]).endswith("none fits on 2 devices of 8.0 GiB")
    assert not {"greedy", "Use"} & {*str(row["Why it has none"]).split()}


def test_torchrec_that_is_missing_is_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reference_models.spec.find_spec", lambda name: None)
    rows = rows_of(search_tiny(tmp_path, "dim", "torchrec")[1])
    assert "pip install" in rows["torchrec"]["Why it has none"] and rows["dim"]["Cost"] > 0
    with pytest.raises(ConfigError, match="pip install"):
        search_tiny(tmp_path, "torchrec")


def test_what_is_learnt_is_kept_and_learnt_anew_when_asked(tmp_path: Path) -> None:
    done: list[int] = []

    def train() -> tuple[dict[str, Any], dict[str, float]]:
        done.append(1)
        return {"a": np.array([1.0, len(done)])}, {"tau": 0.9, "additive_tau": float("nan")}

    learnt, digest = question(tmp_path).learnt, "ab" * 32
    first = learnt.keep("cost_net", digest, train, dict)
    assert np.array_equal(learnt.keep("cost_net", digest, train, dict)["a"], first["a"]) and len(done) == 1
    (folder,) = (tmp_path / "place").glob("cost_net-*")
    manifest = json.loads((folder / "manifest.json").read_text())
    assert (manifest["digest"], manifest["seed"], manifest["accuracy"]) == (digest, 0, {"tau": 0.9})
    learnt.keep("cost_net", "cd" * 32, train, dict)
    assert replace(learnt, retrain=True).keep("cost_net", digest, train, dict)["a"].tolist() == [1.0, 3.0]
    damage: list[tuple[Callable[[], object], Callable[[Any], Any]]] = [
        (lambda: None, net_of),
        (lambda: (folder / "a.npy").write_bytes(b"x"), dict),
        (lambda: (folder / "manifest.json").write_text("{"), dict),
    ]
    for make, load in damage:
        make()
        with pytest.raises(HarnessError, match=rf"{folder.name}.* Make it anew with --retrain") as refused:
            learnt.keep("cost_net", digest, train, load)
        assert refused.value.exit_code == ExitCode.INPUT


@pytest.mark.parametrize(("by", "cost"), [("autoshard", "bandwidth"), ("dim", "net")])
def test_what_is_learnt_of_rates_that_were_measured_is_found_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str, cost: str
) -> None:
    """No two measurements agree: what was given, and the machine, tell what is learnt apart, and no measured rate."""
    digests: list[str] = []

    def keep(learnt: LearntStore, what: str, digest: str, *of: Any) -> None:
        digests.append(digest)
        raise ConfigError("enough is known")

    def ask(seconds: float, **given: float) -> None:
        rates: dict[str, Any] = {"memory_bandwidth": 1 / seconds, "intra_host_bandwidth": 1 / seconds} | given
        fixed = FixedTimes(table_s=seconds, device_s=seconds, is_measured=True)
        rated = replace(devices, **rates), tuple(name for name in rates if name not in given), fixed
        monkeypatch.setattr("harness.extensions.placement.plans.rate_cpu", lambda *of: rated)
        with pytest.raises(ConfigError, match="enough is known"):
            search_plans(replace(question(tmp_path, by, cost=cost), devices=devices, given=given), [task], None)

    (task,) = generate_tasks(1, 3)
    devices = replace(DEVICES, num_devices=task.num_devices, device_type="cpu")
    monkeypatch.setattr(LearntStore, "keep", keep)
    for seconds in (1e-9, 2e-9):
        ask(seconds)
        ask(seconds, memory_bandwidth=3e9)
    assert digests[:2] == digests[2:] and digests[0] != digests[1]


@pytest.mark.parametrize(("num_tables", "num_devices", "asked"), [(8, 3, []), (60, 8, [((60, 60), (8, 8))])])
def test_policies_of_larger_tasks_begin_with_the_kept_one_of_small_tasks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, num_tables: int, num_devices: int, asked: list[Any]
) -> None:
    seen: list[Any] = []

    def train(cost: Any, batch_size: int, seed: int, num_updates: int, sizes: Any, start: Any) -> Policy:
        seen.append((sizes.num_tables, sizes.num_devices))
        assert (start is None) == (len(seen) == 1)
        return Policy()

    monkeypatch.setattr("reference_models.distributed.search.autoshard.train_policy", train)
    table = EmbeddingTable(num_embeddings=9, dim=4, pooling=1.0, reuse=(1.0,) + (0.0,) * 16)
    tasks = [replace(NEUROSHARD, num_devices=num_devices, tables=(table,) * num_tables)] * 2
    for _ in range(2):
        learn_policy(question(tmp_path).learnt, Sum(()), tasks, kept_by="a test")
    assert seen == [((6, 10), (2, 4)), *asked], "each once"


def test_two_processes_that_learn_the_same_train_once(tmp_path: Path) -> None:
    def train() -> tuple[dict[str, Any], dict[str, float]]:
        with (tmp_path / "place" / ".lock").open() as lock, pytest.raises(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return {"a": np.array([1.0])}, {}

    assert question(tmp_path).learnt.keep("policy", "ab" * 32, train, dict) == {"a": 1}


def test_plans_to_run_are_distinct_and_filled_up(tmp_path: Path) -> None:
    asked, placement = search_tiny(tmp_path, "random", "dim", "lookup", "optimal")
    plans = list_plans(placement, asked)
    assert len(plans) == len(dict(plans.values())) == MAX_PLANS and {"random", "dim"} <= plans.keys()
    (task,) = placement.tasks
    equal = replace(placement, tasks=(replace(task, tables=task.tables[:1] * 8),), found={})
    assert len(list_plans(equal, asked)) == 5, "of 8 equal tables on 2 devices there are 4 to 8 on one"


@pytest.mark.parametrize(
    ("is_predicted", "num_lost", "said"),
    [
        (True, 1, "9 of 10 plans were measured. A positive rank correlation of"),
        (False, 1, "No rank"),
        (True, 6, "5 plans of different costs and steps are needed"),
    ],
)
def test_measured_steps_are_beside_the_predicted_ones(
    tmp_path: Path, is_predicted: bool, num_lost: int, said: str
) -> None:
    asked, placement = search_tiny(tmp_path, "random", "dim", "lookup", "optimal")
    plans, rng = list_plans(placement, asked), np.random.default_rng(0)
    costs = [cost for _, cost in plans.values()]
    steps = costs if is_predicted else rng.permutation(costs).tolist()
    rows = [SimpleNamespace(throughput=log_summary([512 / step]), failure=None) for step in [1.0, *steps]]
    for row in rows[3 : 3 + num_lost]:
        row.throughput, row.failure = None, "lost"
    sweep: Any = SimpleNamespace(rows=rows)
    table = (measured := add_measured(placement, plans, sweep)).study.tables[-1]
    assert [row[0] for row in table.rows] == ["auto", *plans] and "one thread each" in table.title
    assert table.rows[1][2] == pytest.approx(steps[0]) and table.rows[3][2:] == (None, "lost")
    assert said in measured.study.findings[0]


@pytest.mark.slow
def test_costs_of_a_task_are_correlated_apart_each_plan_once(tmp_path: Path) -> None:
    """Predicted ones rank each task's measured ones the wrong way round, and tell tasks apart."""
    asked = question(tmp_path, "random", "dim", "lookup", cost="bandwidth")
    tasks = make_tasks(replace(asked, devices=replace(DEVICES, num_devices=4, memory_bytes=4 << 30)), 3, None)
    costs, find = search_plans(asked, tasks, None).costs, {}
    for at, name in enumerate(["random", "dim", "lookup", "lookup again"]):
        at = min(at, 2)
        find[name] = [FoundPlan(search=name, cost_s=10.0**n - at, predicted_s=10.0**n + at) for n in (1, 2, 3)]
    said = compare_searches(costs, find, [None] * 3, is_small=False).closing
    assert "of 9 plans: Kendall's tau -1.00, the mean over 3 tasks" in said


def test_fixed_times_of_bandwidths_are_shown(tmp_path: Path) -> None:
    shown = {each.name: each.value for each in search_tiny(tmp_path, "lookup")[1].study.parameters}
    assert [value for name, value in shown.items() if "assumed" in name] == [50e-6, 2e-6]


def test_each_search_measures_for_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: dict[int, Any] = {}

    def count(cost: Any, sets: Any) -> Any:
        made[id(cost)] = cost
        return np.array([float(len(each)) for each in sets])

    monkeypatch.setattr("reference_models.distributed.search.measured.MeasuredCost.__call__", count)
    config, asked = resolve("dlrm_tiny", [], None), question(tmp_path, "greedy", "optimal", cost="measured")
    search_plans(asked, [task_of_benchmark(config, asked, None)], config)
    assert len(made) == 4, "three searches, and what judges"

"""`place` by TorchRec's planner, in processes of its own: what `plan-devices` says, and beside other searches."""

import json
from typing import Any

import pytest
from command import Command
from ranks_builder import needs_torchrec

from harness.config.catalog import load_entry


def ask(dlrmbench: Command, verb: str, *words: str, num_devices: int = 4) -> dict[str, Any]:
    """Return the study that a verb makes of dlrm_tiny."""
    memory = ("--device-memory", "8GB") if num_devices == 4 else ()
    done = dlrmbench(verb, "dlrm_tiny", "--devices", num_devices, *memory, *words, "--format", "json")
    assert done.returncode == 0, done.stderr
    study: dict[str, Any] = json.loads(done.stdout)
    return study


def rows_of(study: dict[str, Any]) -> list[list[dict[str, Any]]]:
    """Each table's rows, their cells by the name of their column."""
    names = [[column["name"] for column in table["columns"]] for table in study["tables"]]
    return [
        [dict(zip(of, row, strict=True)) for row in table["rows"]]
        for of, table in zip(names, study["tables"], strict=True)
    ]


@pytest.mark.slow
@needs_torchrec
def test_place_by_torchrec_is_what_plan_devices_says(dlrmbench: Command) -> None:
    plan, place = ask(dlrmbench, "plan-devices"), ask(dlrmbench, "place", "--by", "torchrec")
    assert "place" in place.pop("made")["command"] and plan.pop("made") is None  # which keeps none
    for study in (plan, place):
        search = rows_of(study)[0][0]
        assert search["Search"] == "torchrec" and search["Search time"] > 0 and search["Cost"] > 0
    baselines = {row["Search"]: row for row in rows_of(place)[0][1:]}
    assert [*baselines] == ["greedy", "local"] and rows_of(place)[0][0]["Cost"] == rows_of(plan)[0][0]["Cost"]
    for member in ("parameters", "checks"):
        assert plan[member] == place[member]
    assert plan["tables"][1:] == place["tables"][-2:]


@pytest.mark.slow
@needs_torchrec
def test_a_plan_of_torchrec_is_costed_beside_others_by_its_own_estimator(dlrmbench: Command) -> None:
    asked = ("--by", "torchrec,lookup,optimal", "--cost", "torchrec", "--set", "runtime.sharding=table_wise")
    searches, *_, loads = rows_of(ask(dlrmbench, "place", *asked, num_devices=2))
    by_name = {row["Search"]: row for row in searches}
    assert by_name["torchrec"]["Cost"] == max(load["Embeddings per step"] for load in loads)
    # Its planner knows what no plan of whole tables can be below, and does not search all of them.
    assert by_name["optimal"]["Cost"] <= by_name["torchrec"]["Cost"] * (1 + 1e-9)
    assert by_name["optimal"]["Over the optimum"] == 0 <= by_name["lookup"]["Over the optimum"]


@pytest.mark.slow
@needs_torchrec
def test_a_plan_for_devices_lays_out_all_tables_and_is_called_modelled(dlrmbench: Command) -> None:
    made, workload = ask(dlrmbench, "plan-devices"), load_entry("dlrm_tiny").workload
    assert made["kind"] == "place" and not any("cut short" in finding for finding in made["findings"])
    placement, loads = rows_of(made)[1:]
    assert {c["origin"] for table in made["tables"][1:] for c in table["columns"]} == {"given", "modelled"}
    rows = workload.data.num_embeddings or ()
    assert [(table["Table"], table["Rows"]) for table in placement] == list(enumerate(rows))
    assert all(set(table["Devices"]) <= set(range(4)) for table in placement)
    assert [check["is_passed"] for check in made["checks"]] == [True]  # every element is somewhere
    weights = 4 * sum(rows) * workload.model.embedding_dim
    assert sum(load["Memory"] for load in loads) >= 2 * weights  # Adagrad's state is as large
    assert min(load["Embeddings per step"] for load in loads) > 0

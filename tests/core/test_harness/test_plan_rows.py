"""What `plan` says of the weights that a run may keep, and of what is timed before the first run."""

from dataclasses import replace
from pathlib import Path

import pytest

from harness.config.run_config import Override, resolve
from harness.planning.plan import Plan, make_plan, plan_as_json, plan_blocks
from reports.document.blocks import Table
from rules.records.run_set import ChoiceRecord

CHOICE = ChoiceRecord(
    key="0" * 64,
    num_threads=2,
    spin_count=1000,
    tried=(),
    matmul=None,
    matmul_source=None,
    chosen_utc="2026-11-22T09:00:00+00:00",
)


def planned(tmp_path: Path, **values: object) -> Plan:
    overrides = [Override(key=key, value=value, source="test") for key, value in values.items()]
    config = resolve("dlrm_tiny", overrides, "other")
    return make_plan(config, tmp_path, num_runs=5, division="closed", measure=False)


def rows_named(made: Plan, name: str) -> list[tuple[str, str]]:
    """The values and sources of the rows of that name in the plan's first table."""
    table = next(block for block in plan_blocks(made, 5) if isinstance(block, Table))
    return [(row[1].text, row[2].text) for row in table.rows if row[0].text == name]


def test_the_weights_of_a_run_have_a_row_with_their_size(tmp_path: Path) -> None:
    made = planned(tmp_path)
    ((size, source),) = rows_named(made, "weights of a run")
    assert made.counts is not None
    kept = plan_as_json(made)["kept_weights_bytes"]
    assert kept == 4 * made.counts.num_parameters
    assert size == f"{kept / 2**10:.2f} KiB of disk"
    assert source == "computed; kept by --keep-weights alone"


def test_what_is_timed_first_has_a_row_until_it_is_timed(tmp_path: Path) -> None:
    made = replace(planned(tmp_path), is_choosing=True, choice=None)
    assert rows_named(made, "threads, products") == [
        ("timed before the first run: some seconds, once", "not timed yet")
    ]
    chosen = replace(made, is_choosing=False, choice=CHOICE)
    assert rows_named(chosen, "threads, products") == [("2 threads (GOMP_SPINCOUNT=1000)", "timed 2026-11-22")]


@pytest.mark.parametrize(("threads", "implementation", "times"), [(None, "optimized", True), (1, "reference", False)])
def test_a_plan_times_first_only_where_something_is_left_to_choose(
    threads: int | None, implementation: str, times: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.autotune.choices.powers", lambda num_cores: (1, 2))
    values: dict[str, object] = {"runtime.implementation": implementation}
    made = planned(tmp_path, **(values if threads is None else values | {"runtime.threads": threads}))
    assert made.is_choosing == times
    assert len(rows_named(made, "threads, products")) == times

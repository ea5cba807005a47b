"""TorchRec's plan as a study: what its planner said, and whether all is placed."""

from dataclasses import replace

from harness.config.run_config import resolve
from harness.extensions.placement.devices import (
    describe_layouts,
    list_device_parameters,
    parts_of_estimate,
    torchrec_tables,
)
from harness.foundation.study import make_study
from reference_models.distributed.planner_estimate import DeviceLoad, Devices, PlannerEstimate, TablePlacement
from reference_models.distributed.search.task import EmbeddingTable, TablePart, Task
from reports.parts.study import study_blocks
from reports.render.markdown import render_markdown
from rules.records.study import StudyRecord

DEVICES = Devices(
    num_devices=4,
    device_type="cuda",
    memory_bytes=8 * 10**9,
    memory_bandwidth=2e12,
    devices_per_host=2,
    intra_host_bandwidth=450e9,
    inter_host_bandwidth=50e9,
)
ESTIMATE = PlannerEstimate(
    devices=DEVICES,
    sharding="auto",
    global_batch_size=512,
    tables=(
        TablePlacement(
            table=0, num_embeddings=1000, sharding="row_wise", kernel="fused", devices=(0, 1, 2, 3),
            shard_shapes=((250, 16),) * 4,
        ),
        TablePlacement(
            table=1, num_embeddings=30, sharding="data_parallel", kernel="dense", devices=(0, 1, 2, 3),
            shard_shapes=((30, 16),) * 4,
        ),
        TablePlacement(
            table=2, num_embeddings=500, sharding="column_wise", kernel="fused", devices=(3, 1),
            shard_shapes=((500, 8), (500, 8)),
        ),
    ),
    loads=tuple(
        DeviceLoad(device=device, memory_bytes=10**9 + device, host_memory_bytes=0, step_s=0.001 * (device + 1))
        for device in range(4)
    ),
    step_s=0.004,
    balance=1.6,
    is_search_cut=True,
)  # fmt: skip


def study_of(estimate: PlannerEstimate) -> StudyRecord:
    config = resolve("dlrm_tiny", [], None)
    tables, findings, check = torchrec_tables(config, estimate)
    return make_study(
        "place",
        "dlrm_tiny: tables over 4 cuda devices",
        config.benchmark,
        tables=tables,
        findings=findings,
        parameters=list_device_parameters(DEVICES, {"num_devices", "memory_bytes"}),
        checks=[check],
    )


def test_the_tables_say_what_the_planner_said() -> None:
    study = study_of(ESTIMATE)
    placement, loads = study.tables
    assert placement.rows[0] == (0, 1000, "row_wise", "fused", 4, 250, 16, (0, 1, 2, 3))
    assert loads.rows[3] == (3, 10**9 + 3, (10**9 + 3) / (8 * 10**9), 0, 0.004)
    text = render_markdown(study_blocks(study))
    assert "0-3" in text and "1, 3" in text and "4.0 ms" in text
    assert "cut short" in text


def test_elements_that_are_placed_nowhere_fail_the_check() -> None:
    assert [check.is_passed for check in study_of(ESTIMATE).checks] == [True]
    lost = replace(ESTIMATE.tables[0], shard_shapes=((250, 16),) * 3)
    estimate = replace(ESTIMATE, tables=(lost, *ESTIMATE.tables[1:]))
    (check,) = study_of(estimate).checks
    assert not check.is_passed and check.found == check.expected - 250 * 16


def test_devices_that_were_given_are_said_to_be() -> None:
    sources = {parameter.name: parameter.source for parameter in study_of(ESTIMATE).parameters}
    assert sources["memory of one device"] == sources["devices"] == "given"
    assert sources["bandwidth within a host"] == "default"


def test_rates_of_cpus_are_measured_or_flagged() -> None:
    devices = replace(DEVICES, device_type="cpu")
    rows = {row.name: row for row in list_device_parameters(devices, {"intra_host_bandwidth"}, ["memory_bandwidth"])}
    assert rows["bandwidth of that memory"].source == "measured"
    assert rows["bandwidth within a host"].source == "given" and rows["bandwidth within a host"].note is None
    assert "assumed" in (rows["bandwidth between hosts"].note or "")


def test_a_reserve_is_kept_free_of_tables() -> None:
    assert replace(DEVICES, reserve=0.15).usable_bytes == 6_800_000_000
    (row,) = [row for row in list_device_parameters(replace(DEVICES, reserve=0.15), ()) if "kept free" in row.name]
    assert (row.value, row.unit, row.source) == (0.15, "share", "default")


def test_what_torchrec_lays_out_has_a_cost_beside_other_plans() -> None:
    reuse = (1.0, *[0.0] * 16)
    tables = tuple(
        EmbeddingTable(num_embeddings=rows, dim=16, pooling=2.0, reuse=reuse, optimizer="sgd")
        for rows in (1000, 30, 500)
    )
    task = Task(name="t", tables=tables, num_devices=4, memory_bytes=10**9, batch_size=512)
    parts = parts_of_estimate(ESTIMATE, task)
    assert parts is not None
    assert [len(of) for of in parts] == [2, 3, 2, 3]
    rows, copy = parts[0]
    assert isinstance(rows, TablePart) and (rows.layout, rows.num_embeddings, rows.pooling) == ("rows", 250, 0.5)
    assert isinstance(copy, TablePart) and (copy.layout, copy.sample_share) == ("copy", 0.25)
    assert parts[1][2] == tables[2].with_columns(8)
    outside = replace(ESTIMATE.tables[0], kernel="fused_uvm_caching")
    assert parts_of_estimate(replace(ESTIMATE, tables=(outside,)), task) is None
    assert describe_layouts(ESTIMATE) == "1 row_wise, 1 data_parallel, 1 column_wise"

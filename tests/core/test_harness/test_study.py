"""A study says of every column where its numbers come from, such as that of TorchRec's plan."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from harness.config.run_config import resolve
from harness.foundation.study import make_check, make_study, make_table
from harness.planning.devices import list_device_parameters, torchrec_tables
from reference_models.distributed.placement import DeviceLoad, Devices, PlannerEstimate, TablePlacement
from reports.parts.study import study_blocks
from reports.render.markdown import render_markdown
from reports.render.terminal import plain, render_terminal
from rules.records.codec import Damage, decode, encode
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
        "place", "dlrm_tiny: tables over 4 cuda devices", config.benchmark, tables=tables, findings=findings,
        parameters=list_device_parameters(DEVICES, {"num_devices", "memory_bytes"}), checks=[check],
    )  # fmt: skip


@pytest.fixture
def study() -> StudyRecord:
    return study_of(ESTIMATE)


def test_a_study_is_read_as_it_was_written(study: StudyRecord, tmp_path: Path) -> None:
    path = tmp_path / "study.json"
    path.write_text(encode(study), encoding="utf-8")
    assert decode(path, StudyRecord) == study


def test_every_column_names_its_origin_and_every_parameter_its_source(study: StudyRecord) -> None:
    text = render_terminal(study_blocks(study), width=200, style=plain)
    for table in study.tables:
        for column in table.columns:
            assert f"{column.name} ({column.origin})" in text
    sources = {parameter.name: parameter.source for parameter in study.parameters}
    assert sources["memory of one device"] == sources["devices"] == "given"
    assert sources["bandwidth within a host"] == "default"


def test_the_tables_say_what_the_planner_said(study: StudyRecord) -> None:
    placement, loads = study.tables
    assert placement.rows[0] == (0, 1000, "row_wise", "fused", 4, 250, 16, (0, 1, 2, 3))
    assert loads.rows[3] == (3, 10**9 + 3, (10**9 + 3) / (8 * 10**9), 0, 0.004)
    text = render_markdown(study_blocks(study))
    assert "0-3" in text and "1, 3" in text and "4.0 ms" in text
    assert "cut short" in text


def test_elements_that_are_placed_nowhere_fail_the_check(study: StudyRecord) -> None:
    assert [check.is_passed for check in study.checks] == [True]
    lost = replace(ESTIMATE.tables[0], shard_shapes=((250, 16),) * 3)
    estimate = replace(ESTIMATE, tables=(lost, *ESTIMATE.tables[1:]))
    (check,) = study_of(estimate).checks
    assert not check.is_passed and check.found == check.expected - 250 * 16
    assert "FAILED" in render_terminal(study_blocks(replace_checks(study, check)), width=100, style=plain)


def replace_checks(study: StudyRecord, *checks: object) -> StudyRecord:
    return StudyRecord(**{name: getattr(study, name) for name in study.__struct_fields__} | {"checks": checks})


def test_a_row_has_a_cell_for_every_column(study: StudyRecord, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="2 cells in row 1"):
        make_table("t", [("a", None, "given"), ("b", "s", "modelled")], [(1, 2.0), (1,)])
    content = json.loads(encode(study))
    content["tables"][1]["rows"][2].pop()
    path = tmp_path / "study.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    damage = decode(path, StudyRecord)
    assert isinstance(damage, Damage)
    assert damage.member == "tables[1]" and "5 cells in row 2" in damage.expected


def test_an_origin_that_nobody_knows_is_damage(study: StudyRecord, tmp_path: Path) -> None:
    path = tmp_path / "study.json"
    path.write_text(encode(study).replace('"origin": "modelled"', '"origin": "guessed"', 1), encoding="utf-8")
    damage = decode(path, StudyRecord)
    assert isinstance(damage, Damage)
    assert damage.member == "tables[0].columns[2].origin" and damage.found == '"guessed"'


def test_texts_of_a_study_cannot_move_a_cursor_or_become_markup(study: StudyRecord) -> None:
    hostile = StudyRecord(
        **{name: getattr(study, name) for name in study.__struct_fields__}
        | {"title": "\x1b[31mred|x", "findings": ("a\nb",)}
    )
    assert "\x1b" not in render_terminal(study_blocks(hostile), width=80, style=plain)
    assert "\x1b" not in render_markdown(study_blocks(hostile))


@pytest.mark.parametrize(
    ("expected", "found", "tolerance", "is_passed"),
    [(10.0, 10.0, 0.0, True), (10.0, 10.2, 0.03, True), (10.0, 11.0, 0.03, False)],
)
def test_a_check_holds_within_its_tolerance(expected: float, found: float, tolerance: float, is_passed: bool) -> None:
    assert make_check("mean", expected=expected, found=found, tolerance=tolerance).is_passed is is_passed

"""A study says of every column where its numbers come from."""

import json
from pathlib import Path

import click
import pytest
from msgspec.structs import replace

from harness.cli.shared.output import VERBOSE
from harness.cli.shared.studies import show_answer
from harness.config.run_config import resolve
from harness.foundation.study import make_check, make_study, make_table
from reports.parts.study import study_blocks, study_table
from reports.render.markdown import render_markdown
from reports.render.terminal import plain, render_terminal
from rules.records.codec import Damage, decode, encode
from rules.records.study import Parameter, StudyRecord


@pytest.fixture
def study() -> StudyRecord:
    """One of a benchmark, with two tables and a check."""
    devices = (
        ("Device", None, "given"),
        ("Memory", "B", "modelled"),
        ("Of its memory", "share", "modelled"),
        ("Host memory", "B", "modelled"),
        ("Embeddings per step", "s", "modelled"),
    )
    tables = [
        make_table(
            "Where each is",
            (("Table", None, "given"), ("Rows", None, "given"), ("Sharding", None, "modelled")),
            [(0, 1000, "row_wise"), (1, 30, "data_parallel")],
        ),
        make_table("Devices", devices, [(device, 10**9, 0.125, 0, 0.001) for device in range(4)]),
    ]
    parameters = [
        Parameter(name="devices", value=4, unit=None, source="given", note=None),
        Parameter(name="bandwidth", value=2e12, unit="B/s", source="default", note=None),
    ]
    return make_study(
        "place",
        "tables over 4 devices",
        resolve("dlrm_tiny", [], None).benchmark,
        tables=tables,
        parameters=parameters,
        findings=("All are placed.",),
        checks=[make_check("elements", expected=2, found=2)],
    )


def test_a_study_is_read_as_it_was_written(study: StudyRecord, tmp_path: Path) -> None:
    path = tmp_path / "study.json"
    path.write_text(encode(study), encoding="utf-8")
    assert decode(path, StudyRecord) == study


@pytest.mark.parametrize("words", [(), ("--verbose",)])
def test_a_terminal_is_told_the_answer_and_one_table(
    words: tuple[str, ...], study: StudyRecord, capsys: pytest.CaptureFixture[str]
) -> None:
    """And what is given and modelled of it once; all else where --verbose, or the page, has it."""

    @click.command()
    @VERBOSE
    def made() -> None:
        failing = make_check("weights", expected=2, found=3)
        empty = make_table("Empty", (("Key", None, "given"), ("Value", None, "computed")), [(1, None)])
        changed = replace(study, checks=(*study.checks, failing), tables=(*study.tables, empty))
        show_answer(changed, "table", table=1, has_page=True)
        show_answer(changed, "table", table=2)

    made.main([*words], standalone_mode=False)
    text = " ".join(capsys.readouterr().out.split())
    assert "All are placed." in text and "weights: expected 2, found 3; FAILED" in text
    if words:
        assert "(modelled)" in text and "Where each is" in text and "bandwidth" in text
        return
    first, second = text.split("tables over 4 devices")[1:]
    assert "Given: Device. Modelled: Memory; Of its memory" in first and "(modelled)" not in first
    assert "--verbose and the page also show 'Where each is', 'Empty' and the 2 inputs." in first
    assert "bandwidth" not in first and "elements" not in first
    assert "Empty Key --- 1 All given." in second and "Value" not in second
    assert "--verbose also shows 'Where each is', 'Devices' and the 2 inputs" in second


def test_every_column_names_its_origin_and_every_parameter_its_source(study: StudyRecord) -> None:
    text = render_terminal(study_blocks(study), width=200, style=plain)
    for table in study.tables:
        for column in table.columns:
            assert f"{column.name} ({column.origin})" in text
    sources = {parameter.name: parameter.source for parameter in study.parameters}
    assert sources == {"devices": "given", "bandwidth": "default"}


def test_a_check_that_fails_is_said_to(study: StudyRecord) -> None:
    check = make_check("elements", expected=2, found=1)
    assert "FAILED" in render_terminal(study_blocks(replace_checks(study, check)), width=100, style=plain)


@pytest.mark.parametrize(
    ("times_s", "shown"),
    [
        ((1.281e-3, 871.2e-6, 912e-6), ["1,281.0 µs", "871.2 µs", "912.0 µs"]),
        ((1.21e-3, 1.24e-3), ["1.21 ms", "1.24 ms"]),
        ((0.85, 1.3), ["850.0 ms", "1,300.0 ms"]),
        ((1.21e-3, None), ["1.2 ms", "—"]),
        ((0.0, 0.0), ["0.00 s", "0.00 s"]),
        ((1e-15, 2e-15), ["<0.0001 µs", "<0.0001 µs"]),
        ((1e-15, 0.0, 9.5e-5), ["<0.0001 µs", "0.0 µs", "95.0 µs"]),
    ],
)
def test_times_that_differ_are_told_apart_in_the_unit_of_the_least(
    times_s: tuple[float | None, ...], shown: list[str]
) -> None:
    table = study_table(make_table("Times", [("Latency", "s", "modelled")], [(each,) for each in times_s]))
    assert [row[0].text for row in table.rows] == shown


def replace_checks(study: StudyRecord, *checks: object) -> StudyRecord:
    return StudyRecord(**{name: getattr(study, name) for name in study.__struct_fields__} | {"checks": checks})


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([(5.35e-4, 0.0166), (1.62e-3, 1.261)], [["0.535 ms", "16.6 ms"], ["1.620 ms", "1,261 ms"]]),
        ([(5.35e-4, 0.0166), (5.5e-4, 0.0168)], [["0.535 ms", "16.6 ms"], ["0.550 ms", "16.8 ms"]]),
        ([(2.03e-7, 2.07e-3)], [["0.2 µs", "2,070.0 µs"]]),
        ([(2.03e-7, 2.07)], [["0.2 µs", "2.07 s"]]),  # no unit fits both
        ([(None, 2.07)], [["—", "2.07 s"]]),
        ([(3e-3, 0.5)], [["3.0 ms", "500.0 ms"]]),
    ],
)
def test_times_of_a_row_are_in_one_unit_where_one_fits(
    rows: list[tuple[float | None, ...]], expected: list[list[str]]
) -> None:
    table = make_table("waits", [("p50", "s", "simulated"), ("p99", "s", "simulated")], rows)
    assert [[cell.text for cell in row] for row in study_table(table).rows] == expected


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

"""The section of reference convergence points: in which count its epochs are, and the chance of a false alarm."""

import re
from pathlib import Path

import pytest
from log_builder import make_runs, write_set

from reports.document.blocks import Chart
from reports.page.sections.reference import reference_section
from reports.page.sections.verdict import verdict_table
from reports.parts.score import describe_score
from reports.results.logs import gather
from rules.benchmarks.loader import load_benchmark
from rules.scoring.good_sets import failing_percent, failing_words
from rules.scoring.results import olympic_mean


@pytest.mark.parametrize(("name", "is_from_1"), [("dlrm", True), ("dlrm_dcnv2", False)])
def test_epochs_that_count_from_1_are_said_to(name: str, is_from_1: bool, tmp_path: Path) -> None:
    benchmark = load_benchmark(name)
    write_set(tmp_path, benchmark, make_runs(benchmark, ours=False), ours=False)
    (result,) = gather([tmp_path], second_opinion=False)
    convergence = result.score.convergence
    assert convergence is not None and convergence.mean_epochs is not None
    trained = olympic_mean([run.epochs_to_converge or 0.0 for run in result.score.runs], benchmark.score.drop)
    assert convergence.mean_epochs - trained == pytest.approx(int(is_from_1), abs=0.01)  # logged with few digits
    section = reference_section([result], "g")
    (chart,) = (block for block in section.blocks if isinstance(block, Chart))
    assert ("epoch_num counts from 1" in chart.table.caption) is is_from_1


@pytest.mark.parametrize(
    ("name", "unit", "point"),
    [("dlrmv4_small", "samples", r"\d{3},\d{3}"), ("dlrm_tiny", "epochs", r"0\.\d{3}")],
)
def test_amounts_are_in_the_unit_of_the_benchmark(name: str, unit: str, point: str, tmp_path: Path) -> None:
    benchmark = load_benchmark(name)
    write_set(tmp_path, benchmark, make_runs(benchmark, num_evals=13))
    (result,) = gather([tmp_path], second_opinion=False)
    (chart,) = (block for block in reference_section([result], "g").blocks if isinstance(block, Chart))
    assert f" {unit} (Olympic mean), the reference " in chart.lead
    assert f"Olympic means of {unit} to converge" in chart.table.caption
    assert chart.table.columns[2].name == unit.capitalize()
    assert all(re.fullmatch(point, cell.text) for row in chart.table.rows for cell in row[2:4])
    drawn = str(chart.figure)
    assert f"fewest acceptable {unit}" in drawn and f"{unit} to converge" in drawn


@pytest.mark.parametrize("num_evals", [4, 15])
def test_an_own_benchmarks_test_states_its_chance_of_a_false_alarm(num_evals: int, tmp_path: Path) -> None:
    benchmark = load_benchmark("dlrm_tiny")
    write_set(tmp_path, benchmark, make_runs(benchmark, num_evals=num_evals))
    (result,) = gather([tmp_path], second_opinion=False)
    convergence = result.score.convergence
    assert convergence is not None and convergence.failing_share is not None
    assert convergence.status == ("failed" if num_evals == 4 else "passed")
    words = failing_words(convergence.failing_share)
    (chart,) = (block for block in reference_section([result], "g").blocks if isinstance(block, Chart))
    rejected = failing_percent(convergence.failing_share)
    assert chart.lead.endswith(f"wrongly rejects {rejected} of the sets drawn from the reference's own runs.")
    table = verdict_table([result], "v")
    place = [column.name for column in table.columns].index("RCP")
    cell = table.rows[0][place]
    assert (cell.text, f"{table.columns[place].help} {cell.sub}") == (convergence.status, words)
    assert {row[3].sub for row in chart.table.rows if row[-1].text == "reference"} >= {words}
    reason = describe_score(result).rcp_reason
    assert reason is not None and reason.endswith(f"; {words} for a set as fast as the reference")
    warned = [finding.expected for finding in result.verdict.findings if finding.code == "RC101"]
    assert [expected is not None and expected.endswith(words) for expected in warned] == [True] * (num_evals == 4)

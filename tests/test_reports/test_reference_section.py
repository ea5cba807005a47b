"""The section of reference convergence points: in which count its epochs are."""

from pathlib import Path

import pytest
from log_builder import make_runs, write_set

from reports.document.blocks import Chart
from reports.facts.facts import gather
from reports.page.sections.reference import reference_section
from rules.benchmarks.loader import load_benchmark
from rules.scoring.results import olympic_mean


@pytest.mark.parametrize(("name", "is_from_1"), [("dlrm", True), ("dlrm_dcnv2", False)])
def test_epochs_that_count_from_1_are_said_to(name: str, is_from_1: bool, tmp_path: Path) -> None:
    benchmark = load_benchmark(name)
    write_set(tmp_path, benchmark, make_runs(benchmark, ours=False), ours=False)
    (facts,) = gather([tmp_path], second_opinion=False)
    convergence = facts.result.convergence
    assert convergence is not None and convergence.mean_epochs is not None
    trained = olympic_mean([run.epochs_to_converge or 0.0 for run in facts.result.runs], benchmark.score.drop)
    assert convergence.mean_epochs - trained == pytest.approx(int(is_from_1), abs=0.01)  # logged with few digits
    section = reference_section([facts], "g")
    (chart,) = (block for block in section.blocks if isinstance(block, Chart))
    assert ("epoch_num counts from 1" in chart.table.caption) is is_from_1

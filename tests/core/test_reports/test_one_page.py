"""Pages of several kinds of results: each kind has the same parts, and none takes anything from another."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
from measured_builder import write_measured
from report_builder import write_run_set

from reports.charts import svg
from reports.comparison.comparison import compare_results
from reports.comparison.sweep import SweepFacts, SweepRow
from reports.page.content import ReportContent, gather_everything
from reports.page.report import render_report
from reports.results.measured import read_measured


def page_at(*folders: Path) -> str:
    return render_report(gather_everything(folders, second_opinion=False))


def title_of(page: str) -> str:
    return page.partition("<title>")[2].partition("</title>")[0].replace("\N{NO-BREAK SPACE}", " ")


def test_a_measurement_beside_sets_takes_nothing_from_what_is_said_of_them(tmp_path: Path) -> None:
    sets = [write_run_set(tmp_path / "sets" / name, interrupted=False) for name in ("a", "b")]
    alone = page_at(*sets)
    beside = page_at(*sets, write_measured(tmp_path / "rates", "throughput", [1000.0 + index for index in range(5)]))
    assert title_of(beside) == title_of(alone)
    assert "must not be compared with each other" not in beside
    assert "Throughput alone" in beside and "Samples/s of every process" in beside


def test_what_differs_in_quantity_has_parts_of_its_own_in_a_sweep(tmp_path: Path) -> None:
    of_auc, of_accuracy = (write_measured(tmp_path / name, "quality", [0.7, 0.71]) for name in ("auc", "accuracy"))
    path = of_accuracy / "extra" / "quality.json"
    content = json.loads(path.read_text())
    for evaluation in (entry for process in content["processes"] for entry in process["evaluations"]):
        evaluation |= {"auc": None, "accuracy": evaluation["auc"]}
    path.write_text(json.dumps(content))
    results = [read_measured(folder, "quality") for folder in (of_auc, of_accuracy)]
    rows = tuple(
        SweepRow(index=index, label=f"row {index}", values=(str(index),), failure=None, num_planned=2, result=result)
        for index, result in enumerate(results)
    )
    axes = (("k", ("0", "1")),)
    sweep = SweepFacts(name="mixed", kind="quality", num_steps=None, axes=axes, rows=rows, problems=())
    page = render_report(ReportContent(sweeps=(sweep, sweep)))
    ids = [part.partition('"')[0] for part in page.split(' id="')[1:]]
    assert len(ids) == len(set(ids))
    for part in ("Every process: mixed, AUC", "Every process: mixed, Accuracy", "Every process: mixed (2), AUC"):
        assert f">{part}</h2>" in page


@pytest.mark.parametrize("values", [[1e-320, 1e300], [1e-300, 1.0, 1e308], [5e-324, 1e-300]])
def test_values_that_no_logarithmic_axis_can_hold_have_another(values: list[float]) -> None:
    scale: Any = svg.value_scale(values, 0.0, 100.0)
    assert all(math.isfinite(scale(value)) for value in values) and scale.ticks(5)


def test_rates_further_apart_than_floats_are_shown_and_compared(tmp_path: Path) -> None:
    near = write_measured(tmp_path / "near", "throughput", [1000.0 + index for index in range(5)])
    far = write_measured(tmp_path / "far", "throughput", [1e-305, 1e3, 1e3, 1e3, 1e3])
    assert "Throughput alone" in page_at(near, far)
    for base, new in ((near, far), (far, near)):
        (comparison,) = compare_results(read_measured(base, "throughput"), [read_measured(new, "throughput")])
        assert comparison.verdict in ("inconclusive", "no difference shown")

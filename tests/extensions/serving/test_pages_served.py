"""Pages and tables of what was served: the same parts as any other kind's, in its own words."""

import math
from pathlib import Path

import pytest
from measured_builder import write_measured

from reports import frames
from reports.page.content import gather_everything
from reports.page.report import render_report
from reports.results.measured import centre_of, read_measured
from reports.tables.documents import json_text
from reports.tables.records import ReportDocument
from reports.tables.reference import FRAMES

DTYPES = {
    "string": "configuration benchmark system scenario queries weights precision table_precision mlperf_class path "
    "judged_as steady_state_missing",
    "boolean": "is_oversubscribed",
    "Int64": "process seed num_copies num_workers num_threads batch_items",
    "float64": "target_latency_s percentile mean_items model_bytes queries_per_s items_per_s latency_s "
    "modelled_per_s alone_per_s overhead_s completed_per_s "
    "spread_low_per_s spread_high_per_s steady_state_per_s loadgen_share invalid_per_s auc accuracy "
    "normalised_entropy auc_ratio accuracy_ratio entropy_ratio peak_rss_bytes",
}


def page_at(*folders: Path) -> str:
    return render_report(gather_everything(folders, second_opinion=False))


def title_of(page: str) -> str:
    return page.partition("<title>")[2].partition("</title>")[0].replace("\N{NO-BREAK SPACE}", " ")


def test_one_says_its_rate_and_two_by_how_much_it_differs(tmp_path: Path) -> None:
    base = write_measured(tmp_path / "base", "serve", [99.0, 100.0, 101.0, 100.5, 99.5])
    new = write_measured(tmp_path / "new", "serve", [227.7, 230.0, 232.3, 231.2, 228.9])
    assert title_of(page_at(base)).startswith("dlrm_tiny: 100.0 queries/s VALID within 25.0 ms at p95")
    assert "new is better than base on dlrm_tiny: Queries/s 2.30×, 5 pairs" in title_of(page_at(base, new))
    assert "dlrmbench" in page_at(base).partition("Reproduce")[2]


def test_a_rate_has_one_mean_and_no_interval_below_zero(tmp_path: Path) -> None:
    rates = [50.0, 100.0, 100.0, 100.0, 400.0]
    page = page_at(write_measured(tmp_path / "served", "serve", rates))
    centre, bounds = centre_of(read_measured(tmp_path / "served", "serve"))
    assert centre == pytest.approx(math.prod(rates) ** 0.2)
    assert bounds is not None and bounds.low > 0
    assert "115 queries/s" in title_of(page) and "−25" not in page and "-25.6" not in page


@pytest.mark.parametrize(
    ("command", "printed"),
    [
        ("dlrmbench serve dlrm_tiny", "dlrmbench serve dlrm_tiny -n 1 --seed 77"),
        ("dlrmbench serve dlrm_tiny --processes 1 --seed 77", "dlrmbench serve dlrm_tiny --processes 1 --seed 77"),
    ],
)
def test_a_command_to_copy_has_options_that_its_verb_has(command: str, printed: str, tmp_path: Path) -> None:
    folder = write_measured(tmp_path / "served", "serve", [100.0], command=command, base_seed=77)
    assert f"<code>{printed}</code>" in page_at(folder)


def test_every_column_has_its_dtype_with_rows_and_without(tmp_path: Path) -> None:
    expected = {column: dtype for dtype, columns in DTYPES.items() for column in columns.split()}
    (tmp_path / "empty.json").write_text(json_text(ReportDocument(configurations=())), encoding="utf-8")
    full = frames.read(write_measured(tmp_path / "served", "serve", [100.0])).served
    nothing = frames.read(tmp_path / "empty.json").served
    assert (len(full), len(nothing)) == (1, 0)
    for frame in (full, nothing):
        assert {str(column): str(dtype) for column, dtype in frame.dtypes.items()} == expected
    assert list(full.columns) == [column.name for column in FRAMES["served"][1]]

"""The page for the same input is the same to the last byte, but for the one line with date and version.

`python tests/core/test_reports/test_golden.py > …/report_golden.html` writes the expected page anew, without the
style sheet and the script; look at the difference before committing it.
"""

import os
import re
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import pytest
from log_builder import START_MS, make_records
from pinned_definition import DEFINITION
from report_builder import write_run_set

from reports.page.content import ReportContent
from reports.page.report import render_report
from reports.results.logs import gather
from rules.benchmarks.loader import load_benchmark

GOLDEN = Path(__file__).with_name("report_golden.html")
MOMENTS = (datetime(2026, 11, 21, 3, 0, tzinfo=UTC), datetime(2031, 1, 2, 3, 4, tzinfo=UTC))


def make_page(moment: datetime) -> str:
    """Two configurations of a benchmark of round numbers, in the current directory."""
    Path("pinned.toml").write_text(DEFINITION, encoding="utf-8")
    benchmark = load_benchmark("./pinned.toml")
    for name, throughput in (("base", 10_000.0), ("new", 8_000.0)):
        runs = [
            make_records(
                benchmark,
                num_evals=6 + number % 3,
                seed=number,
                start_ms=START_MS + number * 100_000,
                throughput=throughput,
            )
            for number in range(5)
        ]
        root = write_run_set(Path("sets") / name, runs=runs)
        (root / "extra" / "definition.toml").write_text(DEFINITION, encoding="utf-8")
    return render_report(ReportContent(results=gather([Path("sets")], second_opinion=False)), now=moment)


def without_assets(html: str) -> str:
    """The page without what is written by hand (style, script, their digests) and the line of date and version."""
    html = re.sub(r"<style>.*?</style>", "<style></style>", html, flags=re.DOTALL)
    html = re.sub(r"<script>.*?</script>", "<script></script>", html, flags=re.DOTALL)
    html = re.sub(r"sha256-[\w+/=]+", "sha256-", html)
    lines = [line for line in html.splitlines() if "Written by dlrmbench" not in line]
    assert len(lines) == len(html.splitlines()) - 1
    return "\n".join(lines) + "\n"


def test_only_one_line_depends_on_the_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    one, other = (make_page(moment).splitlines() for moment in MOMENTS)
    differing = [(a, b) for a, b in zip(one, other, strict=True) if a != b]
    assert len(differing) == 1
    assert "2026-11-21 03:00 UTC" in differing[0][0] and "Written by dlrmbench" in differing[0][0]


def test_the_page_is_exactly_this(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    made, expected = without_assets(make_page(MOMENTS[0])), GOLDEN.read_text(encoding="utf-8")
    for number, (shown, wanted) in enumerate(zip(made.splitlines(), expected.splitlines(), strict=False), start=1):
        assert shown == wanted, f"line {number}"
    assert made == expected


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        sys.stdout.write(without_assets(make_page(MOMENTS[0])))

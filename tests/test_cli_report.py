"""`dlrmbench report`: where its output goes, how it ends, and what it does not import."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from report_builder import write_run_set

Command = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def results(tmp_path: Path) -> Path:
    return write_run_set(tmp_path / "results" / "set").parent


def test_the_page_is_written_where_asked_and_its_path_printed(dlrmbench: Command, results: Path) -> None:
    done = dlrmbench("report", results, "-o", "page.html", "--title", "Mine")
    assert (done.returncode, done.stdout, done.stderr) == (0, "page.html\n", "")
    assert "<title>Mine</title>" in (results.parent / "page.html").read_text(encoding="utf-8")


def test_without_output_it_is_report_html_here(dlrmbench: Command, results: Path) -> None:
    assert dlrmbench("report", results).stdout == "report.html\n"
    assert (results.parent / "report.html").is_file()


@pytest.mark.parametrize(("name", "start"), [("json", "{"), ("csv", "configuration,"), ("md", "## dlrm")])
def test_other_formats_go_to_stdout(dlrmbench: Command, results: Path, name: str, start: str) -> None:
    done = dlrmbench("report", results, "--format", name)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(start)
    assert sorted(path.name for path in results.parent.iterdir()) == ["results"]
    if name == "json":
        assert len(json.loads(done.stdout)["configurations"]) == 1


def test_a_missing_path_ends_with_8_and_says_what_to_give(dlrmbench: Command) -> None:
    done = dlrmbench("report", "nowhere")
    assert (done.returncode, done.stdout) == (8, "")
    assert "nowhere: no such file or directory. Give a log" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("arguments", [(), (".", "-o", "."), (".", "--format", "pdf")])
def test_wrong_usage_ends_with_2(dlrmbench: Command, results: Path, arguments: tuple[str, ...]) -> None:
    done = dlrmbench("report", *arguments)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_an_output_folder_that_does_not_exist_is_named(dlrmbench: Command, results: Path) -> None:
    done = dlrmbench("report", results, "-o", "missing/page.html")
    assert done.returncode == 8
    assert "missing" in done.stderr
    assert "Traceback" not in done.stderr


def test_no_torch(results: Path) -> None:
    code = (
        "import sys; from reports.report import write_report; from pathlib import Path; "
        f"write_report([Path({str(results)!r})], Path({str(results / 'page.html')!r})); "
        "assert 'torch' not in sys.modules"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

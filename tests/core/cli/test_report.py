"""`dlrmbench report`: where its output goes, how it ends, and what it does not import."""

import json
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from log_builder import make_runs, write_set
from records_builder import process_content, throughput_content
from report_builder import write_run_set

from reports.results.find import find_index
from rules.benchmarks.loader import load_benchmark, read_definition_text
from rules.errors import InputError

Command = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def results(tmp_path: Path) -> Path:
    return write_run_set(tmp_path / "results" / "set").parent


def test_the_page_is_written_where_asked_and_its_path_printed(inside: Command, results: Path) -> None:
    done = inside("report", results, "-o", "page.html", "--title", "Mine")
    assert (done.returncode, done.stdout, done.stderr) == (0, "page.html\n", "")
    assert "<title>Mine</title>" in (results.parent / "page.html").read_text(encoding="utf-8")


def test_without_output_it_is_report_html_here(inside: Command, results: Path) -> None:
    assert inside("report", results).stdout == "report.html\n"
    assert (results.parent / "report.html").is_file()


@pytest.mark.parametrize(("name", "start"), [("json", "{"), ("csv", "configuration,"), ("md", "## dlrm")])
def test_other_formats_go_to_stdout(inside: Command, results: Path, name: str, start: str) -> None:
    done = inside("report", results, "--format", name)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(start)
    assert sorted(path.name for path in results.parent.iterdir()) == ["results"]
    if name == "json":
        assert len(json.loads(done.stdout)["configurations"]) == 1


@pytest.mark.slow
def test_the_baseline_is_the_first_or_the_one_named(inside: Command, results: Path) -> None:
    write_run_set(results / "other", runs=make_runs(load_benchmark("dlrm_tiny"), throughput=15_000.0))
    page = results.parent / "report.html"
    assert inside("report", results).returncode == 0
    assert "Ratios to &#39;other&#39;; above 1× is slower" in page.read_text(encoding="utf-8")
    assert inside("report", results, "--baseline", "set").returncode == 0
    assert "Ratios to &#39;set&#39;; above 1× is slower" in page.read_text(encoding="utf-8")
    assert inside("report", results, "--baseline", "OTHER").returncode == 0
    assert "Ratios to &#39;other&#39;; above 1× is slower" in page.read_text(encoding="utf-8")
    done = inside("report", results, "--baseline", "oter")
    assert done.returncode == 2
    assert "--baseline oter: is no configuration here. Did you mean 'other'?" in done.stderr
    assert done.stderr.count("other, set") == 1
    assert "There are: other, set." in done.stderr
    done = inside("report", results, "--baseline", "nothing alike")
    assert done.stderr.count("other, set") == 1


def test_where_nothing_can_be_a_baseline_that_is_said() -> None:
    with pytest.raises(InputError, match="--baseline any: there is no set of training runs here"):
        find_index([], [], "any", "--baseline")


def test_the_rows_are_in_the_order_of_the_files_or_of_the_scores(inside: Command, results: Path) -> None:
    for name, throughput in (("aslow", 2_000.0), ("bfast", 9_000.0)):
        write_run_set(results / name, runs=make_runs(load_benchmark("dlrm_tiny"), throughput=throughput))
    for options, order in (((), ["aslow", "bfast"]), (("--sort", "score"), ["bfast", "aslow"])):
        text = inside("report", results, "--format", "md", *options).stdout
        assert sorted(order, key=lambda name: text.index(f"| {name} (")) == order
        assert "not a ranking" in text


def test_a_benchmark_of_ones_own_can_be_given(inside: Command, results: Path) -> None:
    text = read_definition_text(load_benchmark("dlrm_tiny").path).replace('"dlrm_tiny"', '"mine"', 1)
    (results.parent / "mine.toml").write_text(text, encoding="utf-8")
    mine = load_benchmark(results.parent / "mine.toml")
    folder = write_set(results.parent / "logs", mine, ours=False)
    page = results.parent / "report.html"
    assert inside("report", folder).returncode == 0
    assert "No definition of this benchmark is known here" in page.read_text(encoding="utf-8")
    assert inside("report", folder, "--benchmark", "mine.toml").returncode == 0
    assert f"mine trained to AUC {mine.quality.target:.5f} in" in page.read_text(encoding="utf-8")


def test_throughput_alone_is_shown_as_such(inside: Command, results: Path) -> None:
    extra = results.parent / "speed" / "extra"
    extra.mkdir(parents=True)
    processes = [process_content(num_samples=20_480, duration_s=0.2 + number / 1000) for number in range(5)]
    content = throughput_content(processes)
    (extra / "throughput.json").write_text(json.dumps(content), encoding="utf-8")
    for paths in ((extra.parent,), (extra.parent, results)):
        done = inside("report", *paths)
        assert done.returncode == 0, done.stderr
        page = (results.parent / "report.html").read_text(encoding="utf-8")
        assert "no number of this section is a time to train or a score" in page
        rates = [one["num_samples"] / one["duration_s"] for one in processes]
        assert f"{statistics.geometric_mean(rates):,.0f}" in page
    assert "trained to AUC" in page
    done = inside("report", extra.parent, "nowhere")
    assert done.returncode == 8
    assert "nowhere: no such file or directory" in done.stderr


def test_a_missing_path_ends_with_8_and_says_what_to_give(inside: Command) -> None:
    done = inside("report", "nowhere")
    assert (done.returncode, done.stdout) == (8, "")
    assert "nowhere: no such file or directory, and no set of that name in results. Give a path" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("arguments", [(), (".", "-o", "."), (".", "--format", "pdf")])
def test_wrong_usage_ends_with_2(inside: Command, results: Path, arguments: tuple[str, ...]) -> None:
    done = inside("report", *arguments)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_an_output_folder_that_does_not_exist_is_named(inside: Command, results: Path) -> None:
    done = inside("report", results, "-o", "missing/page.html")
    assert done.returncode == 8
    assert "missing" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_no_torch(results: Path) -> None:
    code = (
        "import sys; from reports.page.content import gather_everything; from pathlib import Path; "
        "from reports.page.report import render_report; "
        f"assert render_report(gather_everything([Path({str(results)!r})])); "
        "assert 'torch' not in sys.modules"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

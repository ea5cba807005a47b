"""A sweep's table and charts: numbers read back from the drawing are the table's; hostile files are shown as text."""

import json
import re
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from browser import Browser, find_browser
from log_builder import make_runs, with_record
from records_builder import (
    pair_content,
    process_content,
    run_set_content,
    sweep_content,
    throughput_content,
    write_group,
)
from report_builder import write_report, write_run_set

from reports.charts.sweep import places, position_scale
from reports.comparison.sweep import read_sweep_facts
from reports.document.blocks import Chart, Prose, Table
from reports.document.page import PageSection
from reports.page.answer import answer_sweep
from reports.page.content import gather_everything
from reports.page.studies.sweep import sweep_section
from reports.parts.sweep import against_first, brief_verdict, rows_as_records, sweep_table
from rules.benchmarks.loader import load_benchmark
from rules.errors import InputError
from rules.tree.inventory import take_inventory

AXIS = {"key": "data.k", "values": ["1"]}
POINT = {"label": "k=1", "values": {}, "folder": "a", "failure": None, "profile_failure": None}
HOSTILE = "</script><img src=x onerror=alert(1)>\u202e\x1b[31m"


def write_sweep(
    root: Path,
    axes: dict[str, list[str]],
    configurations: list[dict[str, Any]],
    **changes: Any,
) -> Path:
    root.mkdir(parents=True, exist_ok=True)
    told = {"name": root.name, "axes": [{"key": key, "values": values} for key, values in axes.items()], **changes}
    write_group(root, sweep_content(configurations=configurations, **told))
    return root


def throughput_set(
    root: Path,
    name: str,
    speed: float,
    *,
    energy_j: float | None = None,
    flop: int = 4000,
    peak_rss_bytes: int = 2**30,
) -> str:
    """Five processes around `speed` samples/s."""
    extra = root / name / "extra"
    extra.mkdir(parents=True)
    energy = {
        "energy_j": energy_j,
        "duration_s": 1.0,
        "sampling_interval_s": 1.0 if energy_j else None,
        "parts": [{"name": "package-0", "source": "RAPL (powercap)", "energy_j": energy_j}] if energy_j else [],
        "not_measured": [] if energy_j else [{"what": "CPU packages", "reason": "no driver"}],
    }
    processes = [
        process_content(
            num_samples=1000, duration_s=1000 / speed * factor, peak_rss_bytes=peak_rss_bytes, energy=energy
        )
        for factor in (0.99, 0.995, 1.0, 1.005, 1.01)
    ]
    names = ("num_parameters", "embedding_bytes", "num_lookups_per_sample", "forward_flop_per_sample")
    computed = {**dict.fromkeys(names, 0), "training_flop_per_sample": flop, "embedding_bytes_per_sample": 1000}
    content = throughput_content(processes, data_kind="made_up", computed=computed)
    (extra / "throughput.json").write_text(json.dumps(content))
    (extra / "run_set.json").write_text(json.dumps(run_set_content(kind="throughput", seeds=[1, 2, 3, 4, 5])))
    return name


def record(label: str, values: dict[str, str], folder: str | None, failure: str | None = None) -> dict[str, Any]:
    failed = None if failure is None else {"reason": failure, "exit_code": 9, "run_index": 0}
    return {"label": label, "values": values, "folder": folder, "failure": failed, "profile_failure": None}


@pytest.fixture
def by_threads(tmp_path: Path) -> Path:
    """Three configurations over one axis: 1000, 2000 samples/s, and one that failed."""
    root = tmp_path / "sweep"
    folders = [throughput_set(root, "a", 1000, energy_j=5.0), throughput_set(root, "b", 2000, energy_j=4.0), None]
    rows = [
        record(f"threads={value}", {"runtime.threads": value}, folder, "out of memory." if folder is None else None)
        for value, folder in zip("124", folders, strict=True)
    ]
    return write_sweep(root, {"runtime.threads": ["1", "2", "4"]}, rows)


def test_rows_hold_what_the_processes_measured(by_threads: Path) -> None:
    sweep = read_sweep_facts(by_threads)
    first, second, failed = rows_as_records(sweep)
    assert first["throughput_samples_per_s"] == pytest.approx(1000, rel=1e-3)
    assert first["energy_per_sample_j"] == pytest.approx(5.0 / 1000)
    assert second["energy_per_sample_j"] == pytest.approx(4.0 / 1000)
    assert first["peak_bytes"] == 2**30
    assert (second["overall_verdict"], failed["failure"]) == ("faster", "out of memory.")
    assert (failed["throughput_samples_per_s"], failed["peak_bytes"], failed["energy_per_sample_j"]) == (None,) * 3
    assert "2.00x faster" in against_first(sweep.rows[1])
    assert [brief_verdict(row) for row in sweep.rows] == ["baseline", "2.00x faster", "failed"]


@pytest.mark.parametrize(
    ("speed", "verdict", "title", "text"),
    (
        (2000.0, "2.00x faster", "b is 2.00× faster than a on", "Fastest: b (2.00 k samples/s). The other"),
        (500.0, "2.00x slower", "b is 2.00× slower than a on", "Fastest: a (1.00 k samples/s). The other"),
        (1001.0, "below the smallest effect: 1.001x faster", "b against a on", "a against b: below the"),
    ),
)
def test_two_configurations_have_one_verdict_in_title_text_and_table(
    tmp_path: Path, speed: float, verdict: str, title: str, text: str
) -> None:
    root = tmp_path / "sweep"
    folders = throughput_set(root, "a", 1000), throughput_set(root, "b", speed)
    rows = [record(name, {"runtime.threads": value}, name) for name, value in zip(folders, "12", strict=True)]
    sweep = read_sweep_facts(write_sweep(root, {"runtime.threads": ["1", "2"]}, rows))
    assert brief_verdict(sweep.rows[1]) == verdict
    assert answer_sweep(sweep).startswith(title)
    assert text in sweep.closing and "98 %" not in sweep.closing


@pytest.mark.parametrize("batches", ["12", "123"])
def test_threads_that_no_axis_asked_for_are_in_the_title_of_a_sweep(tmp_path: Path, batches: str) -> None:
    rows, is_pair = [], len(batches) == 2
    for batch in batches:
        name = throughput_set(tmp_path, batch, 1000 * int(batch))
        path = tmp_path / name / "extra" / "run_set.json"
        content = json.loads(path.read_text())
        config = {
            "runtime.threads": {"value": "auto", "source": "default"},
            "train.b": {"value": batch, "source": "x"},
        }
        path.write_text(json.dumps(content | {"config": config, "num_threads": int(batch)}))
        rows.append(record(name, {"train.b": batch}, name))
    title = answer_sweep(read_sweep_facts(write_sweep(tmp_path, {"train.b": [*batches]}, rows)))
    assert title.endswith("; with 2 threads against 1" if is_pair else "; with 1 to 3 threads")


def test_computed_and_measured_are_apart_in_the_table(by_threads: Path) -> None:
    table = sweep_table(read_sweep_facts(by_threads), "t")
    by_name = {
        column.name: (column.help, cell.text) for column, cell in zip(table.columns, table.rows[0], strict=True)
    }
    assert by_name["J/sample"] == ("measured", "0.005")
    assert by_name["GFLOP/s"] == ("computed FLOP × measured samples/s", "0.004")
    assert by_name["FLOP/byte"][1] == "4"


def charts_of(section: PageSection) -> list[Chart]:
    return [block for block in section.blocks if isinstance(block, Chart)]


def notes_of(section: PageSection) -> list[str]:
    return [block.text for block in section.blocks if isinstance(block, Prose) and block.kind == "note"]


def test_without_energy_the_reason_is_below_the_table(tmp_path: Path) -> None:
    folder = throughput_set(tmp_path / "s", "a", 10)
    root = write_sweep(tmp_path / "s", {"data.k": ["1"]}, [record("k=1", {"data.k": "1"}, folder)])
    notes = " ".join(notes_of(sweep_section(read_sweep_facts(root))))
    assert "not measured: CPU packages: no driver" in notes
    assert "synthetic and in memory" in notes


def test_points_of_a_chart_are_the_tables_numbers(by_threads: Path) -> None:
    """The y of each dot, read back through two ticks of the drawing's own axis, is the value in the table."""
    view = sweep_section(read_sweep_facts(by_threads))
    (chart,) = [chart for chart in charts_of(view) if chart.heading.startswith("Throughput")]
    drawn = str(chart.figure.wide)
    ticks = [
        (float(y) - 4, float(text.replace(" k", "")) * (1000 if " k" in text else 1))
        for y, text in re.findall(r'<text x="54" y="([\d.]+)">([^<]+)</text>', drawn)
    ]
    (y0, v0), (y1, v1) = ticks[0], ticks[-1]
    dots = [float(y) for y in re.findall(r'<circle cx="[\d.]+" cy="([\d.]+)" r="4.5" class="dot-counted"', drawn)]
    assert [v0 + (y - y0) / (y1 - y0) * (v1 - v0) for y in dots] == pytest.approx([1000, 2000], rel=0.02)
    assert drawn.count('class="dot-failed"') == 1
    assert "out of memory" in drawn


def test_two_axes_make_a_panel_per_value_of_the_shorter_one(tmp_path: Path) -> None:
    root, rows = tmp_path / "s", []
    for threads in ("1", "2"):
        for batch in ("8", "16", "32"):
            name = throughput_set(root, f"{threads}-{batch}", float(threads) * float(batch))
            rows.append(record(name, {"runtime.threads": threads, "train.b": batch}, name))
    write_sweep(root, {"runtime.threads": ["1", "2"], "train.b": ["8", "16", "32"]}, rows)
    facts = read_sweep_facts(root)
    chart = charts_of(sweep_section(facts))[0]
    # A terminal repeats both where it divides the table: rows are not known by the first alone.
    assert [column.names_row for column in sweep_table(facts, "s").columns[:3]] == [True, True, False]
    drawn = str(chart.figure.wide)
    assert re.findall(r'class="name">([^<]+)<', drawn) == ["threads 1", "threads 2"]
    assert drawn.count('class="dot-counted"') == 6
    assert "a factor of 8" in chart.lead


@pytest.mark.parametrize(
    ("peaks", "expected"),
    [
        ((2**30, 2**30), "Peak memory: 1 GiB in each of 2 configurations."),
        ((2**30, 2**30 * 1.004), "Peak memory: 1 GiB in each of 2 configurations."),
        ((2**30, 2**30 * 1.04), "Peak memory: 1 GiB (a) to 1.04 GiB (b): 4.0 % more."),
        ((2**30, 2**30 * 1.5), "Peak memory: 1 GiB (a) to 1.5 GiB (b): a factor of 1.5."),
    ],
)
def test_a_chart_of_like_values_says_so(peaks: tuple[float, float], expected: str, tmp_path: Path) -> None:
    rows = []
    for label, peak in zip(("a", "b"), peaks, strict=True):
        name = throughput_set(tmp_path, label, 1000.0, peak_rss_bytes=round(peak))
        rows.append(record(label, {"runtime.threads": label}, name))
    write_sweep(tmp_path, {"runtime.threads": ["a", "b"]}, rows)
    (chart,) = [c for c in charts_of(sweep_section(read_sweep_facts(tmp_path))) if c.heading.startswith("Peak")]
    assert chart.lead == expected


def test_intervals_are_below_their_means_and_sections_below_their_keys(by_threads: Path) -> None:
    """So that the table is narrower than a page; the terminal has a column for each."""
    sweep = read_sweep_facts(by_threads)
    (table,) = [block for block in sweep_section(sweep).blocks if isinstance(block, Table)]
    heads = [(column.name, column.help) for column in table.columns]
    assert heads[:2] == [("threads", "runtime"), ("Samples/s", "geometric mean, 95 % interval")]
    assert not [name for name, _ in heads if name.startswith("95 %")]
    plain = sweep_table(sweep, "t")
    assert [(row[1].text, row[1].sub) for row in table.rows] == [
        (row[1].text, "" if row[2].text == "—" else row[2].text) for row in plain.rows
    ]


@pytest.mark.slow
@pytest.mark.skipif(find_browser() is None, reason="no Chromium on PATH nor in $DLRMBENCH_TEST_BROWSER")
def test_the_table_of_three_axes_is_as_wide_as_the_page(tmp_path: Path, browser: Browser) -> None:
    root, rows = tmp_path / "s", []
    axes = {
        "runtime.implementation": ["reference", "optimized"],
        "train.global_batch_size": ["8192", "16384"],
        "runtime.threads": ["1", "2"],
    }
    for number, values in enumerate(product(*axes.values())):
        name = throughput_set(root, f"c{number}", 1.2e6 * (1 + number / 300), energy_j=5.0, flop=123_456_789)
        rows.append(record(name, dict(zip(axes, values, strict=True)), name))
    page = write_report([write_sweep(root, axes, rows)], tmp_path / "page.html")
    with browser.tab(page.as_uri(), width=1280) as tab:
        width = "document.querySelector('#sweep1-table').parentElement"
        assert tab.evaluate(f"{width}.scrollWidth - {width}.clientWidth") == 0


def test_numbers_are_at_their_logarithm_and_words_side_by_side() -> None:
    def placed(positions: list[str], stop: float) -> list[float]:
        return [*map(position_scale(positions)(0, stop), places(positions))]

    assert placed(["1", "10", "100"], 2) == pytest.approx([0, 1, 2])
    assert placed(["1", "2", "16"], 4) == pytest.approx([0, 1, 4])
    assert placed(["dot", "cat", "dcn"], 2) == pytest.approx([0, 1, 2])
    assert placed(["0", "1.05"], 2) == pytest.approx([0, 2])
    assert placed(["one"], 2) == placed(["8"], 2) == [1]


@pytest.mark.parametrize(
    ("names", "refused", "closing", "title", "verdicts"),
    [
        (
            "abc",
            "b",
            r"Fastest: c \(.*\)\. All others are slower \(98 % confidence over all pairs\)\. INVALID: b\.",
            "c is the fastest of 2 configurations of dlrm_tiny: time to train ",
            ["baseline", "2.25x faster (INVALID)", "1.50x faster"],
        ),
        (
            "ab",
            "a",
            "",
            "b trains 2.25× faster than a (INVALID: HP101) on dlrm_tiny: time to train",
            ["baseline", "2.25x faster (baseline INVALID)"],
        ),
    ],
)
def test_what_the_rules_reject_is_not_the_fastest_of_a_sweep(
    tmp_path: Path, names: str, refused: str, closing: str, title: str, verdicts: list[str]
) -> None:
    tiny = load_benchmark("dlrm_tiny")
    for name, throughput in zip(names, (4000.0, 9000.0, 6000.0), strict=False):
        runs = make_runs(tiny, throughput=throughput)
        broken = [with_record(records, "opt_adagrad_epsilon", value=0.5) for records in runs]
        write_run_set(tmp_path / name, runs=broken if name == refused else runs, interrupted=False)
    rows = [record(name, {"train.rate": name}, name) for name in names]
    write_sweep(tmp_path, {"train.rate": [*names]}, rows, kind="training", options={})
    sweep = read_sweep_facts(tmp_path)
    assert re.fullmatch(closing, sweep.closing), sweep.closing
    assert answer_sweep(sweep).startswith(title)
    assert [brief_verdict(row) for row in sweep.rows] == verdicts
    told = {row[0].text: row[0].line for row in sweep_table(sweep, "t").rows}
    assert told == {name: f"{name} (INVALID)" if name == refused else name for name in names}


def test_runs_to_the_target_enter_with_score_factors_and_verdict(tmp_path: Path) -> None:
    root = tmp_path / "s"
    for name in ("a", "b"):
        write_run_set(root / name, interrupted=False)
    rows = [record(f"rate={n}", {"train.rate": str(n)}, name) for n, name in enumerate("ab")]
    write_sweep(root, {"train.rate": ["0", "1"]}, rows, kind="training", options={})
    sweep = read_sweep_facts(root)
    # What a report has judged already is not judged again.
    judged = gather_everything([root]).sets
    assert [row.result for row in read_sweep_facts(root, known=judged).rows] == list(judged)
    first = rows_as_records(sweep)[0]
    assert first["num_converged"] == first["num_runs"] == 5
    assert first["time_to_train_low_s"] <= first["time_to_train_s"] <= first["time_to_train_high_s"]
    assert first["score_s"] is not None
    view = sweep_section(sweep)
    # The terminal shows names without their help: units must be in them, and what kind of mean in the notes.
    names = [column.name for column in sweep_table(sweep, "t").columns]
    assert "Score, s" in names and "Time to train, s" in names and "90 % interval, s" in names
    assert notes_of(view)[0].startswith(
        "The score is the Olympic mean of the times to train. Times, samples and samples/s are geometric means"
    )
    assert [chart.heading.partition(" over ")[0] for chart in charts_of(view)] == [
        "Time to train",
        "Throughput",
        "Samples to converge",
    ]
    # The very same logs on both sides are one measurement, not two.
    assert sweep.rows[1].comparison is not None
    assert sweep.rows[1].comparison.refusal is not None


def test_a_page_of_a_throughput_sweep_alone_has_its_table_and_charts(by_threads: Path, tmp_path: Path) -> None:
    page = write_report([by_threads], tmp_path / "page.html").read_text(encoding="utf-8")
    assert page.count("<h1>") == 1
    assert "Sweep: throughput over runtime.threads" in page
    assert "2.00× faster" in page
    assert page.count('class="chart"') == 6  # two charts over the axes, one of every process; wide and narrow
    for part in ("Every process", "Noise and environment", "Systems and configurations", "Reproduce and verify"):
        assert f">{part}</h2>" in page


def test_sweeps_are_found_below_a_folder(by_threads: Path) -> None:
    assert take_inventory(by_threads).sweeps == take_inventory(by_threads.parent).sweeps == (by_threads,)


@pytest.mark.parametrize("folder", ["../outside", "/etc", "..", "a/b", "", None, "absent", "\0", "link"])
def test_a_folder_outside_the_sweep_is_not_read(folder: object, tmp_path: Path) -> None:
    throughput_set(tmp_path, "outside", 10)
    entry = {**record("k=1", {"data.k": "1"}, None), "folder": folder}
    root = write_sweep(tmp_path / "s", {"data.k": ["1"]}, [entry])
    (root / "link").symlink_to(tmp_path / "outside")
    sweep = read_sweep_facts(root)
    assert sweep.rows[0].num_runs == 0
    assert against_first(sweep.rows[0]) == "not measured"


def test_hostile_names_are_text(tmp_path: Path) -> None:
    folder = throughput_set(tmp_path / "s", "a", 10)
    rows = [record(HOSTILE, {HOSTILE: HOSTILE}, folder, HOSTILE)]
    root = write_sweep(tmp_path / "s", {HOSTILE: [HOSTILE]}, rows, name=HOSTILE)
    page = write_report([root], tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<img" not in page
    assert "\u202e" not in page
    assert "\x1b" not in page


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{",
        "null",
        '{"axes": 3, "configurations": 4}',
        '{"axes": [], "configurations": [{}]}',
        '{"axes": [{}], "configurations": []}',
    ],
)
def test_what_is_no_sweep_is_one_clear_error(content: str, tmp_path: Path) -> None:
    (tmp_path / "experiment.json").write_text(content)
    with pytest.raises(InputError, match=r"experiment\.json"):
        read_sweep_facts(tmp_path)


def test_a_pair_is_no_sweep(tmp_path: Path) -> None:
    write_group(tmp_path, pair_content())
    assert take_inventory(tmp_path).sweeps == ()
    with pytest.raises(InputError, match=r"experiment\.json: .*varies nothing"):
        read_sweep_facts(tmp_path)


def test_a_matrix_that_varies_nothing_is_no_sweep(by_threads: Path) -> None:
    write_group(by_threads, sweep_content(axes=[], configurations=[POINT]))
    with pytest.raises(InputError, match=r"experiment\.json: .*varies nothing"):
        read_sweep_facts(by_threads)


@pytest.mark.slow
@pytest.mark.parametrize("value", [0, -1, "fast", [], {}, True, 1e400])
@pytest.mark.parametrize("key", ["num_samples", "duration_s", "peak_rss_bytes", "energy"])
def test_a_measurement_with_a_value_that_cannot_be_is_not_used(key: str, value: object, tmp_path: Path) -> None:
    root = tmp_path / "s"
    folder = throughput_set(root, "a", 10, energy_j=1.0)
    path = root / "a" / "extra" / "throughput.json"
    content = json.loads(path.read_text())
    content["processes"][1][key] = value
    path.write_text(json.dumps(content))
    sweep = read_sweep_facts(write_sweep(root, {"data.k": ["1"]}, [record("k=1", {"data.k": "1"}, folder)]))
    assert sweep.rows[0].result is None
    (problem,) = sweep.problems
    assert f"throughput.json: processes[1].{key}" in problem
    assert write_report([root], tmp_path / "page.html").stat().st_size > 0

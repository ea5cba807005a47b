"""Ranks on the page: what they exchanged, and results over their number and over the speed of their link."""

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from drawing import Drawing, number
from log_builder import make_runs
from records_builder import process_content, throughput_content
from report_builder import write_attempt, write_report, write_run_set

from reports.document.blocks import Chart, Fold, Multiples, Table
from reports.document.page import PageSection
from reports.facts.traffic import KINDS
from reports.page.sections.measured import measured_section
from reports.page.sections.scaling import scaling_section
from reports.page.sections.traffic import exchange_section
from reports.page.sections.verdict import verdict_table
from reports.results.logs import gather
from reports.results.measured import read_measured
from reports.results.result import Result
from rules.benchmarks.loader import load_benchmark

TINY = load_benchmark("dlrm_tiny")
TRAFFIC = {
    "num_ranks": 2,
    "bytes_per_step": dict(zip(KINDS, (100, 2000, 2000, 300, 0), strict=True)),
    "bytes_per_evaluation": dict(zip(KINDS, (50, 700, 0, 0, 90), strict=True)),
    "sent_bytes_per_step_by_rank": [2100, 2300],
    "formulas": {"dense_reduce": ["allreduce_: 2 (N - 1) / N x tensor bytes (ring)"]},
    "step_s": 0.010,
    "all_to_all_s": 0.004,
    "all_reduce_s": 0.001,
    "compute_s": 0.005,
    "link_bytes_per_s": 1.25e8,
    "placement": [
        {
            "table": 0,
            "sharding": "row_wise",
            "kernel": "fused",
            "shards": [
                {"rank": rank, "first_row": 25 * rank, "num_rows": 25, "first_column": 0, "num_columns": 16}
                for rank in (0, 1)
            ],
        }
    ],
}


def write_world(
    folder: Path,
    name: str,
    num_ranks: int,
    *,
    rate: float,
    batch: int = 512,
    link: float = 1.25e8,
    threads: int | None = None,
    **runtime: str,
) -> Path:
    """A set of so many ranks; `rate` in samples per second."""
    values = {"ranks": num_ranks, "sharding": "row_wise", "comm": "fp32", "grad_comm": "dense", **runtime}
    if threads is None:
        values["device"] = "cuda"  # whose threads are not what computes
    config = {f"runtime.{key}": {"value": value, "source": "option"} for key, value in values.items()}
    runs = make_runs(TINY, throughput=rate, global_batch_size=batch)
    root = write_run_set(
        folder / name, runs=runs, interrupted=False, changes={"config": config, "num_threads": threads or 1}
    )
    ranks = [
        {"rank": rank, "host": f"host-{rank}", "peak_rss_bytes": 2**30 * (rank + 1), "peak_device_bytes": None}
        for rank in range(num_ranks)
    ]
    several = {"ranks": ranks, "exchange": {**TRAFFIC, "link_bytes_per_s": link}} if num_ranks > 1 else {}
    for index in range(len(runs)):
        write_attempt(root, index, 0, **several)
    return root


def gathered(folder: Path) -> tuple[Result, ...]:
    return gather([folder], second_opinion=False)


def blocks_of(section: PageSection | None, kind: type) -> list[Any]:
    assert section is not None
    inner = [block for fold in section.blocks if isinstance(fold, Fold) for block in fold.blocks]
    return [block for block in (*section.blocks, *inner) if isinstance(block, kind)]


def column(table: Table, name: str) -> list[str]:
    place = [one.name for one in table.columns].index(name)
    return [row[place].text for row in table.rows]


def circles(text: str) -> list[tuple[float, float]]:
    drawing = Drawing(text)
    found = drawing.root.iter("circle")
    return [
        (drawing.value("x", float(one.get("cx", ""))), drawing.value("y", float(one.get("cy", "")))) for one in found
    ]


def test_results_over_ranks_are_at_the_values_of_their_table(tmp_path: Path) -> None:
    for num_ranks, rate in ((1, 1000.0), (2, 1900.0), (4, 3000.0)):
        write_world(tmp_path, f"w{num_ranks}", num_ranks, rate=rate)
    section = scaling_section(gathered(tmp_path), "g")
    (table,) = blocks_of(section, Table)
    assert column(table, "Ranks") == ["1", "2", "4"]
    rates = [number(text) for text in column(table, "Samples/s")]
    shares = [rate / ranks / rates[0] for rate, ranks in zip(rates, (1, 2, 4), strict=True)]
    listed = [number(text.removesuffix(" %")) / 100 for text in column(table, "Efficiency")]
    assert listed == pytest.approx(shares, abs=1e-3)
    assert listed[1:] == pytest.approx([0.95, 0.75], abs=0.02)
    (multiples,) = blocks_of(section, Multiples)
    assert len(multiples.drawings) == 4
    for drawing, name in zip(
        multiples.drawings, ("Samples/s", "Efficiency", "Time to train", "Samples to converge"), strict=True
    ):
        values = [number(text.removesuffix(" %")) for text in column(table, name)]
        values = [value / 100 for value in values] if name == "Efficiency" else values
        read = circles(drawing)
        assert [x for x, _ in read] == pytest.approx([1, 2, 4], rel=0.01)
        assert [y for _, y in read] == pytest.approx(values, rel=0.01)
        ElementTree.fromstring(drawing)


def test_several_lines_are_named(tmp_path: Path) -> None:
    write_world(tmp_path, "a", 1, rate=1000.0)
    write_world(tmp_path, "b", 2, rate=1900.0)
    write_world(tmp_path, "c", 2, rate=2000.0, comm="fp16", grad_comm="topk:0.01")
    section = scaling_section(gathered(tmp_path), "g")
    (multiples,) = blocks_of(section, Multiples)
    legend = ElementTree.fromstring(multiples.drawings[-1])
    listed = [one.text for one in legend.iter("text")]
    assert listed[:2] == ["Lines", "fp32 / dense, row_wise, 512 per step"]
    assert "fp16 / topk:0.01, row_wise, 512 per step" in {one.text for one in legend.iter("title")}


def test_only_what_differs_in_ranks_alone_makes_a_line(tmp_path: Path) -> None:
    write_world(tmp_path, "a", 2, rate=1000.0, implementation="torchrec")
    write_world(tmp_path, "b", 4, rate=1900.0, implementation="other")
    write_world(tmp_path, "c", 4, rate=1900.0, implementation="torchrec", comm="fp16")
    assert scaling_section(gathered(tmp_path), "g") is None


def test_a_batch_that_grows_with_the_ranks_is_a_line_of_its_own(tmp_path: Path) -> None:
    write_world(tmp_path, "a", 1, rate=1000.0, batch=256)
    write_world(tmp_path, "b", 2, rate=1900.0, batch=512)
    (table,) = blocks_of(scaling_section(gathered(tmp_path), "g"), Table)
    assert column(table, "Global batch") == ["256", "512"]
    assert {row[0].sub for row in table.rows} == {"fp32 / dense, row_wise, 256 per rank"}


def test_traffic_is_shown_with_its_formulas_times_and_ranks(tmp_path: Path) -> None:
    write_world(tmp_path, "two", 2, rate=1000.0)
    sets = gathered(tmp_path)
    steps, kinds, ranks, tables = blocks_of(exchange_section(sets, "g"), Table)
    assert [cell.text for cell in tables.rows[0]] == ["table 0", "row_wise", "fused", "2 of 25 × 16", "0, 1"]
    assert (column(steps, "Bytes"), column(steps, "Most by one rank")) == (["4,400"], ["2,300"])
    assert [column(steps, name) for name in ("Step", "Computing", "All-to-all", "All-reduce")] == [
        ["10.0"],
        ["5.0"],
        ["4.0"],
        ["1.0"],
    ]
    assert column(steps, "Link") == ["125 MB/s"]
    assert column(kinds, "Per step") == ["100", "2,000", "2,000", "300", "0"]
    assert column(kinds, "Formula")[3] == TRAFFIC["formulas"]["dense_reduce"][0]  # type: ignore[index]
    assert (column(ranks, "Host"), column(ranks, "Peak memory")) == (["host-0", "host-1"], ["1.00", "2.00"])
    assert "2 ranks × 256 samples, sharding row_wise, comm fp32" in verdict_table(sets, "t").rows[0][0].sub


def test_the_configuration_says_by_what_it_was_run(tmp_path: Path) -> None:
    write_world(tmp_path, "a", 1, rate=1000.0, threads=2, implementation="optimized")
    write_world(tmp_path, "b", 2, rate=1900.0, threads=1, implementation="torchrec")
    write_world(tmp_path, "c", 1, rate=1900.0)
    one, several, on_device = (row[0].sub for row in verdict_table(gathered(tmp_path), "t").rows)
    assert one == "8 × as built; optimized, 2 threads"
    scheme = "sharding row_wise, comm fp32, grad-comm dense"
    assert several == f"8 × as built; torchrec, 2 ranks × 256 samples, {scheme}, 1 thread per rank"
    assert on_device == "8 × as built"


def test_throughput_of_several_ranks_shows_its_traffic(tmp_path: Path) -> None:
    process = process_content(num_samples=5120, exchange={**TRAFFIC, "bytes_per_evaluation": None})
    (tmp_path / "set" / "extra").mkdir(parents=True)
    (tmp_path / "set" / "extra" / "throughput.json").write_text(json.dumps(throughput_content([process] * 5)))
    section = measured_section([read_measured(tmp_path / "set", "throughput")])
    step, kinds, tables = blocks_of(section, Table)[1:]
    assert step.caption == "One training step, mean over 5 processes"
    assert (column(step, "Bytes"), column(step, "Computing")) == (["4,400"], ["5.0"])
    assert column(kinds, "Per step")[:2] == ["100", "2,000"]
    assert set(column(kinds, "Per evaluation")) == {"—"}
    assert (column(tables, "Sharding"), column(tables, "Kernel")) == (["row_wise"], ["fused"])


def test_traffic_without_a_placement_is_shown_without_its_table(tmp_path: Path) -> None:
    process = process_content(num_samples=5120, exchange={**TRAFFIC, "placement": []})
    (tmp_path / "set" / "extra").mkdir(parents=True)
    (tmp_path / "set" / "extra" / "throughput.json").write_text(json.dumps(throughput_content([process])))
    section = measured_section([read_measured(tmp_path / "set", "throughput")])
    step, kinds = blocks_of(section, Table)[1:]
    assert (column(step, "Bytes"), column(kinds, "Per step")[0]) == (["4,400"], "100")


def test_parts_that_exceed_the_step_are_not_called_measured(tmp_path: Path) -> None:
    root = write_world(tmp_path, "two", 2, rate=1000.0)
    for index in range(len(make_runs(TINY))):
        ranks = [
            {"rank": rank, "host": "here", "peak_rss_bytes": 2**30, "peak_device_bytes": None} for rank in (0, 1)
        ]
        write_attempt(root, index, 0, ranks=ranks, exchange={**TRAFFIC, "all_to_all_s": 0.02, "compute_s": 0.0})
    (steps, *_) = blocks_of(exchange_section(gathered(tmp_path), "g"), Table)
    assert column(steps, "Computing") == ["not separable"]
    assert [(cell.text, cell.sub) for cell in steps.rows[0][-3:-1]] == [("20.0", ""), ("1.0", "")]


def test_a_line_holds_the_threads_of_each_rank_or_of_all(tmp_path: Path) -> None:
    """One rank of 2 threads beside ranks of 1 thread: the first shares its 2 threads with one of them only."""
    write_world(tmp_path, "a", 1, rate=1500.0, threads=2)
    write_world(tmp_path, "b", 1, rate=1000.0, threads=1)
    write_world(tmp_path, "c", 2, rate=1800.0, threads=1)
    (table,) = blocks_of(scaling_section(gathered(tmp_path), "g"), Table)
    assert [(row[0].text, (row[0].sub or "").rpartition(", ")[2]) for row in table.rows] == [
        ("b", "1 thread per rank"),
        ("c", "1 thread per rank"),
        ("a", "2 threads in all"),
        ("c", "2 threads in all"),
    ]
    listed = [number(text.removesuffix(" %")) / 100 for text in column(table, "Efficiency")]
    assert listed == pytest.approx([1, 0.9, 1, 1.2], abs=0.02)


def test_one_rank_and_logs_alone_have_neither_part(tmp_path: Path) -> None:
    write_world(tmp_path, "one", 1, rate=1000.0)
    write_run_set(tmp_path / "old")
    sets = gathered(tmp_path)
    assert exchange_section(sets, "g") is None
    assert scaling_section(sets, "g") is None


def test_schemes_over_the_bandwidth_are_at_their_times_and_say_what_they_gain(tmp_path: Path) -> None:
    write_world(tmp_path, "a-dense", 2, rate=1000.0, link=1.2e7)
    write_world(tmp_path, "b-half", 2, rate=1500.0, link=1.3e7, comm="fp16")
    write_world(tmp_path, "c-half", 2, rate=1600.0, link=1.2e9, comm="fp16")
    sets = gathered(tmp_path)
    section = scaling_section(sets, "g")
    (chart,) = blocks_of(section, Chart)
    assert chart.table is not None and len(chart.figure.keys) == 2
    times = [number(text) for text in column(chart.table, "Time to train")]
    for drawing in (chart.figure.wide, chart.figure.narrow):
        assert circles(drawing) == [
            (pytest.approx(x, rel=0.02), pytest.approx(y, rel=0.01))
            for x, y in zip((1.2e7, 1.3e7, 1.2e9), times, strict=True)
        ]
    assert column(chart.table, "Time ratio")[0] == "1.000×"
    assert number(column(chart.table, "Time ratio")[1].removesuffix("×")) == pytest.approx(
        times[1] / times[0], abs=0.01
    )
    page = write_report([tmp_path], tmp_path / "report.html").read_text()
    assert "Time to train by exchange over link speed" in page
    assert "Exchange between ranks" in page
    listed = [column(chart.table, name)[1] for name in ("Time ratio", "Samples ratio")]
    assert f"comm fp16, grad-comm dense: 1.000× the bytes, {listed[0]} the time, {listed[1]} the samples" in page


def test_hostile_records_leave_a_page(tmp_path: Path) -> None:
    root = write_world(tmp_path, "two", 2, rate=1000.0)
    bad = "</script><script>alert(1)</script>\u202e"
    write_attempt(
        root,
        0,
        0,
        ranks=[{"rank": rank, "host": bad, "peak_rss_bytes": 1, "peak_device_bytes": None} for rank in (0, 2**40)],
        exchange={**TRAFFIC, "formulas": {"dense_reduce": [bad], bad: [bad]}, "step_s": 1e300},
    )
    page = write_report([tmp_path], tmp_path / "report.html").read_text()
    assert "<script>alert" not in page
    assert json.dumps(bad) not in page

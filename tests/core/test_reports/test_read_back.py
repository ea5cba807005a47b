"""Charts are right: values read back from where the marks stand equal those of the tables and of the logs.

Every drawing carries its scales (`data-x`, `data-y`), so a position in px gives a value again, to half a tenth of a
pixel. The data sets are the odd ones: ties, one run, no run that converged, interruptions, evaluations without a
place, times of a millisecond and of a year.
"""

import math
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from drawing import NUMBER, Drawing, number, path_points
from log_builder import make_records, make_runs, with_record, without
from report_builder import write_run_set

from reports.charts.factors import FactorBar, FactorPanel, factors_figure
from reports.charts.reference import ReferenceLevel, ResultMark, reference_figure
from reports.charts.runs import Quantity, Strip, StripDot, strips_figure
from reports.comparison.comparison import compare_results, context_of
from reports.document.blocks import Chart, Table
from reports.page.figures.times import column_unit, runs_chart, time_chart
from reports.page.sections.comparison import comparison_section, why_section
from reports.page.sections.convergence import convergence_chart
from reports.page.sections.runs import runs_table
from reports.results.logs import gather
from reports.results.result import Result
from reports.text.formatting import MISSING, SECONDS, ratio
from rules.benchmarks.loader import load_benchmark

TINY = load_benchmark("dlrm_tiny")


def gathered(tmp_path: Path, *sets: Sequence[list[dict[str, object]]]) -> tuple[Result, ...]:
    for index, runs in enumerate(sets):
        write_run_set(tmp_path / f"set-{index}", runs=runs)
    return gather([tmp_path], second_opinion=False)


def ties() -> list[list[dict[str, object]]]:
    return [make_records(TINY, num_evals=12, seed=seed) for seed in range(5)]


def slow(seconds_per_sample: float) -> list[list[dict[str, object]]]:
    return make_runs(TINY, throughput=1 / seconds_per_sample)


DATA = {
    "usual": make_runs(TINY),
    "ties": ties(),
    "single run": ties()[:1],
    "none converged": make_runs(TINY, converged=False),
    "one failed": [*make_runs(TINY)[:4], make_records(TINY, converged=False, num_evals=20, seed=9)],
    "no evaluations": [without(records, "eval_accuracy") for records in ties()],
    "evaluations without a place": [
        with_record(records, "eval_accuracy", metadata={"epoch_num": None, "samples_count": None})
        for records in ties()
    ],
    "tiny times": make_runs(TINY, throughput=3e9),
    "huge times": slow(100.0),
}


def drawings(chart: Chart | None) -> list[Drawing]:
    return [] if chart is None else [Drawing(chart.figure.wide), Drawing(chart.figure.narrow)]


@pytest.mark.parametrize("name", DATA)
def test_dots_of_one_set_are_at_the_times_of_its_table(tmp_path: Path, name: str) -> None:
    (one,) = gathered(tmp_path, DATA[name])
    chart = runs_chart([one], "c")
    assert chart is not None and chart.table is not None
    listed = [number(row[1].text) for row in chart.table.rows if row[1].text != MISSING]
    unit = column_unit([one])
    assert listed == pytest.approx(
        [round((run.time_s or 0) / unit.seconds, unit.digits) for run in one.runs if run.time_s is not None]
    )
    for drawing in drawings(chart):
        circles = list(drawing.root.iter("circle"))
        read = sorted(drawing.value("x", float(circle.get("cx", ""))) for circle in circles)
        assert len(read) == len(listed)
        for shown, expected in zip(read, sorted(listed), strict=True):
            assert shown == pytest.approx(expected, abs=drawing.step("x", expected) + 10**-unit.digits)
        assert len(drawing.of("dot-failed")) == len(one.runs) - len(listed)


def test_dots_and_means_of_several_sets_are_at_their_times_on_a_logarithmic_axis_too(tmp_path: Path) -> None:
    sets = gathered(tmp_path, DATA["usual"], make_runs(TINY, throughput=500.0))
    drawn = drawings(runs_chart(sets, "c"))
    assert drawn[0].root.get("data-x", "").endswith(" log")
    unit = column_unit(sets)
    times = sorted(run.time_s / unit.seconds for one in sets for run in one.runs if run.time_s)
    for drawing in drawn:
        read = sorted(drawing.value("x", x) for x, _ in drawing.spots("spots"))
        assert len(read) == len(times) == 10
        assert all(abs(a - b) <= drawing.step("x", b) for a, b in zip(read, times, strict=True))
        means = [drawing.value("x", float(line.get("x1", ""))) for line in drawing.of("mean")]
        for shown, one in zip(means, sets, strict=True):
            assert one.score.olympic_mean_s is not None
            mean = one.score.olympic_mean_s / unit.seconds
            assert abs(shown - mean) <= drawing.step("x", mean)


@pytest.mark.parametrize("name", ["usual", "ties", "single run", "one failed", "none converged", "huge times"])
def test_curves_pass_through_the_qualities_of_the_table(tmp_path: Path, name: str) -> None:
    (one,) = gathered(tmp_path, DATA[name])
    chart = convergence_chart([one], "c")
    assert chart is not None and chart.table is not None
    by_view = dict(chart.views)
    assert [*by_view][::2] == ["Epochs", "Samples"]
    unit = column_unit([one])
    for view, place in (
        ("Epochs", lambda e: e.epoch_num),
        (f"Time, {unit.name}", lambda e: e.elapsed_s / unit.seconds),
    ):
        drawing = Drawing(by_view[view].wide)
        curves = drawing.of("curve")
        assert len(curves) == len(chart.table.rows) == len(one.runs)
        for curve, run, row in zip(curves, one.runs, chart.table.rows, strict=True):
            points = path_points(curve.get("d", ""))
            evaluations = run.log.evaluations[-len(points) :]
            shown = [cell.text for cell in row[1:] if cell.text != MISSING][-len(points) :]
            for (x, y), evaluation, text in zip(points, evaluations, shown, strict=True):
                assert drawing.value("x", x) == pytest.approx(place(evaluation), abs=drawing.step("x", 0))
                assert drawing.value("y", y) == pytest.approx(number(text), abs=drawing.step("y", 0) + 1e-5)


@pytest.mark.parametrize("name", ["no evaluations", "evaluations without a place"])
def test_without_evaluations_there_is_no_curve_and_no_crash(tmp_path: Path, name: str) -> None:
    (one,) = gathered(tmp_path, DATA[name])
    chart = convergence_chart([one], "c")
    assert chart is None or all(len(drawing.of("curve")) <= len(one.runs) for drawing in drawings(chart))


def test_parts_of_the_time_are_as_long_as_the_table_says(tmp_path: Path) -> None:
    (one,) = gathered(tmp_path, DATA["usual"])
    chart = time_chart([one], "c")
    assert chart is not None and chart.table is not None
    for drawing in drawings(chart):
        for column, part in ((2, "train"), (3, "eval")):
            (path,) = drawing.of(f"part-{part}")
            widths = [float(width) for width in re.findall(rf"h({NUMBER})v", path.get("d", ""))]
            for width, row in zip(widths, chart.table.rows, strict=True):
                # A pixel of background is between parts.
                shown = drawing.value("x", width + 1) - drawing.value("x", 0)
                assert shown == pytest.approx(number(row[column].text), abs=2 * drawing.step("x", 0) + 0.01)


def test_bars_of_factors_add_up_to_the_bar_of_the_whole_and_are_the_tables(tmp_path: Path) -> None:
    base, new = gathered(tmp_path, make_runs(TINY), make_runs(TINY, throughput=15_000.0, num_evals=15))
    (comparison,) = compare_results(base, [new], context=context_of([base, new]))
    why, table_section = (make(base, (comparison,), "g") for make in (why_section, comparison_section))
    (chart,) = [block for block in why.blocks if isinstance(block, Chart)]
    (table,) = [block for block in table_section.blocks if isinstance(block, Table)]
    # The page's intervals are the terminal's: those that decide.
    shown = [factor.adjusted_interval for factor in comparison.factors]
    assert all(shown) and [row[2].sub for row in table.rows] == [
        f"{ratio(one.low)} – {ratio(one.high)}" for one in shown if one
    ]
    ratios = [number(row[2].text.removesuffix("×")) for row in table.rows]
    # More throughput is less time: its bar shows the inverse of its ratio.
    effects = [1 / one if "Throughput" in row[0].text else one for one, row in zip(ratios, table.rows, strict=True)]
    for drawing in drawings(chart):
        zero = float(drawing.of("zero")[0].get("x1", ""))
        found = {}
        for kind in ("slower", "faster", "undecided"):
            for path in drawing.of(kind):
                left, middle, width = map(
                    float,
                    re.match(rf"M({NUMBER}) ({NUMBER})h({NUMBER})", path.get("d", "")).groups(),  # type: ignore[union-attr]
                )
                end = left if abs(left + width - zero) < 0.06 else left + width
                found[middle] = drawing.value("x", end)
        ends = []
        for whisker in drawing.of("whisker"):
            left, _, right = map(
                float, re.match(rf"M({NUMBER}) ({NUMBER})H({NUMBER})", whisker.get("d", "")).groups()
            )  # type: ignore[union-attr]
            ends += [2 ** drawing.value("x", left), 2 ** drawing.value("x", right)]
        listed = [one.time_interval for one in comparison.factors]
        assert ends == pytest.approx([end for one in listed if one for end in (one.low, one.high)], rel=0.01)
        logs = [found[top] for top in sorted(found)]
        for shown, effect in zip(logs, effects, strict=True):
            # The least width that can be seen is a pixel.
            assert shown == pytest.approx(math.log2(effect), abs=drawing.step("x", 0) * 11 + 0.001)
        assert logs[0] == pytest.approx(sum(logs[1:]), abs=drawing.step("x", 0) * 33)


def test_reference_points_and_the_result_are_where_they_belong() -> None:
    points = [ReferenceLevel(batch_size=2**k, mean=0.6 + k / 100, deviation=0.02, least=0.55) for k in (9, 11)]
    result = ResultMark(name="mine", hue=0, batch_size=1024, mean_epochs=0.71, is_passed=True)
    figure = reference_figure(points, [result], id_="c", title="t", description="d")
    for text in (figure.wide, figure.narrow):
        drawing = Drawing(text)
        (mark,) = drawing.of("end")
        assert drawing.value("x", float(mark.get("cx", ""))) == pytest.approx(1024, rel=2e-3)
        assert drawing.value("y", float(mark.get("cy", ""))) == pytest.approx(0.71, abs=drawing.step("y", 0))
        means = [drawing.value("y", float(dot.get("cy", ""))) for dot in drawing.of("reference-dot")]
        assert means == pytest.approx([0.69, 0.71], abs=drawing.step("y", 0))
        limit = path_points(drawing.of("limit")[0].get("d", ""))
        assert [drawing.value("y", y) for _, y in limit] == pytest.approx([0.55, 0.55], abs=drawing.step("y", 0))


def test_results_that_converge_alike_are_all_seen() -> None:
    points = [ReferenceLevel(batch_size=2**k, mean=0.6, deviation=0.02, least=0.55) for k in (9, 11)]
    for num, is_numbered in ((3, True), (40, False)):
        results = [
            ResultMark(name=f"set {n}", hue=0, batch_size=512, mean_epochs=0.7, is_passed=True) for n in range(num)
        ]
        figure = reference_figure(points, results, id_="c", title="t", description="d")
        for text in (figure.wide, figure.narrow):
            drawing = Drawing(text)
            marks = drawing.of("end")
            assert len({mark.get("cx") for mark in marks}) == num
            heights = [drawing.value("y", float(mark.get("cy", ""))) for mark in marks]
            assert heights == pytest.approx([0.7] * num, abs=drawing.step("y", 0))
            assert [mark.text for mark in drawing.of("in-counted")] == (["1", "2", "3"] if is_numbered else [])
        assert sum("set 1, 0.700" in key.words for key in figure.keys) == int(is_numbered)


def test_scores_and_their_intervals_are_where_they_belong() -> None:
    score = StripDot(label="", value=134.5 / 60)
    strips = [
        Strip(name="a", hue=0, dots=(score,), mean=131.3 / 60, low=126.6 / 60, high=139.2 / 60),
        Strip(name="b", hue=1, dots=(), mean=93.2 / 60, low=None, high=None),
    ]
    figure = strips_figure(strips, Quantity(name="minutes"), {}, id_="c", title="t", description="d")
    for text in (figure.wide, figure.narrow):
        drawing = Drawing(text)
        step = drawing.step("x", 2)
        means = [drawing.value("x", float(line.get("x1", ""))) for line in drawing.of("mean")]
        assert means == pytest.approx([131.3 / 60, 93.2 / 60], abs=step)
        ((at, _),) = drawing.spots("spots")
        assert drawing.value("x", at) == pytest.approx(134.5 / 60, abs=step)
        (band,) = drawing.of("band")
        left = float(band.get("x", ""))
        ends = [drawing.value("x", left), drawing.value("x", left + float(band.get("width", "")))]
        assert ends == pytest.approx([126.6 / 60, 139.2 / 60], abs=2 * step)


@pytest.mark.parametrize("ratio", [1.0, 1e-6, 1e6, None])
def test_any_ratio_is_drawn_inside_the_picture(ratio: float | None) -> None:
    bars = tuple(
        FactorBar(name=name, time_ratio=ratio, low=low, high=high, verdict="inconclusive", is_whole=name == "a")
        for name, low, high in (("a", 0.0, math.inf), ("b", None, None))
    )
    figure = factors_figure([FactorPanel(label="x" * 300, bars=bars)], id_="c", title="t", description="d")
    for text, width in ((figure.wide, 960), (figure.narrow, 380)):
        # The line at 1x starts anew below a name that reaches it.
        assert [line.get("y1") for line in Drawing(text).of("zero")] == ["16", "45"]
        for path in Drawing(text).of("undecided"):
            left, extent = re.match(rf"M({NUMBER}) {NUMBER}h({NUMBER})", path.get("d", "")).groups()  # type: ignore[union-attr]
            assert 0 <= float(left) <= float(left) + float(extent) <= width


def test_interrupted_attempts_are_rows_and_not_dots(tmp_path: Path) -> None:
    (one,) = gathered(tmp_path, DATA["usual"])
    assert len(one.unfinished) == 1
    table = runs_table([one], "t")
    assert len(table.rows) == len(one.runs) + 1
    assert "interrupted" in table.rows[-1][1].text and table.rows[-1][2].text == MISSING
    chart = runs_chart([one], "c")
    assert chart is not None
    assert len(list(Drawing(chart.figure.wide).root.iter("circle"))) == len(one.runs)
    assert SECONDS.number(None) == MISSING

"""The page of a usage: a bar for each request that was worked on, a cross for each that was dropped."""

import re

import pytest

from harness.foundation.study import make_study, make_table
from reports.page.studies.study import study_sections
from reports.parts.study import study_blocks
from reports.render.terminal import render_terminal
from rules.records.study import TIMELINE, Cell, StudyRecord

NAMES = ("Model", "Request", "Released", "Deadline", "Worker", "Begun", "Done")


def study_of(*rows: tuple[Cell, ...]) -> StudyRecord:
    table = make_table(TIMELINE, [(name, None, "simulated") for name in NAMES], rows)
    return make_study("usage", "a test", None, tables=[table], parameters=(), findings=())


def drawn(*rows: tuple[Cell, ...]) -> tuple[int, int, int]:
    """Bars of requests in time, bars of late ones, and crosses, of the wide drawing."""
    (section,) = study_sections(study_of(*rows), "s")
    wide = str(next(block for block in section.blocks if type(block).__name__ == "Chart").figure.wide)  # type: ignore[union-attr]
    bars = [
        sum(path.count("z") for path in re.findall(rf'<path d="([^"]*)" class="{mark}"', wide))
        for mark in ("part-train", "part-eval")
    ]
    return bars[0], bars[1], wide.count("dot-failed")


def test_requests_of_the_first_worker_and_of_the_first_moment_are_bars() -> None:
    rows = [("a", 0, 0.0, 0.1, 0, 0.0, 0.05), ("a", 1, 0.1, 0.2, 1, 0.1, 0.25), ("b", 0, 0.0, 0.1, 0, 0.05, 0.06)]
    assert drawn(*rows) == (2, 1, 0)


def test_what_was_dropped_is_a_cross() -> None:
    assert drawn(("a", 0, 0.0, 0.1, 0, 0.0, 0.05), ("a", 1, 0.1, 0.2, None, None, None)) == (1, 0, 1)


@pytest.mark.parametrize("odd", (1e308, -1e308, -5, "<b>", True, (1, 2), None))
def test_odd_values_of_strangers_break_no_page(odd: Cell) -> None:
    for place in range(len(NAMES)):
        row = ["a", 0, 0.0, 0.1, 0, 0.0, 0.05]
        row[place] = odd  # type: ignore[call-overload]
        drawn(tuple(row), ("b", 0, 0.0, 0.1, 0, 0.0, 0.05))


def curve_of(*rows: tuple[Cell, ...]) -> StudyRecord:
    names = ("Retrieval", "Graph", "Subgraphs", "Precision", "Speed-up over one stage", "Less memory")
    table = make_table("Retrieval", [(name, None, "measured") for name in names], rows)
    return make_study("usage", "a test", None, tables=[table], parameters=(), findings=())


def charts_of(study: StudyRecord) -> list[str]:
    (section,) = study_sections(study, "s")
    return [str(block.figure.wide) for block in section.blocks if type(block).__name__ == "Chart"]  # type: ignore[union-attr]


def test_a_retrieval_is_three_curves_over_the_number_of_subgraphs() -> None:
    rows = [("find", "<b>", str(number), 0.1 * number, 5.0 / number, 20.0 / number) for number in (1, 2, 5)]
    (chart,) = charts_of(curve_of(*rows, ("find", "<b>", "all", 1.0, 0.1, 2.0), *(("get", *row[1:]) for row in rows)))
    assert chart.count('class="curve"') == 6 and chart.count('class="dot-counted"') == 18 and "<b>" not in chart
    assert charts_of(curve_of(rows[0], ("find", "<b>", "all", 1.0, 0.1, 2.0))) == [], "one number is no curve"


@pytest.mark.parametrize("odd", (1e308, -1e308, -5, "<b>", "9" * 99, "\u0663", True, (1, 2), None, float("inf")))
def test_odd_numbers_of_strangers_break_no_curve(odd: Cell) -> None:
    good = [("find", "a", number, 0.5, 2.0, 3.0) for number in ("1", "2", "3")]
    for place in range(6):
        row = [*good[0]]
        row[place] = odd  # type: ignore[call-overload]
        assert len(charts_of(curve_of(tuple(row), *good[1:]))) == 1


def test_the_timeline_is_drawn_and_not_printed() -> None:
    assert TIMELINE not in render_terminal(study_blocks(study_of(("a", 0, 0.0, 0.1, 0, 0.0, 0.05))))

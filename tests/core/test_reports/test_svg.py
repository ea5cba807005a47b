"""The SVG writer: what it writes is well formed, round, and says what it was given."""

import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reports.charts import svg

HOSTILE = "</text><script>alert(1)</script>\"'&"


def test_children_and_attributes_are_escaped() -> None:
    element = ElementTree.fromstring(svg.tag("text", HOSTILE, class_=HOSTILE, text_anchor="end", x=1.04, y=None))
    assert element.text == HOSTILE
    assert element.attrib == {"class": HOSTILE, "text-anchor": "end", "x": "1"}


def test_markup_children_are_kept() -> None:
    assert svg.group(svg.circle(1, 2, 3, "dot"), hint="a < b") == (
        '<g><title>a &lt; b</title><circle cx="1" cy="2" r="3" class="dot"/></g>'
    )


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6), st.integers(1, 12))
def test_ticks_are_few_inside_and_evenly_spaced(low: float, extent: float, most: int) -> None:
    high = low + extent
    ticks = svg.nice_ticks(low, high, most)
    assert 1 <= len(ticks) <= most
    assert all(low - 1e-6 * extent <= tick <= high + 1e-6 * extent for tick in ticks)
    steps = {round(b - a, 9) for a, b in pairwise(ticks)}
    assert len({f"{step:.6g}" for step in steps}) <= 1


@pytest.mark.parametrize(
    ("low", "high", "most", "expected"),
    [
        (0.0, 1.0, 6, (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)),
        (0.70, 0.71, 5, (0.7, 0.7025, 0.705, 0.7075, 0.71)),
        (3.0, 3.0, 5, (3.0,)),
        (0.0, 95.0, 4, (0.0, 25.0, 50.0, 75.0)),
    ],
)
def test_ticks_are_round(low: float, high: float, most: int, expected: tuple[float, ...]) -> None:
    assert svg.nice_ticks(low, high, most) == pytest.approx(expected)


def test_tick_labels_have_the_digits_they_need() -> None:
    assert svg.tick_texts((0.7, 0.7025, 0.705)) == ("0.7000", "0.7025", "0.7050")
    assert svg.tick_texts((0.0, 25000.0)) == ("0", "25,000")
    assert svg.tick_texts((-1.0, 0.0)) == ("−1", "0")


@given(st.lists(st.floats(0, 300), max_size=30), st.floats(1, 30))
def test_swarmed_marks_do_not_overlap(positions: list[float], spacing: float) -> None:
    rows = svg.swarm(positions, spacing)
    for one in range(len(positions)):
        for other in range(one):
            assert rows[one] != rows[other] or abs(positions[one] - positions[other]) >= spacing - 1e-6


@given(st.lists(st.tuples(st.floats(-2000, 2000), st.floats(-2000, 2000)), min_size=1, max_size=40))
def test_a_path_passes_through_its_points(points: list[tuple[float, float]]) -> None:
    start, _, rest = svg.path_data(points).partition("l")
    numbers = [float(number) for number in re.findall(r"-?\d+(?:\.\d)?", start) + re.findall(r"-?\d+(?:\.\d)?", rest)]
    assert len(numbers) == 2 * len(points)
    x = y = 0.0
    for (expected_x, expected_y), dx, dy in zip(points, numbers[::2], numbers[1::2], strict=True):
        x, y = x + dx, y + dy
        assert [x, y] == pytest.approx([expected_x, expected_y], abs=0.11)


@given(st.text(max_size=60), st.floats(20, 300))
def test_fitted_text_fits(content: str, width: float) -> None:
    assert svg.text_width(svg.fit(content, width)) <= width


def test_a_scale_without_extent_maps_to_the_middle() -> None:
    assert svg.Scale(5.0, 5.0, 10.0, 30.0)(5.0) == 20.0
    assert svg.padded([2.0, 2.0])[0] < 2.0 < svg.padded([2.0, 2.0])[1]
    assert svg.padded([0.0])[0] < 0.0 < svg.padded([0.0])[1]


@given(st.lists(st.integers(0, 30).map(lambda number: number / 2), max_size=40))
def test_a_swarm_takes_the_first_row_in_which_there_is_room(positions: list[float]) -> None:
    rows: list[int] = []
    for index, position in enumerate(positions):
        others = [(rows[other], positions[other]) for other in range(index)]
        tried = (row for number in range(len(positions) + 1) for row in ((number, -number) if number else (0,)))
        ordered = sorted(tried, key=lambda row: (abs(row), row > 0))
        rows.append(
            next(
                row
                for row in ordered
                if not any(at == row and abs(place - position) < 3 - 1e-6 for at, place in others)
            )
        )
    assert svg.swarm(positions, 3.0) == tuple(rows)

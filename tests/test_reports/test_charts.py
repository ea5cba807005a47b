"""Charts: each draws every run, says in words what it shows, and survives odd data."""

import math
import re
from collections.abc import Callable
from typing import Literal
from xml.etree import ElementTree

import pytest
from drawing import Drawing
from hypothesis import given
from hypothesis import strategies as st

from reports.charts.bars import Bar, time_figure
from reports.charts.convergence import convergence_figure, visible_quality
from reports.charts.figure import Figure
from reports.charts.order import RunSpan, order_figure
from reports.charts.runs import Quantity, Strip, StripDot, strips_figure
from reports.charts.sweep import sweep_figure
from reports.charts.throughput import throughput_figure
from reports.charts.xy import Curve, Dot
from reports.text.formatting import SECONDS

HOSTILE = "</title><script>alert(1)</script>"
WORDS = {f"dot-{fate}": HOSTILE for fate in ("counted", "dropped", "failed")} | {"mean": "mean", "band": "interval"}
ABOUT = {"id_": "c", "title": "Title " + HOSTILE, "description": "Description " + HOSTILE}


def strip(*times: float | None, name: str = HOSTILE, mean: float | None = 10.0) -> Strip:
    dots = tuple(
        StripDot(label=str(i), value=time, fate="failed" if time is None else "counted", hint=HOSTILE)
        for i, time in enumerate(times)
    )
    return Strip(
        name=name,
        hue=0,
        dots=dots,
        mean=mean,
        mean_label="10 s",
        low=mean,
        high=mean and mean + 1,
    )


def curve(*qualities: float, fate: str = "counted") -> Curve:
    return Curve(hue=0, points=tuple((0.05 * (i + 1), q) for i, q in enumerate(qualities)), fate=fate, hint=HOSTILE)


def runs(*strips: Strip) -> Figure:
    return strips_figure(strips, Quantity(name=HOSTILE), WORDS, **ABOUT)


def convergence(*lines: Curve, target: float | None = 0.7) -> Figure:
    return convergence_figure(lines, target, "epoch", metric="ROC AUC", names={}, **ABOUT)


def blocks(*lines: tuple[tuple[float, float], ...]) -> Figure:
    return throughput_figure([Curve(hue=0, points=points, hint=HOSTILE) for points in lines], names={}, **ABOUT)


def bars(*parts: tuple[float, float, float]) -> Figure:
    return time_figure([Bar(HOSTILE, part, HOSTILE) for part in parts], SECONDS, **ABOUT)


def order(*spans: tuple[float, float | None, Literal["done", "failed", "unfinished"]]) -> Figure:
    made = [RunSpan(label=HOSTILE, start_s=a, stop_s=b, kind=kind) for a, b, kind in spans]
    return order_figure(made, SECONDS, **ABOUT)


def classes(figure: Figure, name: str) -> int:
    """How many elements of the wide drawing carry the class `name`."""
    root = ElementTree.fromstring(figure.wide)
    return sum(name in element.get("class", "").split() for element in root.iter())


FIGURES: list[Callable[[], Figure]] = [
    lambda: runs(strip(9.0, 10.0, 11.0, None)),
    lambda: runs(strip(9.0, 10.0), strip(20.0, None, mean=None)),
    lambda: runs(strip(None, None, mean=None)),
    lambda: convergence(curve(0.6, 0.65, 0.71), curve(0.6, 0.61, fate="failed")),
    lambda: convergence(curve(0.6), target=None),
    lambda: blocks(((100.0, 5.0), (200.0, 6.0)), ((100.0, 5.0),)),
    lambda: bars((3.0, 1.0, 0.0), (3.0, 0.0, 0.5)),
    lambda: order((0.0, 10.0, "done"), (10.0, None, "unfinished"), (1e9, 1e9 + 1, "failed")),
]


@pytest.mark.parametrize("make", FIGURES)
def test_both_drawings_are_named_images_without_styles_scripts_or_nonsense(make: Callable[[], Figure]) -> None:
    figure = make()
    ids: list[str] = []
    for drawing in (figure.wide, figure.narrow):
        root = ElementTree.fromstring(drawing)
        assert root.get("role") == "img"
        named = [root.find(f"{name}") for name in ("title", "desc")]
        assert [None if one is None else one.text for one in named] == [ABOUT["title"], ABOUT["description"]]
        assert root.get("aria-labelledby", "").split() == [one.get("id") for one in named if one is not None]
        for element in root.iter():
            assert element.tag != "script"
            assert not {"style", "onload", "onclick"} & set(element.attrib)
            assert not any("nan" in value or "inf" in value for value in element.attrib.values())
            ids += [element.attrib["id"]] if "id" in element.attrib else []
    assert len(ids) == len(set(ids))


def test_every_run_is_a_mark_of_its_kind() -> None:
    figure = runs(strip(9.0, 10.0, 10.0, None))
    assert (classes(figure, "dot-counted"), classes(figure, "dot-failed")) == (3, 1)
    assert (classes(figure, "mean"), classes(figure, "band")) == (1, 1)
    assert [key.mark for key in figure.keys] == ["dot-counted", "dot-failed", "mean", "band"]


def test_without_a_score_there_is_no_mean_and_no_band() -> None:
    figure = runs(strip(9.0, 10.0, mean=None))
    assert (classes(figure, "mean"), classes(figure, "band")) == (0, 0)


def test_convergence_draws_one_line_per_run_and_labels_the_target() -> None:
    figure = convergence(curve(0.6, 0.7), curve(0.6, 0.65, fate="failed"), target=0.7)
    assert classes(figure, "curve") == 2
    assert (classes(figure, "ends"), classes(figure, "dot-failed")) == (1, 1)
    assert "target 0.70000" in figure.wide
    assert "target" not in convergence(curve(0.6, 0.7), target=None).wide


@given(st.lists(st.lists(st.floats(0, 1), min_size=1, max_size=20), min_size=1, max_size=5), st.floats(0.5, 1))
def test_target_and_every_final_quality_are_in_view(qualities: list[list[float]], target: float) -> None:
    low, high = visible_quality([curve(*line) for line in qualities], target)
    assert all(low <= value <= high for value in (target, *(line[-1] for line in qualities)))


@given(st.lists(st.one_of(st.none(), st.floats(0.001, 1e7)), min_size=1, max_size=12))
def test_runs_of_any_length_are_drawn_inside_the_picture(times: list[float | None]) -> None:
    root = ElementTree.fromstring(runs(strip(*times, mean=None)).wide)
    height = float(root.get("viewBox", "").split()[3])
    centres = [(float(one.get("cx", "")), float(one.get("cy", ""))) for one in root.iter("circle")]
    assert len(centres) == sum(time is not None for time in times)
    assert all(0 <= x <= 960 and 0 <= y <= height for x, y in centres)
    assert all(math.isfinite(value) for centre in centres for value in centre)


def test_parts_of_a_bar_end_where_the_next_begins() -> None:
    figure = bars((3.0, 1.0, 0.5))
    assert [classes(figure, f"part-{part}") for part in ("train", "eval", "other")] == [1, 1, 1]
    assert [key.mark for key in bars((3.0, 1.0, 0.0)).keys] == ["part-train", "part-eval"]


def test_every_attempt_is_a_bar_that_can_be_seen() -> None:
    figure = order((0.0, 10.0, "done"), (10.0, None, "unfinished"), (1e9, 1e9 + 1, "failed"))
    assert [classes(figure, f"span-{kind}") for kind in ("done", "failed", "unfinished")] == [1, 1, 1]
    widths = [float(width) for width in re.findall(r"h([\d.]+)v", figure.wide)]
    assert len(widths) == 3
    assert min(widths) >= 3


def test_an_axis_of_qualities_shows_their_differences() -> None:
    dots = [Dot(x=x, y=y, ends=(y - 0.002, y + 0.002)) for x, y in ((1.0, 0.77), (2.0, 0.78))]
    figure = sweep_figure([("", dots)], ("rate", ("1", "2")), ("Quality, AUC", str), is_ratio=False, **ABOUT)
    first, second = (float(circle.get("cy", "")) for circle in Drawing(figure.wide).of("dot-counted"))
    assert first - second > 50  # of 122 px: the dots are as far apart as the intervals let them

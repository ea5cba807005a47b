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
from reports.charts.svg import text_width
from reports.charts.sweep import places, sweep_figure
from reports.charts.throughput import throughput_figure
from reports.charts.xy import Curve, Dot
from reports.text.formatting import SECONDS, si

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


def ticks(drawing: Drawing, anchor: str) -> list[str]:
    """The labels of the ticks of the x axis ('middle') or the y axis ('end')."""
    groups = [one for one in drawing.of("tick") if one.get("text-anchor") == anchor]
    return [text.text or "" for group in groups for text in group.iter("text")]


@pytest.mark.parametrize(
    ("values", "words", "is_ratio"),
    [
        ((0.78012, 0.78107, 0.78055), None, False),
        ((15_231.0, 15_238.0, 15_244.0), si, True),
        ((-0.021, 0.004, 0.013), None, False),
        ((4_812.0, 81_655.0), si, True),
    ],
)
def test_strips_show_any_quantity_with_digits_enough_to_tell_its_ticks(
    values: tuple[float, ...], words: Callable[[float], str] | None, is_ratio: bool
) -> None:
    dots = tuple(StripDot(label=str(number), value=value) for number, value in enumerate(values))
    one = Strip(name="a", hue=0, dots=dots, mean=values[0], mean_label="mean", low=values[0], high=values[-1])
    figure = strips_figure([one], Quantity(name="AUC", words=words, is_ratio=is_ratio), WORDS, **ABOUT)
    for text in (figure.wide, figure.narrow):
        drawing = Drawing(text)
        shown = [drawing.value("x", float(circle.get("cx", ""))) for circle in drawing.root.iter("circle")]
        assert shown == pytest.approx(values, abs=drawing.step("x", max(values)))
        labels = ticks(drawing, "middle")
        assert len(set(labels)) == len(labels) >= 2
    assert drawing.root.get("data-x", "").endswith(" log") == (values == (4_812.0, 81_655.0))


def test_what_only_differences_mean_is_never_on_a_logarithmic_axis() -> None:
    figure = strips_figure([strip(1.0, 9.0, mean=None)], Quantity(name="AUC", is_ratio=False), WORDS, **ABOUT)
    assert not Drawing(figure.wide).root.get("data-x", "").endswith(" log")


def test_panels_share_their_scale_and_a_missing_value_is_a_cross_at_the_foot() -> None:
    panels = [("one", [Dot(x=0.0, y=2.0), Dot(x=1.0, y=4.0)]), ("two", [Dot(x=0.0, y=4.0), Dot(x=1.0, y=None)])]
    figure = sweep_figure(panels, ("kind", ("dot", "cat")), ("Samples/s", str), **ABOUT)
    for text in (figure.wide, figure.narrow):
        heights = [float(circle.get("cy", "")) for circle in Drawing(text).of("dot-counted")]
        assert heights[1] == heights[2] < heights[0]
        assert len(Drawing(text).of("curve")) == len(Drawing(text).of("dot-failed")) == 1
    assert [key.words for key in figure.keys] == ["configuration", "no value"]


def test_labels_of_an_axis_do_not_run_into_each_other() -> None:
    positions = tuple(f"{number}_000_000" for number in range(100, 160))
    dots = [Dot(x=x, y=1.0) for x in places(positions)]
    figure = sweep_figure([("", dots)], ("rate", positions), ("Samples/s", str), **ABOUT)
    for text in (figure.wide, figure.narrow):
        (group,) = [one for one in Drawing(text).of("tick") if one.get("text-anchor") == "middle"]
        ends = [
            (float(one.get("x", "")) + side * text_width(one.text or "") / 2) for one in group for side in (-1, 1)
        ]
        assert ends == sorted(ends)


def test_only_a_curve_that_leaves_the_picture_is_cut_off() -> None:
    assert "clip" not in convergence(curve(0.7, 0.7, 0.71)).wide
    below = convergence(curve(0.1, 0.68, 0.69, 0.7, 0.71)).wide
    assert (
        re.findall(r'clipPath id="(.*?)"', below) == re.findall(r'clip-path="url\(#(.*?)\)"', below) == ["c-w-clip"]
    )

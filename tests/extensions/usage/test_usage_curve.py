"""How many subgraphs a retrieval takes: precision, time and memory, held against one stage and what was published."""

import math
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from places import ROOT
from scipy import stats

from harness.extensions.usage import crew
from harness.extensions.usage.crew import RetrievalTrial, try_retrieval
from harness.extensions.usage.curve import RetrievalCurve, hold_against_published, join_varied, make_curve
from harness.extensions.usage.definition import AskedModel
from reference_models.serving import pagerank
from reports.text.formatting import MAX_TEXT

pytestmark = pytest.mark.numeric


def trial(node: int, subgraphs: str, precision: float, speed_up: float, saving: float = 4.0) -> RetrievalTrial:
    peaks = (1000, round(1000 * saving))
    return RetrievalTrial(node, subgraphs, precision, 0.01, 0.01 * speed_up, *peaks, num_near=20, num_far=300)


def curve_of(*trials: RetrievalTrial, wanted: float = 0.8) -> RetrievalCurve:
    return make_curve("find", AskedModel(source="retrieval", graph="small", wanted_precision=wanted), trials)


def test_the_fewest_subgraphs_of_the_wanted_precision_are_taken() -> None:
    speeds = [3.0, 4.0, 5.0]
    trials = [
        trial(node, number, precision, speed / scale)
        for node, speed in enumerate(speeds)
        for number, precision, scale in (("1", 0.7, 1), ("5", 0.85, 2), ("10", 0.95, 4))
    ]
    curve = curve_of(*trials)
    found = curve.chosen()
    assert found is not None and found.subgraphs == "5" and found.less_memory == 4
    logs = np.log(speeds) - math.log(2)
    expected = stats.t.interval(0.95, 2, logs.mean(), stats.sem(logs))
    assert found.speed_up == pytest.approx(math.exp(logs.mean()))
    assert found.bounds == pytest.approx(np.exp(expected))
    assert curve_of(*trials, wanted=0.95).chosen().subgraphs == "10"  # type: ignore[union-attr]
    axis, met = "find.num_subgraphs", {"1": 1.0, "5": 1.0, "10": 0.5}
    taken = "take find.num_subgraphs=5, of 3: precision 85.0 %, 80 % is wanted; all deadlines met"
    assert curve.title(axis, met) == taken
    assert curve_of(*trials, wanted=0.95).title(axis, met).endswith("95 % is wanted; 50.0 % of deadlines met")
    assert curve_of(*trials, wanted=1).title(axis, met) == "", "none has it"
    text = curve.advice("")
    assert "for a precision of 80 %: take 5 subgraphs." in text
    assert "4.0 times less memory (measured, over 3 nodes)" in text
    assert "none of 1, 5, 10 subgraphs has this precision; one stage is exact" in curve_of(*trials, wanted=1).advice(
        ""
    )


@pytest.mark.parametrize(
    ("speed_up", "saving", "words", "is_shown"),
    [
        ((2.0, 2.1), 4.0, "take 5 subgraphs. With 5 subgraphs", True),
        ((2.0, 2.1), 1.0, "no less memory", False),
        ((0.5, 0.51), 4.0, "one stage is faster, and exact: take one stage, unless memory is short", False),
        ((0.5, 0.51), 0.9, "one stage is faster, and exact: take one stage. With 5", False),
        ((0.5, 2.0), 4.0, "No difference in speed is shown", False),
        ((2.0,), 4.0, "No difference in speed is shown", False),
    ],
)
def test_where_one_stage_is_faster_or_nothing_is_saved_that_is_said(
    speed_up: tuple[float, ...], saving: float, words: str, is_shown: bool
) -> None:
    curve = curve_of(*[trial(node, "5", 0.9, each, saving) for node, each in enumerate(speed_up)])
    assert words in curve.advice("")
    held = hold_against_published([("", curve)])
    assert ("not both above 1 on small" in held) != is_shown and "1.5 to 13.4 times" in held
    assert "20 of 300" in held and held.endswith(".")


def test_what_is_said_is_never_too_long_for_a_page() -> None:
    one = curve_of(*[trial(node, "5", 0.9, 2.0 + 0.1 * node) for node in range(3)])
    one = replace(one, num_near=19_999.0, num_far=20_000.0)
    many = [("", replace(one, graph=f"a/long/path/{number}-amazon.ungraph.txt")) for number in range(9)]
    for text in (hold_against_published(many), hold_against_published(many[:1]), one.advice("find.graph=small: ")):
        assert len(text) <= MAX_TEXT
    assert "and 7 more" in hold_against_published(many)


def test_numbers_that_are_the_axis_are_one_curve() -> None:
    curves = [(each, curve_of(trial(0, each, 0.9, 2.0))) for each in ("all", "10", "2")]
    ((where, joined),) = join_varied(curves, "find.num_subgraphs")
    assert (where, [each.subgraphs for each in joined.points]) == ("", ["2", "10", "all"])
    untried = "not 1, 5, 20; without --axis all these numbers are tried."
    assert joined.advice("").endswith(f" Only 2, 10, all subgraphs were tried, {untried}")
    usual = curve_of(*[trial(0, str(number), 0.9, 2.0) for number in (1, 2, 5, 10, 20)])
    assert "tried" not in usual.advice("")
    assert [where for where, _ in join_varied(curves, "find.top_k")] == [f"find.top_k={each}: " for each, _ in curves]
    assert [where for where, _ in join_varied(curves[:1], None)] == [""]


def trace_first(call: str) -> int:
    """Return the peak of the first call of a new process, in bytes."""
    code = (
        "import tracemalloc\nfrom reference_models.serving import pagerank\n"
        "graph = pagerank.generate_small_world(0, 2_000)\ntracemalloc.start()\n"
        f"pagerank.diffuse_{call}.top(5)\nprint(tracemalloc.get_traced_memory()[1])"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, env=env)
    return int(done.stdout)


@pytest.mark.slow
def test_the_memory_that_is_said_is_what_is_traced(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = pagerank.generate_small_world(0, 2_000)
    monkeypatch.setattr(crew, "open_retrieval", lambda model, seed: (graph, [3]))
    model = AskedModel(source="retrieval", top_k=5)
    trials = try_retrieval({}, model, 0, (10, None), (0, 1))
    assert [each.subgraphs for each in trials] == ["10", "all"] and trials[1].precision == 1
    assert (trials[0].num_near, trials[0].num_far) == tuple(len(pagerank.find_ball(graph, 3, far)) for far in (3, 6))
    for each, number in zip(trials, (10, None), strict=True):
        staged, at_once = trace_first(f"in_stages(graph, 3, {number})"), trace_first("at_once(graph, 3)")
        assert (each.staged_bytes, each.at_once_bytes) == pytest.approx((staged, at_once), rel=0.05)


def test_a_curve_has_the_usual_numbers_and_the_one_that_is_asked(tmp_path: Path) -> None:
    assert AskedModel(source="retrieval", num_subgraphs=7).curve() == (1, 2, 5, 7, 10, 20)
    assert AskedModel(source="retrieval", num_subgraphs="all").curve() == (1, 2, 5, 10, 20, None)
    (tmp_path / "edges.txt").write_text("".join(f"0 {leaf}\n" for leaf in range(1, 30)))
    model = AskedModel(source="retrieval", graph=str(tmp_path / "edges.txt"), top_k=5)
    curve = make_curve("find", model, try_retrieval({}, model, 0, model.curve(), (0, 10)))
    assert [row[2] for row in curve.rows()] == ["1", "2", "5", "10", "20"]
    assert curve.points[-1].precision == 1 and curve.num_nodes == 3

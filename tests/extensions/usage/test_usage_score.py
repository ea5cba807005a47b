"""The score of a usage, by its formula."""

from dataclasses import replace
from math import exp
from pathlib import Path
from typing import Any

import pytest
from scripted_crew import ScriptedCrew

from harness.extensions.usage import measuring, study
from harness.extensions.usage.definition import CURVE, Usage, parse_usage
from harness.extensions.usage.measuring import MeasuredUsage, Share, UsageSeeds
from harness.extensions.usage.schedule import ModelRequest, Span
from harness.extensions.usage.score import MAX_ENERGY_J, score_model, score_request, score_usage
from rules.records.load import LoadRecord
from rules.records.study import StudyRecord

LOAD = LoadRecord(num_cpus=2, duration_s=1.0, load_avg_before=0.5, load_avg_after=1.0, other_cpus=0.25)
WHOLE = Share(0, 1)
REQUESTS = [ModelRequest(model="a", number=number, release_s=0.1 * number, within_s=0.1) for number in range(4)]
EARLY = [Span(0, request.release_s, request.release_s + 0.01) for request in REQUESTS]


def measure(usage: Usage, arrivals: int, share: Share = WHOLE) -> MeasuredUsage:
    return measuring.measure_usage(
        ScriptedCrew(),  # type: ignore[arg-type]
        "",
        usage,
        {},
        UsageSeeds(1, arrivals),
        share,
        is_simulated=True,
    )


def rows_of(made: StudyRecord, title: str) -> list[dict[str, Any]]:
    (table,) = (table for table in made.tables if table.title.startswith(title))
    return [dict(zip((column.name for column in table.columns), row, strict=True)) for row in table.rows]


def test_a_request_that_is_done_at_its_deadline_scores_a_half() -> None:
    assert score_request(1.0, 1.0) == 0.5
    assert score_request(1.001, 1.0) == pytest.approx(1 / (1 + exp(15)))
    assert score_request(0.9999, 1.0) == pytest.approx(1 / (1 + exp(-1.5)))
    assert score_request(9.0, 0.0) == 0.0


def test_all_requests_early_score_100() -> None:
    scored = score_model(REQUESTS, EARLY, "released", None)
    assert (scored.requested, scored.dropped, scored.late, scored.quality) == (4, 0, 0, 1)
    assert score_usage([scored, scored]) == pytest.approx(100, abs=0.01)


def test_a_scripted_run_scores_by_hand() -> None:
    # done 50 us before the deadline, 100 us after it, dropped, early
    spans = [Span(0, 0, 0.09995), Span(0, 0.1, 0.2001), None, EARLY[3]]
    early, late = 1 / (1 + exp(-0.75)), 1 / (1 + exp(1.5))
    released, once = (score_model(REQUESTS, spans, counting, 0.3) for counting in ("released", "once"))
    energy = (MAX_ENERGY_J - 0.3) / MAX_ENERGY_J
    assert (released.dropped, released.late, released.quality) == (1, 1, 0.75)
    assert released.real_time == pytest.approx((early + late + 1) / 3)
    assert released.score == pytest.approx((early + late + 1) * energy / 4 * 0.75)
    assert once.score == pytest.approx((early + late + 1) * energy / 4)
    assert score_usage([released, score_model(REQUESTS, EARLY, "released", None)]) == pytest.approx(
        100 * ((early + late + 1) * energy / 4 * 0.75 + 1) / 2
    )


def test_a_model_that_nothing_was_asked_has_no_part_in_the_score() -> None:
    nothing, all_early = score_model([], [], "released", None), score_model(REQUESTS, EARLY, "released", None)
    assert nothing.score is None and nothing.quality is None
    assert score_usage([nothing, all_early]) == score_usage([all_early])
    dropped = score_model(REQUESTS, [None] * 4, "once", None)
    assert (dropped.score, dropped.quality, dropped.real_time) == (0, 0, None)


@pytest.mark.parametrize("energy_j", (3.0, None))
def test_energy_is_scored_where_it_was_measured_and_said_to_be_absent_elsewhere(
    energy_j: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """3 J in 10 calls are .3 J a request, of which 1.5 J would score nothing."""

    class ScriptedMeter:
        def start(self) -> None: ...

        def stop(self) -> dict[str, Any]:
            gaps = [] if energy_j is not None else [{"what": "CPU packages", "reason": "no counter here."}]
            return {"energy_j": energy_j, "not_measured": gaps}

    monkeypatch.setattr(measuring, "EnergyMeter", ScriptedMeter)
    model = {"source": "stand_in", "widths": [2, 2], "rate": 10}
    usage = parse_usage({"usage": {"title": "a test", "source": "a test", "duration_s": 1}, "a": model}, "a test")
    found = measure(usage, 1)
    made = study.make_usage_study([[found]], None, "released", 1, [LOAD], num_threads=1)
    (row,) = rows_of(made, "Parts of the models' scores")
    (energy,) = (each for each in made.parameters if each.name == "energy of a request")
    if energy_j is None:
        assert (row["Energy"], energy.value) == (None, "not given")
        assert energy.note == "the energy score (EN) is 1. no counter here."
        assert row["Score"] == pytest.approx(1)
    else:
        assert (row["Energy"], energy.value) == (0.3, "measured")
        assert row["Score"] == pytest.approx((1.5 - 0.3) / 1.5)


def test_the_interval_is_students_t_over_the_processes() -> None:
    """Of five scores with mean 90 and standard deviation 2: 2.776 times 2 over the root of 5 to either side."""
    scores = [90 + 2 * each / 2.5**0.5 for each in (-2, -1, 0, 1, 2)]
    found = study.score_interval(scores)
    assert found is not None and found.confidence == 0.95
    reach = 2.7764451051977987 * 2 / 5**0.5
    assert (found.low, found.high) == (pytest.approx(90 - reach), pytest.approx(90 + reach))
    near = study.score_interval([99.0, 100.0, 98.0])
    assert near is not None and near.high == 100.0 and near.low < 98.0
    assert study.score_interval([97.0]) is None


def test_processes_have_arrivals_of_their_own_and_are_joined() -> None:
    """One worker that takes 2 ms a request, and deadlines of 3 ms at random arrivals: which are late differs."""
    model = {"source": "stand_in", "widths": [8, 8], "rate": 60, "arrivals": "poisson", "deadline_ms": 3}
    head = {"title": "a", "source": "a", "duration_s": 5, "workers": 1}
    usage = parse_usage({"usage": head, "eyes": model}, "u.toml")
    point = [measure(usage, arrivals) for arrivals in (11, 12, 13)]
    made = study.make_usage_study([point], None, "once", 1, [LOAD] * 3, num_threads=1)
    scores = [each.score_all("once") for each in point]
    assert len(set(scores)) == 3 and max(scores) < 100
    (whole,), processes = rows_of(made, "Score"), rows_of(made, "Processes")
    bounds = study.score_interval(scores)
    assert bounds is not None and (whole["From"], whole["To"]) == (bounds.low, bounds.high)
    assert whole["Score"] == pytest.approx(sum(scores) / 3) and whole["Processes"] == 3
    assert [row["Score"] for row in processes] == scores
    assert [row["CPUs of other work"] for row in processes] == [0.25] * 3
    assert whole["Highest factor on all rates"] == min(each.highest_factor for each in point)
    (eyes,) = rows_of(made, "Models")
    assert eyes["Requested"] == sum(len(each.requests) for each in point)
    assert eyes["Requested"] - eyes["Dropped"] - eyes["Late"] == sum(
        round(each.share_met * len(each.requests)) for each in point
    )
    said = f"95 % interval {bounds.low:.2f} to {bounds.high:.2f} over 3 processes"
    assert said in made.findings[0] and "meet all deadlines in every process" in made.findings[0]


def test_quality_of_what_follows_a_retrieval_is_said_not_to_be_shown(tmp_path: Path) -> None:
    (tmp_path / "edges.txt").write_text("0 1\n0 2\n")
    find = {"source": "retrieval", "rate": 2, "deadline_ms": 60000, "graph": str(tmp_path / "edges.txt"), "top_k": 2}
    rank = {"source": "stand_in", "widths": [2, 2], "after": "find", "deadline_ms": 60000}
    head = {"title": "a", "source": "a", "duration_s": 1, "workers": 1}
    for tables, is_said in (({"find": find, "rank": rank}, True), ({"find": find}, False)):
        found = measure(parse_usage({"usage": head, **tables}, "u.toml"), 1)
        made = study.make_usage_study([[found]], None, "once", 1, [LOAD], num_threads=1)
        assert any("quality of find and rank end to end is not shown" in each for each in made.findings) == is_said


@pytest.mark.parametrize("is_trained", [False, True])
def test_a_cascade_that_is_not_trained_says_how_its_quality_is_shown(*, is_trained: bool) -> None:
    keep = {"source": "dlrm_tiny", "rate": 2, "deadline_ms": 60000, "items": 8, "top_k": 4}
    rank = {"source": "dlrm_tiny", "after": "keep", "deadline_ms": 60000}
    head = {"title": "a", "source": "a", "duration_s": 1, "workers": 1}
    found = measure(parse_usage({"usage": head, "keep": keep, "rank": rank}, "u.toml"), 1)
    made = study.make_usage_study([[found]], None, "once", 1, [LOAD], num_threads=1, is_trained=is_trained)
    said = [each for each in made.findings if "quality of keep and rank end to end is not shown" in each]
    assert len(said) == (not is_trained) and all("--train SAMPLES" in each for each in said)


@pytest.mark.parametrize(
    ("slow_s", "within_ms", "said"),
    [
        (0.009, 5, "a call of it alone took 9.0 ms (measured), more than its deadline of 5.0 ms."),
        (
            0.004,
            7,
            "it waits for other requests: a call of it alone took 4.0 ms (measured), within its deadline of 7.0 ms.",
        ),
    ],
)
def test_why_no_rate_meets_all_is_said_with_the_process_in_which_none_does(
    slow_s: float, within_ms: int, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two models are released at once for one worker; calls of 2 ms are in time, longer ones are not."""
    model = {"source": "stand_in", "widths": [8, 8], "rate": 10, "deadline_ms": within_ms}
    head = {"title": "a", "source": "a", "duration_s": 1, "workers": 1}
    usage = parse_usage({"usage": head, "ads": model, "eyes": model}, "u.toml")
    point = [measure(usage, 1)]
    monkeypatch.setattr(ScriptedCrew, "time_requests", lambda _, names, seed: {name: [slow_s] * 5 for name in names})
    point.append(measure(usage, 2))
    made = study.make_usage_study([point], None, "once", 1, [LOAD] * 2, num_threads=1)
    assert [each.highest_factor > 0 for each in point] == [True, False]
    name = point[1].failed.model  # type: ignore[union-attr]
    first = (
        f"No rate meets all deadlines in every process: at 1 % of the given rates {name} fails first in process 1 "
        "(simulated), where "
    )
    assert made.findings[0].endswith(f"{first}{said}")


def test_the_interval_is_in_the_title_and_late_requests_in_simulated_time_beside_dropped_ones() -> None:
    model = {"source": "stand_in", "widths": [8, 8], "rate": 60, "arrivals": "poisson", "deadline_ms": 3}
    usage = parse_usage({"usage": {"title": "a", "source": "a", "duration_s": 5, "workers": 1}, "eyes": model}, "u")
    point = [
        replace(each, spans=[Span(0, request.release_s, request.release_s) for request in each.requests])
        for each in (measure(usage, 11), measure(usage, 12))
    ]
    bounds = study.score_interval([each.score_all("once") for each in point])
    made = study.make_usage_study([point], None, "once", 1, [LOAD] * 2, num_threads=1)
    assert bounds is not None and f"(95 % interval {bounds.low:.2f} to {bounds.high:.2f} over 2" in made.title
    (parts,) = rows_of(made, "Parts of the models' scores")
    pairs = [pair for each in point for pair in zip(each.requests, each.simulated, strict=True)]
    late = sum(span is not None and span.end_s > request.deadline_s for request, span in pairs)
    assert parts["Late in simulated time"] == late > 0 and parts["Dropped in simulated time"] == sum(
        span is None for _, span in pairs
    )
    one = study.make_usage_study([point[:1]], None, "once", 1, [LOAD], num_threads=1)
    assert "of 100 (one process, so no interval)" in one.title


@pytest.mark.slow
def test_processes_share_the_nodes_of_a_retrieval(tmp_path: Path) -> None:
    (tmp_path / "edges.txt").write_text("".join(f"0 {leaf}\n" for leaf in range(1, 30)))
    model = {"source": "retrieval", "rate": 2, "deadline_ms": 60000, "graph": str(tmp_path / "edges.txt"), "top_k": 5}
    head = {"title": "a", "source": "a", "duration_s": 2, "workers": 2}
    usage = parse_usage({"usage": head, "find": model}, "u.toml")
    whole = measure(usage, 3).trials["find"]
    shares = [measure(usage, 3, Share(number, 4)).trials["find"] for number in range(4)]
    assert sorted(trial for share in shares for trial in share) == sorted(whole)
    assert len({trial.node for trial in whole}) == 30 and len(whole) == 30 * len(CURVE)


@pytest.mark.slow
def test_the_title_of_an_axis_names_the_value_with_most_room() -> None:
    """One worker meets all deadlines of both rates; twice the lower one is the other."""
    model = {"source": "stand_in", "widths": [8, 8], "deadline_ms": 60}
    points = []
    for rate in (100, 200):
        head = {"title": "a", "source": "a", "duration_s": 1, "workers": 1}
        usage = parse_usage({"usage": head, "eyes": model | {"rate": rate}}, "u.toml")
        points.append([replace(measure(usage, 11), text=str(rate))])
    made = study.make_usage_study(points, "eyes.rate", "once", 1, [LOAD], num_threads=1)
    factor = points[0][0].highest_factor
    assert factor > points[1][0].highest_factor
    assert (
        f"with eyes.rate=100,200, of 2 values; highest rates with 100: {factor:.2f} times the given rates"
        in made.title
    )

"""The score of a usage, by its formula."""

from math import exp
from typing import Any

import pytest
from scripted_crew import ScriptedCrew

from harness.extensions.usage import study
from harness.extensions.usage.definition import parse_usage
from harness.extensions.usage.schedule import Frame, Span
from harness.extensions.usage.score import MAX_ENERGY_J, score_frame, score_model, score_usage

FRAMES = [Frame(model="a", number=number, release_s=0.1 * number, within_s=0.1) for number in range(4)]
EARLY = [Span(0, frame.release_s, frame.release_s + 0.01) for frame in FRAMES]


def test_a_frame_that_is_done_at_its_deadline_scores_a_half() -> None:
    assert score_frame(1.0, 1.0) == 0.5
    assert score_frame(1.001, 1.0) == pytest.approx(1 / (1 + exp(15)))
    assert score_frame(0.9999, 1.0) == pytest.approx(1 / (1 + exp(-1.5)))
    assert score_frame(9.0, 0.0) == 0.0


def test_all_frames_early_score_100() -> None:
    scored = score_model(FRAMES, EARLY, "released", None)
    assert (scored.requested, scored.dropped, scored.late, scored.quality) == (4, 0, 0, 1)
    assert score_usage([scored, scored]) == pytest.approx(100, abs=0.01)


def test_a_scripted_run_scores_by_hand() -> None:
    # done 50 us before the deadline, 100 us after it, dropped, early
    spans = [Span(0, 0, 0.09995), Span(0, 0.1, 0.2001), None, EARLY[3]]
    early, late = 1 / (1 + exp(-0.75)), 1 / (1 + exp(1.5))
    released, once = (score_model(FRAMES, spans, counting, 0.3) for counting in ("released", "once"))
    energy = (MAX_ENERGY_J - 0.3) / MAX_ENERGY_J
    assert (released.dropped, released.late, released.quality) == (1, 1, 0.75)
    assert released.real_time == pytest.approx((early + late + 1) / 3)
    assert released.score == pytest.approx((early + late + 1) * energy / 4 * 0.75)
    assert once.score == pytest.approx((early + late + 1) * energy / 4)
    assert score_usage([released, score_model(FRAMES, EARLY, "released", None)]) == pytest.approx(
        100 * ((early + late + 1) * energy / 4 * 0.75 + 1) / 2
    )


def test_a_model_that_nothing_was_asked_has_no_part_in_the_score() -> None:
    nothing, all_early = score_model([], [], "released", None), score_model(FRAMES, EARLY, "released", None)
    assert nothing.score is None and nothing.quality is None
    assert score_usage([nothing, all_early]) == score_usage([all_early])
    dropped = score_model(FRAMES, [None] * 4, "once", None)
    assert (dropped.score, dropped.quality, dropped.real_time) == (0, 0, None)


@pytest.mark.parametrize("energy_j", (3.0, None))
def test_energy_is_scored_where_it_was_measured_and_said_to_be_absent_elsewhere(
    energy_j: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """3 J in 10 calls are .3 J a frame, of which 1.5 J would score nothing."""

    class ScriptedMeter:
        def start(self) -> None: ...

        def stop(self) -> dict[str, Any]:
            gaps = [] if energy_j is not None else [{"what": "CPU packages", "reason": "no counter here."}]
            return {"energy_j": energy_j, "not_measured": gaps}

    monkeypatch.setattr(study, "EnergyMeter", ScriptedMeter)
    model = {"source": "stand_in", "widths": [2, 2], "rate": 10}
    usage = parse_usage({"usage": {"title": "a test", "source": "a test", "duration_s": 1}, "a": model}, "a test")
    found = study.measure_usage(ScriptedCrew(), "", usage, {}, seed=1, is_simulated=True)  # type: ignore[arg-type]
    made = study.make_usage_study([found], None, "released", 1, 1)
    row = dict(zip((column.name for column in made.tables[0].columns), made.tables[0].rows[0], strict=True))
    (energy,) = (each for each in made.parameters if each.name == "energy of a frame")
    if energy_j is None:
        assert (row["Energy"], energy.value, energy.note) == (None, "not given", "EN is 1. no counter here.")
        assert row["Score"] == pytest.approx(1)
    else:
        assert (row["Energy"], energy.value) == (0.3, "measured")
        assert row["Score"] == pytest.approx((1.5 - 0.3) / 1.5)

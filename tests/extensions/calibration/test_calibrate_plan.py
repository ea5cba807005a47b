"""What a calibration would do, said before it does anything."""

from pathlib import Path

import pytest
from small_entry import small_entry

from harness.cli import main
from harness.config.catalog import Entry
from harness.extensions.calibration.calibrate import count_epochs, count_runs, plan_calibration
from harness.extensions.calibration.outlook import look_ahead, outlook_blocks
from harness.extensions.calibration.runs import steps_to_evaluations
from reports.render.markdown import render_markdown

STEP_S, EVAL_S = 0.5, 20.0


@pytest.fixture(scope="module")
def mine(tmp_path_factory: pytest.TempPathFactory) -> Entry:
    return small_entry(tmp_path_factory.mktemp("definition"))


@pytest.fixture(autouse=True)
def steps_of_known_time(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **options: object) -> None:
        raise AssertionError("an epoch was trained")

    monkeypatch.setattr("harness.planning.plan.measure_steps", lambda *args: (STEP_S, EVAL_S))
    monkeypatch.setattr("harness.extensions.calibration.calibrate.complete_runs", refuse)


def test_epochs_are_counted_by_what_they_are_for(mine: Entry) -> None:
    plan = plan_calibration(mine)
    assert count_epochs(mine, plan) == {32: (10, 20, 0), 64: (10, 60, 18), 128: (10, 20, 0)}
    assert count_runs(mine, plan) == 30 + 88 + 30


@pytest.mark.parametrize("num_workers", [1, 4])
def test_the_time_of_all_epochs_is_modelled_from_steps_and_evaluations(
    mine: Entry, num_workers: int, tmp_path: Path
) -> None:
    plan = plan_calibration(mine, num_workers=num_workers)
    outlook = look_ahead(mine, plan, tmp_path)
    epoch_s = {size: 5120 // size * STEP_S + 20 * EVAL_S for size in (32, 64, 128)}
    assert {size: sum(steps_to_evaluations(mine.benchmark, 5120, size)) for size in epoch_s} == {
        32: 160,
        64: 80,
        128: 40,
    }
    assert {size: each.run_s for size, each in outlook.epochs.items() if each is not None} == epoch_s
    total_s = (30 * epoch_s[32] + 88 * epoch_s[64] + 30 * epoch_s[128]) / num_workers
    text = render_markdown(outlook_blocks(mine, plan, outlook))
    assert f"At most 148 epochs, {num_workers} at a time." in text
    assert f"about {total_s / 3600:.2g} hours" in text and "modelled from 10 steps" in text
    assert not list(tmp_path.iterdir()) and not outlook.problems


def test_where_nothing_can_be_timed_the_reason_is_said_and_no_time(mine: Entry, tmp_path: Path) -> None:
    plan = plan_calibration(mine, batch_sizes=[100_000])
    outlook = look_ahead(mine, plan, tmp_path)
    assert outlook.epochs[100_000] is None and outlook.epochs[64] is not None
    text = render_markdown(outlook_blocks(mine, plan, outlook))
    assert "cannot be modelled here" in text and "batch size 100000 leaves no evaluation" in text


def test_a_plan_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as leaving:
        main(["calibrate", "dlrm_tiny", "--plan", "--quick"])
    out = capsys.readouterr().out
    assert leaving.value.code == 0 and "quick and uncalibrated" in out and "At most 6 epochs" in out
    assert not list(tmp_path.iterdir())

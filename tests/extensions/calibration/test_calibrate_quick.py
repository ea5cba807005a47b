"""A quick calibration: a first look that is written as uncalibrated, and that no judge takes for a reference."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from calibration_builder import crossing_at, result
from small_entry import small_entry

from harness.cli import main
from harness.config.catalog import Entry
from harness.extensions.calibration.calibrate import (
    calibrate,
    count_runs,
    plan_calibration,
    refuse_to_replace,
    write_calibration,
)
from harness.extensions.calibration.runs import REFERENCE, CalibrationRun, RunStore
from reference_models.dlrm.spec import SPEC
from reference_models.process.errors import ConfigError
from rules.records.calibration import CalibrationRecord
from rules.records.codec import decode
from rules.scoring.rcp import judge_convergence


@pytest.fixture(scope="module")
def mine(tmp_path_factory: pytest.TempPathFactory) -> Entry:
    return small_entry(tmp_path_factory.mktemp("definition"))


def test_a_quick_calibration_is_part_of_a_whole_one(mine: Entry) -> None:
    quick, whole = plan_calibration(mine, is_quick=True), plan_calibration(mine)
    assert quick.batch_sizes == (64,) and not quick.learning_rates
    seeds = quick.seeds(is_default=True)
    assert seeds == whole.seeds(is_default=True)[: len(seeds)] and len(seeds) == 3
    assert count_runs(mine, quick) == 3 + len(SPEC.baselines)


def quick_calibration(
    mine: Entry, folder: Path, monkeypatch: pytest.MonkeyPatch, **asked: Any
) -> tuple[CalibrationRecord, tuple[Path, Path, Path]]:
    """One whose runs all reach the target, with its files."""

    def complete(entry: Entry, data_dir: Path, runs: list[CalibrationRun], *args: Any, **options: Any) -> Any:
        target = entry.benchmark.quality.target
        simpler, reference = result((target - 0.1,) * 20), crossing_at(13, target)
        return [replace(reference if run.model == REFERENCE else simpler, run=run) for run in runs]

    monkeypatch.setattr("harness.extensions.calibration.calibrate.complete_runs", complete)
    monkeypatch.setattr("harness.extensions.calibration.calibrate.measure_oracle", lambda entry: 0.99)
    made = calibrate(mine, folder, plan_calibration(mine, **asked), RunStore(folder, "digest"))
    return made, write_calibration(folder, mine, made)


def test_a_quick_calibration_is_written_as_uncalibrated_and_shows_no_condition_that_needs_more(
    mine: Entry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, (page, record, _) = quick_calibration(mine, tmp_path, monkeypatch, is_quick=True)
    assert not made.is_calibrated and decode(record, CalibrationRecord) == made
    assert {condition.letter: condition.holds for condition in made.conditions} == {
        "a": None,
        "b": None,
        "c": True,
        "d": True,
    }
    text = page.read_text()
    assert "Uncalibrated: 3 seeds at one batch size" in text and "Tuning" not in text


def test_judges_take_points_of_a_quick_calibration_for_no_reference(
    mine: Entry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = {}
    for is_quick in (True, False):
        folder = tmp_path / str(is_quick)
        _, (_, _, points) = quick_calibration(mine, folder, monkeypatch, is_quick=is_quick)
        assert json.loads(points.read_text())["mine_ref_64"]["Epochs to converge"][:3] == [0.7] * 3
        monkeypatch.setattr("rules.scoring.rcp.rcp_file", lambda benchmark, name, path=points: path)
        found[is_quick] = judge_convergence(mine.benchmark, None, 64, [0.1] * 5)
    assert found[True].status == "none" and "the reference is uncalibrated" in found[True].reason
    assert found[True].point is None and found[False].status == "failed"


def test_a_quick_calibration_takes_the_place_of_no_whole_one(
    mine: Entry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick, whole = plan_calibration(mine, is_quick=True), plan_calibration(mine)
    for is_quick in (True, False):
        refuse_to_replace(tmp_path, mine, quick)
        quick_calibration(mine, tmp_path, monkeypatch, is_quick=is_quick)
    refuse_to_replace(tmp_path, mine, whole)
    with pytest.raises(ConfigError, match="a whole calibration, which a quick one would replace"):
        refuse_to_replace(tmp_path, mine, quick)


def test_what_quick_decides_is_not_given_beside_it(capsys: pytest.CaptureFixture[str]) -> None:
    for option in ("--runs", "--batch-size", "--tuning-runs"):
        with pytest.raises(SystemExit) as leaving:
            main(["calibrate", "dlrm_tiny", "--quick", option, "3"])
        assert leaving.value.code == 2 and f"--quick decides {option} itself" in capsys.readouterr().err

"""Where a default says that its data is: used where that very data is there, and never a place to make any."""

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from goldens import lay_data
from recorded_data import base_in, call

from harness.experiment.experiment import Experiment
from harness.extensions.tuning.making import create_trial
from harness.foundation.errors import HarnessError
from rules.records.experiment import ExperimentRecord


@pytest.fixture(scope="module")
def made(data_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder to work in with data and a set, which is not to be changed."""
    place = lay_data(data_root, tmp_path_factory.mktemp("made") / "work")
    ended = call(place, "run dlrm_tiny --throughput 4 -q")
    assert ended.code == 0, ended.err
    return place


@pytest.fixture
def place(made: Path, tmp_path: Path) -> Path:
    return shutil.copytree(made, tmp_path / "work", symlinks=True)


@pytest.fixture
def data(place: Path) -> Path:
    (folder,) = (place / "data").iterdir()
    return folder


@pytest.fixture
def users(tmp_path: Path) -> Path:
    """A folder of the user's, elsewhere."""
    folder = tmp_path / "users"
    folder.mkdir()
    (folder / "thesis.txt").write_text("precious")
    return folder


def test_a_trial_makes_no_data_where_its_default_says(
    place: Path, data: Path, users: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither that of the default nor, where a value makes other data, any beside it."""
    asked: list[Path | None] = []

    def stop(experiment: Experiment) -> Experiment:
        asked.append(experiment.request.data)
        raise HarnessError("seen")

    monkeypatch.setattr("harness.extensions.tuning.making.prepare", stop)
    monkeypatch.setattr("harness.extensions.tuning.making.parts_of", lambda folder: {0: folder})
    record = SimpleNamespace(configurations=(), command="dlrmbench tune", options={"num_steps": 4})
    for folder in (data, users):
        base = base_in(place, folder)
        for axis in ("train.global_batch_size", "data.seed"):
            trial = create_trial(base, cast(ExperimentRecord, record), {axis: "64"})
            assert trial.failure is not None and trial.failure.reason == "seen"
    assert asked == [data, data.parent, None, None]

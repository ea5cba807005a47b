"""Where a set says that its data is: used where that very data is there, and never a place to make any."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from goldens import lay_data
from recorded_data import base_in, call

from harness.config.catalog import load_entry
from harness.experiment.experiment import Experiment
from harness.foundation.errors import ExitCode, HarnessError
from harness.run_sets.dataset import find_recorded
from reference_models.data.store.manifest import MANIFEST
from rules.records.run_set import DatasetRecord


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


def test_a_pair_makes_no_data_where_its_base_says(
    place: Path, data: Path, users: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []

    def stop(experiment: Experiment) -> Path:
        found.extend(each.prepared.data_dir for each in experiment.configurations if each.prepared is not None)
        raise HarnessError("seen")

    monkeypatch.setattr("harness.experiment.create.create", stop)
    ended = call(place, f"run --beside {base_in(place, users)} -q")
    assert ended.err.endswith("seen\n"), ended.err
    assert found == [data.relative_to(place)] * 2
    assert [path.name for path in users.iterdir()] == ["thesis.txt"]


def test_a_pair_uses_the_data_of_its_base_wherever_that_is(
    place: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def stop(kind: Any, config: Any, root: Path | None, **options: Any) -> None:
        asked.append(root)
        raise HarnessError("seen")

    monkeypatch.setattr("harness.experiment.prepare.prepare_data", stop)
    shutil.move(data, tmp_path / "moved")
    for folder in (tmp_path / "moved", data):
        assert "seen" in call(place, f"run --beside {base_in(place, folder)} -q").err
    assert asked == [tmp_path / "moved", None]
    manifest = tmp_path / "moved" / MANIFEST
    manifest.unlink()
    manifest.write_text("[")
    ended = call(place, f"run --beside {base_in(place, manifest.parent)} -q")
    assert ended.code == 8 and str(manifest) in ended.err, ended.err


def test_only_that_very_data_is_found(data: Path, users: Path) -> None:
    section = load_entry("dlrm_tiny").workload.data
    digest = json.loads((data / MANIFEST).read_text())["dataset_sha256"]

    def find(where: Path | str, sha256: str | None, **changes: str) -> Path | None:
        return find_recorded(
            replace(section, **changes), DatasetRecord(dir=str(where), dataset_sha256=sha256), Path("old")
        )

    assert find(data, digest) == data
    wrong = [(data, None), (data.parent, digest), (users, digest), (users, None), ("\0", None)]
    assert [find(*each) for each in wrong] == [None] * len(wrong)
    assert find(users, None, kind="synthetic") is None, "data in memory has no folder"
    assert find(users, None, kind="mlperf_one_hot") is None, "files of others that are not there"
    with pytest.raises(HarnessError, match=r"holds other data .* than old was measured on") as refused:
        find(data, "0" * 64)
    assert refused.value.exit_code == ExitCode.INPUT
    (users / MANIFEST).write_text("[]")
    with pytest.raises(HarnessError, match=MANIFEST) as refused:
        find(users, digest)
    assert refused.value.exit_code == ExitCode.INPUT

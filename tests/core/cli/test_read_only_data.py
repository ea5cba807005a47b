"""Data that is complete is used where nobody can write; data that is made is not made through a link."""

import errno
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command import Command
from goldens import lay_data

from harness.config.catalog import load_entry
from harness.foundation.errors import ExitCode, HarnessError
from harness.planning.learnt import Keeper
from harness.run_sets.dataset import ensure_dataset
from reference_models.data.store.manifest import MANIFEST
from rules.records.kept.learnt import LEARNT_FOLDER

DIGEST = "0123456789abcdef" * 4


@pytest.fixture
def data(data_root: Path, tmp_path: Path) -> Path:
    """A folder of datasets in the working folder, with that of dlrm_tiny."""
    return lay_data(data_root, tmp_path) / "data"


@pytest.fixture
def read_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mount that takes no lock, as users of all rights may not simulate by modes."""

    def refuse(path: Path) -> int:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    monkeypatch.setattr("harness.run_sets.dataset.open_lock", refuse)


@pytest.mark.usefixtures("read_only")
def test_complete_data_is_used_without_a_lock(inside: Command, data: Path) -> None:
    section = load_entry("dlrm_tiny").workload.data
    assert (ensure_dataset(section, data, num_threads=1) / MANIFEST).is_file()
    done = inside("data", "generate", "dlrm_tiny")
    assert done.returncode == 0 and "is already there" in done.stderr, done.stderr
    (folder,) = data.glob("click_log_tiny-*")
    (folder / MANIFEST).unlink()
    with pytest.raises(OSError, match="Read-only"):
        ensure_dataset(section, data, num_threads=1)
    done = inside("data", "generate", "dlrm_tiny")
    assert done.returncode == 2 and "Read-only file system. Choose a folder that can be written to" in done.stderr


def test_what_is_learnt_is_used_without_a_lock(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    keeper = Keeper(data_root=tmp_path, seed=0, retrain=False, say=lambda text: None)

    def keep() -> Any:
        return keeper.keep("cost_net", DIGEST, lambda: ({"weights": np.zeros(2, np.float32)}, {}), dict)

    keep()
    (tmp_path / LEARNT_FOLDER / ".lock").unlink()
    request.getfixturevalue("read_only")
    assert [*keep()] == ["weights"]


@pytest.mark.parametrize(
    "words", [("data", "generate", "mine.toml"), ("data", "prepare", "own.toml", "--train", "f")]
)
def test_no_dataset_is_made_through_a_link(words: tuple[str, ...], inside: Command, tmp_path: Path) -> None:
    (tmp_path / "users").mkdir()
    for name, source in (("mine.toml", "dlrm_tiny"), ("own.toml", "dlrm_kaggle")):
        (tmp_path / name).write_text(inside("show", source, "--format", "toml").stdout)
    (tmp_path / "f").write_text("nothing of Criteo\n")
    (tmp_path / "data").mkdir()
    first = inside(*words)  # makes the folder, whole or not
    (place,) = (tmp_path / "data").iterdir()
    place.rename(tmp_path / "moved")
    place.symlink_to(tmp_path / "users")
    done = inside(*words)
    assert done.returncode == 8 and f"data/{place.name} is a link, expected a folder of its own" in done.stderr, first
    assert [*(tmp_path / "users").iterdir()] == []


def test_complete_data_may_be_a_link(data: Path, tmp_path: Path) -> None:
    (folder,) = data.glob("click_log_tiny-*")
    folder.rename(tmp_path / "elsewhere")
    folder.symlink_to(tmp_path / "elsewhere")
    section = load_entry("dlrm_tiny").workload.data
    assert ensure_dataset(section, data, num_threads=1) == folder
    (folder / MANIFEST).unlink()
    with pytest.raises(HarnessError, match="is a link, expected a folder of its own") as refused:
        ensure_dataset(section, data, num_threads=1)
    assert refused.value.exit_code == ExitCode.INPUT


@pytest.mark.parametrize(("name", "option"), [("data", "--data"), ("results", "--output")])
def test_default_folders_are_no_links(name: str, option: str, inside: Command, tmp_path: Path) -> None:
    (tmp_path / "users").mkdir()
    (tmp_path / name).symlink_to("users")
    done = inside("run", "dlrm_tiny")
    assert done.returncode == 8 and f"{name} is a link, which nobody named" in done.stderr, done.stderr
    assert f"say {option} {name}." in done.stderr and [*(tmp_path / "users").iterdir()] == []
    done = inside("data", "verify", "dlrm_tiny")
    assert "which nobody named" not in done.stderr

"""Data that is complete is used where nobody can write; data that is made is not made through a link."""

import errno
import os
from pathlib import Path

import pytest
from command import Command
from goldens import lay_data

from harness.config.catalog import load_entry
from harness.foundation.errors import ExitCode, HarnessError
from harness.run_sets.dataset import ensure_dataset
from reference_models.data.store.manifest import MANIFEST


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


@pytest.mark.parametrize(
    ("name", "option", "variable"),
    [("data", "--data", "DLRMBENCH_DATA"), ("results", "--output", "DLRMBENCH_OUTPUT")],
)
def test_default_folders_are_no_links(
    name: str, option: str, variable: str, inside: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "users").mkdir()
    (tmp_path / name).symlink_to("users")
    done = inside("run", "dlrm_tiny")
    assert done.returncode == 8 and f"{name} is a link that you did not name" in done.stderr, done.stderr
    assert f"give {option} {name}, or set {variable}={name} for all commands." in done.stderr
    assert [*(tmp_path / "users").iterdir()] == []
    monkeypatch.setenv(variable, name)
    assert inside("plan", "dlrm_tiny", "--no-measure").returncode == 0
    done = inside("run", "none_such")  # it gets as far as the benchmark's name
    assert done.returncode == 2 and "you did not name" not in done.stderr
    done = inside("data", "verify", "dlrm_tiny")
    assert "you did not name" not in done.stderr

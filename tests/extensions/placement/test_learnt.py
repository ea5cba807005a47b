"""What is learnt is kept beside data, which may be a stranger's, and used where nobody can write."""

import errno
import os
from pathlib import Path

import pytest
from learning import learn

from rules.records.kept.learnt import LEARNT_FOLDER


def test_what_is_learnt_is_kept_where_there_is_no_link(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "data").symlink_to(tmp_path / "disk")  # which its user named
    learn(tmp_path / "data")
    (folder,) = (tmp_path / "disk" / LEARNT_FOLDER).glob("cost_net-*")
    assert (folder / "weights.npy").is_file()


def test_what_is_learnt_is_used_without_a_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a mount that takes no lock, as users of all rights may not simulate by modes."""

    def refuse(path: Path) -> int:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    learn(tmp_path)
    (tmp_path / LEARNT_FOLDER / ".lock").unlink()
    monkeypatch.setattr("harness.run_sets.dataset.open_lock", refuse)
    assert learn(tmp_path) == ["weights"]

"""Temporary folders: what a process that was killed left is removed by the next, and nothing else is."""

import os
import signal
import tempfile
from pathlib import Path

import pytest

from rules.temporary_folder import temporary_folder


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """TMPDIR, for this test alone."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    return tmp_path / "tmp"


def begin_and_be_killed(parent: Path | None, users: Path) -> None:
    """In a process of its own, which is killed with a link to a user's folder in its temporary one."""
    if (child := os.fork()) == 0:
        try:
            with temporary_folder("choice", parent) as folder:
                (folder / "link").symlink_to(users)
                (folder / "spec.json").write_text("{}")
                os.kill(os.getpid(), signal.SIGKILL)
        finally:
            os._exit(1)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL


@pytest.mark.parametrize("is_hidden", [False, True])
def test_what_a_killed_process_left_is_removed_by_the_next(is_hidden: bool, temporary: Path, tmp_path: Path) -> None:
    (users := tmp_path / "users").mkdir()
    (users / "thesis.txt").write_text("precious")
    parent = tmp_path / "results" if is_hidden else None
    where = parent or temporary
    where.mkdir(exist_ok=True)
    begin_and_be_killed(parent, users)
    (left,) = where.iterdir()
    assert left.name.startswith(".dlrmbench-choice-" if is_hidden else "dlrmbench-choice-")
    with temporary_folder("other", parent) as folder:
        assert not left.exists() and folder.parent.parent == where and list(folder.iterdir()) == []
        with temporary_folder("inner", parent):
            assert folder.exists(), "its process lives"
    assert list(where.iterdir()) == [] and (users / "thesis.txt").read_text() == "precious"


def test_what_is_none_of_these_stays(temporary: Path, tmp_path: Path) -> None:
    (temporary / "dlrmbench-notes").write_text("")
    (temporary / "dlrmbench-kernels-0").mkdir()
    (temporary / "dlrmbench-link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "lock").write_text("")
    before = {path.name for path in temporary.iterdir()}
    with temporary_folder("choice"):
        pass
    assert {path.name for path in temporary.iterdir()} == before and (tmp_path / "elsewhere" / "lock").exists()


def test_an_error_inside_leaves_nothing(temporary: Path) -> None:
    with pytest.raises(ZeroDivisionError), temporary_folder("choice") as folder:
        (folder / "spec.json").write_text("{}")
        raise ZeroDivisionError
    assert list(temporary.iterdir()) == []

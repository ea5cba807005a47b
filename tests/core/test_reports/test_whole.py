"""Files that a user named: written whole, through links, into devices and pipes, never in their place. Files in
folders of results: in place of whatever is there."""

import errno
import os
import stat
import threading
from pathlib import Path

import pytest

from reports.text.atomic_write import draft_file, replace_file


def write(path: Path, text: str) -> None:
    with draft_file(path) as draft:
        draft.write_text(text)


def test_a_file_is_replaced_by_one_rename(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("old")
    with draft_file(path) as draft:
        draft.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new" and list(tmp_path.iterdir()) == [path]


def test_an_error_leaves_the_old_file_and_no_draft(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("old")
    with pytest.raises(ValueError, match="stop"), draft_file(path) as draft:
        draft.write_text("half")
        raise ValueError("stop")
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("is_named", [False, True])
def test_an_error_of_writing_names_the_file_and_not_its_draft(tmp_path: Path, is_named: bool) -> None:
    with pytest.raises(OSError) as failed, draft_file(tmp_path / "a") as draft:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), *([str(draft)] if is_named else []))
    assert (failed.value.errno, failed.value.filename) == (errno.ENOSPC, str(tmp_path / "a"))


@pytest.mark.parametrize("exists", [True, False])
def test_a_link_stays_and_what_it_leads_to_is_written(tmp_path: Path, exists: bool) -> None:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    if exists:
        (folder / "there").write_text("old")
    link = tmp_path / "link"
    link.symlink_to("elsewhere/there")
    write(link, "new")
    assert link.is_symlink() and (folder / "there").read_text() == "new"
    assert list(folder.iterdir()) == [folder / "there"]


def test_a_link_to_itself_is_an_error(tmp_path: Path) -> None:
    link = tmp_path / "loop"
    link.symlink_to("loop")
    with pytest.raises(OSError) as refused:
        write(link, "x")
    assert refused.value.errno == errno.ELOOP and link.is_symlink()


def test_a_pipe_gets_all_of_it_and_stays(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    received: list[str] = []
    reader = threading.Thread(target=lambda: received.append(pipe.read_text()))
    reader.start()
    write(pipe, "x" * 100_000)
    reader.join()
    assert received == ["x" * 100_000] and stat.S_ISFIFO(pipe.lstat().st_mode)


def test_a_device_stays(tmp_path: Path) -> None:
    """A node as /dev/null is where one may be made, else a link to it."""
    device = tmp_path / "null"
    try:
        os.mknod(device, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    except PermissionError:
        device.symlink_to("/dev/null")
    before = device.lstat()
    write(device, "x")
    assert stat.S_ISCHR(device.stat().st_mode) and device.lstat().st_ino == before.st_ino
    assert list(tmp_path.iterdir()) == [device]


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        write(tmp_path, "x")


@pytest.mark.parametrize("kind", ["nothing", "file", "link", "pipe"])
def test_what_is_replaced_is_the_name_itself(tmp_path: Path, kind: str) -> None:
    users, page = tmp_path / "users", tmp_path / "page"
    users.write_text("the user's")
    if kind == "file":
        page.write_text("old")
    elif kind == "link":
        page.symlink_to(users)
    elif kind == "pipe":
        os.mkfifo(page)
    with replace_file(page) as draft:
        draft.write_text("new")
    assert page.read_text() == "new" and not page.is_symlink() and users.read_text() == "the user's"
    assert sorted(tmp_path.iterdir()) == [page, users]

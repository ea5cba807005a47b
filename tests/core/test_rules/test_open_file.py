"""What judges and shows opens regular files alone, of a size that is looked at before they are read."""

import os
from pathlib import Path

import pytest

from rules.open_file import NotRegularError, TooLargeError, open_regular, read_regular


@pytest.mark.parametrize("kind", ["pipe", "device", "folder", "link to a device"])
def test_what_is_no_file_is_not_opened(kind: str, tmp_path: Path) -> None:
    path = Path("/dev/zero") if kind == "device" else tmp_path / "file"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "link to a device":
        path.symlink_to("/dev/zero")
    with pytest.raises(NotRegularError):
        open_regular(path)


def test_a_file_that_is_replaced_by_a_pipe_meanwhile_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_bytes(b"content")
    about = (tmp_path / "file").stat()
    (tmp_path / "file").unlink()
    os.mkfifo(tmp_path / "file")
    monkeypatch.setattr(Path, "stat", lambda path: about)
    with pytest.raises(NotRegularError):
        open_regular(tmp_path / "file")


def test_bytes_are_bounded(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"0123456789")
    assert read_regular(path, 10) == b"0123456789"
    with pytest.raises(TooLargeError, match="10 bytes"):
        read_regular(path, 9)
    os.truncate(path, 1 << 40)
    with pytest.raises(TooLargeError) as refused:
        read_regular(path, 10)
    assert refused.value.num_bytes == 1 << 40
    with pytest.raises(TooLargeError, match="17 bytes"):
        read_regular(Path("/proc/self/status"), 16)

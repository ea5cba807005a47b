"""One way to open what strangers' files name: regular, of a size, no link, and nothing that is waited for."""

import os
import socket
from pathlib import Path

import pytest

from reference_models.process.errors import DatasetError
from reference_models.process.open_file import open_regular, read_regular


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("link", "named: a link"),
        ("pipe", "named: a pipe"),
        ("folder", "named: a folder"),
        ("socket", "named: a socket"),
        ("hole", "named: 1,099,511,627,776 bytes"),
        ("device", "/dev/zero: a device"),
        ("NUL", r"'a\\x00b': no name of a file"),
    ],
)
def test_what_is_no_regular_file_of_that_size_is_refused(
    kind: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = Path({"NUL": "a\0b", "device": "/dev/zero"}.get(kind, "named"))
    if kind == "link":
        (tmp_path / "other").write_bytes(b"1")
        path.symlink_to("other")
        assert read_regular(path, 1, follows=True) == b"1"
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(str(path))
    elif kind == "hole":
        path.touch()
        os.truncate(path, 1 << 40)
    with pytest.raises(DatasetError, match=f"{said}.*expected a regular file of at most 10 bytes"):
        open_regular(path, max_bytes=10)


def test_what_grows_while_it_is_read_is_bounded(tmp_path: Path) -> None:
    """As are the files of /proc, whose size is said to be 0."""
    with pytest.raises(DatasetError, match="more than 16 bytes"):
        read_regular(Path("/proc/self/status"), 16)
    (tmp_path / "whole").write_bytes(b"0123456789")
    assert read_regular(tmp_path / "whole", 10) == b"0123456789"
    with pytest.raises(FileNotFoundError, match="none"):
        open_regular(tmp_path / "none")

"""Dropping a file's pages and proving it, on real files."""

import mmap
import sys
from pathlib import Path
from tempfile import NamedTemporaryFile

import pytest

from harness.system import page_cache as cache
from harness.system.page_cache import can_clear, clear_page_cache, count_resident_bytes, list_files
from harness.system.resources import find_filesystem_type

NUM_BYTES = 3_000_001
MEMORY_ONLY = ("tmpfs", "ramfs")
linux = pytest.mark.skipif(not can_clear(), reason="this system has no posix_fadvise")


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    if find_filesystem_type(tmp_path) in MEMORY_ONLY:
        pytest.skip("the temporary folder is in memory, its pages cannot be dropped")
    return tmp_path


@linux
def test_pages_of_written_and_read_files_are_gone_afterwards(disk: Path) -> None:
    files = [disk / "a.bin", disk / "b.bin"]
    for file in files:
        file.write_bytes(b"x" * NUM_BYTES)
    assert count_resident_bytes(files[0]) == NUM_BYTES
    done = clear_page_cache(files)
    assert done.cleared
    assert done.num_bytes == done.resident_bytes_before == 2 * NUM_BYTES
    assert done.resident_bytes_after is not None
    assert done.resident_bytes_after <= cache.TOLERANCE * done.num_bytes
    assert "mincore" in done.method
    assert files[0].read_bytes() == b"x" * NUM_BYTES


@linux
def test_a_folder_means_all_files_below_it_and_a_file_counts_once(disk: Path) -> None:
    (disk / "sub").mkdir()
    (disk / "sub" / "a.bin").write_bytes(b"x" * NUM_BYTES)
    (disk / "link.bin").symlink_to(disk / "sub" / "a.bin")
    assert list_files([disk, disk / "sub"]) == [(disk / "sub" / "a.bin").resolve()]
    assert clear_page_cache([disk]).num_bytes == NUM_BYTES


@linux
def test_pages_that_a_mapping_holds_are_reported_as_not_cleared(disk: Path) -> None:
    file = disk / "mapped.bin"
    file.write_bytes(b"x" * NUM_BYTES)
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, prot=mmap.PROT_READ) as mapped:
        assert sum(mapped[:: mmap.PAGESIZE]) > 0
        done = clear_page_cache([file])
    assert not done.cleared
    assert "stayed" in done.method
    assert done.resident_bytes_after == NUM_BYTES


@linux
def test_files_in_memory_cannot_be_cleared_and_that_is_said() -> None:
    memory = Path("/dev/shm")
    if find_filesystem_type(memory) not in MEMORY_ONLY:
        pytest.skip("no tmpfs at /dev/shm")
    with NamedTemporaryFile(dir=memory, prefix="dlrmbench-") as file:
        file.write(b"x" * NUM_BYTES)
        file.flush()
        done = clear_page_cache([Path(file.name)])
    assert (done.cleared, "tmpfs" in done.method) == (False, True)


@linux
def test_where_mincore_is_denied_nothing_is_claimed(disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = disk / "foreign.bin"
    file.write_bytes(b"x" * NUM_BYTES)
    monkeypatch.setattr(cache, "_may_ask", lambda path: False)
    done = clear_page_cache([file])
    assert not done.cleared
    assert (done.resident_bytes_before, done.resident_bytes_after) == (None, None)
    assert "not proved" in done.method


def test_other_systems_say_that_they_cannot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.bin").write_bytes(b"x")
    monkeypatch.setattr(sys, "platform", "darwin")
    done = clear_page_cache([tmp_path / "a.bin"])
    assert (done.cleared, done.resident_bytes_after) == (False, None)
    assert "darwin" in done.method


def test_no_files_and_empty_files_are_clear(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    assert clear_page_cache([]).cleared
    assert count_resident_bytes(tmp_path / "empty") == 0 or not can_clear()


def test_a_missing_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"gone\.bin"):
        clear_page_cache([tmp_path / "gone.bin"])

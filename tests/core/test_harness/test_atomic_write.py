"""The two writers, of what trains and of what shows, which do not import each other: one behaviour."""

import errno
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from reference_models.process import atomic_write as training
from reports.text import atomic_write as showing

Write = Callable[[Path, str], None]
DRAFT = "0123456789abcdef"


@contextmanager
def _by_training(path: Path) -> Iterator[Callable[[str], object]]:
    with training.replace_file(path) as file:
        yield lambda text: file.write(text.encode())


@contextmanager
def _by_showing(path: Path) -> Iterator[Callable[[str], object]]:
    with showing.replace_file(path) as draft:
        yield lambda text: showing.write_new(draft, text)


WRITERS = {"training": _by_training, "showing": _by_showing}


@pytest.fixture(params=WRITERS)
def opened(request: pytest.FixtureRequest) -> Callable[[Path], object]:
    return WRITERS[request.param]


def write(opened: Callable[[Path], object], path: Path, text: str) -> None:
    with opened(path) as put:  # type: ignore[attr-defined]
        put(text)


def everything(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


@pytest.mark.parametrize("kind", ["nothing", "file", "link", "link to nothing", "link to a folder", "pipe"])
def test_whatever_has_the_name_gives_way(kind: str, opened: Callable[[Path], object], tmp_path: Path) -> None:
    path, victim = tmp_path / "here" / "page", tmp_path / "outside" / "thesis"
    for each in (path, victim):
        each.parent.mkdir()
    victim.write_text("the user's")
    if kind == "file":
        path.write_text("before")
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind != "nothing":
        path.symlink_to(
            {"link": victim, "link to nothing": victim.with_name("new"), "link to a folder": victim.parent}[kind]
        )
    write(opened, path, "é\r\nafter\n")
    assert stat.S_ISREG(path.lstat().st_mode) and path.read_bytes() == "é\r\nafter\n".encode()
    assert everything(tmp_path) == ["here", "here/page", "outside", "outside/thesis"]
    assert victim.read_text() == "the user's"


def test_an_error_leaves_what_was_there_and_names_it(opened: Callable[[Path], object], tmp_path: Path) -> None:
    path = tmp_path / "page"
    path.write_text("before")
    for error in (OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()):
        with pytest.raises(type(error)) as raised, opened(path) as put:  # type: ignore[attr-defined]
            put("half")
            raise error
        if isinstance(raised.value, OSError):
            assert raised.value.filename == str(path)
        assert everything(tmp_path) == ["page"] and path.read_text() == "before"


def test_a_folder_is_not_replaced(opened: Callable[[Path], object], tmp_path: Path) -> None:
    (tmp_path / "page").mkdir()
    with pytest.raises(IsADirectoryError):
        write(opened, tmp_path / "page", "text")
    assert everything(tmp_path) == ["page"]


def test_a_draft_is_written_through_nothing(
    opened: Callable[[Path], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even who foresaw its name, which nobody does."""
    monkeypatch.setattr(secrets, "token_hex", lambda num_bytes: DRAFT)
    path, victim = tmp_path / "page", tmp_path / "thesis"
    victim.write_text("the user's")
    for name in (f"page.{DRAFT}.partial", f".{DRAFT}.partial"):
        (tmp_path / name).symlink_to(victim)
    monkeypatch.setattr(training, "remove_drafts", lambda path: None)
    with pytest.raises(FileExistsError):
        write(opened, path, "text")
    assert not path.exists() and victim.read_text() == "the user's"


def test_what_was_written_is_on_the_disk_before_it_has_the_name(
    opened: Callable[[Path], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A power cut leaves the old or the new file: the file is synced, then renamed, then its folder is synced."""
    done, path, fsync, replace = list[str](), tmp_path / "page", os.fsync, Path.replace

    def sync(descriptor: int) -> None:
        found = os.fstat(descriptor)
        done.append("folder" if stat.S_ISDIR(found.st_mode) else f"{found.st_size} bytes")
        fsync(descriptor)

    def rename(draft: Path, target: Path) -> Path:
        done.append(f"named {target.name}")
        return replace(draft, target)

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(Path, "replace", rename)
    write(opened, path, "text")
    assert done == ["4 bytes", "named page", "folder"]

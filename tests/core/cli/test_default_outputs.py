"""Files that no user named, in a working folder that may be a stranger's: written there, never where a link leads."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from report_builder import write_run_set
from seams import find_seams

from harness import api

Command = Callable[..., "subprocess.CompletedProcess[str]"]
PAGES = {
    "report.html": ("report", "results", "--no-second-opinion"),
    **{name: tuple(words.split()) for name, words in find_seams("PAGES").items()},
}
PRECIOUS = "the user's"


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A file of the user's elsewhere, and a folder of results here."""
    write_run_set(tmp_path / "results" / "set")
    (tmp_path / "elsewhere").mkdir()
    path = tmp_path / "elsewhere" / "thesis.txt"
    path.write_text(PRECIOUS)
    return path


@pytest.mark.parametrize("kind", ["link", "link to nothing", "link to a folder", "pipe"])
@pytest.mark.parametrize("name", PAGES)
def test_a_default_page_takes_the_place_of_a_link_or_a_pipe(
    name: str, kind: str, inside: Command, victim: Path, tmp_path: Path
) -> None:
    page, targets = tmp_path / name, {"link": victim, "link to a folder": victim.parent}
    if kind == "pipe":
        os.mkfifo(page)
    else:
        page.symlink_to(targets.get(kind, victim.with_name("new")))
    done = inside(*PAGES[name])
    assert (done.returncode, done.stdout) == (0, f"{name}\n"), done.stderr
    assert page.is_file() and not page.is_symlink() and page.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert victim.read_text() == PRECIOUS and list(victim.parent.iterdir()) == [victim]


@pytest.mark.parametrize("name", PAGES)
def test_a_folder_in_the_place_of_a_page_is_refused(name: str, inside: Command, victim: Path, tmp_path: Path) -> None:
    (tmp_path / name).mkdir()
    for given in ((), ("-o", name)):
        done = inside(*PAGES[name], *given)
        assert done.returncode == 2 and f"{name}: is a directory. Give --output a file" in done.stderr
    assert list((tmp_path / name).iterdir()) == []


@pytest.mark.parametrize("name", PAGES)
def test_a_link_that_is_named_is_followed(name: str, inside: Command, victim: Path, tmp_path: Path) -> None:
    (tmp_path / name).symlink_to(victim)
    assert inside(*PAGES[name], "-o", name).returncode == 0
    assert (tmp_path / name).is_symlink() and victim.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_the_default_page_from_python_is_no_link_either(
    victim: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("report.html").symlink_to(victim)
    page = api.render("results", second_opinion=False)
    assert page == Path("report.html") and not page.is_symlink() and victim.read_text() == PRECIOUS
    (tmp_path / "named.html").symlink_to(victim)
    assert api.render("results", output="named.html", second_opinion=False).is_symlink()
    assert victim.read_text() != PRECIOUS


def test_tables_in_a_folder_that_is_named_are_files_of_it(inside: Command, victim: Path, tmp_path: Path) -> None:
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "runs.parquet").symlink_to(victim)
    done = inside("report", "results", "--format", "parquet", "-o", "tables", "--no-second-opinion")
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "tables" / "runs.parquet").is_symlink() and victim.read_text() == PRECIOUS


def test_a_definition_is_not_begun_through_a_link(inside: Command, tmp_path: Path) -> None:
    for name in ("mine.toml", "mine.py"):
        (tmp_path / name).symlink_to(tmp_path / "elsewhere")
        done = inside("init", "--model", "mine.py")
        assert done.returncode == 2 and f"{name}: exists already" in done.stderr, done.stderr
        assert [path.name for path in tmp_path.iterdir()] == [name]
        (tmp_path / name).unlink()

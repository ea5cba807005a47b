"""Links, pipes and locks in a folder that a stranger made: what is written there never goes where they lead."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from sweep_builder import FastWorkers
from waiting import needs_two_cpus

CommandLine = Callable[..., tuple[int, str, str]]


@pytest.fixture
def mine(command: CommandLine, workers: FastWorkers, data_root: Path, tmp_path: Path) -> Path:
    """A set of two runs."""
    code, _, err = command("run", "dlrm_tiny", "--data", data_root, "-n", 2, "-q", "-o", tmp_path / "out")
    assert code == 0, err
    return (tmp_path / "out" / "latest").resolve()


@pytest.fixture
def users(tmp_path: Path) -> Path:
    """A folder of the user's, elsewhere."""
    folder = tmp_path / "users"
    (folder / "weights").mkdir(parents=True)
    (folder / "weights" / "thesis.txt").write_text("precious")
    return folder


def content_of(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


PLACES = (
    "extra/run_2", "extra/run_1", "extra/run_1/weights", "extra/run_0/attempt_0", "extra", "results", "results/*",
    "results/*/*", "systems", "extra/profile",
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES)
def test_nothing_is_written_into_folders_that_are_links(
    command: CommandLine, mine: Path, users: Path, place: str
) -> None:
    path = next(mine.glob(place), mine / place)
    if path.exists():
        shutil.copytree(path, users, dirs_exist_ok=True)
        shutil.rmtree(path)
    path.symlink_to(users)
    before = content_of(users)
    code, _, err = command("resume", mine, "--runs", 3, "-q")
    assert code == 8 and str(path) in err and "is a link" in err and "Remove the link" in err
    assert content_of(users) == before


@pytest.mark.parametrize("place", ["extra/lock", "extra/run_set.json.partial", "extra/run_set.json"])
def test_nothing_is_written_through_files_that_are_links(
    command: CommandLine, mine: Path, tmp_path: Path, place: str
) -> None:
    path, victim = mine / place, tmp_path / "victim"
    if path.exists():
        victim.write_bytes(path.read_bytes())
    path.unlink(missing_ok=True)
    path.symlink_to(victim)
    before = victim.read_bytes() if victim.exists() else None
    code, _, err = command("resume", mine, "--runs", 3, "-q")
    assert code == 8 and str(path) in err, err
    assert (victim.read_bytes() if victim.exists() else None) == before


def test_a_profile_is_not_written_through_a_link(
    command: CommandLine, mine: Path, users: Path, data_root: Path
) -> None:
    (mine / "extra" / "profile").symlink_to(users)
    before = content_of(users)
    code, _, err = command("profile", "dlrm_tiny", "--data", data_root, "-o", mine, "-q")
    assert code == 8 and str(mine / "extra" / "profile") in err
    assert content_of(users) == before


@pytest.mark.slow
@pytest.mark.parametrize("name", ["run_set.json.partial", "run_set.json.0123456789abcdef.partial"])
def test_a_pipe_in_the_place_of_a_draft_is_removed_and_not_waited_for(
    command: CommandLine, mine: Path, name: str
) -> None:
    """As is what a process that was killed left of it."""
    os.mkfifo(mine / "extra" / name)
    code, _, err = command("resume", mine, "--runs", 3, "-q")
    assert code == 0, err
    assert not list(mine.rglob("*.partial")) and (mine / "extra" / "run_2").is_dir()


@pytest.mark.slow
@needs_two_cpus
def test_a_configuration_of_a_sweep_is_no_link(
    command: CommandLine, workers: FastWorkers, data_root: Path, tmp_path: Path
) -> None:
    options = ["--throughput", 5, "--axis", "runtime.threads=1,2", "--data", data_root, "-q", "-o", tmp_path / "out"]
    assert command("sweep", "dlrm_tiny", *options)[0] == 0
    sweep = (tmp_path / "out" / "latest").resolve()
    first = next(sweep.glob("01-*"))
    first.rename(tmp_path / "users")
    first.symlink_to(tmp_path / "users")
    before = content_of(tmp_path / "users")
    code, _, err = command("resume", sweep, "-n", 6, "-q")
    assert code == 8 and str(first) in err
    assert content_of(tmp_path / "users") == before


@pytest.mark.slow
def test_links_that_the_user_gives_are_followed(command: CommandLine, mine: Path, tmp_path: Path) -> None:
    """The name `latest`, a folder of results on another disk, and what lies beside the parts of a set."""
    (tmp_path / "disk").symlink_to(tmp_path / "out")
    (mine / "notes.txt").symlink_to(tmp_path / "nowhere")
    for number, folder in ((3, tmp_path / "out" / "latest"), (4, tmp_path / "disk" / mine.name)):
        code, _, err = command("resume", folder, "--runs", number, "-q")
        assert code == 0, err
        assert (mine / "extra" / f"run_{number - 1}").is_dir()

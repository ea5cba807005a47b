"""A calibration's folder may be a stranger's: what its links lead to stays, and nothing there is waited for."""

import fcntl
import json
import os
from pathlib import Path

import pytest
from calibration_builder import calibration_of, crossing_at, result
from command import Command
from small_entry import small_entry

from harness.config.catalog import Entry
from harness.extensions.calibration.calibrate import write_calibration
from harness.extensions.calibration.runs import RUNS_FILE, RunStore
from harness.foundation.errors import ExitCode, HarnessError
from harness.run_sets.folder import LOCK_FILE
from rules.records.calibration import CalibrationRecord

NAMES = (RUNS_FILE, "calibration.md", "dlrm_tiny.calibration.json", "dlrm_tiny.rcps.json")
TOKEN = "a secret without its line feed"
QUICK = ("calibrate", "dlrm_tiny", "--quick", "-o", "cal")


@pytest.fixture(scope="module")
def mine(tmp_path_factory: pytest.TempPathFactory) -> Entry:
    return small_entry(tmp_path_factory.mktemp("definition"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "cal").mkdir()
    return tmp_path / "cal"


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    path = tmp_path / "victim"
    path.write_text(TOKEN)
    return path


@pytest.fixture
def calibration(mine: Entry) -> CalibrationRecord:
    return calibration_of(mine, [crossing_at(13, mine.benchmark.quality.target)])


@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
@pytest.mark.parametrize("name", NAMES)
def test_a_link_or_what_is_no_file_is_refused_before_anything_is_trained(
    name: str, kind: str, inside: Command, folder: Path, victim: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.run_sets.dataset.ensure_dataset", lambda *given, **options: pytest.fail("too late"))
    if kind == "link":
        (folder / name).symlink_to(victim)
    elif kind == "pipe":
        os.mkfifo(folder / name)
    else:
        (folder / name).mkdir()
    done = inside(*QUICK)
    assert done.returncode == 8, done.stderr
    assert f"cal/{name} is no regular file, expected a calibration's file or nothing. Remove it." in done.stderr
    assert victim.read_text() == TOKEN and [path.name for path in folder.iterdir()] == [name]


def test_a_lock_is_held_and_is_no_link(inside: Command, folder: Path, victim: Path) -> None:
    (folder / LOCK_FILE).symlink_to(victim)
    done = inside(*QUICK)
    assert done.returncode == 8 and f"cal/{LOCK_FILE} is a link" in done.stderr
    (folder / LOCK_FILE).unlink()
    with (folder / LOCK_FILE).open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        done = inside(*QUICK)
    assert done.returncode == 2 and "cal: another process is writing this calibration. Wait for it" in done.stderr
    assert [path.name for path in folder.iterdir()] == [LOCK_FILE]


def test_only_a_folder_that_is_named_may_be_a_link(inside: Command, folder: Path, tmp_path: Path) -> None:
    default = tmp_path / "results" / "dlrm_tiny-calibration"
    default.parent.mkdir()
    default.symlink_to(folder)
    done = inside("calibrate", "dlrm_tiny", "--quick")
    assert done.returncode == 8 and "is a link, which nobody named" in done.stderr and not list(folder.iterdir())
    (folder / RUNS_FILE).write_text("nonsense\n")  # which ends the command when it is read
    done = inside("calibrate", "dlrm_tiny", "--quick", "-o", default)
    assert done.returncode == 8 and f"{default}/{RUNS_FILE}:1: not a calibration run" in done.stderr


@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_what_is_put_there_meanwhile_is_not_written_through(
    kind: str, mine: Entry, calibration: CalibrationRecord, folder: Path, victim: Path
) -> None:
    store = RunStore(folder, "digest")
    names = (RUNS_FILE, "calibration.md", "mine.calibration.json", "mine.rcps.json")
    for name in names:
        if kind == "link":
            (folder / name).symlink_to(victim)
        else:
            os.mkfifo(folder / name)
    with pytest.raises(HarnessError, match=r"runs.jsonl is no regular file") as refused:
        store.add(result((0.6,)))
    assert refused.value.exit_code == ExitCode.INPUT
    with pytest.raises(HarnessError, match=r"runs.jsonl is no regular file"):
        RunStore(folder, "digest")
    for path in write_calibration(folder, mine, calibration):
        assert path.is_file() and not path.is_symlink() and path.stat().st_size > 100
    assert victim.read_text() == TOKEN and sorted(path.name for path in folder.iterdir()) == sorted(names)


@pytest.mark.parametrize(
    "content",
    [TOKEN.encode(), b"\xff\n", b"[" * 100_000 + b"\n", b'{"problem": "' + b"x" * (1 << 20) + b'"}\n', b"\n", b"{\r"],
    ids=["no line of ours", "no UTF-8", "deep", "long", "empty", "no line feed"],
)
def test_what_is_no_run_of_ours_is_named_and_stays(content: bytes, folder: Path) -> None:
    RunStore(folder, "digest").add(result((0.6,)))
    path = folder / RUNS_FILE
    path.write_bytes(path.read_bytes() + content)
    before = path.read_bytes()
    with pytest.raises(HarnessError, match=r"runs.jsonl:2: not a calibration run") as refused:
        RunStore(folder, "digest")
    assert refused.value.exit_code == ExitCode.INPUT and path.read_bytes() == before


@pytest.mark.parametrize(
    "changes",
    [
        {"qualities": [float("nan")]},
        {"qualities": [2]},
        {"train_s": float("inf")},
        {"train_s": -1},
        {"samples_counts": [0]},
        {"samples_counts": [10**400]},
        {"samples_counts": [1, 2]},
        {"train_samples": 0},
        {"samples_counts": [2, 1], "qualities": [0.5, 0.6]},
    ],
    ids=str,
)
def test_numbers_that_no_run_has_are_no_run_of_ours(changes: dict[str, object], folder: Path) -> None:
    RunStore(folder, "digest").add(result((0.6,)))
    path = folder / RUNS_FILE
    path.write_text(path.read_text() + json.dumps(json.loads(path.read_text()) | changes) + "\n")
    with pytest.raises(HarnessError, match=r"runs.jsonl:2: not a calibration run"):
        RunStore(folder, "digest")


def test_a_file_of_another_name_is_not_added_to(folder: Path, victim: Path) -> None:
    store = RunStore(folder, "digest")
    os.link(victim, folder / RUNS_FILE)
    with pytest.raises(HarnessError, match=r"runs.jsonl is a hard link: what is written there changes") as refused:
        store.add(result((0.6,)))
    assert refused.value.exit_code == ExitCode.INPUT and victim.read_text() == TOKEN


def test_a_file_that_is_too_large_is_not_read(folder: Path) -> None:
    (folder / RUNS_FILE).touch()
    os.truncate(folder / RUNS_FILE, 1 << 30)
    with pytest.raises(HarnessError, match=r"more than 33,554,432 bytes, .* or give another --output") as refused:
        RunStore(folder, "digest")
    assert refused.value.exit_code == ExitCode.INPUT


def test_a_line_that_lacks_only_its_end_is_written_again_and_not_gone_on_with(folder: Path) -> None:
    first, second = result((0.6,), seed=1), result((0.7,), seed=2)
    store = RunStore(folder, "digest")
    store.add(first)
    store.add(second)
    path = folder / RUNS_FILE
    path.write_bytes(path.read_bytes()[:-1])
    again = RunStore(folder, "digest")
    assert again.get(first.run) == first and again.get(second.run) is None
    again.add(second)
    assert RunStore(folder, "digest").get(second.run) == second

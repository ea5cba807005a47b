"""A choice that cannot be kept beside the data is said to be lost, and the run goes on with it."""

import os
from pathlib import Path

import pytest

from harness.autotune.choices import FOLDER, Candidates
from harness.autotune.tuning import Preparation, autotune
from harness.config.run_config import Override, resolve
from rules.records.run_set import ChoiceRecord, MatmulRecord


def answer(question: Candidates, earlier: MatmulRecord | None) -> ChoiceRecord:
    """One thread, as if it had been timed."""
    return ChoiceRecord(
        key=question.key,
        num_threads=1,
        spin_count=question.spin_counts[0],
        tried=(),
        matmul=None,
        matmul_source=None,
        chosen_utc="2026-11-22T00:00:00+00:00",
    )


@pytest.mark.parametrize("place", ["", ".lock", "file"])
@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_a_link_or_a_pipe_in_its_place_costs_the_file_and_not_the_run(
    kind: str, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of the folder, its lock or the file itself, in a dataset that may be a stranger's."""
    monkeypatch.setattr("harness.autotune.tuning.is_system_busy", lambda *_: False)
    folder, users = tmp_path / "data" / FOLDER, tmp_path / "users"
    config = resolve("dlrm_tiny", [Override(key="runtime.implementation", value="optimized", source="test")])
    prepared = Preparation(data_dir=folder.parent, num_threads=2, size=(512, 4096))
    folder.mkdir(parents=True)
    autotune(config, prepared, known={}, measure=answer)
    (path,) = folder.glob("*.json")
    (folder / ".lock").unlink()
    path.unlink()
    taken = {"": folder, ".lock": folder / ".lock", "file": path}[place]
    if place == "":
        folder.rmdir()
        users.mkdir()
    if kind == "link":
        taken.symlink_to(users)
    else:
        os.mkfifo(taken)
    capsys.readouterr()
    made = autotune(config, prepared, known={}, measure=answer)
    assert made.choice is not None and made.num_threads == 1
    is_kept = (kind, place) == ("pipe", ".lock")  # a lock is not read
    assert ("not kept: " in capsys.readouterr().err) is not is_kept
    assert not users.exists() or list(users.iterdir()) == []

"""Files of ours in folders that may be anyone's: whole or not there, and never through what lies in their place."""

import os
from pathlib import Path

import numpy as np
import pytest

from reference_models.data.registry import parse_data
from reference_models.data.store.layout import CLICKS
from reference_models.data.store.manifest import MANIFEST, write_manifest
from reference_models.data.store.store import Chunk, SplitWriter
from reference_models.process.atomic_write import replace_file, write_atomically


@pytest.fixture
def users(tmp_path: Path) -> Path:
    """A file of the user's, elsewhere."""
    path = tmp_path / "users" / "thesis.txt"
    path.parent.mkdir()
    path.write_text("precious")
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "folder"
    path.mkdir()
    return path


def test_a_file_is_replaced_by_one_rename(folder: Path) -> None:
    path = folder / "a.json"
    path.write_text("old")
    with replace_file(path) as file:
        file.write(b"new")
        file.flush()
        assert path.read_text() == "old"
    assert path.read_text() == "new" and list(folder.iterdir()) == [path]


def test_an_error_leaves_the_old_file_and_no_draft(folder: Path) -> None:
    path = folder / "a.json"
    path.write_text("old")
    with pytest.raises(ValueError, match="stop"), replace_file(path) as file:
        file.write(b"half")
        raise ValueError("stop")
    assert path.read_text() == "old" and list(folder.iterdir()) == [path]


@pytest.mark.parametrize("name", ["a.json", "a.json.partial", "a.json.0123456789abcdef.partial"])
@pytest.mark.parametrize("kind", ["link", "pipe", "file"])
def test_what_lies_in_the_place_of_a_file_or_its_drafts_gives_way(
    folder: Path, users: Path, kind: str, name: str
) -> None:
    """What a killed process left, and what a stranger laid there: neither is written through, nor waited for."""
    place = folder / name
    if kind == "link":
        place.symlink_to(users)
    elif kind == "pipe":
        os.mkfifo(place)
    else:
        place.write_text("left")
    other = folder / "b.json.partial"
    other.write_text("another file's")
    write_atomically(folder / "a.json", "new")
    assert (folder / "a.json").read_text() == "new" and not (folder / "a.json").is_symlink()
    assert users.read_text() == "precious" and sorted(folder.iterdir()) == [folder / "a.json", other]


def test_a_draft_whose_name_was_guessed_is_not_written_to(
    folder: Path, users: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lay_a_link(num_bytes: int) -> str:
        (folder / f"a.json.{'0' * 16}.partial").symlink_to(users)
        return "0" * 16

    monkeypatch.setattr("secrets.token_hex", lay_a_link)
    with pytest.raises(FileExistsError):
        write_atomically(folder / "a.json", "new")
    assert users.read_text() == "precious" and not (folder / "a.json").exists()


def test_a_dataset_is_not_written_through_links(folder: Path, users: Path) -> None:
    for name in (*CLICKS.files, MANIFEST, f"{MANIFEST}.partial"):
        (folder / name).symlink_to(users)
    sizes = parse_data({"kind": "criteo", "name": "small", "num_dense": 2, "num_embeddings": [1, 1, 1]})
    chunk = Chunk(np.zeros(4, np.uint8), np.zeros((4, 2), np.float32), np.zeros((4, 3), np.int32))
    for split in ("train", "eval"):
        writer = SplitWriter(folder, split, 4, sizes)
        writer.write(0, chunk)
        writer.close()
    write_manifest(folder, CLICKS, {"kind": "criteo", "name": "small"})
    assert users.read_text() == "precious"
    assert sorted(path.name for path in folder.iterdir()) == sorted((*CLICKS.files, MANIFEST))
    assert not any(path.is_symlink() for path in folder.iterdir())

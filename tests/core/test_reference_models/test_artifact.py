"""Folders of named arrays, of whatever owner: written whole or not at all, and nothing in them taken on trust."""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, get_args, get_type_hints

import numpy as np
import pytest

from reference_models.process.artifact import WrittenArray, check_artifact, read_arrays, write_artifact
from reference_models.process.errors import ArtifactError, ConfigError
from rules.records.kept.arrays import ArrayRecord

ARRAYS = {
    "state.step": np.array(7),
    "ids": np.arange(12, dtype=np.int64).reshape(3, 4),
    "turned": np.arange(6.0, dtype=np.float32).reshape(2, 3).T,
    "big_endian": np.array([1, 2, 3], dtype=">i4"),
    "none": np.zeros((0, 3), dtype=np.float16),
}


def describe(written: Mapping[str, WrittenArray]) -> str:
    """A manifest of some owner, who keeps more in it than arrays."""
    return json.dumps({"owner": "a test", "arrays": {name: asdict(array) for name, array in written.items()}})


def stored_in(folder: Path) -> dict[str, WrittenArray]:
    arrays = json.loads((folder / "manifest.json").read_text())["arrays"]
    return {name: WrittenArray(**{**array, "shape": tuple(array["shape"])}) for name, array in arrays.items()}


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    folder = tmp_path / "run" / "state"
    folder.parent.mkdir()
    write_artifact(folder, ARRAYS, describe)
    return folder


def test_arrays_come_back_as_they_were(kept: Path) -> None:
    stored = stored_in(kept)
    check_artifact(kept, stored)
    read = read_arrays(kept, stored)
    assert read.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        assert read[name].dtype == array.dtype.newbyteorder("<") and np.array_equal(read[name], array), name
        assert np.array_equal(np.load(kept / f"{name}.npy", allow_pickle=False), array), name
    assert list(kept.parent.iterdir()) == [kept]


def test_one_that_is_there_and_drafts_of_it_give_way(kept: Path, tmp_path: Path) -> None:
    users = tmp_path / "users"
    users.mkdir()
    (users / "thesis.txt").write_text("precious")
    (kept.parent / "state.partial").mkdir()
    (kept.parent / "state.partial" / "ids.npy").write_bytes(b"begun by a process that was killed")
    (kept.parent / "state.0123456789abcdef.partial").symlink_to(users)
    write_artifact(kept, {"ids": ARRAYS["ids"]}, describe)
    assert [path.name for path in kept.parent.iterdir()] == ["state"] and list(stored_in(kept)) == ["ids"]
    assert (users / "thesis.txt").read_text() == "precious"


def test_a_link_in_its_place_is_replaced_and_what_it_leads_to_stays(tmp_path: Path) -> None:
    users = tmp_path / "users"
    users.mkdir()
    (users / "ids.npy").write_text("precious")
    (tmp_path / "state").symlink_to(users)
    write_artifact(tmp_path / "state", ARRAYS, describe)
    assert not (tmp_path / "state").is_symlink() and (tmp_path / "state" / "ids.npy").is_file()
    assert [path.read_text() for path in users.iterdir()] == ["precious"]


def test_a_draft_whose_name_was_guessed_is_not_written_into(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "users").mkdir()

    def lay_a_link(num_bytes: int) -> str:
        (tmp_path / f"state.{'0' * 16}.partial").symlink_to("users")
        return "0" * 16

    monkeypatch.setattr("secrets.token_hex", lay_a_link)
    with pytest.raises(FileExistsError):
        write_artifact(tmp_path / "state", ARRAYS, describe)
    assert list((tmp_path / "users").iterdir()) == []


def test_a_manifest_that_cannot_be_made_leaves_what_was_there(kept: Path) -> None:
    def fail(written: Mapping[str, WrittenArray]) -> str:
        raise ValueError(f"nothing to say of {len(written)} arrays")

    with pytest.raises(ValueError, match="of 1 arrays"):
        write_artifact(kept, {"ids": ARRAYS["ids"]}, fail)
    assert stored_in(kept).keys() == ARRAYS.keys() and list(kept.parent.iterdir()) == [kept]


@pytest.mark.parametrize("name", ["../escape", "a/b", "", ".", "a..b", "/tmp/x", "x" * 201])
@pytest.mark.parametrize("array", [np.ones(2), np.array([{"a": 1}, None], dtype=object)])
def test_what_cannot_be_a_file_of_its_own_is_not_written(name: str, array: Any, tmp_path: Path) -> None:
    names = [name] if array.dtype != object else ["a"]
    with pytest.raises(ConfigError, match="cannot be kept"):
        write_artifact(tmp_path / "state", dict.fromkeys(names, array), describe)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("change", [{"dtype": "object"}, {"num_bytes": 1}, {"shape": (1 << 50,)}, {"shape": (4, 3)}])
def test_a_manifest_that_says_something_else_is_damage(change: dict[str, Any], kept: Path) -> None:
    stored = {"ids": WrittenArray(**{**asdict(stored_in(kept)["ids"]), **change})}
    with pytest.raises(ArtifactError, match="ids"):
        check_artifact(kept, stored)
        read_arrays(kept, stored)


@pytest.mark.parametrize("kind", ["link", "pipe", "changed"])
def test_a_file_that_is_not_as_it_was_written_is_damage(kind: str, kept: Path) -> None:
    stored, path = stored_in(kept), kept / "ids.npy"
    content = path.read_bytes()
    path.unlink()
    if kind == "link":
        (kept / "other").write_bytes(content)
        path.symlink_to("other")
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.write_bytes(content[:-1] + b"\xff")
    with pytest.raises(ArtifactError, match=r"ids\.npy"):
        check_artifact(kept, stored)
        read_arrays(kept, stored)


def test_manifests_know_the_types_that_are_written(tmp_path: Path) -> None:
    types = get_args(get_type_hints(ArrayRecord)["dtype"])
    written = write_artifact(tmp_path / "state", {name: np.ones(3, dtype=name) for name in types}, describe)
    assert [array.dtype for array in written.values()] == list(types)
    for name in ("uint16", "complex64"):
        with pytest.raises(ConfigError, match=f"of type {name} cannot be kept"):
            write_artifact(tmp_path / "state", {"a": np.ones(3, dtype=name)}, describe)

"""Rows of files that were not prepared: they become what preparing them as evaluation makes of them."""

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from reference_models.config.sections import DataConfig
from reference_models.data.columns import encode
from reference_models.data.columns.encode import encode_file
from reference_models.data.columns.files import ColumnFile
from reference_models.data.columns.prepare import prepare_columns
from reference_models.data.prepared.kept import FOLDER
from reference_models.data.registry import open_dataset, parse_data, verify_dataset
from reference_models.process.errors import ConfigError, DatasetError

NUM_ROWS, NUM_TRAIN = 1000, 900
PARAMETERS: dict[str, Any] = {
    "label": "click",
    "dense": [
        {"column": "price", "transform": "standardised"},
        {"column": "age", "transform": "log1p"},
        {"column": "share"},
    ],
    "sparse": [
        {"column": "user", "min_count": 2},
        {"column": "site", "rows": 50},
        {"column": "tags", "separator": "|", "max_ids": 3},
    ],
}


def make_frame() -> pd.DataFrame:
    draw = np.random.default_rng(8)
    frame = pd.DataFrame(
        {
            "user": [f"u{number}" for number in draw.zipf(1.4, NUM_ROWS) % 400],
            "site": [f"s{number}" for number in draw.integers(0, 300, NUM_ROWS)],
            "tags": ["|".join("abcde"[row % 3 : row % 3 + row % 4]) for row in range(NUM_ROWS)],
            "price": np.round(draw.lognormal(2, 1, NUM_ROWS), 2),
            "age": draw.integers(0, 90, NUM_ROWS),
            "share": np.round(draw.random(NUM_ROWS), 3),
            "click": draw.integers(0, 2, NUM_ROWS),
        }
    )
    frame.loc[draw.random(NUM_ROWS) < 0.1, ["user", "price"]] = None
    return frame


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, DataConfig]:
    """A dataset, whose evaluation is the last rows of the frame, and its definition."""
    folder = tmp_path_factory.mktemp("encoded")
    make_frame().to_csv(folder / "a.csv", index=False)
    data = parse_data({"kind": "columns", "name": "mine", "parameters": PARAMETERS})
    prepare_columns([folder / "a.csv"], [], data, folder / "d")
    return folder / "d", data


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_rows_without_a_label_are_those_that_evaluation_has(
    prepared: tuple[Path, DataConfig], tmp_path: Path, form: str
) -> None:
    folder, data = prepared
    rows = make_frame()[NUM_TRAIN:].drop(columns="click")
    path = tmp_path / f"new.{form}"
    if form == "csv":
        rows.to_csv(path, index=False)
    else:
        rows.to_parquet(path)
    pieces = list(encode_file(path, data, folder))
    expected = open_dataset(folder, data).eval.read(0, NUM_ROWS - NUM_TRAIN)
    assert np.array_equal(np.concatenate([piece.rows for piece in pieces]), np.arange(1, 101))
    assert np.array_equal(np.concatenate([piece.dense for piece in pieces]), expected.dense.numpy())
    assert np.array_equal(np.concatenate([piece.ids for piece in pieces]), expected.indices.numpy())


def test_a_malformed_row_among_many_has_no_place_and_the_others_keep_theirs(
    prepared: tuple[Path, DataConfig], tmp_path: Path
) -> None:
    folder, data = prepared
    rows = pd.concat([make_frame()] * 3).astype({"price": object})
    rows.iloc[1233, rows.columns.get_loc("price")] = "dear"
    rows.to_csv(tmp_path / "new.csv", index=False)
    found = np.concatenate([piece.rows for piece in encode_file(tmp_path / "new.csv", data, folder)])
    assert np.array_equal(found, np.delete(np.arange(1, 3001), 1233))


def test_what_is_wrong_with_rows_is_counted_piece_by_piece_and_not_piled_up(
    prepared: tuple[Path, DataConfig], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, data = prepared
    files: list[ColumnFile] = []

    def open_file(*given: Any) -> ColumnFile:
        files.append(ColumnFile(*given))
        return files[-1]

    monkeypatch.setattr(encode, "ColumnFile", open_file)
    good, bad = "u,s,a,1,1,1\n", "short,row\n"
    (tmp_path / "new.csv").write_text("user,site,tags,price,age,share\n" + (good + bad) * 30 + good)
    pieces = encode_file(tmp_path / "new.csv", data, folder)
    assert np.array_equal(next(pieces).rows, np.arange(1, 62, 2))
    assert files[0].take_wrong_rows() == []
    with pytest.raises(DatasetError, match=r"new.csv:row 2: .*; 30 of 61 rows are malformed"):
        next(pieces)


def without_keeping(folder: Path) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())
    del manifest["dictionaries"]
    (folder / "manifest.json").write_text(json.dumps(manifest))


def damage(folder: Path) -> None:
    path = folder / FOLDER / "00000.npy"
    path.write_bytes(path.read_bytes()[:-1] + b"\x01")


def claim(folder: Path) -> None:
    """Claim 10^13 values in the header of a file of the right length, whose digest the manifest knows."""
    path = folder / FOLDER / "00000.npy"
    content = path.read_bytes()
    text = b"{'descr': '<u8', 'fortran_order': False, 'shape': (10000000000000,), }"
    path.write_bytes(content[:10] + text.ljust(117) + b"\n" + content[128:])
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["dictionaries"]["00000.npy"] = hashlib.sha256(path.read_bytes()).hexdigest()
    (folder / "manifest.json").write_text(json.dumps(manifest))


def claim_longer(folder: Path) -> None:
    """Claim as many in the manifest too."""
    claim(folder)
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["num_embeddings"][0] = 10**13 + 1
    (folder / "manifest.json").write_text(json.dumps(manifest))


@pytest.mark.parametrize(
    ("change", "content", "error", "message"),
    [
        (without_keeping, b"", DatasetError, "no dictionaries are kept beside this data.* prepare the data again"),
        (damage, b"", DatasetError, "00000.npy: its sha256 is not that which the manifest says"),
        (lambda folder: (folder / FOLDER / "00002.npy").unlink(), b"", DatasetError, "00002.npy: missing.* prepare"),
        (claim, b"", DatasetError, r"00000.npy: another header, expected that of uint64\["),
        (claim_longer, b"", DatasetError, r"00000.npy: [0-9,]+ bytes, expected 80,000,000,000,128\. .*prepare"),
        (None, b"user,site\nu,s\n", ConfigError, "new.csv: has no column 'price'"),
        (None, b"user,site,tags,price,age,share\n", DatasetError, "has no rows"),
        (None, b"user,site,tags,price,age,share\nu,s,a,dear,1,1\n", DatasetError, "new.csv:row 1: .*'dear'.* 1 of 1"),
    ],
)
def test_what_cannot_be_encoded_is_one_clear_sentence(
    prepared: tuple[Path, DataConfig], tmp_path: Path, change: Any, content: bytes, error: Any, message: str
) -> None:
    folder, data = prepared
    if change is not None:
        folder = shutil.copytree(folder, tmp_path / "d")
        change(folder)
    make_frame().to_csv(tmp_path / "new.csv", index=False)
    if content:
        (tmp_path / "new.csv").write_bytes(content)
    with pytest.raises(error, match=message):
        list(encode_file(tmp_path / "new.csv", data, folder))


def test_what_is_kept_is_verified_with_the_dataset(prepared: tuple[Path, DataConfig], tmp_path: Path) -> None:
    folder = shutil.copytree(prepared[0], tmp_path / "d")
    verify_dataset(folder)
    damage(folder)
    with pytest.raises(DatasetError, match=r"00000.npy: sha256 is"):
        verify_dataset(folder)
    (folder / FOLDER / "00000.npy").unlink()
    with pytest.raises(DatasetError, match=r"00000.npy: missing"):
        verify_dataset(folder)
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps({**manifest, "dictionaries": {"../a.npy": "0"}}))
    with pytest.raises(DatasetError, match=r"dictionaries is .* expected the sha256 of each file"):
        verify_dataset(folder)


def test_nothing_is_kept_where_a_link_leads(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "d" / FOLDER).symlink_to(tmp_path / "elsewhere")
    make_frame().to_csv(tmp_path / "a.csv", index=False)
    data = parse_data({"kind": "columns", "name": "mine", "parameters": PARAMETERS})
    prepare_columns([tmp_path / "a.csv"], [], data, tmp_path / "d")
    assert not list((tmp_path / "elsewhere").iterdir())
    assert {path.name for path in (tmp_path / "d" / FOLDER).iterdir()} == {"00000.npy", "00002.npy", "numbers.npy"}


def test_a_preparation_that_fails_keeps_nothing(tmp_path: Path) -> None:
    make_frame().assign(click=1).to_csv(tmp_path / "a.csv", index=False)
    data = parse_data({"kind": "columns", "name": "mine", "parameters": PARAMETERS})
    with pytest.raises(DatasetError, match="nothing can be learnt"):
        prepare_columns([tmp_path / "a.csv"], [], data, tmp_path / "d")
    assert list((tmp_path / "d").iterdir()) == []


def test_only_what_this_preparation_keeps_is_listed(tmp_path: Path) -> None:
    """One of another definition was killed here, and someone has put a file of their own beside what it left."""
    place = tmp_path / "d" / FOLDER
    place.mkdir(parents=True)
    for name in ("00001.npy", "00007.npy", "My notes.npy"):
        (place / name).write_bytes(b"other")
    make_frame().to_csv(tmp_path / "a.csv", index=False)
    data = parse_data({"kind": "columns", "name": "mine", "parameters": PARAMETERS})
    prepare_columns([tmp_path / "a.csv"], [], data, tmp_path / "d")
    verify_dataset(tmp_path / "d")
    listed = {*json.loads((tmp_path / "d" / "manifest.json").read_text())["dictionaries"]}
    assert listed == {"00000.npy", "00002.npy", "numbers.npy"}
    assert {path.name for path in place.iterdir()} == {*listed, "My notes.npy"}

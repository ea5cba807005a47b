"""Clicks with columns of the user's own: content against pandas, splits, bad input, bounded memory."""

import gzip
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from pyarrow import parquet

from reference_models.config.sections import DataConfig
from reference_models.data.columns import files
from reference_models.data.columns.prepare import prepare_columns
from reference_models.data.prepared import lines, pipeline
from reference_models.data.prepared.pipeline import PreparedDataset
from reference_models.data.registry import open_dataset, parse_data
from reference_models.data.store.store import verify

PARAMETERS: dict[str, Any] = {
    "label": "clicked",
    "dense": [
        {"column": "age"},
        {"column": "price", "transform": "log1p"},
        {"column": "visits", "transform": "standardised"},
    ],
    "sparse": [
        {"column": "user", "min_count": 2},
        {"column": "ad", "rows": 50},
        {"column": "tags", "separator": "|", "max_ids": 3},
        {"column": "site"},
    ],
    "split": "fraction",
    "eval_fraction": 0.25,
}


def make_clicks(num_rows: int, seed: int = 0) -> pd.DataFrame:
    """Make rows with every kind of column; some numbers and categories are missing."""
    draw = np.random.default_rng(seed)
    tags = [["", "a", "a|b", "b|c|d", "d||a"][which] for which in draw.integers(0, 5, num_rows)]
    frame = pd.DataFrame(
        {
            "time": np.sort(draw.integers(0, num_rows // 3, num_rows)),
            "user": [f"u{number}" for number in draw.zipf(1.3, num_rows) % 900],
            "ad": draw.integers(0, 400, num_rows),
            "tags": tags,
            "site": draw.choice(["Zürich", 'quoted, "so"', "two\nlines", "x"], num_rows),
            "age": draw.integers(-3, 90, num_rows).astype("float64"),
            "price": np.round(draw.lognormal(1, 2, num_rows) - 1, 2),
            "visits": draw.poisson(30, num_rows).astype("float64"),
            "clicked": draw.integers(0, 2, num_rows),
        }
    )
    for column in ("age", "price", "visits", "user"):
        frame.loc[draw.random(num_rows) < 0.1, column] = None
    return frame


def make_data(parameters: Mapping[str, Any] = PARAMETERS, **given: Any) -> DataConfig:
    return parse_data({"kind": "columns", "name": "mine", "parameters": {**parameters}, **given})


def write(path: Path, frame: pd.DataFrame) -> Path:
    """Write CSV, gzipped CSV or Parquet of an encoding, as the name says."""
    if ".parquet" in path.suffixes:
        is_dictionary, encoding = path.stem.startswith("dictionary"), None
        if path.stem.startswith("delta"):
            texts = [name for name in frame if frame[name].dtype == object or frame[name].dtype == "str"]
            encoding = dict.fromkeys(texts, "DELTA_BYTE_ARRAY")
        table = pa.Table.from_pandas(frame, preserve_index=False)
        parquet.write_table(table, path, use_dictionary=is_dictionary, column_encoding=encoding, row_group_size=700)
    else:
        text = frame.to_csv(index=False).encode()
        path.write_bytes(gzip.compress(text, mtime=0) if path.suffix == ".gz" else text)
    return path


def prepare(folder: Path, *train: Path, evaluation: tuple[Path, ...] = (), **options: Any) -> PreparedDataset:
    data = options.pop("data", None) or make_data(options.pop("parameters", PARAMETERS))
    return prepare_columns(train, evaluation, data, folder, **options)


def read_split(folder: Path, data: DataConfig, split: str) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    dataset = getattr(open_dataset(folder, data), split)
    batch = dataset.read(0, dataset.num_samples)
    return batch.labels.numpy(), batch.dense.numpy(), batch.indices.numpy()


def number(values: pd.Series, known: pd.Series, min_count: int = 1) -> Any:
    counts = known.value_counts()
    kept = [value for value in known.dropna().unique() if value and counts[value] >= min_count]
    return values.map(dict(zip(kept, range(1, len(kept) + 1), strict=True))).fillna(0).astype(int)


def expect(frame: pd.DataFrame, num_train: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Labels, numbers and ids of all rows, by pandas and the documentation alone."""
    train = frame[:num_train]
    visits = (frame["visits"] - train["visits"].mean()) / train["visits"].std(ddof=0)
    dense = [frame["age"], np.log1p(frame["price"].clip(lower=0)), visits]
    hashes = pd.util.hash_array(frame["ad"].astype(str).to_numpy(object), categorize=False)
    lists = frame["tags"].str.split("|").map(lambda cell: [tag for tag in cell if tag])
    padded = pd.DataFrame([[*tags, *["", "", ""]][:3] for tags in lists])
    known = pd.Series([tag for tags in lists[:num_train] for tag in tags])
    ids = [
        number(frame["user"], train["user"], 2),
        hashes % 49 + 1,
        *(number(padded[place], known) for place in range(3)),
        number(frame["site"], train["site"]),
    ]
    return frame["clicked"].to_numpy(), np.stack([column.fillna(0) for column in dense], 1), np.stack(ids, 1)


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "plain.parquet", "dictionary.parquet", "delta.parquet"])
def test_the_store_holds_what_the_columns_say(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module, constant, value in (
        (pipeline, "_COLUMN_ROWS", 700), (pipeline, "_STORE_ROWS", 900), (files, "_BATCH_ROWS", 300),
        (lines, "BLOCK_BYTES", 20_000), (files, "BLOCK_BYTES", 20_000),
    ):  # fmt: skip
        monkeypatch.setattr(module, constant, value)
    frame, data = make_clicks(3000), make_data()
    prepared = prepare(tmp_path / "d", write(tmp_path / name, frame), data=data)
    assert prepared.num_samples == {"train": 2250, "eval": 750}
    labels, dense, ids = expect(frame, 2250)
    for split, rows in (("train", slice(None, 2250)), ("eval", slice(2250, None))):
        found = read_split(tmp_path / "d", data, split)
        np.testing.assert_array_equal(found[0], labels[rows])
        np.testing.assert_array_equal(found[1][:, :2], dense[rows, :2].astype(np.float32))
        np.testing.assert_allclose(found[1][:, 2], dense[rows, 2], rtol=1e-6, atol=1e-7)
        np.testing.assert_array_equal(found[2], ids[rows])
    assert prepared.num_embeddings == (ids[:, 0].max() + 1, 50, 5, 5)
    assert verify(tmp_path / "d")["dataset_sha256"] == prepared.dataset_sha256


def test_the_same_rows_give_the_same_bytes_in_any_form_and_again(tmp_path: Path) -> None:
    frame = make_clicks(500)
    names = ("a.csv", "a.csv.gz", "plain.parquet", "a.csv")
    digests = {
        prepare(tmp_path / str(turn), write(tmp_path / name, frame)).dataset_sha256 for turn, name in enumerate(names)
    }
    assert len(digests) == 1

"""Clicks with columns of the user's own: content against pandas, splits, bad input, bounded memory."""

import gzip
import json
from collections.abc import Callable, Mapping
from hashlib import blake2b
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
from reference_models.data.store.manifest import compute_file_sha256
from reference_models.data.store.store import verify
from reference_models.process.errors import ConfigError, DatasetError

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
    hashes = frame["ad"].map(lambda ad: int.from_bytes(blake2b(str(ad).encode(), digest_size=8).digest(), "little"))
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
        (pipeline, "_COLUMN_ROWS", 700),
        (pipeline, "_STORE_ROWS", 900),
        (files, "_BATCH_ROWS", 300),
        (lines, "BLOCK_BYTES", 20_000),
        (files, "BLOCK_BYTES", 20_000),
    ):
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


def small(num_rows: int = 400, **changes: Any) -> pd.DataFrame:
    draw = np.random.default_rng(1)
    frame = pd.DataFrame(
        {
            "day": [f"2026-01-{1 + row * 28 // num_rows:02}" for row in range(num_rows)],
            "user": draw.integers(0, 20, num_rows),
            "price": draw.random(num_rows),
            "clicked": draw.integers(0, 2, num_rows),
        }
    )
    return frame.assign(**changes)


SMALL: dict[str, Any] = {"label": "clicked", "dense": [{"column": "price"}], "sparse": [{"column": "user"}]}


def in_share(cell: object, share: float) -> bool:
    return int.from_bytes(blake2b(str(cell).encode(), digest_size=8).digest(), "little") < share * 2**64


@pytest.mark.parametrize(
    ("part", "keep"),
    [
        ({"rows": 250}, lambda frame: frame[:250]),
        ({"rows": 100}, lambda frame: frame[:100]),
        ({"share": 0.3}, lambda frame: frame[[in_share(row + 1, 0.3) for row in range(len(frame))]]),
        ({"share": 0.5, "share_by": "user"}, lambda frame: frame[[in_share(user, 0.5) for user in frame["user"]]]),
        (
            {"rows": 300, "share": 0.4},
            lambda frame: frame[[in_share(row + 1, 0.4) for row in range(300)] + [False] * 100],
        ),
    ],
)
def test_a_part_of_the_rows_is_that_of_the_definition(
    tmp_path: Path, part: dict[str, Any], keep: Callable[[pd.DataFrame], pd.DataFrame]
) -> None:
    """The first of two files ends in a row of another width, which has a number too."""
    frame = small()
    frame["user"] = frame["user"].astype(object)
    frame.loc[99, "user"] = "u1,x"
    whole = frame.to_csv(index=False).replace('"u1,x"', "u1,x").splitlines()
    (tmp_path / "a.csv").write_text("\n".join(whole[:101]))
    (tmp_path / "b.csv").write_text("\n".join([whole[0], *whole[101:]]))
    kept = keep(frame.assign(number=range(len(frame))))
    kept = kept[kept["number"] != 99].drop(columns="number")
    found = prepare(
        tmp_path / "part", tmp_path / "a.csv", tmp_path / "b.csv", parameters={**SMALL, **part}, max_malformed=1
    )
    expected = prepare(tmp_path / "whole", write(tmp_path / "kept.csv", kept), parameters=SMALL)
    assert found.dataset_sha256 == expected.dataset_sha256
    is_one_file = part == {"rows": 100}
    assert found.num_lines == part.get("rows", 400), "others are counted too"
    assert found.num_malformed == 1
    sources = json.loads((found.folder / "manifest.json").read_text())["sources"]
    assert [source["name"] for source in sources] == (["a.csv"] if is_one_file else ["a.csv", "b.csv"])
    digests = [compute_file_sha256(tmp_path / source["name"]) for source in sources]
    assert [source["sha256"] for source in sources] == digests


def test_what_evaluation_holds_changes_nothing_of_training(tmp_path: Path) -> None:
    """The dictionary, its counts and the moments see the training rows alone."""
    frame = make_clicks(1000)
    other = frame.copy()
    other.loc[750:, "user"] = "u-unseen"
    other.loc[750:, "visits"] = 1e6
    for name, rows in (("one", frame), ("two", other)):
        prepare(tmp_path / name, write(tmp_path / f"{name}.csv", rows))
    for array in ("dense", "indices", "labels"):
        first, second = ((tmp_path / name / f"train_{array}.npy").read_bytes() for name in ("one", "two"))
        assert first == second
    assert read_split(tmp_path / "two", make_data(), "eval")[2][:, 0].max() == 0


def test_numbers_that_no_row_or_every_row_has_are_standardised_to_zero(tmp_path: Path) -> None:
    frame = small(empty=None, same=7.5)
    columns = [{"column": name, "transform": "standardised"} for name in ("empty", "same")]
    data = make_data({**SMALL, "dense": columns})
    prepare(tmp_path / "d", write(tmp_path / "a.csv", frame), data=data)
    assert not read_split(tmp_path / "d", data, "train")[1].any()


def test_without_numbers_samples_have_one_that_is_zero(tmp_path: Path) -> None:
    data = make_data({**SMALL, "dense": []})
    prepare(tmp_path / "d", write(tmp_path / "a.csv", small()), data=data)
    assert read_split(tmp_path / "d", data, "train")[1].tolist() == [[0.0]] * 360


@pytest.mark.parametrize(
    ("changes", "num_train"),
    [
        ({}, 372),  # the day that the last tenth begins in is parted by no split
        ({"eval_fraction": 0.4}, 243),
        ({"eval_from": "2026-01-15"}, 200),
    ],
)
def test_time_divides_rows_where_it_changes(tmp_path: Path, changes: dict[str, Any], num_train: int) -> None:
    frame = small()
    data = make_data({**SMALL, "split": "time", "time": "day", **changes})
    halves = [write(tmp_path / f"{number}.csv", frame[start : start + 200]) for number, start in enumerate((0, 200))]
    prepared = prepare(tmp_path / "d", *halves, data=data)
    assert prepared.num_samples == {"train": num_train, "eval": 400 - num_train}
    assert frame["day"][num_train] != frame["day"][num_train - 1]


@pytest.mark.parametrize("as_time", [lambda day: pd.to_datetime(day), lambda day: day.str[-2:].astype(int) * 10**17])
def test_times_may_be_dates_or_whole_numbers(tmp_path: Path, as_time: Any) -> None:
    frame = small()
    frame["day"] = as_time(frame["day"])
    data = make_data({**SMALL, "split": "time", "time": "day"})
    digests = {
        prepare(tmp_path / f"d{name}", write(tmp_path / name, frame), data=data).dataset_sha256
        for name in ("a.csv", "plain.parquet")
    }
    assert len(digests) == 1


def test_files_are_the_split_where_they_say_so(tmp_path: Path) -> None:
    frame = small()
    train, evaluation = write(tmp_path / "a.csv", frame[:300]), write(tmp_path / "plain.parquet", frame[300:])
    data = make_data({**SMALL, "split": "files"})
    prepared = prepare(tmp_path / "d", train, evaluation=(evaluation,), data=data)
    assert prepared.num_samples == {"train": 300, "eval": 100}
    with pytest.raises(ConfigError, match="give the evaluation files with --eval"):
        prepare(tmp_path / "e", train, data=data)


def test_wrong_cells_and_rows_are_left_out_up_to_the_bound_and_named(tmp_path: Path) -> None:
    frame = small(1000).astype({"price": object})
    frame.loc[4, "price"], frame.loc[500, "price"], frame.loc[7, "clicked"] = "cheap", "1e999", None
    text = frame.to_csv(index=False).splitlines(keepends=True)
    text.insert(300, "one,two\n")
    text.append("1,2,3,4,5\n")
    (tmp_path / "a.csv").write_text("".join(text))
    prepared = prepare(tmp_path / "d", tmp_path / "a.csv", parameters=SMALL, max_malformed=0.01)
    assert (prepared.num_lines, prepared.num_malformed) == (1002, 5)
    assert {name.partition("a.csv:")[2] for name in prepared.malformed} == {
        "row 5: column 'price' is 'cheap', expected a number of 32 bits or nothing",
        "row 502: column 'price' is '1e999', expected a number of 32 bits or nothing",
        "row 8: column 'clicked' is empty, expected a label",
        "row 300: 2 columns, expected 4",
        "row 1002: 5 columns, expected 4",
    }
    with pytest.raises(DatasetError, match=r"5 of 1,002 lines are malformed, more than the 0.1 % allowed"):
        prepare(tmp_path / "e", tmp_path / "a.csv", parameters=SMALL)


LIST = pa.array([["a", "b"]] * 400)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "content", "parameters", "message"),
    [
        ("a.csv", small(clicked="buy"), {}, r"a.csv:row 1: column 'clicked' is 'buy', expected a label, 0 or 1"),
        ("a.csv", small(clicked=[0, 1, 2, 1] * 100), {}, r"row 3: column 'clicked' is '2'.*positive_from"),
        ("plain.parquet", small(clicked=2.5), {}, r"row 1: column 'clicked' is '2.5'.*positive_from"),
        ("plain.parquet", small(clicked="buy"), {}, r"row 1: column 'clicked' is 'buy', expected a label.*positive"),
        ("a.csv", small(price="cheap"), {}, r"row 1: column 'price' is 'cheap'.*400 of 400 lines are malformed"),
        ("plain.parquet", small(price=pd.Timestamp("2026-01-01")), {}, r"'price' holds timestamp.*expected numbers"),
        ("a.csv", small(clicked=[1] + [0] * 399), {}, r"all 40 eval labels are 0"),
        ("a.csv", small(clicked=0), {}, r"all 360 train labels are 0"),
        ("a.csv", small(user="a|b|c"), {"sparse": [{"column": "user", "separator": "|", "max_ids": 2}]},
         r"row 1: column 'user' is 'a\|b\|c': 3 ids, more than max_ids = 2"),
        ("a.csv", small(day="31/12/2026"), {"split": "time", "time": "day"},
         r"row 1: column 'day' is '31/12/2026'.*day and month in this order do not sort"),
        ("a.csv", small(day=1), {"split": "time", "time": "day"}, r"'day' is the same in all 400 rows"),
        ("a.csv", small(), {"split": "time", "time": "day", "eval_from": "2027"}, r"eval_from is '2027', after the"),
        ("plain.parquet", pa.table({"user": LIST, "clicked": [0, 1] * 200, "price": [1.0] * 400}), {},
         r"column 'user' holds lists, expected one value a cell. Say max_ids = N"),
        ("plain.parquet", b"PAR1 and no more", {}, r"plain.parquet: cannot be read: "),
        ("a.csv", b"", {}, r"a.csv: is empty"),
        ("a.csv", b"day,user,price,clicked\n", {}, r"the files give no train samples \(0 rows in all\)"),
        ("a.csv", b"day,user,user,price,clicked\n", {}, r"has 2 columns 'user'"),
        ("a.csv", b"user,price,clicked\n" + b'"' + b"1,2,0\n" * 300_000, {}, r"a.csv:row 1: 1 columns, expected 3"),
        ("a.csv", b"user,price,clicked\n" + b"1\n" * 300_000, {}, r"a.csv"),
        ("a.csv.gz", gzip.compress(small(9000).to_csv(index=False).encode(), mtime=0)[:-2000], {}, r"is cut short"),
    ],
)  # fmt: skip
def test_bad_files_are_one_clear_error_and_leave_no_dataset(
    tmp_path: Path, name: str, content: Any, parameters: dict[str, Any], message: str
) -> None:
    path = tmp_path / name
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif isinstance(content, pa.Table):
        parquet.write_table(content, path)
    else:
        write(path, content)
    with pytest.raises(DatasetError, match=message) as caught:
        prepare(tmp_path / "d", path, parameters={**SMALL, **parameters})
    assert len(str(caught.value).splitlines()) <= 11
    assert list((tmp_path / "d").iterdir()) == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dense": ["price"]}, r"data.parameters.dense is \['price'\], expected a list of tables such as"),
        (
            {"dense": [{"column": "price", "transform": "log"}]},
            r"dense\[0\].transform is 'log'. Did you mean 'log1p'",
        ),
        ({"sparse": []}, r"data.parameters.sparse is .*expected a list of tables"),
        ({"sparse": [{"colum": "user"}]}, r"unknown key data.parameters.sparse\[0\].colum. Did you mean 'column'"),
        ({"sparse": [{"column": "clicked"}]}, r"sparse: column 'clicked' is the label"),
        ({"sparse": [{"column": "user"}] * 2}, r"sparse: column 'user' is twice in"),
        (
            {"sparse": [{"column": "user", "separator": "|"}]},
            r"'user' has a separator, and needs max_ids of at least 2",
        ),
        (
            {"sparse": [{"column": "user", "rows": 1}]},
            r"sparse\[0\].rows is 1, expected a whole number of at least 2",
        ),
        ({"sparse": [{"column": "user", "rows": 9, "min_count": 2}]}, r"'user' has rows, .* and min_count"),
        ({"split": "time"}, r"data.parameters.time is missing, expected a column's name"),
        ({"time": "day"}, r"data.parameters.time is 'day', expected nothing, except with 'time'"),
        ({"rows": 9, "split": "files"}, r"rows is 9, expected nothing, with split = 'files'"),
        ({"share_by": "user"}, r"share_by is 'user', expected nothing, except with share"),
        ({"eval_from": 3}, r"eval_from is 3, expected nothing, except with split = 'time'"),
        ({"eval_fraction": 1.0}, r"eval_fraction is 1.0"),
    ],
)
def test_a_definition_that_cannot_be_is_refused_with_its_key(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make_data({**SMALL, **changes})


@pytest.mark.parametrize("name", ["a.csv", "plain.parquet"])
def test_a_missing_column_is_named_with_what_it_may_have_meant(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / name, small())
    with pytest.raises(ConfigError, match=r"has no column 'prise'. Did you mean 'price'\?"):
        prepare(tmp_path / "d", path, parameters={**SMALL, "dense": [{"column": "prise"}]})


def test_names_and_another_delimiter_serve_text_without_a_header(tmp_path: Path) -> None:
    frame = small()
    frame.to_csv(tmp_path / "a.tsv", index=False, header=False, sep="\t")
    parameters = {**SMALL, "names": list(frame), "delimiter": "\t"}
    bare = prepare(tmp_path / "d", tmp_path / "a.tsv", parameters=parameters)
    assert (
        bare.dataset_sha256
        == prepare(tmp_path / "e", write(tmp_path / "a.csv", frame), parameters=SMALL).dataset_sha256
    )


def test_the_manifest_says_what_made_the_data(tmp_path: Path) -> None:
    prepare(tmp_path / "d", write(tmp_path / "a.csv", small()), parameters=SMALL)
    manifest = json.loads((tmp_path / "d" / "manifest.json").read_text())
    assert manifest["parameters"] == SMALL and manifest["kind"] == "columns"
    assert [source["name"] for source in manifest["sources"]] == ["a.csv"]

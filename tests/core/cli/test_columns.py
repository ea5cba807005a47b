"""Columns of the user's own from the command line: guessed, prepared, trained, as a newcomer would."""

import gzip
import json
import tomllib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from click_files import make_ads, make_ratings
from command import Command
from pyarrow import parquet
from sklearn.metrics import roc_auc_score

from harness.config.catalog import load_entry

Make = Callable[[int], pd.DataFrame]
Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def prepare(command: Call, *given: str) -> None:
    for line in (
        ("init", "mine.toml", "--from-columns", *given),
        ("data", "prepare", "mine.toml", "--train", given[0]),
    ):
        code, _, err = command(*line)
        assert code == 0, err


def test_guesses_are_comments_beside_what_they_made(command: Call, here: Path) -> None:
    make_ratings(4000).to_csv("ratings.csv", index=False)
    code, out, err = command("init", "mine.toml", "--from-columns", "ratings.csv")
    assert code == 0, err
    wrote, first, then, target = out.splitlines()
    assert wrote == "wrote mine.toml." and then.startswith("Then: dlrmbench plan ./mine.toml, dlrmbench calibrate")
    assert first.endswith("Make it from your files with: dlrmbench data prepare ./mine.toml --train ratings.csv")
    assert target.startswith("Its target is guessed, and low: calibrate")
    text = Path("mine.toml").read_text()
    assert tomllib.loads(text)["data"]["parameters"] == {
        "label": "rating",
        "positive_from": 4.0,
        "split": "time",
        "time": "timestamp",
        "dense": [],
        "sparse": [
            {"column": "userId"},
            {"column": "movieId"},
            {"column": "genres", "separator": "|", "max_ids": 3},
        ],
    }
    for guess in (
        "# Guessed: 0.5 to 5.",
        "# Guessed: so that ",
        "are in the order of 'timestamp'",
        "ids in a cell of",
    ):
        assert guess in text
    assert load_entry("mine.toml").workload.data.multi_hot == (1, 1, 3)


def test_hashed_ids_keys_of_rows_and_numbers_are_told_apart(command: Call, here: Path) -> None:
    frame = make_ads(4000).assign(price=[0.01 * row**2 for row in range(4000)], constant=3, share=0.25)
    frame.loc[::2, "share"] = 0.75
    frame.to_csv("ads.csv.gz", index=False)
    code, _, err = command("init", "mine.toml", "--from-columns", "ads.csv.gz")
    assert code == 0, err
    text = Path("mine.toml").read_text()
    parameters = tomllib.loads(text)["data"]["parameters"]
    assert [column["column"] for column in parameters["sparse"]] == [
        *("banner_pos", "site_id", "app_id", "device_id", "C14")
    ]
    assert parameters["dense"] == [
        {"column": "price", "transform": "standardised"},
        {"column": "share", "transform": "as_is"},
    ]
    assert "left out: 'id' (another value in every row); 'hour' (the time); 'constant' (one value" in text


def test_a_label_may_be_named_and_another_base_chosen(command: Call, here: Path) -> None:
    frame = make_ads(3000)
    frame.assign(bought=1 - frame["click"]).to_parquet("ads.parquet")
    options = ("--set", "data.parameters.label=bought", "--like", "wukong_small", "--target", "0.7")
    code, _, err = command("init", "mine.toml", "--from-columns", "ads.parquet", *options)
    assert code == 0, err
    tables = tomllib.loads(Path("mine.toml").read_text())
    assert tables["data"]["parameters"]["label"] == "bought"
    assert (tables["benchmark"]["model"], tables["quality"]["target"]) == ("wukong", 0.7)


@pytest.mark.parametrize(
    ("content", "options", "code", "message"),
    [
        (b"", (), 8, r"a.csv: is empty"),
        (b"user,click\n", (), 8, "a.csv: has a header and no rows"),
        (b"user,price\nu1,3\nu2,4\n", (), 8, "no column holds 0 and 1 alone. Name the label's with --set"),
        (b"click,click\n1,0\n", (), 8, "a.csv: has 2 columns 'click'. Rename all but one"),
        (b"click,price\n1,0.5\n0,0.7\n", (), 8, "no column looks like a category"),
        (b"user,click\nu,1\nv,0\n", ("--set", "data.parameters.label=clik"), 2, "Did you mean 'click'?"),
        (b"user,click\nu,1\nv,0\n", ("--kind", "criteo"), 2, "Leave --kind and --data-of out"),
        (gzip.compress(b"user,click\nu,1\nv,0\n" * 9, mtime=0)[:-9], (), 8, "gzip file is cut short"),
        (b"PAR1 is not all", (), 8, "a.csv: cannot be read: "),
    ],
)
def test_a_file_that_says_nothing_is_one_clear_error(
    command: Call, here: Path, content: bytes, options: tuple[str, ...], code: int, message: str
) -> None:
    Path("a.csv").write_bytes(content)
    found, _, err = command("init", "mine.toml", "--from-columns", "a.csv", *options)
    assert (found, message in err) == (code, True), err
    assert not Path("mine.toml").exists()


def test_nested_and_categorical_columns_of_parquet_are_looked_at(command: Call, here: Path) -> None:
    frame = make_ads(3000).astype({"site_id": "category"})
    table = pa.Table.from_pandas(frame).append_column("tags", pa.array([["a", "b"]] * 3000))
    parquet.write_table(table, "a.parquet")
    prepare(command, "a.parquet")
    text = Path("mine.toml").read_text()
    assert '{ column = "tags", max_ids = 2 }' in text and '{ column = "site_id" }' in text


def test_a_folder_of_part_files_is_its_files_in_the_order_of_their_numbers(command: Call, here: Path) -> None:
    frame = make_ads(3000)
    for folder in ("parts", "one"):
        Path(folder).mkdir()
    Path("parts/_SUCCESS").touch()
    Path("parts/.part-0.crc").write_bytes(b"crc")
    for number in range(12):
        frame[number * 250 : (number + 1) * 250].to_parquet(f"parts/part-{number}.parquet")
    frame.to_parquet("one/part-0.parquet")
    found = set()
    assert command("init", "mine.toml", "--from-columns", "parts")[0] == 0
    for folder in ("parts", "one"):
        code, out, err = command("data", "prepare", "mine.toml", "--train", folder, "--data", f"{folder}-data")
        assert code == 0, err
        found |= {line for line in out.splitlines() if line.startswith("sha256")}
    assert len(found) == 1
    Path("parts/day=2").mkdir()
    code, _, err = command("data", "prepare", "mine.toml", "--train", "parts", "--data", "other")
    assert code == 8 and "holds a folder 'day=2', expected files" in err


def test_data_that_is_generated_says_what_to_do_for_files_of_ones_own(command: Call, here: Path) -> None:
    code, _, err = command("data", "prepare", "dlrm_tiny", "--train", "my.csv")
    assert code == 2 and "is generated: no files go into it" in err
    assert "init mine.toml --from-columns FILE" in err and "--kind criteo" in err


@pytest.mark.parametrize(
    ("option", "name", "target"), [("--kind=criteo", "mine", 0.6), ("--like=dlrm_kaggle", "criteo_kaggle", 0.795)]
)
def test_files_in_criteos_form_are_another_dataset_than_criteos(
    command: Call, here: Path, option: str, name: str, target: float
) -> None:
    """Else they would lie where the benchmark on Criteo's own data looks for it, and it would train on them."""
    code, out, err = command("init", "mine.toml", option)
    assert code == 0, err
    tables = tomllib.loads(Path("mine.toml").read_text())
    assert (tables["data"]["name"], tables["quality"]["target"]) == (name, target)
    assert ("Its target is guessed, and low" in out) == (target == 0.6)


@pytest.mark.slow
@pytest.mark.parametrize("make", [make_ratings, make_ads])
def test_a_guessed_definition_trains_at_the_first_try_and_its_data_verify(
    command: Call, here: Path, make: Make
) -> None:
    make(20_000).to_csv("a.csv", index=False)
    prepare(command, "a.csv")
    for shown in (("show", "./mine.toml"), ("plan", "./mine.toml", "--no-measure"), ("list",)):
        code, _, err = command(*shown)
        assert code == 0, err
    code, out, err = command("data", "verify", "mine.toml")
    assert code == 0 and "all as in the manifest and the definition" in out, err
    code, out, err = command("run", "mine.toml", "-n", "1", "--seed", "3", "--threads", "1")
    assert code in (0, 3), err
    assert "1 of 1 reached the target" in out
    record = json.loads(next((here / "results").glob("*/extra/run_set.json")).read_text())
    manifest = json.loads(next((here / "data").glob("*/manifest.json")).read_text())
    seen = {key: manifest[key] for key in ("positives", "columns", "remarks")}
    assert record["dataset"]["look"] == {**seen, "num_columns": len(seen["columns"]), "soft_labels": None}
    assert "counted while it was prepared" in next((here / "results").glob("*/report.html")).read_text()


@pytest.mark.slow
@pytest.mark.numeric
def test_shares_are_labels_from_the_file_to_the_page(inside: Command, workers_inside: None, tmp_path: Path) -> None:
    """Guessed, prepared, trained, predicted and shown; the log's AUC is scikit-learn's of what was predicted."""
    frame = make_ads(8000)
    clicks, draw = frame["click"].to_numpy(), np.random.default_rng(0)
    frame.assign(click=(clicks * draw.integers(1, 5, 8000) / 4).round(2)).to_csv(tmp_path / "a.csv", index=False)
    for words, said in (
        ("init mine.toml --from-columns a.csv --target 0.52", "wrote mine.toml"),
        ("data prepare ./mine.toml --train a.csv", "labels   soft: mean 0."),
        ("data verify ./mine.toml", "all as in the manifest"),
        ("run ./mine.toml -n 1 --seed 3 --threads 1 --keep-weights", "1 of 1 reached"),
        ("data predict ./mine.toml latest -o logits.parquet", "mean label 0."),
    ):
        done = inside(*words.split())
        assert done.returncode in (0, 3) and said in done.stdout, (words, done.stdout, done.stderr)
    assert "# Guessed: so that these are kept as they are; positive_from = " in (tmp_path / "mine.toml").read_text()
    found = parquet.read_table(tmp_path / "logits.parquet")
    assert str(found.schema.field("label").type) == "float"
    labels, logits = (found.column(name).to_numpy() for name in ("label", "logit"))
    assert {*np.unique(labels)} == {0.0, 0.25, 0.5, 0.75, 1.0}
    shares, folder = labels.astype(np.float64), next((tmp_path / "results").iterdir())
    weights = np.concatenate([shares, 1 - shares])
    auc = roc_auc_score(np.repeat([1, 0], len(labels)), np.tile(logits, 2), sample_weight=weights)
    kept = json.loads((folder / "extra" / "run_0" / "weights" / "manifest.json").read_text())
    assert kept["quality"] == pytest.approx(auc, abs=1e-6)
    record = json.loads((folder / "extra" / "run_set.json").read_text())
    manifest = json.loads(next((tmp_path / "data").glob("*/manifest.json")).read_text())
    assert record["dataset"]["look"]["soft_labels"] == manifest["soft_labels"]
    page = " ".join((folder / "report.html").read_text().split())
    assert "Labels are soft, shares from 0 to 1; their mean is 0." in page and "Labels are 1 in" not in page


@pytest.mark.slow
def test_rows_of_another_file_have_the_logits_that_they_have_as_evaluation(command: Call, here: Path) -> None:
    frame = make_ratings(20_000)
    frame.to_csv("a.csv", index=False)
    prepare(command, "a.csv")
    assert command("run", "mine.toml", "-n", "1", "--seed", "3", "--threads", "1", "--keep-weights")[0] in (0, 3)
    frame[-2000:].drop(columns=["rating", "timestamp"]).to_csv("new.csv", index=False)
    given = ("data", "predict", "mine.toml", "latest", "-o")
    assert command(*given, "eval.parquet")[0] == 0
    code, out, err = command(*given, "new.parquet", "--file", "new.csv")
    assert code == 0 and "2,000 logits of new.csv; mean probability" in out, err
    expected, found = (parquet.read_table(name) for name in ("eval.parquet", "new.parquet"))
    assert found.schema.names == ["row", "logit"] and found.column("row").to_pylist() == [*range(1, 2001)]
    assert found.column("logit").to_pylist() == pytest.approx(expected.column("logit").to_pylist(), abs=1e-5)
    code, _, err = command(*given, "no.parquet", "--file", "new.csv", "--split", "eval")
    assert code == 2 and "leave --split out" in err
    code, _, err = command(*given, "no.parquet", "--file", "MISSING.csv")
    assert code == 8 and "MISSING.csv" in err and not Path("no.parquet").exists()

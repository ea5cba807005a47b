"""The look at prepared rows: counts against pandas, AUC against scikit-learn, and what is remarked."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

from reference_models.data.columns.prepare import prepare_columns
from reference_models.data.prepared import pipeline
from reference_models.data.prepared.look import ColumnLook, compare_positives, rank_auc
from reference_models.data.prepared.pipeline import PreparedDataset
from reference_models.data.registry import parse_data

NUM_ROWS, NUM_TRAIN = 2000, 1800


def make_frame() -> pd.DataFrame:
    draw = np.random.default_rng(3)
    frame = pd.DataFrame(
        {
            "user": draw.zipf(1.4, NUM_ROWS) % 300,
            "tags": ["|".join("abc"[: row % 4]) for row in range(NUM_ROWS)],
            "price": np.round(draw.lognormal(0, 1, NUM_ROWS), 2),
            "click": draw.integers(0, 2, NUM_ROWS),
        }
    ).astype({"user": str})
    frame.loc[draw.random(NUM_ROWS) < 0.1, "user"] = None
    frame.loc[draw.random(NUM_ROWS) < 0.2, "price"] = None
    return frame


def prepare(folder: Path, frame: pd.DataFrame) -> PreparedDataset:
    parameters: dict[str, Any] = {
        "label": "click",
        "dense": [{"column": "price"}],
        "sparse": [{"column": "user", "min_count": 2}, {"column": "tags", "separator": "|", "max_ids": 3}],
    }
    data = parse_data({"kind": "columns", "name": "mine", "parameters": parameters})
    frame.to_csv(folder / "a.csv", index=False)
    return prepare_columns([folder / "a.csv"], [], data, folder / "d")


def test_missing_rare_and_unseen_values_are_counted_by_split(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "_COLUMN_ROWS", 700)
    frame = make_frame()
    prepared = prepare(tmp_path, frame)
    train, evaluation = frame[:NUM_TRAIN], frame[NUM_TRAIN:]
    price, user, tags = prepared.looks
    assert price.num_missing == [int(part["price"].isna().sum()) for part in (train, evaluation)]
    assert user.num_missing == [int(part["user"].isna().sum()) for part in (train, evaluation)]
    counts = train["user"].value_counts()
    known = counts.index[counts >= 2]
    assert user.num_unknown == [
        int((part["user"].notna() & ~part["user"].isin(known)).sum()) for part in (train, evaluation)
    ]
    assert (user.num_distinct, tags.num_missing, tags.num_unknown) == (len(counts), [450, 50], [0, 0])
    assert prepared.positives == {"train": train["click"].mean(), "eval": evaluation["click"].mean()}
    assert prepared.remarks == []
    manifest = json.loads((tmp_path / "d" / "manifest.json").read_text())
    assert [column["name"] for column in manifest["columns"]] == [look.name for look in prepared.looks]


def test_the_auc_of_a_column_is_that_of_ranks() -> None:
    draw = np.random.default_rng(0)
    scores, labels = draw.integers(0, 9, 500), draw.integers(0, 2, 500).astype(np.uint8)
    assert rank_auc(scores, labels) == pytest.approx(roc_auc_score(labels, scores))
    assert rank_auc(scores, np.ones(500, np.uint8)) is None


CHANGES: dict[str, Any] = {
    "holds in 100.0% of evaluation values that training lacks": lambda frame: frame.assign(
        user=[f"{user}.0" if row >= NUM_TRAIN else user for row, user in enumerate(frame["user"])]
    ),
    "of training and 100.0% of evaluation": lambda frame: frame.assign(
        price=frame["price"].where(frame.index < NUM_TRAIN)
    ),
    "column 'price' tells the label alone (ROC AUC 1.000": lambda frame: frame.assign(price=frame["click"] - 0.1),
    "column 'user' tells the label alone": lambda frame: frame.assign(user=frame["click"] * 100 + frame.index % 7),
    "has 1,800 values in 1,800 rows of training": lambda frame: frame.assign(user=frame.index),
    "labels: 10.0% of training and 50.0% of evaluation are 1": lambda frame: frame.assign(
        click=((frame.index % 10 == 0) | ((frame.index >= NUM_TRAIN) & (frame.index % 2 == 0))).astype(int)
    ),
}


@pytest.mark.parametrize("remark", CHANGES)
def test_what_may_be_wrong_is_remarked(tmp_path: Path, remark: str) -> None:
    assert any(remark in found for found in prepare(tmp_path, CHANGES[remark](make_frame())).remarks)


@pytest.mark.parametrize(("num_rows", "is_remarked"), [(20, False), (200, True)])
def test_splits_differ_beyond_what_few_rows_do_by_chance(num_rows: int, is_remarked: bool) -> None:
    """7 of 20 beside 42 of 180 is chance: z of two proportions is 1.15; with ten times the rows it is 3.64."""
    num_samples = {"train": 9 * num_rows, "eval": num_rows}
    assert bool(compare_positives({"train": 42 / 180, "eval": 7 / 20}, num_samples)) is is_remarked


def test_many_ids_of_cells_are_no_key_of_rows() -> None:
    for width in (1, 9):
        look = ColumnLook("history", "category", num_cells=[100, 10], num_distinct=424, width=width)
        assert any("key of rows" in remark for remark in look.remarks()) is (width == 1)

"""Labels of own columns that are shares from 0 to 1: kept as float32, trained on and judged as shares."""

import json
import tomllib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from harness.config.start import begin_definition
from reference_models.config.id_map import IdMapConfig
from reference_models.config.sections import DataConfig, parse_runtime, parse_train
from reference_models.data.columns.guess import Guess, guess_columns
from reference_models.data.columns.prepare import prepare_columns
from reference_models.data.prepared.look import rank_auc
from reference_models.data.prepared.pipeline import PreparedDataset
from reference_models.data.registry import compute_dataset_digest, open_dataset, parse_data, verify_dataset
from reference_models.data.store.dataset import has_soft_labels
from reference_models.data.store.layout import SOFT_CLICKS
from reference_models.data.store.manifest import write_manifest
from reference_models.process.errors import ConfigError, DatasetError
from reference_models.process.world import SingleProcess
from reference_models.registry import build_servable, find_implementation, find_model
from reference_models.serving.servable import workload_weights
from reference_models.training.metrics import measure_quality
from reference_models.training.workload import WorkloadSpec

pytestmark = pytest.mark.numeric
NUM_ROWS = 800
PARAMETERS: dict[str, Any] = {
    "label": "clicks",
    "soft_labels": True,
    "dense": [{"column": "price"}],
    "sparse": [{"column": "user"}, {"column": "item"}],
    "eval_fraction": 0.25,
}
HARD_SHA256 = "f0143670c595d468ab01fce86a02bfe280e5a18810e7d673e679478d0e8fa7a1"
"""Digest of `make_rows` with labels of 0 and 1, as it was before labels could be soft."""


def make_rows(num_rows: int = NUM_ROWS) -> pd.DataFrame:
    """Rows whose shares follow the user and the item, with both ends of the range."""
    row = np.arange(num_rows)
    user, item = row * 7 % 20, row * 11 % 13
    shares = np.round((user / 19 + item / 12) / 2, 3)
    return pd.DataFrame({"user": user, "item": item, "price": (row % 8) / 8, "clicks": shares})


def make_data(**changes: Any) -> DataConfig:
    return parse_data({"kind": "columns", "name": "mine", "parameters": PARAMETERS | changes})


def write_rows(path: Path, frame: pd.DataFrame) -> Path:
    if path.suffix == ".parquet":
        frame.to_parquet(path)
    elif path.suffix == ".jsonl":
        frame.to_json(path, orient="records", lines=True, double_precision=15)
    else:
        frame.to_csv(path, index=False)
    return path


def prepare(folder: Path, frame: pd.DataFrame, name: str = "a.csv", **changes: Any) -> PreparedDataset:
    path = write_rows(folder / name, frame)
    return prepare_columns([path], [], make_data(**changes), folder / name.replace(".", "-"))


def labels_of(folder: Path, data: DataConfig) -> dict[str, NDArray[np.float32]]:
    opened = open_dataset(folder, data)
    splits = {"train": opened.train, "eval": opened.eval}
    return {name: split.read(0, split.num_samples).labels.numpy() for name, split in splits.items()}


@pytest.fixture(scope="module")
def soft(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of prepared rows with soft labels."""
    return prepare(tmp_path_factory.mktemp("soft"), make_rows()).folder


def test_shares_are_kept_from_files_of_any_form(tmp_path: Path) -> None:
    frame, data = make_rows(), make_data()
    made = [prepare(tmp_path, frame, name) for name in ("a.csv", "a.jsonl", "a.parquet")]
    assert len({each.dataset_sha256 for each in made}) == 1
    expected = frame["clicks"].to_numpy().astype(np.float32)
    found = labels_of(made[0].folder, data)
    assert np.array_equal(np.concatenate([found["train"], found["eval"]]), expected)
    assert np.load(made[0].folder / "train_labels.npy").dtype == np.float32
    train, evaluation = expected[:600].astype(np.float64), expected[600:].astype(np.float64)
    assert made[0].positives == pytest.approx({"train": train.mean(), "eval": evaluation.mean()}, rel=1e-12)
    assert made[0].soft is not None
    assert made[0].soft.variance == pytest.approx(expected.astype(np.float64).var(), rel=1e-9)
    assert made[0].soft.best_auc == pytest.approx(doubled_auc(evaluation, evaluation), abs=1e-12)
    assert verify_dataset(made[0].folder)["soft_labels"]["best_auc"] == made[0].soft.best_auc


def test_labels_of_0_and_1_have_the_bytes_that_they_had(tmp_path: Path) -> None:
    frame = make_rows().assign(clicks=np.arange(NUM_ROWS) * 13 % 7 // 5)
    hard = {key: value for key, value in PARAMETERS.items() if key != "soft_labels"}
    data = parse_data({"kind": "columns", "name": "mine", "parameters": hard})
    prepared = prepare_columns([write_rows(tmp_path / "a.csv", frame)], [], data, tmp_path / "d")
    assert prepared.dataset_sha256 == HARD_SHA256
    manifest = json.loads((tmp_path / "d" / "manifest.json").read_text())
    assert prepared.soft is None and "soft_labels" not in manifest
    assert not has_soft_labels(open_dataset(tmp_path / "d", data).train)
    assert compute_dataset_digest(data) != compute_dataset_digest(make_data())


@pytest.mark.parametrize(
    "name", ["a.csv", *(pytest.param(each, marks=pytest.mark.slow) for each in ("a.jsonl", "a.parquet"))]
)
@pytest.mark.parametrize(
    ("value", "message"),
    [
        (1.5, r"row 3: column 'clicks' is '?1.5'?, expected a label, a number from 0 to 1. .*positive_from"),
        (
            -0.01,
            r"row 3: column 'clicks' is '?-0.01'?, expected a label, a number from 0 to 1. .*leave soft_labels",
        ),
        ("nan", r"row 3: column 'clicks' is '?nan'?, expected a label, a number from 0 to 1. Empty such cells"),
        ("inf", r"row 3: column 'clicks' is '?inf'?, expected a label, a number from 0 to 1"),
        ("0,5", r"row 3: column 'clicks' is '0,5', expected .* Write such cells as numbers, with '.' before"),
    ],
)
def test_what_is_no_share_is_refused_with_its_row(tmp_path: Path, name: str, value: Any, message: str) -> None:
    cells: list[Any] = [0.25, 0.5, value, 0.75]
    if name == "a.parquet" and value in ("nan", "inf"):
        cells[2] = float(value)
    elif isinstance(value, str):
        cells = [str(cell) for cell in cells]
    frame = make_rows(4).assign(clicks=pd.Series(cells, dtype=object if isinstance(cells[2], str) else "float64"))
    path = tmp_path / name
    if name == "a.parquet":
        import pyarrow as pa
        from pyarrow import parquet

        columns = {column: pa.array(frame[column].tolist(), from_pandas=False) for column in frame}
        parquet.write_table(pa.table(columns), path)
    else:
        write_rows(path, frame)
    with pytest.raises(DatasetError, match=f"{name}:{message}"):
        prepare_columns([path], [], make_data(), tmp_path / "d")
    assert list((tmp_path / "d").iterdir()) == []


@pytest.mark.parametrize("name", ["a.csv", pytest.param("a.parquet", marks=pytest.mark.slow)])
def test_a_share_behind_labels_of_0_and_1_is_told_of_soft_labels(tmp_path: Path, name: str) -> None:
    """As it comes of a guess by first rows that hold 0 and 1 alone."""
    path = write_rows(tmp_path / name, make_rows(6).assign(clicks=[0.0, 1.0, 0.0, 1.0, 0.25, 1.0]))
    with pytest.raises(DatasetError, match=r"row 5: .* expected a label, 0 or 1.*, or keep shares .* soft_labels"):
        prepare_columns([path], [], make_data(soft_labels=False), tmp_path / "d")


@pytest.mark.slow
def test_rows_without_a_label_are_left_out_and_labels_that_are_all_alike_refused(tmp_path: Path) -> None:
    frame = make_rows()
    frame.loc[5, "clicks"] = None
    prepared = prepare_columns(
        [write_rows(tmp_path / "a.csv", frame)], [], make_data(), tmp_path / "d", max_malformed=0.01
    )
    assert (prepared.num_malformed, "row 6: column 'clicks' is empty" in prepared.malformed[0]) == (1, True)
    with pytest.raises(DatasetError, match=r"all 600 train labels are 0.25: nothing can be learnt"):
        prepare(tmp_path, make_rows().assign(clicks=0.25), "b.csv")


@pytest.mark.parametrize("changes", [{"positive_from": 0.5}, {"positive": ["1"]}])
def test_a_label_is_soft_or_made_0_and_1(changes: dict[str, Any]) -> None:
    (key,) = changes
    with pytest.raises(ConfigError, match=f"{key} is .* expected nothing, except without soft_labels"):
        make_data(**changes)


@pytest.mark.parametrize("value", ["yes", "true", 1])
def test_soft_labels_are_true_or_false(value: Any) -> None:
    with pytest.raises(ConfigError, match=r"soft_labels is '?(yes|true|1)'?, expected true or false"):
        make_data(soft_labels=value)


def test_data_of_the_other_kind_of_labels_is_refused(tmp_path: Path, soft: Path) -> None:
    with pytest.raises(DatasetError, match=r"labels are soft, from 0 to 1, the benchmark's definition says 0 or 1"):
        open_dataset(soft, make_data(soft_labels=False))


@pytest.mark.slow
def test_a_label_outside_of_0_to_1_in_the_store_is_named(tmp_path: Path) -> None:
    folder, data = prepare(tmp_path, make_rows()).folder, make_data()
    labels = np.load(folder / "train_labels.npy")
    labels[17] = np.nan
    np.save(folder / "train_labels.npy", labels)
    manifest = json.loads((folder / "manifest.json").read_text())
    write_manifest(folder, SOFT_CLICKS, {key: manifest[key] for key in manifest if key not in ("files", "sha256")})
    with pytest.raises(DatasetError, match=r"train_labels.npy: sample 17 is nan, expected 0 to 1"):
        verify_dataset(folder)
    split = open_dataset(folder, data).train
    with pytest.raises(DatasetError, match=r"here 17: label nan, expected 0 to 1. The dataset is damaged"):
        split.read(0, 64).check(split, "here", 0)


@pytest.mark.parametrize("value", [None, True, [0.5]])
def test_a_manifest_that_says_nothing_of_soft_labels_is_refused(tmp_path: Path, soft: Path, value: Any) -> None:
    """The page of a run would take such labels for 0 and 1."""
    manifest = json.loads((soft / "manifest.json").read_text())
    (tmp_path / "manifest.json").write_text(json.dumps(manifest | {"soft_labels": value}))
    with pytest.raises(DatasetError, match=r"soft_labels is .*, expected what was seen of soft labels"):
        open_dataset(tmp_path, make_data())


def test_ids_that_share_rows_leave_labels_soft(soft: Path) -> None:
    data = replace(make_data(), num_embeddings=(21, 14), id_map=IdMapConfig(kind="hash", budget=0.5))
    assert has_soft_labels(open_dataset(soft, data).train)


# what is guessed


def guess(folder: Path, labels: list[float], **known: Any) -> Guess:
    frame = make_rows().rename(columns={"clicks": "click"}).assign(click=labels * (NUM_ROWS // len(labels)))
    return guess_columns(write_rows(folder / "a.csv", frame), "mine", known)


@pytest.mark.parametrize(
    ("labels", "known", "expected"),
    [
        ([0.0, 0.25, 0.5, 1.0], {}, {"soft_labels": True}),
        ([0.1, 0.9], {}, {"soft_labels": True}),
        ([0.0, 0.25, 0.5, 1.5], {}, {"positive_from": 0.375}),
        ([0, 1], {}, {}),
        ([0, 1], {"soft_labels": True}, {"soft_labels": True}),
        ([0.0, 0.25, 0.5, 1.0], {"positive_from": 0.5}, {"positive_from": 0.5}),
        ([0.0, 0.25, 0.5, 1.0], {"soft_labels": False}, {"soft_labels": False, "positive_from": 0.375}),
    ],
)
def test_shares_are_told_from_other_labels(
    tmp_path: Path, labels: list[float], known: dict[str, Any], expected: dict[str, Any]
) -> None:
    found = guess(tmp_path, labels, **known)
    keys = ("soft_labels", "positive_from", "positive")
    parameters = found.data["parameters"]
    assert {key: parameters[key] for key in keys if key in parameters} == expected
    is_guessed = expected.get("soft_labels") is True and "soft_labels" not in known
    assert (("soft_labels", None) in found.reasons) == is_guessed
    parse_data(found.data)


def test_a_label_that_is_named_comes_before_another_column_of_0_and_1(tmp_path: Path) -> None:
    frame = make_rows().rename(columns={"clicks": "click"}).assign(is_weekend=np.arange(NUM_ROWS) % 2)
    found = guess_columns(write_rows(tmp_path / "a.csv", frame), "mine", {})
    assert found.data["parameters"]["label"] == "click"


def test_the_first_target_is_one_that_the_labels_leave(tmp_path: Path) -> None:
    shares = [0.5, 0.51, 0.52, 0.53]
    found = guess(tmp_path, shares)
    best = doubled_auc(np.array(shares), np.array(shares))
    assert found.best_auc == pytest.approx(best, abs=1e-12) and best < 0.52
    path = tmp_path / "mine.toml"
    text = begin_definition(path, "dlrm_tiny", "mine", title=None, target=None, overrides=[], columns=found)
    assert tomllib.loads(text)["quality"]["target"] == pytest.approx(0.5 + 0.2 * (best - 0.5), abs=1e-4)
    assert f"the first rows have {best:.4f}." in " ".join(text.replace("#", " ").split())


def test_soft_labels_that_are_none_are_not_guessed_otherwise(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"expected numbers from 0 to 1 with data.parameters.soft_labels"):
        guess(tmp_path, [1.0, 3.0, 4.0, 5.0], soft_labels=True)


@pytest.mark.parametrize(
    ("cells", "known", "shown"),
    [
        (["0,25", "0", "0,75", "1"], {}, "0,25"),
        (["0,25", "0", "0,75", "1"], {"label": "click"}, "0,25"),
        (["0,25", "0", "0,75", "1"], {"soft_labels": True}, "0,25"),
        (["0,0", "1,0"], {}, "0,0"),
        (["1", "12", "1,234"], {"label": "click", "positive_from": 2}, "1,234"),
    ],
)
def test_a_label_with_marks_that_prepare_does_not_read_is_not_guessed(
    tmp_path: Path, cells: list[str], known: dict[str, Any], shown: str
) -> None:
    frame = make_rows(60).rename(columns={"clicks": "click"})
    frame = frame.assign(click=cells * (60 // len(cells)), is_weekend=np.arange(60) % 2)
    with pytest.raises(DatasetError, match=f"column 'click' holds '{shown}', expected a label, whose number has"):
        guess_columns(write_rows(tmp_path / "a.csv", frame), "mine", known)


# what is seen of them


def doubled_auc(labels: NDArray[Any], scores: NDArray[Any]) -> float:
    """By scikit-learn: each sample is there twice, as 1 with its label as weight and as 0 with the rest."""
    shares = labels.astype(np.float64)
    classes = np.repeat([1, 0], len(labels))
    found = roc_auc_score(classes, np.tile(scores, 2), sample_weight=np.concatenate([shares, 1 - shares]))
    return float(found)


@pytest.mark.slow
def test_the_look_weighs_by_shares(tmp_path: Path) -> None:
    frame = make_rows()
    prepared = prepare(tmp_path, frame.assign(price=np.sin(np.arange(NUM_ROWS)) + frame["clicks"]))
    labels = frame["clicks"].to_numpy()[600:]
    price = (np.sin(np.arange(NUM_ROWS)) + frame["clicks"]).to_numpy()[600:]
    assert prepared.looks[0].auc == pytest.approx(doubled_auc(labels.astype(np.float32), price), abs=1e-6)
    assert prepared.remarks == []
    assert rank_auc(price, labels) == pytest.approx(doubled_auc(labels, price), abs=1e-12)


def test_labels_that_are_alike_where_they_are_looked_at_are_told_by_no_column(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else sums of shares, which round, give columns AUCs that are above 0.5 by the last bit."""
    for limit in ("MOST_ROWS", "_STORE_ROWS"):
        monkeypatch.setattr(f"reference_models.data.prepared.pipeline.{limit}", 100)
    frame = make_rows()
    prepared = prepare(tmp_path, frame.assign(clicks=frame["clicks"].where(~frame.index.isin(range(600, 700)), 0.3)))
    assert prepared.soft is not None and prepared.soft.best_auc == 0.5
    assert [look.auc for look in prepared.looks] == [None] * 3
    assert not any("tells the label" in remark for remark in prepared.remarks)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "remark"),
    [
        (lambda frame: {"price": frame["clicks"]}, "column 'price' tells the label alone"),
        (
            lambda frame: {"clicks": frame["clicks"] * np.where(frame.index < 600, 0.5, 1)},
            "labels: their mean is 0.25 in training and 0.499 in",
        ),
    ],
)
def test_what_may_be_wrong_with_shares_is_remarked(
    tmp_path: Path, change: Callable[[pd.DataFrame], dict[str, Any]], remark: str
) -> None:
    frame = make_rows()
    prepared = prepare(tmp_path, frame.assign(**change(frame)))
    assert prepared.soft is not None and prepared.soft.best_auc < 0.95
    assert any(remark in found for found in prepared.remarks), prepared.remarks


# what trains on them

MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "dot": ("dlrm", {"interaction": "dot", "embedding_dim": 4, "bottom_mlp": [8, 4], "top_mlp": [16, 1]}),
    "dcn": (
        "dlrm",
        {
            "interaction": "dcn", "dcn_num_layers": 2, "dcn_low_rank_dim": 3, "embedding_dim": 4,
            "bottom_mlp": [8, 4], "top_mlp": [16, 1],
        },
    ),
    "wukong": (
        "wukong",
        {
            "embedding_dim": 4, "bottom_mlp": [8, 4], "num_layers": 2, "num_fmb": 2, "num_lcb": 2, "rank": 2,
            "fmb_mlp": [8], "top_mlp": [16, 1],
        },
    ),
}  # fmt: skip


def make_spec(folder: Path, model: str, implementation: str) -> WorkloadSpec:
    name, table = MODELS[model]
    train = {"global_batch_size": 60, "eval_batch_size": 64, "opt_name": "adagrad", "opt_base_learning_rate": 0.05}
    return WorkloadSpec(
        model=find_model(name).parse(table),
        data=make_data(),
        train=parse_train(train | {"opt_adagrad_initial_accumulator_value": 0.01}),
        runtime=parse_runtime({"threads": 1, "implementation": implementation}),
        data_dir=folder,
        seed=1,
    )


@pytest.mark.parametrize(
    "model", ["dot", *(pytest.param(name, marks=pytest.mark.slow) for name in ("dcn", "wukong"))]
)
def test_every_implementation_trains_on_shares_and_is_judged_by_them(soft: Path, model: str) -> None:
    """Losses by float64 of the reference's own logits; the optimized ones near; metrics by scikit-learn."""
    losses: dict[str, list[float]] = {}
    for implementation in ("reference", "optimized"):
        spec = make_spec(soft, model, implementation)
        workload: Any = find_implementation(MODELS[model][0], implementation).load(spec, SingleProcess())
        workload.build()
        split, losses[implementation] = workload.data.train, []
        for number in range(3):
            batch = split.read(60 * number, 60 * (number + 1))
            with torch.no_grad():
                logits = workload.compute_logits(workload.model, batch).double()
            labels = batch.labels.double()
            expected = -(labels * logits.sigmoid().log() + (1 - labels) * (1 - logits.sigmoid()).log()).mean()
            loss = float(workload.train_step(workload.model, workload.optimizers, batch))
            assert loss == pytest.approx(float(expected), rel=1e-6)
            losses[implementation].append(loss)
        labels, scores = workload.evaluate_with(lambda labels, scores: (labels, scores))
        assert np.array_equal(labels, labels_of(soft, make_data())["eval"])
        assert workload.evaluate() == pytest.approx(doubled_auc(labels, scores), abs=1e-12)
    assert losses["optimized"] == pytest.approx(losses["reference"], rel=1e-5)
    weights, reference = workload_weights(workload), make_spec(soft, model, "reference")
    served: Any = build_servable(MODELS[model][0], reference, weights)
    found, expected_quality = served.quality(), workload.evaluate_with(measure_quality)
    assert found.auc == pytest.approx(expected_quality.auc, abs=1e-4)
    assert found.log_loss == pytest.approx(expected_quality.log_loss, rel=1e-5)

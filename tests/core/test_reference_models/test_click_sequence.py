"""The generated sequence log: the same bytes always, in order of time, with labels as likely as the teacher says."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sequence_builder import small_workload

from reference_models.config.sections import DataConfig
from reference_models.data.click_sequence.generator import make_parts, make_windows, oracle_scores
from reference_models.data.click_sequence.teacher import build_teacher
from reference_models.data.registry import generate_dataset, open_dataset
from reference_models.data.store.generate import write_parts
from reference_models.data.store.layout import CLICKS
from reference_models.data.store.store import verify
from reference_models.hstu.config import SequenceShape
from reference_models.hstu.sequences import SequenceLog
from reference_models.process.errors import DatasetError
from rules.errors import DefinitionError

pytestmark = pytest.mark.numeric

SHAPE = SequenceShape(num_past=12, num_candidates=4)


@pytest.fixture(scope="module")
def data() -> DataConfig:
    return small_workload().data


@pytest.fixture(scope="module")
def folder(data: DataConfig, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("sequences")
    generate_dataset(made, data, num_threads=1)
    return made


def test_bytes_depend_on_neither_threads_nor_chunks(data: DataConfig, folder: Path, tmp_path: Path) -> None:
    assert write_parts(tmp_path, data, CLICKS, make_parts(data, 7), num_threads=3) == verify(folder)["dataset_sha256"]


def test_rows_are_windows_of_users_in_order_of_time(data: DataConfig, folder: Path) -> None:
    opened = open_dataset(folder, data)
    batches = [split.read(0, split.num_samples) for split in (opened.train, opened.eval)]
    times = np.concatenate([batch.dense.numpy()[:, 0] for batch in batches]).reshape(7, 64, 4)
    items, users, artists = np.concatenate([batch.indices.numpy() for batch in batches]).T.reshape(3, 7, 64, 4)
    assert (times == np.arange(28).reshape(7, 1, 4)).all()
    assert (users == np.arange(64)[:, None]).all()
    of_item = dict(zip(items.ravel(), artists.ravel(), strict=True))
    assert all(of_item[item] == artist for item, artist in zip(items.ravel(), artists.ravel(), strict=True))
    assert set(of_item.values()) == set(range(16))


def test_items_are_dealt_evenly_to_artists_and_artists_to_classes(data: DataConfig) -> None:
    teacher = build_teacher(data)
    assert np.bincount(teacher.artist).tolist() == [5] * 16
    for number, (first, width) in enumerate(zip(teacher.first_item, teacher.num_items, strict=True)):
        members = teacher.items[first[0] : first[-1] + width[-1]]
        assert set(teacher.artist[members]) == {number, number + 8}


def test_labels_are_drawn_from_the_formula_written_as_loops(data: DataConfig, folder: Path) -> None:
    """logit = bias + effect + sum over the last events before the window of weight * sign * affinity."""
    teacher, given = build_teacher(data), data.parameters
    classes = np.empty(80, np.int64)
    for number, (first, width) in enumerate(zip(teacher.first_item, teacher.num_items, strict=True)):
        classes[teacher.items[first[0] : first[-1] + width[-1]]] = number
    opened = open_dataset(folder, data)
    parts = [split.read(0, split.num_samples) for split in (opened.train, opened.eval)]
    items = np.concatenate([part.indices.numpy()[:, 0] for part in parts]).reshape(7, 64, 4)
    clicks = np.concatenate([part.labels.numpy() for part in parts]).reshape(7, 64, 4)
    weights = given["decay"] ** np.arange(given["history_events"])
    weights *= given["history_scale"] / np.sqrt((weights**2).sum())
    logits = np.concatenate([window.logits for window in make_windows(teacher, 5, 6, 7)])
    for window in range(7):
        past_items, past_clicks = items[:window, 5].ravel()[::-1], clicks[:window, 5].ravel()[::-1]
        for event in range(4):
            item = items[window, 5, event]
            expected = given["bias"] + teacher.effect[item]
            for weight, other, click in zip(weights, past_items, past_clicks, strict=False):
                is_same = classes[other] == classes[item]
                affinity = given["other_class"] + given["same_class"] * is_same
                expected += weight * (1 if click else -1) * affinity
            assert logits[window, event] == pytest.approx(expected, abs=1e-5)


def test_the_oracle_knows_how_likely_clicks_are(data: DataConfig) -> None:
    many = replace(data, train_samples=64 * 4 * 100)
    probabilities, labels = oracle_scores(many, "train")
    for low in np.arange(0, 1, 0.1):
        inside = (probabilities >= low) & (probabilities < low + 0.1)
        expected, spread = probabilities[inside].mean(), 0.5 / np.sqrt(inside.sum())
        assert abs(labels[inside].mean() - expected) < 4 * spread


def test_histories_are_what_a_user_did_before_the_window(data: DataConfig, folder: Path) -> None:
    """Looked up event by event; whatever the batch, a candidate's history is the same."""
    opened = open_dataset(folder, data)
    log = SequenceLog(opened.eval, opened.train, "eval", SHAPE)
    train, evaluation = opened.train.read(0, 1536), opened.eval.read(0, 256)
    for start, stop in ((0, 256), (6, 15)):
        batch = log.read(start, stop)
        assert (batch.items == evaluation.indices[start:stop, 0]).all()
        assert (batch.artists == evaluation.indices[start:stop, 2]).all()
        assert (batch.labels == evaluation.labels[start:stop]).all()
        begins = np.cumsum([0, *batch.past_lengths])
        users = evaluation.indices[start:stop, 1].unique().tolist()
        assert sum(batch.lengths) == stop - start and len(batch.lengths) == len(users)
        for number, user in enumerate(users):
            events = (train.indices[:, 1] == user).nonzero().squeeze(1)[-12:]
            past = slice(begins[number], begins[number + 1])
            assert (batch.past_items[past] == train.indices[events, 0]).all()
            assert (batch.past_artists[past] == train.indices[events, 2]).all()
            assert (batch.past_actions[past] == train.labels[events]).all()
            assert batch.past_ages[past].tolist() == list(range(12, 0, -1))
    first = SequenceLog(opened.train, None, "train", SHAPE).read(0, 600)
    assert first.past_lengths == (0,) * 64 + (4,) * 64 + (8,) * 22


@pytest.mark.parametrize(
    ("array", "row", "value", "message"),
    [
        ("dense", 700, 3.0, "sample 700: its time 3 is in window 0, after one of window 2"),
        ("dense", 258, 4.0, "sample 258: time 4 of user 0 is not after"),
        ("dense", 3, 0.5, "sample 3: time 0.5, expected a whole number"),
        ("indices", 9, [80, 2, 5], "sample 9, sparse feature 0: id 80 is outside its table of 80 rows"),
        ("indices", 9, [3, -1, 5], "sample 9, sparse feature 1: id -1 is outside its table of 64 rows"),
        ("indices", 9, [3, 2, 16], "sample 9, sparse feature 2: id 16 is outside its table of 16 rows"),
        ("labels", 11, 2, "sample 11: label 2, expected 0 or 1"),
    ],
)
def test_rows_that_cannot_be_are_named(
    array: str, row: int, value: Any, message: str, data: DataConfig, folder: Path
) -> None:
    opened = open_dataset(folder, data)
    batch = opened.train.read(0, 1536)
    getattr(batch, array)[row] = getattr(batch, array).new_tensor(value)

    class Damaged:
        num_samples, num_embeddings = 1536, opened.train.num_embeddings
        multi_hot, num_dense = opened.train.multi_hot, 1

        def read(self, start: int, stop: int) -> Any:
            return batch

    if array == "labels":
        batch.labels[row] = value
    with pytest.raises(DatasetError, match=message):
        SequenceLog(Damaged(), None, "train", SHAPE)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"data": {"train_samples": 1537}}, "train_samples is 1537, expected a multiple of 256"),
        ({"data": {"num_embeddings": [80, 64]}}, "expected three whole numbers"),
        ({"data": {"num_embeddings": [15, 64, 16]}}, "15 items are fewer than 16 artists"),
        ({"data": {"num_embeddings": [80, 64, 7]}}, "7 artists are fewer than 8 classes"),
        ({"data": {"num_dense": 2}}, "num_dense is 2, expected 1"),
        ({"parameters": {"zipf_exponent": 0.3}}, "expected a multiple of 0.125"),
        ({"parameters": {"num_favourites": 9}}, "expected at most 8, the classes"),
        ({"parameters": {"decai": 0.3}}, "unknown key data.parameters.decai. Did you mean 'decay'?"),
    ],
)
def test_definitions_that_make_no_log_are_refused(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        small_workload(**changed)

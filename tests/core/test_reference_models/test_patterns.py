"""The generated patterns: the same bytes always, prototypes or their negatives, pixels turned as asked for."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reference_models.config.sections import DataConfig
from reference_models.data.patterns.generator import make_parts, oracle_scores
from reference_models.data.patterns.teacher import build_teacher
from reference_models.data.registry import generate_dataset, open_dataset, parse_data, verify_dataset
from reference_models.data.store.generate import write_parts
from reference_models.data.store.layout import IMAGES
from reference_models.process.errors import ConfigError
from reference_models.training.metrics import accuracy

pytestmark = pytest.mark.numeric

TABLE: dict[str, Any] = {
    "kind": "patterns",
    "name": "few",
    "train_samples": 4000,
    "eval_samples": 1000,
    "num_dense": 49,
    "num_embeddings": [5, 5, 5],
    "seed": 3,
    "parameters": {"flip_share": 0.2},
}


@pytest.fixture(scope="module")
def data() -> DataConfig:
    return parse_data(TABLE)


@pytest.fixture(scope="module")
def folder(data: DataConfig, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("patterns")
    generate_dataset(made, data, num_threads=1)
    return made


def test_bytes_depend_on_neither_threads_nor_chunks(data: DataConfig, folder: Path, tmp_path: Path) -> None:
    found = write_parts(tmp_path, data, IMAGES, make_parts(data, 77), num_threads=3)
    assert found == verify_dataset(folder)["dataset_sha256"]
    assert found == "a888cc674e52ebac0f9b99694cedbc8f4e2c00af266bc83333820616e396ab0b"


def test_a_task_shows_its_class_or_the_negative_with_turned_pixels(data: DataConfig, folder: Path) -> None:
    teacher, batch = build_teacher(data), open_dataset(folder, data).train.read(0, 4000)
    pixels, classes = batch.images.numpy(), batch.classes.numpy()
    assert set(np.unique(pixels)) == {0, 1}
    for task in range(3):
        own = teacher.owners == task
        assert np.bincount(classes[:, task], minlength=5).min() > 700
        turned = np.mean(pixels[:, own] != teacher.prototypes[task][classes[:, task]][:, own], axis=1)
        is_negative = turned > 0.5
        assert abs(is_negative.mean() - 0.5) < 0.04
        assert np.where(is_negative, 1 - turned, turned).mean() == pytest.approx(0.2, abs=0.02)
        for number in range(5):  # grey: the mean tells no class
            assert np.abs(pixels[classes[:, task] == number][:, own].mean(0) - 0.5).max() < 0.1


def test_the_oracle_is_the_likeliest_class_by_the_probabilities_themselves(data: DataConfig, folder: Path) -> None:
    teacher, batch = build_teacher(data), open_dataset(folder, data).eval.read(0, 200)
    scores, classes = oracle_scores(data, "eval")
    assert (classes[:200] == batch.classes.numpy()).all()
    for task in range(3):
        own = teacher.owners == task
        for number in range(5):
            is_equal = batch.images.numpy()[:, own] == teacher.prototypes[task][number][own]
            likely = [np.where(same, 0.8, 0.2).prod(1) for same in (is_equal, ~is_equal)]
            surplus = np.log(likely[0] + likely[1])
            expected = np.log(2 * np.cosh(np.log(0.8 / 0.2) / 2 * scores[:200, task, number]))
            assert np.ptp(surplus - expected) < 1e-9
    assert 0.8 < accuracy(classes, scores.astype(np.float32)) < 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_dense": 50}, "data.num_dense is 50, expected the pixels of a square pattern"),
        (
            {"num_embeddings": (5, 4, 5)},
            r"data.num_embeddings is \[5, 4, 5\], expected the number of classes once for",
        ),
        ({"num_embeddings": (5,) * 4, "multi_hot": (1,) * 4}, "4 tasks of 5 classes, expected at most 3 tasks of 2"),
        ({"num_embeddings": (1,) * 3}, "3 tasks of 1 classes"),
        ({"parameters": {"flip_share": 0.7}}, "data.parameters.flip_share is 0.7, expected"),
        ({"parameters": {"flip_shar": 0.3}}, "unknown key data.parameters.flip_shar. Did you mean 'flip_share'"),
    ],
)
def test_impossible_patterns_are_refused(data: DataConfig, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        build_teacher(replace(data, **changes))

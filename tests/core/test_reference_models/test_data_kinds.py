"""Kinds of data: every spec is whole, models take what they can, and labels may be other than 0 and 1."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from harness.config.catalog import load_entry, parse_workload
from reference_models.config.sections import DataConfig
from reference_models.data.registry import (
    DATA_KINDS,
    examples,
    find_data,
    generate_dataset,
    open_dataset,
    parse_data,
    verify_dataset,
)
from reference_models.data.store.dataset import Batch, ClickDataset, ImageBatch
from reference_models.data.store.generate import Parts, Piece, write_parts
from reference_models.data.store.layout import CLICKS, IMAGES, LABELS, Layout
from reference_models.data.store.store import open_store, verify
from reference_models.process.errors import ConfigError, DatasetError
from rules.benchmarks.loader import load_benchmark
from rules.errors import DefinitionError


@pytest.mark.parametrize("kind", DATA_KINDS)
def test_a_spec_says_where_its_data_comes_from(kind: str) -> None:
    spec = find_data(kind)
    origins = [spec.generate is not None, spec.is_prepared, spec.is_in_memory, spec.open is not None]
    assert sum(origins[:3]) <= 1 and any(origins)
    assert (spec.oracle is not None) == (spec.generate is not None)
    assert spec.has_store == (spec.open is None)


@pytest.mark.parametrize("kind", examples())
def test_an_example_is_a_shipped_benchmark_of_that_kind(kind: str) -> None:
    assert load_benchmark(examples()[kind]).sections["data"]["kind"] == kind


def test_an_unknown_kind_is_refused_with_a_suggestion() -> None:
    with pytest.raises(ConfigError, match=r"data.kind is 'pattern'. Did you mean 'patterns'\?"):
        parse_data({"kind": "pattern", "name": "few"})
    with pytest.raises(ConfigError, match=r"data\.kind is 7, expected"):
        parse_data({"kind": 7, "name": "few"})


@pytest.mark.parametrize(("model_of", "data_of"), [("dlrm_tiny", "d2nn_small"), ("wukong_small", "d2nn_small")])
def test_a_model_is_not_shown_samples_of_another_form(model_of: str, data_of: str) -> None:
    benchmark, other = load_benchmark(model_of), load_benchmark(data_of)
    with pytest.raises(DefinitionError, match=r"data.kind is 'patterns', expected click_log or .*no other samples"):
        parse_workload(benchmark, {**benchmark.sections, "data": other.sections["data"]})


def test_images_and_classes_go_by_these_names(tmp_path: Path) -> None:
    data = replace(load_entry("d2nn_small").workload.data, train_samples=50, eval_samples=20, sha256=None)
    generate_dataset(tmp_path, data)
    verify_dataset(tmp_path)
    batch = open_dataset(tmp_path, data).train.read(0, 10)
    assert isinstance(batch, ImageBatch)
    assert batch.images.shape == (10, data.num_dense) and batch.classes.shape == (10, data.num_lookups)
    assert IMAGES.files == CLICKS.files


def test_the_first_class_that_a_task_lacks_is_named(tmp_path: Path) -> None:
    data = replace(load_entry("d2nn_small").workload.data, train_samples=50, eval_samples=20, sha256=None)
    generate_dataset(tmp_path, data)
    split = open_dataset(tmp_path, data).train
    batch = split.read(0, 10)
    batch.check(split, "here: sample", 0)
    batch.classes[3, 1] = 99
    with pytest.raises(DatasetError, match="here: sample 3, sparse feature 1: id 99 is outside its table of"):
        batch.check(split, "here: sample", 0)


@dataclass(frozen=True, slots=True)
class Ratings:
    """Samples with a label that is a number of stars."""

    dense: Any
    indices: Any
    stars: Any

    def __len__(self) -> int:
        return len(self.stars)

    @classmethod
    def empty(cls, split: ClickDataset, num_samples: int) -> "Ratings":
        batch = Batch.empty(split, num_samples)
        return cls(batch.dense, batch.indices, torch.empty(num_samples))


STARS = replace(
    LABELS,
    file="stars",
    member="stars",
    dtype="float32",
    expected="0 to 5 stars",
    is_wrong=lambda values, sizes: ~((values >= 0) & (values <= 5)),
)
RATINGS = Layout(batch=Ratings, arrays=(STARS, *CLICKS.arrays[1:]))


def rated(worst: float) -> tuple[DataConfig, Parts]:
    table = {"kind": "click_log", "name": "rated", "train_samples": 30, "eval_samples": 10, "num_dense": 2}
    data = parse_data({**table, "num_embeddings": [4, 4], "seed": 0})

    def make(split: str) -> Iterator[Piece]:
        size = 30 if split == "train" else 10
        stars = np.linspace(worst, 4.5, size, dtype=np.float32)
        yield split, 0, Ratings(np.zeros((size, 2), np.float32), np.zeros((size, 2), np.int32), stars)

    return data, Parts(("train", "eval"), make)


def test_labels_may_be_other_numbers_than_0_and_1(tmp_path: Path) -> None:
    data, parts = rated(0.5)
    digest = write_parts(tmp_path, data, RATINGS, parts)
    assert verify(tmp_path, RATINGS)["dataset_sha256"] == digest
    opened = open_store(tmp_path, data, RATINGS)
    assert set(opened.files) == {str(tmp_path / name) for name in RATINGS.files}
    assert opened.eval.read(0, 10).stars.tolist() == np.linspace(0.5, 4.5, 10, dtype=np.float32).tolist()


def test_a_label_that_the_layout_does_not_know_is_named(tmp_path: Path) -> None:
    data, parts = rated(-1)
    write_parts(tmp_path, data, RATINGS, parts)
    with pytest.raises(DatasetError, match=r"train_stars.npy: sample 0 is -1.0, expected 0 to 5 stars"):
        verify(tmp_path, RATINGS)


def test_files_of_another_layout_are_refused(tmp_path: Path) -> None:
    data, parts = rated(0.5)
    write_parts(tmp_path, data, RATINGS, parts)
    with pytest.raises(DatasetError, match=r"expected the files train_labels.npy, train_dense.npy"):
        open_store(tmp_path, data)
    with pytest.raises(DatasetError, match=r"expected the files train_labels.npy"):
        verify_dataset(tmp_path)


def test_parts_that_leave_samples_out_are_refused(tmp_path: Path) -> None:
    data, parts = rated(0.5)
    with pytest.raises(ValueError, match="made 30 samples, expected 40"):
        write_parts(tmp_path, data, RATINGS, Parts(("train",), parts.make))
    assert list(tmp_path.iterdir()) == []

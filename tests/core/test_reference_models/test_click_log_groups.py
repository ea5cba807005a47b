"""The click log with interactions of three and four features: what they say, and the same bytes everywhere."""

import hashlib
from typing import Any

import numpy as np
import pytest

from reference_models.config.sections import DataConfig
from reference_models.data.click_log import tables
from reference_models.data.click_log.counter import derive_key
from reference_models.data.click_log.generator import ChunkMaker
from reference_models.data.click_log.teacher import NUM_CLASSES, SparseFeature, build_teacher
from reference_models.data.registry import parse_data

pytestmark = pytest.mark.numeric

GROUPED_SHA256 = {
    2: "5ea4b0bb7d55a4c0c62607033d0114f1fe443e07edaf54a456d3f02c9d00d368",
    3: "afc4fa0c321c51ab2cd5e6e284efaf0dd41ed1ab9c5433b05dcff3e051eab637",
    4: "26b0f9f6670c430845aa4db682b5017b3ffc393e442354694980033db3a5ebdb",
}
"""Of `grouped`, by the order of its interactions."""
RANK_1_SHA256 = "10f33ab7b6f19d8f81173dd54fe7e62537822a10f30f721ca3ddeb24a3762032"
"""Of groups of four with `interaction_rank` 1."""


def grouped(order: int, **parameters: Any) -> DataConfig:
    """Nine features, of which eight can be in a matching; groups of `order`."""
    made = {
        "zipf_exponent": 1.125, "bias": -1.0, "effect_scale": 0.8, "interaction_scale": 1.2, "dense_scale": 0.5,
        "pairing": "matching", "interaction_order": order, "num_interactions": 8 // order, **parameters,
    }  # fmt: skip
    sizes = {"num_embeddings": [40, 3, 60, 70, 32, 50, 90, 33, 45], "train_samples": 3000, "eval_samples": 700}
    return parse_data({"kind": "click_log", "name": "some", "num_dense": 7, "seed": 5, **sizes, "parameters": made})


@pytest.mark.parametrize("order", [3, 4])
def test_of_groups_nothing_is_said_by_fewer_of_their_features(order: int) -> None:
    """Averaged over the ids of any one feature, the term of all of them is zero."""
    teacher = build_teacher(grouped(order))
    assert [len(interaction.features) for interaction in teacher.interactions] == [order] * (8 // order)
    for interaction in teacher.interactions:
        term = interaction.term.reshape((NUM_CLASSES,) * order).astype(np.float64)
        masses = [_class_masses(teacher.sparse[f]) for f in interaction.features]
        for axis, mass in enumerate(masses):
            others = [mass > 0 for at, mass in enumerate(masses) if at != axis]
            averaged = np.tensordot(term, mass, (axis, 0))
            assert np.abs(averaged[np.ix_(*others)]).max() < 1e-4
        assert np.abs(term).max() > 0.1


@pytest.mark.slow
@pytest.mark.parametrize("order", [2, 3, 4])
@pytest.mark.parametrize(("mean", "rank"), [(0.0, 4), (0.5, 4), (0.5, 2), (1.0, 1)])
def test_a_groups_term_is_the_product_of_its_features_vectors(order: int, mean: float, rank: int) -> None:
    """Summed over coordinates, without what the means alone give; the logits of samples have it by their ids."""
    with_groups = grouped(order, latent_mean=mean, interaction_rank=rank)
    teacher, plain = build_teacher(with_groups), build_teacher(grouped(order, interaction_scale=0.0))
    (chunk, logits), (_, without) = (ChunkMaker(each, 50).make("train", 0, 50) for each in (teacher, plain))
    vectors = _class_vectors_of(with_groups)
    expected = np.zeros(50)
    for interaction in teacher.interactions:
        classes = [teacher.sparse[f].latent_class[chunk.indices[:, f]] for f in interaction.features]
        product = np.ones((rank, 50))
        for feature, of_feature in zip(interaction.features, classes, strict=True):
            product *= vectors[feature][:rank, of_feature] + mean
        expected += (product - mean**order).sum(0) * 1.2 / np.sqrt(8 // order * rank)
    np.testing.assert_allclose(logits - without, expected, atol=1e-4)
    assert np.abs(expected).max() > 0.1


def _class_vectors_of(data: DataConfig) -> list[np.ndarray[Any, Any]]:
    """[4, 32] of every feature: normal numbers, centred and scaled under the classes' masses."""
    found = []
    for f, feature in enumerate(build_teacher(data).sparse):
        mass = _class_masses(feature)
        drawn = [tables.normals(derive_key(derive_key(data.seed or 0, 3, f), d), NUM_CLASSES) for d in range(4)]
        centred = [values - (values * mass).sum() / mass.sum() for values in drawn]
        found.append(np.array([v / np.sqrt((v * v * mass).sum() / mass.sum()) for v in centred]))
    return found


def test_the_first_samples_of_groups_are_these() -> None:
    digests = {order: sha256_of(grouped(order, latent_mean=0.5), 1000) for order in (2, 3, 4)}
    assert digests == GROUPED_SHA256
    assert sha256_of(grouped(4, latent_mean=0.5, interaction_rank=4), 1000) == GROUPED_SHA256[4]
    assert sha256_of(grouped(4, latent_mean=0.5, interaction_rank=1), 1000) == RANK_1_SHA256


def _class_masses(feature: SparseFeature) -> np.ndarray[Any, Any]:
    mass = tables.slice_masses(len(feature.effect), feature.first_id, feature.num_ids)
    return np.bincount(feature.latent_class, weights=mass, minlength=NUM_CLASSES)


def sha256_of(data: DataConfig, num_samples: int) -> str:
    """Digest of the first training samples and their logits."""
    chunk, logits = ChunkMaker(build_teacher(data), num_samples).make("train", 0, num_samples)
    parts = (chunk.labels, chunk.dense, chunk.indices, logits)
    return hashlib.sha256(b"".join(part.tobytes() for part in parts)).hexdigest()

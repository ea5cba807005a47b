"""What the target of wukong_small asks for: more than features say one by one, whatever a model makes of it."""

from itertools import combinations
from typing import Any

import numpy as np

from harness.config.catalog import load_entry
from reference_models.data.click_log import tables
from reference_models.data.click_log.generator import ChunkMaker
from reference_models.data.click_log.teacher import NUM_CLASSES, Interaction, SparseFeature, Teacher, build_teacher
from reference_models.training.metrics import roc_auc

Array = np.ndarray[Any, Any]


def test_the_teacher_without_what_features_say_together_stays_far_below_the_target() -> None:
    """Its own logits, less the terms that need more features than 0, 1, 2, 3 and 4, rank the evaluation split."""
    entry = load_entry("wukong_small")
    data, target = entry.workload.data, entry.benchmark.quality.target
    teacher = build_teacher(data)
    chunk, logits = ChunkMaker(teacher, data.eval_samples).make("eval", 0, data.eval_samples or 0)
    parts = sum(terms_by_order(teacher, interaction, chunk.indices) for interaction in teacher.interactions)
    assert isinstance(parts, np.ndarray)
    kept = logits - parts.sum(0) + np.cumsum(parts, axis=0)
    aucs = [roc_auc(chunk.labels != 0, scores.astype(np.float32)) for scores in kept]
    assert aucs == sorted(aucs)
    assert aucs[1] <= target - 0.03
    assert aucs[4] - aucs[2] >= 0.05


def terms_by_order(teacher: Teacher, interaction: Interaction, indices: Array) -> Array:
    """Split a group's term, sample by sample, into what 0, 1, 2, 3 and 4 of its features say together: [5, N].

    A part is the term averaged over the classes of the features left out, less the parts of fewer features.
    """
    features = interaction.features
    term = interaction.term.reshape((NUM_CLASSES,) * len(features)).astype(np.float64)
    classes = [teacher.sparse[f].latent_class[indices[:, f]] for f in features]
    masses = [class_masses(teacher.sparse[f]) for f in features]
    parts: dict[tuple[int, ...], Array] = {}
    for order in range(len(features) + 1):
        for kept in combinations(range(len(features)), order):
            averaged = term
            for axis in reversed(range(len(features))):
                if axis not in kept:
                    averaged = np.tensordot(averaged, masses[axis], (axis, 0))
            value = averaged[tuple(classes[axis] for axis in kept)] * np.ones(len(indices))
            below = [part for of, part in parts.items() if set(of) < set(kept)]
            parts[kept] = value - sum(below)
    return np.array(
        [sum(part for of, part in parts.items() if len(of) == order) for order in range(len(features) + 1)]
    )


def class_masses(feature: SparseFeature) -> Array:
    mass = tables.slice_masses(len(feature.effect), feature.first_id, feature.num_ids)
    return np.bincount(feature.latent_class, weights=mass / mass.sum(), minlength=NUM_CLASSES)

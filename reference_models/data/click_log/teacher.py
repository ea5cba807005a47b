"""Build the hidden teacher of a generated click log, which determines each sample's click probability.

logit = bias + sum of per-id effects + sum over pairs of features of <v_i, v_j> + a function of each dense feature.
Every id belongs to one of 32 latent classes of its feature and v is its class's vector, so a pair's term is one
lookup in a 32 x 32 table. The vectors are centred under the ids' distribution, so neither id of a pair says anything
about the label without the other, and no model without interactions can learn the term. With a `latent_mean` other
than 0, single ids say a little about the label, and models that must find the interactions find them sooner.

With `interaction_order` 3 or 4, groups of three or four features interact instead of pairs. A group's term is the sum
over coordinates of the product of all its vectors, one lookup in a table with an axis of 32 classes per feature. With
a `latent_mean` of 0, the ids of some of a group's features say nothing about the label without the others.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from reference_models.config.records import Count, read_section, refuse
from reference_models.config.sections import DataConfig
from reference_models.data.click_log import tables
from reference_models.data.click_log.counter import MAX_SPLIT_SAMPLES, derive_key, hash_range
from reference_models.process.errors import ConfigError

CLASS_BITS = 5
NUM_CLASSES = 1 << CLASS_BITS
LATENT_DIM = 4
MIN_MATCHED_IDS = NUM_CLASSES
"""Least number of ids that a sparse feature must have to be in a pair, if pairing is `matching`. With fewer ids, the
feature has too few latent classes for an interaction to be learned."""
Scale = Annotated[float, Meta(ge=0, le=100)]


@dataclass(frozen=True, kw_only=True, slots=True)
class TeacherConfig:
    """Section [data.parameters] of a generated click log. Fields named `*_scale` are standard deviations of the parts
    of the click logit."""

    zipf_exponent: Annotated[float, Meta(ge=0, le=4)]
    """Zipf exponent of the ids' popularity, in steps of 0.125; 0 is uniform."""
    bias: Annotated[float, Meta(ge=-20, le=20)] = 0.0
    """Constant part of the click logit: below 0 makes clicks rare."""
    effect_scale: Scale
    """Standard deviation of the effects of single ids on the click logit, which logistic regression can learn."""
    interaction_scale: Scale
    """Standard deviation of the effects of id interactions, which only a model with interactions can learn."""
    dense_scale: Scale
    """Standard deviation of the effects of dense features on the click logit."""
    num_interactions: Count
    """Number of interacting pairs (or groups) of sparse features."""
    interaction_order: Literal[2, 3, 4] = 2
    """Number of sparse features per interaction: 2 (pairs); 3 or 4 (groups) only with pairing = `matching`."""
    pairing: Literal["random", "matching"] = "random"
    """Choice of the interacting features. With `random`, pairs are drawn at random, and may share a feature: such
    pairs compete for its embeddings, and the initial weights decide which pair is learned. With `matching`, no
    feature is in two pairs or groups, and only features of at least 32 ids interact."""
    latent_mean: Annotated[float, Meta(ge=-10, le=10)] = 0.0
    """Number added to the coordinates of the latent classes' centred vectors; if not 0, single ids say a little about
    the label."""
    interaction_rank: Annotated[int, Meta(ge=1, le=LATENT_DIM)] = LATENT_DIM
    """Number of coordinates of the vectors of the latent classes, whose products make the click logit. With only 1, a
    model can learn an id's coordinate from the id alone."""


def parse_teacher(data: DataConfig) -> TeacherConfig:
    """Read [data.parameters] of a click log. Raises ConfigError naming the wrong field."""
    teacher = read_section("data.parameters", data.parameters, TeacherConfig)
    if not (teacher.zipf_exponent * tables.ZIPF_STEPS_PER_ONE).is_integer():
        raise refuse("data.parameters", data.parameters, "zipf_exponent", "a multiple of 0.125")
    num_groups, of = data.num_sparse * (data.num_sparse - 1) // 2, f"{data.num_sparse} features"
    order = teacher.interaction_order
    if teacher.pairing == "matching":
        num_matched = len(_matched_features(data.num_embeddings or ()))
        num_groups = num_matched // order
        of = f"a matching of {num_matched} features with {MIN_MATCHED_IDS} ids or more"
    elif order != 2:
        raise refuse("data.parameters", data.parameters, "interaction_order", "2 where pairing is not 'matching'")
    if teacher.num_interactions > num_groups:
        groups = "pairs" if order == 2 else f"groups of {order}"
        expected = f"at most the {num_groups} {groups} of {of}"
        raise refuse("data.parameters", data.parameters, "num_interactions", expected)
    for split, count in (("train", data.train_samples), ("eval", data.eval_samples)):
        if count is None or count > MAX_SPLIT_SAMPLES:
            raise ConfigError(f"data.{split}_samples is {count!r}, expected a whole number up to 2**40.")
    return teacher


@dataclass(frozen=True, kw_only=True, slots=True)
class SparseFeature:
    """Distribution of a sparse feature's ids, and their effects on the click logit; n ids, m ids per sample."""

    first_id: NDArray[np.int64]
    """Quantiles of the distribution of ids: the first id of each of 2**12 slices of equal probability, int64 [2**12].
    Computed by `tables.inverse_zipf`."""
    num_ids: NDArray[np.int64]
    effect: NDArray[np.float32]
    """Number that each of n ids adds to the click logit by itself, apart from interactions: float32 [n]."""
    latent_class: NDArray[np.int64]
    """Latent class, below 32, of each of n ids, which determines the id's interactions: int64 [n]."""
    bag: NDArray[np.int32]
    """Ids of a multi-hot feature that a sample gets when an id is drawn, the drawn id first: int32 [n ids, m ids per
    sample]."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DenseFeature:
    """Two arrays for a dense feature, float32 [2**12] each: its values log(1 + x) at 2**12 quantiles, and the term
    that each value adds to the click logit."""

    value: NDArray[np.float32]
    effect: NDArray[np.float32]


@dataclass(frozen=True, kw_only=True, slots=True)
class Interaction:
    """Interaction of two to four sparse features. `term`, float32 [32 ** len(features)], has the number that the
    interaction adds to the click logit, for each combination of latent classes of the features' ids.

    The index in `term` is a number to base 32 whose digits are the latent classes, the first feature's class first.
    """

    features: tuple[int, ...]
    term: NDArray[np.float32]


@dataclass(frozen=True, kw_only=True, slots=True)
class Teacher:
    """Tables from which a click log's samples are generated, given each sample's number (counter)."""

    key: int
    bias: np.float32
    sparse: tuple[SparseFeature, ...]
    dense: tuple[DenseFeature, ...]
    interactions: tuple[Interaction, ...]


def build_teacher(data: DataConfig) -> Teacher:
    """Build the hidden teacher (tables that determine click probabilities) of a click log, a pure function of the
    log's definition. Raises ConfigError for a wrong definition."""
    config, seed = parse_teacher(data), data.seed or 0
    if data.num_embeddings is None:
        raise ConfigError("data.num_embeddings is missing, expected a list of whole numbers.")
    num_sparse = data.num_sparse
    per_feature = 1.0 / np.sqrt(np.float64(num_sparse))
    sparse, vectors = [], []
    for f, (num_ids, multi_hot) in enumerate(zip(data.num_embeddings, data.multi_hot, strict=True)):
        first, width = tables.inverse_zipf(tables.zipf_masses(num_ids, config.zipf_exponent))
        mass = tables.slice_masses(num_ids, first, width)
        effect = _centred(tables.normals(derive_key(seed, 1, f), num_ids), mass)
        classes = (hash_range(derive_key(seed, 2, f), 0, num_ids) >> np.uint64(64 - CLASS_BITS)).astype(np.int64)
        class_mass = np.zeros(NUM_CLASSES)
        np.add.at(class_mass, classes, mass)
        vectors.append(_class_vectors(derive_key(seed, 3, f), class_mass, config.interaction_rank))
        sparse.append(
            SparseFeature(
                first_id=first,
                num_ids=width,
                effect=(effect * (config.effect_scale * per_feature)).astype(np.float32),
                latent_class=classes,
                bag=_bags(derive_key(seed, 4, f), num_ids, multi_hot),
            )
        )
    dense = tuple(
        _dense_feature(derive_key(seed, 5, d), config.dense_scale / np.sqrt(np.float64(data.num_dense)))
        for d in range(data.num_dense)
    )
    return Teacher(
        key=derive_key(seed, 0),
        bias=np.float32(config.bias),
        sparse=tuple(sparse),
        dense=dense,
        interactions=_interactions(derive_key(seed, 6), config, data.num_embeddings, vectors),
    )


def _ordered_sum(values: NDArray[np.float64]) -> float:
    """Return the sum of values added in index order, since np.sum's order depends on NumPy's build."""
    return float(np.add.accumulate(values)[-1])


def _centred(values: NDArray[np.float64], mass: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return values shifted and scaled to mean 0 and variance 1 under the weights `mass`; all zeros if the values'
    variance is 0."""
    total = _ordered_sum(mass)
    centred = values - _ordered_sum(values * mass) / total
    variance = _ordered_sum(centred * centred * mass) / total
    return centred / np.sqrt(variance) if variance > 0.0 else np.zeros_like(values)


def _class_vectors(key: int, class_mass: NDArray[np.float64], rank: int) -> list[NDArray[np.float64]]:
    """Return the random vectors of a feature's 32 latent classes: for each of `rank` coordinates, its values float64
    [32]."""
    return [_centred(tables.normals(derive_key(key, d), NUM_CLASSES), class_mass) for d in range(rank)]


def _matched_features(num_embeddings: Sequence[int]) -> list[int]:
    return [f for f, num_ids in enumerate(num_embeddings) if num_ids >= MIN_MATCHED_IDS]


def draw_groups(key: int, config: TeacherConfig, num_embeddings: Sequence[int]) -> list[tuple[int, ...]]:
    """Draw the tuple of sparse features of each interaction; `parse_teacher` has checked that there are enough
    features."""
    num_sparse, order = len(num_embeddings), config.interaction_order
    if config.pairing == "matching":
        features = _matched_features(num_embeddings)
        drawn = [features[i] for i in np.argsort(hash_range(key, 0, len(features)), kind="stable")]
        return [tuple(drawn[i : i + order]) for i in range(0, order * config.num_interactions, order)]
    pairs = [(i, j) for i in range(num_sparse) for j in range(i + 1, num_sparse)]
    ranks = np.argsort(hash_range(key, 0, len(pairs)), kind="stable")
    return [pairs[int(index)] for index in ranks[: config.num_interactions]]


def _interactions(
    key: int, config: TeacherConfig, num_embeddings: Sequence[int], vectors: list[list[NDArray[np.float64]]]
) -> tuple[Interaction, ...]:
    scale = config.interaction_scale / np.sqrt(np.float64(max(1, config.num_interactions) * config.interaction_rank))
    found = []
    for features in draw_groups(key, config, num_embeddings):
        term = np.zeros((NUM_CLASSES,) * len(features))
        for coordinates in zip(*(vectors[f] for f in features), strict=True):
            term = term + _product(coordinates, config.latent_mean)
        found.append(Interaction(features=features, term=(term * scale).astype(np.float32).reshape(-1)))
    return tuple(found)


def _product(coordinates: Sequence[NDArray[np.float64]], mean: float) -> NDArray[np.float64]:
    """Return one coordinate's product over the interacting features, for every combination of the features' latent
    classes: float64 [32, 32, ...], an axis per feature.

    `coordinates` has the coordinate of every class for each feature; `mean` is added to all of them. The product of
    the means is the same for all combinations and is subtracted.
    """
    if len(coordinates) == 2:  # in the order of operations with which the digests of datasets of pairs are pinned
        a, b = coordinates[0][:, None], coordinates[1][None, :]
        return a * b + mean * (a + b)
    made, constant = coordinates[0] + mean, mean
    for values in coordinates[1:]:
        made, constant = made[..., None] * (values + mean), constant * mean
    return made - constant


def _bags(key: int, num_ids: int, multi_hot: int) -> NDArray[np.int32]:
    """Return the ids of a multi-hot feature that a sample gets when an id is drawn, int32 [num_ids, multi_hot]: the
    id itself, and others, which are random but always the same for the id. As in multi_hot.py of MLPerf's
    reference."""
    words = hash_range(key, 0, num_ids * multi_hot) >> np.uint64(32)
    bags = ((words * np.uint64(num_ids)) >> np.uint64(32)).astype(np.int32).reshape(num_ids, multi_hot)
    bags[:, 0] = np.arange(num_ids, dtype=np.int32)
    return bags


def _dense_feature(key: int, scale: float) -> DenseFeature:
    """Return the possible values of a dense feature, and the effect of each value on the click logit. The effects
    have the standard deviation `scale`.

    For a value x, log(1 + x) is exponentially distributed, shifted down and cut at 0. Some values are therefore 0, as
    in real counts.
    """
    quantiles = tables.exponential_quantiles()
    spread, shift, slope, bend = (float(u) for u in tables.uniforms(key, 4))
    value = np.maximum(quantiles * (0.5 + spread) - 0.8 * shift, 0.0)
    mass = np.full(len(value), 1.0 / len(value))
    linear = _centred(value, mass)
    curved = _centred(linear * linear, mass)
    effect = _centred((2.0 * slope - 1.0) * linear + (bend - 0.5) * curved, mass)
    return DenseFeature(value=value.astype(np.float32), effect=(effect * scale).astype(np.float32))

"""ROC AUC is exact and counts ties half; log loss and normalised entropy are those of scikit-learn and torchrec."""

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.metrics import log_loss as sklearn_log_loss
from sklearn.metrics import roc_auc_score

from reference_models.process.errors import DatasetError, NotFiniteError
from reference_models.training.device_metrics import roc_auc_of_tensors
from reference_models.training.metrics import (
    METRICS,
    accuracy,
    log_loss,
    measure_classes,
    measure_quality,
    roc_auc,
)
from rules.records import metrics

pytestmark = pytest.mark.numeric

FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)


@st.composite
def labelled_scores(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    size = draw(st.integers(2, 60))
    values = draw(st.one_of(st.just(FLOATS), st.just(st.sampled_from([-1.5, -0.0, 0.0, 1e-45, 2.0]))))
    labels = draw(hnp.arrays(np.uint8, size, elements=st.integers(0, 1)))
    assume(0 < labels.sum() < size)
    return labels, draw(hnp.arrays(np.float32, size, elements=values))


@given(labelled_scores())
def test_equals_the_count_of_pairs(sample: tuple[np.ndarray, np.ndarray]) -> None:
    labels, scores = sample
    positive, negative = scores[labels == 1][:, None], scores[labels == 0][None, :]
    won = np.count_nonzero(positive > negative) + 0.5 * np.count_nonzero(positive == negative)
    assert roc_auc(labels, scores) == pytest.approx(won / (positive.size * negative.size), abs=1e-15)


@given(labelled_scores())
def test_sorting_tensors_gives_the_same_number(sample: tuple[np.ndarray, np.ndarray]) -> None:
    labels, scores = sample
    assert roc_auc_of_tensors(torch.from_numpy(labels != 0), torch.from_numpy(scores)) == roc_auc(labels, scores)


@given(labelled_scores(), st.randoms(use_true_random=False))
def test_order_of_samples_does_not_matter(sample: tuple[np.ndarray, np.ndarray], random: object) -> None:
    labels, scores = sample
    order = np.random.default_rng(random.randrange(2**32)).permutation(labels.size)  # type: ignore[attr-defined]
    assert roc_auc(labels[order], scores[order]) == roc_auc(labels, scores)


@given(labelled_scores())
def test_negated_scores_give_the_complement(sample: tuple[np.ndarray, np.ndarray]) -> None:
    labels, scores = sample
    assert roc_auc(labels, -scores) == pytest.approx(1 - roc_auc(labels, scores), abs=1e-15)


@pytest.mark.parametrize("digits", [None, 2, 0])
def test_equals_scikit_learn_on_logits_with_and_without_ties(digits: int | None) -> None:
    rng = np.random.default_rng(0)
    labels = (rng.random(200_000) < 0.2).astype(np.uint8)
    scores = (rng.normal(size=labels.size) + 0.5 * labels - 1).astype(np.float32)
    if digits is not None:
        scores = np.round(scores, digits)
    assert roc_auc(labels, scores) == pytest.approx(roc_auc_score(labels, scores), abs=1e-9)
    assert roc_auc_of_tensors(torch.from_numpy(labels != 0), torch.from_numpy(scores)) == roc_auc(labels, scores)


@st.composite
def soft_scores(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    labels, scores = draw(labelled_scores())
    shares = draw(hnp.arrays(np.float32, labels.size, elements=st.floats(0, 1, width=32)))
    shares[0] = draw(st.floats(0.125, 0.875, width=32))
    return shares, scores


@pytest.mark.slow
@given(soft_scores(), st.randoms(use_true_random=False))
def test_a_soft_label_is_a_pair_of_weighted_samples(sample: tuple[np.ndarray, np.ndarray], random: object) -> None:
    labels, scores = sample
    shares, rest = labels.astype(np.float64), 1 - labels.astype(np.float64)
    above = (scores[:, None] > scores[None, :]) + 0.5 * (scores[:, None] == scores[None, :])
    won = float((above * shares[:, None] * rest[None, :]).sum())
    found = roc_auc(labels, scores)
    assert found == pytest.approx(won / (shares.sum() * rest.sum()), abs=1e-12)
    assert found <= roc_auc(labels, labels) + 1e-12
    order = np.random.default_rng(random.randrange(2**32)).permutation(labels.size)  # type: ignore[attr-defined]
    assert roc_auc(labels[order], scores[order]) == found


@pytest.mark.parametrize("digits", [None, 1])
def test_soft_labels_have_scikit_learns_weighted_metrics(digits: int | None) -> None:
    rng = np.random.default_rng(0)
    scores = rng.normal(-1, 2, 20_000).astype(np.float32)
    if digits is not None:
        scores = np.round(scores, digits)
    trials = rng.integers(1, 9, scores.size)
    labels = (rng.binomial(trials, 1 / (1 + np.exp(-scores.astype(np.float64)))) / trials).astype(np.float32)
    shares = labels.astype(np.float64)
    classes, weights = np.repeat([1, 0], labels.size), np.concatenate([shares, 1 - shares])
    assert roc_auc(labels, scores) == pytest.approx(
        roc_auc_score(classes, np.tile(scores, 2), sample_weight=weights), abs=1e-12
    )
    probabilities = np.tile(1 / (1 + np.exp(-scores.astype(np.float64))), 2)
    expected = sklearn_log_loss(classes, probabilities, sample_weight=weights)
    assert log_loss(labels, scores) == pytest.approx(expected, rel=1e-12)
    found, rate = measure_quality(labels, scores), shares.mean()
    entropy = -(rate * np.log(rate) + (1 - rate) * np.log(1 - rate))
    assert found.normalised_entropy == pytest.approx(log_loss(labels, scores) / entropy, rel=1e-12)


def test_shares_of_0_and_1_have_the_metrics_of_classes() -> None:
    labels, logits = labelled_logits()
    assert measure_quality(labels.astype(np.float32), logits) == measure_quality(labels, logits)


def test_a_label_beyond_0_and_1_is_no_share() -> None:
    with pytest.raises(ValueError, match="outside of 0 to 1"):
        roc_auc(np.array([0.5, 1.5], np.float32), np.zeros(2, np.float32))


def test_both_zeros_tie() -> None:
    assert roc_auc(np.array([0, 1]), np.array([0.0, -0.0], dtype=np.float32)) == 0.5


def test_extremes() -> None:
    scores = np.array([-3e38, -1e-45, 1e-45, 3e38], dtype=np.float32)
    assert roc_auc(np.array([0, 0, 1, 1]), scores) == 1.0
    assert roc_auc(np.array([1, 1, 0, 0]), scores) == 0.0
    assert roc_auc(np.array([True, False, True, False]), np.ones(4, dtype=np.float32)) == 0.5


def test_does_not_change_its_input() -> None:
    labels, scores = np.array([0, 1, 1]), np.array([2.0, -1.0, 3.0], dtype=np.float32)
    roc_auc(labels, scores)
    assert scores.tolist() == [2.0, -1.0, 3.0]
    assert labels.tolist() == [0, 1, 1]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_score_that_is_not_finite_is_named(bad: float) -> None:
    with pytest.raises(NotFiniteError, match="1 of 3 evaluation scores are not finite"):
        roc_auc(np.array([0, 1, 1]), np.array([0.0, bad, 1.0], dtype=np.float32))


@pytest.mark.parametrize(("label", "message"), [(1, "3 positive and 0 negative"), (0, "0 positive and 3 negative")])
def test_one_class_alone_has_no_auc(label: int, message: str) -> None:
    with pytest.raises(DatasetError, match=message):
        roc_auc(np.full(3, label), np.zeros(3, dtype=np.float32))


def test_shapes_must_agree() -> None:
    with pytest.raises(ValueError, match="expected the same"):
        roc_auc(np.zeros(2), np.zeros(3, dtype=np.float32))


def labelled_logits(size: int = 4000) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    logits = rng.normal(-1, 2, size).astype(np.float32)
    return (rng.random(size) < 1 / (1 + np.exp(-logits))).astype(np.uint8), logits


def test_log_loss_is_scikit_learns() -> None:
    labels, logits = labelled_logits()
    probabilities = 1 / (1 + np.exp(-logits.astype(np.float64)))
    assert log_loss(labels, logits) == pytest.approx(sklearn_log_loss(labels, probabilities), rel=1e-13)


def test_log_loss_of_chunks_is_that_of_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    labels, logits = labelled_logits()
    whole = log_loss(labels, logits)
    monkeypatch.setattr("reference_models.training.metrics._CHUNK", 7)
    assert log_loss(labels, logits) == pytest.approx(whole, rel=1e-14)


def test_log_loss_of_a_certain_mistake_does_not_saturate() -> None:
    assert log_loss(np.array([0, 1]), np.array([1000.0, 1000.0], dtype=np.float32)) == 500.0


def test_normalised_entropy_is_one_for_the_base_rate_and_the_definitions_otherwise() -> None:
    labels, logits = labelled_logits()
    rate = labels.mean()
    constant = np.full(labels.size, np.log(rate / (1 - rate)), dtype=np.float32)
    constant[0] += np.float32(1e-6)  # ties alone would have no ROC AUC other than a half
    assert measure_quality(labels, constant).normalised_entropy == pytest.approx(1, abs=1e-6)
    # He et al. (2014), as torchrec.metrics.ne computes it: mean cross entropy over that of the base rate, in bits.
    p = 1 / (1 + np.exp(-logits.astype(np.float64)))
    cross_entropy = -np.mean(labels * np.log2(p) + (1 - labels) * np.log2(1 - p))
    expected = cross_entropy / -(rate * np.log2(rate) + (1 - rate) * np.log2(1 - rate))
    found = measure_quality(labels, logits)
    assert found.normalised_entropy == pytest.approx(expected, rel=1e-12)
    assert found.auc == roc_auc(labels, logits)
    assert type(found.normalised_entropy) is float


def test_tensors_are_refused_as_arrays_are() -> None:
    labels = torch.tensor([True, False])
    with pytest.raises(NotFiniteError, match="1 of 2 evaluation scores are not finite"):
        roc_auc_of_tensors(labels, torch.tensor([0.0, float("nan")]))
    with pytest.raises(DatasetError, match="2 evaluation samples hold 2 positive and 0 negative"):
        roc_auc_of_tensors(labels | True, torch.tensor([0.0, 1.0]))
    with pytest.raises(ValueError, match="expected float32"):
        roc_auc_of_tensors(labels, torch.tensor([0.0, 1.0, 2.0]))


def test_accuracy_counts_the_highest_score_of_every_task_alike() -> None:
    generator = np.random.default_rng(0)
    labels, logits = generator.integers(0, 5, (400, 3)), generator.normal(size=(400, 3, 5)).astype(np.float32)
    found = measure_classes(labels, logits)
    tasks = [np.mean(logits[:, task].argmax(1) == labels[:, task]) for task in range(3)]
    assert found.accuracy == accuracy(labels, logits) == pytest.approx(np.mean(tasks), abs=1e-15)
    expected = torch.nn.functional.cross_entropy(
        torch.from_numpy(logits).double().flatten(0, 1), torch.from_numpy(labels).flatten()
    )
    assert found.log_loss == pytest.approx(float(expected), abs=1e-12)
    assert accuracy(labels, np.eye(5, dtype=np.float32)[labels]) == 1.0


def test_classes_shares_alone_have_a_normalised_entropy_of_one() -> None:
    labels = np.array([[0], [0], [0], [1]])
    logits = np.broadcast_to(np.log(np.array([0.75, 0.25], np.float32)), (4, 1, 2))
    assert measure_classes(labels, logits).normalised_entropy == pytest.approx(1, abs=1e-7)
    with pytest.raises(DatasetError, match="of one class"):
        measure_classes(np.zeros((4, 1), int), logits)


def test_accuracy_refuses_what_it_cannot_count() -> None:
    with pytest.raises(NotFiniteError, match="1 of 4"):
        accuracy(np.zeros((2, 1), int), np.array([[[0.0, 1.0]], [[np.inf, 0.0]]], np.float32))
    with pytest.raises(ValueError, match=r"expected \[N, T\]"):
        accuracy(np.zeros(2, int), np.zeros((2, 2), np.float32))


def test_names_of_metrics_are_those_of_definitions() -> None:
    assert tuple(METRICS) == tuple(metrics.METRICS)

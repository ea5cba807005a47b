"""Quality metrics of an evaluation: the exact area under the ROC curve or the accuracy, log loss and normalised
entropy.

`METRICS` lists the metrics that a definition may name.

A label is 0 or 1, or soft: a number y from 0 to 1, as float32. In ROC AUC, log loss and normalised entropy, a sample
with a soft label counts as y of a positive and 1 - y of a negative sample. scikit-learn's `roc_auc_score` and
`log_loss`, and torchrec.metrics.ne, give the same numbers if each sample is given twice: as 1 with weight y and as 0
with weight 1 - y. For labels that are all 0 or 1 the numbers are the usual ones.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from reference_models.process.errors import DatasetError, NotFiniteError

_SIGN = np.uint32(1 << 31)
_CHUNK = 1 << 20
"""Number of samples whose losses are computed in float64 at a time."""


@dataclass(frozen=True, kw_only=True, slots=True)
class QualityMetrics:
    """Quality metrics of one evaluation; log loss in nats, normalised entropy as a fraction of the base rate's
    entropy."""

    auc: float
    log_loss: float
    normalised_entropy: float


def measure_quality(labels: NDArray[np.generic], logits: NDArray[np.float32]) -> QualityMetrics:
    """Return all quality metrics of `logits` [N] for `labels` [N], which are 0 and 1 or soft; raises errors as
    `roc_auc` does."""
    auc, loss = roc_auc(labels, logits), log_loss(labels, logits)
    rate = int(np.count_nonzero(labels)) / labels.size
    if _are_soft(labels):
        rate = float(labels.mean(dtype=np.float64))
    return QualityMetrics(auc=auc, log_loss=loss, normalised_entropy=loss / _entropy(rate))


def log_loss(labels: NDArray[np.generic], logits: NDArray[np.float32]) -> float:
    """Return the mean of -log p(label) in nats, p = sigmoid(logit), in float64 from logits, so without saturation.

    For a soft label y it is the cross entropy -y log p - (1 - y) log(1 - p), whose least value is y's own entropy.
    """
    add = _soft_losses if _are_soft(labels) else _losses
    total = math.fsum(
        float(np.sum(add(labels[start : start + _CHUNK], logits[start : start + _CHUNK].astype(np.float64))))
        for start in range(0, logits.size, _CHUNK)
    )
    return total / logits.size


def _losses(labels: NDArray[np.generic], logits: NDArray[np.float64]) -> NDArray[np.float64]:
    losses: NDArray[np.float64] = np.logaddexp(0.0, np.where(labels != 0, -logits, logits))
    return losses


def _soft_losses(labels: NDArray[Any], logits: NDArray[np.float64]) -> NDArray[np.float64]:
    shares = labels.astype(np.float64)
    losses: NDArray[np.float64] = shares * np.logaddexp(0.0, -logits) + (1 - shares) * np.logaddexp(0.0, logits)
    return losses


def _are_soft(labels: NDArray[Any]) -> bool:
    """Return whether any label is neither 0 nor 1; only floating-point labels can be such (soft) labels."""
    return labels.dtype.kind == "f" and bool(((labels != 0) & (labels != 1)).any())


def _entropy(rate: float) -> float:
    """Return the entropy, in nats, of a label that is 1 with probability `rate`: the log loss of the base rate.

    Log loss divided by this entropy is the normalised entropy of He et al. (2014) and of torchrec.metrics.ne: a model
    that has learnt nothing has 1.
    """
    return -(rate * math.log(rate) + (1 - rate) * math.log(1 - rate))


def roc_auc(labels: NDArray[np.generic], scores: NDArray[np.float32]) -> float:
    """Return the exact ROC AUC of float32 `scores` [N] for `labels` [N] of 0 and 1, as scikit-learn defines it.

    `labels` may also be soft: a float32 from 0 to 1 is the sample's positive share, and the rest is its negative
    share. Then each pair of samples is weighted by the positive share of one times the negative share of the other. A
    sample paired with itself is a tie, so even a ranking by the labels themselves has an AUC below 1. Sums for soft
    labels are in float64, in the order of scores and labels.

    For labels of 0 and 1, the samples are sorted by uint64 keys, each made of a score's bits, arranged to sort like
    the number, and its label. Pairs are counted in whole numbers, so the result does not depend on the order of
    samples, up to N = 3e9 samples.

    Raises NotFiniteError if a score is not finite, DatasetError if one class is absent, and ValueError if a soft
    label is below 0 or above 1.
    """
    scores = np.ascontiguousarray(scores, dtype=np.float32)
    if labels.shape != scores.shape or scores.ndim != 1:
        raise ValueError(f"labels have shape {labels.shape}, scores {scores.shape}: expected the same [N]")
    if not np.isfinite(scores).all():
        refuse_scores(int(np.count_nonzero(~np.isfinite(scores))), scores.size)
    if _are_soft(labels):
        return _soft_auc(labels, scores)
    positive = labels != 0
    num_positive = int(np.count_nonzero(positive))
    num_negative = scores.size - num_positive
    refuse_one_class(num_positive, num_negative)
    keys = _sortable_bits(scores).astype(np.uint64)
    keys <<= np.uint64(1)
    keys |= positive
    keys.sort()
    return _twice_pairs_won(keys) / (2 * num_positive * num_negative)


def _soft_auc(labels: NDArray[Any], scores: NDArray[np.float32]) -> float:
    """Return the ROC AUC for soft `labels` [N]: a sample of label y counts as y of a positive and 1 - y of a negative
    sample."""
    if not ((labels >= 0) & (labels <= 1)).all():
        raise ValueError("soft labels are outside of 0 to 1")
    shares = np.ascontiguousarray(labels, dtype=np.float32) + np.float32(0.0)
    # A label's bits sort like the label, so that sums do not depend on the order of samples.
    keys = _sortable_bits(scores).astype(np.uint64)
    keys <<= np.uint64(32)
    keys |= shares.view(np.uint32)
    keys.sort()
    positive = (keys & np.uint64(0xFFFFFFFF)).astype(np.uint32).view(np.float32).astype(np.float64)
    keys >>= np.uint64(32)
    starts = np.concatenate([[0], np.flatnonzero(keys[1:] != keys[:-1]) + 1])
    del keys
    positives = np.add.reduceat(positive, starts)
    negatives = np.add.reduceat(np.subtract(1, positive, out=positive), starts)
    del positive, starts
    won = float(np.sum(positives * (np.cumsum(negatives) - negatives / 2)))
    return won / (float(positives.sum()) * float(negatives.sum()))


def refuse_scores(num_bad: int, num_scores: int) -> NoReturn:
    """Raise NotFiniteError for `num_bad` of `num_scores` scores that are not finite."""
    raise NotFiniteError(f"{num_bad} of {num_scores} evaluation scores are not finite: training has diverged.")


def refuse_one_class(num_positive: int, num_negative: int) -> None:
    """Raise DatasetError if labels are all of one class: none positive, or none negative."""
    if num_positive == 0 or num_negative == 0:
        raise DatasetError(
            f"ROC AUC needs both classes: {num_positive + num_negative} evaluation samples hold {num_positive} "
            f"positive and {num_negative} negative labels. Check the evaluation split."
        )


def _sortable_bits(scores: NDArray[np.float32]) -> NDArray[np.uint32]:
    """Return uint32 numbers that sort like the scores. The bits of negative scores are inverted; other scores get the
    sign bit set. -0.0 counts as 0.0."""
    bits = (scores + np.float32(0.0)).view(np.uint32)
    flip = np.where(bits & _SIGN, np.uint32(0xFFFFFFFF), _SIGN)
    flip ^= bits
    return flip


def _twice_pairs_won(keys: NDArray[np.uint64]) -> int:
    """Return 2 * won + tied, the numbers of won and tied pairs of a positive and a negative sample. A pair is won if
    the positive sample has the higher score, and tied if the scores are equal.

    `keys` are the sorted scores, each with the label as last bit.

    Each group of samples with equal scores adds: positives of the group * (2 * negatives with lower scores +
    negatives of the group).
    """
    starts = np.flatnonzero((keys[1:] ^ keys[:-1]) > 1)
    ends = np.append(starts, keys.size - 1)
    positives_up_to = np.cumsum(keys & np.uint64(1), dtype=np.int64)[ends]
    negatives_up_to = ends + 1 - positives_up_to
    positives = np.diff(positives_up_to, prepend=0)
    negatives_below = np.concatenate([[0], negatives_up_to[:-1]])
    return int(np.dot(positives, negatives_below + negatives_up_to))


@dataclass(frozen=True, kw_only=True, slots=True)
class ClassMetrics:
    """Quality metrics of one evaluation of several classification tasks: means over samples and tasks."""

    accuracy: float
    log_loss: float
    """Mean log loss, in nats."""
    normalised_entropy: float
    """Log loss divided by the entropy of the classes' shares, which is the log loss of predicting these shares."""


def accuracy(labels: NDArray[np.integer], scores: NDArray[np.float32]) -> float:
    """Return the accuracy: the share of the N x T predictions in which the class in `labels` has the highest score of
    the K classes.

    `scores` are [N, T, K], `labels` [N, T]. If several classes have the highest score, the first of them is
    predicted. Raises NotFiniteError if a score is not finite.
    """
    if labels.shape != scores.shape[:-1] or scores.ndim != 3 or not labels.size:
        raise ValueError(f"labels have shape {labels.shape}, scores {scores.shape}: expected [N, T] and [N, T, K]")
    if not np.isfinite(scores).all():
        refuse_scores(int(np.count_nonzero(~np.isfinite(scores))), scores.size)
    return int(np.count_nonzero(scores.argmax(-1) == labels)) / labels.size


def measure_classes(labels: NDArray[np.integer], logits: NDArray[np.float32]) -> ClassMetrics:
    """Return all quality metrics of `logits` [N, T, K] for classes `labels` [N, T]; raises errors as `accuracy`
    does."""
    found = accuracy(labels, logits)
    wide = logits.astype(np.float64)
    wide -= wide.max(-1, keepdims=True)
    log_shares = wide - np.log(np.exp(wide).sum(-1, keepdims=True))
    loss = -float(np.take_along_axis(log_shares, labels[..., None].astype(np.int64), -1).mean())
    shares = [np.bincount(task, minlength=logits.shape[-1]) / len(task) for task in labels.T.astype(np.int64)]
    entropy = -sum(float(share[share > 0] @ np.log(share[share > 0])) for share in shares) / len(shares)
    if entropy == 0:
        raise DatasetError(f"all {len(labels)} evaluation samples are of one class. Check the evaluation split.")
    return ClassMetrics(accuracy=found, log_loss=loss, normalised_entropy=loss / entropy)


@dataclass(frozen=True, kw_only=True, slots=True)
class MetricFunction:
    """Quality metric, as two functions of the labels and logits of the whole evaluation split. One returns the
    metric's value; the other returns the value, log loss and normalised entropy."""

    value: Callable[[NDArray[Any], NDArray[np.float32]], float]
    measure: Callable[[NDArray[Any], NDArray[np.float32]], Any]
    """Function that returns a dataclass of the metric's value, log loss and normalised entropy, as in
    extra/quality.json."""


ROC_AUC = MetricFunction(value=roc_auc, measure=measure_quality)
ACCURACY = MetricFunction(value=accuracy, measure=measure_classes)
METRICS: Mapping[str, str] = {
    "roc_auc": "reference_models.training.metrics:ROC_AUC",
    "accuracy": "reference_models.training.metrics:ACCURACY",
}
"""Map from a metric's name (quality.metric in a definition) to the module and name of its `MetricFunction`."""


def find_metric(name: str) -> MetricFunction:
    """Return the quality metric named `name` in a definition. Raises KeyError for a name that `METRICS` lacks."""
    module, _, attribute = METRICS[name].partition(":")
    metric = getattr(import_module(module), attribute)
    assert isinstance(metric, MetricFunction)
    return metric

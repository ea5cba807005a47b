"""Average precision of scores: the mean, over the positives, of the precision down to each of them."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reference_models.training.metrics import MetricFunction, measure_quality


@dataclass(frozen=True, kw_only=True, slots=True)
class RankingMetrics:
    """Average precision, log loss in nats, and log loss over the base rate's entropy."""

    average_precision: float
    log_loss: float
    normalised_entropy: float


def average_precision(labels: NDArray[np.generic], scores: NDArray[np.float32]) -> float:
    """Compute the average precision of `scores` [N] for `labels` [N] of 0 and 1; of equal scores the first leads."""
    hits = labels[np.argsort(-scores, kind="stable")] != 0
    return float(np.mean(np.cumsum(hits)[hits] / (np.flatnonzero(hits) + 1)))


def measure_ranking(labels: NDArray[np.generic], scores: NDArray[np.float32]) -> RankingMetrics:
    """Compute all metrics of `scores` [N] for `labels` [N]; raises as `measure_quality` does."""
    others = measure_quality(labels, scores)
    return RankingMetrics(
        average_precision=average_precision(labels, scores),
        log_loss=others.log_loss,
        normalised_entropy=others.normalised_entropy,
    )


METRIC = MetricFunction(value=average_precision, measure=measure_ranking)

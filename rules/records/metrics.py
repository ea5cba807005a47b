"""Define the quality metrics that a benchmark definition may name as quality.metric: the metric's key in records and
its names in texts for readers.

In MLPerf logs the key is eval_accuracy whatever the metric. `reference_models.training.metrics` computes the metrics.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

MetricName = Literal["roc_auc", "accuracy"]
ROC_AUC: MetricName = "roc_auc"
"""Quality metric of benchmarks whose definition states none. All of MLPerf's recommendation benchmarks are among
them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Metric:
    """Metric of a model's quality on the evaluation split, from 0 to 1; higher is better."""

    label: str
    """Short name of the quality metric before a value, as in 'AUC 0.80275'."""
    plural: str
    title: str
    """Full name of the quality metric, as at the beginning of an axis title: 'ROC AUC on the held-out split'."""
    member: str
    """Member of an evaluation in extra/quality.json that holds the metric. Its name is also printed as the unit of
    differences."""
    meaning: str
    """Explanation of the quality metric for the glossary of reports."""
    not_learning_below: float = 0.0
    """Quality below which a run is not learning and is stopped. A run is stopped after its second evaluation if its
    best quality so far is lower. The best evaluation counts, because where evaluations are few steps apart, quality
    may drop sharply at one of them although the run later reaches its target. With 0 no run is stopped."""

    @property
    def capital(self) -> str:
        """Return the metric's short name with a capital first letter, as at the beginning of a sentence."""
        return self.label[0].upper() + self.label[1:]


METRICS: Mapping[str, Metric] = {
    "roc_auc": Metric(
        label="AUC",
        plural="AUCs",
        title="ROC AUC",
        member="auc",
        meaning="ROC AUC on the held-out split: the probability that a clicked sample is ranked above one "
        "not clicked.",
        not_learning_below=0.55,
    ),
    "accuracy": Metric(
        label="accuracy",
        plural="accuracies",
        title="Accuracy",
        member="accuracy",
        meaning="Accuracy on the held-out split: the share of samples whose most likely class is the right one, the "
        "mean over tasks.",
    ),
}
assert tuple(METRICS) == get_args(MetricName)


def metric_of(name: str | None) -> Metric:
    """Return the quality metric with the given name; ROC AUC if no metric has this name."""
    return METRICS.get(name or ROC_AUC, METRICS[ROC_AUC])


def metric_of_member(member: str) -> Metric | None:
    """Return the quality metric whose values JSON files store in the named member; None if this member holds no
    metric."""
    return next((metric for metric in METRICS.values() if metric.member == member), None)

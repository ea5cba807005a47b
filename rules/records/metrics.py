"""The metrics that a definition may name as quality.metric: what an evaluation measures, and how readers call it.

The log's key is eval_accuracy whatever the metric. `reference_models.training.metrics` computes them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

MetricName = Literal["roc_auc", "accuracy"]
ROC_AUC: MetricName = "roc_auc"
"""What benchmarks measure that do not say otherwise, all of MLPerf's recommenders among them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Metric:
    """One metric: from 0 to 1, and more is better."""

    label: str
    """Before a value: 'AUC 0.80275'."""
    plural: str
    title: str
    """In full, as an axis begins: 'ROC AUC on the held-out split'."""
    member: str
    """Member of an evaluation in extra/quality.json; also the unit of a difference."""
    meaning: str
    """For the glossary."""
    not_learning_below: float = 0.0
    """Where a run is given up from its second evaluation on, if no evaluation before reached it either: where
    evaluations lie few steps apart, one may fall far and the run go on to its target. 0 gives none up."""

    @property
    def capital(self) -> str:
        """The label as a sentence begins."""
        return self.label[0].upper() + self.label[1:]


METRICS: Mapping[str, Metric] = {
    "roc_auc": Metric(
        label="AUC",
        plural="AUCs",
        title="ROC AUC",
        member="auc",
        meaning="ROC AUC on the held-out split: the probability that a clicked sample is ranked above another.",
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
    """Return the metric of that name; ROC AUC where none is known."""
    return METRICS.get(name or ROC_AUC, METRICS[ROC_AUC])


def metric_of_member(member: str) -> Metric | None:
    """Return the metric whose values files hold as `member`; None where it is no metric's."""
    return next((metric for metric in METRICS.values() if metric.member == member), None)

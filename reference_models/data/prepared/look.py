"""Compute statistics of prepared data's quality: missing, rare and unseen values, columns that reveal the label."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

MOST_ROWS = 1 << 17
"""Maximum number of a split's rows, counted from its beginning, from which ROC AUCs of columns and of soft labels are
computed."""
_TELLING = 0.9
"""Share of the highest possible value of (ROC AUC - 0.5) above which a column alone predicts the label suspiciously
well: for labels 0 and 1, an AUC of 0.95."""
_CHANCE = 3.0
"""Number of standard errors by which training's and evaluation's shares of positive labels must differ to exclude
chance."""
_DIFFERENT = 0.2
"""Least difference between training's and evaluation's shares of missing (or unknown) cells that is reported."""
_MOSTLY = 0.5
_KEY_SHARE = 0.9
_PRIOR_ROWS = 10.0
"""Strength of smoothing: a category value's share of positive labels is computed as if it had this many more rows,
with the mean share of all rows."""


@dataclass(slots=True)
class ColumnLook:
    """Counts of a column's cells, each as a list [train, eval]. A cell of several ids is unknown if all of its ids
    are unknown."""

    name: str
    kind: str
    """Kind of column: `number` or `category`."""
    num_cells: list[int] = field(default_factory=lambda: [0, 0])
    num_missing: list[int] = field(default_factory=lambda: [0, 0])
    num_unknown: list[int] = field(default_factory=lambda: [0, 0])
    """Number of cells [train, eval] of a category column whose value has id 0, since it is rare in training, or
    occurs only in evaluation."""
    num_distinct: int | None = None
    """Number of distinct values of the column in training, rare values included; None for dense features, and for
    hashed categories, which have no dictionary."""
    auc: float | None = None
    """ROC AUC in evaluation with only this column as the score: a dense feature's number, or a category value's share
    of positive labels in training. None if a row has several ids, or all evaluation labels are equal."""
    width: int = 1
    """Maximum number of ids in a cell of the column."""

    def add(self, split: int, is_missing: NDArray[np.bool_], is_unknown: NDArray[np.bool_] | None = None) -> None:
        """Add the column's cells in further rows of a split (0 training, 1 evaluation) to the counts."""
        self.num_cells[split] += len(is_missing)
        self.num_missing[split] += int(is_missing.sum())
        if is_unknown is not None:
            self.num_unknown[split] += int((is_unknown & ~is_missing).sum())

    def shares(self, counts: Sequence[int]) -> tuple[float, float]:
        """Return two shares, [train, eval]: `counts`, numbers of some of the column's cells, divided by the numbers
        of all its cells in the same split."""
        first, second = (count / max(1, total) for count, total in zip(counts, self.num_cells, strict=True))
        return first, second

    def remarks(self, best_auc: float = 1.0) -> list[str]:
        """Return warnings about a feature's column of a dataset, usually none: values that are missing or unknown in
        one split, a key of rows, or a feature that nearly equals the label. `best_auc` is the highest AUC that soft
        labels allow, to which the feature's own AUC is compared."""
        found = []
        missing, unknown = self.shares(self.num_missing), self.shares(self.num_unknown)
        if abs(missing[0] - missing[1]) > _DIFFERENT:
            found.append(f"is missing in {missing[0]:.1%} of training and {missing[1]:.1%} of evaluation")
        there = 1 - missing[1]
        if self.kind == "category" and there and unknown[1] > max(_MOSTLY * there, unknown[0] + _DIFFERENT):
            found.append(
                f"holds in {unknown[1]:.1%} of evaluation values that training lacks (or has rarely): is it written "
                "otherwise there, such as 7 and 7.0, or new each day?"
            )
        rows = self.num_cells[0] - self.num_missing[0]
        if self.width == 1 and self.num_distinct is not None and self.num_distinct >= _KEY_SHARE * rows > 0:
            found.append(
                f"has {self.num_distinct:,} values in {rows:,} rows of training: a key of rows learns nothing"
            )
        if self.auc is not None and self.auc > 0.5 + _TELLING * (best_auc - 0.5):
            found.append(f"tells the label alone (ROC AUC {self.auc:.3f} in evaluation): is it known beforehand?")
        return [f"{self.name} {remark}" for remark in found]

    def record(self) -> dict[str, Any]:
        """Return the column's counts as the dataset's manifest stores them."""
        return {key: value for key, value in asdict(self).items() if key != "width"}


@dataclass(frozen=True, kw_only=True, slots=True)
class SoftLook:
    """Statistics of soft labels (shares from 0 to 1), as the dataset's manifest stores them."""

    best_auc: float
    """Highest ROC AUC that any scores can have on the first rows of evaluation, whose labels are soft: the AUC with
    the labels themselves as scores."""
    variance: float
    """Population variance of the labels of both splits together."""


def remarks_on(
    positives: Mapping[str, float],
    num_samples: Mapping[str, int],
    looks: Sequence[ColumnLook],
    soft: SoftLook | None = None,
) -> list[str]:
    """Return warnings about prepared data, usually none: on different shares of positive labels in the two splits,
    and on single columns."""
    found = compare_positives(positives, num_samples, soft)
    best_auc = 1.0 if soft is None else soft.best_auc
    return found + [remark for look in looks for remark in look.remarks(best_auc)]


def compare_positives(
    positives: Mapping[str, float], num_samples: Mapping[str, int], soft: SoftLook | None = None
) -> list[str]:
    """Return a list with a warning if the shares of positive labels in training and in evaluation differ by more than
    a quarter of the larger share, and by more than chance explains; else an empty list.

    Chance explains up to three standard errors of the difference. The variance of labels 0 and 1 is p (1 - p), where
    p is the share of positive labels in both splits together; the variance of soft labels is in `soft`.
    """
    train, evaluation = positives["train"], positives["eval"]
    num_train, num_eval = num_samples["train"], num_samples["eval"]
    together = (train * num_train + evaluation * num_eval) / (num_train + num_eval)
    variance = together * (1 - together) if soft is None else soft.variance
    error = math.sqrt(variance * (1 / num_train + 1 / num_eval))
    if abs(train - evaluation) <= max(max(train, evaluation) / 4, _CHANCE * error):
        return []
    if soft is not None:
        return [
            f"labels: their mean is {train:.4g} in training and {evaluation:.4g} in evaluation: the splits differ"
        ]
    return [f"labels: {train:.1%} of training and {evaluation:.1%} of evaluation are 1: the splits differ"]


def rank_auc(scores: NDArray[Any], labels: NDArray[Any]) -> float | None:
    """Return the ROC AUC of scores [n] for labels [n] by the Mann-Whitney statistic; ties count half. Return None if
    all labels are equal.

    A soft label y counts as a share y of a positive and 1 - y of a negative, as in `training.metrics.roc_auc`. With
    up to 2**25 labels of 0 and 1 all sums are exact.
    """
    if not len(labels) or labels.min() == labels.max():
        return None
    num_positive = float(labels.sum(dtype=np.float64))
    _, codes, counts = np.unique(scores, return_inverse=True, return_counts=True)
    positives = np.bincount(codes, weights=labels)
    negatives = counts - positives
    above = (positives * (np.cumsum(negatives) - negatives / 2)).sum()
    return float(above / (num_positive * (len(labels) - num_positive)))


def auc_of_number(values: NDArray[np.float64], labels: NDArray[Any]) -> float | None:
    """Return the ROC AUC of a dense feature as the score, or of its negative if that is higher; rows without a value
    are left out.

    Returns None if all labels are equal.
    """
    is_there = np.isfinite(values)
    auc = rank_auc(values[is_there], labels[is_there])
    return None if auc is None else max(auc, 1 - auc)


@dataclass(slots=True)
class ValueRates:
    """Number of training rows of each category id, and the sum of these rows' labels, from which a category column's
    ROC AUC in evaluation is computed."""

    num_embeddings: int
    num_wanted: int = MOST_ROWS
    positives: NDArray[np.float64] = field(init=False)
    rows: NDArray[np.int64] = field(init=False)

    def __post_init__(self) -> None:
        self.positives, self.rows = np.zeros(self.num_embeddings), np.zeros(self.num_embeddings, np.int64)

    def add(self, ids: NDArray[np.int32], labels: NDArray[Any]) -> None:
        """Count training rows: add to each id's number of rows and sum of labels, up to MOST_ROWS rows in all."""
        ids, labels = ids[: self.num_wanted], labels[: self.num_wanted]
        self.num_wanted -= len(ids)
        self.rows += np.bincount(ids, minlength=self.num_embeddings)
        self.positives += np.bincount(ids, weights=labels, minlength=self.num_embeddings)

    def auc(self, ids: NDArray[np.int32], labels: NDArray[Any]) -> float | None:
        """Return the ROC AUC of evaluation rows if each is scored by its category's share of positive training
        labels; None if all labels are equal."""
        mean = self.positives.sum() / max(1, int(self.rows.sum()))
        rates = (self.positives + _PRIOR_ROWS * mean) / (self.rows + _PRIOR_ROWS)
        return rank_auc(rates[ids], labels)

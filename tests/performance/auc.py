"""Exact ROC AUC: ours and scikit-learn's on the same scores, in turn, in one call. Prints the ratio of medians.

python tests/performance/auc.py [NUM_SCORES]
"""

import statistics
import sys
import time
from collections.abc import Callable

import numpy as np
from sklearn.metrics import roc_auc_score

from reference_models.training.metrics import roc_auc

ROUNDS = 3


def timed(function: Callable[[], float]) -> tuple[float, float]:
    start_s = time.perf_counter()
    value = function()
    return time.perf_counter() - start_s, value


def main(num_scores: int) -> None:
    rng = np.random.default_rng(0)
    labels = (rng.random(num_scores) < 0.25).astype(np.uint8)
    scores = (rng.normal(size=num_scores) + 0.8 * labels - 1).astype(np.float32)
    ours, theirs = [], []
    for _ in range(ROUNDS):
        ours.append(timed(lambda: roc_auc(labels, scores)))
        theirs.append(timed(lambda: float(roc_auc_score(labels, scores))))
    ours_s, theirs_s = (statistics.median(took_s for took_s, _ in side) for side in (ours, theirs))
    difference = abs(ours[0][1] - theirs[0][1])
    print(f"{num_scores} logits, median of {ROUNDS}: roc_auc {ours_s:.3f} s, scikit-learn {theirs_s:.3f} s")
    print(f"ratio {theirs_s / ours_s:.1f}, difference of the values {difference:.1e}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000)

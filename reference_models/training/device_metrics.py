"""Exact area under the ROC curve, computed on the device that holds the scores, by one sort; equal on GPU and CPU."""

import torch

from reference_models.training.metrics import refuse_one_class, refuse_scores

_LOW_BITS = 0x7FFF_FFFF


def roc_auc_of_tensors(labels: torch.Tensor, scores: torch.Tensor) -> float:
    """Return the exact ROC AUC of `scores` float32 [N] for `labels` bool [N], computed on the tensors' device.

    The result equals that of `metrics.roc_auc` on the CPU exactly: both sort integer keys (a score's bits, arranged
    to sort like the number, and the label), and count pairs in whole numbers. Raises the errors of `metrics.roc_auc`.
    """
    if labels.shape != scores.shape or scores.ndim != 1 or scores.dtype != torch.float32:
        raise ValueError(
            f"labels {list(labels.shape)}, scores {scores.dtype} {list(scores.shape)}: expected float32 [N]"
        )
    num_scores, num_finite = len(scores), int(torch.isfinite(scores).sum())
    if num_finite < num_scores:
        refuse_scores(num_scores - num_finite, num_scores)
    num_positive = int(labels.sum())
    num_negative = num_scores - num_positive
    refuse_one_class(num_positive, num_negative)
    # -0.0 becomes 0.0. Of negative numbers all bits but the sign are inverted, so that whole numbers sort alike.
    bits = (scores + 0.0).view(torch.int32)
    bits = torch.where(bits < 0, bits ^ _LOW_BITS, bits)
    keys = (bits.long() * 2 + labels).sort()[0]
    del bits
    ends = torch.cat([((keys[1:] >> 1) != (keys[:-1] >> 1)).nonzero().squeeze(1), keys.new_tensor([num_scores - 1])])
    positives_up_to = (keys & 1).cumsum(0)[ends]
    negatives_up_to = ends + 1 - positives_up_to
    positives = positives_up_to.diff(prepend=keys.new_zeros(1))
    negatives_below = torch.cat([keys.new_zeros(1), negatives_up_to[:-1]])
    twice_pairs_won = int((positives * (negatives_below + negatives_up_to)).sum())
    return twice_pairs_won / (2 * num_positive * num_negative)

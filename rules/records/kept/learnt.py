"""<data>/place/<kind>-<digest>/manifest.json describes a neural network that 'place' (the search for a placement of
embedding tables on devices) trained, stored for reuse on the same task."""

from typing import Literal

from rules.records.codec import Count, Document, Sha256
from rules.records.kept.arrays import Arrays

LEARNT_FOLDER = "place"
"""Name of the folder, within the data folder, of the neural networks that the placement search trained."""


class LearntManifest(Document, frozen=True, kw_only=True):
    """Manifest of a neural network that predicts the cost of sets of embedding tables on a device, or of a policy
    that places tables on devices. The manifest is written last, so that a folder without it is incomplete.

    `reference_models.distributed.search` describes the arrays.
    """

    what: Literal["cost_net", "policy"]
    digest: Sha256
    """Digest of everything that the network's training depends on: a network of the same digest is used again."""
    seed: Count
    accuracy: dict[str, float]
    """Accuracy of the network. For a network that predicts costs, on sets of embedding tables outside of its training
    data: Kendall's rank correlation with the true costs (`tau`) and the mean absolute percentage error (`error`);
    both also for a prediction that adds up single tables' costs (`additive_tau`, `additive_error`); and the error of
    one half of the measurement's rounds against the other half (`repeat_error`). For a policy: its final mean reward
    (`reward`)."""
    arrays: Arrays

"""<data>/place/<kind>-<digest>/manifest.json describes a neural network that 'place' trained and stored for reuse on
the same task. The command 'place' searches for a placement of embedding tables on devices."""

from typing import Literal

from rules.records.codec import Count, Document, Sha256
from rules.records.kept.arrays import Arrays

LEARNT_FOLDER = "place"
"""Name of the folder, within the data folder, of the neural networks that the placement search trained."""


class LearntManifest(Document, frozen=True, kw_only=True):
    """Manifest of a trained neural network. The network either predicts the cost of sets of embedding tables on a
    device, or is a policy that places tables on devices. The manifest is written last, so that a folder without it is
    incomplete.

    `reference_models.distributed.search` describes the arrays.
    """

    what: Literal["cost_net", "policy"]
    digest: Sha256
    """Digest of everything that the network's training depends on: a stored network is used again if its digest is
    equal."""
    seed: Count
    accuracy: dict[str, float]
    """Accuracy of the network: a dict from the name of a measure to its value. A network that predicts costs is
    tested on sets of embedding tables outside of its training data. `tau` is Kendall's rank correlation of the
    predicted costs with the true costs, and `error` is the mean absolute percentage error. `additive_tau` and
    `additive_error` are the same two measures of a simpler prediction, the sum of the costs of single tables.
    `repeat_error` is the error between the two halves of the measurement's rounds. A policy has only `reward`, its
    final mean reward."""
    arrays: Arrays

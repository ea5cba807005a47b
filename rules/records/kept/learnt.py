"""<data>/place/<kind>-<digest>/manifest.json: a model that 'place' trained, kept for reuse on the same task."""

from typing import Literal

from rules.records.codec import Count, Document, Sha256
from rules.records.kept.arrays import Arrays

LEARNT_FOLDER = "place"
"""Name of the folder of trained models, in the data folder."""


class LearntManifest(Document, frozen=True, kw_only=True):
    """A network that predicts the cost of sets of tables, or a policy that places tables; the manifest is written
    last.

    `reference_models.distributed.search` describes the arrays.
    """

    what: Literal["cost_net", "policy"]
    digest: Sha256
    """Digest of everything that the model was trained for."""
    seed: Count
    accuracy: dict[str, float]
    """Accuracy of the model. A cost network has, on sets outside of its training data, Kendall's rank correlation
    with the true costs (`tau`) and the mean absolute percentage error (`error`), the same for the sum of single
    tables' costs (`additive_tau`, `additive_error`), and the noise (`repeat_error`); a policy has its final mean
    reward (`reward`)."""
    arrays: Arrays

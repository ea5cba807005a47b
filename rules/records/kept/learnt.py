"""<data>/place/<kind>-<digest>/manifest.json: what 'place' learnt, to be used again for the same question."""

from typing import Literal

from rules.records.codec import Count, Document, Sha256
from rules.records.kept.arrays import Arrays

LEARNT_FOLDER = "place"
"""The folder's name, below the data."""


class LearntManifest(Document, frozen=True, kw_only=True):
    """A net that says what sets of tables cost, or a policy that places tables; written last.

    `reference_models.distributed.search` says what the arrays are.
    """

    what: Literal["cost_net", "policy"]
    digest: Sha256
    """Digest of all that it was trained for."""
    seed: Count
    accuracy: dict[str, float]
    """A cost net has, of sets that it was not trained on, Kendall's rank correlation with the true costs (`tau`) and
    the mean absolute percentage error (`error`), those of added costs of single tables (`additive_tau`,
    `additive_error`), and the noise (`repeat_error`); a policy has its mean reward at the end (`reward`)."""
    arrays: Arrays

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
    """Of all that it was trained for."""
    seed: Count
    accuracy: dict[str, float]
    """Of a cost net, on sets that it was not trained on: Kendall's rank correlation with their true costs (`tau`),
    and that of the added costs of single tables (`additive_tau`). Of a policy its mean reward (`reward`)."""
    arrays: Arrays

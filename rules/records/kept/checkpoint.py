"""manifest.json of a checkpoint: a run's state at one moment, or what has changed of it since another checkpoint."""

from typing import Annotated, Literal

from msgspec import Meta

from rules.records.codec import Count, Document, Int64, PositiveCount, Sha256
from rules.records.kept.arrays import Arrays

CHECKPOINTS_FOLDER = "checkpoints"
"""The folder's name, beside the attempts of a run; checkpoint N is the folder N in it."""


class CheckpointManifest(Document, frozen=True, kw_only=True):
    """One checkpoint: whose it is, what it rests on, and every file of it. It was written last.

    `reference_models.training.checkpoints` says what the arrays are.
    """

    benchmark: str
    benchmark_version: PositiveCount
    definition_sha256: Sha256
    dataset_sha256: Sha256 | None
    implementation: str
    seed: Int64
    samples_count: Count
    """Trained on when it was taken."""
    policy: Literal["full", "one_shot", "consecutive", "intermittent"]
    bits: Literal[32, 8, 4, 2]
    rounding: Literal["plain", "adaptive"]
    chain: Annotated[tuple[Count, ...], Meta(min_length=1, max_length=100_000)]
    """Numbers of the checkpoints that restore it, in their order: first one with all rows, at last its own."""
    id_map_sha256: Sha256 | None = None
    """The digest of the map of ids to rows that it was trained through; None where there was none."""
    tensors: Arrays

"""manifest.json of a checkpoint: a run's state at one moment, or its changes since another checkpoint."""

from typing import Annotated, Literal

from msgspec import Meta

from rules.records.codec import Count, Document, Int64, PositiveCount, Sha256
from rules.records.kept.arrays import Arrays

CHECKPOINTS_FOLDER = "checkpoints"
"""Name of the folder of a run's checkpoints, beside its attempts; checkpoint N is the subfolder N."""


class CheckpointManifest(Document, frozen=True, kw_only=True):
    """One checkpoint: the run that it belongs to, the checkpoints it builds on, and all its files. It is written
    last.

    `reference_models.training.checkpoints` describes the arrays.
    """

    benchmark: str
    benchmark_version: PositiveCount
    definition_sha256: Sha256
    dataset_sha256: Sha256 | None
    implementation: str
    seed: Int64
    samples_count: Count
    """Samples trained on when the checkpoint was taken."""
    policy: Literal["full", "one_shot", "consecutive", "intermittent"]
    bits: Literal[32, 8, 4, 2]
    rounding: Literal["plain", "adaptive"]
    chain: Annotated[tuple[Count, ...], Meta(min_length=1, max_length=100_000)]
    """Numbers of the checkpoints that restore this one, in order: the first holds all rows, the last is this one."""
    id_map_sha256: Sha256 | None = None
    """Digest of the map of ids to rows used in training; None where there was none."""
    tensors: Arrays

"""manifest.json of a checkpoint describes a training run's state after some number of samples, or its changes since
another checkpoint."""

from typing import Annotated, Literal

from msgspec import Meta

from rules.records.codec import Count, Document, Int64, PositiveCount, Sha256
from rules.records.kept.arrays import Arrays

CHECKPOINTS_FOLDER = "checkpoints"
"""Name of the folder of a run's checkpoints, in the same folder as the run's attempts; checkpoint number N is its
subfolder N."""


class CheckpointManifest(Document, frozen=True, kw_only=True):
    """Manifest of one checkpoint: the training run that it belongs to, the checkpoints it builds on, and all its
    files. It is written last, so that a checkpoint without it is incomplete.

    `reference_models.training.checkpoints` describes the arrays.
    """

    benchmark: str
    benchmark_version: PositiveCount
    definition_sha256: Sha256
    dataset_sha256: Sha256 | None
    implementation: str
    seed: Int64
    samples_count: Count
    """Number of samples trained on when the checkpoint was taken."""
    policy: Literal["full", "one_shot", "consecutive", "intermittent"]
    bits: Literal[32, 8, 4, 2]
    rounding: Literal["plain", "adaptive"]
    chain: Annotated[tuple[Count, ...], Meta(min_length=1, max_length=100_000)]
    """Numbers of the checkpoints that must be read to restore this checkpoint, in order: the first holds all
    embedding rows, the last is this checkpoint."""
    id_map_sha256: Sha256 | None = None
    """Digest of the map from categorical ids to rows of smaller embedding tables used in training; None where there
    was none."""
    tensors: Arrays

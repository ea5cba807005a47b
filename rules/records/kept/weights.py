"""extra/run_<i>/weights/manifest.json: the weights at the end of a run, one .npy file each."""

from typing import Literal

from rules.records.codec import Count, Document, Int64, PositiveCount, Sha256
from rules.records.kept.arrays import Arrays

WEIGHTS_FOLDER = "weights"
"""Name of the folder of a run's weights, beside its attempts."""


class WeightsManifest(Document, frozen=True, kw_only=True):
    """Weights at the end of a run: the run that they belong to, and all their files.

    The manifest is in the folder of the arrays, and is written last.
    """

    benchmark: str
    benchmark_version: PositiveCount
    definition_sha256: Sha256
    dataset_sha256: Sha256 | None
    implementation: str
    run_index: Count
    seed: Int64
    status: Literal["success", "not_converged"]
    samples_count: Count
    """Samples trained on in total."""
    quality: float | None
    """Quality of exactly these weights at the last evaluation; None where there was none."""
    log_sha256: Sha256
    """Digest of the run's log, which ties the weights to the run."""
    id_map_sha256: Sha256 | None = None
    """Digest of the map of ids to rows used in training; None where there was none."""
    tensors: Arrays

    @property
    def num_bytes(self) -> int:
        """Return the bytes of all files but the manifest."""
        return sum(tensor.num_bytes for tensor in self.tensors.values())

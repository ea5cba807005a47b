"""extra/run_<i>/weights/manifest.json: the weights that a run ended with, a .npy file each."""

from typing import Literal

from rules.records.codec import Count, Document, Int64, PositiveCount, Sha256
from rules.records.kept.arrays import Arrays

WEIGHTS_FOLDER = "weights"
"""The folder's name, beside the attempts of a run."""


class WeightsManifest(Document, frozen=True, kw_only=True):
    """The weights that a run ended with: whose they are, and every file of them.

    It is in the same folder, and was written last.
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
    """Trained on in all."""
    quality: float | None
    """What the last evaluation found of these very weights; None where there was none."""
    log_sha256: Sha256
    """The digest of the run's log: it ties the weights to the run."""
    id_map_sha256: Sha256 | None = None
    """The digest of the map of ids to rows that they were trained through; None where there was none."""
    tensors: Arrays

    @property
    def num_bytes(self) -> int:
        """Bytes of all files but this one."""
        return sum(tensor.num_bytes for tensor in self.tensors.values())

"""extra/run_<i>/weights/manifest.json describes the model's weights at the end of a training run, one .npy file
each."""

from typing import Literal

from rules.records.codec import Count, Document, Int64, PositiveCount, Sha256
from rules.records.kept.arrays import Arrays

WEIGHTS_FOLDER = "weights"
"""Name of the folder for the model's weights at the end of a run; it lies beside the folders of the run's
attempts."""


class WeightsManifest(Document, frozen=True, kw_only=True):
    """Manifest of the model's weights at the end of a training run: the run that they belong to, and all their files.

    The manifest is in the folder of the weights, and is written last, so that a folder without it is incomplete.
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
    """Number of samples that the run trained on in total."""
    quality: float | None
    """Quality of the stored weights at the run's last evaluation, after which no training step changed them; None
    where the weights were not evaluated."""
    log_sha256: Sha256
    """SHA-256 of the run's MLPerf log, which ties the weights to the run."""
    id_map_sha256: Sha256 | None = None
    """Digest of the map from categorical ids to rows of smaller embedding tables used in training; None where there
    was none."""
    tensors: Arrays

    @property
    def num_bytes(self) -> int:
        """Return the size in bytes of all files of the weights but the manifest."""
        return sum(tensor.num_bytes for tensor in self.tensors.values())

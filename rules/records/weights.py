"""extra/run_<i>/weights/manifest.json: the weights that a run ended with, a .npy file each; what run.json says."""

import math
from typing import Annotated, Literal

from msgspec import Meta

from rules.records.codec import Amount, Count, Document, Int64, PositiveCount, Record, Sha256

WEIGHTS_FOLDER, DRAFT_FOLDER = "weights", "weights.partial"
"""Of a run, beside its attempts; the second one while it is written."""
MANIFEST_FILE = "manifest.json"
ITEM_BYTES = {
    "float64": 8, "float32": 4, "float16": 2, "int64": 8, "int32": 4, "int16": 2, "int8": 1, "uint8": 1, "bool": 1,
}  # fmt: skip
TensorName = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_]+(\.[A-Za-z0-9_]+)*$", max_length=200)]
"""As the model calls it: words with dots between them. Its file is <name>.npy; it can lead to no other folder."""


class TensorRecord(Record, frozen=True, kw_only=True):
    """One tensor, in a file of its own name."""

    dtype: Literal["float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint8", "bool"]
    """Of the file. What NumPy has no type for is widened: bfloat16 is kept as float32, which loses nothing."""
    shape: Annotated[tuple[PositiveCount, ...], Meta(max_length=8)]
    num_bytes: Count
    """Of the whole file, its header included."""
    sha256: Sha256
    """Of the whole file."""

    @property
    def data_bytes(self) -> int:
        """Bytes of the values alone, as shape and type ask for."""
        return math.prod(self.shape) * ITEM_BYTES[self.dtype]


class WeightsManifest(Document, frozen=True, kw_only=True):
    """Whose weights they are, and every file of them. It is in the same folder, and was written last."""

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
    """Of the last evaluation, of these very weights; None where there was none."""
    log_sha256: Sha256
    """Of the run's log: it ties the weights to the run."""
    tensors: Annotated[dict[TensorName, TensorRecord], Meta(min_length=1, max_length=100_000)]

    @property
    def num_bytes(self) -> int:
        """Of all files but this one."""
        return sum(tensor.num_bytes for tensor in self.tensors.values())


class KeptWeights(Record, frozen=True, kw_only=True):
    """What run.json says of `run --keep-weights`."""

    num_bytes: Count
    """Written, of all files but the manifest; 0 where they could not be."""
    duration_s: Amount
    """After run_stop; no part of the run."""
    error: str | None
    """Why they could not be written; the run is complete without them."""
    exit_code: Int64
    """0, or what that error is worth."""

    @classmethod
    def failed(cls, error: str, exit_code: int) -> "KeptWeights":
        """Return the record of weights that are not there."""
        return cls(num_bytes=0, duration_s=0.0, error=error, exit_code=exit_code)


def npy_header(dtype: str, shape: tuple[int, ...]) -> bytes:
    """Return the header of a .npy file (format 1.0) of C order, as this product writes it and alone reads it.

    Since a reader makes it of the manifest and compares, no header of a stranger's is ever parsed.
    """
    kinds = {"float": "f", "int": "i", "uint": "u", "bool": "b"}
    item, kind = ITEM_BYTES[dtype], kinds[dtype.rstrip("0123456789")]
    described = f"{'|' if item == 1 else '<'}{kind}{item}"
    numbers = ", ".join(map(str, shape)) + ("," if len(shape) == 1 else "")
    text = f"{{'descr': '{described}', 'fortran_order': False, 'shape': ({numbers}), }}"
    padding = -(10 + len(text) + 1) % 64
    return (
        b"\x93NUMPY\x01\x00" + (len(text) + padding + 1).to_bytes(2, "little") + f"{text}{' ' * padding}\n".encode()
    )

"""Describe the arrays in a folder of .npy files, as its manifest lists them: type, shape, size and digest of each
array."""

from typing import Annotated, Literal

from msgspec import Meta

from rules.records.codec import Count, PositiveCount, Record, Sha256

MANIFEST_FILE = "manifest.json"
"""Name of the manifest (list of arrays) in a folder of .npy files; it is written last, so that a folder without it is
incomplete."""
ArrayName = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_]+(\.[A-Za-z0-9_]+)*$", max_length=200)]
"""Name of an array in a manifest: words joined by dots. The array's file is <name>.npy, and the name cannot lead to
another folder."""


class ArrayRecord(Record, frozen=True, kw_only=True):
    """Entry of a manifest for one array, which is in a .npy file of its own."""

    dtype: Literal["float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint8", "bool"]
    """NumPy type of the array in its file. A type that NumPy lacks is widened without loss: bfloat16 is stored as
    float32."""
    shape: Annotated[tuple[PositiveCount, ...], Meta(max_length=8)]
    num_bytes: Count
    """Size of the array's .npy file in bytes, the header included."""
    sha256: Sha256
    """SHA-256 of the array's whole .npy file."""


Arrays = Annotated[dict[ArrayName, ArrayRecord], Meta(min_length=1, max_length=100_000)]

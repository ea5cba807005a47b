"""Entries of a manifest of a folder of arrays: the type, shape and file of each array."""

from typing import Annotated, Literal

from msgspec import Meta

from rules.records.codec import Count, PositiveCount, Record, Sha256

MANIFEST_FILE = "manifest.json"
"""Name of the manifest in a folder of arrays; it is written last."""
ArrayName = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_]+(\.[A-Za-z0-9_]+)*$", max_length=200)]
"""Name of an array: words joined by dots. The file is <name>.npy, which cannot lead to another folder."""


class ArrayRecord(Record, frozen=True, kw_only=True):
    """An array, in a file of its own."""

    dtype: Literal["float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint8", "bool"]
    """Type in the file. A type that NumPy lacks is widened without loss: bfloat16 is stored as float32."""
    shape: Annotated[tuple[PositiveCount, ...], Meta(max_length=8)]
    num_bytes: Count
    """Size of the whole file in bytes, the header included."""
    sha256: Sha256
    """Digest of the whole file."""


Arrays = Annotated[dict[ArrayName, ArrayRecord], Meta(min_length=1, max_length=100_000)]
